//! Several ways: `branch`, `parallel`, `join`.

use std::sync::Arc;

use contexture_compose::BoxFuture;
use contexture_template::Condition;
use serde_json::Value;

use super::text::{Scope, declared, fault_of};
use crate::{
    BranchConfig, FlowFault, JoinConfig, JoinPolicy, Node, NodeContext, NodeError, ParallelConfig, Port,
    PortType, PortValue, Step, Traits,
};

const VALUE: &str = "value";
const ELSE: &str = "else";

/// Goes the first way whose condition holds.
#[derive(Debug)]
pub(crate) struct BranchNode {
    inputs: Vec<Port>,
    cases: Vec<(String, Condition)>,
}

impl BranchNode {
    pub(crate) fn new(config: &BranchConfig) -> Result<Self, Vec<FlowFault>> {
        let mut faults = Vec::new();
        let mut cases = Vec::new();
        for (name, condition) in &config.cases {
            match Condition::parse(condition) {
                Ok(condition) => cases.push((name.clone(), condition)),
                Err(err) => faults.push(fault_of(&err).at(["cases", name])),
            }
        }
        if config.cases.is_empty() {
            faults.push(FlowFault::invalid("a branch has at least one case").at(["cases"]));
        }
        let value = Port::new(VALUE, PortType::ANY).required();
        let inputs = std::iter::once(value).chain(declared(&config.inputs)).collect();
        if faults.is_empty() { Ok(Self { inputs, cases }) } else { Err(faults) }
    }
}

impl Node for BranchNode {
    fn inputs(&self) -> Vec<Port> {
        self.inputs.clone()
    }

    fn outputs(&self) -> Vec<Port> {
        let names = self.cases.iter().map(|(name, _)| name.as_str()).chain([ELSE]);
        names.map(|it| Port::new(it, PortType::ANY)).collect()
    }

    fn run(self: Arc<Self>, cx: NodeContext) -> BoxFuture<'static, Result<Step, NodeError>> {
        Box::pin(async move {
            let scope = Scope::of(&cx);
            let mut taken = ELSE;
            for (name, condition) in &self.cases {
                if scope.holds(condition)? {
                    taken = name;
                    break;
                }
            }
            let value = cx.data(VALUE).cloned().unwrap_or(Value::Null);
            Ok(Step::done([(taken, PortValue::data(value))]))
        })
    }
}

impl Node for ParallelConfig {
    fn inputs(&self) -> Vec<Port> {
        vec![Port::new(VALUE, PortType::ANY)]
    }

    fn outputs(&self) -> Vec<Port> {
        self.branches.iter().map(|it| Port::new(it, PortType::ANY)).collect()
    }

    fn run(self: Arc<Self>, cx: NodeContext) -> BoxFuture<'static, Result<Step, NodeError>> {
        Box::pin(async move {
            let value = cx.inputs.get(VALUE).cloned().unwrap_or(PortValue::data(Value::Null));
            Ok(Step::done(self.branches.iter().map(|it| (it.clone(), value.clone()))))
        })
    }
}

/// Brings several ways together.
#[derive(Debug)]
pub(crate) struct JoinNode {
    inputs: Vec<Port>,
    policy: JoinPolicy,
}

impl JoinNode {
    pub(crate) fn new(config: &JoinConfig) -> Result<Self, Vec<FlowFault>> {
        if config.inputs.is_empty() {
            return Err(vec![FlowFault::invalid("a join has at least one input").at(["inputs"])]);
        }
        let inputs = declared(&config.inputs).map(Port::required).collect();
        Ok(Self { inputs, policy: config.policy })
    }
}

impl Node for JoinNode {
    fn inputs(&self) -> Vec<Port> {
        self.inputs.clone()
    }

    fn outputs(&self) -> Vec<Port> {
        match self.policy {
            JoinPolicy::All => vec![Port::new(VALUE, PortType::OBJECT)],
            JoinPolicy::Any => vec![Port::new(VALUE, PortType::ANY), Port::new("winner", PortType::STRING)],
        }
    }

    fn traits(&self) -> Traits {
        Traits { join: self.policy, ..Traits::default() }
    }

    fn run(self: Arc<Self>, cx: NodeContext) -> BoxFuture<'static, Result<Step, NodeError>> {
        Box::pin(async move {
            let came =
                self.inputs.iter().filter_map(|it| Some((it.name.clone(), cx.data(&it.name)?.clone())));
            match self.policy {
                JoinPolicy::All => {
                    let all: serde_json::Map<String, Value> = came.collect();
                    Ok(Step::done([(VALUE, PortValue::data(all))]))
                }
                JoinPolicy::Any => {
                    let (winner, value) = came.into_iter().next().unwrap_or_default();
                    Ok(Step::done([(VALUE, PortValue::data(value)), ("winner", PortValue::data(winner))]))
                }
            }
        })
    }
}
