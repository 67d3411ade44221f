//! Runs the built program in temporary folders.

mod assistant;
mod cases;
mod chat;
mod commands;
mod compaction;
mod docs;
mod errors;
mod flow;
mod flow_examples;
mod flow_runs;
mod judge;
mod knowledge;
mod local;
mod memory;
mod pages;
mod readme;
mod run;
mod serve;
mod served;
mod serving;
mod sessions;
mod skills;
mod telemetry;
#[cfg(unix)]
mod terminal;
mod window;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// What the program did.
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// Returns the one JSON document that was printed.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|err| panic!("{err}: {}{}", self.stdout, self.stderr))
    }

    /// Returns everything a person would see, with how it ended.
    pub(crate) fn shown(&self) -> String {
        let code = self.code.map_or("none".to_owned(), |it| it.to_string());
        format!("{}{}[exit {code}]", self.stdout, self.stderr)
    }
}

/// A folder with files.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let folder = Self(TempDir::new().expect("temporary folders can be made"));
        files.into_iter().for_each(|(path, text)| folder.write(path, text));
        folder
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().expect("it is in a folder")).expect("folders can be made");
        fs::write(path, text).expect("files can be written");
    }

    /// Runs the program in the folder, without anything of our environment.
    pub(crate) fn run(&self, args: &[&str]) -> Run {
        self.run_with(args, "", &[])
    }

    pub(crate) fn run_with(&self, args: &[&str], stdin: &str, variables: &[(&str, &str)]) -> Run {
        let mut child =
            self.command(args).envs(variables.iter().copied()).spawn().expect("the program starts");
        let mut pipe = child.stdin.take().expect("it is piped");
        // A program that does not read its input closes it early, which is no fault.
        let _ = pipe.write_all(stdin.as_bytes());
        drop(pipe);
        let output = child.wait_with_output().expect("the program ends");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the program prints UTF-8");
        Run { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_contexture"));
        command.args(args).current_dir(self.path()).env_clear();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// The project that `init` writes.
pub(crate) fn initialised() -> Folder {
    let folder = Folder::new([]);
    let run = folder.run(&["init"]);
    assert_eq!(run.code, Some(0), "{}", run.shown());
    folder
}
