//! `flow`: the flows of the project.

mod check;
mod drive;
mod forget;
mod graph;
mod list;
mod runs;
mod setup;
mod show;
mod speakers;
mod told;
mod waits;

use contexture_flow::Flow;

use super::resolve::counted;
use crate::args::{FlowArgs, FlowCommand, Globals};
use crate::error::Failure;
use crate::output::Reply;
use crate::setup::root;
use crate::terminal::Screen;

pub(super) fn run(args: &FlowArgs, globals: &Globals, screen: Screen) -> Result<Reply, Failure> {
    let project = || root::open(globals);
    match &args.command {
        FlowCommand::List => Ok(list::run(&project()?, globals.json, screen)),
        FlowCommand::Check(args) => check::run(args, &project()?, globals.json, screen),
        FlowCommand::Graph(args) => graph::run(args, &project()?, globals.json),
        FlowCommand::Run(args) => drive::run(args, globals, screen),
        FlowCommand::Resume(args) => drive::resume(args, globals, screen),
        FlowCommand::Runs(args) => runs::run(args, globals),
        FlowCommand::Show(args) => show::run(args, globals, screen),
        FlowCommand::Cancel(args) => drive::cancel(args, globals),
        FlowCommand::Forget(args) => forget::run(args, globals),
    }
}

/// The message for a project without flows.
const NONE: &str = "The project has no flows; they go to flows/NAME.yaml.";

/// Describes the size of a flow as its author wrote it.
fn extent(flow: &Flow) -> String {
    let definition = flow.definition();
    format!("{}, {}", counted(definition.nodes.len(), "node"), counted(definition.edges.len(), "edge"))
}
