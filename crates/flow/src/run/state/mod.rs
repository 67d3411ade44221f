//! The state of a run: the result of replaying its log.
//!
//! Each input of a node has a queue. What a node gives goes into the queues that its outputs lead to, in the order in
//! which nodes end. A node begins when every input that it awaits has something, and takes one of each. The rule for
//! the exceptions:
//!
//! 1. An input that keeps its value has a queue of one: the newest value, which is not taken out.
//! 2. A join that waits for any input counts rounds: the n-th value of each input belongs to round n. The first that
//!    comes starts the join; what comes later of the same round is left aside.
//! 3. A pulled node starts when another node asks for it, with the newest value of each input; its outputs go to the
//!    node that asked.
//! 4. A node runs once at a time.
//!
//! Nothing here waits, reads a clock or writes anything.

pub(super) mod ready;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use contexture_session::ThreadId;
use serde::{Deserialize, Serialize};

use crate::lower::ERROR;
use crate::node::flow::FlowNode;
use crate::{Answer, Flow, JoinPolicy, NodeError, PortValue, PortValues, Question, RunEvent, TurnRef, Wait};

/// The state of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) nodes: Vec<NodeState>,
    /// How many nodes have started since the last answer.
    pub(crate) steps: u32,
    /// The outputs of the run known so far.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) outputs: PortValues,
    /// The default thread of the run and of each sub-flow.
    pub(crate) threads: Vec<Option<ThreadId>>,
    /// The first node that failed without emitting its error, and that error: the run ends because of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<(String, NodeError)>,
    /// Whether the run is to stop.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) cancelled: bool,
    /// Nodes whose queues have changed, or that have ended: only these may begin now.
    #[serde(skip)]
    pub(crate) startable: BTreeSet<usize>,
    /// Nodes that have begun and have not ended.
    #[serde(skip)]
    pub(crate) active: BTreeSet<usize>,
}

/// The state of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct NodeState {
    /// The queued values, by input.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) queues: Vec<VecDeque<PortValue>>,
    /// How much has ever come, by input: a join that waits for any of them counts rounds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) arrived: Vec<u32>,
    /// How often it has begun.
    pub(crate) fired: u32,
    /// The nodes that asked for it, with their inputs.
    #[serde(skip_serializing_if = "VecDeque::is_empty")]
    pub(crate) asked: VecDeque<(usize, usize)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) active: Option<Active>,
}

/// A node that has begun and has not ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Active {
    pub(crate) firing: u32,
    pub(crate) attempt: u32,
    pub(crate) inputs: Arc<PortValues>,
    pub(crate) thread: Option<ThreadId>,
    pub(crate) phase: Phase,
    /// How often it has waited.
    #[serde(default)]
    pub(crate) n_waits: u32,
    /// The lazy inputs that it has pulled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) pulled: Vec<String>,
    /// The last answer, if the node has waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) answer: Option<Answer>,
    /// The turn that it works in, if the log has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) turn: Option<TurnRef>,
}

/// The phase of a started node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Phase {
    /// It is executing.
    #[default]
    Running,
    /// It failed, and is tried again.
    Retrying,
    /// It waits for these pulled inputs.
    Pulling(Vec<usize>),
    /// It waits for an answer.
    Waiting { wait: String, asked: Question },
    /// It has its answer, and no driver has continued it yet.
    Answered,
}

impl Active {
    /// Whether the driver must execute it.
    fn is_runnable(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Retrying)
    }
}

impl State {
    /// Returns the state of a run that has not begun.
    pub(crate) fn new(flow: &Flow) -> Self {
        let nodes = flow.nodes().iter().map(|_| NodeState::default()).collect();
        let threads = vec![None; flow.0.n_scopes];
        Self { nodes, threads, startable: BTreeSet::from([0]), ..Self::default() }
    }

    /// Completes a state that was read: what can be found again is not written down.
    pub(crate) fn restored(mut self, flow: &Flow) -> Self {
        if self.nodes.is_empty() {
            return Self { cancelled: self.cancelled, ..Self::new(flow) };
        }
        self.startable = (0..self.nodes.len()).collect();
        let active = self.nodes.iter().enumerate().filter(|(_, it)| it.active.is_some());
        self.active = active.map(|(idx, _)| idx).collect();
        self
    }

    /// Returns why a loaded state does not fit the flow. A document may be damaged or older than the code, and the ports
    /// of a node of the application's own may have changed; everywhere else, numbers in a state are taken for those of
    /// nodes and inputs.
    pub(crate) fn check(&self, flow: &Flow) -> Result<(), &'static str> {
        let nodes = flow.nodes();
        if self.nodes.is_empty() {
            // It has not begun.
            return Ok(());
        }
        if self.nodes.len() != nodes.len() || self.threads.len() != flow.0.n_scopes {
            return Err("it has other nodes than the flow");
        }
        let is_input =
            |(node, input): (usize, usize)| nodes.get(node).is_some_and(|it| input < it.inputs.len());
        let fits = |(idx, state): (usize, &NodeState)| {
            let pulled = match state.active.as_ref().map(|it| &it.phase) {
                Some(Phase::Pulling(inputs)) => inputs.as_slice(),
                _ => &[],
            };
            let n_inputs = nodes[idx].inputs.len();
            state.queues.len() <= n_inputs
                && state.arrived.len() <= n_inputs
                && state.asked.iter().all(|it| is_input(*it))
                && pulled.iter().all(|it| is_input((idx, *it)))
        };
        let is_fitting = self.nodes.iter().enumerate().all(fits);
        if is_fitting { Ok(()) } else { Err("a node has other inputs than in the flow") }
    }

    /// Returns the nodes that the driver must execute.
    pub(crate) fn runnable(&self) -> impl Iterator<Item = usize> {
        let is_runnable = |idx: &usize| self.nodes[*idx].active.as_ref().is_some_and(Active::is_runnable);
        self.active.iter().copied().filter(is_runnable)
    }

    /// Whether a driver has started anything.
    pub(crate) fn has_begun(&self) -> bool {
        self.nodes.iter().any(|it| it.fired > 0)
    }

    /// Returns the open waits.
    pub(crate) fn waits(&self) -> Vec<Wait> {
        let active = self.nodes.iter().filter_map(|it| it.active.as_ref());
        let open = active.filter_map(|it| match &it.phase {
            Phase::Waiting { wait, asked } => {
                let (node, _) = Wait::place_of(wait)?;
                Some(Wait { id: wait.clone(), node, asked: asked.clone() })
            }
            _ => None,
        });
        open.collect()
    }

    /// Returns the outputs known so far, as JSON.
    pub(crate) fn results(&self) -> BTreeMap<String, serde_json::Value> {
        self.outputs.iter().map(|(name, value)| (name.clone(), value.to_json())).collect()
    }

    /// Applies an event.
    pub(crate) fn apply(&mut self, flow: &Flow, event: &RunEvent) {
        match event {
            RunEvent::NodeStart { node, firing, inputs, thread } => {
                let (firing, inputs, thread) = (*firing, Arc::clone(inputs), thread.clone());
                let active = Active { firing, attempt: 1, inputs, thread, ..Active::default() };
                self.with(flow, node, |state, idx| state.begin(flow, idx, active));
            }
            RunEvent::NodePull { node, ports, .. } => {
                self.with(flow, node, |state, idx| state.ask(flow, idx, ports));
            }
            RunEvent::NodeWait { node, wait, .. } => self.with_active(flow, node, |active| {
                active.phase = Phase::Waiting { wait: wait.id.clone(), asked: wait.asked.clone() };
                active.n_waits = active.n_waits.saturating_add(1);
            }),
            RunEvent::NodeAnswer { node, wait, value, .. } => self.with(flow, node, |state, idx| {
                let active = state.nodes[idx].active.as_mut();
                if active.is_some_and(|it| it.take_answer(wait, value)) {
                    state.steps = 0;
                }
            }),
            RunEvent::NodeResume { node, .. } => {
                self.with_active(flow, node, |active| active.phase = Phase::Running);
            }
            RunEvent::NodeTurn { node, turn, .. } => {
                self.with_active(flow, node, |active| active.turn = Some(turn.clone()));
            }
            RunEvent::NodeRetry { node, attempt, .. } => self.with_active(flow, node, |active| {
                (active.attempt, active.phase) = (*attempt, Phase::Retrying);
            }),
            RunEvent::NodeEnd { node, outputs, error, .. } => {
                self.with(flow, node, |state, idx| state.finish(flow, idx, outputs, error.as_ref()));
            }
            RunEvent::RunStart { .. }
            | RunEvent::RunResume {}
            | RunEvent::RunWait { .. }
            | RunEvent::RunEnd { .. }
            | RunEvent::NodeRepeat { .. }
            | RunEvent::NodeEvent { .. } => {}
        }
    }

    /// Events that name no node of the flow are ignored.
    fn with(&mut self, flow: &Flow, node: &str, change: impl FnOnce(&mut Self, usize)) {
        if let Some(idx) = flow.idx_of(node).filter(|idx| *idx < self.nodes.len()) {
            change(self, idx);
        }
    }

    fn with_active(&mut self, flow: &Flow, node: &str, change: impl FnOnce(&mut Active)) {
        self.with(flow, node, |state, idx| state.in_active(idx, change));
    }

    fn in_active(&mut self, idx: usize, change: impl FnOnce(&mut Active)) {
        if let Some(active) = &mut self.nodes[idx].active {
            change(active);
        }
    }

    fn begin(&mut self, flow: &Flow, idx: usize, active: Active) {
        let Some(node) = flow.node(idx) else { return };
        self.steps = self.steps.saturating_add(1);
        let state = &mut self.nodes[idx];
        state.fired = active.firing;
        state.active = Some(active);
        if !node.is_pulled {
            state.take(node);
        }
        self.active.insert(idx);
    }

    /// Asks the nodes behind lazy inputs for their outputs.
    fn ask(&mut self, flow: &Flow, idx: usize, ports: &[String]) {
        let Some(node) = flow.node(idx) else { return };
        let inputs = node.inputs.iter().enumerate();
        let wanted: Vec<usize> =
            inputs.filter(|(_, it)| ports.contains(&it.port.name)).map(|(input, _)| input).collect();
        for input in &wanted {
            for (from, _) in &node.inputs[*input].sources {
                self.nodes[*from].asked.push_back((idx, *input));
                self.startable.insert(*from);
            }
        }
        self.in_active(idx, |active| {
            active.phase = Phase::Pulling(wanted);
            active.pulled.extend_from_slice(ports);
        });
    }

    fn finish(&mut self, flow: &Flow, idx: usize, outputs: &PortValues, error: Option<&NodeError>) {
        let Some(node) = flow.node(idx) else { return };
        self.nodes[idx].active = None;
        self.active.remove(&idx);
        self.startable.insert(idx);
        if let (Some(scope), Some(PortValue::Thread(thread))) = (node.opens, outputs.get("thread")) {
            self.threads[scope] = Some(thread.clone());
        }
        if let Some(error) = error.filter(|_| !outputs.contains_key(ERROR)) {
            self.failure.get_or_insert_with(|| (node.id.to_string(), error.clone()));
        }
        self.note_outputs(flow, idx, outputs);
        if node.is_pulled {
            return self.deliver(flow, idx, outputs);
        }
        for output in &node.outputs {
            let Some(value) = outputs.get(&output.port.name) else { continue };
            for (to, input) in &output.targets {
                self.arrive(flow, *to, *input, value);
            }
        }
    }

    fn note_outputs(&mut self, flow: &Flow, idx: usize, outputs: &PortValues) {
        let Some(node) = flow.node(idx) else { return };
        for (name, (from, output)) in &flow.0.outputs {
            if *from == idx
                && let Some(value) = outputs.get(&node.outputs[*output].port.name)
            {
                self.outputs.insert(name.clone(), value.clone());
            }
        }
    }

    /// Delivers the outputs of a pulled node to the node that asked for it.
    fn deliver(&mut self, flow: &Flow, idx: usize, outputs: &PortValues) {
        let Some((to, input)) = self.nodes[idx].asked.pop_front() else { return };
        let Some((from, target)) = flow.node(idx).zip(flow.node(to)) else { return };
        let output = from.outputs.iter().find(|it| it.targets.contains(&(to, input)));
        let value = output.and_then(|it| outputs.get(&it.port.name)).cloned();
        let name = target.inputs[input].port.name.clone();
        self.in_active(to, |active| {
            if let Some(value) = value {
                Arc::make_mut(&mut active.inputs).insert(name, value);
            }
            if let Phase::Pulling(wanted) = &mut active.phase {
                wanted.retain(|it| *it != input);
                if wanted.is_empty() {
                    active.phase = Phase::Running;
                }
            }
        });
    }

    fn arrive(&mut self, flow: &Flow, idx: usize, input: usize, value: &PortValue) {
        let Some(node) = flow.node(idx) else { return };
        let state = &mut self.nodes[idx];
        state.queues.resize_with(node.inputs.len(), VecDeque::new);
        if node.traits.join == JoinPolicy::Any {
            state.arrived.resize(node.inputs.len(), 0);
            state.arrived[input] = state.arrived[input].saturating_add(1);
            if state.arrived[input] <= state.fired && node.inputs[input].is_round() {
                return;
            }
        }
        let queue = &mut state.queues[input];
        if node.inputs[input].keeps || node.is_pulled {
            queue.clear();
        }
        queue.push_back(value.clone());
        self.startable.insert(idx);
    }
}

impl Active {
    /// Takes the answer to its wait. Returns whether it waited for it.
    fn take_answer(&mut self, wait: &str, value: &serde_json::Value) -> bool {
        let Phase::Waiting { wait: own, asked } = &self.phase else { return false };
        if own != wait {
            return false;
        }
        self.answer = Some(Answer { wait: own.clone(), asked: asked.clone(), value: value.clone() });
        self.phase = Phase::Answered;
        true
    }
}

impl NodeState {
    /// Takes what a firing uses out of the queues.
    fn take(&mut self, node: &FlowNode) {
        for (idx, input) in node.inputs.iter().enumerate().filter(|(_, it)| it.is_awaited() && !it.keeps) {
            let Some(queue) = self.queues.get_mut(idx) else { continue };
            let is_of_round = match node.traits.join {
                JoinPolicy::All => true,
                JoinPolicy::Any if !input.is_round() => true,
                // The round of the front value: the number of values that ever arrived, less those behind it in the
                // queue.
                JoinPolicy::Any => {
                    let behind = u32::try_from(queue.len()).unwrap_or(u32::MAX).saturating_sub(1);
                    self.arrived.get(idx).is_some_and(|it| it.saturating_sub(behind) <= self.fired)
                }
            };
            if is_of_round {
                queue.pop_front();
            }
        }
    }
}
