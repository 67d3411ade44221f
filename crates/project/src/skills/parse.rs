//! Reads a `SKILL.md`.
//!
//! Loading is lenient, as skills are exchanged between tools: unknown fields are ignored, a name is taken from the
//! folder, and front matter that is not YAML because a value has a bare `: ` is read line by line. Every departure from
//! the specification is a problem, in its place; `lint` shows them.

use std::sync::Arc;

use crate::skills::strict;
use crate::source::front;
use crate::source::yaml::{Data, Node};

/// A `SKILL.md`, as far as it can be understood.
pub(super) struct Parsed {
    pub(super) name: String,
    /// `None` if there is none: then no model could choose the skill.
    pub(super) description: Option<String>,
    pub(super) allowed_tools: Vec<String>,
    pub(super) instructions: Arc<str>,
    pub(super) problems: Vec<crate::error::Problem>,
}

/// Reads the text of a `SKILL.md` in a folder of that name.
pub(super) fn parse(text: &str, folder: &str) -> Parsed {
    let document = front::split(text);
    let problems = strict::check(text, &document, folder);
    let value = |key: &str| match document.problems.is_empty() {
        true => scalar(&document.front, key),
        false => lenient(text, key),
    };
    let name = value("name").filter(|it| strict::is_name(it)).unwrap_or_else(|| folder.to_owned());
    let tools = match document.front.get("allowed-tools").map(|it| &it.value.data) {
        // Not what the specification says, but what many folders have.
        Some(Data::List(items)) => items.iter().filter_map(Node::word).collect(),
        _ => value("allowed-tools").map(|it| split_tools(&it)).unwrap_or_default(),
    };
    Parsed {
        name,
        description: value("description"),
        allowed_tools: tools,
        instructions: document.body.trim().into(),
        problems,
    }
}

fn scalar(front: &Node, key: &str) -> Option<String> {
    let text = front.get(key)?.value.word()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// Returns the value of a field of front matter that is not YAML: the rest of its line, and the lines below that are
/// indented.
fn lenient(text: &str, key: &str) -> Option<String> {
    let mut lines = text.lines().skip(1).take_while(|it| it.trim_end() != "---");
    let first = lines.find_map(|it| it.strip_prefix(key)?.strip_prefix(':'))?;
    let more = lines.take_while(|it| it.starts_with([' ', '\t'])).map(str::trim);
    let first = Some(first.trim()).filter(|it| !matches!(*it, "|" | ">" | "|-" | ">-"));
    let joined = first.into_iter().chain(more).collect::<Vec<_>>().join(" ");
    let value = joined.trim().trim_matches(['"', '\'']).trim().to_owned();
    (!value.is_empty()).then_some(value)
}

/// Splits a list of tools at spaces, except those in parentheses: `Bash(git add:*) Read`.
fn split_tools(text: &str) -> Vec<String> {
    let mut depth = 0_usize;
    let pieces = text.split(|it: char| {
        match it {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (it.is_whitespace() || it == ',')
    });
    pieces.filter(|it| !it.is_empty()).map(str::to_owned).collect()
}
