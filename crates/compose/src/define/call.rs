//! What an author's function may look at while a prompt is resolved.

use std::collections::BTreeSet;
use std::sync::Arc;

use contexture_template::{Globals, Mode, Partials, RenderConfig};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Input;
use crate::Turn;

/// Who the pass is for. Templates see it as `ctx`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scope {
    /// The session's id.
    pub session: Option<String>,
    /// The tenant's id.
    pub tenant: Option<String>,
    /// The user's id.
    pub user: Option<String>,
    /// The time of the request, RFC 3339. Handed in: the engine has no clock.
    pub now: Option<String>,
}

/// One pass, as functions, predicates and contributors see it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Call {
    /// The validated input.
    pub input: Input,
    /// Who the pass is for.
    pub scope: Arc<Scope>,
    /// What the model call will look like, as far as it is known: `model`, `provider`, `settings`, and for
    /// the prompt's own texts also `tools` and `context`.
    pub config: Arc<Value>,
    ctx: Arc<Value>,
    is_first_turn: bool,
    said: Arc<BTreeSet<String>>,
    conversation: Arc<[Turn]>,
}

impl Call {
    /// Returns the view of one pass.
    pub fn new(input: Input, scope: Scope, config: Value) -> Self {
        let ctx = json!({
            "session": scope.session, "tenant": scope.tenant, "user": scope.user, "now": scope.now,
        });
        Self {
            input,
            scope: Arc::new(scope),
            config: Arc::new(config),
            ctx: Arc::new(ctx),
            is_first_turn: true,
            said: Arc::default(),
            conversation: Arc::default(),
        }
    }

    /// Returns the history as transforms leave it, oldest first, and last the turn in flight, if there is one. Only context
    /// providers get it; for all others it is empty, so that nobody pays for what they do not read.
    pub fn conversation(&self) -> &Arc<[Turn]> {
        &self.conversation
    }

    pub(crate) fn with_conversation(&self, conversation: Arc<[Turn]>) -> Self {
        Self { conversation, ..self.clone() }
    }

    /// Whether no turn of the conversation stands before this one.
    pub fn is_first_turn(&self) -> bool {
        self.is_first_turn
    }

    /// Whether an earlier turn that goes along holds the block with that name, as its tag is written.
    pub(crate) fn has_said(&self, block: &str) -> bool {
        self.said.contains(block)
    }

    pub(crate) fn with_said(&self, blocks: BTreeSet<String>) -> Self {
        Self { said: Arc::new(blocks), ..self.clone() }
    }

    /// Returns the view of a pass with turns before it.
    #[must_use]
    pub fn after_turns(self, n_turns: usize) -> Self {
        Self { is_first_turn: n_turns == 0, ..self }
    }

    pub(crate) fn with_input(&self, input: Input) -> Self {
        Self { input, ..self.clone() }
    }

    pub(crate) fn with_config(&self, config: Value) -> Self {
        Self { config: Arc::new(config), ..self.clone() }
    }

    /// Returns a variable that templates see, by its name.
    pub(crate) fn variable(&self, name: &str) -> Option<&Value> {
        match name {
            "input" => Some(self.input.value()),
            "ctx" => Some(&self.ctx),
            "config" => Some(&self.config),
            _ => None,
        }
    }

    /// Runs `render` with the variables and rules that every template of a prompt gets.
    pub(crate) fn in_template<R>(
        &self,
        partials: Option<&dyn Partials>,
        render: impl FnOnce(&Globals<'_>, &RenderConfig<'_>) -> R,
    ) -> R {
        let variables = [("input", self.input.value()), ("ctx", &*self.ctx), ("config", &*self.config)];
        let now = self.scope.now.as_deref();
        let config = RenderConfig { mode: Mode::Strict, partials, now, ..RenderConfig::default() };
        render(&Globals::new(&variables), &config)
    }
}
