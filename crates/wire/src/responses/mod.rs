//! OpenAI Responses.
//!
//! - `encode`: a request as it is sent. `decode`: a request of another program.
//! - `reasoning`: thinking as the item that the provider made, and back.
//! - `answer`: answers that come in one piece. `stream`: answers that come in many; `emit` writes those.
//!
//! Nothing is kept at the provider: `store` is false, so thinking comes along encrypted and is sent back with the next
//! request. OpenAI finds cacheable prefixes by itself, so breakpoints are not sent; nothing the author wrote is lost by
//! that.

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
