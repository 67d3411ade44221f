//! The core block: its text, and what a thread that keeps an older text of it is told.
//!
//! A thread freezes the block, so rules that change later are not in it. The next turn then begins with a system event
//! that restates them. The rules in full:
//!
//! 1. What the model was told last counts: the newest such event in the conversation, or else the frozen block.
//! 2. It is out of date if one of its lines applies no more, or if a line of the block as it is now is missing. What was
//!    said in a turn of this conversation and took effect as it was said is not missing, while the request shows the
//!    turn.
//! 3. A rule that was forgotten left the frozen block and the events with all other copies; there is nothing to tell.

use std::collections::BTreeSet;

use contexture_compose::Call;
use contexture_compose::tags::escape_text;
use contexture_history::SystemEvent;
use contexture_message::{Part, Role, Tokens, counter_for};

use super::blocks::UPDATED;
use super::error::MemoryError;
use super::record::{Layer, Record, Status};
use super::space::{MemorySpace, RecordFilter};
use super::words::words;

/// The rules of a namespace, for a thread.
pub(crate) struct CoreRules<'a> {
    /// The rules that apply, oldest first.
    pub(crate) applying: &'a [Record],
    /// The rules that applied before.
    pub(crate) past: &'a [Record],
    /// The budget of the block.
    pub(crate) room: Tokens,
    /// The thread that reads the block.
    pub(crate) thread: &'a str,
    /// The turns that the request shows.
    pub(crate) shown: &'a BTreeSet<String>,
}

/// What a thread has to be told.
pub(crate) enum News {
    /// What it was told is out of date.
    Updated(SystemEvent),
    /// Nothing, while the request shows these turns.
    None(BTreeSet<String>),
}

impl CoreRules<'_> {
    /// Returns what a thread is told that was told a text before.
    pub(crate) fn news(&self, told: &str) -> News {
        let told: BTreeSet<&str> = told.lines().filter(|it| it.starts_with("- ")).collect();
        let applying: BTreeSet<String> = self.applying.iter().map(line).collect();
        let text = core_text(self.applying, self.room);
        let is_missing = |it: &&Record| {
            let line = line(it);
            !told.contains(line.as_str()) && text.lines().any(|it| it == line)
        };
        let missing: Vec<&Record> = self.applying.iter().filter(is_missing).collect();
        let is_over = |it: &&str| !applying.contains(*it) && !self.is_replaced_here(it);
        if missing.iter().any(|it| self.said_in(it).is_none()) || told.iter().any(is_over) {
            return News::Updated(updated(&text));
        }
        News::None(missing.into_iter().filter_map(|it| self.said_in(it)).collect())
    }

    /// Returns the turn of the request in which a rule was said and took effect. One that was changed or approved later
    /// has a further version.
    fn said_in(&self, rule: &Record) -> Option<String> {
        let is_shown = |it: &&String| rule.version == 1 && rule.is_from(self.thread, Some(it));
        self.shown.iter().find(is_shown).cloned()
    }

    /// Whether a line belongs to a rule that the thread itself has replaced.
    fn is_replaced_here(&self, told: &str) -> bool {
        let replaced =
            self.past.iter().filter(|it| line(it) == told).filter_map(|it| it.superseded_by.as_ref());
        replaced
            .into_iter()
            .any(|id| self.applying.iter().any(|it| it.id == *id && self.said_in(it).is_some()))
    }
}

/// Returns the rules of namespaces that apply, and those that applied before.
pub(crate) async fn rules(spaces: &[MemorySpace]) -> Result<(Vec<Record>, Vec<Record>), MemoryError> {
    let (mut applying, mut past) = (Vec::new(), Vec::new());
    for space in spaces {
        let now = space.now();
        let filter = RecordFilter {
            layer: Some(Layer::Rules),
            status: Some(Status::Accepted),
            with_past: true,
            ..RecordFilter::default()
        };
        let (holding, over): (Vec<Record>, Vec<Record>) =
            space.list(&filter).await?.into_iter().partition(|it| it.holds_at(now));
        applying.extend(holding);
        past.extend(over);
    }
    Ok((applying, past))
}

fn updated(text: &str) -> SystemEvent {
    let text = match text.is_empty() {
        true => words("core_emptied", &[]),
        false => format!("{}\n{text}", words("core_updated", &[])),
    };
    SystemEvent::new(UPDATED, text)
}

/// Returns what the model was told last about the rules: by an event in the conversation, or else by the frozen block.
pub(crate) fn told<'a>(call: &'a Call, frozen: &'a str) -> &'a str {
    let messages = call.shown_turns().rev().flat_map(|it| it.messages().iter().rev());
    let mut texts = messages.filter(|it| it.role == Role::User).flat_map(|it| it.content.iter().rev());
    // Only the engine itself writes its own tags: those in other texts are neutralised.
    let tag = format!("<system-event name=\"{UPDATED}\">");
    let event = texts.find_map(|it| match it {
        Part::Text { text, .. } if text.starts_with(&tag) => Some(text.as_str()),
        _ => None,
    });
    event.unwrap_or(frozen)
}

/// Returns rules as lines, oldest first: of two that contradict each other the later one applies.
pub(crate) fn core_text(rules: &[Record], room: Tokens) -> String {
    let counter = counter_for(None);
    let (mut left, mut lines) = (room, Vec::new());
    for rule in rules.iter().rev() {
        let line = line(rule);
        let tokens = counter.count(&line) + Tokens(1);
        if tokens > left {
            continue;
        }
        left = left.saturating_sub(tokens);
        lines.push(line);
    }
    lines.reverse();
    let n_left_out = rules.len() - lines.len();
    if n_left_out > 0 {
        lines.push(words("more", &[("n", &n_left_out.to_string())]));
    }
    lines.join("\n")
}

fn line(rule: &Record) -> String {
    format!("- {}", escape_text(&rule.text.split_whitespace().collect::<Vec<_>>().join(" ")))
}
