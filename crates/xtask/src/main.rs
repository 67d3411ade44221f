//! Chores of the workspace. `cargo xtask help` lists them.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod arrows;
mod model;
mod modules;
mod node;
mod postgres;
mod python;
mod steps;

use std::process::ExitCode;

const HELP: &str = "\
Usage: cargo xtask CHORE

  test     everything that must hold: formatting, lints, arrows, unit, case, property and doc tests; with a
           PostgreSQL server, a small local model and the official SDKs, which are installed if need be; the
           servers are started for the tests and stopped again
  lint     formatting, clippy with warnings denied, dependency arrows
  arrows   checks that crates point down only and that modules of a crate point one way
  bench    compares the jobs of contexture-bench with their floors
  model    serves a small real model on loopback, installed if need be, until Ctrl-C
           [--port N] (8171) [--dir DIR] (contexture/model in the user's cache) [--background]
  python   prints a Python that has the official SDKs, for tests that are run by hand
  node     prints a folder that has the packages of Node, for the same
  help     this text
";

fn main() -> ExitCode {
    let chore = std::env::args().nth(1).unwrap_or_else(|| "help".to_owned());
    let outcome = match chore.as_str() {
        "test" => steps::test(),
        "lint" => steps::lint(),
        "arrows" => steps::arrows(),
        "bench" => steps::bench(),
        "model" => model::chore(&std::env::args().skip(2).collect::<Vec<_>>()),
        "python" => steps::python(),
        "node" => steps::node(),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(())
        }
        other => Err(format!("there is no chore `{other}`\n\n{HELP}")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}
