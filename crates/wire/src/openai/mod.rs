//! OpenAI Chat Completions, and whoever speaks like it: Ollama, vLLM, llama.cpp, LM Studio, OpenRouter and others.
//!
//! - `encode`: a request as it is sent. `decode`: a request of another program.
//! - `answer`: answers that come in one piece. `stream`: answers that come in many.
//! - `limits`, `output`, `shown`, `strict`: what this dialect and OpenAI Responses say alike.
//!
//! OpenAI finds cacheable prefixes by itself, so breakpoints are not sent; nothing the author wrote is lost by that.

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
