//! The chores, each a list of commands.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::model::{self, LocalModel};
use crate::{arrows, modules, node, postgres, python};

/// The environment variable with a Python that has the official SDKs, for tests.
const PYTHON_VARIABLE: &str = "CONTEXTURE_TEST_PYTHON";
/// The environment variable with a folder that has the packages of Node, for tests.
const NODE_VARIABLE: &str = "CONTEXTURE_TEST_NODE";

/// Runs everything that must hold.
pub(crate) fn test() -> Result<(), String> {
    lint()?;
    examples()?;
    // Servers run until the end of this function, however it ends.
    let server = postgres::start()?;
    let model = LocalModel::start()?;
    let judges = python::with(&python::JUDGES, &python::cache_folder()?)?;
    let env = [
        (contexture_pgtest::URL_VARIABLE, server.url()),
        (model::URL_VARIABLE, model.url().to_owned()),
        (PYTHON_VARIABLE, judges.display().to_string()),
        (NODE_VARIABLE, node::folder()?.display().to_string()),
    ];
    cargo_with(&env, &["test", "--workspace", "--doc", "--locked"])?;
    // Every failure of a run, not only those of the first crate that fails.
    cargo_with(&env, &["test", "--workspace", "--all-targets", "--locked", "--no-fail-fast"])
}

/// Prints a Python that has the official SDKs.
pub(crate) fn python() -> Result<(), String> {
    let python = python::with(&python::JUDGES, &python::cache_folder()?)?;
    println!("{PYTHON_VARIABLE}={}", python.display());
    Ok(())
}

/// Prints a folder that has the packages of Node.
pub(crate) fn node() -> Result<(), String> {
    println!("{NODE_VARIABLE}={}", node::folder()?.display());
    Ok(())
}

/// Checks formatting, lints and arrows.
pub(crate) fn lint() -> Result<(), String> {
    cargo(&["fmt", "--all", "--check"])?;
    arrows()?;
    cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])?;
    features()
}

/// The features of the facade that applications choose alone; together they are what the workspace builds.
const FEATURES: [&str; 4] = ["", "http", "sqlite", "flow"];

/// Checks that the facade builds with each choice of features.
fn features() -> Result<(), String> {
    let facade = ["check", "--locked", "-p", "contexture", "--no-default-features", "--features"];
    FEATURES.iter().try_for_each(|it| cargo(&[&facade[..], &[it]].concat()))
}

/// Checks that crates point down only, and that the modules of a crate point one way.
pub(crate) fn arrows() -> Result<(), String> {
    crates_point_down()?;
    modules_point_one_way()
}

fn crates_point_down() -> Result<(), String> {
    let output = Command::new(cargo_program())
        .args(["metadata", "--format-version", "1", "--no-deps", "--locked"])
        .output()
        .map_err(|err| format!("cargo metadata: {err}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let upward = arrows::upward(&output.stdout)?;
    if upward.is_empty() {
        Ok(())
    } else {
        Err(format!("arrows that do not point down:\n{}", upward.join("\n")))
    }
}

fn modules_point_one_way() -> Result<(), String> {
    let mut all = Vec::new();
    for root in crate_roots()? {
        let knots = modules::knots(&root)?;
        all.extend(knots.into_iter().map(|it| format!("{}: {it}", root.display())));
    }
    if all.is_empty() { Ok(()) } else { Err(format!("modules that use each other:\n{}", all.join("\n"))) }
}

fn crate_roots() -> Result<Vec<PathBuf>, String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = std::fs::read_dir(crates).map_err(|err| format!("crates: {err}"))?;
    let mut folders: Vec<PathBuf> = folders.filter_map(|it| Some(it.ok()?.path().join("src"))).collect();
    folders.sort();
    let roots = folders.iter().flat_map(|it| ["lib.rs", "main.rs"].map(|file| it.join(file)));
    Ok(roots.filter(|it| it.exists()).collect())
}

/// Runs the examples, so that they keep working and not only compile.
fn examples() -> Result<(), String> {
    ["hello", "composition", "custom_contributor", "sessions", "agent", "flow_nodes"].iter().try_for_each(
        |it| {
            cargo(&[
                "run",
                "--quiet",
                "--locked",
                "-p",
                "contexture",
                "--features",
                "project",
                "--example",
                it,
            ])
        },
    )
}

/// Compares the benchmark jobs with their floors.
pub(crate) fn bench() -> Result<(), String> {
    cargo(&["run", "--release", "--locked", "-p", "contexture-bench", "--", "compare"])
}

fn cargo(args: &[&str]) -> Result<(), String> {
    cargo_with(&[], args)
}

fn cargo_with(env: &[(&str, String)], args: &[&str]) -> Result<(), String> {
    let shown = args.join(" ");
    println!("\n==> cargo {shown}");
    let started = Instant::now();
    let mut command = Command::new(cargo_program());
    command.args(args).envs(env.iter().map(|(name, value)| (name, value)));
    let status = command.status().map_err(|err| format!("cargo {shown}: {err}"))?;
    println!("==> {:.0} s", started.elapsed().as_secs_f64());
    if status.success() { Ok(()) } else { Err(format!("`cargo {shown}` failed")) }
}

fn cargo_program() -> String {
    // Set by cargo for the programs it runs: the same toolchain does the rest.
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::process::Command;

    use super::cargo_program;

    /// The most crates that an application compiles for composing alone.
    const MOST_CRATES: usize = 90;

    #[test]
    fn the_facade_without_features_is_small() {
        let args = ["tree", "--locked", "-p", "contexture", "--no-default-features", "-e", "normal"];
        let output = Command::new(cargo_program()).args(args).args(["--prefix", "none"]).output().unwrap();
        let listed = String::from_utf8(output.stdout).unwrap();
        let names: BTreeSet<&str> = listed.lines().filter_map(|it| it.split(' ').next()).collect();
        assert!(names.contains("contexture-compose"), "{listed}");
        assert!(names.len() <= MOST_CRATES, "{} crates: {names:?}", names.len());
    }
}
