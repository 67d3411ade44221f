//! Whether anything of a thread is silently missing from a request.
//!
//! Checked on the log alone: every item that the model may see is in the request, or covered by an archive that the
//! Explanation names and whose summary is in the request, or its turn is listed with a reason.

use contexture_compose::{Explanation, Pass};
use contexture_history::{Body, Item, Seq, TurnNo};
use contexture_message::{Message, Part, Request};
use contexture_session::State;

/// Panics if an item is missing without a reason.
pub(crate) fn assert_whole(pass: &Pass, log: &[Item]) {
    let (request, why) = (pass.request(), pass.explain());
    let state = State::replay(log);
    let seen = log.iter().filter(|it| it.visibility.history && it.seq > state.history_after);
    for item in seen {
        let is_there = match state.archives.iter().find(|it| it.covers(item.seq)) {
            Some(archive) => is_named(&why, archive.number) && has_summary(request, log, archive.record),
            None => is_in(request, &why, item) || is_listed(&why, item),
        };
        assert!(is_there, "missing: {item:?}\nexcluded: {:?}\ndropped: {:?}", why.excluded, why.dropped);
    }
}

fn is_named(why: &Explanation, number: u64) -> bool {
    let name = format!("a{number} ");
    let left_out = format!("(a{number},");
    why.excluded.iter().any(|it| it.reason.contains(&name) || it.reason.contains(&left_out))
}

/// Whether the summary is in the request, if there is one: what was left out for a reason has none.
fn has_summary(request: &Request, log: &[Item], record: Seq) -> bool {
    let summary = log.iter().find(|it| it.seq == record).map(|it| &it.body);
    let Some(Body::Summary(summary)) = summary else { return false };
    match &summary.left_out {
        Some(reason) => !reason.is_empty(),
        None => texts(request).any(|it| it.contains(summary.text.trim())),
    }
}

fn texts(request: &Request) -> impl Iterator<Item = &str> {
    request.messages.iter().flat_map(|it| &it.content).filter_map(|it| match it {
        Part::Text { text, .. } => Some(text.as_str()),
        _ => None,
    })
}

fn is_in(request: &Request, why: &Explanation, item: &Item) -> bool {
    match &item.body {
        Body::Message(message) => message.content.iter().all(|part| has(request, why, message, part)),
        Body::Envelope(envelope) => texts(request).any(|it| it.contains(&envelope.text)),
        Body::SystemEvent(event) => texts(request).any(|it| it.contains(&event.text)),
        Body::Summary(_) | Body::Application(_) | Body::Change(_) => true,
    }
}

fn has(request: &Request, why: &Explanation, message: &Message, part: &Part) -> bool {
    let mut same_role = request.messages.iter().filter(|it| it.role == message.role);
    match part {
        Part::Text { text, .. } => same_role.any(|it| it.content.iter().any(|it| is_text(it, text))),
        Part::ToolResult(result) => {
            let is_shortened = why.shortened_results.iter().any(|it| it.call_id == result.call_id);
            let is_repaired = why.repairs.iter().any(|it| it.call_id == result.call_id);
            let is_same = |it: &Part| match it {
                Part::ToolResult(it) => {
                    it.call_id == result.call_id && (is_shortened || it.output == result.output)
                }
                _ => false,
            };
            is_repaired || same_role.any(|it| it.content.iter().any(is_same))
        }
        other => same_role.any(|it| it.content.contains(other)),
    }
}

fn is_text(part: &Part, said: &str) -> bool {
    matches!(part, Part::Text { text, .. } if text == said)
}

/// Whether the turn of an item is listed with a reason.
fn is_listed(why: &Explanation, item: &Item) -> bool {
    let is_envelope = matches!(item.body, Body::Envelope(_));
    let excluded = why.excluded.iter().map(|it| (&it.source, &it.reason));
    let dropped = why.dropped.iter().map(|it| (&it.source, &it.reason));
    excluded.chain(dropped).any(|(source, reason)| {
        // What is said of hidden context is said of nothing else.
        let fits = is_envelope || !reason.contains("hidden context");
        let fits = fits && !reason.contains("summarised in") && !reason.is_empty();
        fits && source.strip_prefix("history:").is_some_and(|it| holds(it, item.turn))
    })
}

/// Whether a range such as `t1..t7` or `..t7` holds a turn.
fn holds(turns: &str, turn: TurnNo) -> bool {
    let (first, last) = turns.split_once("..").unwrap_or((turns, turns));
    let first = TurnNo::parse(first).unwrap_or_default();
    TurnNo::parse(last).is_some_and(|last| (first..=last).contains(&turn))
}
