//! Encodes and decodes Anthropic Messages.
//!
//! Covers requests, answers and streams of <https://api.anthropic.com/v1/messages>. How this dialect differs from our
//! data:
//!
//! - The leading system messages become `system`; a later one becomes a user message in the same position.
//! - Consecutive messages from users and tools become one user message, results first; consecutive assistant messages
//!   are joined too.
//! - A tool call's arguments must be an object; other values are wrapped as `{"input": …}`.
//! - Ids consist of letters, digits, `_` and `-`; others are mapped, in the same way for a call and its result.
//! - Evidence becomes `search_result` blocks; the citations of an answer are sent back to the provider that made them.
//! - Thinking is sent back byte for byte, and only to the provider that produced and signed it.
//!
//! `decode(encode(request))` returns an equal request, except for [`Loss`](crate::Loss)es and the following: joined
//! messages stay joined, message ids and the media types of URLs are dropped, structured tool outputs come back as
//! their JSON text, denials as errors, an effort as its budget, and an unset limit as the one that was sent. Text
//! that was split for a cache mark is joined again in the system message only, and a mark on thinking comes back at
//! the block it was moved to.

mod answer;
mod citations;
mod decode;
mod decode_parts;
mod decode_stream;
mod encode;
mod encode_parts;
mod encode_stream;
mod marks;
mod schema;
mod settings;
mod tools;
mod turns;
mod usage;

pub(crate) use answer::{decode_answer, encode_answer};
pub(crate) use decode::decode_request;
pub(crate) use decode_stream::StreamDecoder;
pub(crate) use encode::encode_request;
pub(crate) use encode_stream::StreamEncoder;
