//! Provider dialects: encodes and decodes the requests, answers and streams of each provider.
//!
//! A [`Target`] names the provider and model. [`encode_request`] turns a [`Request`] into the JSON of the target's
//! dialect and lists what the dialect cannot represent as [`Loss`]es; [`StreamDecoder`] turns the frames of a
//! streamed answer into [`Delta`]s. The [`Catalogue`] holds the known facts about models.
//!
//! Each dialect is a folder with the same files: `encode` and `decode` for requests, `answer` for answers that are not
//! streamed, `encode_stream` and `decode_stream` for those that are; below them `encode_parts`, `decode_parts`,
//! `tools`, `settings` and `usage`.
//!
//! This crate uses no HTTP, clock or environment. The same request gives the same bytes.

mod anthropic;
mod assembly;
mod calls;
mod catalogue;
mod citations;
mod dialect;
mod digest;
mod error;
mod gemini;
mod loss;
mod media;
mod openai;
mod passthrough;
mod read;
mod reference;
mod responses;

use contexture_message::{Answer, Delta, Message, Request};
use serde_json::Value;

pub use catalogue::{ASSUMED_WINDOW, Capabilities, Catalogue, ModelFacts};
pub use dialect::{Dialect, Target};
pub use error::{DecodeError, ProviderError, ProviderErrorKind, classify, failure};
pub use loss::{Decoded, Encoded, Loss};

/// Encodes a request in the dialect of its target. Never fails: what the dialect cannot represent is listed as a
/// loss.
pub fn encode_request(target: &Target, request: &Request) -> Encoded {
    match target.dialect {
        Dialect::Openai => openai::encode_request(target, request),
        Dialect::OpenaiResponses => responses::encode_request(target, request),
        Dialect::Anthropic => anthropic::encode_request(target, request),
        Dialect::Gemini => gemini::encode_request(target, request),
    }
}

/// Decodes a request in the dialect of `target`, such as one from another program's SDK.
pub fn decode_request(target: &Target, body: &Value) -> Result<Decoded<Request>, DecodeError> {
    match target.dialect {
        Dialect::Openai => openai::decode_request(target, body),
        Dialect::OpenaiResponses => responses::decode_request(target, body),
        Dialect::Anthropic => anthropic::decode_request(target, body),
        Dialect::Gemini => gemini::decode_request(target, body),
    }
}

/// Encodes an answer in the provider's format.
pub fn encode_answer(target: &Target, answer: &Answer) -> Encoded {
    match target.dialect {
        Dialect::Openai => openai::encode_answer(target, answer),
        Dialect::OpenaiResponses => responses::encode_answer(target, answer),
        Dialect::Anthropic => anthropic::encode_answer(target, answer),
        Dialect::Gemini => gemini::encode_answer(target, answer),
    }
}

/// Decodes an answer that was not streamed.
pub fn decode_answer(target: &Target, body: &Value) -> Result<Decoded<Answer>, DecodeError> {
    match target.dialect {
        Dialect::Openai => openai::decode_answer(target, body),
        Dialect::OpenaiResponses => responses::decode_answer(target, body),
        Dialect::Anthropic => anthropic::decode_answer(target, body),
        Dialect::Gemini => gemini::decode_answer(target, body),
    }
}

/// A server-sent event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The event's name, if it has one.
    pub event: Option<String>,
    /// The event's data.
    pub data: String,
}

impl Frame {
    /// Returns a frame without a name.
    pub fn data(data: impl Into<String>) -> Self {
        Self { event: None, data: data.into() }
    }

    /// Formats the frame for an event stream.
    pub fn to_sse(&self) -> String {
        let event = self.event.as_ref().map(|it| format!("event: {it}\n")).unwrap_or_default();
        let data: String = self.data.lines().map(|it| format!("data: {it}\n")).collect();
        format!("{event}{data}\n")
    }
}

/// The reason why a stream failed.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The provider reported an error.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// A frame could not be decoded, or the stream ended early.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
}

/// Decodes a streamed answer, frame by frame.
#[derive(Debug)]
pub struct StreamDecoder(Decoder);

#[derive(Debug)]
enum Decoder {
    Openai(openai::StreamDecoder),
    Responses(responses::StreamDecoder),
    Anthropic(anthropic::StreamDecoder),
    Gemini(gemini::StreamDecoder),
}

impl StreamDecoder {
    /// Returns a decoder for one answer from `target`.
    pub fn new(target: &Target) -> Self {
        Self(match target.dialect {
            Dialect::Openai => Decoder::Openai(openai::StreamDecoder::new(target)),
            Dialect::OpenaiResponses => Decoder::Responses(responses::StreamDecoder::new(target)),
            Dialect::Anthropic => Decoder::Anthropic(anthropic::StreamDecoder::new(target)),
            Dialect::Gemini => Decoder::Gemini(gemini::StreamDecoder::new(target)),
        })
    }

    /// Decodes the next frame. [`Delta::Done`] is returned exactly once, when the answer is complete.
    pub fn push(&mut self, frame: &Frame) -> Result<Vec<Delta>, StreamError> {
        match &mut self.0 {
            Decoder::Openai(it) => it.push(frame),
            Decoder::Responses(it) => it.push(frame),
            Decoder::Anthropic(it) => it.push(frame),
            Decoder::Gemini(it) => it.push(frame),
        }
    }

    /// Handles the end of the body. Returns [`Delta::Done`] if the answer is complete and `Done` has not been
    /// returned yet (some servers omit the end mark); fails if the stream was truncated.
    pub fn finish(&mut self) -> Result<Vec<Delta>, StreamError> {
        match &mut self.0 {
            Decoder::Openai(it) => it.finish(),
            Decoder::Responses(it) => it.finish(),
            Decoder::Anthropic(it) => it.finish(),
            Decoder::Gemini(it) => it.finish(),
        }
    }

    /// Returns what can be kept of the answer so far: text, media, signed thinking and complete tool calls.
    pub fn partial(&self) -> Message {
        match &self.0 {
            Decoder::Openai(it) => it.partial(),
            Decoder::Responses(it) => it.partial(),
            Decoder::Anthropic(it) => it.partial(),
            Decoder::Gemini(it) => it.partial(),
        }
    }
}

/// Encodes a streamed answer in the provider's format.
#[derive(Debug)]
pub struct StreamEncoder(Encoder);

#[derive(Debug)]
enum Encoder {
    Openai(openai::StreamEncoder),
    Responses(responses::StreamEncoder),
    Anthropic(anthropic::StreamEncoder),
    Gemini(gemini::StreamEncoder),
}

impl StreamEncoder {
    /// Returns an encoder for one answer from `target`.
    pub fn new(target: &Target) -> Self {
        Self(match target.dialect {
            Dialect::Openai => Encoder::Openai(openai::StreamEncoder::new(target)),
            Dialect::OpenaiResponses => Encoder::Responses(responses::StreamEncoder::new(target)),
            Dialect::Anthropic => Encoder::Anthropic(anthropic::StreamEncoder::new(target)),
            Dialect::Gemini => Encoder::Gemini(gemini::StreamEncoder::new(target)),
        })
    }

    /// Encodes the next delta; [`Delta::Done`] produces all frames that end the stream.
    pub fn push(&mut self, delta: &Delta) -> Vec<Frame> {
        match &mut self.0 {
            Encoder::Openai(it) => it.push(delta),
            Encoder::Responses(it) => it.push(delta),
            Encoder::Anthropic(it) => it.push(delta),
            Encoder::Gemini(it) => it.push(delta),
        }
    }
}
