//! The replay with this library's agent, as an application would use it.

use std::collections::{BTreeMap, VecDeque};
use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use contexture::SystemNames;
use contexture::agent::{Agent, AgentConfig, RunRequest, Secrets, Tool};
use contexture::compose::{Block, Prompt};
use contexture::message::{Answer, Message, Request, Role, ToolDefinition, ToolOutput};
use contexture::message::{Part, Tokens};
use contexture::model::{Deltas, Model, ModelCall, ModelError, ModelErrorKind};
use contexture::session::Ports;
use contexture::session::{MemoryStore, SessionConfig, SessionStart, Sessions, Thread};
use contexture::wire::Catalogue;
use contexture::wire::ModelFacts;
use futures::StreamExt;
use futures::executor::block_on;
use futures::stream;
use serde_json::{Value, json};

use super::scene::CALL;
use super::{Provider, ReplayClock, ReplayConfig, Scene, SceneTurn, SimulatedProvider, Tally};

/// The tokens reserved for the answer, in addition to the window.
const RESERVE: Tokens = Tokens(8192);

/// How the agent is set up: the one place to change for a replay with other settings.
struct Setup {
    sessions: SessionConfig,
    agent: AgentConfig,
    catalogue: Catalogue,
    prompt: Prompt,
}

impl Setup {
    fn new(scene: &Scene, config: &ReplayConfig, provider: Provider) -> Result<Self, Box<dyn Error>> {
        let window = Tokens(config.window.0.saturating_add(RESERVE.0));
        let facts = ModelFacts {
            context_window: Some(window),
            output_reserve: Some(RESERVE),
            ..ModelFacts::default()
        };
        let models = BTreeMap::from([(provider.model().to_owned(), facts)]);
        let mut prompt = Prompt::builder("replay").model(provider.model()).system(scene.system.as_str());
        for name in scene.turns.first().map(|it| it.inline.keys().copied()).into_iter().flatten() {
            prompt = prompt.include(inline_block(name));
        }
        Ok(Self {
            // Calls take longer than a lease on the replay's clock.
            sessions: SessionConfig { lease: Duration::from_secs(3600), ..SessionConfig::default() },
            agent: AgentConfig::default(),
            catalogue: Catalogue::standard().with_models(models),
            prompt: prompt.build()?,
        })
    }
}

/// The application's current state accompanies the user's message.
fn inline_block(name: &'static str) -> Block {
    let body = move |call: contexture::prelude::Call| async move {
        Ok(call.input.value()[name].as_str().unwrap_or_default().to_owned())
    };
    Block::dynamic(name, body).user().turn()
}

/// Returns the request of a turn: the user's message and the application's state.
fn run_request(turn: &SceneTurn) -> RunRequest {
    RunRequest::user(turn.user.as_str()).input(json!(turn.inline))
}

/// Replays a scene with the agent.
pub(super) fn replay(
    scene: &Scene,
    config: &ReplayConfig,
    provider: Provider,
) -> Result<Tally, Box<dyn Error>> {
    let clock = ReplayClock::default();
    let setup = Setup::new(scene, config, provider)?;
    let model =
        Recorded::new(SimulatedProvider::new(provider, config.window)?, clock.clone(), &scene.summary);
    let thread = thread(setup.sessions, provider, &clock)?;
    let mut agent = Agent::builder(model.clone(), Arc::new(clock.clone()), NoSecrets)
        .config(setup.agent)
        .catalogue(setup.catalogue);
    let results = Arc::new(results(scene));
    for tool in &scene.tools {
        agent = agent.tool(recorded_tool(tool, &results)?);
    }
    let agent = agent.build()?;
    for (turn, n) in scene.turns.iter().zip(1..) {
        clock.pass(turn.pause);
        model.expect(turn);
        block_on(agent.run(&setup.prompt, &thread, run_request(turn)).outcome())?;
        let left = model.state().answers.len();
        if left > 0 {
            return Err(format!("the agent ended turn {n} with {left} recorded answers to go").into());
        }
    }
    let tally = model.state().provider.tally();
    Ok(tally)
}

fn thread(config: SessionConfig, provider: Provider, clock: &ReplayClock) -> Result<Thread, Box<dyn Error>> {
    let store = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
    let ports =
        Ports { time: Arc::new(clock.clone()), names: Arc::new(SystemNames), counter: provider.counter() };
    let session = block_on(Sessions::new(store, ports, config).create(SessionStart::default()))?;
    Ok(session.main().clone())
}

/// Returns what the tools gave, by the id of the call.
fn results(scene: &Scene) -> BTreeMap<String, String> {
    let messages = scene.turns.iter().flat_map(|it| &it.rounds).flat_map(|it| &it.results);
    let parts = messages.flat_map(|it| &it.content);
    let results = parts.filter_map(|it| match it {
        Part::ToolResult(result) => match &result.output {
            ToolOutput::Text(text) => Some((result.call_id.clone(), text.clone())),
            _ => None,
        },
        _ => None,
    });
    results.collect()
}

/// A tool that gives what it gave when the conversation was recorded.
fn recorded_tool(
    tool: &ToolDefinition,
    results: &Arc<BTreeMap<String, String>>,
) -> Result<Tool, Box<dyn Error>> {
    let results = Arc::clone(results);
    let run = move |it: contexture::agent::Invocation| {
        let result = results.get(&it.call.id).cloned().unwrap_or_default();
        async move { Ok(Value::from(result)) }
    };
    Ok(Tool::new(tool.clone(), run)?)
}

/// A model that answers what it answered when the conversation was recorded. Clones are the same model.
#[derive(Clone)]
struct Recorded(Arc<Mutex<State>>);

struct State {
    provider: SimulatedProvider,
    clock: ReplayClock,
    summary: String,
    /// What the user says in the running turn.
    user: String,
    /// What is still to be answered in it.
    answers: VecDeque<Message>,
}

impl Recorded {
    fn new(provider: SimulatedProvider, clock: ReplayClock, summary: &str) -> Self {
        let (user, answers) = (String::new(), VecDeque::new());
        Self(Arc::new(Mutex::new(State { provider, clock, summary: summary.to_owned(), user, answers })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says which turn comes next.
    fn expect(&self, turn: &SceneTurn) {
        let mut state = self.state();
        state.user.clone_from(&turn.user);
        state.answers = turn.rounds.iter().map(|it| it.answer.clone()).collect();
    }
}

impl State {
    fn answer(&mut self, request: &Request) -> Result<Answer, ModelError> {
        let invalid = |why: String| ModelError::new(ModelErrorKind::Invalid, why);
        let message = match asked_for_summary(request, &self.user) {
            Some(prompt) => Message::assistant(summary(&self.summary, &prompt)),
            None => self.answers.pop_front().ok_or_else(|| invalid("the turn is over".to_owned()))?,
        };
        self.clock.pass(CALL);
        let usage = self.provider.call(request, &message, self.clock.elapsed());
        let usage = usage.map_err(|err| invalid(err.to_string()))?;
        Ok(Answer { usage, ..Answer::parts(message.content) })
    }
}

/// A request that does not end with the running turn asks for something else: a summary. Returns how it asks.
fn asked_for_summary(request: &Request, user: &str) -> Option<String> {
    let last = request.messages.iter().rfind(|it| it.role == Role::User)?;
    let texts: Vec<&str> = last.content.iter().filter_map(said).collect();
    let is_turn = texts.iter().any(|it| it.contains(user));
    (!is_turn).then(|| texts.join("\n"))
}

fn said(part: &Part) -> Option<&str> {
    match part {
        Part::Text { text, .. } => Some(text),
        _ => None,
    }
}

/// A summary by a model that follows its instructions: it repeats the facts that must be kept.
fn summary(text: &str, prompt: &str) -> String {
    let facts: Vec<&str> = prompt.lines().filter(|it| it.starts_with("- ")).collect();
    format!("{text}\n\n{}", facts.join("\n"))
}

impl Model for Recorded {
    fn stream(&self, call: ModelCall) -> Deltas {
        let model = self.clone();
        // Nothing happens before the stream is polled.
        let answered = async move { model.state().answer(&call.request) };
        let pieces = stream::once(answered).flat_map(|it| {
            let pieces = match it {
                Ok(answer) => answer.deltas().into_iter().map(Ok).collect(),
                Err(err) => vec![Err(err)],
            };
            stream::iter(pieces)
        });
        pieces.boxed()
    }
}

/// Nothing in a replay waits for approval.
struct NoSecrets;

impl Secrets for NoSecrets {
    fn next(&self) -> String {
        String::new()
    }
}
