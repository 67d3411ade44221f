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

mod define;
mod event;
mod fault;
pub mod graph;
mod keys;
mod lower;
mod node;
mod nodes;
mod port;
mod run;
mod step;

pub use define::{
    BlackboardWaitConfig, BranchConfig, CacheConfig, CacheScope, CustomConfig, FlowDefinition, InjectConfig,
    IntentConfig, JoinConfig, JoinPolicy, Limits, LlmConfig, ManualInputConfig, NewThreadConfig,
    NodeDefinition, NodeKind, OnError, Overrides, ParallelConfig, PortalConfig, Position, Retry, START,
    SubFlowConfig, ToolCallConfig, ToolsConfig, TransformConfig, UserInputConfig,
};
pub use event::{RunEvent, RunStatus, Wait};
pub use fault::{FlowFault, FlowInvalid};
pub use keys::run_id::RunId;
pub use lower::builder::FlowBuilder;
pub use lower::{CompileInputs, lower};
pub use node::custom::Nodes;
pub use node::flow::Flow;
pub use node::library::{EventContext, Library, Services};
pub use node::{Node, NodeContext, Traits};
pub use port::value::{PortValue, PortValues};
pub use port::{DataType, JsonType, Port, PortType};
pub use run::{
    DamagedRun, ForgetReport, RunError, RunInfo, RunList, RunPage, RunStart, Runtime, RuntimeConfig,
    RuntimeParts,
};
pub use step::{Answer, NodeError, Question, QuestionKind, Step, TurnRef};
