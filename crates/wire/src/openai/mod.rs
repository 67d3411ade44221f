//! Encodes and decodes OpenAI Chat Completions, also used by Ollama, vLLM, llama.cpp, LM Studio, OpenRouter and
//! others.
//!
//! OpenAI Responses shares much of `settings`, `tools`, `schema` and the parts.
//!
//! OpenAI detects cacheable prefixes itself, so breakpoints are not sent; this does not count as a loss.

mod answer;
pub(crate) mod citations;
mod decode;
pub(crate) mod decode_parts;
mod decode_stream;
mod encode;
pub(crate) mod encode_parts;
pub(crate) mod encode_stream;
pub(crate) mod schema;
pub(crate) mod settings;
mod text_chunk;
pub(crate) mod tools;
mod usage;

pub(crate) use answer::{decode_answer, encode_answer};
pub(crate) use decode::decode_request;
pub(crate) use decode_stream::StreamDecoder;
pub(crate) use encode::encode_request;
pub(crate) use encode_stream::StreamEncoder;
