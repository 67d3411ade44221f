//! What can be typed: the arguments of every command, with their help texts.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use crate::error::Failure;
use crate::output::Reply;

/// Composes what a language model sees, and shows why it looks like that.
#[derive(Debug, Parser)]
#[command(name = "contexture", version, max_term_width = 100, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Debug, Args)]
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
    #[command(after_help = INIT)]
    Init(InitArgs),
    /// Show what would be sent to the model, without calling it.
    #[command(after_help = RESOLVE)]
    Resolve(ResolveArgs),
    /// Show where every token comes from, and why something is missing.
    #[command(after_help = INSPECT)]
    Inspect(ResolveArgs),
    /// Show what changed from one pass to another.
    #[command(after_help = DIFF)]
    Diff(DiffArgs),
    /// Turn context entries (JSON) into tagged text.
    #[command(after_help = RENDER)]
    Render(RenderArgs),
    /// Count tokens.
    #[command(after_help = TOKENS)]
    Tokens(TokensArgs),
    /// Check all prompts and contexts of the project.
    #[command(after_help = LINT)]
    Lint(LintArgs),
    /// List the prompts of the project.
    #[command(after_help = PROMPTS)]
    Prompts,
    /// Print a completion script for a shell.
    #[command(after_help = COMPLETIONS)]
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
    /// The input: a JSON object, `@FILE`, or `-` for standard input.
    #[arg(short, long, value_name = "JSON|@FILE|-")]
    pub(crate) input: Option<String>,
    /// Set one key of the input, by a dotted path; the value is text where the prompt declares a string, and elsewhere
    /// JSON, or else text.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) sets: Vec<String>,
    #[command(flatten)]
    pub(crate) call: CallArgs,
}

/// What a pass depends on besides its input.
#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// The provider, if the model's name does not say it.
    #[arg(long, help_heading = "Model")]
    pub(crate) provider: Option<String>,
    /// The model, `model` or `provider/model`.
    #[arg(long, help_heading = "Model")]
    pub(crate) model: Option<String>,
    /// The limit of the composed system text, in tokens.
    #[arg(long, value_name = "N", help_heading = "Model")]
    pub(crate) budget: Option<u32>,
    /// The limit of the whole request, in tokens.
    #[arg(long, value_name = "N", help_heading = "Model")]
    pub(crate) input_budget: Option<u32>,
    /// Print the JSON of a provider; not in this version.
    #[arg(long, value_name = "DIALECT", hide = true)]
    pub(crate) wire: Option<String>,

    /// Earlier turns: one JSON message a line, `{"turn"?, "role", "content"}`; `-` for standard input.
    #[arg(long, value_name = "FILE|-", help_heading = "Conversation")]
    pub(crate) history: Option<String>,
    /// The user's message of this turn.
    #[arg(long, value_name = "TEXT", help_heading = "Conversation")]
    pub(crate) user: Option<String>,
    /// What templates see as `ctx.user`.
    #[arg(long, value_name = "ID", help_heading = "Conversation")]
    pub(crate) scope_user: Option<String>,
    /// What templates see as `ctx.tenant`.
    #[arg(long, value_name = "ID", help_heading = "Conversation")]
    pub(crate) tenant: Option<String>,
    /// What templates see as `ctx.session`.
    #[arg(long, value_name = "ID", help_heading = "Conversation")]
    pub(crate) session: Option<String>,
    /// What templates see as `ctx.now`, RFC 3339; by default the current time.
    #[arg(long, value_name = "TIME", help_heading = "Conversation")]
    pub(crate) now: Option<String>,
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
            let help = Cli::command().render_help().to_string();
            Err(Failure::usage("no command is given").with_details(help.trim_end()))
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

const EXAMPLES: &str = "\
Examples:
  contexture init hello && cd hello
  contexture resolve support --set plan=pro
  contexture inspect support --budget 120
  echo '[{\"documents\": [\"one\", \"two\"]}]' | contexture render -

Exit codes: 0 done, 1 a check failed, 2 wrong usage or definition, 3 a model, store or network failed.
CONTEXTURE_SECTION_KEY in the environment overrides `key` of [section] in contexture.toml.";

const INIT: &str = "\
Examples:
  contexture init                  here
  contexture init my-prompts       in a folder of its own

Nothing is overwritten: if one of the files exists, none is written.";

const RESOLVE: &str = "\
Examples:
  contexture resolve support --input '{\"plan\": \"pro\"}'
  contexture resolve support --input @input.json --set locale=de --set user.age=41
  contexture resolve support --provider openai --model gpt-5-mini --budget 4000
  contexture resolve support --history chat.jsonl --user 'And in Dutch?'
  contexture resolve support --json > pass.json";

const INSPECT: &str = "\
Examples:
  contexture inspect support
  contexture inspect support --set plan=pro --budget 120
  contexture inspect support --json | jq '.dropped'";

const DIFF: &str = "\
Examples:
  contexture diff before.json now.json
  contexture diff support --a '{\"plan\": \"free\"}' --b '{\"plan\": \"pro\"}'
  contexture diff before.json now.json --exit-code --json

A file is what `contexture resolve --json` or `contexture inspect --json` printed.";

const RENDER: &str = "\
Examples:
  contexture render entries.json
  echo '[{\"userPreferences\": \"short answers\"}]' | contexture render -
  contexture render entries.json --json

Entries that are texts or messages pass through; `--json` lists them under `messages`.";

const TOKENS: &str = "\
Examples:
  contexture tokens prompts/support.md
  contexture tokens *.md --model anthropic/claude-sonnet-4-5
  git diff | contexture tokens -";

const LINT: &str = "\
Examples:
  contexture lint
  contexture lint --strict         for continuous integration
  contexture lint --json";

const PROMPTS: &str = "\
Examples:
  contexture prompts
  contexture prompts --json | jq -r '.[].id'";

const COMPLETIONS: &str = "\
Examples:
  contexture completions bash > ~/.local/share/bash-completion/completions/contexture
  contexture completions zsh > ~/.zfunc/_contexture
  contexture completions fish > ~/.config/fish/completions/contexture.fish";

#[cfg(test)]
mod tests {
    #[test]
    fn the_definition_is_consistent() {
        super::definition().debug_assert();
    }
}
