//! Turns a definition into a runnable flow. Everything is checked once, here, and all faults are reported together.
//!
//! ```text
//! definition ─▶ expand (sub-flows and portals become plain edges) ─▶ connect (ports and types) ─▶ check (inputs, loops) ─▶ Flow
//! ```

pub(crate) mod builder;
mod check;
mod connect;
mod duplicate_text;
mod edge;
mod expand;
mod wiring;

use std::collections::BTreeMap;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::node::flow::Lowered;
use crate::{Flow, FlowDefinition, FlowFault, FlowInvalid, Nodes};

pub(crate) use connect::{DONE, ERROR};
pub(crate) use edge::parse as parse_edge;

/// What a definition may refer to: other flows, and custom nodes of the application.
#[derive(Clone, Debug, Default)]
pub struct CompileInputs {
    /// Flows for `sub_flow` nodes, by id.
    pub flows: BTreeMap<String, Arc<FlowDefinition>>,
    /// Nodes of the application's own, for `custom` nodes, by name.
    pub nodes: Nodes,
}

/// Checks a definition and makes the flow.
///
/// ```
/// use contexture_flow::{FlowDefinition, CompileInputs, lower};
///
/// let document = serde_json::json!({
///     "nodes": {"answer": {"type": "llm_request", "prompt": "chat"}},
///     "edges": ["start -> answer", "start.thread -> answer.user"],
/// });
/// let definition = FlowDefinition::read("chat", &document)?;
/// let invalid = lower(&definition, &CompileInputs::default()).unwrap_err();
/// assert_eq!(
///     invalid.faults[0].message,
///     "edge `start.thread -> answer.user`: output `thread` of `start` is thread, input `user` of `answer` takes data (string)",
/// );
/// # Ok::<(), contexture_flow::FlowInvalid>(())
/// ```
pub fn lower(definition: &FlowDefinition, compile_inputs: &CompileInputs) -> Result<Flow, FlowInvalid> {
    let invalid = |faults: Vec<FlowFault>| FlowInvalid { flow: definition.id.clone(), faults };
    let mut faults = Vec::new();
    let flat = expand::expand(definition, compile_inputs, &mut faults);
    let connected = connect::connect(&flat, compile_inputs, &mut faults);
    // Missing inputs and cycles can only be reported for a graph whose edges are all valid.
    if !faults.is_empty() {
        return Err(invalid(faults));
    }
    let nodes = check::check(connected.nodes, &flat, &mut faults);
    if !faults.is_empty() {
        return Err(invalid(faults));
    }
    let mut flow = Lowered {
        name: Arc::from(definition.id.as_str()),
        definition: definition.clone(),
        subs: flat.subs,
        fingerprint: String::new(),
        by_id: nodes.iter().enumerate().map(|(idx, it)| (Arc::clone(&it.id), idx)).collect(),
        nodes,
        outputs: connected.outputs,
        n_scopes: flat.n_scopes,
        warnings: duplicate_text::texts_sent_twice(definition),
    };
    flow.fingerprint = fingerprint(&flow);
    Ok(Flow(Arc::new(flow)))
}

fn fingerprint(flow: &Lowered) -> String {
    let mut hash = Sha256::new();
    hash.update(flow.definition.to_json().to_string());
    for sub in flow.subs.values() {
        hash.update(sub.to_json().to_string());
    }
    let digest = hash.finalize();
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
