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
mod audit;
mod background;
mod body;
mod caller;
mod chat;
mod control;
mod event_log;
mod event_writer;
mod flows;
mod gate;
mod input;
mod layers;
mod listen;
mod loaded_project;
mod lost_turns;
mod metrics;
mod openapi;
mod passes;
mod problem;
mod readiness;
mod recent_events;
mod request_log;
mod routes;
mod running_turns;
mod subscribers;
mod trace;
mod watch;

pub use app::{App, Parts, Server};
pub use audit::{AuditEntry, AuditEvent, audit_log};
pub use caller::Caller;
pub use chat::in_openai_shape;
pub use gate::{Key, Keys, NewKey, Token};
pub use listen::{ListenError, Listener};
pub use loaded_project::{AgentMaker, LoadedProject};
pub use openapi::openapi;
pub use problem::Problem;
