//! The HTTP server of Contexture.
//!
//! [`Server`] turns a [`Project`](contexture_project::Project), an agent and a store into an [`axum::Router`]. It is
//! stateless apart from its leases, so several servers on one store behave as one. The path of a request:
//!
//! ```text
//! limits ─▶ who calls (Caller) ─▶ route ─┬─▶ sessions, threads, passes …: read or write the store, answer
//!                                        ├─▶ turns: RunningTurns drives the agent ─▶ its thread's log ─▶ Follow ─▶ SSE
//!                                        └─▶ flows: Drivers drives runs ─▶ their logs ─▶ Follow ─▶ SSE
//! ```
//!
//! A turn belongs to the server, not to the connection that requested it. Its events are a view of the log
//! (`events::follower`), and its text is told before it is written (`events::live`), so a client can continue after any
//! event, on any instance. Nothing here reads the environment; time, names and secrets are passed in.
//!
//! Modules use only those above them:
//!
//! ```text
//! http                       callers, input, problems; how bodies, parameters and refusals are documented
//! lock · tasks               mutexes · tasks that the end of the server waits for
//! events · loaded_project    the events of sessions · the project and its agent
//! ops · passes               audit log, metrics, readiness, traces · requests to models, stored
//! gate · running_turns · flows   keys and limits · turns and runs that this instance drives
//! app                        the state shared by all requests, and what a request may reach of it
//! layers · background        middleware · tasks: lost turns, pruning, reloading
//! routes                     one module for each noun; `chat` is for OpenAI's clients, `openapi` the document
//! server · listen            the server as a whole · connections
//! ```

mod app;
mod background;
mod bases_to_do;
mod events;
mod flows;
mod gate;
mod http;
mod layers;
mod listen;
mod loaded_project;
mod lock;
mod ops;
mod passes;
mod routes;
mod running_turns;
mod server;
mod tasks;
mod tenant_blocks;

pub use gate::{Key, Keys, NewKey, Token};
pub use http::caller::Caller;
use http::problem::JsonResult;
pub use http::problem::Problem;
pub use listen::{ListenError, Listener};
pub use loaded_project::{AgentMaker, LoadedProject};
pub use ops::audit::{AuditEntry, AuditEvent, audit_log};
pub use routes::chat::in_openai_shape;
pub use routes::openapi::openapi;
pub use server::{Parts, Server};
