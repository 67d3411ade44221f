//! Places prompt cache marks.
//!
//! Sets `cache_control` on some blocks among the tools, system blocks and messages of a body, according to the
//! request's breakpoints. The rule, in full:
//!
//! 1. A mark is placed on the last block that the breakpoint covers.
//! 2. Thinking cannot carry a mark, so the mark moves to the nearest earlier block that can.
//! 3. There are at most four marks. Later marks cover more, so the earliest ones are dropped.

use std::collections::BTreeSet;

use contexture_message::Breakpoint;
use serde_json::{Map, Value, json};

use super::turns::{Block, Turn};

const MAX_MARKS: usize = 4;

/// Sets the cache marks.
pub(super) fn mark(
    breakpoints: &[Breakpoint],
    tools: &mut [Value],
    system: &mut [Block],
    turns: &mut [Turn],
) {
    let spots = spots(tools, system, turns);
    let marks: BTreeSet<usize> = breakpoints.iter().filter_map(|it| spot_of(*it, &spots)).collect();
    let surplus = marks.len().saturating_sub(MAX_MARKS);
    let marks: BTreeSet<usize> = marks.into_iter().skip(surplus).collect();

    let tool = tools.last_mut().and_then(Value::as_object_mut).into_iter();
    let blocks = system.iter_mut().chain(turns.iter_mut().flat_map(|it| &mut it.blocks));
    let all = tool.chain(blocks.filter_map(|it| it.json.as_object_mut()));
    for (_, block) in all.enumerate().filter(|(at, _)| marks.contains(at)) {
        put(block);
    }
}

fn put(block: &mut Map<String, Value>) {
    block.insert("cache_control".to_owned(), json!({"type": "ephemeral"}));
}

/// A block or tool that could carry a mark.
struct Spot {
    /// The index of its message; `None` for tools, which precede all messages.
    message: Option<usize>,
    /// For a text block, its end offset in the text of its message.
    text_end: Option<usize>,
    allowed: bool,
}

fn spots(tools: &[Value], system: &[Block], turns: &[Turn]) -> Vec<Spot> {
    let tool = tools.last().map(|_| Spot { message: None, text_end: None, allowed: true });
    let blocks = system.iter().chain(turns.iter().flat_map(|it| &it.blocks));
    let blocks = blocks.map(|it| Spot {
        message: Some(it.message),
        text_end: it.text_end,
        allowed: !it.is("thinking") && !it.is("redacted_thinking"),
    });
    tool.into_iter().chain(blocks).collect()
}

fn spot_of(breakpoint: Breakpoint, spots: &[Spot]) -> Option<usize> {
    let last = |covers: &dyn Fn(&Spot) -> bool| spots.iter().rposition(covers);
    let covered = match breakpoint {
        Breakpoint::Tools => last(&|it| it.message.is_none()),
        Breakpoint::Message { message } => {
            last(&|it| it.message == Some(message)).or_else(|| last(&|it| it.message < Some(message)))
        }
        Breakpoint::Text { message, byte } => {
            let reaches =
                |it: &Spot| it.message == Some(message) && it.text_end.is_some_and(|end| end <= byte);
            last(&reaches).or_else(|| last(&|it| it.message < Some(message)))
        }
    }?;
    spots[..=covered].iter().rposition(|it| it.allowed)
}
