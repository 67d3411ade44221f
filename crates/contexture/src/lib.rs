//! A context engine for LLM applications and agents.
//!
//! Contexture decides what a model sees: instructions, contexts, tools, history and the user's turn, composed
//! under one token budget, in an order that keeps provider prompt caches warm, and explained down to the last
//! token. This crate is the library's front door; everything an application needs is re-exported here, and
//! [`prelude`] has the names that most programs use.
//!
//! # A prompt with typed input and output
//!
//! ```
//! use contexture::prelude::*;
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize, JsonSchema)]
//! struct Ticket {
//!     plan: String,
//!     locale: String,
//!     question: String,
//! }
//!
//! #[derive(Serialize, Deserialize, JsonSchema)]
//! struct Answer {
//!     text: String,
//!     confident: bool,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let prompt = Prompt::builder("support")
//!     .input::<Ticket>()
//!     .output::<Answer>()
//!     .system("You answer questions about invoices.")
//!     .include(Context::text("refunds", "Refunds take five working days.").priority(80))
//!     .include_when(|it| it.plan != "free", Context::text("phone", "Offer a call."))
//!     .include_match(|it| it.locale.clone(), |cases| {
//!         cases
//!             .case("de", Context::text("german", "Antworte auf Deutsch."))
//!             .default_case(Context::text("english", "Answer in English."))
//!     })
//!     .user_with(|it| it.question.clone())
//!     .token_budget(4_000)
//!     .build()?; // Ids, input keys, tool names and nesting are checked here, once.
//!
//! let ticket = Ticket { plan: "free".into(), locale: "de".into(), question: "Wo ist mein Geld?".into() };
//! let pass = prompt.resolve(ResolveOptions::for_input(&ticket)?.model("openai/gpt-5-mini")).await?;
//!
//! assert_eq!(
//!     pass.system(),
//!     Some("You answer questions about invoices.\n\nRefunds take five working days.\n\nAntworte auf Deutsch.")
//! );
//! let why = pass.explain();
//! assert_eq!(why.excluded[0].source, "context:phone");
//! assert_eq!(why.excluded[0].reason, "when() predicate returned false");
//! # Ok(())
//! # }
//! ```
//!
//! # A contributor that awaits something
//!
//! ```
//! use contexture::compose::OnError;
//! use contexture::prelude::*;
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! async fn fetch_status(_order: &str) -> Result<String, BoxError> {
//!     Ok("shipped".to_owned()) // A database, a service, …
//! }
//!
//! let status = contributor("order-status", |call| async move {
//!     let order = call.input.value()["order"].as_str().unwrap_or_default().to_owned();
//!     Ok(Contribution::text(format!("Order {order} is {}.", fetch_status(&order).await?)))
//! })
//! .deadline(Duration::from_secs(2))
//! .on_error(OnError::Skip); // The pass goes on without it, with the reason on record.
//!
//! let prompt = Prompt::builder("orders").system("You track orders.").include(status).build()?;
//! let options = ResolveOptions::new(serde_json::json!({"order": "A-7"})).engine(&contexture::engine());
//! let pass = prompt.resolve(options).await?;
//! assert!(pass.request().messages[0].as_text().is_some_and(|it| it.ends_with("Order A-7 is shipped.")));
//! # Ok(())
//! # }
//! ```
//!
//! # A budget
//!
//! ```
//! use contexture::prelude::*;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let prompt = Prompt::builder("brief")
//!     .system("Be brief.")
//!     .include(Context::text("background", "A long story. ".repeat(200)).priority(10))
//!     .include(Context::text("facts", "The invoice is due on Friday.").priority(90))
//!     .token_budget(40)
//!     .build()?;
//! let why = prompt.resolve(ResolveOptions::default()).await?.explain();
//! assert_eq!(why.dropped[0].source, "context:background");
//! assert!(why.budget.used.0 <= 40 && why.counter.exact);
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `http` (default) | models, agents and sessions: `Client`, `agent`, `generate` |
//! | `sqlite` (default) | sessions in an SQLite file |
//! | `knowledge` (default) | knowledge bases: `retriever`, `pipeline` and `grounding` entries |
//! | `postgres` | sessions in PostgreSQL |
//! | `flow` | graphs of steps that survive their process: `flow_runtime` |
//! | `project` | prompts and flows as files: `Project` |
//!
//! Without any, the crate composes requests and explains them, and sends nothing.

#[cfg(feature = "http")]
mod agents;
#[cfg(feature = "knowledge")]
mod ask;
#[cfg(feature = "http")]
mod clock;
#[cfg(feature = "project")]
mod flows;
#[cfg(feature = "http")]
mod generate;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "http")]
mod pass_diff;
#[cfg(feature = "http")]
mod secrets;
#[cfg(feature = "http")]
mod sessions;
#[cfg(feature = "http")]
mod threads;

#[cfg(feature = "http")]
pub use agents::agent;
#[cfg(feature = "knowledge")]
pub use ask::AskClient;
#[cfg(feature = "http")]
pub use clock::{SystemClock, engine};
#[cfg(feature = "http")]
pub use contexture_agent as agent;
#[cfg(feature = "knowledge")]
pub use contexture_capabilities as capabilities;
pub use contexture_compose as compose;
#[cfg(feature = "flow")]
pub use contexture_flow as flow;
pub use contexture_history as history;
#[cfg(feature = "knowledge")]
pub use contexture_knowledge as knowledge;
pub use contexture_message as message;
#[cfg(feature = "http")]
pub use contexture_model as model;
#[cfg(feature = "project")]
pub use contexture_project as project;
#[cfg(feature = "project")]
pub use contexture_project::workspace_snapshot;
#[cfg(feature = "http")]
pub use contexture_session as session;
#[cfg(feature = "postgres")]
pub use contexture_store_postgres as store_postgres;
#[cfg(feature = "sqlite")]
pub use contexture_store_sqlite as store_sqlite;
pub use contexture_template as template;
#[cfg(feature = "http")]
pub use contexture_wire as wire;
#[cfg(feature = "project")]
pub use flows::{ProjectLibrary, flow_runtime};
#[cfg(feature = "http")]
pub use generate::{Generate, Generation};
#[cfg(feature = "http")]
pub use http::SystemHttp;
#[cfg(feature = "http")]
pub use pass_diff::{DiffLine, FieldChange, PassDiff, PassDocument, TextChange};
#[cfg(feature = "http")]
pub use secrets::SystemSecrets;
#[cfg(feature = "http")]
pub use sessions::{SystemNames, SystemTime, session_ports, sessions, sessions_in_memory};
#[cfg(feature = "http")]
pub use threads::SystemThreads;
/// The crates whose types appear in the API.
pub use {schemars, serde_json};

/// The Rust blocks of the documentation, compiled as they are printed.
#[cfg(all(doctest, feature = "sqlite"))]
mod docs {
    #[doc = include_str!("../../../README.md")]
    mod readme {}
    #[doc = include_str!("../../../docs/agents.md")]
    mod agents {}
    #[doc = include_str!("../../../docs/blocks.md")]
    mod blocks {}
    #[doc = include_str!("../../../docs/capabilities.md")]
    mod capabilities {}
    #[cfg(feature = "knowledge")]
    #[doc = include_str!("../../../docs/knowledge.md")]
    mod knowledge {}
    #[cfg(feature = "knowledge")]
    #[doc = include_str!("../../../docs/memory.md")]
    mod memory {}
    #[doc = include_str!("../../../docs/providers.md")]
    mod providers {}
    #[doc = include_str!("../../../docs/sessions.md")]
    mod sessions {}
}

/// The names that most programs use. Everything else is in the modules of this crate.
pub mod prelude {
    #[cfg(feature = "http")]
    pub use contexture_agent::{
        Agent, AgentError, Checked, Event, Outcome, RunRequest, Tool, constraint, tool,
    };
    pub use contexture_compose::{
        Adaptation, Block, BoxError, Call, Context, Contribution, Contributor, Pass, Prompt, Prompts,
        ResolveOptions, TagValue, Text, contributor, injectable, matching, prompt_tree, when,
    };
    pub use contexture_message::{Message, Part, Settings, ToolDefinition, ToolOutput};
    #[cfg(feature = "http")]
    pub use contexture_model::{Client, Model, Scripted};
    #[cfg(feature = "project")]
    pub use contexture_project::Project;
    #[cfg(feature = "http")]
    pub use contexture_session::{Session, Sessions, Thread};

    #[cfg(feature = "http")]
    pub use crate::Generate;
}
