//! Turns contexts into contributors.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use serde_json::Value;

use crate::define::ContextParts;
use crate::segment::{SharedText, SharedTool, Volatility};
use crate::{BoxError, Call, Contribution, Contributor, ConversationUse, Declaration, Piece, Profile};

/// Returns how often a context changes, derived from its contents.
pub(super) fn inferred_volatility(parts: &ContextParts) -> Volatility {
    let text = parts.text.as_ref().map(crate::Text::volatility);
    let values = parts.values.as_ref().map(crate::TagValue::volatility);
    let inferred = text.max(values).unwrap_or_default();
    // Even if declared `cached`, a function of the input differs between threads.
    if parts.profile.cached { inferred.min(Volatility::Conversation) } else { inferred }
}

/// A context as a contributor.
pub(super) struct ContextContributor {
    pub(super) parts: Arc<ContextParts>,
    pub(super) profile: Profile,
    pub(super) tools: Vec<SharedTool>,
}

impl ContextContributor {
    async fn pieces(&self, call: &Call) -> Result<Vec<Piece>, BoxError> {
        let Some(text) = &self.parts.text else { return Ok(Vec::new()) };
        let shorter = self.profile.shorter.iter().map(|it| it.evaluate(call).wait());
        let (text, shorter) = futures_util::future::try_join(
            text.evaluate(call).wait(),
            futures_util::future::try_join_all(shorter),
        )
        .await?;
        Ok(vec![Piece { shorter, ..Piece::from(trimmed(text)) }])
    }

    fn contribution(&self, pieces: Vec<Piece>, values: Vec<Value>) -> Contribution {
        Contribution {
            pieces,
            values,
            tools: self.tools.clone(),
            constraints: self.parts.constraints.clone(),
            guardrails: self.parts.guardrails.clone(),
            ..Contribution::default()
        }
    }

    /// Returns the contribution if it consists of literals, so that no pass has to evaluate it again.
    pub(super) fn constant(&self) -> Option<Contribution> {
        if self.parts.values.is_some() {
            return None;
        }
        let Some(text) = &self.parts.text else { return Some(self.contribution(Vec::new(), Vec::new())) };
        let text = trimmed(text.as_literal()?.clone());
        let shorter: Option<Vec<_>> =
            self.profile.shorter.iter().map(|it| it.as_literal().cloned()).collect();
        Some(self.contribution(vec![Piece { shorter: shorter?, ..Piece::from(text) }], Vec::new()))
    }

    async fn values(&self, call: &Call) -> Result<Vec<Value>, BoxError> {
        match &self.parts.values {
            Some(values) => Ok(vec![values.resolve(call).await?]),
            None => Ok(Vec::new()),
        }
    }
}

/// Returns an empty text if it is all white space.
fn trimmed(text: SharedText) -> SharedText {
    if !text.is_empty() && text.trim().is_empty() { SharedText::authored("") } else { text }
}

impl Contributor for ContextContributor {
    fn id(&self) -> &str {
        self.parts.id.as_deref().unwrap_or_default()
    }

    fn contribute(&self, call: Call) -> BoxFuture<'_, Result<Contribution, BoxError>> {
        async move {
            let (pieces, values) =
                futures_util::future::try_join(self.pieces(&call), self.values(&call)).await?;
            Ok(self.contribution(pieces, values))
        }
        .boxed()
    }

    fn gate(&self, call: &Call) -> Result<bool, BoxError> {
        self.parts.when.as_ref().map_or(Ok(true), |it| it.holds(call))
    }

    fn declare(&self) -> Declaration {
        Declaration {
            input: self.parts.input.clone(),
            entries: self.parts.entries.clone(),
            profile: self.profile.clone(),
            family: None,
            conversation: ConversationUse::Nothing,
            source: None,
            joint: None,
        }
    }
}
