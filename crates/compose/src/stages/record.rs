//! Records what a request contains, for comparison with the next one of its thread.

use std::sync::{Arc, OnceLock};

use super::arrange::Arranged;
use super::draft::message_segments;
use super::render::Rendered;
use crate::cache::{Sent, SentGroup, SentMessages, SentPiece, SentText};
use crate::segment::{Body, Slot};
use crate::{Segment, Source};

/// Records the contents of a request. Reads no message.
pub(crate) fn record(arranged: &Arranged, rendered: &Rendered) -> Sent {
    let mut pieces = tool_pieces(arranged);
    let n_tools = pieces.len();
    pieces.extend(system_pieces(arranged));
    let n_system = usize::from(arranged.system.is_some());
    let list = rendered.request.messages[n_system..].to_vec();
    let groups = groups(arranged, list.len());
    let origins = Arc::clone(&rendered.origins);
    let model = arranged.draft.skeleton.model.clone();
    let messages = SentMessages::Known { list, origins, groups };
    Sent { model, pieces, n_tools, messages, is_unreported: false, digests: OnceLock::new() }
}

fn tool_pieces(arranged: &Arranged) -> Vec<SentPiece> {
    let tools = arranged.draft.segments.iter().filter(|it| it.slot == Slot::Tools && it.fate.is_sent());
    let piece = |it: &Segment| match &it.body {
        Body::Tool(tool) => {
            let text = SentText::Tool(Arc::clone(tool.tool()));
            Some(SentPiece { source: it.source.clone(), text, tokens: it.tokens })
        }
        Body::Nothing | Body::Text(_) | Body::Tags(_) | Body::Messages(_) => None,
    };
    tools.filter_map(piece).collect()
}

fn system_pieces(arranged: &Arranged) -> impl Iterator<Item = SentPiece> {
    let Arranged { draft, pieces, system, .. } = arranged;
    let block = || Source::TagBlock;
    system.iter().flat_map(move |system| {
        pieces.iter().map(move |it| SentPiece {
            source: it.segment.map_or_else(block, |it| draft.segments[it].source.clone()),
            text: SentText::System(Arc::clone(system), it.bytes.clone()),
            tokens: it.tokens(draft),
        })
    })
}

/// Returns one group for each Segment before this turn, and one for this turn, whose envelope may be part of a
/// message.
fn groups(arranged: &Arranged, n_messages: usize) -> Vec<SentGroup> {
    let (mut groups, mut active) = (Vec::new(), arranged.active_frame());
    for segment in message_segments(&arranged.draft) {
        match segment.slot < Slot::User {
            true => groups.push(SentGroup { n_messages: segment.body.n_messages(), tokens: segment.tokens }),
            false => active += segment.tokens,
        }
    }
    let stored: usize = groups.iter().map(|it| it.n_messages).sum();
    groups.push(SentGroup { n_messages: n_messages.saturating_sub(stored), tokens: active });
    groups
}
