//! An endpoint for OpenAI's clients: `POST /v1/chat/completions` and `GET /v1/models`.
//!
//! Such a client keeps the conversation itself and sends all of it each time. The server keeps it too, windows and
//! compacts it; so the request is aligned with the stored thread, and only new messages are appended. The path of a
//! request:
//!
//! ```text
//! request ─▶ which model or prompt ─▶ which session ─▶ recognise ─▶ locate (continue, branch, import) ─▶ run ─▶ answer, stream
//! ```
//!
//! While a turn runs on the thread that a request continues, the request waits, and is recognised again after it. The
//! same happens if another request was faster to begin a turn.
//!
//! Without a session the same path runs on a store in memory that is thrown away.

mod answer;
mod documents;
mod errors;
mod handler;
mod locate;
mod models;
mod recognise;
mod request;
mod stored_thread;
mod stream;
#[cfg(test)]
mod tests;

pub(crate) use errors::ChatError;
pub use errors::in_openai_shape;
pub(crate) use handler::*;
pub(crate) use models::*;
