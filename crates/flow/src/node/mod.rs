//! The node trait, its context and its results.

pub(crate) mod custom;
pub(crate) mod flow;
pub(crate) mod library;

use std::fmt;
use std::sync::Arc;

use contexture_agent::{CancellationToken, Event};
use contexture_compose::BoxFuture;
use contexture_session::{Snapshot, Thread};
use futures::channel::mpsc::UnboundedSender;
use serde_json::Value;

use self::library::Services;
use crate::{Answer, JoinPolicy, NodeError, Port, PortValues, RunId, Step, TurnRef};

/// A node: which ports it has, and what it does.
///
/// It is given an immutable snapshot of its thread and the thread's handle, and returns data, names of threads and
/// names of tools. A thread changes through its handle only.
///
/// ```
/// use std::sync::Arc;
/// use contexture_compose::BoxFuture;
/// use contexture_flow::{Flow, Node, NodeContext, NodeError, Port, PortType, PortValue, Step};
///
/// /// Says a text twice.
/// #[derive(Debug)]
/// struct Twice;
///
/// impl Node for Twice {
///     fn inputs(&self) -> Vec<Port> {
///         vec![Port::new("text", PortType::STRING).required()]
///     }
///     fn outputs(&self) -> Vec<Port> {
///         vec![Port::new("text", PortType::STRING)]
///     }
///     fn run(self: Arc<Self>, cx: NodeContext) -> BoxFuture<'static, Result<Step, NodeError>> {
///         Box::pin(async move {
///             let text = cx.text("text").unwrap_or_default();
///             Ok(Step::done([("text", PortValue::data(text.repeat(2)))]))
///         })
///     }
/// }
///
/// let flow = Flow::builder("twice")
///     .input("text", contexture_flow::DataType::of(contexture_flow::JsonType::String))
///     .custom("twice", Twice)
///     .edge("start.text -> twice.text")
///     .output("text", "twice.text")
///     .build()?;
/// # Ok::<(), contexture_flow::FlowInvalid>(())
/// ```
pub trait Node: fmt::Debug + Send + Sync + 'static {
    /// Returns the inputs. Every node also has an input `after`, which only delays it.
    fn inputs(&self) -> Vec<Port>;

    /// Returns the outputs. Every node also has an output `done`, and `error` if its errors are emitted.
    fn outputs(&self) -> Vec<Port>;

    /// Returns how the scheduler treats it.
    fn traits(&self) -> Traits {
        Traits::default()
    }

    /// Executes the node, or returns what it needs first. It is called again with that.
    fn run(self: Arc<Self>, cx: NodeContext) -> BoxFuture<'static, Result<Step, NodeError>>;
}

/// How the scheduler treats a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// Whether it may run again when its progress is unknown: running it twice has the same effect as once.
    pub is_repeatable: bool,
    /// Whether it always waits for an answer; a loop must contain such a node.
    pub pauses: bool,
    /// Whether it writes to its thread: then no other such node runs on that thread at the same time.
    pub writes: bool,
    /// Whether its input `thread` names the thread that it works on.
    pub takes_thread_input: bool,
    /// Which inputs it waits for before it runs.
    pub join: JoinPolicy,
}

impl Default for Traits {
    fn default() -> Self {
        Self {
            is_repeatable: true,
            pauses: false,
            writes: false,
            takes_thread_input: true,
            join: JoinPolicy::All,
        }
    }
}

/// The context of a node's execution.
#[derive(Clone, Debug)]
pub struct NodeContext {
    /// The run's id.
    pub run: RunId,
    /// The flow's id.
    pub flow: Arc<str>,
    /// The node's own name.
    pub node: Arc<str>,
    /// How often the node has run in this run, this time included.
    pub firing: u32,
    /// How often it was tried this time, from 1.
    pub attempt: u32,
    /// The inputs, by port.
    pub inputs: Arc<PortValues>,
    /// The thread that it works on: the one its input `thread` names, or the main one.
    pub thread: Thread,
    /// The thread as it was when the node began.
    pub snapshot: Arc<Snapshot>,
    /// The answer, if the node has waited.
    pub answer: Option<Answer>,
    /// Whether the author said that what is not known to be done may be done again.
    pub may_repeat: bool,
    /// Cancelled when the run is.
    pub cancel: CancellationToken,
    /// Everything else that nodes work with.
    pub services: Arc<Services>,
    /// Lazy inputs that something leads to.
    pub(crate) lazy: Arc<[String]>,
    pub(crate) events: EventSink,
}

/// The sender of a node's events.
#[derive(Clone, Debug)]
pub(crate) struct EventSink {
    pub(crate) node: usize,
    pub(crate) sender: UnboundedSender<EmittedEvent>,
}

/// An event that a node emits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EmittedEvent {
    pub(crate) node: usize,
    /// The turn that it happens in.
    pub(crate) turn: Option<TurnRef>,
    pub(crate) event: Event,
}

impl NodeContext {
    /// Returns a text that came in.
    pub fn text(&self, port: &str) -> Option<&str> {
        self.inputs.get(port)?.as_str()
    }

    /// Returns a JSON value that came in.
    pub fn data(&self, port: &str) -> Option<&Value> {
        self.inputs.get(port)?.as_data()
    }

    /// Whether a lazy input can be pulled and was not pulled yet.
    pub fn can_pull(&self, port: &str) -> bool {
        self.lazy.iter().any(|it| it == port) && !self.inputs.contains_key(port)
    }

    /// Emits an event of a model call to followers of the run.
    pub fn emit(&self, event: Event) {
        self.emit_in_turn(None, event);
    }

    /// Tells of something that happens in a turn of a thread of the session.
    pub(crate) fn emit_in_turn(&self, turn: Option<TurnRef>, event: Event) {
        let _ = self.events.sender.unbounded_send(EmittedEvent { node: self.events.node, turn, event });
    }

    /// Names this firing of the node, the same each time it is repeated: for idempotency keys and names.
    pub fn key(&self) -> String {
        crate::keys::firing_key(&self.run, &self.node, self.firing)
    }
}
