//! Tools: `tools` names them for model calls, `tool_call` runs one without a model. Also how a node asks whether a tool
//! may be called.

use std::sync::Arc;

use contexture_agent::{ToolCallError, ToolRequest, Verdict};
use contexture_compose::BoxFuture;
use serde_json::{Map, Value, json};

use crate::{
    Node, NodeContext, NodeError, Port, PortType, PortValue, Question, QuestionKind, Step, ToolCallConfig,
    ToolsConfig, Traits,
};

impl Node for ToolsConfig {
    fn inputs(&self) -> Vec<Port> {
        Vec::new()
    }

    fn outputs(&self) -> Vec<Port> {
        vec![Port::new("tools", PortType::Tools)]
    }

    fn run(self: Arc<Self>, _: NodeContext) -> BoxFuture<'static, Result<Step, NodeError>> {
        Box::pin(async move { Ok(Step::done([("tools", PortValue::Tools(self.names.clone()))])) })
    }
}

impl ToolCallConfig {
    async fn call(&self, cx: &NodeContext) -> Result<Step, NodeError> {
        let arguments = cx.data("arguments").cloned().unwrap_or_else(|| Value::Object(Map::new()));
        let agent = &cx.services.agent;
        let approved = match cx.answer.as_ref().map(|it| decision(&it.value)) {
            Some(Verdict::Deny { reason }) => {
                return Err(ToolCallError::Denied { tool: self.tool.clone(), reason }.into());
            }
            verdict => verdict.is_some(),
        };
        if !approved && agent.needs_approval(&self.tool, &arguments)? {
            let about = json!({"tool": self.tool, "arguments": arguments});
            return Ok(Step::Wait(asked(&self.tool, about)));
        }
        let request = ToolRequest {
            tool: self.tool.clone(),
            arguments,
            call_id: cx.key(),
            approved,
            cancel: cx.cancel.clone(),
        };
        let value = agent.call(&cx.thread, request).await?;
        Ok(Step::done([("result", PortValue::data(value))]))
    }
}

impl Node for ToolCallConfig {
    fn inputs(&self) -> Vec<Port> {
        vec![Port::new("arguments", PortType::OBJECT), Port::new("thread", PortType::Thread)]
    }

    fn outputs(&self) -> Vec<Port> {
        vec![Port::new("result", PortType::ANY)]
    }

    fn traits(&self) -> Traits {
        // It is unknown whether the call ran when its process was lost; only the author knows whether that matters.
        Traits { is_repeatable: false, ..Traits::default() }
    }

    fn run(self: Arc<Self>, cx: NodeContext) -> BoxFuture<'static, Result<Step, NodeError>> {
        Box::pin(async move { self.call(&cx).await })
    }
}

/// Returns the question whether a tool may be called.
pub(crate) fn asked(tool: &str, about: Value) -> Question {
    let schema = json!({
        "type": "object",
        "properties": {"approve": {"type": "boolean"}, "reason": {"type": "string"}},
        "required": ["approve"],
        "additionalProperties": false,
    });
    Question { kind: QuestionKind::Approval, message: format!("May `{tool}` be called?"), schema, about }
}

/// Parses an answer to the question. Anything but a clear yes is a no.
pub(crate) fn decision(answer: &Value) -> Verdict {
    match answer["approve"].as_bool() {
        Some(true) => Verdict::Approve,
        _ => Verdict::Deny { reason: answer["reason"].as_str().map(str::to_owned) },
    }
}
