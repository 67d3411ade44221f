//! Guardrails: checks of input and output, run in sequence.
//!
//! A guardrail allows a text, blocks it, rewrites it for all that follows, or warns. One with inline rules sets in
//! `action` what a broken rule does: `block` (the default), `warn`, or `rewrite` with a `replacement`.

use std::sync::Arc;

use contexture_compose::{BoxFuture, Guardrail, GuardrailSide, Runner};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::rules::Rules;
use crate::AgentError;
use crate::event::Remark;

/// The verdict of a guardrail about a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuardrailVerdict {
    /// The text passes.
    Allow,
    /// The text is blocked for this reason.
    Block(String),
    /// The text is replaced by this one.
    Rewrite(String),
    /// The text passes with this remark.
    Warn(String),
}

/// Checks a text.
pub trait GuardrailCheck: Send + Sync {
    /// Returns the verdict about the text.
    fn check(&self, text: Arc<str>) -> BoxFuture<'static, GuardrailVerdict>;
}

impl<F, R> GuardrailCheck for F
where
    F: Fn(Arc<str>) -> R + Send + Sync,
    R: Future<Output = GuardrailVerdict> + Send + 'static,
{
    fn check(&self, text: Arc<str>) -> BoxFuture<'static, GuardrailVerdict> {
        Box::pin(self(text))
    }
}

/// Returns a guardrail with the function that checks one side, so that the prompt needs nothing from the agent.
pub fn guardrail(
    id: impl Into<String>,
    on: GuardrailSide,
    check: impl GuardrailCheck + 'static,
) -> Guardrail {
    let check: Arc<dyn GuardrailCheck> = Arc::new(check);
    Guardrail { id: id.into(), on, spec: Map::new(), runner: Some(Runner::new(check)) }
}

/// A text that passed all guardrails.
#[derive(Debug)]
pub(crate) struct Guarded {
    /// The text, if it was rewritten.
    pub(crate) rewritten: Option<String>,
    pub(crate) remarks: Vec<Remark>,
}

/// Runs the guardrails of one side on a text, in order.
pub(crate) async fn guard(
    definitions: &[Guardrail],
    side: GuardrailSide,
    text: &str,
    known: impl Fn(&str) -> Option<Arc<dyn GuardrailCheck>>,
) -> Result<Guarded, AgentError> {
    let mut guarded = Guarded { rewritten: None, remarks: Vec::new() };
    for definition in definitions.iter().filter(|it| it.on == side) {
        let carried = definition.runner.as_ref().and_then(Runner::get::<Arc<dyn GuardrailCheck>>);
        let check = match carried.cloned().or_else(|| known(&definition.id)) {
            Some(check) => check,
            None => Arc::new(InlineGuardrail::new(definition).map_err(|reason| AgentError::Unknown {
                source_of: format!("guardrail:{}", definition.id),
                reason,
            })?),
        };
        let current: Arc<str> = guarded.rewritten.as_deref().unwrap_or(text).into();
        match check.check(current).await {
            GuardrailVerdict::Allow => {}
            GuardrailVerdict::Block(reason) => {
                let side = match side {
                    GuardrailSide::Input => "input",
                    GuardrailSide::Output => "output",
                };
                return Err(AgentError::Blocked { id: definition.id.clone(), side, reason });
            }
            GuardrailVerdict::Rewrite(text) => guarded.rewritten = Some(text),
            GuardrailVerdict::Warn(message) => {
                guarded.remarks.push(Remark { source: format!("guardrail:{}", definition.id), message });
            }
        }
    }
    Ok(guarded)
}

/// Validates a definition with inline rules, for example when a project is loaded. Definitions without rules are
/// looked up by id at run time.
pub fn check_guardrail(definition: &Guardrail) -> Result<(), String> {
    match definition.spec.is_empty() {
        true => Ok(()),
        false => InlineGuardrail::new(definition).map(drop),
    }
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    #[default]
    Block,
    Warn,
    Rewrite,
}

struct InlineGuardrail {
    rules: Rules,
    action: Action,
    reason: Option<String>,
    replacement: String,
}

impl InlineGuardrail {
    fn new(definition: &Guardrail) -> Result<Self, String> {
        let mut spec = definition.spec.clone();
        let mut text = |key: &str| match spec.shift_remove(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(format!("`{key}` is not a text")),
        };
        let (reason, replacement) = (text("reason")?, text("replacement")?);
        let action: Option<Action> = match text("action")? {
            None => None,
            Some(word) => Some(
                serde_json::from_value(Value::String(word.clone()))
                    .map_err(|_| format!("`action` is `{word}`: block, warn or rewrite"))?,
            ),
        };
        let replacement = replacement.unwrap_or_else(|| "[removed]".to_owned());
        Ok(Self { rules: Rules::new(spec)?, action: action.unwrap_or_default(), reason, replacement })
    }

    fn verdict(&self, text: &str) -> GuardrailVerdict {
        let broken = self.rules.broken(text);
        if broken.is_empty() {
            return GuardrailVerdict::Allow;
        }
        let reason = || self.reason.clone().unwrap_or_else(|| broken.join("; "));
        match self.action {
            Action::Block => GuardrailVerdict::Block(reason()),
            Action::Warn => GuardrailVerdict::Warn(reason()),
            Action::Rewrite => {
                let replaced = self.rules.replaced(text, &self.replacement);
                // If a replacement does not fix the rule, such as a maximum length, the text is blocked.
                match self.rules.broken(&replaced).is_empty() {
                    true => GuardrailVerdict::Rewrite(replaced),
                    false => GuardrailVerdict::Block(reason()),
                }
            }
        }
    }
}

impl GuardrailCheck for InlineGuardrail {
    fn check(&self, text: Arc<str>) -> BoxFuture<'static, GuardrailVerdict> {
        let verdict = self.verdict(&text);
        Box::pin(async { verdict })
    }
}
