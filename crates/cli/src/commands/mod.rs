//! One module per command, each a function from arguments to a reply. Commands print nothing themselves, except live
//! output, progress lines and warnings.

mod audit;
mod blocks;
mod chat;
mod compact;
mod completions;
mod diff;
mod flow;
mod init;
mod inspect;
mod keys;
mod knowledge;
mod lint;
mod memory;
mod prompts;
mod render;
mod resolve;
mod run;
mod serve;
mod sessions;
mod skills;
mod tokens;
mod window;
mod wire;

use crate::args::{Cli, Command};
use crate::error::Failure;
use crate::output::Reply;
use crate::terminal::Screen;

/// Runs a command.
pub(crate) fn run(cli: Cli, screen: Screen) -> Result<Reply, Failure> {
    let globals = cli.globals;
    match cli.command {
        Command::Init(args) => init::run(&args, &globals),
        Command::Resolve(args) => resolve::run(&args, &globals, screen),
        Command::Inspect(args) => inspect::run(&args, &globals, screen),
        Command::Run(args) => run::run(&args, &globals, screen),
        Command::Chat(args) => chat::run(&args, &globals, screen),
        Command::Compact(args) => compact::run(args, &globals),
        Command::Diff(args) => diff::run(&args, &globals, screen),
        Command::Render(args) => render::run(&args, globals.json),
        Command::Window(args) => window::run(&args, globals.json),
        Command::Tokens(args) => tokens::run(&args, globals.json, screen),
        Command::Lint(args) => lint::run(&args, &globals, screen),
        Command::Prompts => prompts::run(&globals, screen),
        Command::Blocks(args) => blocks::run(&args, &globals, screen),
        Command::Flow(args) => flow::run(&args, &globals, screen),
        Command::Sessions(args) => sessions::run(&args, &globals, screen),
        Command::Knowledge(args) => knowledge::run(&args, &globals, screen),
        Command::Skills(args) => skills::run(&args, &globals, screen),
        Command::Memory(args) => memory::run(&args, &globals, screen),
        Command::Serve(args) => serve::run(&args, &globals),
        Command::Keys(args) => keys::run(&args, &globals, screen),
        Command::Audit(args) => audit::run(&args, &globals, screen),
        Command::Completions(args) => Ok(completions::run(&args, globals.json)),
    }
}
