//! `init`: writes a small complete project.

use contexture_message::ErrorCode;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::args::{Globals, InitArgs};
use crate::error::Failure;
use crate::output::Reply;
use crate::terminal::paint::{BOLD, GREEN, paint, visible};

/// The files of the new project.
const FILES: [(&str, &str); 7] = [
    ("contexture.toml", include_str!("../../templates/contexture.toml")),
    ("prompts/support.md", include_str!("../../templates/prompts/support.md")),
    ("contexts/brand.md", include_str!("../../templates/contexts/brand.md")),
    ("contexts/german.md", include_str!("../../templates/contexts/german.md")),
    ("contexts/orders.md", include_str!("../../templates/contexts/orders.md")),
    ("contexts/priority-support.md", include_str!("../../templates/contexts/priority-support.md")),
    ("partials/order.liquid", include_str!("../../templates/partials/order.liquid")),
];

pub(super) fn run(args: &InitArgs, globals: &Globals) -> Result<Reply, Failure> {
    let base = globals.project.clone().unwrap_or_default();
    let dir = args.dir.as_ref().map_or_else(|| base.clone(), |it| base.join(it));
    let existing: Vec<String> = FILES
        .iter()
        .map(|(path, _)| dir.join(path))
        .filter(|it| it.symlink_metadata().is_ok())
        .map(shown)
        .collect();
    if !existing.is_empty() {
        let message = format!("nothing is written: {} already there", listed(&existing));
        let failure = Failure::new(ErrorCode::FileExists, message).at(existing[0].clone()).sources(existing);
        return Err(failure.hint("choose another folder: `contexture init DIR`"));
    }
    for (path, text) in FILES {
        write(&dir.join(path), text)?;
    }
    let names: Vec<&str> = FILES.iter().map(|(path, _)| *path).collect();
    if globals.json {
        let dir = if dir.as_os_str().is_empty() { ".".to_owned() } else { shown(dir) };
        return Ok(Reply::json(json!({"dir": dir, "files": names})));
    }
    Ok(Reply::styled(page(&dir, &names)))
}

/// Writes a new file; a file that appeared in the meantime is not overwritten.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let create = || -> io::Result<()> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::OpenOptions::new().write(true).create_new(true).open(path)?.write_all(text.as_bytes())
    };
    let name = shown(path.to_owned());
    create()
        .map_err(|err| Failure::new(ErrorCode::WriteFailed, format!("cannot write `{name}`: {err}")).at(name))
}

fn page(dir: &Path, files: &[&str]) -> String {
    let mut lines: Vec<String> = files
        .iter()
        .map(|it| format!("{} {}", paint(GREEN, "created"), visible(&shown(dir.join(it)))))
        .collect();
    lines.push(String::new());
    lines.push(paint(BOLD, "Try:"));
    if !dir.as_os_str().is_empty() {
        lines.push(format!("  cd {}", visible(&shown(dir.to_owned()))));
    }
    lines.extend(
        [
            "inspect support --set plan=pro --set locale=de",
            "run support --user 'Where is my order?'",
            "chat",
            "serve",
            "lint",
        ]
        .map(|it| format!("  contexture {it}")),
    );
    lines.join("\n")
}

fn listed(paths: &[String]) -> String {
    let quoted: Vec<String> = paths.iter().map(|it| format!("`{it}`")).collect();
    let verb = if paths.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", quoted.join(", "))
}

fn shown(path: PathBuf) -> String {
    path.display().to_string()
}
