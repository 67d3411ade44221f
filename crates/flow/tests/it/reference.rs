//! What a scheduler must do, said a second time and as simply as possible: the n-th firing of a node takes the n-th value that ever came
//! to each of its inputs.

use std::collections::BTreeMap;

use contexture_flow::{RunEvent, RunStatus};
use serde_json::{Value, json};

use crate::net::{Kind, Net, Wire};

type Inputs = BTreeMap<String, Value>;

/// Reads a run's log, event by event, and panics where it is wrong.
#[derive(Debug)]
pub(crate) struct Reference {
    nodes: BTreeMap<String, State>,
    wires: Vec<Wire>,
    max_concurrency: usize,
    /// Whether nothing is begun any more.
    is_over: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Nothing,
    Work,
    /// It waits for somebody, or for a producer.
    Wait,
}

#[derive(Debug)]
struct State {
    ports: Vec<&'static str>,
    kind: Option<Kind>,
    keeps: bool,
    writes: bool,
    /// How often it was asked for, if it is a producer.
    asked: Option<u32>,
    /// Everything that ever came, by input.
    came: BTreeMap<&'static str, Vec<Value>>,
    fired: u32,
    doing: Doing,
}

impl State {
    fn new(ports: Vec<&'static str>, kind: Option<Kind>) -> Self {
        let (keeps, writes, asked, came) = (false, false, None, BTreeMap::new());
        Self { ports, kind, keeps, writes, asked, came, fired: 0, doing: Doing::Nothing }
    }

    fn nth(&self, port: &str) -> Option<&Value> {
        let came = self.came.get(port)?;
        let is_kept = self.asked.is_some() || (self.keeps && self.ports[0] == port);
        if is_kept { came.last() } else { came.get(self.fired as usize) }
    }

    /// Returns what it would begin with now, if it can.
    fn next(&self) -> Option<Inputs> {
        if self.asked.is_some_and(|it| it <= self.fired) {
            return None;
        }
        let mut has = self.ports.iter().filter_map(|it| Some(((*it).to_owned(), self.nth(it)?.clone())));
        if self.kind == Some(Kind::Any) {
            return has.next().map(|it| Inputs::from([it]));
        }
        let inputs: Inputs = has.collect();
        (inputs.len() == self.ports.len()).then_some(inputs)
    }

    /// Whether something came in vain.
    fn is_starved(&self) -> bool {
        let mut triggers = self.ports.iter().skip(usize::from(self.keeps));
        self.asked.is_none() && self.next().is_none() && triggers.any(|it| self.nth(it).is_some())
    }
}

impl Reference {
    pub(crate) fn new(net: &Net) -> Self {
        let mut nodes = BTreeMap::new();
        if net.is_loop {
            nodes.insert("ask".to_owned(), State::new(vec!["after"], None));
        }
        let mut wires = net.wires();
        for (idx, cell) in net.cells.iter().enumerate() {
            let ports = (0..cell.ports.len()).map(|it| cell.kind.port(it)).collect();
            let state = State { keeps: cell.keeps, ..State::new(ports, Some(cell.kind)) };
            let is_gated = matches!(cell.kind, Kind::Work | Kind::Fork | Kind::Flaky | Kind::Ask);
            nodes.insert(format!("n{idx}"), State { writes: cell.writes && is_gated, ..state });
        }
        for idx in net.caches() {
            let state = State { asked: Some(0), ..State::new(vec!["a"], None) };
            nodes.insert(format!("p{idx}"), state);
            wires.push(("start".to_owned(), "seed", format!("p{idx}"), "a"));
        }
        let mut start = State::new(vec!["begin"], None);
        start.came.insert("begin", vec![json!(true)]);
        nodes.insert("start".to_owned(), start);
        Self { nodes, wires, max_concurrency: net.max_concurrency as usize, is_over: false }
    }

    /// Checks a whole log.
    pub(crate) fn read(net: &Net, log: &[(u64, RunEvent)]) -> Self {
        let mut reference = Self::new(net);
        assert!(log.is_sorted_by(|one, next| one.0 < next.0), "numbers rise");
        log.iter().for_each(|(_, event)| reference.hear(event));
        reference
    }

    fn hear(&mut self, event: &RunEvent) {
        assert!(!self.is_over, "{event:?} behind the end");
        match event {
            RunEvent::NodeStart { node, firing, inputs, .. } => {
                let inputs = inputs.iter().map(|(name, it)| (name.clone(), it.to_json())).collect();
                self.start(node, *firing, &inputs);
            }
            RunEvent::NodePull { node, .. } => {
                self.settled(event);
                self.does(node, Doing::Work, Doing::Wait);
                *self.producer(node).asked.as_mut().unwrap() += 1;
            }
            RunEvent::NodeWait { node, .. } => {
                self.settled(event);
                self.does(node, Doing::Work, Doing::Wait);
            }
            RunEvent::NodeAnswer { node, .. } => self.does(node, Doing::Wait, Doing::Wait),
            RunEvent::NodeResume { node, .. } => self.does(node, Doing::Wait, Doing::Work),
            RunEvent::NodeEnd { node, firing, outputs, error } => {
                let is_cancelled = error.as_ref().is_some_and(|it| it.code == "cancelled");
                if is_cancelled {
                    return;
                }
                self.settled(event);
                self.does(node, Doing::Work, Doing::Nothing);
                assert_eq!(self.nodes[&**node].fired, *firing);
                if let Some(idx) = node.strip_prefix('p') {
                    return self.does(&format!("n{idx}"), Doing::Wait, Doing::Work);
                }
                for (name, value) in &**outputs {
                    self.arrive(node, name, &value.to_json());
                }
            }
            RunEvent::NodeRepeat { node, .. } => self.does(node, Doing::Work, Doing::Work),
            RunEvent::RunWait { .. } => {
                self.settled(event);
                assert_eq!(self.n_working(), 0);
            }
            RunEvent::RunEnd { status, .. } => {
                self.is_over = true;
                if *status != RunStatus::Cancelled {
                    self.settled(event);
                    assert!(self.nodes.values().all(|it| it.doing == Doing::Nothing), "{self:#?}");
                }
            }
            RunEvent::RunStart { .. } | RunEvent::RunResume {} => {}
            RunEvent::NodeTurn { .. } | RunEvent::NodeEvent { .. } => {}
            RunEvent::NodeRetry { .. } => panic!("nobody asked for another try"),
        }
    }

    fn start(&mut self, node: &str, firing: u32, inputs: &Inputs) {
        assert!(self.n_working() < self.max_concurrency, "{node} begins, and enough nodes work");
        assert!(!self.is_blocked(node), "{node} begins, and somebody writes to its thread");
        let state = self.nodes.get_mut(node).unwrap();
        assert_eq!((state.doing, state.fired + 1), (Doing::Nothing, firing), "{node}");
        let next = state.next().unwrap_or_else(|| panic!("{node} begins without its inputs"));
        if node != "start" {
            assert_eq!(*inputs, next, "inputs of {node} {firing}");
        }
        (state.doing, state.fired) = (Doing::Work, firing);
    }

    fn arrive(&mut self, node: &str, output: &str, value: &Value) {
        let to = self.wires.iter().filter(|it| it.0 == node && it.1 == output);
        for (_, _, to, input) in to {
            self.nodes.get_mut(to).unwrap().came.entry(input).or_default().push(value.clone());
        }
    }

    fn does(&mut self, node: &str, before: Doing, now: Doing) {
        let state = self.nodes.get_mut(node).unwrap();
        assert_eq!(state.doing, before, "{node}");
        state.doing = now;
    }

    fn producer(&mut self, node: &str) -> &mut State {
        self.nodes.get_mut(&node.replace('n', "p")).unwrap()
    }

    fn n_working(&self) -> usize {
        self.nodes.values().filter(|it| it.doing == Doing::Work).count()
    }

    fn is_blocked(&self, node: &str) -> bool {
        let writes = |it: &State| it.writes && it.doing != Doing::Nothing;
        self.nodes[node].writes && self.nodes.values().any(writes)
    }

    /// Whoever can begin has begun.
    fn settled(&self, event: &RunEvent) {
        if self.n_working() >= self.max_concurrency {
            return;
        }
        for (name, state) in &self.nodes {
            let can = state.doing == Doing::Nothing && state.next().is_some() && !self.is_blocked(name);
            assert!(!can, "{name} has not begun before {event:?}");
        }
    }

    /// Lists the nodes to which something came in vain.
    pub(crate) fn starved(&self) -> Vec<&str> {
        self.nodes.iter().filter(|(_, it)| it.is_starved()).map(|(name, _)| name.as_str()).collect()
    }
}

/// Says what the nodes of a net without loops begin with, firing by firing, if the order of ends can't matter. Nothing here is scheduled:
/// each node makes streams of streams.
pub(crate) fn streams(net: &Net, seed: &str) -> BTreeMap<String, Vec<Inputs>> {
    let mut given: BTreeMap<(String, &str), Vec<Value>> = BTreeMap::new();
    given.insert(("start".to_owned(), "seed"), vec![json!(seed)]);
    let mut firings = BTreeMap::new();
    for (idx, cell) in net.cells.iter().enumerate() {
        let name = format!("n{idx}");
        let streams: Vec<&[Value]> =
            cell.ports.iter().map(|it| given.get(&it[0]).map_or(&[][..], Vec::as_slice)).collect();
        let n_firings = streams.iter().map(|it| it.len()).min().unwrap_or_default();
        let nth = |n: usize| {
            let ports = streams.iter().enumerate();
            ports.map(|(port, it)| (cell.kind.port(port).to_owned(), it[n].clone())).collect::<Inputs>()
        };
        let inputs: Vec<Inputs> = (0..n_firings).map(nth).collect();
        let mut keys = Vec::new();
        for inputs in &inputs {
            for (output, value) in outputs(cell.kind, idx, inputs, seed, &mut keys) {
                given.entry((name.clone(), output)).or_default().push(value);
            }
        }
        if cell.kind == Kind::Cache {
            firings
                .insert(format!("p{idx}"), vec![Inputs::from([("a".to_owned(), json!(seed))]); keys.len()]);
        }
        firings.insert(name, inputs);
    }
    firings.retain(|_, it| !it.is_empty());
    firings
}

fn outputs(
    kind: Kind,
    idx: usize,
    inputs: &Inputs,
    seed: &str,
    keys: &mut Vec<Value>,
) -> Vec<(&'static str, Value)> {
    match kind {
        Kind::All => vec![("value", json!(inputs))],
        Kind::Parallel => ["x", "y"].map(|it| (it, inputs["value"].clone())).to_vec(),
        Kind::Cache => {
            if !keys.contains(&inputs["key"]) {
                keys.push(inputs["key"].clone());
            }
            let asked = Inputs::from([("a".to_owned(), json!(seed))]);
            vec![("value", Kind::Work.gives(&format!("p{idx}"), &asked)["out"].clone())]
        }
        kind => {
            let gives = kind.gives(&format!("n{idx}"), inputs).into_iter().next();
            match gives.unwrap() {
                (name, message) if name == "error" => {
                    vec![("error", json!({"code": "flaky", "message": message}))]
                }
                (name, value) => vec![(["out", "x", "y"].into_iter().find(|it| *it == name).unwrap(), value)],
            }
        }
    }
}
