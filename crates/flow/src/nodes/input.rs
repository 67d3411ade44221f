//! Messages from people: `user_input` waits for one, `manual_input` has it from the author.

use std::sync::Arc;

use contexture_compose::BoxFuture;
use contexture_message::{Message, Role};
use contexture_session::NewItem;
use contexture_template::Template;
use serde_json::Value;

use super::text::{Scope, template};
use crate::{
    DataType, FlowFault, JsonType, ManualInputConfig, Node, NodeContext, NodeError, Port, PortType,
    PortValue, Question, QuestionKind, Step, Traits, UserInputConfig,
};

/// Waits for user input.
#[derive(Debug)]
pub(crate) struct UserInputNode {
    message: Template,
    value: DataType,
    append: Option<bool>,
}

impl UserInputNode {
    pub(crate) fn new(config: &UserInputConfig) -> Result<Self, Vec<FlowFault>> {
        Ok(Self {
            message: template("message", &config.message)?,
            value: config.value.clone().unwrap_or(DataType::of(JsonType::String)),
            append: config.append,
        })
    }
}

impl Node for UserInputNode {
    fn inputs(&self) -> Vec<Port> {
        vec![Port::new("thread", PortType::Thread), Port::new("data", PortType::ANY)]
    }

    fn outputs(&self) -> Vec<Port> {
        let value = Port::new("value", PortType::Data(self.value.clone()));
        vec![value, Port::new("thread", PortType::Thread)]
    }

    fn traits(&self) -> Traits {
        Traits { pauses: true, ..Traits::default() }
    }

    fn run(self: Arc<Self>, cx: NodeContext) -> BoxFuture<'static, Result<Step, NodeError>> {
        Box::pin(async move {
            let Some(answer) = &cx.answer else {
                let (message, schema) = (Scope::of(&cx).render(&self.message)?, self.value.to_schema());
                let (kind, about) = (QuestionKind::Input, Value::Null);
                return Ok(Step::Wait(Question { kind, message, schema, about }));
            };
            if self.append.unwrap_or_else(|| cx.inputs.contains_key("thread")) {
                let text = match &answer.value {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                say(&cx, Message::user(text)).await?;
            }
            let value = PortValue::data(answer.value.clone());
            Ok(Step::done([("value", value), ("thread", PortValue::Thread(cx.thread.id().clone()))]))
        })
    }
}

/// Appends a fixed message.
#[derive(Debug)]
pub(crate) struct ManualInputNode {
    text: Template,
    role: Role,
}

impl ManualInputNode {
    pub(crate) fn new(config: &ManualInputConfig) -> Result<Self, Vec<FlowFault>> {
        Ok(Self { text: template("text", &config.text)?, role: config.role })
    }
}

impl Node for ManualInputNode {
    fn inputs(&self) -> Vec<Port> {
        vec![Port::new("thread", PortType::Thread), Port::new("data", PortType::ANY)]
    }

    fn outputs(&self) -> Vec<Port> {
        vec![Port::new("text", PortType::STRING), Port::new("thread", PortType::Thread)]
    }

    fn traits(&self) -> Traits {
        Traits { writes: true, ..Traits::default() }
    }

    fn run(self: Arc<Self>, cx: NodeContext) -> BoxFuture<'static, Result<Step, NodeError>> {
        Box::pin(async move {
            let text = Scope::of(&cx).render(&self.text)?;
            say(&cx, Message::text(self.role, text.clone())).await?;
            let thread = PortValue::Thread(cx.thread.id().clone());
            Ok(Step::done([("text", PortValue::data(text)), ("thread", thread)]))
        })
    }
}

/// Appends a message to the node's thread, once.
async fn say(cx: &NodeContext, message: Message) -> Result<(), NodeError> {
    cx.thread.add_once(&cx.key(), vec![NewItem::from(message)]).await?;
    Ok(())
}
