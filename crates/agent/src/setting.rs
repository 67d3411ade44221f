//! What all passes of a run have in common, and how they are resolved.

use std::sync::Arc;

use contexture_compose::{GuardrailSide, ModelLimits, Pass, Prompt, ResolveOptions, Scope};
use contexture_history::{Turn, TurnStatus};
use contexture_message::{Settings, Tool};
use contexture_session::Snapshot;
use contexture_wire::ModelFacts;
use serde_json::{Value, json};

use crate::AgentError;
use crate::agent::Inner;
use crate::checks::{Guarded, guard};

/// What all passes of a run have in common.
pub(crate) struct Setting {
    pub(crate) agent: Arc<Inner>,
    pub(crate) prompt: Prompt,
    pub(crate) input: Value,
    pub(crate) scope: Scope,
    pub(crate) model: Option<String>,
    pub(crate) settings: Settings,
    /// What the prompt itself says beside the user's message, once that is settled: the same in all passes of the turn.
    pub(crate) own_words: Option<Arc<str>>,
}

impl Setting {
    /// Resolves the prompt for a thread, with what has happened in the running turn.
    pub(crate) async fn resolve(
        &self,
        thread: &Snapshot,
        in_flight: Turn,
        before: Option<&Pass>,
    ) -> Result<Pass, AgentError> {
        let chosen = thread.model().map(|it| format!("{}/{}", it.provider, it.model));
        let own = self.prompt.definition().model.clone();
        let model = self.model.clone().or(chosen).or(own).or_else(|| self.agent.config.model.clone());
        let facts = self.facts(model.as_deref().ok_or(AgentError::NoModel)?);
        let history = thread.turns().iter().filter(|it| it.status() != TurnStatus::InFlight);
        let options = ResolveOptions {
            input: if self.input.is_null() { json!({}) } else { self.input.clone() },
            scope: self.scope.clone(),
            model,
            limits: ModelLimits { context_window: facts.context_window, output_reserve: facts.reserve() },
            cache_rules: facts.cache,
            settings: self.settings.clone(),
            tools: self.agent.offered.iter().map(|it| it.tool().clone()).collect::<Vec<Tool>>(),
            history: history.map(|it| (**it).clone()).collect(),
            in_flight_turn: Some(in_flight),
            user: self.own_words.clone(),
            instructions: thread.instructions().map(Arc::from),
            continues: before.cloned(),
            previous: before.map(Pass::sent),
            engine: self.agent.engine.clone(),
            ..ResolveOptions::default()
        };
        Ok(self.prompt.resolve(options).await?)
    }

    pub(crate) fn facts(&self, model: &str) -> ModelFacts {
        self.agent.catalogue.facts(model)
    }

    pub(crate) async fn guard(
        &self,
        pass: &Pass,
        side: GuardrailSide,
        text: &str,
    ) -> Result<Guarded, AgentError> {
        let known = |id: &str| self.agent.guardrails.get(id).cloned();
        guard(&pass.extras().guardrails, side, text, known).await
    }
}
