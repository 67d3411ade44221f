//! The arguments of `run`, `chat` and `compact`.

use clap::Args;

use super::{InputArgs, ModelArgs, ScopeArgs};

/// What `run` and `chat` have in common.
#[derive(Debug, Args)]
pub(crate) struct TalkArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Refuse input keys that no schema declares, instead of warning about them.
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// The most tokens the model may write at a time.
    #[arg(long, value_name = "N", help_heading = "Model")]
    pub(crate) max_tokens: Option<u32>,
    /// How freely the model chooses its words.
    #[arg(long, value_name = "T", help_heading = "Model")]
    pub(crate) temperature: Option<f64>,
    /// Show what the model thinks, on standard error.
    #[arg(long, help_heading = "Model")]
    pub(crate) thinking: bool,
    /// Approve every tool call that asks for it.
    #[arg(long, help_heading = "Model")]
    pub(crate) yes: bool,
    /// A skill to load; one that is active stays as it is. Can be repeated.
    #[arg(long = "skill", value_name = "NAME", help_heading = "Conversation")]
    pub(crate) skills: Vec<String>,
    /// The session, made if it is not there.
    #[arg(long, value_name = "ID", help_heading = "Conversation")]
    pub(crate) session: Option<String>,
    /// The store: `sqlite:PATH`, `postgres://…` or `memory:`; by default CONTEXTURE_STORE_URL, or what contexture.toml says.
    #[arg(long, value_name = "URL", help_heading = "Conversation")]
    pub(crate) store: Option<String>,
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The prompt's id; `contexture prompts` lists them.
    pub(crate) prompt: String,
    /// What the user says; `-` for standard input.
    #[arg(short, long, value_name = "TEXT|-", help_heading = "Conversation")]
    pub(crate) user: Option<String>,
    #[command(flatten)]
    pub(crate) talk: TalkArgs,
    /// Context for this turn, hidden beside what the user says: a name and its text, or `@FILE`. Can be repeated.
    #[arg(long = "block", value_name = "NAME=TEXT|@FILE", help_heading = "Conversation")]
    pub(crate) blocks: Vec<String>,
    /// A reminder for this turn, hidden behind what the user says. Can be repeated.
    #[arg(long = "remind", value_name = "TEXT", help_heading = "Conversation")]
    pub(crate) reminders: Vec<String>,
    /// Evaluate the blocks of the frozen prefix again, although the session keeps what they said.
    #[arg(long, requires = "session", help_heading = "Conversation")]
    pub(crate) refresh: bool,
    /// The same key again gives the first answer, not a second one.
    #[arg(long, value_name = "KEY", requires = "session", help_heading = "Conversation")]
    pub(crate) key: Option<String>,
    /// Decide about a tool call that waits in the session, and go on with its turn: the approval's id and its token, as
    /// `--json` or `--events` printed them.
    #[arg(long, num_args = 2, value_names = ["APPROVAL", "TOKEN"], requires = "session", help_heading = "Conversation")]
    #[arg(conflicts_with_all = ["user", "key", "blocks", "reminders", "refresh", "skills"])]
    pub(crate) decide: Vec<String>,
    /// Deny the call, with a reason for the model, instead of approving it.
    #[arg(long, value_name = "REASON", num_args = 0..=1, default_missing_value = "", requires = "decide")]
    #[arg(help_heading = "Conversation")]
    pub(crate) deny: Option<String>,
    /// Print what happens as JSON lines, as it happens.
    #[arg(long, conflicts_with = "json")]
    pub(crate) events: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// The prompt's id; by default the project's only one, or `chat`, or a small one of this program.
    pub(crate) prompt: Option<String>,
    #[command(flatten)]
    pub(crate) talk: TalkArgs,
    /// Go on with the session that was written to last.
    #[arg(long, conflicts_with = "session", help_heading = "Conversation")]
    pub(crate) last: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CompactArgs {
    /// The session.
    #[arg(value_name = "SESSION")]
    pub(crate) id: String,
    /// The prompt of the conversation: its summary is asked for with the same beginning; chosen like that of `chat`.
    #[arg(long, value_name = "ID")]
    pub(crate) prompt: Option<String>,
    /// An isolated thread of the session; by default its main one.
    #[arg(long, value_name = "THREAD")]
    pub(crate) thread: Option<String>,
    /// Take the newest archive back instead: the model reads again what it covers. Calls no model.
    #[arg(long, conflicts_with_all = ["prompt", "model", "provider", "input", "sets"])]
    pub(crate) undo: bool,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// The store: `sqlite:PATH` or `postgres://…`; by default CONTEXTURE_STORE_URL, or what contexture.toml says.
    #[arg(long, value_name = "URL", help_heading = "Conversation")]
    pub(crate) store: Option<String>,
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
}
