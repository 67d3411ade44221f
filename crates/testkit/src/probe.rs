//! A contributor that counts how often it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use contexture_compose::{BoxError, BoxFuture, Call, Contribution, Contributor, Declaration, Profile};

/// A contributor that waits, counts its calls and says its text.
#[derive(Clone, Debug)]
pub struct Probe {
    id: String,
    text: String,
    wait: Duration,
    profile: Profile,
    calls: Arc<AtomicUsize>,
}

impl Probe {
    /// Returns a probe that contributes its id.
    pub fn new(id: impl Into<String>) -> Self {
        let id = id.into();
        Self {
            text: id.clone(),
            id,
            wait: Duration::ZERO,
            profile: Profile::default(),
            calls: Arc::default(),
        }
    }

    /// Lets it wait before it answers.
    #[must_use]
    pub fn waiting(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Sets how it is treated.
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// Returns how often it ran, over all clones.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

impl Contributor for Probe {
    fn id(&self) -> &str {
        &self.id
    }

    fn contribute(&self, _call: Call) -> BoxFuture<'_, Result<Contribution, BoxError>> {
        Box::pin(async move {
            self.calls.fetch_add(1, Ordering::SeqCst);
            if !self.wait.is_zero() {
                tokio::time::sleep(self.wait).await;
            }
            Ok(Contribution::text(&self.text))
        })
    }

    fn declare(&self) -> Declaration {
        Declaration { profile: self.profile.clone(), ..Declaration::default() }
    }
}
