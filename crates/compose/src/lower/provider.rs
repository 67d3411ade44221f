//! Turns context providers into contributors.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use contexture_history::panic_message;
use contexture_message::Message;
use futures_util::future::{BoxFuture, FutureExt};

use super::{Item, Lowering, Made, Node, Spot, Stability};
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
    /// Lowers providers, in order.
    pub(super) fn providers(&mut self, providers: &[ContextProvider], place: &str) -> Vec<Arc<Node>> {
        let mut nodes = Vec::with_capacity(providers.len());
        for (position, ContextProvider(parts)) in providers.iter().enumerate() {
            let place = format!("{place}[{position}]");
            let source = Source::Provider(parts.provider.name().into());
            let identity = Arc::as_ptr(parts).addr();
            let frozen = |name| Stability::Frozen { name, literal: None };
            let stability = parts.is_cached.then(|| frozen(source.to_string().into()));
            let spot = Spot { source, identity, place: &place, depth: 0, is_gated: false };
            let contributor = Arc::new(ProviderContributor(Arc::clone(parts)));
            let made = Made { stability, is_provider: true, ..Made::new(contributor) };
            if let Some(Item::Node(node)) = self.node(spot, || 0, |_, _| made) {
                nodes.push(node);
            }
        }
        nodes
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
