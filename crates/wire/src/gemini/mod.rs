//! Encodes and decodes Google Gemini's generateContent.
//!
//! Covers requests, answers and streams of the REST API. How this dialect differs from our data:
//!
//! - The leading system messages become `systemInstruction`; a later one becomes a user message in the same position.
//! - Consecutive messages from users and tools become one content, results first; consecutive model messages are
//!   joined too.
//! - Gemini signs parts, not thoughts. We store a signature as a thinking part without text, directly before the part
//!   that it belongs to. It is only sent back to the provider that produced it.
//! - Calls may lack ids. In a request they become `call_0`, `call_1` and so on. In an answer they are derived from
//!   its `responseId`, or from its content if there is none, so that they differ from those of earlier answers.
//! - Caching needs no marks: breakpoints are ignored.
//!
//! `decode(encode(request))` returns an equal request, except for [`Loss`](crate::Loss)es and the following: joined
//! messages stay joined, message ids are dropped, a structured output that is a string comes back as text, the texts
//! of a tool's content are joined, an effort comes back as its budget, and a URL without a media type comes back as a
//! file.

mod answer;
mod citations;
mod decode;
mod decode_parts;
mod decode_stream;
mod encode;
mod encode_parts;
mod encode_stream;
mod settings;
mod tools;
mod usage;

pub(crate) use answer::{decode_answer, encode_answer};
pub(crate) use decode::decode_request;
pub(crate) use decode_stream::StreamDecoder;
pub(crate) use encode::encode_request;
pub(crate) use encode_stream::StreamEncoder;
