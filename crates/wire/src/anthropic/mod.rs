//! Anthropic Messages, both ways.
//!
//! Requests, answers and streams as <https://api.anthropic.com/v1/messages> reads and writes them. What the dialect can't
//! say and how it is said instead:
//!
//! - The leading system messages are `system`; a later one is said by the user, in its place.
//! - What users and tools say in a row is one user message, results first; the assistant's messages in a row are one.
//! - A tool call's arguments are an object; others are wrapped as `{"input": …}`.
//! - Ids have letters, digits, `_` and `-`; others are mapped, a call's and its result's alike.
//! - Thinking goes back to the provider that made and signed it, byte for byte, and to no other.
//!
//! What comes back equal from `decode(encode(request))` without a [`Loss`](crate::Loss), and what does not: messages that
//! were joined stay joined, the ids of messages and the media types of addresses are not carried, structured tool
//! outputs come back as their JSON text, denials as errors, an effort as its budget, a limit that was not set as the one
//! that was sent. A text that was cut for a cache mark is joined again in the system message only, and a mark that stood
//! on thinking comes back where it was moved to.

mod answer;
mod blocks;
mod decode;
mod encode;
mod marks;
mod schema;
mod settings;
mod stream;
mod unstream;

pub(crate) use answer::{decode_answer, encode_answer};
pub(crate) use decode::decode_request;
pub(crate) use encode::encode_request;
pub(crate) use stream::StreamEncoder;
pub(crate) use unstream::StreamDecoder;
