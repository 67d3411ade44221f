//! What is determined before the first stage: model, settings, adaptations, limits, counter.

use std::sync::Arc;

use contexture_message::{Settings, TokenCounter};
use serde_json::{Value, json};

use crate::define::{Input, matching_keys};
use crate::lower::Compiled;
use crate::{Adaptation, Budget, Call, Engine, ResolveOptions};

/// What is determined before the first stage.
pub(crate) struct Setup<'a> {
    pub(crate) prompt: &'a Compiled,
    pub(crate) options: &'a ResolveOptions,
    pub(crate) engine: &'a Engine,
    pub(crate) counter: Arc<dyn TokenCounter>,
    /// `provider/model`, as far as it is known.
    pub(crate) model: Option<String>,
    pub(crate) settings: Settings,
    pub(crate) adaptations: Vec<(&'a str, &'a Adaptation)>,
    pub(crate) budget: Budget,
}

/// Returns `provider/model`, as far as it is known. A model id may itself contain a `/`, as with providers that route
/// to others, so the provider's name is added unless the id already starts with it.
pub fn full_name(provider: Option<&str>, model: &str) -> String {
    match provider {
        Some(provider) if model.split_once('/').is_none_or(|it| it.0 != provider) => {
            format!("{provider}/{model}")
        }
        _ => model.to_owned(),
    }
}

impl<'a> Setup<'a> {
    pub(crate) fn new(prompt: &'a Compiled, engine: &'a Engine, options: &'a ResolveOptions) -> Self {
        let definition = &prompt.definition;
        let named = options.target.model.as_deref().or(definition.model.as_deref());
        let provider = options.target.provider.as_deref();
        let model = match (options.target.model.as_deref(), named) {
            (Some(model), _) => Some(full_name(provider, model)),
            // The prompt's own model includes its provider if it contains a `/`.
            (None, Some(own)) if own.contains('/') => Some(own.to_owned()),
            (None, own) => own.map(|it| full_name(provider, it)),
        };
        let keys = matching_keys(provider, named, model.as_deref());
        let adaptations: Vec<_> = keys
            .iter()
            .filter_map(|key| definition.adapt.get_key_value(*key))
            .map(|(key, adaptation)| (key.as_str(), adaptation))
            .collect();
        let adapted = adaptations
            .iter()
            .fold(definition.settings.clone(), |settings, (_, it)| settings.overridden_by(&it.settings));
        let engine = options.engine.as_ref().unwrap_or(engine);
        let counter = engine.counters.for_model(model.as_deref());
        Self {
            prompt,
            options,
            engine,
            counter,
            model,
            settings: adapted.overridden_by(&options.overrides.settings),
            adaptations,
            budget: Budget {
                token_budget: options.overrides.budget.token_budget.or(definition.budget.token_budget),
                input_budget: options.overrides.budget.input_budget.or(definition.budget.input_budget),
                fill: options.overrides.budget.fill || definition.budget.fill,
            },
        }
    }

    pub(crate) fn call(&self) -> Call {
        let call =
            Call::new(Input::new(self.options.input.clone()), self.options.scope.clone(), self.config());
        let conversation = &self.options.conversation;
        call.after_turns(conversation.history.len()).recorded(conversation.has_envelope())
    }

    /// Returns what templates see as `config` before anything is gathered.
    pub(crate) fn config(&self) -> Value {
        let provider = self.options.target.provider.as_deref();
        let prefix = self.model.as_deref().and_then(|it| it.split_once('/')).map(|(prefix, _)| prefix);
        let mut config = json!(self.settings);
        // Each setting can also be read by its own name, unless that name is taken.
        config["settings"] = json!(self.settings);
        config["model"] = json!(self.model);
        config["provider"] = json!(provider.or(prefix));
        config
    }
}
