//! Google Gemini's generateContent, both ways.
//!
//! Requests, answers and streams as the REST interface reads and writes them. What the dialect can't say and how it is
//! said instead:
//!
//! - The leading system messages are `systemInstruction`; a later one is said by the user, in its place.
//! - What users and tools say in a row is one content, results first; the model's messages in a row are one.
//! - Gemini signs parts, not thoughts. Here a signature is a thinking part without text directly before the part that it
//!   belongs to. It goes back to the provider that made it, and to no other.
//! - Calls may come without ids. In a request they are `call_0`, `call_1` and so on, in an answer they are made of its
//!   `responseId`, so that they differ from those of earlier answers; without one, of its content.
//! - Caching needs no marks: breakpoints are ignored.
//!
//! What comes back equal from `decode(encode(request))` without a [`Loss`](crate::Loss), and what does not: messages that
//! were joined stay joined, the ids of messages are not carried, a structured output that is a string comes back as text,
//! texts of a tool's content are joined, an effort comes back as its budget, an address without a type as a file.

mod answer;
mod decode;
mod encode;
mod parts;
mod settings;
mod stream;
mod unstream;

pub(crate) use answer::{decode_answer, encode_answer};
pub(crate) use decode::decode_request;
pub(crate) use encode::encode_request;
pub(crate) use stream::StreamEncoder;
pub(crate) use unstream::StreamDecoder;
