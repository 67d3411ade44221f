//! Turns context providers into contributors.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use contexture_history::panic_message;
use contexture_message::Message;
use futures_util::future::{BoxFuture, FutureExt};

use super::{EntryPosition, Item, LoweredEntry, Lowering, Node, Stability};
use crate::define::ProviderParts;
use crate::segment::FrozenBody;
use crate::{
    BoxError, Call, ContextProvider, Contribution, Contributor, Declaration, Error, ErrorKind, Source,
};

/// A context provider as a contributor.
struct ProviderContributor(Arc<ProviderParts>);

impl Contributor for ProviderContributor {
    fn id(&self) -> &str {
        self.0.provider.name()
    }

    fn contribute(&self, call: Call) -> BoxFuture<'_, Result<Contribution, BoxError>> {
        let work = async move {
            let conversation = Arc::clone(call.conversation());
            self.0.provider.provide(call, conversation).await
        };
        // A panic can only leave the provider's own state inconsistent; the pass only gets its messages.
        let work = AssertUnwindSafe(work).catch_unwind();
        async move {
            match work.await {
                Ok(messages) => Ok(contribution(messages?)),
                Err(payload) => Err(format!("it panicked: {}", panic_message(&*payload)).into()),
            }
        }
        .boxed()
    }

    fn declare(&self) -> Declaration {
        Declaration { profile: self.0.profile.clone(), ..Declaration::default() }
    }
}

impl Lowering {
    /// Lowers a provider.
    pub(super) fn provider(
        &mut self,
        ContextProvider(parts): &ContextProvider,
        place: &str,
        depth: usize,
    ) -> Option<Item> {
        let source = Source::Provider(parts.provider.name().into());
        let frozen = |name| Stability::Frozen { name, literal: None };
        let stability = parts.is_cached.then(|| frozen(source.to_string().into()));
        let at = EntryPosition { source, identity: Arc::as_ptr(parts).addr(), place, depth, is_gated: false };
        let contributor = Arc::new(ProviderContributor(Arc::clone(parts)));
        let made = LoweredEntry { stability, is_provider: true, ..LoweredEntry::new(contributor) };
        self.node(at, || 0, |_, _| made)
    }

    /// Lowers providers, in order.
    pub(super) fn providers(&mut self, providers: &[ContextProvider], place: &str) -> Vec<Arc<Node>> {
        let lowered = providers.iter().enumerate();
        let lowered = lowered.filter_map(|(idx, it)| self.provider(it, &format!("{place}[{idx}]"), 0));
        let node = |it| match it {
            Item::Node(node) => Some(node),
            Item::Choice(_) => None,
        };
        lowered.filter_map(node).collect()
    }
}

/// Lowers the providers of a request. `known` returns the place of the prompt's own entry with a source.
pub(crate) fn lower_providers<'a>(
    providers: &[ContextProvider],
    known: impl Fn(&Source) -> Option<&'a str>,
) -> Result<Vec<Arc<Node>>, Error> {
    if providers.is_empty() {
        return Ok(Vec::new());
    }
    let mut lowering = Lowering::default();
    let nodes = lowering.providers(providers, "providers of the request");
    for node in &nodes {
        if let Some(first) = known(&node.source) {
            let id = node.contributor.id().to_owned();
            let (first, second) = (first.to_owned(), node.place.clone());
            lowering.errors.push(ErrorKind::DuplicateId { id, first, second }.into());
        }
    }
    Error::all(lowering.errors)?;
    Ok(nodes)
}

/// Returns a provider's messages as they are sent, for the thread to keep.
pub(crate) fn messages_to_freeze(name: &Arc<str>, messages: &[Arc<Message>]) -> FrozenBody {
    // Plain data with string keys always serializes.
    let body = serde_json::to_string(messages).unwrap_or_default();
    FrozenBody { name: Arc::clone(name), body: body.into() }
}

/// Returns the contribution of a provider whose messages the thread keeps; `None` if they cannot be read.
pub(crate) fn frozen_messages(body: &str) -> Option<Contribution> {
    serde_json::from_str(body).ok().map(contribution)
}

fn contribution(messages: Vec<Message>) -> Contribution {
    Contribution { messages, ..Contribution::default() }
}
