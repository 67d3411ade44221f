//! Runs of flows: the scheduler's cost per node, and the cost of a waiting run.
//!
//! There is no floor: nodes do next to nothing and models answer immediately, so what remains is the scheduler.

use std::collections::BTreeMap;
use std::error::Error;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use contexture::agent::{Agent, CancellationToken, Secrets};
use contexture::compose::Prompt;
use contexture::message::{Answer, Delta};
use contexture::model::{Deltas, Model, ModelCall};
use contexture::session::Sessions;
use contexture::session::{Documents, MemoryStore, SessionConfig, Store};
use contexture::store_sqlite::{SqliteConfig, SqliteStore};
use contexture::{SystemNames, SystemTime, session_ports};
use contexture_flow::{
    CompileInputs, Flow, FlowDefinition, Library, RunId, RunStart, RunStatus, Runtime, RuntimeConfig,
    RuntimeParts, lower,
};
use futures::{StreamExt, stream};
use serde_json::{Map, Value, json};

use crate::data::StorePlace;
use crate::jobs::store::Scratch;
use crate::measure::{peak_rss_mb, rss_mb};

/// The user's question and the model's reply.
const QUESTION: &str = "Where is order A-7, and when will it be here?";
const REPLY: &str = "It left the warehouse this morning and will be with you on Friday.";
/// How many runs are brought to their wait at the same time.
const AT_ONCE: usize = 64;

struct Says;

impl Model for Says {
    fn stream(&self, _: ModelCall) -> Deltas {
        let done = Delta::Done(Box::new(Answer::text(REPLY)));
        stream::iter([Ok(Delta::Text(REPLY.to_owned())), Ok(done)]).boxed()
    }
}

struct NoSecrets;

impl Secrets for NoSecrets {
    fn next(&self) -> String {
        String::new()
    }
}

#[derive(Debug)]
struct Shop {
    agent: Agent,
    prompt: Prompt,
    flows: BTreeMap<String, Flow>,
}

impl Library for Shop {
    fn agent(&self) -> Agent {
        self.agent.clone()
    }

    fn prompt(&self, _: &str) -> Result<Prompt, String> {
        Ok(self.prompt.clone())
    }

    fn flow(&self, id: &str) -> Option<Flow> {
        self.flows.get(id).cloned()
    }
}

fn runtime<S: Store + Documents>(store: Arc<S>, flow: &Flow) -> Result<Runtime, Box<dyn Error>> {
    let agent = Agent::builder(Says, Arc::new(SystemTime), NoSecrets).build()?;
    let prompt = Prompt::builder("chat").model("openai/gpt-5-mini").system("You are kind.").build()?;
    let flows = BTreeMap::from([(flow.id().to_owned(), flow.clone())]);
    Ok(Runtime::new(RuntimeParts {
        sessions: Sessions::new(store.clone(), session_ports(None), SessionConfig::default()),
        documents: store,
        time: Arc::new(SystemTime),
        names: Arc::new(SystemNames),
        library: Arc::new(Shop { agent, prompt, flows }),
        config: RuntimeConfig::default(),
    }))
}

fn block_on<T>(work: impl Future<Output = Result<T, Box<dyn Error>>>) -> Result<T, Box<dyn Error>> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

fn flow_of(id: &str, document: &Value) -> Result<Flow, Box<dyn Error>> {
    Ok(lower(&FlowDefinition::read(id, document)?, &CompileInputs::default())?)
}

/// So many nodes, one behind the other.
fn chain(n_nodes: usize) -> Value {
    let mut nodes = Map::new();
    let mut edges = vec!["start.text -> n0.text".to_owned()];
    for idx in 0..n_nodes {
        nodes.insert(format!("n{idx}"), trivial());
        edges.push(format!("n{idx}.value -> n{}.text", idx + 1));
    }
    edges.pop();
    document(nodes, edges, n_nodes)
}

/// So many nodes side by side, between a `parallel` and a `join`.
fn wide(n_nodes: usize) -> Value {
    let ways: Vec<String> = (0..n_nodes).map(|idx| format!("w{idx}")).collect();
    let inputs: Map<String, Value> = ways.iter().map(|it| (it.clone(), json!("string"))).collect();
    let mut nodes = Map::new();
    let mut edges = vec!["start.text -> ways.value".to_owned()];
    for (idx, way) in ways.iter().enumerate() {
        nodes.insert(format!("n{idx}"), trivial());
        edges.push(format!("ways.{way} -> n{idx}.text"));
        edges.push(format!("n{idx}.value -> all.{way}"));
    }
    nodes.insert("ways".to_owned(), json!({"type": "parallel", "branches": ways}));
    nodes.insert("all".to_owned(), json!({"type": "join", "inputs": inputs}));
    document(nodes, edges, n_nodes)
}

fn trivial() -> Value {
    json!({"type": "transform", "inputs": {"text": "string"}, "template": "{{ text }}"})
}

fn document(nodes: Map<String, Value>, edges: Vec<String>, n_nodes: usize) -> Value {
    let limits = json!({"max_steps": n_nodes + 3});
    json!({"inputs": {"text": "string"}, "nodes": nodes, "edges": edges, "limits": limits})
}

/// Runs flows of so many trivial nodes on the store in memory, again and again for about `time`, and says what a node costs.
pub fn flow(n_nodes: usize, time: Duration) -> Result<Value, Box<dyn Error>> {
    let (chain, wide) = (chain_of(n_nodes)?, flow_of("wide", &wide(n_nodes))?);
    let (chain_us, runs) = per_node(&chain, n_nodes, time / 2)?;
    let (wide_us, _) = per_node(&wide, n_nodes, time / 2)?;
    let us = json!({"chain": chain_us, "wide": wide_us});
    Ok(json!({
        "name": "contexture", "job": "flow", "n": n_nodes, "median_us_per_node": us, "runs": runs,
        "rss_mb": peak_rss_mb(),
    }))
}

/// Returns a flow of so many trivial nodes, one behind the other.
pub fn chain_of(n_nodes: usize) -> Result<Flow, Box<dyn Error>> {
    flow_of("chain", &chain(n_nodes))
}

/// Runs a flow with the input `text` once, on a new store in memory, and says how long it took.
pub fn run_once(flow: &Flow) -> Result<Duration, Box<dyn Error>> {
    let runtime = runtime(Arc::new(MemoryStore::new(Arc::new(SystemTime))), flow)?;
    block_on(async {
        let start = RunStart { input: json!({"text": "Hello."}), ..RunStart::default() };
        let began = Instant::now();
        let run = runtime.start(flow, start).await?;
        let info = runtime.drive(&run, CancellationToken::new()).await?;
        match info.status {
            RunStatus::Completed => Ok(began.elapsed()),
            _ => Err(format!("{:?}", info.error).into()),
        }
    })
}

fn per_node(flow: &Flow, n_nodes: usize, time: Duration) -> Result<(f64, usize), Box<dyn Error>> {
    let mut samples = Vec::new();
    let began = Instant::now();
    while samples.len() < 3 || began.elapsed() < time {
        samples.push(run_once(flow)?);
    }
    samples.sort();
    let median = samples[samples.len() / 2].as_secs_f64() * 1e6;
    Ok(((median / n_nodes.max(1) as f64 * 100.0).round() / 100.0, samples.len()))
}

/// Lets so many runs of a chat say one thing and wait for the next, and says what they hold then. `place` is where the SQLite file goes;
/// without one the store is in memory.
pub fn waiting_runs(n_runs: usize, place: Option<&StorePlace>) -> Result<Value, Box<dyn Error>> {
    let flow = flow_of(
        "chat",
        &json!({
            "nodes": {
                "ask": {"type": "user_input", "message": "You?"},
                "answer": {"type": "llm_request", "prompt": "chat"},
            },
            "edges": ["start -> ask", "ask.value -> answer.user", "answer -> ask"],
            "outputs": {"text": "answer.text"},
        }),
    )?;
    let scratch = place.map(|it| Scratch::new(&it.scratch)).transpose()?;
    let time = Arc::new(SystemTime);
    let (store, runtime) = match &scratch {
        Some(scratch) => {
            let store = SqliteStore::open(scratch.0.join("contexture.db"), SqliteConfig::new(time))?;
            ("sqlite", runtime(Arc::new(store), &flow)?)
        }
        None => ("memory", runtime(Arc::new(MemoryStore::new(time)), &flow)?),
    };
    block_on(async {
        // The first run loads what is loaded once in a process.
        let run = begun(&runtime, &flow).await?;
        said(&runtime, &run).await?;
        let (before, began) = (rss_mb(), Instant::now());
        let runs = stream::iter(0..n_runs).map(|_| begun(&runtime, &flow)).buffer_unordered(AT_ONCE);
        let runs: Vec<Result<RunId, Box<dyn Error>>> = runs.collect().await;
        let runs = runs.into_iter().collect::<Result<Vec<_>, _>>()?;
        let waiting = rss_mb();
        let turns = stream::iter(&runs).map(|run| said(&runtime, run)).buffer_unordered(AT_ONCE);
        let done: Vec<Result<(), Box<dyn Error>>> = turns.collect().await;
        done.into_iter().collect::<Result<(), _>>()?;
        Ok(json!({
            "name": "contexture", "job": "waiting-runs", "n": n_runs, "store": store,
            "rss_mb_before": before, "rss_mb_waiting": waiting, "rss_mb_after_a_turn": rss_mb(), "peak_rss_mb": peak_rss_mb(),
            "us_per_run": (began.elapsed().as_secs_f64() * 1e6 / n_runs.max(1) as f64).round(),
        }))
    })
}

/// Brings a run to its first wait.
async fn begun(runtime: &Runtime, flow: &Flow) -> Result<RunId, Box<dyn Error>> {
    let run = runtime.start(flow, RunStart::default()).await?;
    runtime.drive(&run, CancellationToken::new()).await?;
    let_others().await;
    Ok(run)
}

/// Yields to the executor. The store in memory never waits, and without a yield tokio keeps the wakers of everything
/// that was polled beyond its budget, and with them the finished runs; their memory would be measured.
async fn let_others() {
    tokio::task::yield_now().await;
}

/// Says something in a run, and brings it to its next wait.
async fn said(runtime: &Runtime, run: &RunId) -> Result<(), Box<dyn Error>> {
    runtime.answer(run, "ask.1", json!(QUESTION)).await?;
    let info = runtime.drive(run, CancellationToken::new()).await?;
    let_others().await;
    match info.status {
        RunStatus::Waiting => Ok(()),
        _ => Err(format!("{:?}", info.error).into()),
    }
}
