//! `intent_router`: a model chooses one of several routes. Exactly one is taken, whatever the model answers.

use std::sync::Arc;

use contexture_agent::{AgentError, RunRequest, RunSpec};
use contexture_compose::{BoxFuture, Prompt, Schema, Text};
use contexture_message::Message;
use serde_json::{Value, json};

use super::llm::{call_scope, prompt_by_id};
use crate::{FlowFault, IntentConfig, Node, NodeContext, NodeError, Port, PortType, PortValue, Step};

/// The text of the built-in prompt.
const INSTRUCTIONS: &str = include_str!("../templates/intent.md");
/// The way that is taken if none of the others is.
const OTHERWISE: &str = "otherwise";
const INTENT: &str = "intent";

/// Asks a model to choose one of several routes.
#[derive(Debug)]
pub(crate) struct IntentNode {
    config: IntentConfig,
    own: Prompt,
}

impl IntentNode {
    pub(crate) fn new(config: &IntentConfig) -> Result<Self, Vec<FlowFault>> {
        if config.intents.is_empty() {
            return Err(vec![FlowFault::invalid("a router has at least one intent").at(["intents"])]);
        }
        let unusable = |err: Box<dyn std::error::Error>| FlowFault::invalid(err.to_string()).at(["intents"]);
        let own = built_in(config).map_err(|err| vec![unusable(err)])?;
        Ok(Self { config: config.clone(), own })
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.config.intents.keys().map(String::as_str)
    }

    fn input(&self, text: &str) -> Value {
        let intents = self.config.intents.iter().map(|(name, when)| json!({"name": name, "when": when}));
        json!({"text": text, "intents": intents.collect::<Vec<_>>()})
    }

    async fn choose(&self, cx: &NodeContext, text: &str) -> Result<&str, NodeError> {
        let prompt = match &self.config.prompt {
            Some(id) => prompt_by_id(cx, id)?,
            None => self.own.clone(),
        };
        let (input, model) = (self.input(text), self.config.model.clone());
        let request = RunRequest {
            spec: RunSpec { input, model, scope: call_scope(cx), ..RunSpec::default() },
            user: Some(Message::user(text)),
            cancel: cx.cancel.clone(),
            ..RunRequest::default()
        };
        // The thread provides context for the message; nothing is written to it.
        let scratch = cx.thread.scratch();
        let said = match cx.services.agent.run(&prompt, &scratch, request).outcome().await {
            Ok(outcome) => outcome.output.clone().unwrap_or_else(|| Value::String(outcome.text())),
            // Small models name a route but forget the format. An answer without a route means that none fits.
            Err(AgentError::OutputInvalid { output, .. }) => Value::String(output),
            Err(err) => return Err(err.into()),
        };
        Ok(self.matching_intent(&said))
    }

    /// Finds the way that the model named.
    fn matching_intent(&self, said: &Value) -> &str {
        let name = said.get(INTENT).unwrap_or(said).as_str().unwrap_or_default();
        let name = name.trim().trim_matches(['`', '"', '\'', '.']);
        self.names().find(|it| it.eq_ignore_ascii_case(name)).unwrap_or(OTHERWISE)
    }
}

fn built_in(config: &IntentConfig) -> Result<Prompt, Box<dyn std::error::Error>> {
    let names: Vec<&str> = config.intents.keys().map(String::as_str).chain([OTHERWISE]).collect();
    let input = json!({
        "type": "object",
        "properties": {"text": {"type": "string"}, "intents": {"type": "array"}},
    });
    let output = json!({
        "type": "object",
        "properties": {INTENT: {"type": "string", "enum": names}},
        "required": [INTENT],
        "additionalProperties": false,
    });
    let prompt = Prompt::builder("intent_router")
        .input_schema(Schema::from_json(input))
        .output_schema(Schema::from_json(output))
        .system(Text::template(INSTRUCTIONS)?)
        .build()?;
    Ok(prompt)
}

impl Node for IntentNode {
    fn inputs(&self) -> Vec<Port> {
        vec![Port::new("text", PortType::STRING).required(), Port::new("thread", PortType::Thread)]
    }

    fn outputs(&self) -> Vec<Port> {
        self.names().chain([OTHERWISE, INTENT]).map(|it| Port::new(it, PortType::STRING)).collect()
    }

    fn run(self: Arc<Self>, cx: NodeContext) -> BoxFuture<'static, Result<Step, NodeError>> {
        Box::pin(async move {
            let text = cx.text("text").unwrap_or_default().to_owned();
            let intent = self.choose(&cx, &text).await?;
            Ok(Step::done([(intent, PortValue::data(text)), (INTENT, PortValue::data(intent))]))
        })
    }
}
