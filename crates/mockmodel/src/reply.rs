//! The server's reply to one request.

use std::time::Duration;

use contexture_message::{Answer, Delta};
use contexture_wire::{Dialect, StreamEncoder, Target};
use serde_json::Value;

/// The server's reply to one request.
#[derive(Clone, Debug)]
pub struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Where the body is cut into pieces, in bytes from its beginning.
    pub(crate) cuts: Vec<usize>,
    pub(crate) first_wait: Duration,
    pub(crate) wait: Duration,
    pub(crate) end: End,
    pub(crate) framing: Framing,
}

/// What happens to the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The body is complete.
    Proper,
    /// After so many bytes of the body the connection is reset.
    Cut(usize),
    /// After so many bytes of the body nothing happens any more.
    Silence(usize),
    /// The connection is closed without a reply.
    NoAnswer,
    /// The connection stays open without a reply.
    Mute,
}

/// How the end of the body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Chunked,
    UntilClosed,
}

impl Reply {
    /// Returns an empty reply with that status.
    pub fn status(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Vec::new(),
            cuts: Vec::new(),
            first_wait: Duration::ZERO,
            wait: Duration::ZERO,
            end: End::Proper,
            framing: Framing::Chunked,
        }
    }

    /// Returns a streamed answer of a dialect.
    pub fn answer(dialect: Dialect, answer: &Answer) -> Self {
        Self::deltas(dialect, &answer.deltas())
    }

    /// Returns a stream of these pieces in a dialect; without [`Delta::Done`] it ends early.
    pub fn deltas(dialect: Dialect, deltas: &[Delta]) -> Self {
        let target = Target { stream: true, ..Target::new(dialect, "mock", "mock-1") };
        let mut encoder = StreamEncoder::new(&target);
        let frames = deltas.iter().flat_map(|it| encoder.push(it));
        Self::events(frames.map(|it| it.to_sse()).collect::<String>())
    }

    /// Returns an event stream of these bytes, such as recorded ones.
    pub fn events(bytes: impl Into<Vec<u8>>) -> Self {
        Self { body: bytes.into(), ..Self::status(200) }.header("content-type", "text/event-stream")
    }

    /// Returns a JSON document.
    pub fn json(status: u16, body: &Value) -> Self {
        Self { body: body.to_string().into(), ..Self::status(status) }
            .header("content-type", "application/json")
    }

    /// Closes the connection without a reply.
    pub fn no_answer() -> Self {
        Self { end: End::NoAnswer, ..Self::status(200) }
    }

    /// Never answers.
    pub fn mute() -> Self {
        Self { end: End::Mute, ..Self::status(200) }
    }

    /// Sets the body to a text.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.body = text.into().into_bytes();
        self
    }

    /// Sets the body to bytes.
    #[must_use]
    pub fn bytes(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.body = bytes.into();
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sends the body in pieces that end at these places.
    #[must_use]
    pub fn cut_into(mut self, cuts: impl IntoIterator<Item = usize>) -> Self {
        self.cuts = cuts.into_iter().collect();
        self.cuts.sort_unstable();
        self
    }

    /// Sends the body in pieces of that size.
    #[must_use]
    pub fn in_pieces_of(self, size: usize) -> Self {
        let cuts: Vec<usize> = (size..self.body.len()).step_by(size).collect();
        self.cut_into(cuts)
    }

    /// Sends each event of a stream as a separate piece.
    #[must_use]
    pub fn event_by_event(self) -> Self {
        let ends = self.body.windows(2).enumerate().filter(|(_, it)| it == b"\n\n");
        let cuts: Vec<usize> = ends.map(|(at, _)| at + 2).collect();
        self.cut_into(cuts)
    }

    /// Waits before anything is sent.
    #[must_use]
    pub fn after(mut self, wait: Duration) -> Self {
        self.first_wait = wait;
        self
    }

    /// Waits between the pieces.
    #[must_use]
    pub fn every(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Resets the connection after so many bytes of the body.
    #[must_use]
    pub fn then_cut(mut self, bytes: usize) -> Self {
        self.end = End::Cut(bytes);
        self
    }

    /// Falls silent after so many bytes of the body.
    #[must_use]
    pub fn then_silence(mut self, bytes: usize) -> Self {
        self.end = End::Silence(bytes);
        self
    }

    /// Sends no length: the body ends where the connection does.
    #[must_use]
    pub fn until_closed(mut self) -> Self {
        self.framing = Framing::UntilClosed;
        self
    }

    /// Returns the place after the first occurrence of `text` in the body.
    pub fn place_after(&self, text: &str) -> usize {
        let found = self.body.windows(text.len()).position(|it| it == text.as_bytes());
        found.expect("the text is in the body") + text.len()
    }

    /// Returns the body.
    pub fn body(&self) -> &[u8] {
        &self.body
    }
}
