//! `completions`: prints a completion script for a shell.

use serde_json::json;

use crate::args::{self, CompletionsArgs};
use crate::output::Reply;

pub(super) fn run(args: &CompletionsArgs, as_json: bool) -> Reply {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::definition(), "contexture", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    match as_json {
        true => Reply::json(json!({"shell": args.shell.to_string(), "script": script})),
        false => Reply::verbatim(script.trim_end()),
    }
}
