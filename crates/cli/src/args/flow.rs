//! The arguments of `flow`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::help;

#[derive(Debug, Args)]
pub(crate) struct FlowArgs {
    #[command(subcommand)]
    pub(crate) command: FlowCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FlowCommand {
    /// List the flows of the project.
    List,
    /// Check flows: nodes, ports, types, edges, loops, and the prompts and tools that they name.
    #[command(after_help = help::FLOW_CHECK)]
    Check(FlowCheckArgs),
    /// Draw a flow, for Mermaid or as SVG.
    #[command(after_help = help::FLOW_GRAPH)]
    Graph(FlowGraphArgs),
}

#[derive(Debug, Args)]
pub(crate) struct FlowCheckArgs {
    /// The flow's id; by default all are checked.
    pub(crate) flow: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct FlowGraphArgs {
    /// The flow's id; `contexture flow list` lists them.
    pub(crate) flow: String,
    /// How it is drawn.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = GraphFormat::Mermaid)]
    pub(crate) format: GraphFormat,
    /// Write to a file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// How a flow is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphFormat {
    Mermaid,
    Svg,
}
