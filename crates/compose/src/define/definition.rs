//! The definition of a prompt as a whole.

use contexture_history::{Limit, Transforms, Visibility};
use contexture_message::{Settings, ToolChoice};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::checks::{Constraint, Guardrail, StopCondition, ToolMiddleware};
use super::{
    Adaptation, Budget, CacheConfig, ContextProvider, Entry, InputPolicy, Messages, Schema, TagValue, Text,
    UserMessage,
};
use crate::segment::SharedTool;

/// Everything an author defines about one model call. [`PromptBuilder::build`](crate::PromptBuilder::build) checks it as a whole.
#[derive(Clone, Debug, Default)]
pub struct Definition {
    /// The prompt's name.
    pub id: String,
    /// What the prompt is for.
    pub description: Option<String>,
    /// Keywords for finding the prompt.
    pub tags: Vec<String>,
    /// The file it was read from, for errors.
    pub file: Option<String>,
    /// The model it was written for, `provider/model`.
    pub model: Option<String>,
    /// The entries, in the author's order.
    pub entries: Vec<Entry>,
    /// The schema of the input.
    pub input: Option<Schema>,
    /// Input keys for which the prompt's own schema overrides an entry's.
    pub overrides: Vec<String>,
    /// How input strings are escaped and sanitized before anything reads them.
    pub input_policy: InputPolicy,
    /// The schema of the answer.
    pub output: Option<Schema>,
    /// The prompt's own system text.
    pub system: Option<Text>,
    /// The user text of calls that have no user message.
    pub prompt: Option<Text>,
    /// This turn's user messages, resolved for each call. If they differ from what the user says, they come after it.
    pub user: Vec<UserMessage>,
    /// The text that becomes the user's message of a turn whose request brings no text of the user, such as an input.
    /// Unlike [`user`](Self::user), it is recorded as what the user said.
    pub user_message: Option<Text>,
    /// Which views include what its turns say; by default all.
    pub visibility: Option<Visibility>,
    /// The prompt's own list of messages.
    pub messages: Messages,
    /// The context slot: array and object forms may be mixed.
    pub context: Vec<TagValue>,
    /// A text that replaces the tag block; it may read `config.context`.
    pub context_section: Option<Text>,
    /// Whether the system text itself contains the replacement for the tag block.
    pub context_in_system: bool,
    /// How much of the history is used.
    pub history: HistoryConfig,
    /// The generation settings.
    pub settings: Settings,
    /// Changes for particular models, by key.
    pub adapt: IndexMap<String, Adaptation>,
    /// The prompt's own tools.
    pub tools: Vec<SharedTool>,
    /// Middleware that wraps tool calls.
    pub tool_middleware: Vec<ToolMiddleware>,
    /// Whether the model must use tools.
    pub tool_choice: Option<ToolChoice>,
    /// When the loop of model calls ends.
    pub stop_when: Vec<StopCondition>,
    /// The prompt's own tests.
    pub tests: Vec<Value>,
    /// Checks of the answer.
    pub constraints: Vec<Constraint>,
    /// Checks of input and output.
    pub guardrails: Vec<Guardrail>,
    /// The layout for provider caches.
    pub cache: CacheConfig,
    /// The token limits.
    pub budget: Budget,
    /// Transforms that rewrite the history and the turn in flight for a request, in order.
    pub transforms: Transforms,
    /// Context providers, which put messages before the history, in order.
    pub providers: Vec<ContextProvider>,
}

/// How much of the history a prompt uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HistoryConfig {
    /// The limit; by default all turns that are passed in are used.
    pub limit: Option<Limit>,
}

impl HistoryConfig {
    /// Uses no earlier turns.
    pub const NONE: Self = Self { limit: Some(Limit::Turns(0)) };
}
