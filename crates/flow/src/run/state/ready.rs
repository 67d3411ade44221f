//! Which nodes can start now, with which inputs, and why none can.

use std::collections::BTreeSet;
use std::sync::Arc;

use contexture_session::ThreadId;
use serde_json::Value;

use super::State;
use crate::node::flow::{FlowNode, Input};
use crate::{Flow, JoinPolicy, PortValue, PortValues, RunEvent};

/// The name of the run's input among the inputs of its start node.
pub(crate) const RUN_INPUT: &str = "input";

/// The constants of a run.
#[derive(Clone, Debug)]
pub(crate) struct RunContext {
    /// The input of the run.
    pub(crate) input: Arc<Value>,
    /// The main thread of its session.
    pub(crate) main: ThreadId,
}

impl State {
    /// Returns the next node that can start, in flow order. A node that can't start is not checked again until
    /// something about it changes.
    pub(crate) fn next_start(&mut self, flow: &Flow, run_context: &RunContext) -> Option<RunEvent> {
        // Nodes that wait for an answer or for other nodes do not count.
        if self.runnable().count() >= flow.limits().max_concurrency.max(1) as usize {
            return None;
        }
        let busy = self.busy_threads(flow);
        let mut blocked = BTreeSet::new();
        let mut found = None;
        while let Some(idx) = self.startable.pop_first() {
            let Some(node) = flow.node(idx) else { continue };
            if self.nodes[idx].active.is_some() || !self.has_inputs(flow, idx, node) {
                continue;
            }
            let inputs = self.inputs(idx, node, run_context);
            let thread = self.thread_of(node, &inputs, run_context);
            if node.traits.writes && busy.contains(&thread) {
                blocked.insert(idx);
                continue;
            }
            found = Some(RunEvent::NodeStart {
                node: Arc::clone(&node.id),
                firing: self.nodes[idx].fired.saturating_add(1),
                inputs: Arc::new(inputs),
                thread: Some(thread),
            });
            break;
        }
        self.startable.extend(blocked);
        found
    }

    /// The threads that a node writes to or has a suspended turn on.
    fn busy_threads(&self, flow: &Flow) -> BTreeSet<ThreadId> {
        let writing = self.active.iter().filter(|idx| flow.node(**idx).is_some_and(|it| it.traits.writes));
        writing.filter_map(|idx| self.nodes[*idx].active.as_ref()?.thread.clone()).collect()
    }

    fn has_inputs(&self, flow: &Flow, idx: usize, node: &FlowNode) -> bool {
        let state = &self.nodes[idx];
        let has = |input: usize| state.queues.get(input).is_some_and(|it| !it.is_empty());
        if node.is_pulled {
            let mut awaited = node.inputs.iter().enumerate().filter(|(_, it)| it.is_awaited());
            return !state.asked.is_empty() && awaited.all(|(input, _)| has(input));
        }
        if idx == 0 && flow.node(0).is_some_and(|it| it.opens == Some(0)) {
            return state.fired == 0;
        }
        node.inputs.iter().any(Input::is_awaited) && node.has_inputs(has)
    }

    fn inputs(&self, idx: usize, node: &FlowNode, run_context: &RunContext) -> PortValues {
        let mut inputs = PortValues::new();
        if node.opens == Some(0) {
            inputs.insert(RUN_INPUT.to_owned(), PortValue::Data(Arc::clone(&run_context.input)));
        }
        let state = &self.nodes[idx];
        let mut is_won = false;
        for (input_idx, input) in node.inputs.iter().enumerate() {
            let is_race = node.traits.join == JoinPolicy::Any && input.is_round();
            let front = state.queues.get(input_idx).and_then(|it| it.front());
            let value =
                front.filter(|_| input.is_awaited() && !(is_race && is_won)).or(input.constant.as_ref());
            is_won |= is_race && value.is_some();
            if let Some(value) = value {
                inputs.insert(input.port.name.clone(), value.clone());
            }
        }
        inputs
    }

    fn thread_of(&self, node: &FlowNode, inputs: &PortValues, run_context: &RunContext) -> ThreadId {
        let named =
            inputs.get("thread").filter(|_| node.traits.takes_thread_input).and_then(PortValue::as_thread);
        let usual = || self.threads.get(node.scope).and_then(Option::as_ref);
        named.or_else(usual).unwrap_or(&run_context.main).clone()
    }

    /// Names a node that waits for an input that will never arrive, once no node is executing or waiting for an
    /// answer.
    pub(crate) fn stalled(&self, flow: &Flow) -> Option<(String, String)> {
        let mut starved = flow.nodes().iter().enumerate().filter_map(|(idx, node)| self.starved(idx, node));
        let first = starved.next()?;
        let message = match starved.next() {
            None => first.1,
            Some((_, second)) => format!("{}; {second}", first.1),
        };
        Some((first.0, message))
    }

    /// Names a node that can't start because a blocked node holds its thread.
    pub(crate) fn blocked(&self, flow: &Flow, run_context: &RunContext) -> Option<(String, String)> {
        self.startable.iter().find_map(|idx| {
            let node = flow.node(*idx).filter(|_| self.nodes[*idx].active.is_none())?;
            if !node.traits.writes || !self.has_inputs(flow, *idx, node) {
                return None;
            }
            let thread = self.thread_of(node, &self.inputs(*idx, node, run_context), run_context);
            let has = |it: &&usize| {
                let holder = self.nodes[**it].active.as_ref().and_then(|it| it.thread.as_ref());
                holder == Some(&thread) && flow.node(**it).is_some_and(|it| it.traits.writes)
            };
            let holder = flow.node(*self.active.iter().find(has)?)?;
            let message =
                format!("node `{}` can't start: `{}` holds the thread that it writes to", node.id, holder.id);
            Some((node.id.to_string(), message))
        })
    }

    fn starved(&self, idx: usize, node: &FlowNode) -> Option<(String, String)> {
        let state = &self.nodes[idx];
        let has = |input: usize| state.queues.get(input).is_some_and(|it| !it.is_empty());
        let awaited = || node.inputs.iter().enumerate().filter(|(_, it)| it.is_awaited());
        let is_wanted = match node.is_pulled {
            true => !state.asked.is_empty(),
            false => awaited().any(|(input, it)| !it.keeps && has(input)),
        };
        let lacks: Vec<&str> =
            awaited().filter(|(input, _)| !has(*input)).map(|(_, it)| it.port.name.as_str()).collect();
        if !is_wanted || lacks.is_empty() {
            return None;
        }
        let message =
            format!("node `{}` waits for input `{}`, which never arrives", node.id, lacks.join("`, `"));
        Some((node.id.to_string(), message))
    }
}
