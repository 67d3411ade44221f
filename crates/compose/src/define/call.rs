//! What an author's functions can read while a prompt is resolved, and how they are run.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use contexture_history::panic_message;
use contexture_template::{Globals, Mode, Partials, RenderConfig};
use futures_util::FutureExt;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Input;
use crate::{BoxError, Turn};

/// The session, tenant and user that the pass is for. Templates see it as `ctx`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scope {
    /// The session's id.
    pub session: Option<String>,
    /// The tenant's id.
    pub tenant: Option<String>,
    /// The thread's id, if the pass is for one. Templates do not see it.
    #[serde(skip)]
    pub thread: Option<String>,
    /// The user's id.
    pub user: Option<String>,
    /// The time of the request, RFC 3339. The caller passes it in: the engine has no clock.
    pub now: Option<String>,
    /// The values of the prompt's capabilities, by name: templates read `ctx.cap.<name>`. The engine fills it in; what a
    /// caller passes in is not used.
    #[serde(skip)]
    pub cap: BTreeMap<String, Value>,
}

/// One pass, as functions, predicates and contributors see it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Call {
    /// The validated input.
    pub input: Input,
    /// The session, tenant and user that the pass is for.
    pub scope: Arc<Scope>,
    /// The model call as far as it is known: `model`, `provider`, `settings`, and for the prompt's own texts also
    /// `tools` and `context`.
    pub config: Arc<Value>,
    ctx: Arc<Value>,
    is_first_turn: bool,
    is_recorded: bool,
    held_blocks: Arc<BTreeSet<String>>,
    conversation: Arc<[Turn]>,
    outside: Arc<BTreeSet<Arc<str>>>,
    user_text: Arc<str>,
    frozen: Arc<BTreeMap<String, Arc<str>>>,
}

impl Call {
    /// Returns the call for one pass.
    pub fn new(input: Input, scope: Scope, config: Value) -> Self {
        let scope = Scope { cap: BTreeMap::new(), ..scope };
        let ctx = variables(&scope);
        Self {
            input,
            scope: Arc::new(scope),
            config: Arc::new(config),
            ctx: Arc::new(ctx),
            is_first_turn: true,
            is_recorded: false,
            held_blocks: Arc::default(),
            conversation: Arc::default(),
            outside: Arc::default(),
            user_text: Arc::from(""),
            frozen: Arc::default(),
        }
    }

    /// Returns the history after the transforms, oldest first, then the turn in flight, if there is one. Only context
    /// providers and contributors that [ask for it](crate::ConversationUse) get it; for everything else it is empty,
    /// which saves the cost of building it.
    pub fn conversation(&self) -> &Arc<[Turn]> {
        &self.conversation
    }

    /// Returns the turns of the [conversation](Self::conversation) that the prompt's history limit lets into the
    /// request, oldest first.
    pub fn shown_turns(&self) -> impl DoubleEndedIterator<Item = &Turn> {
        self.conversation.iter().filter(|it| !self.outside.contains(it.id()))
    }

    /// Returns what the user says in this turn, without anything that the engine added: the text of the turn in flight,
    /// or else the prompt's own user text. Like the [conversation](Self::conversation), it has to be asked for.
    pub fn user_text(&self) -> &str {
        &self.user_text
    }

    /// Returns the body of a block of the frozen prefix as the thread keeps it, by the name of its tag. Nothing, if this
    /// pass evaluates the block. Like the [conversation](Self::conversation), it has to be asked for.
    pub fn frozen_block(&self, name: &str) -> Option<&str> {
        self.frozen.get(name).map(|it| &**it)
    }

    pub(crate) fn with_frozen(self, frozen: BTreeMap<String, Arc<str>>) -> Self {
        Self { frozen: Arc::new(frozen), ..self }
    }

    /// Returns whether the running turn was recorded with its envelope, so that text for the envelope is left out. A
    /// contributor that has nothing else to add need not search for such text again.
    pub fn has_envelope(&self) -> bool {
        self.is_recorded
    }

    pub(crate) fn with_conversation(&self, conversation: Arc<[Turn]>) -> Self {
        Self { conversation, ..self.clone() }
    }

    pub(crate) fn with_turns_outside(self, outside: BTreeSet<Arc<str>>) -> Self {
        Self { outside: Arc::new(outside), ..self }
    }

    pub(crate) fn with_user_text(self, user_text: Arc<str>) -> Self {
        Self { user_text, ..self }
    }

    pub(crate) fn recorded(self, is_recorded: bool) -> Self {
        Self { is_recorded, ..self }
    }

    /// Returns whether this is the first turn of the conversation.
    pub fn is_first_turn(&self) -> bool {
        self.is_first_turn
    }

    /// Returns whether an earlier turn in the request contains the block with that name, as written in its tag.
    pub(crate) fn holds_block(&self, block: &str) -> bool {
        self.held_blocks.contains(block)
    }

    pub(crate) fn with_held_blocks(&self, blocks: BTreeSet<String>) -> Self {
        Self { held_blocks: Arc::new(blocks), ..self.clone() }
    }

    /// Returns the call with this many turns before it.
    #[must_use]
    pub fn after_turns(self, n_turns: usize) -> Self {
        Self { is_first_turn: n_turns == 0, ..self }
    }

    /// Returns the call with the values of further capabilities.
    pub(crate) fn with_capabilities(&self, values: BTreeMap<String, Value>) -> Self {
        if values.is_empty() {
            return self.clone();
        }
        let mut scope = (*self.scope).clone();
        scope.cap.extend(values);
        Self { ctx: Arc::new(variables(&scope)), scope: Arc::new(scope), ..self.clone() }
    }

    pub(crate) fn with_input(&self, input: Input) -> Self {
        Self { input, ..self.clone() }
    }

    pub(crate) fn with_config(&self, config: Value) -> Self {
        Self { config: Arc::new(config), ..self.clone() }
    }

    /// Returns a template variable by its name.
    pub(crate) fn variable(&self, name: &str) -> Option<&Value> {
        match name {
            "input" => Some(self.input.value()),
            "ctx" => Some(&self.ctx),
            "config" => Some(&self.config),
            _ => None,
        }
    }

    /// Runs `render` with the variables and settings that all templates of a prompt share.
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

/// Returns what templates see as `ctx`.
fn variables(scope: &Scope) -> Value {
    let mut ctx = json!({
        "session": scope.session, "tenant": scope.tenant, "user": scope.user, "now": scope.now,
    });
    if !scope.cap.is_empty() {
        ctx["cap"] = json!(scope.cap);
    }
    ctx
}

/// Runs an author's function and turns a panic into an error.
pub(crate) fn catch_panic<T>(function: impl FnOnce() -> Result<T, BoxError>) -> Result<T, BoxError> {
    catch_unwind(AssertUnwindSafe(function)).unwrap_or_else(|payload| Err(panicked(&*payload)))
}

/// Awaits an author's future and turns a panic into an error, even one that happens while the future is created.
pub(crate) async fn catch_panic_in<T, F>(work: impl FnOnce() -> F) -> Result<T, BoxError>
where
    F: Future<Output = Result<T, BoxError>>,
{
    let work = AssertUnwindSafe(async move { work().await }).catch_unwind();
    work.await.unwrap_or_else(|payload| Err(panicked(&*payload)))
}

fn panicked(payload: &(dyn std::any::Any + Send)) -> BoxError {
    format!("it panicked: {}", panic_message(payload)).into()
}
