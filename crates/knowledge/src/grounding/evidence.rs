//! What an answer may cite: the evidence that was sent, and what was found but not sent.

use contexture_compose::{Body, Pass, Segment, Source};
use contexture_message::{Evidence, Message, Part, ToolOutput};

/// The evidence of one pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnownEvidence {
    /// What the model read.
    pub sent: Vec<SentEvidence>,
    /// The ids of chunks that were found but not sent.
    pub dropped: Vec<String>,
}

/// A chunk that the model read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SentEvidence {
    /// The id of the chunk, such as `handbook:12`.
    pub chunk: String,
    /// The document that the chunk comes from.
    pub source: String,
    /// The text as it was sent.
    pub text: String,
    /// The whole text of the chunk, if it was shortened and is known.
    pub whole: Option<String>,
}

impl SentEvidence {
    /// Returns evidence that was sent whole.
    pub fn new(chunk: impl Into<String>, source: impl Into<String>, text: impl Into<String>) -> Self {
        Self { chunk: chunk.into(), source: source.into(), text: text.into(), whole: None }
    }
}

impl KnownEvidence {
    /// Collects the evidence of a pass: that in the messages of its request, and Segments of knowledge bases.
    ///
    /// A Segment that does not fit the budget counts as dropped, one that was shortened counts with the text that was
    /// sent. Pass the whole texts to [`with_whole`](KnownEvidence::with_whole) to tell what was cut off from what was
    /// made up.
    pub fn of(pass: &Pass) -> Self {
        let mut known = Self::default();
        for segment in pass.segments() {
            known.segment(segment);
        }
        for message in &pass.request().messages {
            evidence_in(message).for_each(|it| known.add(sent(it)));
        }
        let Self { sent, dropped } = &mut known;
        dropped.retain(|id| !sent.iter().any(|it| it.chunk == *id));
        known
    }

    fn segment(&mut self, segment: &Segment) {
        let id = match &segment.source {
            Source::Knowledge { base, chunk } => Some(format!("{base}:{chunk}")),
            _ => None,
        };
        match (&segment.body, id) {
            (Body::Text(text), Some(id)) if segment.fate.is_sent() => {
                self.add(SentEvidence::new(&id, segment.source.to_string(), text.as_str()));
            }
            (_, Some(id)) if !segment.fate.is_sent() => self.dropped.push(id),
            (Body::Messages(messages), _) if !segment.fate.is_sent() => {
                let chunks = messages.iter().flat_map(|it| evidence_in(it)).map(|it| it.chunk.clone());
                self.dropped.extend(chunks);
            }
            (Body::Nothing | Body::Text(_) | Body::Tags(_) | Body::Messages(_) | Body::Tool(_), _) => {}
        }
    }

    /// Adds what was sent. A chunk that was sent twice counts with both texts.
    fn add(&mut self, more: SentEvidence) {
        match self.sent.iter_mut().find(|it| it.chunk == more.chunk) {
            Some(known) if known.text == more.text => {}
            Some(known) => known.text = format!("{}\n{}", known.text, more.text),
            None => self.sent.push(more),
        }
    }

    /// Adds the whole texts of chunks, by id. One that equals what was sent changes nothing.
    #[must_use]
    pub fn with_whole(mut self, whole: impl Fn(&str) -> Option<String>) -> Self {
        for it in &mut self.sent {
            it.whole = whole(&it.chunk).filter(|whole| *whole != it.text);
        }
        self
    }

    /// Returns the evidence with that id, if it was sent.
    pub fn find(&self, chunk: &str) -> Option<&SentEvidence> {
        self.sent.iter().find(|it| it.chunk == chunk)
    }
}

fn sent(evidence: &Evidence) -> SentEvidence {
    SentEvidence::new(&evidence.chunk, &evidence.source, evidence.joined_text())
}

/// Returns the evidence in a message, also that in tool results.
fn evidence_in(message: &Message) -> impl Iterator<Item = &Evidence> {
    message
        .content
        .iter()
        .flat_map(|part| match part {
            Part::ToolResult(result) => match &result.output {
                ToolOutput::Content(parts) => parts.as_slice(),
                ToolOutput::Text(_)
                | ToolOutput::Json(_)
                | ToolOutput::ExecutionDenied { .. }
                | ToolOutput::ErrorText(_)
                | ToolOutput::ErrorJson(_) => &[],
            },
            part => std::slice::from_ref(part),
        })
        .filter_map(|part| match part {
            Part::Evidence(evidence) => Some(evidence),
            Part::Text { .. }
            | Part::Image(_)
            | Part::File(_)
            | Part::Thinking(_)
            | Part::ToolCall(_)
            | Part::ToolResult(_) => None,
        })
}
