//! Chores of the workspace. `cargo xtask help` lists them.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod arrows;
mod postgres;
mod steps;

use std::process::ExitCode;

const HELP: &str = "\
Usage: cargo xtask CHORE

  test     everything that must hold: formatting, lints, arrows, unit, case, property and doc tests; with a
           PostgreSQL server that is installed if need be, started in a temporary folder and stopped again
  lint     formatting, clippy with warnings denied, dependency arrows
  arrows   checks that dependencies between crates point down only
  bench    compares the jobs of contexture-bench with their floors
  help     this text
";

fn main() -> ExitCode {
    let chore = std::env::args().nth(1).unwrap_or_else(|| "help".to_owned());
    let outcome = match chore.as_str() {
        "test" => steps::test(),
        "lint" => steps::lint(),
        "arrows" => steps::arrows(),
        "bench" => steps::bench(),
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
