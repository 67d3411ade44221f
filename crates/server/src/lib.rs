//! The HTTP server of Contexture.
//!
//! [`Server`] turns a [`Project`](contexture_project::Project), an agent and a store into an [`axum::Router`]. It is
//! stateless apart from its leases, so several servers on one store behave as one. The path of a request:
//!
//! ```text
//! limits ─▶ who calls (Caller) ─▶ route ─┬─▶ sessions, threads, passes …: read or write the store, answer
//!                                        ├─▶ turns: RunningTurns drives the agent ─▶ events ─▶ EventWriter ─▶ store ─▶ SSE
//!                                        └─▶ flows: Drivers drives runs ─▶ their logs in the store ─▶ SSE
//! ```
//!
//! A turn belongs to the server, not to the connection that requested it. All its events go through the
//! `event_writer`, which commits them to the store before they are published, so a client can continue
//! after any event, on any instance. Nothing here reads the environment; time, names and secrets are passed in.

mod app;
mod background;
mod events;
mod flows;
mod gate;
mod http;
mod layers;
mod listen;
mod loaded_project;
mod ops;
mod passes;
mod routes;
mod running_turns;
mod server;

pub use app::App;
pub use gate::{Key, Keys, NewKey, Token};
pub use http::caller::Caller;
pub use http::problem::Problem;
pub use listen::{ListenError, Listener};
pub use loaded_project::{AgentMaker, LoadedProject};
pub use ops::audit::{AuditEntry, AuditEvent, audit_log};
pub use routes::chat::in_openai_shape;
pub use routes::openapi::openapi;
pub use server::{Parts, Server};
