//! Turns blocks into contributors.
//!
//! The placement of a block in full: `system` with `conversation` is in the frozen prefix if `cached`, else in the
//! author's order; `system` with `turn` is at the end of the system message; `user` is in the envelope of this turn's
//! message, and without `turn` only if no earlier turn of the request contains it.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use xxhash_rust::xxh3::xxh3_64;

use super::{EntryPosition, LoweredEntry, Lowering, Node, Stability};
use crate::define::{BlockBody, BlockDefinition, BlockMessage, BlockMode, BlockScope, InlineBlock};
use crate::segment::{FrozenBody, SharedText, Volatility};
use crate::tags::{TagError, block_tag_name, escape_text, outside_block_name};
use crate::{
    BoxError, Call, Contribution, Contributor, Declaration, Error, ErrorKind, Piece, Placement, Profile,
    Rank, Source, Text, Trust,
};

/// Why a disabled block was excluded.
const NOT_ENABLED: &str = "the block is not enabled";
/// Why a block of other prompts was excluded.
const OTHER_AGENTS: &str = "`agents` of the block does not list this prompt";
/// Why a conversation block was excluded from this turn.
const HELD_BEFORE: &str = "an earlier turn of the request holds the block";

/// A block as a contributor.
struct BlockContributor {
    block: Arc<BlockDefinition>,
    /// The block's name as a tag.
    name: Arc<str>,
    takes_part: bool,
}

impl BlockContributor {
    fn piece(&self, body: &str) -> Piece {
        let body = match (&self.block.body, self.block.raw) {
            (BlockBody::Static(_), false) => escape_text(body),
            (BlockBody::Static(_), true) | (BlockBody::Dynamic(_), _) => body.into(),
        };
        tagged(&self.name, &body, is_frozen(&self.block))
    }

    async fn body(&self, call: Call) -> Result<String, BoxError> {
        match &self.block.body {
            BlockBody::Static(text) => text.evaluate(&call).wait_original().await,
            BlockBody::Dynamic(function) => function(call).await,
        }
    }
}

impl Contributor for BlockContributor {
    fn id(&self) -> &str {
        &self.name
    }

    fn contribute(&self, call: Call) -> BoxFuture<'_, Result<Contribution, BoxError>> {
        async move { Ok(contribution(self.piece(&self.body(call).await?))) }.boxed()
    }

    fn gate(&self, call: &Call) -> Result<bool, BoxError> {
        let is_once = placement(&self.block) == Placement::FirstUser;
        Ok(self.takes_part && !(is_once && call.holds_block(&self.name)))
    }

    fn declare(&self) -> Declaration {
        let BlockDefinition { ttl, deadline, on_error, order, priority, .. } = &*self.block;
        let profile = Profile {
            priority: *priority,
            placement: placement(&self.block),
            rank: Rank { order: *order, name: self.name.to_string() },
            volatility: Some(volatility(&self.block)),
            // A block that is valid for the whole conversation must not come and go with the length of the history.
            pinned: matches!(placement(&self.block), Placement::Prefix | Placement::FirstUser),
            deadline: *deadline,
            on_error: *on_error,
            remember: *ttl,
            ..Profile::default()
        };
        Declaration { profile, ..Declaration::default() }
    }
}

/// A block of a request as a contributor.
struct InlineContributor {
    name: String,
    order: i32,
    piece: Piece,
}

impl Contributor for InlineContributor {
    fn id(&self) -> &str {
        &self.name
    }

    fn contribute(&self, _call: Call) -> BoxFuture<'_, Result<Contribution, BoxError>> {
        let contribution = contribution(self.piece.clone());
        async move { Ok(contribution) }.boxed()
    }

    fn declare(&self) -> Declaration {
        let rank = Rank { order: self.order, name: self.name.clone() };
        let (placement, volatility) = (Placement::User, Some(Volatility::Turn));
        let profile = Profile { placement, rank, volatility, trust: Trust::User, ..Profile::default() };
        Declaration { profile, ..Declaration::default() }
    }
}

impl Lowering {
    /// Lowers a block.
    pub(super) fn block(&mut self, block: &Arc<BlockDefinition>, name: &str) -> LoweredEntry {
        let is_other = !block.agents.is_empty() && !block.agents.contains(&self.prompt);
        let gate_reason = match (block.enabled, is_other) {
            (false, _) => NOT_ENABLED,
            (true, true) => OTHER_AGENTS,
            (true, false) => HELD_BEFORE,
        };
        let name: Arc<str> = name.into();
        let takes_part = block.enabled && !is_other;
        let contributor = BlockContributor { block: Arc::clone(block), name: Arc::clone(&name), takes_part };
        let literal = match &block.body {
            BlockBody::Static(text) => text.as_original(),
            BlockBody::Dynamic(_) => None,
        };
        let constant = literal.map(|it| Arc::new(contribution(contributor.piece(it))));
        let stability = match constant {
            literal if is_frozen(block) => Stability::Frozen { name, literal },
            Some(constant) => Stability::Constant(constant),
            // The content of the user message does not change while its turn runs.
            None if block.message == BlockMessage::User || block.mode == BlockMode::Cached => Stability::Turn,
            None => Stability::Request,
        };
        LoweredEntry {
            stability: Some(stability),
            gate_reason: Some(gate_reason),
            ..LoweredEntry::new(Arc::new(contributor))
        }
    }
}

/// Lowers the blocks of a request. `known` returns the place of the prompt's own entry with a name.
pub(crate) fn lower_inline<'a>(
    blocks: &[InlineBlock],
    known: impl Fn(&str) -> Option<&'a str>,
) -> Result<Vec<Arc<Node>>, Error> {
    let mut lowering = Lowering::default();
    let mut nodes = Vec::with_capacity(blocks.len());
    for (position, InlineBlock { name, body, order }) in blocks.iter().enumerate() {
        let place = format!("blocks[{position}] of the request");
        let name = match outside_block_name(name) {
            Ok(name) => name,
            Err(err) => {
                lowering.errors.push(Error::from(err).or_at(place));
                continue;
            }
        };
        if let Some(first) = known(&name) {
            let (id, first) = (name.clone(), first.to_owned());
            lowering.errors.push(ErrorKind::DuplicateId { id, first, second: place }.into());
            continue;
        }
        let piece = tagged(&name, &escape_text(body), false);
        let stability = Some(Stability::Constant(Arc::new(contribution(piece.clone()))));
        let source = Source::Block(name.as_str().into());
        let contributor = Arc::new(InlineContributor { name, order: *order, piece });
        let identity = Arc::as_ptr(&contributor).cast::<()>().addr();
        lowering.claim_id(&source, identity, &place);
        let at = EntryPosition { source, identity, place: &place, depth: 0, is_gated: false };
        let node =
            lowering.new_node(at, || 0, |_, _| LoweredEntry { stability, ..LoweredEntry::new(contributor) });
        nodes.push(node);
    }
    Error::all(lowering.errors)?;
    Ok(nodes)
}

/// Returns the contribution of a block whose body the thread keeps, as it was rendered then.
pub(crate) fn frozen_block(name: &str, body: &str) -> Contribution {
    contribution(tagged(name, body, true))
}

/// Returns the name of a block as a tag.
pub(super) fn block_name(block: &BlockDefinition) -> Result<String, TagError> {
    block_tag_name(&block.name)
}

/// Returns a hash that distinguishes versions of a block.
pub(super) fn block_stamp(block: &BlockDefinition) -> u64 {
    xxh3_64(format!("{block:?}").as_bytes())
}

fn contribution(piece: Piece) -> Contribution {
    Contribution { pieces: vec![piece], ..Contribution::default() }
}

/// Wraps a body in its tag. A blank body makes no text.
fn tagged(name: &str, body: &str, is_frozen: bool) -> Piece {
    // The body is neutralised before it is frozen, so that the frozen bytes are those that were sent.
    let body = SharedText::authored(body.trim_matches(['\n', '\r']));
    let body = if body.trim().is_empty() { "" } else { body.as_str() };
    let text = match body.is_empty() {
        true => SharedText::authored(""),
        false => SharedText::composed(&format!("<{name}>\n{body}\n</{name}>")),
    };
    let frozen = is_frozen.then(|| FrozenBody { name: name.into(), body: body.into() });
    Piece { frozen, ..Piece::from(text) }
}

fn is_frozen(block: &BlockDefinition) -> bool {
    placement(block) == Placement::Prefix
}

fn placement(block: &BlockDefinition) -> Placement {
    match (block.message, block.scope, block.mode) {
        (BlockMessage::System, BlockScope::Conversation, BlockMode::Cached) => Placement::Prefix,
        (BlockMessage::System, BlockScope::Conversation, BlockMode::RealTime) => Placement::System,
        (BlockMessage::System, BlockScope::Turn, _) => Placement::SystemLast,
        (BlockMessage::User, BlockScope::Conversation, _) => Placement::FirstUser,
        (BlockMessage::User, BlockScope::Turn, _) => Placement::User,
    }
}

fn volatility(block: &BlockDefinition) -> Volatility {
    match (placement(block), &block.body) {
        (Placement::Prefix, _) => Volatility::Conversation,
        // The block is rendered for each request, so its volatility depends on what it reads.
        (Placement::System, BlockBody::Static(text)) => Text::volatility(text),
        (Placement::System, BlockBody::Dynamic(_)) => Volatility::Turn,
        (Placement::SystemLast | Placement::User | Placement::FirstUser | Placement::Reminders, _) => {
            Volatility::Turn
        }
    }
}
