//! Reads a stream of server-sent events.

use std::error::Error;

use reqwest::Response;

/// One event: its id, and the document it carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) id: String,
    pub(super) event: String,
    pub(super) data: String,
}

/// The events of an answer.
#[derive(Debug)]
pub(super) struct Frames {
    answer: Response,
    text: Vec<u8>,
}

impl Frames {
    pub(super) fn new(answer: Response) -> Self {
        Self { answer, text: Vec::new() }
    }

    /// Returns the next event, or nothing at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Frame>, Box<dyn Error + Send + Sync>> {
        loop {
            if let Some(end) = self.text.windows(2).position(|it| it == b"\n\n") {
                let text: Vec<u8> = self.text.drain(..end + 2).collect();
                if let Some(frame) = frame(std::str::from_utf8(&text)?) {
                    return Ok(Some(frame));
                }
                continue;
            }
            match self.answer.chunk().await? {
                Some(chunk) => self.text.extend_from_slice(&chunk),
                None if self.text.is_empty() => return Ok(None),
                None => return Err("a stream ends in the middle of an event".into()),
            }
        }
    }
}

/// Parses an event; returns `None` for a keep-alive comment.
fn frame(text: &str) -> Option<Frame> {
    let field = |name: &str| text.lines().find_map(|it| it.strip_prefix(name));
    let (id, event, data) = (field("id: ")?, field("event: ")?, field("data: ")?);
    Some(Frame { id: id.to_owned(), event: event.to_owned(), data: data.to_owned() })
}
