//! The command line of Contexture.
//!
//! `args` parses the arguments, `commands` has one module per command, each a function from arguments to a
//! [`Reply`](output::Reply), and `output` prints it. Only this crate accesses the environment, the system clock, the
//! terminal and exit codes.

mod args;
mod bar;
mod clock;
mod commands;
mod dotenv;
mod error;
mod live;
mod models;
mod output;
mod paint;
mod pass;
mod proxies;
mod read;
mod root;
mod runtime;
mod snippet;
mod stage;
mod store;
mod table;
mod telemetry;
mod transcript;
mod turn;
mod type_ahead;
mod wrap;

use std::process::ExitCode;

fn main() -> ExitCode {
    let screen = output::Screen::of_stdout();
    let (json, outcome) = match args::parse(std::env::args_os()) {
        Ok(cli) => {
            let globals = cli.globals.clone();
            let outcome = commands::run(cli, screen);
            (globals.json, outcome.map_err(|it| it.with_lines(root::root_of(&globals).as_deref())))
        }
        Err(stop) => (stop.json, stop.outcome),
    };
    output::print(screen, json, outcome)
}
