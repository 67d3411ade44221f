//! A record of a request, for comparison with the next one.
//!
//! In memory it shares the messages of its request, so two requests that hold the same message compare without
//! reading it. When stored for a thread, it keeps the texts before the messages, but only the number of messages.
//! After loading, the messages are assumed to be unchanged.

use std::borrow::Cow;
use std::io;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use contexture_message::tokens::message_tokens;
use contexture_message::{Message, TokenCounter, Tokens, ToolDefinition};
use serde::{Deserialize, Serialize};

use super::digests::Digests;
use super::same_bytes::{is_same_message, is_same_tool};
use crate::segment::{SEPARATOR, Source};

/// The contents of a request, in the order in which providers see them: tools, system message, messages.
///
/// The code that runs a thread keeps it and passes it in with the next pass, see
/// [`CacheState::previous`](crate::CacheState::previous).
///
/// ```
/// # futures::executor::block_on(async {
/// use contexture_compose::{Prompt, ResolveOptions, Sent};
///
/// let prompt = Prompt::builder("p").system("Be brief.").build()?;
/// let pass = prompt.resolve(ResolveOptions::default().user_message("Hi")).await?;
/// let kept = serde_json::to_string(&*pass.sent())?;
/// assert_eq!(kept, r#"{"system":[{"source":"prompt","text":"Be brief.","tokens":3}],"messages":1}"#);
/// let sent: Sent = serde_json::from_str(&kept)?;
/// assert_eq!(sent.n_messages(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "Kept", from = "Kept")]
pub struct Sent {
    pub(crate) model: Option<String>,
    /// The tools, then the pieces of the system message.
    pub(crate) pieces: Vec<SentPiece>,
    pub(crate) n_tools: usize,
    pub(crate) messages: SentMessages,
    /// Whether the provider did not report what it read from its cache.
    pub(crate) is_unreported: bool,
    /// The digests of the request's messages, once they are known; the next request reuses them.
    pub(crate) digests: OnceLock<Arc<Digests>>,
}

/// A tool or a piece of the system message.
#[derive(Clone, Debug)]
pub(crate) struct SentPiece {
    pub(crate) source: Source,
    pub(crate) text: SentText,
    pub(crate) tokens: Tokens,
}

#[derive(Clone, Debug)]
pub(crate) enum SentText {
    Tool(Arc<ToolDefinition>),
    System(Arc<Message>, Range<usize>),
    Kept(String),
}

/// The messages after the system message.
#[derive(Clone, Debug)]
pub(crate) enum SentMessages {
    Known {
        list: Vec<Arc<Message>>,
        origins: Arc<[Source]>,
        groups: Vec<SentGroup>,
    },
    /// The number of messages, with unknown content.
    Assumed(usize),
}

/// SentMessages that were counted together, such as those of a turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentGroup {
    pub(crate) n_messages: usize,
    pub(crate) tokens: Tokens,
}

impl Sent {
    /// Returns a copy marked as answered by a provider that does not report what it read from its cache: the next
    /// request to it has no forecast.
    #[must_use]
    pub fn unreported(&self) -> Self {
        Self { is_unreported: true, ..self.clone() }
    }

    /// Returns the number of messages after the system message.
    pub fn n_messages(&self) -> usize {
        match &self.messages {
            SentMessages::Known { list, .. } => list.len(),
            SentMessages::Assumed(n_messages) => *n_messages,
        }
    }

    /// Returns a copy with this many messages of unknown content.
    #[must_use]
    pub fn assuming(&self, n_messages: usize) -> Self {
        Self { messages: SentMessages::Assumed(n_messages), ..self.clone() }
    }

    /// Returns whether both have the same model, tools and system message, and the provider reports its cache for
    /// both or neither.
    pub fn has_same_prefix(&self, other: &Sent) -> bool {
        let n_pieces = self.pieces.len();
        let is_same_provider = self.model == other.model && self.is_unreported == other.is_unreported;
        is_same_provider && n_pieces == other.pieces.len() && self.common(other).0 == n_pieces
    }

    /// Returns whether the content of its messages is no longer known.
    pub fn is_assumed(&self) -> bool {
        matches!(self.messages, SentMessages::Assumed(1..))
    }

    /// Returns the length of the common prefix: the number of tools and system pieces, and of messages after them.
    pub(crate) fn common(&self, other: &Sent) -> (usize, usize) {
        let pieces = self.pieces.iter().zip(&other.pieces).take_while(|(a, b)| a.is_same(b)).count();
        if pieces < self.pieces.len() || pieces < other.pieces.len() {
            return (pieces, 0);
        }
        let messages = match (&self.messages, &other.messages) {
            (SentMessages::Known { list: a, .. }, SentMessages::Known { list: b, .. }) => {
                a.iter().zip(b).take_while(|(a, b)| is_same_message(a, b)).count()
            }
            _ => self.n_messages().min(other.n_messages()),
        };
        (pieces, messages)
    }

    /// Returns the number of tools and pieces of the system message.
    pub(crate) fn n_pieces(&self) -> usize {
        self.pieces.len()
    }

    /// Returns the number of tools, pieces and messages.
    pub(crate) fn len(&self) -> usize {
        self.pieces.len() + self.n_messages()
    }

    /// Returns the tokens of the first pieces and messages. Whole groups have known counts; the messages of a group
    /// that is cut off are counted one by one.
    pub(crate) fn tokens(&self, pieces: usize, messages: usize, counter: &dyn TokenCounter) -> Tokens {
        let of_pieces: Tokens = self.pieces[..pieces].iter().map(|it| it.tokens).sum();
        let SentMessages::Known { list, groups, .. } = &self.messages else { return of_pieces };
        let (mut tokens, mut start) = (of_pieces, 0);
        for group in groups {
            let end = start + group.n_messages;
            if end > messages {
                let single = list[start..messages].iter().map(|it| message_tokens(counter, it));
                return tokens + single.sum();
            }
            tokens += group.tokens;
            start = end;
        }
        tokens
    }

    /// Returns the source of the piece or message at a position.
    pub(crate) fn source(&self, position: usize) -> Option<&Source> {
        match position.checked_sub(self.pieces.len()) {
            None => self.pieces.get(position).map(|it| &it.source),
            Some(message) => match &self.messages {
                SentMessages::Known { origins, .. } => origins.get(message),
                SentMessages::Assumed(_) => None,
            },
        }
    }

    /// Returns the text of the piece or message at a position, in the form used for comparison.
    pub(crate) fn text(&self, position: usize) -> Option<Cow<'_, str>> {
        match position.checked_sub(self.pieces.len()) {
            None => self.pieces.get(position).map(SentPiece::text),
            Some(message) => match &self.messages {
                SentMessages::Known { list, .. } => list.get(message).map(|it| message_text(it).into()),
                SentMessages::Assumed(_) => None,
            },
        }
    }

    /// Returns the byte at which the piece or message at a position begins.
    pub(crate) fn start(&self, position: usize) -> usize {
        let n_pieces = position.min(self.pieces.len());
        let texts: usize = self.pieces[..n_pieces].iter().map(|it| it.text().len()).sum();
        // Pieces of the system message are joined by a separator, but none follows the last one.
        let n_system = n_pieces.saturating_sub(self.n_tools);
        let is_inside = position < self.pieces.len();
        let n_joints = if is_inside { n_system } else { n_system.saturating_sub(1) };
        let before = match &self.messages {
            SentMessages::Known { list, .. } => &list[..(position - n_pieces).min(list.len())],
            SentMessages::Assumed(_) => &[],
        };
        texts + n_joints * SEPARATOR.len() + before.iter().map(|it| message_len(it)).sum::<usize>()
    }
}

impl SentPiece {
    fn text(&self) -> Cow<'_, str> {
        match &self.text {
            // Plain data with string keys always serializes.
            SentText::Tool(tool) => serde_json::to_string(&**tool).unwrap_or_default().into(),
            SentText::System(system, bytes) => {
                system.as_text().and_then(|it| it.get(bytes.clone())).unwrap_or_default().into()
            }
            SentText::Kept(text) => text.as_str().into(),
        }
    }

    fn is_same(&self, other: &SentPiece) -> bool {
        match (&self.text, &other.text) {
            (SentText::Tool(a), SentText::Tool(b)) => is_same_tool(a, b),
            _ => self.text() == other.text(),
        }
    }
}

/// Returns a message in the form used for comparison.
fn message_text(message: &Message) -> String {
    let content = serde_json::to_string(&message.content).unwrap_or_default();
    format!("{} {content}", message.role.as_str())
}

/// Returns the length of [`message_text`].
fn message_len(message: &Message) -> usize {
    let mut length = Length(message.role.as_str().len() + 1);
    // The writer only counts, so it cannot fail.
    let _ = serde_json::to_writer(&mut length, &message.content);
    length.0
}

/// A writer that counts the bytes written to it.
struct Length(usize);

impl io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The stored form of a request.
#[derive(Serialize, Deserialize)]
struct Kept {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tools: Vec<KeptPiece>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    system: Vec<KeptPiece>,
    messages: usize,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unreported: bool,
}

#[derive(Serialize, Deserialize)]
struct KeptPiece {
    source: String,
    text: String,
    tokens: Tokens,
}

impl From<Sent> for Kept {
    fn from(sent: Sent) -> Self {
        let kept = |it: &SentPiece| KeptPiece {
            source: it.source.to_string(),
            text: it.text().into_owned(),
            tokens: it.tokens,
        };
        let (tools, system) = sent.pieces.split_at(sent.n_tools);
        Self {
            tools: tools.iter().map(kept).collect(),
            system: system.iter().map(kept).collect(),
            messages: sent.n_messages(),
            model: sent.model,
            unreported: sent.is_unreported,
        }
    }
}

impl From<Kept> for Sent {
    fn from(kept: Kept) -> Self {
        let piece = |it: KeptPiece| SentPiece {
            source: Source::Noted(it.source.into()),
            text: SentText::Kept(it.text),
            tokens: it.tokens,
        };
        Self {
            model: kept.model,
            n_tools: kept.tools.len(),
            pieces: kept.tools.into_iter().chain(kept.system).map(piece).collect(),
            messages: SentMessages::Assumed(kept.messages),
            is_unreported: kept.unreported,
            digests: OnceLock::new(),
        }
    }
}
