//! Whether a state that was read fits its flow. A document may be damaged or older than the code, and the ports of a
//! node of the application's own may have changed; everywhere else, numbers in a state are taken for those of nodes
//! and inputs.

use super::{NodeState, Phase, State};
use crate::Flow;

impl State {
    /// Returns why a loaded state does not fit the flow.
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
        match self.nodes.iter().enumerate().all(fits) {
            true => Ok(()),
            false => Err("a node has other inputs than in the flow"),
        }
    }
}
