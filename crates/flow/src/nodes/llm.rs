//! `llm_request`: one turn of a thread.
//!
//! The turn has its own idempotency key, so a repeated or retried node resumes the same turn: the user's message is
//! appended exactly once.

use std::sync::Arc;

use contexture_agent::{Ended, Event, Outcome, Pending, ResumePolicy, Run, RunRequest, RunSpec, Verdict};
use contexture_compose::{BoxFuture, Prompt, Scope as CallScope};
use contexture_history::TurnStatus;
use contexture_message::{ErrorCode, Message, Part};
use contexture_template::Template;
use futures::StreamExt;
use serde_json::{Value, json};

use super::text::{Scope, template};
use super::tools::{asked, decision};
use crate::{
    FlowFault, JsonType, LlmConfig, Node, NodeContext, NodeError, Port, PortType, PortValue, Step, Traits,
    TurnRef,
};

const TOOLS: &str = "tools";
/// The inputs that `user_message` can read.
const READ: [&str; 2] = ["input", "user"];

/// Asks a model.
#[derive(Debug)]
pub(crate) struct LlmNode {
    config: LlmConfig,
    user_message: Option<Template>,
}

impl LlmNode {
    pub(crate) fn new(config: &LlmConfig) -> Result<Self, Vec<FlowFault>> {
        let user_message = config.user_message.as_deref().map(user_message).transpose()?;
        Ok(Self { config: config.clone(), user_message })
    }

    /// Returns what the user says: the input `user`, or what the node makes of its inputs. Blank texts are none.
    fn said(&self, cx: &NodeContext) -> Result<Option<Message>, NodeError> {
        let is_said = |it: &&str| !it.trim().is_empty();
        if let Some(text) = cx.text("user").filter(is_said) {
            return Ok(Some(Message::user(text)));
        }
        let Some(template) = &self.user_message else { return Ok(None) };
        let absent = READ.into_iter().filter(|it| !cx.inputs.contains_key(*it));
        let scope = absent.fold(Scope::of(cx), |scope, it| scope.with(it, Value::Null));
        let text = scope.render(template)?;
        Ok(Some(Message::user(text)).filter(|it| !it.is_blank()))
    }

    fn request(&self, cx: &NodeContext) -> Result<RunRequest, NodeError> {
        let tools = match cx.inputs.get(TOOLS) {
            Some(PortValue::Tools(names)) => names.clone(),
            _ => Vec::new(),
        };
        let calls = if cx.may_repeat { ResumePolicy::RepeatCalls } else { ResumePolicy::CloseCalls };
        let overrides = &self.config.overrides;
        let spec = RunSpec {
            input: cx.data("input").cloned().unwrap_or(Value::Null),
            scope: call_scope(cx),
            model: overrides.model.clone(),
            settings: overrides.settings.clone(),
            instructions: overrides.instructions.as_deref().map(Into::into),
            tools,
            ..RunSpec::default()
        };
        Ok(RunRequest {
            spec,
            user: self.said(cx)?,
            key: Some(cx.key()),
            resume: Some(calls),
            cancel: cx.cancel.clone(),
            ..RunRequest::default()
        })
    }

    async fn ask(&self, cx: &NodeContext) -> Result<Step, NodeError> {
        let prompt = prompt_by_id(cx, &self.config.prompt)?;
        let agent = &cx.services.agent;
        if self.config.skip_history {
            let scratch = cx.thread.scratch();
            let run = agent.run(&prompt, &scratch, self.request(cx)?);
            let outcome = stream_run(cx, run, TurnTarget::Scratch).await?;
            return answered(cx, &outcome).ok_or_else(|| {
                let message =
                    "a tool call waits for an approval, which a request with `skip_history` can't do";
                NodeError::new(ErrorCode::FlowCannotWait, message)
            });
        }
        if let Some(step) = self.decide(cx, &prompt).await? {
            return Ok(step);
        }
        let run = agent.run(&prompt, &cx.thread, self.request(cx)?);
        let outcome = stream_run(cx, run, TurnTarget::Thread).await?;
        self.step(cx, &outcome).await
    }

    /// Passes on a decision, unless the turn already has it.
    async fn decide(&self, cx: &NodeContext, prompt: &Prompt) -> Result<Option<Step>, NodeError> {
        let Some(answer) = &cx.answer else { return Ok(None) };
        let id = answer.asked.about["approval"].as_str().unwrap_or_default();
        let pending = Pending::of(&cx.thread).await?;
        let asked = pending.into_iter().flat_map(|it| it.approvals);
        if !asked.into_iter().any(|it| it.id == id && !it.decided) {
            return Ok(None);
        }
        let verdict: Verdict = decision(&answer.value);
        let run = cx.services.agent.decide_as_owner(prompt, &cx.thread, id, verdict, cx.cancel.clone());
        let outcome = stream_run(cx, run, TurnTarget::Thread).await?;
        self.step(cx, &outcome).await.map(Some)
    }

    async fn step(&self, cx: &NodeContext, outcome: &Outcome) -> Result<Step, NodeError> {
        if let Some(step) = answered(cx, outcome) {
            return Ok(step);
        }
        let pending = Pending::of(&cx.thread).await?;
        let next = pending.into_iter().flat_map(|it| it.approvals).find(|it| !it.decided);
        let next = next.ok_or_else(|| {
            let message = format!("the turn ended as {:?} without an answer", outcome.status).to_lowercase();
            NodeError::new(ErrorCode::TurnUnfinished, message)
        })?;
        let about = json!({"approval": next.id, "tool": next.tool, "arguments": next.arguments});
        Ok(Step::Wait(asked(&next.tool, about)))
    }
}

/// Parses what becomes the user's message. A text without any Liquid tag is an expression.
fn user_message(text: &str) -> Result<Template, Vec<FlowFault>> {
    let is_template = text.contains("{{") || text.contains("{%");
    let source = if is_template { text.to_owned() } else { format!("{{{{ {text} }}}}") };
    let parsed = template("user_message", &source)?;
    let known = |name: &str| READ.contains(&name);
    match parsed.variables().into_iter().find(|it| !known(it.path.first().map_or("", |it| it))) {
        None => Ok(parsed),
        Some(variable) => {
            let message = format!("it reads `{}`, which is not an input", variable.path.join("."));
            let fault = FlowFault::new(ErrorCode::FlowMissingInput, message).at(["user_message"]);
            Err(vec![fault.hint("it can read `input` and `user`")])
        }
    }
}

impl Node for LlmNode {
    fn inputs(&self) -> Vec<Port> {
        vec![
            Port::new("user", PortType::STRING),
            Port::new("input", PortType::OBJECT),
            Port::new("thread", PortType::Thread),
            Port::new(TOOLS, PortType::Tools).lazy(),
        ]
    }

    fn outputs(&self) -> Vec<Port> {
        vec![
            Port::new("text", PortType::STRING),
            Port::new("output", PortType::ANY),
            Port::new("reasoning", PortType::STRING),
            Port::new("thread", PortType::Thread),
            Port::new("ended", PortType::STRING),
            Port::new("steps", PortType::data(JsonType::Integer)),
        ]
    }

    fn traits(&self) -> Traits {
        Traits { writes: !self.config.skip_history, ..Traits::default() }
    }

    fn run(self: Arc<Self>, cx: NodeContext) -> BoxFuture<'static, Result<Step, NodeError>> {
        Box::pin(async move {
            if cx.can_pull(TOOLS) {
                return Ok(Step::Pull(vec![TOOLS.to_owned()]));
            }
            self.ask(&cx).await
        })
    }
}

/// Returns the outputs of a completed turn; `None` if the turn waits.
fn answered(cx: &NodeContext, outcome: &Outcome) -> Option<Step> {
    if outcome.status != TurnStatus::Completed {
        return None;
    }
    let text = outcome.text();
    let output = outcome.output.clone().unwrap_or_else(|| Value::String(text.clone()));
    Some(Step::done([
        ("text", PortValue::data(text)),
        ("output", PortValue::data(output)),
        ("reasoning", PortValue::data(reasoning(outcome))),
        ("thread", PortValue::Thread(cx.thread.id().clone())),
        ("ended", PortValue::data(outcome.ended.as_str())),
        ("steps", PortValue::data(outcome.steps)),
    ]))
}

/// Returns the readable thinking of the last message; nothing where the model shows none.
fn reasoning(outcome: &Outcome) -> String {
    let parts = outcome.message.iter().flat_map(|it| &it.content);
    let thoughts = parts.filter_map(|it| match it {
        Part::Thinking(thinking) if !thinking.text.is_empty() => Some(thinking.text.as_str()),
        _ => None,
    });
    thoughts.collect::<Vec<_>>().join("\n\n")
}

/// Returns a prompt by its id.
pub(crate) fn prompt_by_id(cx: &NodeContext, id: &str) -> Result<Prompt, NodeError> {
    cx.services.library.prompt(id).map_err(|message| NodeError::new(ErrorCode::UnknownPrompt, message))
}

/// Returns the scope of a model call.
pub(crate) fn call_scope(cx: &NodeContext) -> CallScope {
    let (tenant, user) = (Some(cx.services.tenant.to_string()), cx.services.user.clone());
    CallScope { session: Some(cx.run.session().to_string()), tenant, user, ..CallScope::default() }
}

/// Where a turn is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TurnTarget {
    /// In the node's thread.
    Thread,
    /// In a scratch thread, which is dropped afterwards.
    Scratch,
}

/// Drives an agent run and emits its events. The token of an approval is not emitted: in a flow, answering the wait
/// decides.
async fn stream_run(cx: &NodeContext, mut run: Run, target: TurnTarget) -> Result<Outcome, NodeError> {
    let mut turn = None;
    while let Some(event) = run.next().await {
        match &event {
            Event::ApprovalRequired { .. } => continue,
            Event::TurnStart { turn: id, .. } if target == TurnTarget::Thread => {
                turn = Some(TurnRef { thread: cx.thread.id().clone(), turn: id.as_str().into() });
            }
            _ => {}
        }
        cx.emit_in_turn(turn.clone(), event);
    }
    let outcome = run.outcome().await?;
    if target == TurnTarget::Thread && outcome.ended == Ended::Replayed {
        // The process that ran the turn was lost, perhaps before it named the turn.
        let turn = TurnRef { thread: outcome.thread.clone(), turn: outcome.turn.to_string().into() };
        let (status, usage, client_calls) = (outcome.status, outcome.usage, outcome.client_calls.clone());
        cx.emit_in_turn(Some(turn), Event::TurnEnd { status, reason: None, usage, client_calls });
    }
    Ok(outcome)
}
