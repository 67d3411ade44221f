//! Encodes and decodes OpenAI Responses.
//!
//! - `encode` and `decode`: requests.
//! - `reasoning`: thinking as the provider's `reasoning` items.
//! - `answer`: answers that are not streamed. `stream` decodes streamed answers, `emit` encodes them.
//!
//! Nothing is stored at the provider: `store` is false, so thinking arrives encrypted and is sent back with the next
//! request. OpenAI detects cacheable prefixes itself, so breakpoints are not sent; this does not count as a loss.

mod answer;
mod decode;
mod emit;
mod encode;
mod reasoning;
mod stream;

pub(crate) use answer::{decode_answer, encode_answer};
pub(crate) use decode::decode_request;
pub(crate) use emit::StreamEncoder;
pub(crate) use encode::encode_request;
pub(crate) use stream::StreamDecoder;
