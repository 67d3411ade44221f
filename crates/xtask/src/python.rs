//! Python packages for tests: a virtual environment in the user's cache, made once and kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::postgres::apt_get;

/// Packages that are installed together.
pub(crate) struct Packages {
    /// What they are for.
    pub(crate) what: &'static str,
    /// Installed with everything they need.
    pub(crate) whole: &'static [&'static str],
    /// Installed alone.
    pub(crate) alone: &'static [&'static str],
}

/// The official SDKs that judge what we send and answer, the validator of Agent Skills, Schemathesis, which judges the
/// server, and a generator of clients. What finds more with every version has a fixed one: what was good yesterday is good today.
pub(crate) const JUDGES: Packages = Packages {
    what: "the official SDKs, the validator of skills, Schemathesis and a generator of clients",
    whole: &[
        "openai",
        "anthropic",
        "google-genai",
        "jsonschema",
        "skills-ref==0.1.1",
        "schemathesis==4.32.5",
        "openapi-spec-validator==0.9.0",
        "openapi-python-client==0.29.1",
    ],
    alone: &[],
};

/// Returns the folder for what is kept between runs.
pub(crate) fn cache_folder() -> Result<PathBuf, String> {
    let given = |name: &str| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    let cache = given("XDG_CACHE_HOME").or_else(|| given("HOME").map(|it| it.join(".cache")));
    Ok(cache.ok_or("neither `XDG_CACHE_HOME` nor `HOME` is set")?.join("contexture").join("model"))
}

/// Returns the Python of the environment in `folder`, with the packages installed.
pub(crate) fn with(packages: &Packages, folder: &Path) -> Result<PathBuf, String> {
    let python = environment(folder)?;
    let names = [packages.whole, packages.alone].concat().join(" ");
    // What is written last says that everything before has happened.
    let mark = folder.join(format!("installed-{}", names.replace(' ', "-")));
    if mark.exists() {
        return Ok(python);
    }
    println!("\n==> installing {}: {names}", packages.what);
    let started = Instant::now();
    install(&python, &[], packages.whole)?;
    install(&python, &["--no-deps"], packages.alone)?;
    fs::write(&mark, "").map_err(|err| format!("{}: {err}", mark.display()))?;
    println!("==> {:.0} s", started.elapsed().as_secs_f64());
    Ok(python)
}

fn install(python: &Path, options: &[&str], names: &[&str]) -> Result<(), String> {
    if names.is_empty() {
        return Ok(());
    }
    let mut command = Command::new(python);
    command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"]);
    run(command.args(options).args(names), "pip install")
}

/// Returns the environment's Python; one that does not work is made anew.
fn environment(folder: &Path) -> Result<PathBuf, String> {
    let (venv, python) = (folder.join("venv"), folder.join("venv").join("bin").join("python"));
    if works(&python) {
        return Ok(python);
    }
    println!("\n==> a Python environment in {}", venv.display());
    fs::create_dir_all(folder).map_err(|err| format!("{}: {err}", folder.display()))?;
    let make = || {
        let mut command = Command::new("python3");
        run(command.args(["-m", "venv", "--clear"]).arg(&venv), "python3 -m venv")
    };
    if make().is_err() {
        // Debian keeps it in a package of its own.
        apt_get(&["update"])?;
        apt_get(&["install", "-y", "--no-install-recommends", "python3", "python3-venv"])?;
        make()?;
    }
    Ok(python)
}

fn works(python: &Path) -> bool {
    let mut command = Command::new(python);
    command.args(["-m", "pip", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|it| it.success())
}

fn run(command: &mut Command, what: &str) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{what}` ended with {status}")),
        Err(err) => Err(format!("`{what}`: {err}")),
    }
}
