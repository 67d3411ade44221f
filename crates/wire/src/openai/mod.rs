//! Encodes and decodes OpenAI Chat Completions, also used by Ollama, vLLM, llama.cpp, LM Studio, OpenRouter and
//! others.
//!
//! - `encode` and `decode`: requests.
//! - `answer`: answers that are not streamed. `stream`: streamed answers.
//! - `limits`, `output`, `shown`, `strict`: code shared with OpenAI Responses.
//!
//! OpenAI detects cacheable prefixes itself, so breakpoints are not sent; this does not count as a loss.

mod answer;
pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod limits;
pub(crate) mod output;
pub(crate) mod shown;
mod stream;
pub(crate) mod strict;

pub(crate) use answer::{decode_answer, encode_answer};
pub(crate) use decode::decode_request;
pub(crate) use encode::encode_request;
pub(crate) use stream::{StreamDecoder, StreamEncoder, pieces};
