//! Encodes and decodes OpenAI Responses.
//!
//! Nothing is stored at the provider: `store` is false, so thinking arrives encrypted and is sent back with the next
//! request. OpenAI detects cacheable prefixes itself, so breakpoints are not sent; this does not count as a loss.

mod answer;
mod decode;
mod decode_parts;
mod decode_stream;
mod encode;
mod encode_parts;
mod encode_stream;
mod reasoning;
mod settings;
mod tools;
mod usage;

pub(crate) use answer::{decode_answer, encode_answer};
pub(crate) use decode::decode_request;
pub(crate) use decode_stream::StreamDecoder;
pub(crate) use encode::encode_request;
pub(crate) use encode_stream::StreamEncoder;
