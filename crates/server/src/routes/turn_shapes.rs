//! The JSON shapes of turn requests and results.

use std::borrow::Cow;

use contexture_agent::{
    AgentError, ApprovalRequest, Attachment, CheckReport, CompactionReport, ContextRef, Event,
    KnowledgeRequest, Outcome, Remark, RunRequest, RunSpec,
};
use contexture_compose::{Budget, InlineBlock, SchemaValidator};
use contexture_history::{TurnStatus, Visibility};
use contexture_message::{
    Citation, ErrorCode, Message, Part, Role, Settings, Tokens, ToolCall, ToolDefinition,
};
use contexture_session::{BaseId, BaseKey, Policy, SessionId};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use crate::Problem;
use crate::app::Access;
use crate::http::input::{in_range, object, objects, optional_object, taken, within};
use crate::http::schemas::{Frame, accepts, returns};

accepts!(TurnRequest, PassRequest);
returns!(TurnResult, TurnEventFrame = Frame<Event>);

/// The request of a turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TurnRequest {
    /// The prompt's id; without one the project's only prompt, or the one that is called `chat`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) prompt: Option<String>,
    /// The prompt's input.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "Option<Map<String, Value>>")]
    input: Value,
    /// The user's message: a text, or a list of parts. Without it the prompt's own `user` text begins the turn.
    #[schemars(with = "Option<UserContent>")]
    #[schemars(example = "Where is my order?")]
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<Value>,
    /// Another thread of the session than the main one.
    #[schemars(length(min = 1, max = 300), regex(pattern = r"^[^\x00-\x1f\x7f-\x9f]+$"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) thread: Option<String>,
    /// The model, `provider/model`; wins over the thread's and the prompt's.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// Settings that win over the prompt's, such as `temperature`.
    #[serde(deserialize_with = "object", skip_serializing_if = "is_default")]
    settings: Settings,
    /// Blocks for the hidden envelope of the user's message: `{"name", "body", "order"?}`.
    #[serde(deserialize_with = "objects", skip_serializing_if = "is_default")]
    blocks: Vec<InlineBlock>,
    /// Things of the application that the user refers to: `{"type", "id", "label"?}`. Their texts become part of the
    /// hidden envelope of the user's message.
    #[serde(deserialize_with = "objects", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    context_refs: Vec<ContextRef>,
    /// Hidden texts for the same envelope: `{"name", "media_type"?, "text"}`.
    #[serde(deserialize_with = "objects", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    attachments: Vec<Attachment>,
    /// Which views include what the turn says; by default as the prompt says, or all. A turn that is not part of the
    /// history is read by the model while it runs, and not by later turns.
    #[serde(deserialize_with = "optional_object", skip_serializing_if = "Option::is_none")]
    visibility: Option<Visibility>,
    /// Tools that the client runs: `{"name", "description", "parameters"}`. A turn that calls one waits for its
    /// results.
    #[serde(deserialize_with = "objects", skip_serializing_if = "is_default")]
    client_tools: Vec<ToolDefinition>,
    /// Reminders for this turn.
    #[serde(skip_serializing_if = "is_default")]
    reminders: Vec<String>,
    /// Knowledge bases to search before the model is called. The snippets become part of the hidden envelope of the
    /// user's message.
    #[serde(deserialize_with = "optional_object", skip_serializing_if = "Option::is_none")]
    pub(crate) knowledge: Option<KnowledgeRequest>,
    /// The names of skills to load. One that is active already stays as it is.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) skills: Vec<String>,
    /// Evaluates the frozen prefix again, and takes active skills at their current versions.
    #[serde(skip_serializing_if = "is_default")]
    refresh: bool,
    /// What to do when a turn is already running: `queue` (wait, the default), `reject` or `fork`.
    #[serde(skip_serializing_if = "is_default")]
    policy: Policy,
    /// The value of `ctx.user` in templates.
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<String>,
    /// Stops the turn when its client disconnects; otherwise it continues.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) cancel_on_disconnect: bool,
}

/// Whether a field of a request has its default, so that it need not be recorded.
fn is_default<T: Default + PartialEq>(field: &T) -> bool {
    *field == T::default()
}

/// What a user says: a text, or a list of texts, images and files.
struct UserContent;

impl JsonSchema for UserContent {
    fn schema_name() -> Cow<'static, str> {
        "UserContent".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<Part>();
        let parts = ["TextPart", "ImagePart", "FilePart"];
        let parts = parts.map(|it| json!({"$ref": format!("#/components/schemas/{it}")}));
        json_schema!({
            "description": "What a user says: a text, or a list of texts, images and files.",
            "anyOf": [{"type": "string"}, {"type": "array", "items": {"oneOf": parts}}],
        })
    }
}

/// The request of a pass: a turn, the session it would run in, and limits of its request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub(crate) struct PassRequest {
    #[serde(flatten)]
    pub(crate) turn: TurnRequest,
    /// The session whose next turn is shown: the request that this turn would send first. Without it the prompt is
    /// shown alone, without a history.
    #[schemars(length(min = 1, max = 200), regex(pattern = r"^[^\x00-\x1f\x7f-\x9f/]+$"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<String>,
    /// The limit of the composed system text, in tokens; by default the prompt's.
    #[serde(skip_serializing_if = "Option::is_none")]
    token_budget: Option<u32>,
    /// The limit of the whole request, in tokens; by default the prompt's, or the model's window.
    #[serde(skip_serializing_if = "Option::is_none")]
    input_budget: Option<u32>,
}

impl PassRequest {
    /// Returns the limits of the request.
    pub(crate) fn budget(&self) -> Budget {
        let (token_budget, input_budget) = (self.token_budget.map(Tokens), self.input_budget.map(Tokens));
        Budget { token_budget, input_budget, ..Budget::default() }
    }

    /// Returns an error if a limit is set. The limits of a session's turns are those of its prompt.
    pub(crate) fn check_unlimited(&self) -> Result<(), Problem> {
        let limits = [("token_budget", self.token_budget), ("input_budget", self.input_budget)];
        let Some((name, _)) = limits.iter().find(|(_, limit)| limit.is_some()) else { return Ok(()) };
        let text = format!("`{name}` and `session` exclude each other");
        Err(Problem::new(ErrorCode::InputInvalid, text).at(*name))
    }
}

// Written by hand: a flattened struct could not refuse unknown fields.
impl<'de> Deserialize<'de> for PassRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Map::deserialize(deserializer)?;
        let token_budget = taken(&mut fields, "token_budget", Option::deserialize)?;
        let input_budget = taken(&mut fields, "input_budget", Option::deserialize)?;
        let session = taken(&mut fields, "session", Option::deserialize)?;
        let turn = serde_json::from_value(Value::Object(fields)).map_err(D::Error::custom)?;
        Ok(Self { turn, session, token_budget, input_budget })
    }
}

/// The outcome of a turn.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Turn")]
pub(crate) struct TurnResult {
    /// The thread it ran on; with the policy `fork` it may be a copy.
    thread: String,
    /// The turn, such as `t7`.
    turn: String,
    /// `completed`, `suspended`, `failed` or `interrupted`.
    status: TurnStatus,
    /// Why it ended: `answered`, `max_steps`, `tool_called`, `max_tokens`, `max_cost`, `suspended`, `client_tools` or
    /// `replayed`.
    ended: String,
    /// The text of the model's last message.
    text: String,
    /// The answer as a value, where the prompt has an output schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
    /// What the answer cites, with spans in its text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    citations: Vec<Citation>,
    /// What checks report about the answer, such as those of its citations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reports: Vec<CheckReport>,
    /// How often the model was called.
    steps: u32,
    /// The usage of all model calls.
    usage: contexture_message::Usage,
    /// The same in money, if the prices are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<f64>,
    /// The remarks of checks.
    remarks: Vec<Remark>,
    /// Calls that wait for a decision, with the tokens to decide them: `POST /v1/approvals/{id}`.
    approvals: Vec<ApprovalRequest>,
    /// Calls of the client's tools, whose results the turn waits for: `POST …/turns/{turn}/results`.
    client_calls: Vec<ToolCall>,
    /// The compactions that were made to fit the window.
    compactions: Vec<CompactionReport>,
}

impl TurnResult {
    pub(crate) fn of(outcome: Outcome) -> Self {
        Self {
            thread: outcome.thread.to_string(),
            turn: outcome.turn.to_string(),
            status: outcome.status,
            ended: outcome.ended.as_str().to_owned(),
            text: outcome.text(),
            remarks: outcome.remarks,
            citations: outcome.citations,
            reports: outcome.reports,
            steps: outcome.steps,
            usage: outcome.usage,
            cost: outcome.cost,
            compactions: outcome.compactions,
            output: outcome.output,
            approvals: outcome.approvals,
            client_calls: outcome.client_calls,
        }
    }
}

impl TurnRequest {
    /// Refuses what means something in a session only.
    pub(crate) fn check_unkept(&self) -> Result<(), Problem> {
        if self.thread.is_none() {
            return Ok(());
        }
        let text = "`thread` means nothing without a session";
        let problem = Problem::new(ErrorCode::UnknownField, text).at("thread");
        Err(problem.hint("`POST /v1/sessions/{id}/turns` takes it"))
    }

    /// Returns the agent's request.
    pub(crate) async fn run_request(
        &self,
        access: &Access,
        session: Option<&SessionId>,
        key: Option<String>,
    ) -> Result<RunRequest, Problem> {
        if let Some(knowledge) = &self.knowledge {
            check_knowledge(access, knowledge).await?;
        }
        let spec = RunSpec {
            input: input(self.input.clone()),
            scope: access.scope(session, self.user_id.clone()),
            model: self.model.clone(),
            settings: self.settings.clone(),
            client_tools: self.checked_tools()?,
            knowledge: self.knowledge.clone(),
            context_refs: self.context_refs.clone(),
            ..RunSpec::default()
        };
        Ok(RunRequest {
            spec,
            user: self.user.clone().map(said).transpose()?,
            blocks: self.blocks.clone(),
            attachments: self.attachments.clone(),
            visibility: self.visibility,
            reminders: self.reminders.clone(),
            skills: self.skills.clone(),
            refresh: self.refresh,
            key,
            policy: self.policy,
            ..RunRequest::default()
        })
    }

    fn checked_tools(&self) -> Result<Vec<ToolDefinition>, Problem> {
        for (idx, tool) in self.client_tools.iter().enumerate() {
            let wrong = |text: String| Problem::in_body(format!("client_tools[{idx}].parameters"), text);
            if !tool.parameters.is_object() {
                return Err(wrong("the parameters of a tool are a JSON Schema, an object".to_owned()));
            }
            SchemaValidator::check(&tool.parameters).map_err(|err| wrong(err.to_string()))?;
        }
        Ok(self.client_tools.clone())
    }
}

/// Returns the input of a prompt: an empty object where a request has none.
pub(crate) fn input(value: Value) -> Value {
    if value.is_null() { json!({}) } else { value }
}

/// Parses the user's message: a text, or a list of message parts.
fn said(value: Value) -> Result<Message, Problem> {
    let wrong = |err: String| Problem::new(ErrorCode::MessageInvalid, err).at("user");
    let message = json!({"role": "user", "content": value});
    let message: Message = serde_json::from_value(message).map_err(|err| wrong(err.to_string()))?;
    let is_said = |it: &Part| matches!(it, Part::Text { .. } | Part::Image(_) | Part::File(_));
    match message.role == Role::User && message.content.iter().all(is_said) {
        true => Ok(message),
        false => Err(wrong("the user says text, images and files only".to_owned())),
    }
}

/// The most hits that a turn may ask for, and the longest query.
const MAX_TOP_K: usize = 100;
const MAX_QUERY: usize = 10_000;

/// Checks what a turn asks of knowledge bases. Each must be one of the project or the tenant's own.
async fn check_knowledge(access: &Access, request: &KnowledgeRequest) -> Result<(), Problem> {
    if request.bases.is_empty() {
        return Err(Problem::in_body("knowledge.bases", "no knowledge base is named"));
    }
    in_range(ErrorCode::BodyInvalid, "knowledge.top_k", request.top_k.unwrap_or(1), 1..=MAX_TOP_K)?;
    within("knowledge.query", request.query.as_deref(), MAX_QUERY)?;
    let loaded = access.loaded();
    for name in request.bases.iter().filter(|it| loaded.project.knowledge().get(it).is_none()) {
        let tenant = access.caller.tenant.clone();
        let own = match BaseId::parse(name.as_str()) {
            Ok(base) => access.sources.base(BaseKey { tenant, base }).await?,
            Err(_) => None,
        };
        if own.is_none() {
            let problem = Problem::from(AgentError::NoSuchBase { base: name.clone() });
            return Err(problem.at("knowledge.bases").hint("`GET /v1/knowledge` lists them"));
        }
    }
    Ok(())
}
