//! The start of a run or a sub-flow.

use std::sync::Arc;

use contexture_compose::BoxFuture;
use indexmap::IndexMap;

use crate::{DataType, Node, NodeContext, NodeError, Port, PortType, PortValue, Step};

/// The names of the whole input and of the thread among the outputs of a start node.
const INPUT: &str = "input";
const THREAD: &str = "thread";

/// Gives what a run was given, or a sub-flow.
#[derive(Debug)]
pub(crate) struct StartNode {
    inputs: IndexMap<String, DataType>,
    is_gate: bool,
}

impl StartNode {
    /// The start of a sub-flow (`is_gate`) takes its inputs from edges.
    pub(crate) fn new(inputs: IndexMap<String, DataType>, is_gate: bool) -> Self {
        Self { inputs, is_gate }
    }

    fn ports(&self) -> impl Iterator<Item = Port> {
        self.inputs.iter().map(|(name, of)| Port::new(name, PortType::Data(of.clone())))
    }
}

impl Node for StartNode {
    fn inputs(&self) -> Vec<Port> {
        if !self.is_gate {
            return Vec::new();
        }
        self.ports().map(Port::required).chain([Port::new(THREAD, PortType::Thread)]).collect()
    }

    fn outputs(&self) -> Vec<Port> {
        let own = [Port::new(INPUT, PortType::OBJECT), Port::new(THREAD, PortType::Thread)];
        self.ports().chain(own).collect()
    }

    fn run(self: Arc<Self>, cx: NodeContext) -> BoxFuture<'static, Result<Step, NodeError>> {
        Box::pin(async move {
            let given = |name: &String| match self.is_gate {
                true => cx.data(name).cloned(),
                false => cx.data(INPUT).and_then(|it| it.get(name)).cloned(),
            };
            let values = self.inputs.keys().filter_map(|name| Some((name.clone(), given(name)?)));
            let values: serde_json::Map<_, _> = values.collect();
            let each = values.clone().into_iter().map(|(name, value)| (name, PortValue::data(value)));
            let thread = PortValue::Thread(cx.thread.id().clone());
            let own = [(INPUT.to_owned(), PortValue::data(values)), (THREAD.to_owned(), thread)];
            Ok(Step::done(each.chain(own)))
        })
    }
}
