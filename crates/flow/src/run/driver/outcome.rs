//! Handles the result of an attempt: the node finishes, waits, pulls inputs, is retried, or fails.

use std::sync::Arc;

use contexture_message::ErrorCode;

use super::{Driver, Ending};
use crate::lower::{DONE, ERROR};
use crate::node::EmittedEvent;
use crate::port::weight::{MAX_WEIGHT, check_depth};
use crate::{NodeError, OnError, PortValue, PortValues, Question, RunEvent, Step, Wait};

/// How many values may wait at one input.
const MAX_QUEUE: usize = 1000;

impl Driver {
    /// Handles the result of a node.
    pub(super) fn done(&mut self, idx: usize, done: Result<Step, NodeError>) {
        self.working.remove(&idx);
        // Events that it emitted before go before its end.
        while let Ok(event) = self.event_receiver.try_recv() {
            self.hear(event);
        }
        match done {
            Ok(Step::Done(outputs)) => self.finish(idx, outputs),
            Ok(Step::Wait(asked)) => self.wait(idx, asked),
            Ok(Step::Pull(ports)) => self.pull(idx, ports),
            Err(error) => self.retry_or_fail(idx, error),
        }
    }

    /// Tells the library what a node emits, and records the turn that it works in.
    pub(super) fn hear(&mut self, emitted: EmittedEvent) {
        let EmittedEvent { node: idx, turn, event } = emitted;
        let Some(node) = self.flow.node(idx).map(|it| Arc::clone(&it.id)) else { return };
        let active = self.state.nodes[idx].active.as_ref();
        if let (Some(turn), Some(active)) = (&turn, active)
            && active.turn.as_ref() != Some(turn)
        {
            let (node, firing, turn) = (Arc::clone(&node), active.firing, turn.clone());
            self.record_event(RunEvent::NodeTurn { node, firing, turn });
        }
        self.tell(None, &RunEvent::NodeEvent { node, turn, event });
    }

    pub(super) fn finish(&mut self, idx: usize, mut outputs: PortValues) {
        let Some(node) = self.flow.node(idx) else { return };
        let wrong = outputs.iter().find_map(|(name, value)| {
            let Some(output) = node.outputs.iter().find(|it| it.port.name == *name) else {
                return Some(format!("it returned `{name}`, which is not one of its outputs"));
            };
            value.check(&output.port.of).err().map(|why| format!("output `{name}`: {why}"))
        });
        if let Some(message) = wrong {
            return self.fail(idx, NodeError::new(ErrorCode::FlowTypeMismatch, message));
        }
        let heavy: usize = outputs.values().map(PortValue::weight).sum();
        if heavy > MAX_WEIGHT {
            let message = format!("its outputs have about {heavy} bytes, the limit is {MAX_WEIGHT}");
            return self.fail(idx, NodeError::new(ErrorCode::FlowValueTooLarge, message));
        }
        let deep = outputs.iter().find_map(|(name, value)| {
            let why = check_depth(value.as_data()?).err()?;
            Some(format!("output `{name}`: {why}"))
        });
        if let Some(message) = deep {
            return self.fail(idx, NodeError::new(ErrorCode::FlowValueTooDeep, message));
        }
        outputs.insert(DONE.to_owned(), PortValue::data(true));
        self.end_node(idx, outputs, None);
    }

    pub(super) fn end_node(&mut self, idx: usize, outputs: PortValues, error: Option<NodeError>) {
        let Some(node) = self.flow.node(idx).map(|it| Arc::clone(&it.id)) else { return };
        let firing = self.state.nodes[idx].fired;
        self.record_event(RunEvent::NodeEnd { node, firing, outputs: Arc::new(outputs), error });
        self.check_queues(idx);
    }

    /// Values that arrive every round and are never consumed would make every later step slower.
    fn check_queues(&mut self, idx: usize) {
        let Some(node) = self.flow.node(idx) else { return };
        let full = node.outputs.iter().flat_map(|it| &it.targets).find(|(to, input)| {
            self.state.nodes[*to].queues.get(*input).is_some_and(|it| it.len() > MAX_QUEUE)
        });
        let Some((to, input)) = full.and_then(|(to, input)| Some((self.flow.node(*to)?, *input))) else {
            return;
        };
        let port = &to.inputs[input].port.name;
        let message = format!("more than {MAX_QUEUE} values wait at input `{port}` of node `{}`", to.id);
        let (node, error) = (to.id.to_string(), NodeError::new(ErrorCode::FlowQueueFull, message));
        self.stop_with(Ending::Failed { node, error });
    }

    pub(super) fn wait(&mut self, idx: usize, asked: Question) {
        if let Err(why) = check_depth(&asked.schema).and_then(|()| check_depth(&asked.about)) {
            return self
                .fail(idx, NodeError::new(ErrorCode::FlowValueTooDeep, format!("its question: {why}")));
        }
        let (Some(node), Some(active)) = (self.flow.node(idx), &self.state.nodes[idx].active) else { return };
        let id = Wait::id_of(&node.id, active.firing, active.n_waits);
        let (firing, node) = (active.firing, Arc::clone(&node.id));
        let wait = Wait { id, node: node.to_string(), asked };
        self.record_event(RunEvent::NodeWait { node, firing, wait });
    }

    pub(super) fn pull(&mut self, idx: usize, ports: Vec<String>) {
        let Some(node) = self.flow.node(idx) else { return };
        let can = |name: &String| {
            node.inputs.iter().any(|it| it.port.name == *name && it.port.lazy && !it.sources.is_empty())
        };
        let Some(active) = &self.state.nodes[idx].active else { return };
        // A node that pulls an input again after nothing arrived would pull forever.
        let asked_before = ports.iter().find(|it| active.pulled.contains(it));
        let message = match ports.iter().find(|it| !can(it) || active.inputs.contains_key(*it)) {
            Some(name) => Some(format!("it pulls input `{name}`, which has no source")),
            None => asked_before.map(|name| format!("it pulled input `{name}` before, and nothing arrived")),
        };
        if let Some(message) = message {
            return self.fail(idx, NodeError::new(ErrorCode::FlowMissingInput, message));
        }
        let (node, firing) = (Arc::clone(&node.id), self.state.nodes[idx].fired);
        self.record_event(RunEvent::NodePull { node, firing, ports });
    }

    pub(super) fn retry_or_fail(&mut self, idx: usize, error: NodeError) {
        let (Some(node), Some(active)) = (self.flow.node(idx), &self.state.nodes[idx].active) else { return };
        if self.ending.is_some() || active.attempt > node.definition.retry.max {
            return self.fail(idx, error);
        }
        let (node, firing, attempt) = (Arc::clone(&node.id), active.firing, active.attempt.saturating_add(1));
        self.record_event(RunEvent::NodeRetry { node, firing, attempt, error });
    }

    /// A node failed for good.
    pub(super) fn fail(&mut self, idx: usize, error: NodeError) {
        let Some(node) = self.flow.node(idx) else { return };
        let emits = node.definition.on_error == OnError::Emit && self.ending.is_none();
        let id = node.id.to_string();
        let mut outputs = PortValues::new();
        if emits {
            let says = serde_json::json!({"code": error.code, "message": error.message});
            outputs.insert(ERROR.to_owned(), PortValue::data(says));
        }
        self.end_node(idx, outputs, Some(error.clone()));
        if !emits {
            self.stop_with(Ending::Failed { node: id, error });
        }
    }
}
