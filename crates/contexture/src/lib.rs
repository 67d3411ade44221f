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
//!     .include(when(|it: &Ticket| it.plan != "free", Context::text("phone", "Offer a call.")))
//!     .include(
//!         matching(|it: &Ticket| it.locale.clone())
//!             .case("de", Context::text("german", "Antworte auf Deutsch."))
//!             .default_case(Context::text("english", "Answer in English.")),
//!     )
//!     .user(Text::of(|it: &Ticket| it.question.clone()))
//!     .token_budget(4_000)
//!     .build()?; // Ids, input keys, tool names and nesting are checked here, once.
//!
//! let ticket = Ticket { plan: "free".into(), locale: "de".into(), question: "Wo ist mein Geld?".into() };
//! let pass = prompt.resolve(ResolveOptions::for_input(&ticket)?.model("openai/gpt-5-mini")).await?;
//!
//! assert_eq!(
//!     pass.request().messages[0].as_text(),
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
//! An agent calls a model, runs tools and records the conversation: see [`agent()`]. A flow is a graph of such steps that survives its
//! process: see [`flow_runtime`].
//!
//! Prompts can also be written as Markdown files: see [`project`].

mod agents;
mod clock;
mod flows;
mod http;
mod pass_diff;
mod secrets;
mod sessions;
mod threads;

pub use agents::agent;
pub use clock::{SystemClock, engine};
pub use contexture_agent as agent;
pub use contexture_compose as compose;
pub use contexture_flow as flow;
pub use contexture_history as history;
pub use contexture_message as message;
pub use contexture_model as model;
pub use contexture_project as project;
pub use contexture_project::workspace_snapshot;
pub use contexture_session as session;
pub use contexture_store_postgres as store_postgres;
pub use contexture_store_sqlite as store_sqlite;
pub use contexture_template as template;
pub use contexture_wire as wire;
pub use flows::{ProjectLibrary, flow_runtime};
pub use http::SystemHttp;
pub use pass_diff::{DiffLine, FieldChange, PassDiff, PassDocument, TextChange};
pub use secrets::SystemSecrets;
pub use sessions::{SystemNames, SystemTime, session_ports};
pub use threads::SystemThreads;

/// The names that most programs use.
pub mod prelude {
    pub use contexture_agent::{
        Agent, AgentBuilder, AgentConfig, AgentError, AgentTool, ApprovalRequest, CancellationToken,
        CompactRequest, CompactionConfig, Decision, Ended, Event, GoOn, Outcome, Run, RunRequest,
        ToolCallError, ToolRefused, ToolRequest, Verdict,
    };
    pub use contexture_compose::{
        Adaptation, Block, BoxError, Budget, Call, Context, Contribution, Contributor, Engine, Entry, Error,
        Explanation, HistoryConfig, HistoryLimit, OnError, Pass, Priority, Prompt, Prompts, ResolveOptions,
        Schema, TagValue, Text, Turn, contributor, injectable, matching, provider, when,
    };
    pub use contexture_flow::{Flow, FlowDefinition, RunStart, Runtime};
    pub use contexture_history::Limit;
    pub use contexture_message::{
        Answer, Message, Part, Request, Role, Settings, TokenCounter, Tokens, Tool, ToolCall, ToolOutput,
        Usage,
    };
    pub use contexture_model::{Client, ClientConfig, Model, ModelError, Provider, Scripted, Secret, Step};
    pub use contexture_project::Project;
    pub use contexture_session::{
        Begun, MemoryStore, NewItem, Policy, Session, SessionConfig, SessionId, SessionStart, Sessions,
        Snapshot, Store, Tenant, Thread, TurnConfig,
    };
    pub use contexture_store_postgres::PostgresStore;
    pub use contexture_store_sqlite::SqliteStore;
    pub use contexture_wire::{Catalogue, Dialect};
}
