//! Packages of Node, for tests: a folder below the target folder, made once and kept. Node itself is Debian's where there is none.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::postgres::apt_get;

/// OpenAI's own SDK, what browsers follow events with, a generator of clients, and packages that bring skills, with
/// fixed versions.
const PACKAGES: [&str; 7] = [
    "openai",
    "eventsource",
    "openapi-typescript@7.13.0",
    "openapi-fetch@0.17.0",
    "typescript@5.9.3",
    "@tanstack/intent@0.4.0",
    "@tanstack/db@0.15.2",
];

/// Returns the folder, with the packages installed.
pub(crate) fn folder() -> Result<PathBuf, String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").filter(|it| !it.is_empty()).map(PathBuf::from);
    let target = target.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target"));
    let folder = target.join("sdk-node");
    let failed = |err: std::io::Error| format!("{}: {err}", folder.display());
    fs::create_dir_all(&folder).map_err(failed)?;
    let folder = folder.canonicalize().map_err(failed)?;
    // What is written last says that everything before has happened.
    let mark = folder.join(format!("installed-{}", PACKAGES.join("-").replace('/', "_")));
    if !mark.exists() {
        println!("\n==> installing packages for Node in {}", folder.display());
        install(&folder)?;
        fs::write(&mark, "").map_err(|err| format!("{}: {err}", mark.display()))?;
    }
    Ok(folder)
}

fn install(folder: &Path) -> Result<(), String> {
    // Without one npm looks for a package in the folders above.
    let package = folder.join("package.json");
    fs::write(&package, "{\"private\": true}\n").map_err(|err| format!("{}: {err}", package.display()))?;
    if Command::new("npm").arg("--version").output().is_err() {
        apt_get(&["update"])?;
        apt_get(&["install", "-y", "--no-install-recommends", "nodejs", "npm"])?;
    }
    let mut command = Command::new("npm");
    command.args(["install", "--no-audit", "--no-fund", "--ignore-scripts"]).args(PACKAGES);
    match command.current_dir(folder).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`npm install` ended with {status}")),
        Err(err) => Err(format!("`npm install`: {err}; Node must be installed")),
    }
}
