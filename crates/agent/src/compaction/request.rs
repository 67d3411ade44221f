//! The requests for a summary.
//!
//! If the range starts with the conversation, the request is the conversation's own with the question appended, so
//! that the provider reads it from its cache. A range from the middle is shown by itself, one message per line, so
//! that nothing before it is summarised again. If that does not fit the window of the summarising model, it is sent in
//! parts, each with the summary of the parts before it.

use std::sync::Arc;

use contexture_compose::{Body, Pass, Segment, Slot, Source};
use contexture_history::compaction::{Strategy, SummaryPrompt};
use contexture_history::{Transforms, Turn, without_media, without_thinking};
use contexture_message::tokens::request_tokens;
use contexture_message::{Breakpoint, Message, Request, Settings, TokenCounter, Tokens, ToolChoice};

use super::summarizer::SummaryCall;
use crate::text::fill;

/// A range to summarise, and the model to ask.
pub(crate) struct SummaryInput<'a> {
    pub(crate) pass: &'a Pass,
    /// The summarising model, if it is not that of the conversation.
    pub(crate) model: Option<&'a str>,
    /// Whether the range starts with the conversation.
    pub(crate) is_beginning: bool,
    pub(crate) turns: Vec<Turn>,
    pub(crate) messages: Vec<Arc<Message>>,
    pub(crate) prompt: SummaryPrompt,
    pub(crate) reason: Strategy,
    pub(crate) thread: String,
    /// How many tokens a request may have, by `counter`, if known.
    pub(crate) room: Option<Tokens>,
    pub(crate) counter: Arc<dyn TokenCounter>,
}

/// The requests for a summary: one, or a sequence of parts.
pub(crate) enum SummaryRequests {
    /// One request for the whole range.
    Whole(SummaryCall),
    /// The texts of the parts, each within the limit, and the call that is made with each.
    Parts(Vec<String>, Box<PartCall>),
    /// The summarising model has no room for any useful part.
    NoRoom,
}

/// What the calls for all parts share.
pub(crate) struct PartCall {
    call: SummaryCall,
    counter: Arc<dyn TokenCounter>,
}

impl SummaryInput<'_> {
    /// Returns the requests to make.
    pub(crate) fn requests(self) -> SummaryRequests {
        if self.is_beginning && self.model.is_none() {
            let request = self.continued();
            if self.fits(&request) {
                return SummaryRequests::Whole(self.call(request, self.messages.clone()));
            }
        }
        let text = plain_text(&self.turns);
        let request = self.apart(format!("{text}\n\n{}", self.prompt.user));
        if self.fits(&request) {
            return SummaryRequests::Whole(self.call(request, self.messages.clone()));
        }
        let empty = self.call(self.apart(self.prompt.user.clone()), Vec::new());
        let frame = request_tokens(&*self.counter, &empty.request) + self.prompt.max_tokens + FRAME;
        match self.room.map(|it| it.saturating_sub(frame)).filter(|it| *it >= SMALLEST_PART) {
            None => SummaryRequests::NoRoom,
            Some(room) => {
                let part_call = PartCall { call: empty, counter: Arc::clone(&self.counter) };
                SummaryRequests::Parts(parts(&text, room, &*self.counter), Box::new(part_call))
            }
        }
    }

    fn fits(&self, request: &Request) -> bool {
        self.room.is_none_or(|room| request_tokens(&*self.counter, request) <= room)
    }

    fn call(&self, request: Request, messages: Vec<Arc<Message>>) -> SummaryCall {
        let (reason, prompt, thread) = (self.reason, self.prompt.clone(), self.thread.clone());
        SummaryCall { messages, reason, prompt, request: Arc::new(request), thread }
    }

    /// Returns the conversation with the question appended.
    fn continued(&self) -> Request {
        let sent = self.pass.request();
        let head = sent.messages.iter().take(n_before_history(self.pass)).cloned();
        let mut all: Vec<Arc<Message>> = head.chain(self.messages.iter().cloned()).collect();
        let last = all.len().checked_sub(1);
        let marks = sent.breakpoints.iter().filter(|it| !matches!(it, Breakpoint::Message { .. })).copied();
        let end =
            last.map(|message| Breakpoint::Message { message }).filter(|_| !sent.breakpoints.is_empty());
        let breakpoints = marks.chain(end).collect();
        all.push(Arc::new(Message::user(self.prompt.user.as_str())));
        let tool_choice = sent.tool_choice.clone().filter(|it| !is_forced(it));
        let settings = roomy(&sent.settings, &self.prompt);
        Request { messages: all, output: None, tool_choice, settings, breakpoints, ..sent.clone() }
    }

    /// Returns a request with only this text.
    fn apart(&self, text: String) -> Request {
        let sent = self.pass.request();
        let system = Arc::new(Message::system(self.prompt.system.as_str()));
        let messages = vec![system, Arc::new(Message::user(text))];
        let (tools, tool_choice, output, breakpoints) = (Vec::new(), None, None, Vec::new());
        let (model, settings) = match self.model {
            // The settings of the conversation's model may not apply to another one.
            Some(model) => (Some(model.to_owned()), Settings::default()),
            None => (sent.model.clone(), roomy(&sent.settings, &self.prompt)),
        };
        Request { model, messages, tools, tool_choice, output, settings, breakpoints }
    }
}

/// Tokens for the text around a part.
const FRAME: Tokens = Tokens(96);
/// Smaller parts would each say almost nothing.
const SMALLEST_PART: Tokens = Tokens(200);

impl PartCall {
    /// Returns the call for a part, with the summary of the parts before it.
    pub(crate) fn of(&self, so_far: Option<&str>, text: &str) -> SummaryCall {
        let question = match so_far {
            None => format!("{text}\n\n{}", self.call.prompt.user),
            Some(so_far) => {
                let so_far = self.within_limit(so_far);
                let values = [("so_far", so_far), ("text", text), ("question", &*self.call.prompt.user)];
                fill(include_str!("templates/summary_part.txt"), &values)
            }
        };
        let mut request = (*self.call.request).clone();
        if let Some(message) = request.messages.last_mut() {
            *message = Arc::new(Message::user(question));
        }
        let messages = vec![Arc::new(Message::user(text))];
        SummaryCall { messages, request: Arc::new(request), ..self.call.clone() }
    }

    /// Cuts a summary that is longer than its limit.
    fn within_limit<'t>(&self, so_far: &'t str) -> &'t str {
        let mut cut = so_far;
        loop {
            let (tokens, most) = (self.counter.count(cut).0, self.call.prompt.max_tokens.0);
            if tokens <= most {
                return cut;
            }
            let fits = cut.len() as u64 * u64::from(most) / u64::from(tokens);
            let fits = usize::try_from(fits).unwrap_or(0).min(cut.len().saturating_sub(1));
            cut = &cut[..cut.floor_char_boundary(fits)];
        }
    }
}

/// Renders turns as text, one message per line.
fn plain_text(turns: &[Turn]) -> String {
    let plain = Transforms::default().then(without_thinking()).then(without_media());
    let turns = plain.run(turns.to_vec()).turns;
    let lines = turns.iter().flat_map(|it| it.messages());
    // Serializing plain data with string keys can't fail.
    let lines: Vec<String> = lines.map(|it| serde_json::to_string(&**it).unwrap_or_default()).collect();
    lines.join("\n")
}

/// Splits a text at line breaks so that no part costs more than `room`. Longer lines are split anywhere.
fn parts(text: &str, room: Tokens, counter: &dyn TokenCounter) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut left = Tokens(0);
    for piece in text.lines().flat_map(|it| pieces(it, room, counter)) {
        let tokens = counter.count(piece) + Tokens(1);
        match parts.last_mut().filter(|_| tokens <= left) {
            Some(part) => {
                part.push('\n');
                part.push_str(piece);
                left = left.saturating_sub(tokens);
            }
            None => {
                parts.push(piece.to_owned());
                left = room.saturating_sub(tokens);
            }
        }
    }
    parts
}

/// Splits a line into pieces that fit into `room`.
fn pieces<'a>(line: &'a str, room: Tokens, counter: &'a dyn TokenCounter) -> impl Iterator<Item = &'a str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut end = rest.len();
        while counter.count(&rest[..end]) >= room {
            let shorter = rest.floor_char_boundary(end / 2);
            let least = rest.ceil_char_boundary(1);
            if shorter <= least {
                end = least;
                break;
            }
            end = shorter;
        }
        let (piece, after) = rest.split_at(end);
        rest = after;
        Some(piece)
    })
}

/// Whether the model must call a tool and so can't answer with text.
fn is_forced(choice: &ToolChoice) -> bool {
    matches!(choice, ToolChoice::Required | ToolChoice::Tool(_))
}

/// Returns the conversation's settings, with `max_tokens` raised if it is too low for a summary.
fn roomy(settings: &Settings, prompt: &SummaryPrompt) -> Settings {
    let max_tokens = settings.max_tokens.map(|it| it.max(prompt.max_tokens.0));
    Settings { max_tokens, ..settings.clone() }
}

/// Returns how many messages of a request precede the history. Prepended items are among them: they are never
/// summarised.
fn n_before_history(pass: &Pass) -> usize {
    let prepended = Source::History(Turn::LEADING.into());
    let is_before =
        |it: &Segment| matches!(it.slot, Slot::Context | Slot::Provider) || it.source == prepended;
    let before = pass.segments().iter().filter(|it| is_before(it) && it.fate.is_sent());
    let n_messages: usize = before
        .map(|it| match &it.body {
            Body::Messages(messages) => messages.len(),
            Body::Text(_) => 1,
            Body::Nothing | Body::Tags(_) | Body::Tool(_) => 0,
        })
        .sum();
    n_messages + usize::from(pass.has_system())
}

#[cfg(test)]
mod tests {
    use contexture_message::{Encoding, TokenCounter, Tokens};

    use super::parts;

    #[test]
    fn no_part_is_too_long_and_nothing_is_lost() {
        let text = format!("{}\nshort\n{}", "word ".repeat(900), "ä🦀 lines\n".repeat(300));
        let found = parts(&text, Tokens(120), &Encoding::O200kBase);
        assert!(found.iter().all(|it| Encoding::O200kBase.count(it) <= Tokens(120)));
        let bare = |it: &str| it.replace('\n', "");
        assert_eq!(bare(&found.concat()), bare(&text));
    }
}
