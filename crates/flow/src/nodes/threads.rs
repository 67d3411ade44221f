//! Threads: `new_thread`, `inject_messages`, `release_thread`.

use std::sync::Arc;

use contexture_compose::BoxFuture;
use contexture_message::{ErrorCode, Message};
use contexture_session::{IsolatedStart, ModelChoice, NewItem, SessionError, StoreError};

use crate::keys::digest;
use crate::{
    FlowFault, InjectConfig, JsonType, NewThreadConfig, Node, NodeContext, NodeError, Port, PortType,
    PortValue, Position, Step, Traits,
};

/// Creates an isolated thread.
#[derive(Debug)]
pub(crate) struct NewThreadNode {
    config: NewThreadConfig,
    model: Option<ModelChoice>,
}

impl NewThreadNode {
    pub(crate) fn new(config: &NewThreadConfig) -> Result<Self, Vec<FlowFault>> {
        let choice = |named: &String| match named.split_once('/') {
            Some((provider, model)) => {
                Ok(ModelChoice { provider: provider.to_owned(), model: model.to_owned() })
            }
            None => Err(FlowFault::invalid(format!("`{named}` is not a `provider/model`")).at(["model"])),
        };
        let model = config.model.as_ref().map(choice).transpose().map_err(|it| vec![it])?;
        Ok(Self { config: config.clone(), model })
    }
}

impl Node for NewThreadNode {
    fn inputs(&self) -> Vec<Port> {
        vec![Port::new("base", PortType::Thread), Port::new("instructions", PortType::STRING)]
    }

    fn outputs(&self) -> Vec<Port> {
        vec![Port::new("thread", PortType::Thread)]
    }

    fn run(self: Arc<Self>, cx: NodeContext) -> BoxFuture<'static, Result<Step, NodeError>> {
        Box::pin(async move {
            let base = cx.inputs.get("base").and_then(PortValue::as_thread).cloned();
            let instructions = cx.text("instructions").map(str::to_owned);
            let start = IsolatedStart {
                // The name is the same each time the node is repeated; then the thread already exists.
                name: Some(cx.key()),
                model: self.model.clone(),
                system_instructions: instructions.or_else(|| self.config.instructions.clone()),
                inherit_history: self.config.inherit_history,
                initial_messages: self.config.messages.clone(),
                label: self.config.label.clone(),
                base: base.or_else(|| Some(cx.thread.id().clone())),
            };
            let thread = cx.services.session.create_isolated(start).await?;
            Ok(Step::done([("thread", PortValue::Thread(thread.id().clone()))]))
        })
    }
}

impl InjectConfig {
    /// Returns the messages, each with an id: those of the author, then those that came in.
    fn with_ids(&self, cx: &NodeContext) -> Result<Vec<(String, Message)>, NodeError> {
        let mut messages = self.messages.clone();
        if let Some(came) = cx.data("messages") {
            let came: Vec<Message> = serde_json::from_value(came.clone()).map_err(|err| {
                NodeError::new(ErrorCode::MessageInvalid, format!("input `messages` has no messages: {err}"))
            })?;
            messages.extend(came);
        }
        messages.extend(cx.text("text").map(Message::user));
        let with_id = |(idx, message): (usize, Message)| {
            let id = message.id.clone().unwrap_or_else(|| format!("{}-{idx}", cx.key()));
            (format!("inject-{}", digest(&[&id])), Message { id: Some(id), ..message })
        };
        Ok(messages.into_iter().enumerate().map(with_id).collect())
    }
}

impl Node for InjectConfig {
    fn inputs(&self) -> Vec<Port> {
        vec![
            Port::new("thread", PortType::Thread),
            Port::new("messages", PortType::data(JsonType::Array)),
            Port::new("text", PortType::STRING),
        ]
    }

    fn outputs(&self) -> Vec<Port> {
        let injected = Port::new("injected", PortType::data(JsonType::Integer));
        vec![Port::new("thread", PortType::Thread), injected]
    }

    fn traits(&self) -> Traits {
        Traits { writes: true, ..Traits::default() }
    }

    fn run(self: Arc<Self>, cx: NodeContext) -> BoxFuture<'static, Result<Step, NodeError>> {
        Box::pin(async move {
            let mut messages = self.with_ids(&cx)?;
            if self.position == Position::Prepend {
                // The last prepended message comes first.
                messages.reverse();
            }
            let mut injected = 0_u32;
            for (key, message) in messages {
                let is_new = match self.position {
                    Position::Append => cx.thread.add_once(&key, vec![NewItem::from(message)]).await,
                    Position::Prepend => cx.thread.prepend_once(&key, vec![message]).await,
                };
                injected += u32::from(is_new?);
            }
            let thread = PortValue::Thread(cx.thread.id().clone());
            Ok(Step::done([("thread", thread), ("injected", PortValue::data(injected))]))
        })
    }
}

/// Removes an isolated thread.
#[derive(Debug)]
pub(crate) struct ReleaseNode;

impl Node for ReleaseNode {
    fn inputs(&self) -> Vec<Port> {
        vec![Port::new("thread", PortType::Thread).required()]
    }

    fn outputs(&self) -> Vec<Port> {
        vec![Port::new("was_there", PortType::data(JsonType::Boolean))]
    }

    fn traits(&self) -> Traits {
        // It uses no thread: the thread it names may already be deleted.
        Traits { takes_thread_input: false, ..Traits::default() }
    }

    fn run(self: Arc<Self>, cx: NodeContext) -> BoxFuture<'static, Result<Step, NodeError>> {
        Box::pin(async move {
            let id = cx.inputs.get("thread").and_then(PortValue::as_thread).cloned();
            let id = id.unwrap_or_else(|| cx.run.session().main());
            let was_there = match cx.services.session.release(&id).await {
                Err(SessionError::Store(StoreError::NotFound { .. })) => false,
                done => done?,
            };
            cx.services.forget(&id);
            Ok(Step::done([("was_there", PortValue::data(was_there))]))
        })
    }
}
