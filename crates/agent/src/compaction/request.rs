//! The requests that ask a model for a summary.
//!
//! Where the range begins with the conversation, it is the conversation's own request with the question behind it: the
//! provider has read it before and reads it from its cache. A range from the middle is shown by itself, one message a line, so
//! that nothing before it gets into its summary again. Where that does not fit the window of the model that summarises, it is
//! shown in parts, each with the summary of those before it.

use std::sync::Arc;

use contexture_compose::{Body, Pass, Segment, Slot, Source};
use contexture_history::compaction::{Strategy, SummaryPrompt};
use contexture_history::{Transforms, Turn, without_media, without_thinking};
use contexture_message::tokens::request_tokens;
use contexture_message::{Breakpoint, Message, Request, Settings, TokenCounter, Tokens, ToolChoice};

use super::SummaryCall;
use crate::filled::filled;

/// A range that is to be summarised, and who is asked.
pub(crate) struct Inquiry<'a> {
    pub(crate) pass: &'a Pass,
    /// The model that summarises, if it is not that of the conversation.
    pub(crate) model: Option<&'a str>,
    /// Whether the range begins with the conversation.
    pub(crate) is_beginning: bool,
    pub(crate) turns: Vec<Turn>,
    pub(crate) messages: Vec<Arc<Message>>,
    pub(crate) prompt: SummaryPrompt,
    pub(crate) reason: Strategy,
    pub(crate) thread: String,
    /// How many tokens a request may have, if that is known, and who counts them.
    pub(crate) room: Option<Tokens>,
    pub(crate) counter: Arc<dyn TokenCounter>,
}

/// What is asked: one question, or one after the other.
pub(crate) enum Questions {
    /// All of it at once.
    Whole(SummaryCall),
    /// Texts, none of which is too long, and the call that each of them becomes.
    Parts(Vec<String>, Box<PartCall>),
    /// The model that summarises has no room for anything.
    NoRoom,
}

/// What the calls of parts have in common.
pub(crate) struct PartCall {
    call: SummaryCall,
    counter: Arc<dyn TokenCounter>,
}

impl Inquiry<'_> {
    /// Returns what is asked.
    pub(crate) fn questions(self) -> Questions {
        if self.is_beginning && self.model.is_none() {
            let request = self.continued();
            if self.fits(&request) {
                return Questions::Whole(self.call(request, self.messages.clone()));
            }
        }
        let text = plain_text(&self.turns);
        let request = self.apart(format!("{text}\n\n{}", self.prompt.user));
        if self.fits(&request) {
            return Questions::Whole(self.call(request, self.messages.clone()));
        }
        let empty = self.call(self.apart(self.prompt.user.clone()), Vec::new());
        let frame = request_tokens(&*self.counter, &empty.request) + self.prompt.max_tokens + FRAME;
        match self.room.map(|it| it.saturating_sub(frame)).filter(|it| *it >= SMALLEST_PART) {
            None => Questions::NoRoom,
            Some(room) => {
                let part_call = PartCall { call: empty, counter: Arc::clone(&self.counter) };
                Questions::Parts(parts(&text, room, &*self.counter), Box::new(part_call))
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

    /// The conversation, and behind it the question.
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

    /// A text, by itself.
    fn apart(&self, text: String) -> Request {
        let sent = self.pass.request();
        let system = Arc::new(Message::system(self.prompt.system.as_str()));
        let messages = vec![system, Arc::new(Message::user(text))];
        let (tools, tool_choice, output, breakpoints) = (Vec::new(), None, None, Vec::new());
        let (model, settings) = match self.model {
            // What the conversation's model is told may mean nothing to another one.
            Some(model) => (Some(model.to_owned()), Settings::default()),
            None => (sent.model.clone(), roomy(&sent.settings, &self.prompt)),
        };
        Request { model, messages, tools, tool_choice, output, settings, breakpoints }
    }
}

/// The words around a part.
const FRAME: Tokens = Tokens(96);
/// Smaller parts would each say next to nothing.
const SMALLEST_PART: Tokens = Tokens(200);

impl PartCall {
    /// Returns the call for a part, with the summary of those before it.
    pub(crate) fn of(&self, so_far: Option<&str>, text: &str) -> SummaryCall {
        let question = match so_far {
            None => format!("{text}\n\n{}", self.call.prompt.user),
            Some(so_far) => {
                let so_far = self.within_limit(so_far);
                let values = [("so_far", so_far), ("text", text), ("question", &*self.call.prompt.user)];
                filled(include_str!("../templates/summary_part.txt"), &values)
            }
        };
        let mut request = (*self.call.request).clone();
        if let Some(message) = request.messages.last_mut() {
            *message = Arc::new(Message::user(question));
        }
        let messages = vec![Arc::new(Message::user(text))];
        SummaryCall { messages, request: Arc::new(request), ..self.call.clone() }
    }

    /// Returns the beginning of a summary that is longer than it may be.
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

/// Returns turns as text: a message a line.
fn plain_text(turns: &[Turn]) -> String {
    let plain = Transforms::default().then(without_thinking()).then(without_media());
    let turns = plain.run(turns.to_vec()).turns;
    let lines = turns.iter().flat_map(|it| it.messages());
    // Plain data with string keys: writing it as JSON can't fail.
    let lines: Vec<String> = lines.map(|it| serde_json::to_string(&**it).unwrap_or_default()).collect();
    lines.join("\n")
}

/// Splits a text at its lines so that no part costs more than `room`; a line that is longer is split anywhere.
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

/// Splits a line into pieces that fit.
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

/// Whether the model must call a tool: then it can't say anything.
fn is_forced(choice: &ToolChoice) -> bool {
    matches!(choice, ToolChoice::Required | ToolChoice::Tool(_))
}

/// Returns the settings of the conversation, with room for a summary where its answers are kept shorter.
fn roomy(settings: &Settings, prompt: &SummaryPrompt) -> Settings {
    let max_tokens = settings.max_tokens.map(|it| it.max(prompt.max_tokens.0));
    Settings { max_tokens, ..settings.clone() }
}

/// How many messages of a request stand before the history; what was prepended to it is never summarised.
fn n_before_history(pass: &Pass) -> usize {
    let prepended = Source::named("history", Turn::LEADING);
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
