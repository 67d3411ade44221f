//! What can be typed: the arguments of every command, with their help texts.

mod flow;
mod help;
mod keys;
mod knowledge;
mod memory;
mod serve;
mod sessions;
mod skills;
mod talk;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use contexture_wire::Dialect;

use crate::error::Failure;
use crate::output::Reply;

pub(crate) use flow::{
    DriveArgs, FlowArgs, FlowCancelArgs, FlowCheckArgs, FlowCommand, FlowForgetArgs, FlowGraphArgs,
    FlowResumeArgs, FlowRunArgs, FlowRunsArgs, FlowShowArgs, GraphFormat, RunStoreArgs, StatusName,
};
pub(crate) use keys::{AuditArgs, KeysArgs, KeysCommand, NewKeyArgs};
pub(crate) use knowledge::{KnowledgeArgs, KnowledgeCommand};
pub(crate) use memory::{LayerName, MemoryArgs, MemoryCommand};
pub(crate) use serve::ServeArgs;
pub(crate) use sessions::{
    ArchivesArgs, ArtifactAddArgs, ArtifactsCommand, EventArgs, SessionsArgs, SessionsCommand, ShowArgs,
    StoreArgs, ViewArg,
};
pub(crate) use skills::{SkillsArgs, SkillsCommand};
pub(crate) use talk::{ChatArgs, CompactArgs, RunArgs, TalkArgs};

/// Composes what a language model sees, and shows why it looks like that.
#[derive(Debug, Parser)]
#[command(name = "contexture", version, max_term_width = 100, after_help = help::EXAMPLES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Clone, Debug, Args)]
pub(crate) struct Globals {
    /// Print one JSON document, errors included.
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub(crate) json: bool,
    /// The project's folder; by default the nearest one upwards with contexture.toml or prompts/.
    #[arg(short = 'C', long, global = true, value_name = "DIR", help_heading = "Everywhere")]
    pub(crate) project: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write a small complete project to start from.
    #[command(after_help = help::INIT)]
    Init(InitArgs),
    /// Show what would be sent to the model, without calling it.
    #[command(after_help = help::RESOLVE)]
    Resolve(WireArgs),
    /// Show where every token comes from, and why something is missing.
    #[command(after_help = help::INSPECT)]
    Inspect(ResolveArgs),
    /// Run a prompt: call the model, run tools, print the answer.
    #[command(after_help = help::RUN)]
    Run(RunArgs),
    /// Talk to a model in the terminal; the conversation is kept.
    #[command(after_help = help::CHAT)]
    Chat(ChatArgs),
    /// Summarise the older turns of a session now, or take the newest summary back.
    #[command(after_help = help::COMPACT)]
    Compact(CompactArgs),
    /// Show what changed from one pass to another.
    #[command(after_help = help::DIFF)]
    Diff(DiffArgs),
    /// Turn context entries (JSON) into tagged text.
    #[command(after_help = help::RENDER)]
    Render(RenderArgs),
    /// Show which turns of a transcript fit, each tool call with its result.
    #[command(after_help = help::WINDOW)]
    Window(WindowArgs),
    /// Count tokens.
    #[command(after_help = help::TOKENS)]
    Tokens(TokensArgs),
    /// Check all prompts, contexts, blocks and flows of the project.
    #[command(after_help = help::LINT)]
    Lint(LintArgs),
    /// List the prompts of the project.
    #[command(after_help = help::PROMPTS)]
    Prompts,
    /// List the prompt blocks of the project, or preview one.
    #[command(after_help = help::BLOCKS)]
    Blocks(BlocksArgs),
    /// List, check, draw and run the flows of the project.
    #[command(after_help = help::FLOW)]
    Flow(FlowArgs),
    /// Look after stored sessions: list, show, archives, export, import, fork, delete.
    #[command(after_help = help::SESSIONS)]
    Sessions(SessionsArgs),
    /// Look after knowledge bases: add files, list, search, show, remove, reindex.
    #[command(after_help = help::KNOWLEDGE)]
    Knowledge(KnowledgeArgs),
    /// List and check the skills of the project, and show which of them a sentence finds.
    #[command(after_help = help::SKILLS)]
    Skills(SkillsArgs),
    /// Look after what agents remember: list, search, show, approve, forget, audit, export, import.
    #[command(after_help = help::MEMORY)]
    Memory(MemoryArgs),
    /// Serve the project over HTTP: sessions, turns, events, and an endpoint for OpenAI clients.
    #[command(after_help = help::SERVE)]
    Serve(ServeArgs),
    /// Make, list and revoke API keys of the server.
    #[command(after_help = help::KEYS)]
    Keys(KeysArgs),
    /// Show who did what to the server: keys, deletions, starts and stops.
    #[command(after_help = help::AUDIT)]
    Audit(AuditArgs),
    /// Print a completion script for a shell.
    #[command(after_help = help::COMPLETIONS)]
    Completions(CompletionsArgs),
}

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// The folder to write to; it is created if it does not exist.
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ResolveArgs {
    /// The prompt's id; `contexture prompts` lists them.
    pub(crate) prompt: String,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Refuse input keys that no schema declares, instead of warning about them.
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) call: CallArgs,
}

#[derive(Debug, Args)]
pub(crate) struct WireArgs {
    #[command(flatten)]
    pub(crate) resolve: ResolveArgs,
    /// Print the JSON that a provider gets: openai, openai-responses, anthropic or gemini.
    #[arg(long, value_name = "DIALECT", value_parser = dialect, help_heading = "Model")]
    pub(crate) wire: Option<Dialect>,
}

fn dialect(name: &str) -> Result<Dialect, String> {
    Dialect::parse(name).ok_or_else(|| {
        let names = Dialect::ALL.map(Dialect::as_str).join(", ");
        format!("the dialects are {names}")
    })
}

/// What a prompt is given.
#[derive(Debug, Args)]
pub(crate) struct InputArgs {
    /// The input: a JSON object, `@FILE`, or `-` for standard input.
    #[arg(short, long, value_name = "JSON|@FILE|-")]
    pub(crate) input: Option<String>,
    /// Set one key of the input, by a dotted path; the value is text where the prompt declares a string, and elsewhere
    /// JSON, or else text.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) sets: Vec<String>,
}

/// Whom to call.
#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    /// The provider, if the model's name does not say it.
    #[arg(long, help_heading = "Model")]
    pub(crate) provider: Option<String>,
    /// The model, `model` or `provider/model`.
    #[arg(long, help_heading = "Model")]
    pub(crate) model: Option<String>,
}

/// What templates see of the world.
#[derive(Debug, Args)]
pub(crate) struct ScopeArgs {
    /// What templates see as `ctx.user`.
    #[arg(long, value_name = "ID", help_heading = "Conversation")]
    pub(crate) scope_user: Option<String>,
    /// What templates see as `ctx.tenant`, and whose sessions are meant.
    #[arg(long, value_name = "ID", help_heading = "Conversation")]
    pub(crate) tenant: Option<String>,
    /// What templates see as `ctx.now`, RFC 3339; by default the current time.
    #[arg(long, value_name = "TIME", help_heading = "Conversation")]
    pub(crate) now: Option<String>,
}

/// What a pass depends on besides its input.
#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// The limit of the composed system text, in tokens.
    #[arg(long, value_name = "N", help_heading = "Model")]
    pub(crate) budget: Option<u32>,
    /// The limit of the whole request, in tokens.
    #[arg(long, value_name = "N", help_heading = "Model")]
    pub(crate) input_budget: Option<u32>,

    /// Earlier turns: one JSON message a line, `{"turn"?, "role", "content"}`; `-` for standard input.
    #[arg(long, value_name = "FILE|-", help_heading = "Conversation")]
    pub(crate) history: Option<String>,
    /// The user's message of this turn.
    #[arg(long, value_name = "TEXT", help_heading = "Conversation")]
    pub(crate) user: Option<String>,
    /// Context for this turn, hidden beside what the user says: a name and its text, or `@FILE`. Can be repeated.
    #[arg(long = "block", value_name = "NAME=TEXT|@FILE", help_heading = "Conversation")]
    pub(crate) blocks: Vec<String>,
    /// A reminder for this turn, hidden behind what the user says. Can be repeated.
    #[arg(long = "remind", value_name = "TEXT", help_heading = "Conversation")]
    pub(crate) reminders: Vec<String>,
    /// What templates see as `ctx.session`.
    #[arg(long, value_name = "ID", help_heading = "Conversation")]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// A file written by `resolve --json` or `inspect --json`; or a prompt's id, with --a and --b.
    #[arg(value_name = "BEFORE|PROMPT")]
    pub(crate) before: String,
    /// The other file.
    #[arg(value_name = "NOW", required_unless_present_any = ["a", "b"], conflicts_with_all = ["a", "b"])]
    pub(crate) now_file: Option<String>,
    /// The input before.
    #[arg(long, value_name = "JSON|@FILE|-", requires = "b")]
    pub(crate) a: Option<String>,
    /// The input now.
    #[arg(long, value_name = "JSON|@FILE|-", requires = "a")]
    pub(crate) b: Option<String>,
    /// Exit with 1 if there is a difference.
    #[arg(long)]
    pub(crate) exit_code: bool,
    #[command(flatten)]
    pub(crate) call: CallArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RenderArgs {
    /// A JSON file with a list of entries, or with one; `-` for standard input.
    #[arg(value_name = "FILE|-")]
    pub(crate) file: String,
    /// Spaces per level, at most 16.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=16))]
    pub(crate) indent: u8,
}

#[derive(Debug, Args)]
pub(crate) struct WindowArgs {
    /// The transcript: JSON lines, a list of messages, or a whole request; `-` for standard input.
    #[arg(value_name = "FILE|-")]
    pub(crate) file: String,
    /// Keep the newest N turns; by default all of them.
    #[arg(long, value_name = "N", conflicts_with = "tokens")]
    pub(crate) turns: Option<usize>,
    /// Keep the newest turns that fit into N tokens together.
    #[arg(long, value_name = "N")]
    pub(crate) tokens: Option<u32>,
    /// The model whose tokens are counted; by default the request's own, or else o200k_base is used.
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// How the messages are written, in and out; by default it is found out.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = FormatArg::Auto)]
    pub(crate) format: FormatArg,
}

/// How the messages of a transcript are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatArg {
    Auto,
    Neutral,
    Openai,
    Anthropic,
}

#[derive(Debug, Args)]
pub(crate) struct TokensArgs {
    /// Text files; `-` for standard input.
    #[arg(value_name = "FILE|-", required = true)]
    pub(crate) files: Vec<String>,
    /// The model whose tokens are counted; by default o200k_base is used.
    #[arg(long)]
    pub(crate) model: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct LintArgs {
    /// Exit with 1 also if there are only warnings.
    #[arg(long)]
    pub(crate) strict: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BlocksArgs {
    #[command(subcommand)]
    pub(crate) command: Option<BlocksCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BlocksCommand {
    /// Show what a block says for an input, and what it costs.
    #[command(after_help = help::BLOCKS_PREVIEW)]
    Preview(PreviewArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PreviewArgs {
    /// The block's name; `contexture blocks` lists them.
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Another body, a template, to see how it would look; it is not stored.
    #[arg(long, value_name = "TEXT|@FILE|-")]
    pub(crate) body: Option<String>,
    /// The model whose tokens are counted; by default o200k_base is used.
    #[arg(long)]
    pub(crate) model: Option<String>,
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    pub(crate) shell: Shell,
}

/// Why there is no command to run: help was asked for, or the arguments are wrong.
pub(crate) struct Stop {
    pub(crate) json: bool,
    pub(crate) outcome: Result<Reply, Failure>,
}

/// Reads the arguments; the first one is the program's name.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Cli, Stop> {
    let args: Vec<OsString> = args.into_iter().collect();
    Cli::try_parse_from(&args).map_err(|err| {
        // What clap refuses it does not return, so whether JSON was asked for is looked up by hand.
        let json = args.iter().skip(1).take_while(|it| *it != "--").any(|it| it == "--json");
        Stop { json, outcome: stopped(&err) }
    })
}

fn stopped(err: &clap::Error) -> Result<Reply, Failure> {
    match err.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            Ok(Reply::styled(err.render().ansi().to_string().trim_end()))
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Err(Failure::usage("no command is given").with_details(err.render().to_string().trim_end()))
        }
        _ => {
            let text = err.render().to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
            let (message, details) = text.split_once("\n\n").unwrap_or((text, ""));
            // A list of missing arguments goes over several lines.
            let message: Vec<&str> = message.lines().map(str::trim).collect();
            let (tips, details): (Vec<&str>, Vec<&str>) =
                details.lines().partition(|it| it.trim_start().starts_with("tip: "));
            let failure = Failure::usage(message.join(" ")).with_details(details.join("\n").trim());
            let tips: Vec<&str> = tips.iter().map(|it| it.trim_start().trim_start_matches("tip: ")).collect();
            Err(if tips.is_empty() { failure } else { failure.hint(tips.join("; ")) })
        }
    }
}

/// Returns the definition of all commands, for completion scripts.
pub(crate) fn definition() -> clap::Command {
    Cli::command()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_definition_is_consistent() {
        super::definition().debug_assert();
    }
}
