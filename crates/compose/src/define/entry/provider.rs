//! Context providers, which put messages before the history.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use contexture_message::Message;
use futures_util::future::{BoxFuture, FutureExt};

use super::contributor::{OnError, Profile};
use crate::define::Call;
use crate::segment::{Priority, Trust, Volatility};
use crate::{BoxError, Turn};

/// Puts messages before the history of a request. They are never stored.
///
/// Implementors promise that dropping the future stops the work. See [`ContextProvider`] for the options of a
/// provider, and for providers made from closures.
pub trait ContextSource: Send + Sync {
    /// Returns the name that identifies it in an Explanation, `provider:<name>`.
    fn name(&self) -> &str;

    /// Returns the messages. Runs concurrently with all other providers and contributors.
    ///
    /// `conversation` is the output of the transforms: the history, oldest first, then the turn in flight, if there
    /// is one.
    fn provide(&self, call: Call, conversation: Arc<[Turn]>)
    -> BoxFuture<'_, Result<Vec<Message>, BoxError>>;
}

/// A context provider and its options. Cheap to clone.
///
/// If it fails or panics, it is left out of the pass and the reason is recorded, unless [`on_error`](Self::on_error)
/// says otherwise.
///
/// ```
/// # futures::executor::block_on(async {
/// use contexture_compose::{Prompt, ContextProvider, ResolveOptions};
/// use contexture_message::Message;
///
/// let tickets = ContextProvider::new("tickets", |_call, conversation| async move {
///     Ok(vec![Message::system(format!("{} turns so far, no open tickets.", conversation.len()))])
/// });
/// let prompt = Prompt::builder("support").provider(tickets).build()?;
/// let pass = prompt.resolve(ResolveOptions::default().user_message("Hi")).await?;
/// assert_eq!(pass.request().messages[0].as_text(), Some("1 turns so far, no open tickets."));
/// assert_eq!(pass.explain().parts[0].source, "provider:tickets");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct ContextProvider(pub(crate) Arc<ProviderParts>);

#[derive(Clone)]
pub(crate) struct ProviderParts {
    pub(crate) provider: Arc<dyn ContextSource>,
    pub(crate) profile: Profile,
    /// Whether the thread keeps its first messages.
    pub(crate) is_cached: bool,
}

impl ContextProvider {
    /// Returns a provider made from an async closure.
    pub fn new<F>(
        name: impl Into<String>,
        provide: impl Fn(Call, Arc<[Turn]>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Vec<Message>, BoxError>> + Send + 'static,
    {
        Self::of(FnProvider { name: name.into(), provide })
    }

    /// Returns a provider made from a [`ContextSource`].
    pub fn of(provider: impl ContextSource + 'static) -> Self {
        let profile = Profile {
            on_error: OnError::Skip,
            volatility: Some(Volatility::Turn),
            trust: Trust::Developer,
            ..Profile::default()
        };
        Self(Arc::new(ProviderParts { provider: Arc::new(provider), profile, is_cached: false }))
    }

    /// Returns the name that identifies it in an Explanation, `provider:<name>`.
    pub fn name(&self) -> &str {
        self.0.provider.name()
    }

    /// Sets how long it may take.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        self.with(|it| it.profile.deadline = Some(deadline))
    }

    /// Sets whether its failure fails the pass.
    #[must_use]
    pub fn on_error(self, on_error: OnError) -> Self {
        self.with(|it| it.profile.on_error = on_error)
    }

    /// Sets its priority under a budget: the lowest is dropped first.
    #[must_use]
    pub fn priority(self, priority: Priority) -> Self {
        self.with(|it| it.profile.priority = priority)
    }

    /// Sets where its content comes from, for policies.
    #[must_use]
    pub fn trust(self, trust: Trust) -> Self {
        self.with(|it| it.profile.trust = trust)
    }

    /// Lets the thread keep its first messages, so that later requests begin with the same bytes. See
    /// [`Pass::frozen_blocks`](crate::Pass::frozen_blocks).
    #[must_use]
    pub fn cached(self) -> Self {
        self.with(|it| (it.is_cached, it.profile.volatility) = (true, Some(Volatility::Conversation)))
    }

    /// Calls it again in every turn. The default.
    #[must_use]
    pub fn real_time(self) -> Self {
        self.with(|it| (it.is_cached, it.profile.volatility) = (false, Some(Volatility::Turn)))
    }

    /// Sets how often its messages change; the default is each turn. Messages that change each turn keep the history
    /// after them out of the provider's cache.
    #[must_use]
    pub fn volatility(self, volatility: Volatility) -> Self {
        self.with(|it| it.profile.volatility = Some(volatility))
    }

    fn with(mut self, change: impl FnOnce(&mut ProviderParts)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }
}

impl fmt::Debug for ContextProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContextProvider")
            .field("name", &self.name())
            .field("is_cached", &self.0.is_cached)
            .finish_non_exhaustive()
    }
}

struct FnProvider<P> {
    name: String,
    provide: P,
}

impl<P, F> ContextSource for FnProvider<P>
where
    P: Fn(Call, Arc<[Turn]>) -> F + Send + Sync,
    F: Future<Output = Result<Vec<Message>, BoxError>> + Send + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn provide(
        &self,
        call: Call,
        conversation: Arc<[Turn]>,
    ) -> BoxFuture<'_, Result<Vec<Message>, BoxError>> {
        (self.provide)(call, conversation).boxed()
    }
}
