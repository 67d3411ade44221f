//! Flows: durable graphs of steps over threads.
//!
//! A [`FlowDefinition`] describes what an author wants: nodes with typed ports, and edges between them. [`lower`]
//! checks it as a whole and returns a [`Flow`]. A [`Runtime`] runs flows. The log of a run is stored with the
//! sessions, so a run survives its process, can wait for people indefinitely, and can be followed, answered and
//! cancelled from any process.
//!
//! ```text
//! definition ─▶ lower ─▶ Flow ─▶ run: log ─▶ state ─▶ ready ─▶ driver ─▶ nodes
//!                                     ▲                          │
//!                                     └──────────────────────────┘
//! ```
//!
//! Each conversation has one owner: nodes get an immutable snapshot and the handle of their thread, and return data,
//! names of threads and names of tools. No type lets a node return a thread's content.

mod custom;
mod define;
mod fault;
mod flow;
pub mod graph;
mod key;
mod lower;
mod node;
mod nodes;
mod port;
mod run;
mod services;
mod value;

pub use custom::Nodes;
pub use define::{
    BranchConfig, CacheConfig, CacheScope, CustomConfig, FlowBuilder, FlowDefinition, InjectConfig,
    IntentConfig, JoinConfig, JoinPolicy, Limits, LlmConfig, ManualInputConfig, NewThreadConfig,
    NodeDefinition, NodeKind, OnError, Overrides, ParallelConfig, PortalConfig, Position, Retry, START,
    SubFlowConfig, ToolCallConfig, ToolsConfig, TransformConfig, UserInputConfig,
};
pub use fault::{FlowFault, FlowInvalid};
pub use flow::Flow;
pub use lower::{CompileInputs, lower};
pub use node::{Answer, Node, NodeContext, NodeError, Question, QuestionKind, Step, Traits};
pub use port::{DataType, JsonType, Port, PortType};
pub use run::{
    DamagedRun, EventContext, ForgetReport, Library, RunError, RunEvent, RunId, RunInfo, RunList, RunPage,
    RunStart, RunStatus, Runtime, RuntimeConfig, RuntimeParts, TurnRef, Wait, delete_session,
};
pub use services::Services;
pub use value::PortValue;
