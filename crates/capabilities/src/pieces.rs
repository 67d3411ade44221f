//! Hits as pieces of a contribution: each a Segment of its own, with what the Explanation tells about it.

use std::sync::Arc;

use contexture_compose::tags::escape_attribute;
use contexture_compose::{Piece, Priority, Source};
use contexture_knowledge::Hit;
use contexture_message::Evidence;
use serde_json::{Value, json};

use crate::search::{Found, LeftOut};

/// The difference between the priorities of two neighbouring ranks.
const STEP: f64 = 0.01;

const SNIPPET: &str = include_str!("templates/snippet.txt");

/// In what form hits are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HitForm {
    /// As text.
    Snippet,
    /// As evidence, which an answer can cite.
    Evidence,
}

/// Returns the pieces of what was found: one that says how it was found, then the hits, best first, then those that are
/// left out.
pub(crate) fn pieces(owner: &str, found: Found, form: HitForm, priority: Priority) -> Vec<Piece> {
    let own = |piece: Piece| Piece { source: Some(Source::Noted(Arc::from(owner))), ..piece };
    let Found { query, hits, left_out, failures, notes, trace } = found;
    let mut detail = json!({"query": query, "found": hits.len()});
    if !notes.is_empty() {
        detail["notes"] = json!(notes);
    }
    if let Some(trace) = trace {
        detail["steps"] = json!(trace.steps);
    }
    // What failed altogether is one exclusion; what failed in part stands beside what was found.
    let (whole, part) = if hits.is_empty() { (failures, Vec::new()) } else { (Vec::new(), failures) };
    let excluded = (!whole.is_empty()).then(|| whole.join("; "));
    let mut pieces = vec![own(Piece { detail: Some(Arc::new(detail)), excluded, ..Piece::new("") })];
    pieces.extend(part.into_iter().map(|it| own(Piece { excluded: Some(it), ..Piece::new("") })));
    let kept = hits.into_iter().enumerate().map(|(idx, it)| hit_piece(it, idx, form, priority));
    pieces.extend(kept);
    let out = left_out.into_iter().map(|LeftOut { hit, rank, reason }| Piece {
        excluded: Some(reason),
        ..hit_piece(hit, rank, form, priority)
    });
    pieces.extend(out);
    pieces
}

fn hit_piece(hit: Hit, idx: usize, form: HitForm, priority: Priority) -> Piece {
    let evidence = (form == HitForm::Evidence).then(|| Arc::new(evidence(&hit)));
    let source = Source::Knowledge { base: hit.base.as_str().into(), chunk: hit.chunk.as_str().into() };
    Piece {
        priority: Some(lowered(priority, idx)),
        source: Some(source),
        detail: Some(Arc::new(detail(&hit, idx))),
        evidence,
        ..Piece::new(snippet(&hit))
    }
}

/// Returns the priority of a rank, from 0.
fn lowered(priority: Priority, idx: usize) -> Priority {
    // There are at most a thousand hits, so the cast is exact.
    let value = (priority.value() - STEP * idx as f64).max(0.0);
    Priority::new(value).unwrap_or(priority)
}

fn detail(hit: &Hit, idx: usize) -> Value {
    let mut detail = json!({"rank": idx + 1, "score": hit.score});
    if !hit.shares.is_empty() {
        detail["shares"] = json!(hit.shares);
    }
    for (key, value) in [("title", &hit.document.title), ("origin", &hit.document.origin)] {
        if let Some(value) = value {
            detail[key] = json!(value);
        }
    }
    detail
}

/// Returns the document of a hit as citations name it.
pub(crate) fn document(hit: &Hit) -> String {
    let known = hit.document.origin.clone().or_else(|| hit.document.id.clone());
    known.unwrap_or_else(|| hit.source())
}

/// Returns a hit as evidence. A provider that returns citations cites whole blocks, so there is one for each paragraph.
pub(crate) fn evidence(hit: &Hit) -> Evidence {
    Evidence {
        chunk: format!("{}:{}", hit.base, hit.chunk),
        source: document(hit),
        title: hit.document.title.clone(),
        text: hit.text.split_inclusive("\n\n").map(str::to_owned).collect(),
        citations: true,
    }
}

/// Returns a hit as text, in a tag that its text cannot leave.
fn snippet(hit: &Hit) -> String {
    let tag = hit.tag();
    let source = document(hit);
    let text = hit.text.replace("</", "&lt;/");
    let values =
        [("{id}", escape_attribute(&tag)), ("{source}", escape_attribute(&source)), ("{text}", text.into())];
    let mut filled = String::new();
    let mut rest = SNIPPET.trim_end();
    // What a value contains is never taken for a place of another.
    while let Some((at, name, value)) =
        values.iter().filter_map(|(name, value)| Some((rest.find(name)?, name, value))).min_by_key(|it| it.0)
    {
        filled.push_str(&rest[..at]);
        filled.push_str(value);
        rest = &rest[at + name.len()..];
    }
    filled + rest
}
