//! The only callers of the API in most tests: text in, text out.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use contexture_compose::ResolveOptions;
use contexture_project::{Fault, InMemory, Project, ProjectError};
use serde_json::Value;

/// Reads a project in memory.
pub(crate) fn project(files: &[(&str, &str)]) -> Project {
    Project::from_files(Arc::new(InMemory::new(files.iter().copied()))).unwrap()
}

/// Lists faults, one a line: place, code, message and hint.
pub(crate) fn listed(faults: &[Fault]) -> String {
    let line = |it: &Fault| {
        let hint = it.hint.as_ref().map(|hint| format!(" [{hint}]")).unwrap_or_default();
        format!("{} {}: {}{hint}", it.at().unwrap_or_default(), it.code, it.message)
    };
    faults.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// What is wrong with the prompt `p`.
pub(crate) fn faults(files: &[(&str, &str)]) -> String {
    match project(files).prompt("p") {
        Ok(_) => "fine".to_owned(),
        Err(err) => listed(&err.faults),
    }
}

/// What is wrong with a prompt that is a single file.
pub(crate) fn faults_of(text: &str) -> String {
    faults(&[("prompts/p.md", text)])
}

/// Resolves the prompt `p` and lists its messages, `role: text`.
pub(crate) fn resolved(files: &[(&str, &str)], input: Value) -> String {
    let project = project(files);
    let outcome = project.prompt("p").and_then(|prompt| {
        let options = ResolveOptions { input, ..project.options(prompt, None, None) };
        futures::executor::block_on(prompt.resolve(options)).map_err(|err| ProjectError::from(&err))
    });
    match outcome {
        Err(err) => listed(&err.faults),
        Ok(pass) => {
            let messages = pass.request().messages.iter();
            let line = |it: &Arc<contexture_message::Message>| {
                format!("{}: {}", it.role.as_str(), it.as_text().unwrap_or("?"))
            };
            messages.map(line).collect::<Vec<_>>().join("\n")
        }
    }
}

/// A folder that is removed when the test ends.
pub(crate) struct Temporary(pub(crate) PathBuf);

impl Temporary {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name =
            format!("contexture-project-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn write(&self, path: &str, bytes: impl AsRef<[u8]>) -> &Self {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
        self
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
