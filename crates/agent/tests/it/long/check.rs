//! What must hold after every turn of a long conversation.

use contexture_agent::{AgentError, Event, Made, Outcome};
use contexture_history::{Body, Item};
use contexture_message::{Part, Request};

use super::play::{INSTRUCTIONS, given};
use super::provider::{Does, Seen, World};
use crate::readable::{names, says, shown};
use crate::scene::Passes;
use crate::valid::assert_valid_everywhere;
use crate::whole::assert_whole;

/// A message of so many characters may be shown cut; those that are asked for are smaller or much larger.
const LARGE: usize = 3_000;

/// What is known of a conversation so far. When a check fails, it says where.
pub(super) struct Checks {
    world: World,
    passes: Passes,
    turn: usize,
    /// What the user says in this turn.
    text: String,
    script: String,
    events: Vec<String>,
    sizes: Vec<String>,
    said: Vec<&'static str>,
    /// What was refused so far, in the provider's tokens.
    refused: Vec<u32>,
    n_compactions: usize,
}

impl Drop for Checks {
    #[allow(clippy::print_stderr, reason = "whoever reads why a test failed wants to know where")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            let user: String = self.text.chars().take(200).collect();
            eprintln!("\n{:?}\nturn {} ({} characters): {user}", self.world, self.turn, self.text.len());
            eprintln!("the model's plan: {}", self.script);
            eprintln!("requests of this turn, in the provider's tokens: {}", self.sizes.join(", "));
            eprintln!("refused so far: {:?}", self.refused);
            let n_left_out = self.events.len().saturating_sub(25);
            eprintln!("events ({n_left_out} left out):\n{}\n", self.events[n_left_out..].join("\n"));
        }
    }
}

impl Checks {
    pub(super) fn new(world: &World, passes: Passes) -> Self {
        Self {
            world: world.clone(),
            passes,
            turn: 0,
            text: String::new(),
            script: String::new(),
            events: Vec::new(),
            sizes: Vec::new(),
            said: Vec::new(),
            refused: Vec::new(),
            n_compactions: 0,
        }
    }

    pub(super) fn begin(&mut self, turn: usize, text: &str, script: &[Does]) {
        self.turn = turn;
        text.clone_into(&mut self.text);
        self.script = script.iter().map(plan).collect::<Vec<_>>().join("; ");
        self.said.extend(INSTRUCTIONS.into_iter().filter(|it| text.contains(it)));
    }

    pub(super) fn told(&mut self, events: Vec<String>) {
        // Words of the model are many and say nothing about sizes.
        self.events = events.into_iter().filter(|it| !it.starts_with("text.delta")).collect();
    }

    /// Checks a turn.
    pub(super) fn turn(&mut self, seen: Vec<Seen>, events: &[Event], outcome: Result<Outcome, AgentError>) {
        self.sizes = seen.iter().map(size).collect();
        if let Err(err) = &outcome {
            panic!("the turn failed with {}: {err}", err.code());
        }
        self.check_compactions(events);
        self.check_refusals(&seen);
        for it in seen.iter().filter(|it| !it.is_summary) {
            self.check_request(it);
        }
        // Those that the application answers need no valid form, but they have one.
        seen.iter().for_each(|it| assert_valid_everywhere(&it.request));
    }

    fn check_compactions(&mut self, events: &[Event]) {
        let changes = events.iter().filter_map(|it| match it {
            Event::ContextCompactionEnd(it) | Event::Compaction(it) => Some(it),
            _ => None,
        });
        let n_made = changes.filter(|it| it.made != Made::Unchanged).count();
        self.n_compactions += n_made;
        assert!(n_made <= 3, "{n_made} compactions in one turn");
    }

    /// The first refusal teaches the window if it names it. Without numbers there may be a few more, but none for a
    /// request as large as one that was refused before.
    fn check_refusals(&mut self, seen: &[Seen]) {
        self.refused.extend(seen.iter().filter(|it| it.refused).map(|it| it.tokens));
        let most = if self.world.numbers { 1 } else { 3 };
        assert!(self.refused.len() <= most, "{} refusals", self.refused.len());
        assert!(self.refused.windows(2).all(|it| it[1] < it[0]), "as large as one that was refused");
    }

    fn check_request(&self, seen: &Seen) {
        for call in &seen.unread {
            let fault = match given(call) {
                Some(whole) => shown(&seen.request, &call.id, &whole).err(),
                None => readable(&seen.request, &call.id).err(),
            };
            assert!(fault.is_none(), "{} ({})", fault.unwrap(), call.arguments);
        }
        for instruction in &self.said {
            assert!(says(&seen.request, instruction), "`{instruction}` is not in the request");
        }
        // A message that was cut still begins as it did.
        let begin: String = self.text.chars().take(12).collect();
        assert!(says(&seen.request, begin.trim_end()), "what the user says is not in the request");
        if self.text.len() < LARGE {
            assert!(
                says(&seen.request, &self.text),
                "what the user says is not in the request as it was said"
            );
        }
        if let Some(log) = &seen.log {
            let log: Vec<Item> = log.iter().filter(|it| !is_large(it)).cloned().collect();
            assert_whole(&self.passes.of(&seen.request), &log);
        }
    }

    /// A conversation that was never compacted has tested nothing.
    pub(super) fn ended(&self) {
        let is_long = self.world.turns >= 50;
        assert!(!is_long || self.n_compactions > 0, "nothing was ever compacted");
    }
}

/// What the engine's own tool gave: something, and no repair.
fn readable(request: &Request, call_id: &str) -> Result<(), String> {
    let results = request.messages.iter().flat_map(|it| &it.content).filter_map(|it| match it {
        Part::ToolResult(it) if it.call_id == call_id => Some(&it.output),
        _ => None,
    });
    let texts: Vec<String> = results.map(|it| serde_json::to_string(it).unwrap()).collect();
    match texts.as_slice() {
        [] => Err(format!("the result of `{call_id}` is missing unread")),
        [text] if text.contains("interrupted") && text.len() < 80 => Err(format!("`{call_id}`: {text}")),
        _ => Ok(()),
    }
}

/// Whether a message of the user or the model may be shown cut.
fn is_large(item: &Item) -> bool {
    let Body::Message(message) = &item.body else { return false };
    message.content.iter().any(|it| matches!(it, Part::Text { text, .. } if text.len() >= LARGE))
}

fn size(seen: &Seen) -> String {
    let kind = if seen.is_summary { "summary" } else { "call" };
    let previews = seen
        .request
        .messages
        .iter()
        .flat_map(|it| &it.content)
        .filter(|it| matches!(it, Part::ToolResult(result) if names(&result.output, &result.call_id)));
    let refused = if seen.refused { " refused" } else { "" };
    format!(
        "{kind} {}{refused} ({} messages, {} previews)",
        seen.tokens,
        seen.request.messages.len(),
        previews.count()
    )
}

fn plan(does: &Does) -> String {
    match does {
        Does::Says(text) => format!("says {} characters", text.len()),
        Does::Calls(calls) => {
            let calls = calls.iter().map(|it| format!("{} {} {}", it.id, it.name, it.arguments["chars"]));
            format!("calls {}", calls.collect::<Vec<_>>().join(", "))
        }
    }
}
