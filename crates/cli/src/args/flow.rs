//! The arguments of `flow`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{InputArgs, help};

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
    /// Run a flow: it is driven until it is over, or waits for an answer.
    #[command(after_help = help::FLOW_RUN)]
    Run(FlowRunArgs),
    /// List runs.
    Runs(FlowRunsArgs),
    /// Show a run: what became of it, what it waits for, and what happened in it.
    Show(FlowShowArgs),
    /// Go on with a run: answer what it waits for, or take it over from a process that is gone.
    #[command(after_help = help::FLOW_RESUME)]
    Resume(FlowResumeArgs),
    /// Cancel a run.
    Cancel(FlowCancelArgs),
    /// Forget runs that are over, of all tenants, and what only they needed.
    #[command(after_help = help::FLOW_FORGET)]
    Forget(FlowForgetArgs),
}

/// How a run is driven and shown.
#[derive(Debug, Args)]
pub(crate) struct DriveArgs {
    /// Print every event of the run as a line of JSON.
    #[arg(long)]
    pub(crate) events: bool,
    /// Do not ask: leave a run that waits.
    #[arg(long)]
    pub(crate) detach: bool,
    /// Approve every tool call that asks for it.
    #[arg(long)]
    pub(crate) yes: bool,
    /// Show what models think, on standard error.
    #[arg(long)]
    pub(crate) thinking: bool,
    #[command(flatten)]
    pub(crate) store: RunStoreArgs,
}

/// Where runs are kept.
#[derive(Debug, Args)]
pub(crate) struct RunStoreArgs {
    /// The store: `sqlite:PATH`, `postgres://…` or `memory:`; by default CONTEXTURE_STORE_URL, or what contexture.toml says.
    #[arg(long, value_name = "URL", help_heading = "Store")]
    pub(crate) store: Option<String>,
    /// Whose runs.
    #[arg(long, value_name = "TENANT", default_value = "default", help_heading = "Store")]
    pub(crate) tenant: String,
}

#[derive(Debug, Args)]
pub(crate) struct FlowRunArgs {
    /// The flow's id; `contexture flow list` lists them.
    pub(crate) flow: String,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// The session, made if it is not there; without one the run gets a new one.
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// The same key again gives the first run, not a second one.
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    #[command(flatten)]
    pub(crate) drive: DriveArgs,
}

#[derive(Debug, Args)]
pub(crate) struct FlowResumeArgs {
    /// The run's id; `contexture flow runs` lists them.
    pub(crate) run: String,
    /// An answer: the wait's id and the value, which is text where text is expected, and elsewhere JSON. Can be repeated.
    #[arg(long = "answer", value_name = "WAIT=VALUE")]
    pub(crate) answers: Vec<String>,
    #[command(flatten)]
    pub(crate) drive: DriveArgs,
}

#[derive(Debug, Args)]
pub(crate) struct FlowRunsArgs {
    /// Only runs of this flow.
    #[arg(long, value_name = "FLOW")]
    pub(crate) flow: Option<String>,
    /// Only runs of this session.
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Only runs with this status.
    #[arg(long, value_enum, value_name = "STATUS")]
    pub(crate) status: Option<StatusName>,
    /// How many at most.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) store: RunStoreArgs,
}

/// What becomes of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatusName {
    Running,
    Waiting,
    Completed,
    Failed,
    Cancelled,
}

#[derive(Debug, Args)]
pub(crate) struct FlowShowArgs {
    /// The run's id; `contexture flow runs` lists them.
    pub(crate) run: String,
    #[command(flatten)]
    pub(crate) store: RunStoreArgs,
}

#[derive(Debug, Args)]
pub(crate) struct FlowCancelArgs {
    /// The run's id; `contexture flow runs` lists them.
    pub(crate) run: String,
    #[command(flatten)]
    pub(crate) store: RunStoreArgs,
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

#[derive(Debug, Args)]
pub(crate) struct FlowForgetArgs {
    /// How long they have been over: hours, days or weeks, such as `12h`, `30d` or `4w`.
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub(crate) before: Age,
    /// Do not ask.
    #[arg(long)]
    pub(crate) yes: bool,
    /// The store: `sqlite:PATH` or `postgres://…`; by default CONTEXTURE_STORE_URL, or what contexture.toml says.
    #[arg(long, value_name = "URL", help_heading = "Store")]
    pub(crate) store: Option<String>,
}

/// How long ago something was, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Age(pub(crate) i64);

fn age(text: &str) -> Result<Age, String> {
    let split = text.char_indices().next_back().map_or(0, |it| it.0);
    let (number, unit) = text.split_at(split);
    let hours = match unit {
        "h" => Some(1),
        "d" => Some(24),
        "w" => Some(24 * 7),
        _ => None,
    };
    // A sign is no digit.
    let number = number.parse::<u32>().ok().filter(|_| number.bytes().all(|it| it.is_ascii_digit()));
    match (number, hours) {
        (Some(number), Some(hours)) => Ok(Age(i64::from(number) * hours * 3_600_000)),
        _ => Err("it is a number of hours, days or weeks: `12h`, `30d`, `4w`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Age, age};

    #[test]
    fn ages_are_hours_days_and_weeks() {
        assert_eq!(age("12h"), Ok(Age(12 * 3_600_000)));
        assert_eq!(age("0d"), Ok(Age(0)));
        assert_eq!(age("2w"), Ok(Age(14 * 24 * 3_600_000)));
        assert_eq!(age("4294967295w"), Ok(Age(4_294_967_295 * 168 * 3_600_000)));
        for wrong in ["", "h", "12", "-1h", "+1h", "1.5d", "1m", "1 d", "1ä", "99999999999h"] {
            assert!(age(wrong).is_err(), "{wrong}");
        }
    }
}
