//! A model's answer: the message, its token usage, and the pieces in which it arrives.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Citation, Message, Part, Role, ToolCall};

/// A model's answer to one request, independent of any provider's dialect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ModelAnswer")]
pub struct Answer {
    /// The assistant's message: thinking, text and tool calls in the order in which they arrived.
    pub message: Message,
    /// Why the model stopped.
    pub stop: StopReason,
    /// The tokens used.
    #[serde(default)]
    pub usage: Usage,
    /// The model that answered, as the provider names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The provider's id of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

impl Answer {
    /// Returns an answer of one text with zero usage, for tests and canned replies.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            message: Message::assistant(text),
            stop: StopReason::End,
            usage: Usage::default(),
            model: None,
            id: None,
        }
    }

    /// Returns an answer made of parts; its stop reason is tool calls if it has any.
    pub fn parts(parts: Vec<Part>) -> Self {
        let calls = parts.iter().any(|it| matches!(it, Part::ToolCall(_)));
        let stop = if calls { StopReason::ToolCalls } else { StopReason::End };
        Self { message: Message::parts(Role::Assistant, parts), stop, ..Self::text("") }
    }

    /// Returns the tool calls in order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.message.content.iter().filter_map(|it| match it {
            Part::ToolCall(call) => Some(call),
            Part::Text { .. }
            | Part::Image(_)
            | Part::File(_)
            | Part::Evidence(_)
            | Part::Thinking(_)
            | Part::ToolResult(_) => None,
        })
    }

    /// Returns the pieces in which the answer may arrive: those of each part, then the whole answer.
    pub fn deltas(&self) -> Vec<Delta> {
        let mut deltas = Vec::new();
        let mut index = 0;
        for part in &self.message.content {
            match part {
                Part::Text { text, citations } => {
                    deltas.push(Delta::Text(text.clone()));
                    deltas.extend(citations.iter().cloned().map(Delta::Citation));
                }
                Part::Thinking(thinking) if thinking.text.is_empty() => {}
                Part::Thinking(thinking) => deltas.push(Delta::Thinking(thinking.text.clone())),
                Part::ToolCall(call) => {
                    deltas.push(Delta::Call { index, id: call.id.clone(), name: call.name.clone() });
                    deltas.push(Delta::Arguments { index, json: call.arguments.to_string() });
                    index += 1;
                }
                Part::Image(_) | Part::File(_) | Part::Evidence(_) | Part::ToolResult(_) => {}
            }
        }
        deltas.push(Delta::Done(Box::new(self.clone())));
        deltas
    }

    /// Returns all text parts joined.
    pub fn joined_text(&self) -> String {
        self.message.joined_text()
    }
}

/// Why a model stopped generating.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The answer is complete.
    End,
    /// The model waits for tool results.
    ToolCalls,
    /// The model reached its output token limit.
    MaxTokens,
    /// The model generated one of the stop texts.
    StopText,
    /// The model or the provider's filter refused.
    Refused,
    /// The provider paused a long answer; sending the conversation again continues it.
    Paused,
    /// Any other reason, as the provider names it.
    Other(String),
}

/// The usage of one model call, in the provider's own tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Usage {
    /// All tokens that the model read, cached or not.
    pub input_tokens: u64,
    /// The input tokens read from the provider's cache; `None` if the provider does not report them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    /// The input tokens written to the provider's cache; `None` if the provider does not report them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
    /// All tokens that the model generated, thinking included.
    pub output_tokens: u64,
    /// The output tokens spent on thinking, if the provider reports them.
    pub reasoning_tokens: u64,
}

impl Usage {
    /// Returns the sum of input and output tokens.
    pub fn total(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Returns the sum of cache reads and cache writes; unreported counts are zero.
    pub fn cached(&self) -> u64 {
        let written = self.cache_write_tokens.unwrap_or_default();
        self.cache_read_tokens.unwrap_or_default().saturating_add(written)
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Usage) {
        // Destructured by name, so that a new field cannot be forgotten here.
        let Usage { input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens } =
            other;
        self.input_tokens = self.input_tokens.saturating_add(input_tokens);
        self.cache_read_tokens = sum(self.cache_read_tokens, cache_read_tokens);
        self.cache_write_tokens = sum(self.cache_write_tokens, cache_write_tokens);
        self.output_tokens = self.output_tokens.saturating_add(output_tokens);
        self.reasoning_tokens = self.reasoning_tokens.saturating_add(reasoning_tokens);
    }
}

/// Adds two counts. An unreported count adds nothing; the sum is unreported if both counts are.
fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.map_or(b, |a| Some(a.saturating_add(b.unwrap_or_default())))
}

/// A piece of an answer as it arrives. The last piece of a stream is [`Delta::Done`] with the whole answer;
/// a stream that ends without it was cut off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delta {
    /// More text. An empty piece between two others starts a new part.
    Text(String),
    /// A citation of the text part that is being received. Its span counts from the start of that part.
    Citation(Citation),
    /// More readable thinking. An empty piece starts a new part.
    Thinking(String),
    /// The start of a tool call.
    Call {
        /// The index of the call in the answer, from 0.
        index: usize,
        /// The id of the call.
        id: String,
        /// The tool's name.
        name: String,
    },
    /// More of a call's arguments, as JSON text.
    Arguments {
        /// The index of the call in the answer, from 0.
        index: usize,
        /// The next piece of JSON text.
        json: String,
    },
    /// The whole answer; always the last piece.
    Done(Box<Answer>),
}
