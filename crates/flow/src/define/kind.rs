//! The kinds of nodes: the name of each, and what is configured for it.

use contexture_message::{ErrorCode, Message, Role, Settings};
use indexmap::IndexMap;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{DataType, FlowFault};

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:literal => $kind:ident $(($config:ty))?,)+) => {
        /// The kind of a node, with its configuration.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(tag = "type")]
        pub enum NodeKind {
            $($(#[$doc])* #[serde(rename = $name)] $kind $(($config))?,)+
        }

        impl NodeKind {
            /// The names of all kinds.
            pub const NAMES: &'static [&'static str] = &[$($name),+];

            /// Returns the name of the kind, as in `type`.
            pub fn name(&self) -> &'static str {
                match self {
                    $(kinds!(@pattern $kind $(($config))?) => $name),+
                }
            }

            /// Reads what is configured for a kind.
            pub(crate) fn read(name: &str, config: &Value) -> Result<NodeKind, FlowFault> {
                match name {
                    $($name => kinds!(@read config $kind $(($config))?),)+
                    _ => {
                        let shown: String = name.chars().take(40).collect();
                        let fault = FlowFault::new(ErrorCode::FlowUnknownType, format!("there is no type `{shown}`"));
                        Err(fault.at(["type"]).known(Self::NAMES))
                    }
                }
            }
        }
    };
    (@pattern $kind:ident) => { NodeKind::$kind };
    (@pattern $kind:ident ($config:ty)) => { NodeKind::$kind(_) };
    (@read $value:ident $kind:ident) => { typed::<NoConfig>($value).map(|_| NodeKind::$kind) };
    (@read $value:ident $kind:ident ($config:ty)) => { typed::<$config>($value).map(NodeKind::$kind) };
}

/// A kind that has nothing to configure.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoConfig {}

kinds! {
    /// The start of a run: outputs the run's inputs.
    "start" => Start,
    /// Asks a model, in one turn of a thread.
    "llm_request" => LlmRequest(LlmConfig),
    /// Waits for user input.
    "user_input" => UserInput(UserInputConfig),
    /// Appends a fixed message.
    "manual_input" => ManualInput(ManualInputConfig),
    /// Creates an isolated thread.
    "new_thread" => NewThread(NewThreadConfig),
    /// Adds messages to a thread.
    "inject_messages" => InjectMessages(InjectConfig),
    /// Removes an isolated thread.
    "release_thread" => ReleaseThread,
    /// Names tools for model calls.
    "tools" => Tools(ToolsConfig),
    /// Runs a tool, without a model.
    "tool_call" => ToolCall(ToolCallConfig),
    /// Asks a model to choose one of several routes.
    "intent_router" => IntentRouter(IntentConfig),
    /// Chooses one of several ways by conditions.
    "branch" => Branch(BranchConfig),
    /// Starts several branches in parallel.
    "parallel" => Parallel(ParallelConfig),
    /// Brings several ways together.
    "join" => Join(JoinConfig),
    /// Remembers a value by a key.
    "cache" => Cache(CacheConfig),
    /// Waits until a blackboard fits a condition.
    "blackboard_wait" => BlackboardWait(BlackboardWaitConfig),
    /// Takes what comes out elsewhere.
    "portal_in" => PortalIn(PortalConfig),
    /// Gives what was taken elsewhere.
    "portal_out" => PortalOut(PortalConfig),
    /// Another flow as a node.
    "sub_flow" => SubFlow(SubFlowConfig),
    /// Makes a value with a template.
    "transform" => Transform(TransformConfig),
    /// A node of the application's own.
    "custom" => Custom(CustomConfig),
}

/// Asks a model, in one turn of a thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LlmConfig {
    /// The id of the prompt.
    pub prompt: String,
    /// What becomes the user's message if the input `user` has no text: a Liquid expression such as `input.question`,
    /// or a template, over the node's inputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_message: Option<String>,
    /// Overrides for this call only.
    #[serde(default, skip_serializing_if = "is_default")]
    pub overrides: Overrides,
    /// Reads the thread for the request, and writes nothing.
    #[serde(default, skip_serializing_if = "is_default")]
    pub skip_history: bool,
}

/// Overrides for one model call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Overrides {
    /// The model, as `provider/model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The instructions, in the place of the thread's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Settings that win over the prompt's.
    #[serde(skip_serializing_if = "is_default")]
    pub settings: Settings,
}

/// Waits for user input.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UserInputConfig {
    /// The question: a Liquid template over the node's `data`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The type of the answer; a string by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<DataType>,
    /// Whether the input is appended to the thread. The default is yes if the node has a thread input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub append: Option<bool>,
}

/// Appends a fixed message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManualInputConfig {
    /// The message: a Liquid template over the node's `data`.
    pub text: String,
    /// The role of the message.
    #[serde(default = "user")]
    pub role: Role,
}

fn user() -> Role {
    Role::User
}

/// Creates an isolated thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NewThreadConfig {
    /// A label for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The thread's model, as `provider/model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The thread's instructions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Whether it begins with a copy of what the base thread has.
    #[serde(skip_serializing_if = "is_default")]
    pub inherit_history: bool,
    /// The first messages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message>,
}

/// Adds messages to a thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InjectConfig {
    /// Where they are inserted.
    #[serde(skip_serializing_if = "is_default")]
    pub position: Position,
    /// Fixed messages; those of the input follow them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message>,
}

/// Where injected messages are inserted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Position {
    /// After the history.
    #[default]
    Append,
    /// Before the history.
    Prepend,
}

/// Names tools for model calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolsConfig {
    /// The names of the tools.
    pub names: Vec<String>,
}

/// Runs a tool, without a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCallConfig {
    /// The name of the tool.
    pub tool: String,
}

/// Asks a model to choose one of several routes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IntentConfig {
    /// The ways by name, and when each is right. Each name is an output.
    pub intents: IndexMap<String, String>,
    /// A prompt of the project in the place of the built-in one. Its input has `text` and `intents`; it answers with a
    /// name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The model, as `provider/model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// Chooses one of several ways by conditions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BranchConfig {
    /// The ways by name, each with a Liquid condition over `value` and the node's inputs. The first that holds is
    /// taken, or `else`.
    pub cases: IndexMap<String, String>,
    /// Additional inputs, by name.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub inputs: IndexMap<String, DataType>,
}

/// Starts several branches in parallel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParallelConfig {
    /// The ways. Each name is an output.
    pub branches: Vec<String>,
}

/// Brings several ways together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JoinConfig {
    /// The inputs to join, by name.
    pub inputs: IndexMap<String, DataType>,
    /// The join policy.
    #[serde(default, skip_serializing_if = "is_default")]
    pub policy: JoinPolicy,
}

/// Which inputs a join waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JoinPolicy {
    /// All inputs.
    #[default]
    All,
    /// The first input that comes; what comes later of the same round is left aside.
    Any,
}

/// Remembers a value by a key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CacheConfig {
    /// How long a value is valid; by default as long as it is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
    /// Who shares the cache.
    #[serde(skip_serializing_if = "is_default")]
    pub scope: CacheScope,
}

/// Who shares cached values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheScope {
    /// All runs of the flow in the same session.
    #[default]
    Session,
    /// Only this run.
    Run,
    /// All runs of the flow of the same tenant.
    Tenant,
}

/// Waits until a blackboard fits a condition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlackboardWaitConfig {
    /// The id of the board.
    pub board: String,
    /// A Liquid condition over `board`, which is what the board holds, and the node's inputs.
    pub condition: String,
    /// How long to wait at most; without it until the run is cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_seconds: Option<u64>,
}

/// One end of a portal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortalConfig {
    /// The name shared by both ends.
    pub portal: String,
}

/// Another flow as a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubFlowConfig {
    /// The id of the flow.
    pub flow: String,
}

/// Makes a value with a template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransformConfig {
    /// The inputs of the template, by name.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub inputs: IndexMap<String, DataType>,
    /// A Liquid template over the inputs.
    pub template: String,
    /// The type of the output; a string by default, otherwise the rendered text is parsed as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<DataType>,
}

/// A node of the application's own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CustomConfig {
    /// The name under which the application has registered it.
    pub name: String,
    /// The configuration; its meaning is up to the node.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub config: Value,
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Reads a type out of JSON; what is wrong names the field.
pub(super) fn typed<T: DeserializeOwned>(value: &Value) -> Result<T, FlowFault> {
    serde_path_to_error::deserialize(value).map_err(|err| {
        let mut path: Vec<String> = err.path().iter().map(ToString::to_string).collect();
        let message = err.inner().to_string();
        let field = message.strip_prefix("unknown field `").and_then(|it| it.split_once('`'));
        if let Some((field, _)) = field
            && path.last().map(String::as_str) != Some(field)
        {
            path.push(field.to_owned());
        }
        let code = if field.is_some() { ErrorCode::UnknownField } else { ErrorCode::FlowInvalid };
        FlowFault::new(code, message).at(path)
    })
}
