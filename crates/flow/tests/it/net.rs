//! Random graphs, whose nodes end when the test lets them.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};

use contexture_compose::BoxFuture;
use contexture_flow::{
    CacheConfig, CacheScope, CustomConfig, DataType, Flow, FlowBuilder, JoinConfig, JoinPolicy, JsonType,
    Limits, Node, NodeContext, NodeDefinition, NodeError, NodeKind, OnError, ParallelConfig, Port, PortType,
    PortValue, Question, QuestionKind, Step, Traits, UserInputConfig,
};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::sync::oneshot;

/// What a node of a net does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Gives `out`.
    Work,
    /// Gives `x` or `y`, never both.
    Fork,
    /// Gives `out`, or fails and gives `error`.
    Flaky,
    /// Waits for somebody, then gives `out`.
    Ask,
    /// A join of all inputs.
    All,
    /// A join of any input.
    Any,
    /// Gives `x` and `y`.
    Parallel,
    /// A cache with a producer of its own, which it asks.
    Cache,
}

/// A node: its name is `n` and its number; inputs lead from nodes with lower numbers.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) kind: Kind,
    pub(crate) ports: Vec<Vec<Source>>,
    pub(crate) writes: bool,
    /// Whether its first input keeps its value.
    pub(crate) keeps: bool,
}

/// Where an edge comes from: a node and its output.
pub(crate) type Source = (String, &'static str);

/// A random graph.
#[derive(Clone, Debug)]
pub(crate) struct Net {
    pub(crate) cells: Vec<Cell>,
    pub(crate) max_concurrency: u32,
    /// Whether the last node leads back to a `user_input` before the first.
    pub(crate) is_loop: bool,
}

/// An edge: node, output, node, input.
pub(crate) type Wire = (String, &'static str, String, &'static str);

impl Kind {
    fn outputs(self) -> &'static [&'static str] {
        match self {
            Kind::Work | Kind::Ask => &["out"],
            Kind::Flaky => &["out", "error"],
            Kind::Fork | Kind::Parallel => &["x", "y"],
            Kind::All | Kind::Any | Kind::Cache => &["value"],
        }
    }

    /// The name of its n-th input.
    pub(crate) fn port(self, idx: usize) -> &'static str {
        match self {
            Kind::Parallel => "value",
            Kind::Cache => "key",
            _ => ["a", "b", "c"][idx],
        }
    }

    fn is_gated(self) -> bool {
        matches!(self, Kind::Work | Kind::Fork | Kind::Flaky | Kind::Ask)
    }

    /// What a node of the test's own gives, which depends on what it is given and nothing else.
    pub(crate) fn gives(self, node: &str, inputs: &BTreeMap<String, Value>) -> BTreeMap<String, Value> {
        let mut hasher = DefaultHasher::new();
        (node, serde_json::to_string(inputs).unwrap()).hash(&mut hasher);
        let digest = hasher.finish();
        let output = match (self, digest.is_multiple_of(2)) {
            (Kind::Fork, true) => "x",
            (Kind::Fork, false) => "y",
            (Kind::Flaky, true) => "error",
            _ => "out",
        };
        BTreeMap::from([(output.to_owned(), format!("{digest:x}").into())])
    }
}

impl Net {
    /// Where the tokens come from.
    pub(crate) fn root(&self) -> Source {
        if self.is_loop { ("ask".to_owned(), "value") } else { ("start".to_owned(), "seed") }
    }

    /// Whether the order in which nodes end can't matter.
    pub(crate) fn is_deterministic(&self) -> bool {
        let many = |it: &Cell| it.ports.iter().any(|sources| sources.len() > 1);
        !self.cells.iter().any(|it| it.keeps || it.kind == Kind::Any || many(it))
    }

    /// Lists the edges, without those to producers of caches.
    pub(crate) fn wires(&self) -> Vec<Wire> {
        let mut wires = Vec::new();
        for (idx, cell) in self.cells.iter().enumerate() {
            for (port, sources) in cell.ports.iter().enumerate() {
                let to = |(from, out): &Source| (from.clone(), *out, format!("n{idx}"), cell.kind.port(port));
                wires.extend(sources.iter().map(to));
            }
        }
        if self.is_loop {
            let last = self.cells.len() - 1;
            let out = self.cells[last].kind.outputs()[0];
            wires.push(("start".to_owned(), "done", "ask".to_owned(), "after"));
            wires.push((format!("n{last}"), out, "ask".to_owned(), "after"));
        }
        wires
    }

    /// Lists the numbers of the caches; each has a producer, `p` and the number, which the run's seed leads to.
    pub(crate) fn caches(&self) -> impl Iterator<Item = usize> {
        self.cells.iter().enumerate().filter(|(_, it)| it.kind == Kind::Cache).map(|(idx, _)| idx)
    }

    /// Makes a flow whose nodes wait at a gate.
    pub(crate) fn flow(&self, gate: &Gate) -> Flow {
        let limits = Limits { max_steps: 1_000_000, max_concurrency: self.max_concurrency };
        let string = DataType::of(JsonType::String);
        let mut flow = Flow::builder("net").input("seed", string).limits(limits);
        if self.is_loop {
            flow = flow.node("ask", NodeKind::UserInput(UserInputConfig::default()));
        }
        for (idx, cell) in self.cells.iter().enumerate() {
            flow = cell.add(flow, idx, gate);
        }
        for (from, output, to, input) in self.wires() {
            flow = flow.edge(format!("{from}.{output} -> {to}.{input}"));
        }
        for idx in self.caches() {
            let producer = Gated { kind: Kind::Work, n_ports: 1, writes: false, gate: gate.clone() };
            flow = flow
                .custom(format!("p{idx}"), producer)
                .edge(format!("start.seed -> p{idx}.a"))
                .edge(format!("p{idx}.out -> n{idx}.value"));
        }
        flow.build().unwrap_or_else(|err| panic!("{err}: {self:?}"))
    }
}

impl Cell {
    fn add(&self, flow: FlowBuilder, idx: usize, gate: &Gate) -> FlowBuilder {
        let id = format!("n{idx}");
        let keep = self.keeps.then(|| "a".to_owned()).into_iter().collect::<Vec<_>>();
        if self.kind.is_gated() {
            let gate = gate.clone();
            let work = Gated { kind: self.kind, n_ports: self.ports.len(), writes: self.writes, gate };
            let kind = NodeKind::Custom(CustomConfig { name: id.clone(), config: Value::Null });
            let on_error = if self.kind == Kind::Flaky { OnError::Emit } else { OnError::Fail };
            return flow.custom(&id, work).node(id, NodeDefinition { keep, on_error, ..kind.into() });
        }
        let any = DataType::of(JsonType::Any);
        let inputs = (0..self.ports.len()).map(|it| (self.kind.port(it).to_owned(), any.clone())).collect();
        let kind = match self.kind {
            Kind::Any => NodeKind::Join(JoinConfig { inputs, policy: JoinPolicy::Any }),
            Kind::Parallel => {
                NodeKind::Parallel(ParallelConfig { branches: vec!["x".to_owned(), "y".to_owned()] })
            }
            Kind::Cache => NodeKind::Cache(CacheConfig { scope: CacheScope::Run, ..CacheConfig::default() }),
            _ => NodeKind::Join(JoinConfig { inputs, policy: JoinPolicy::All }),
        };
        flow.node(id, NodeDefinition { keep, ..kind.into() })
    }
}

/// Returns random nets.
pub(crate) fn nets() -> impl Strategy<Value = Net> {
    let sources = prop_oneof![6 => vec(any::<u16>(), 1..=1), 1 => vec(any::<u16>(), 2..=2)];
    let cell = (0..14_u8, vec(sources, 1..=3), any::<bool>(), 0..8_u8);
    (vec(cell, 1..10), 1..5_u32, 0..4_u8).prop_map(|(cells, max_concurrency, is_loop)| {
        let mut net = Net { cells: Vec::new(), max_concurrency, is_loop: is_loop == 0 };
        let mut outputs = vec![net.root()];
        for (idx, (kind, picks, writes, keeps)) in cells.into_iter().enumerate() {
            let kind = kind_of(kind);
            let n_ports = if matches!(kind, Kind::Parallel | Kind::Cache) { 1 } else { picks.len() };
            let source = |pick: &u16| outputs[usize::from(*pick) % outputs.len()].clone();
            let ports = picks.iter().take(n_ports).map(|picks| {
                let mut sources: Vec<Source> = picks.iter().map(source).collect();
                sources.dedup();
                sources
            });
            let ports: Vec<Vec<Source>> = ports.collect();
            outputs.extend(kind.outputs().iter().map(|it| (format!("n{idx}"), *it)));
            let keeps = keeps == 0 && ports.len() > 1 && kind != Kind::Any;
            net.cells.push(Cell { kind, ports, writes, keeps });
        }
        net
    })
}

fn kind_of(number: u8) -> Kind {
    match number {
        0 => Kind::Fork,
        1 => Kind::Flaky,
        2 | 3 => Kind::Ask,
        4 => Kind::All,
        5 => Kind::Any,
        6 => Kind::Parallel,
        7 | 8 => Kind::Cache,
        _ => Kind::Work,
    }
}

/// Where nodes wait until the test lets them go on, and where it is counted how many are at work.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate(Arc<Mutex<Doors>>);

#[derive(Debug, Default)]
struct Doors {
    waiting: Vec<(String, oneshot::Sender<()>)>,
    inside: Vec<(String, bool)>,
    /// The most nodes that were at work at the same time, and the most of them that write.
    most: (usize, usize),
}

impl Gate {
    async fn pass(&self, node: &str, writes: bool) {
        let (sender, receiver) = oneshot::channel();
        {
            let mut doors = self.0.lock().unwrap();
            assert!(!doors.inside.iter().any(|it| it.0 == node), "{node} runs twice at the same time");
            doors.inside.push((node.to_owned(), writes));
            let now = (doors.inside.len(), doors.inside.iter().filter(|it| it.1).count());
            doors.most = (doors.most.0.max(now.0), doors.most.1.max(now.1));
            doors.waiting.push((node.to_owned(), sender));
            doors.waiting.sort_by(|a, b| a.0.cmp(&b.0));
        }
        receiver.await.unwrap();
        self.0.lock().unwrap().inside.retain(|it| it.0 != node);
    }

    /// Lets one of those who wait go on; returns whether anybody waits.
    pub(crate) fn open(&self, pick: usize) -> bool {
        let mut doors = self.0.lock().unwrap();
        if doors.waiting.is_empty() {
            return false;
        }
        let idx = pick % doors.waiting.len();
        doors.waiting.remove(idx).1.send(()).is_ok()
    }

    /// The most nodes that were at work at the same time, and the most of them that write.
    pub(crate) fn most(&self) -> (usize, usize) {
        self.0.lock().unwrap().most
    }
}

/// A node that waits at the gate before it gives anything.
#[derive(Debug)]
struct Gated {
    kind: Kind,
    n_ports: usize,
    writes: bool,
    gate: Gate,
}

impl Node for Gated {
    fn inputs(&self) -> Vec<Port> {
        (0..self.n_ports).map(|it| Port::new(self.kind.port(it), PortType::ANY).required()).collect()
    }

    fn outputs(&self) -> Vec<Port> {
        let own = self.kind.outputs().iter().filter(|it| **it != "error");
        own.map(|it| Port::new(*it, PortType::ANY)).collect()
    }

    fn traits(&self) -> Traits {
        Traits { writes: self.writes, ..Traits::default() }
    }

    fn run(self: Arc<Self>, cx: NodeContext) -> BoxFuture<'static, Result<Step, NodeError>> {
        Box::pin(async move {
            self.gate.pass(&cx.node, self.writes).await;
            if self.kind == Kind::Ask && cx.answer.is_none() {
                let asked = Question {
                    kind: QuestionKind::Input,
                    message: String::new(),
                    schema: json!({}),
                    about: Value::Null,
                };
                return Ok(Step::Wait(asked));
            }
            let inputs = cx.inputs.iter().map(|(name, value)| (name.clone(), value.to_json())).collect();
            let mut gives = self.kind.gives(&cx.node, &inputs);
            match gives.remove("error") {
                Some(Value::String(message)) => Err(NodeError::new("flaky", message)),
                _ => Ok(Step::done(gives.into_iter().map(|(name, it)| (name, PortValue::data(it))))),
            }
        })
    }
}
