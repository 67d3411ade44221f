//! Replaces large tool results with previews and a handle.
//!
//! The input is messages and a [`Frontier`]; the output is the same messages with shorter results. The log keeps the
//! full results. The rules:
//!
//! 1. Results are numbered from the oldest. Those before the frontier are *old*, the others *recent*.
//! 2. An old result over `max_tokens_per_tool_result`, and a recent one over `max_tokens_per_recent_tool_result`,
//!    becomes a preview: its kind, its size, its start and its end, and the handle (the id of its call) with which
//!    `read_tool_result` reads the rest.
//! 3. Images and files of an old result, and of one that is too large, become a note that counts them. If that saves
//!    enough, the text stays.
//! 4. A preview costs at most `preview_tokens`, on both sides of the frontier, so it does not change when the frontier
//!    passes it. A result that a preview would not make smaller stays.
//! 5. A result with its own cap (see [`Caps`]) is shown within that cap, on both sides of the frontier. The same
//!    applies to the text of user and assistant messages.
//!
//! The form of a result depends only on the result, the limits and its side of the frontier. So while the frontier
//! does not move, the bytes before it never change, whatever is appended. Moving the frontier changes earlier
//! bytes and invalidates the provider's cache from there on; [`candidates`] lists what that would save.

use std::borrow::Borrow;
use std::sync::Arc;

use contexture_message::{Message, Part, TokenCounter, Tokens, ToolOutput, ToolResult, part_tokens};

use super::cut::{
    Caps, SHORTEST_PREVIEW, cut_part, cuttable_tokens, is_summary, message_handle, shortest_that_fits,
};
use crate::item::wording::{filled, media_note};
use crate::neutral::neutralise;
use crate::transform::{has_media, noted, rewritten};

/// Size limits for results. Field names match the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultLimits {
    /// The maximum size of an old result; larger ones become a preview.
    pub max_tokens_per_tool_result: Tokens,
    /// How many of the newest results may be larger.
    pub keep_recent_tool_results: usize,
    /// The maximum size of a recent result.
    pub max_tokens_per_recent_tool_result: Tokens,
    /// The maximum size of a preview. Lower limits for results are raised to it.
    pub preview_tokens: Tokens,
    /// Results and messages with a lower limit.
    pub caps: Arc<Caps>,
}

impl Default for ResultLimits {
    fn default() -> Self {
        Self {
            max_tokens_per_tool_result: Tokens(1500),
            keep_recent_tool_results: 2,
            max_tokens_per_recent_tool_result: Tokens(6000),
            preview_tokens: Tokens(500),
            caps: Arc::default(),
        }
    }
}

impl ResultLimits {
    /// Returns these limits lowered for a model with `usable` tokens: a recent result may take a quarter of them, an
    /// old one an eighth, a preview a sixteenth.
    ///
    /// ```
    /// use contexture_history::compaction::ResultLimits;
    /// use contexture_message::Tokens;
    ///
    /// let limits = ResultLimits::default().within(Tokens(8_000));
    /// assert_eq!(limits.max_tokens_per_recent_tool_result, Tokens(2_000));
    /// assert_eq!(ResultLimits::default().within(Tokens(200_000)), ResultLimits::default());
    /// ```
    #[must_use]
    pub fn within(self, usable: Tokens) -> Self {
        let share = |limit: Tokens, part: u32| limit.min(Tokens(usable.0 / part)).max(SHORTEST_PREVIEW);
        Self {
            max_tokens_per_tool_result: share(self.max_tokens_per_tool_result, 8),
            max_tokens_per_recent_tool_result: share(self.max_tokens_per_recent_tool_result, 4),
            preview_tokens: share(self.preview_tokens, 16),
            ..self
        }
    }

    pub(super) fn of(&self, is_old: bool) -> Tokens {
        let limit = match is_old {
            true => self.max_tokens_per_tool_result,
            false => self.max_tokens_per_recent_tool_result,
        };
        limit.max(self.preview_tokens)
    }
}

/// The number of old results, counted from the oldest in the list.
///
/// A caller whose list begins later subtracts the results that are no longer in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Frontier(pub usize);

impl Frontier {
    /// Returns the frontier that leaves as many recent results as the limits allow.
    ///
    /// ```
    /// use contexture_history::compaction::{Frontier, ResultLimits};
    /// use contexture_message::Message;
    ///
    /// assert_eq!(Frontier::newest(&[Message::user("hi")], &ResultLimits::default()), Frontier(0));
    /// ```
    pub fn newest<M: Borrow<Message>>(messages: &[M], limits: &ResultLimits) -> Self {
        let parts = messages.iter().flat_map(|it| &it.borrow().content);
        let n_results = parts.filter(|it| matches!(it, Part::ToolResult(_))).count();
        Self(n_results.saturating_sub(limits.keep_recent_tool_results))
    }
}

/// A result that could be shortened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its number, counted from the oldest. It is old once the frontier exceeds this number.
    pub number: usize,
    /// The index of its message.
    pub message: usize,
    /// The id of its call, which is its handle.
    pub call_id: String,
    /// The tool's name.
    pub name: String,
    /// Which limit it exceeds.
    pub exceeds: Exceeds,
    /// Its cost.
    pub before: Tokens,
    /// Its cost after shortening.
    pub after: Tokens,
}

impl Candidate {
    /// Returns what shortening it saves.
    pub fn saves(&self) -> Tokens {
        self.before.saturating_sub(self.after)
    }
}

/// Which limit a result exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceeds {
    /// The limit of old results, or it holds images or files: it is shortened when the frontier passes it.
    Old,
    /// The limit of recent results too: it is shortened immediately.
    Recent,
}

/// Messages with shorter results.
#[derive(Clone, Debug, PartialEq)]
pub struct Shortened {
    /// The messages; unchanged ones are shared.
    pub messages: Vec<Arc<Message>>,
    /// The ids of the calls whose results changed, in order.
    pub changed: Vec<String>,
}

/// Lists the results that are larger than a limit, oldest first, so that the caller can place the frontier.
///
/// ```
/// use contexture_history::compaction::{Exceeds, ResultLimits, candidates};
/// use contexture_message::{Encoding, Message, Part, Role, ToolOutput, ToolResult};
///
/// let output = ToolOutput::Text("one line of a log\n".repeat(500));
/// let result = ToolResult { call_id: "c1".into(), name: "logs".into(), output };
/// let messages = [Message::parts(Role::Tool, vec![Part::ToolResult(result)])];
/// let found = candidates(&messages, &ResultLimits::default(), &Encoding::O200kBase);
/// assert_eq!((found[0].exceeds, found[0].call_id.as_str()), (Exceeds::Old, "c1"));
/// assert!(found[0].saves() > found[0].after);
/// ```
pub fn candidates<M: Borrow<Message>>(
    messages: &[M],
    limits: &ResultLimits,
    counter: &dyn TokenCounter,
) -> Vec<Candidate> {
    let mut found = Vec::new();
    let mut number = 0;
    for (position, message) in messages.iter().enumerate() {
        for part in &message.borrow().content {
            let Part::ToolResult(result) = part else { continue };
            if let Some(Shorter { before, after, .. }) = shorter(part, result, true, limits, counter) {
                let is_large = before > limits.of(false);
                found.push(Candidate {
                    number,
                    message: position,
                    call_id: result.call_id.clone(),
                    name: result.name.clone(),
                    exceeds: if is_large { Exceeds::Recent } else { Exceeds::Old },
                    before,
                    after,
                });
            }
            number += 1;
        }
    }
    found
}

/// Returns the messages with previews in place of large results.
///
/// ```
/// use std::sync::Arc;
///
/// use contexture_history::compaction::{Frontier, ResultLimits, shorten};
/// use contexture_message::{Encoding, Message, Part, Role, ToolOutput, ToolResult};
///
/// let output = ToolOutput::Text("one line of a log\n".repeat(500));
/// let result = ToolResult { call_id: "c1".into(), name: "logs".into(), output };
/// let messages = [Arc::new(Message::parts(Role::Tool, vec![Part::ToolResult(result)]))];
/// let limits = ResultLimits::default();
/// assert!(shorten(&messages, Frontier(0), &limits, &Encoding::O200kBase).changed.is_empty());
/// assert_eq!(shorten(&messages, Frontier(1), &limits, &Encoding::O200kBase).changed, ["c1"]);
/// ```
pub fn shorten(
    messages: &[Arc<Message>],
    frontier: Frontier,
    limits: &ResultLimits,
    counter: &dyn TokenCounter,
) -> Shortened {
    let mut shortening = Shortening::new(frontier, limits, counter);
    let mut changed = Vec::new();
    let tell = &mut |handle: &str, _: &str, _, _| changed.push(handle.to_owned());
    let messages = messages.iter().map(|it| shortening.message("", it, tell)).collect();
    Shortened { messages, changed }
}

/// A pass over a list of messages.
pub(super) struct Shortening<'a> {
    frontier: Frontier,
    limits: &'a ResultLimits,
    counter: &'a dyn TokenCounter,
    /// How many results have been seen.
    n_results: usize,
}

impl<'a> Shortening<'a> {
    pub(super) fn new(frontier: Frontier, limits: &'a ResultLimits, counter: &'a dyn TokenCounter) -> Self {
        Self { frontier, limits, counter, n_results: 0 }
    }

    /// Returns the message of a turn with shorter results and texts, and reports for each the handle, the name, and
    /// the cost before and after.
    pub(super) fn message(
        &mut self,
        turn: &str,
        message: &Arc<Message>,
        tell: &mut dyn FnMut(&str, &str, Tokens, Tokens),
    ) -> Arc<Message> {
        let mut content: Option<Vec<Part>> = None;
        let cut = self.cut(turn, message);
        for (idx, part) in message.content.iter().enumerate() {
            let shorter = match (part, &cut) {
                (Part::ToolResult(result), _) => {
                    let is_old = self.n_results < self.frontier.0;
                    self.n_results += 1;
                    let made = shorter(part, result, is_old, self.limits, self.counter);
                    made.map(|it| {
                        tell(&result.call_id, &result.name, it.before, it.after);
                        with_output(result, it.output)
                    })
                }
                (_, Some(Cut { handle, cap, tokens })) => {
                    let made = cut_part(part, (*cap, *tokens), handle, self.counter);
                    made.inspect(|it| {
                        let (before, after) =
                            (part_tokens(self.counter, part), part_tokens(self.counter, it));
                        tell(handle, message.role.as_str(), before, after);
                    })
                }
                (_, None) => None,
            };
            if let Some(part) = shorter {
                content.get_or_insert_with(|| message.content.clone())[idx] = part;
            }
        }
        content.map_or_else(|| Arc::clone(message), |it| rewritten(message, it))
    }

    /// Returns how a message is cut, if it exceeds its cap.
    fn cut(&self, turn: &str, message: &Message) -> Option<Cut> {
        if self.limits.caps.is_empty() || is_summary(message) {
            return None;
        }
        let handle = message_handle(turn, message)?;
        let cap = *self.limits.caps.get(&handle)?;
        let tokens = cuttable_tokens(message, self.counter);
        (tokens > cap).then_some(Cut { handle, cap, tokens })
    }

    /// Skips results that are known not to change.
    pub(super) fn pass_over(&mut self, n_results: usize) {
        self.n_results += n_results;
    }
}

/// How the text of a message is cut.
struct Cut {
    handle: String,
    cap: Tokens,
    /// The full cost.
    tokens: Tokens,
}

fn with_output(result: &ToolResult, output: ToolOutput) -> Part {
    Part::ToolResult(ToolResult { call_id: result.call_id.clone(), name: result.name.clone(), output })
}

/// The shorter form of a result.
struct Shorter {
    output: ToolOutput,
    /// The cost of the result.
    before: Tokens,
    /// The cost of the shorter form.
    after: Tokens,
}

/// Returns the shorter form of a result, if it needs one and a shorter one exists.
fn shorter(
    part: &Part,
    result: &ToolResult,
    is_old: bool,
    limits: &ResultLimits,
    counter: &dyn TokenCounter,
) -> Option<Shorter> {
    let before = part_tokens(counter, part);
    if let Some(cap) = limits.caps.get(&result.call_id) {
        let made = (before > *cap).then(|| preview(result, before, *cap, counter)).flatten();
        return made.map(|(output, after)| Shorter { output, before, after });
    }
    let is_large = before > limits.of(false);
    if !is_large && !is_old {
        return None;
    }
    let without_media = match &result.output {
        ToolOutput::Content(parts) if parts.iter().any(has_media) => Some(ToolOutput::Content(noted(parts))),
        _ => None,
    };
    let tokens = match &without_media {
        Some(output) => part_tokens(counter, &with_output(result, output.clone())),
        None => before,
    };
    // A result that is shortened immediately must look the same on both sides of the frontier.
    let limit = if is_large { limits.preview_tokens } else { limits.of(true) };
    let (output, after) = match tokens > limit {
        true => {
            let made = preview(result, before, limits.preview_tokens, counter);
            made.filter(|(_, tokens)| *tokens <= limits.preview_tokens)?
        }
        false => (without_media?, tokens),
    };
    Some(Shorter { output, before, after })
}

/// Returns the preview of a result with its cost, if that makes it smaller.
fn preview(
    result: &ToolResult,
    before: Tokens,
    limit: Tokens,
    counter: &dyn TokenCounter,
) -> Option<(ToolOutput, Tokens)> {
    let (kind, text) = read(&result.output);
    let write = |head: &str, left_out: usize, tail: &str| {
        let values = [
            ("kind", kind),
            ("name", result.name.as_str()),
            ("tokens", &before.to_string()),
            ("handle", &result.call_id),
            ("head", head),
            ("left_out", &left_out.to_string()),
            ("tail", tail),
        ];
        let text = filled(include_str!("../../templates/result-preview.txt"), &values);
        like(&result.output, neutralise(&text).into_owned())
    };
    let count = |it: &ToolOutput| part_tokens(counter, &with_output(result, it.clone()));
    let output = shortest_that_fits(&text, limit, &write, &count);
    let tokens = count(&output);
    (tokens < before).then_some((output, tokens))
}

/// Returns the kind of a result and its text; images and files are counted.
fn read(output: &ToolOutput) -> (&'static str, String) {
    match output {
        ToolOutput::Text(text) => ("result", text.clone()),
        ToolOutput::Json(value) => ("JSON result", value.to_string()),
        ToolOutput::ErrorText(text) => ("error", text.clone()),
        ToolOutput::ErrorJson(value) => ("JSON error", value.to_string()),
        ToolOutput::ExecutionDenied { reason } => ("refusal", reason.clone().unwrap_or_default()),
        ToolOutput::Content(parts) => {
            let n_images = parts.iter().filter(|it| matches!(it, Part::Image(_))).count();
            let n_files = parts.iter().filter(|it| matches!(it, Part::File(_))).count();
            let note = (n_images + n_files > 0).then(|| media_note(n_images, n_files));
            let texts = parts.iter().filter_map(|part| match part {
                Part::Text { text, .. } => Some(text.clone()),
                Part::Evidence(evidence) => Some(evidence.labelled_text()),
                Part::Image(_)
                | Part::File(_)
                | Part::Thinking(_)
                | Part::ToolCall(_)
                | Part::ToolResult(_) => None,
            });
            ("result", note.into_iter().chain(texts).collect::<Vec<_>>().join("\n"))
        }
    }
}

/// Returns a text as an output of the same kind.
fn like(output: &ToolOutput, text: String) -> ToolOutput {
    match output {
        ToolOutput::Text(_) | ToolOutput::Json(_) | ToolOutput::Content(_) => ToolOutput::Text(text),
        ToolOutput::ErrorText(_) | ToolOutput::ErrorJson(_) => ToolOutput::ErrorText(text),
        ToolOutput::ExecutionDenied { .. } => ToolOutput::ExecutionDenied { reason: Some(text) },
    }
}
