//! The command line of Contexture.
//!
//! `args` parses the arguments, `commands` has one module per command, each a function from arguments to a
//! [`Reply`](output::Reply), and `output` prints it. Only this crate accesses the environment, the system clock, the
//! terminal and exit codes.

mod args;
mod clock;
mod commands;
mod error;
mod live;
mod output;
mod pass;
mod read;
mod setup;
mod stage;
mod terminal;
mod transcript;
mod turn;

use std::process::ExitCode;

use setup::root;

/// A turn of the server makes some thousand small allocations on many threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let screen = terminal::Screen::of_stdout();
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
