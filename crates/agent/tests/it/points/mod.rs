//! What users saw go wrong in long conversations, point by point, through the public interface alone.
//!
//! Events and reports are read as JSON, which is what users see of them.

mod facts;
mod limits;
mod results;
mod unseen;
mod words;

use std::sync::Arc;

use contexture_agent::{Agent, AgentConfig, AgentError, CompactionConfig, Event, Outcome, RunRequest, Tool};
use contexture_compose::{HistoryConfig, Prompt};
use contexture_message::{Answer, Message, Part, Request, Tokens, ToolCall, ToolDefinition, Usage};
use contexture_model::Step;
use contexture_wire::{Catalogue, ModelFacts};
use futures::StreamExt;
use serde_json::{Value, json};

use crate::readable::{dense, page, tokens};
use crate::scene::{Acting, Passes, Summaries, words};
use crate::stage::{Counting, Stage, TestTime, says};

/// A model whose tokens are counted exactly.
const MODEL: &str = "test/gpt-4o";

/// What is said of standing instructions in the points.
const INSTRUCTIONS: [&str; 8] = [
    "My name is Ada Lovelace.",
    "Always answer in German.",
    "Never mention prices.",
    "I am allergic to peanuts.",
    "From now on call me Countess.",
    "Use metric units.",
    "Our deadline is 3 May.",
    "Please do not use emojis.",
];

/// What differs from scene to scene.
struct Setup {
    /// The configured window, of which 512 tokens are kept free.
    window: Option<u32>,
    compaction: CompactionConfig,
    /// Without one the model is asked.
    summaries: Option<Summaries>,
    history: Option<HistoryConfig>,
    others: Vec<(String, ModelFacts)>,
    model: &'static str,
}

impl Setup {
    fn window(tokens: u32) -> Self {
        Self {
            window: Some(tokens),
            compaction: CompactionConfig::default(),
            summaries: Some(Summaries::faithful()),
            history: None,
            others: Vec::new(),
            model: MODEL,
        }
    }
}

struct Scene {
    stage: Stage,
    model: Acting,
    agent: Agent,
    prompt: Prompt,
    passes: Passes,
}

/// What a run told, and how it ended.
struct Told {
    events: Vec<Value>,
    outcome: Result<Outcome, AgentError>,
}

impl Told {
    fn of_type(&self, kind: &str) -> Vec<&Value> {
        self.events.iter().filter(|it| it["type"] == kind).collect()
    }

    /// Every compaction that changed something.
    fn compactions(&self) -> Vec<&Value> {
        let is_report = |it: &&Value| it["type"] == "compaction" || it["type"] == "context_compaction_end";
        self.events.iter().filter(is_report).filter(|it| it["made"] != "unchanged").collect()
    }

    fn ok(&self) -> &Outcome {
        match &self.outcome {
            Ok(outcome) => outcome,
            Err(err) => panic!("{}: {err}\n{:#?}", err.code(), self.compactions()),
        }
    }
}

fn facts(window: u32) -> ModelFacts {
    ModelFacts {
        context_window: Some(Tokens(window)),
        output_reserve: Some(Tokens(512)),
        ..ModelFacts::default()
    }
}

/// A tool whose results have as many characters as it is asked for.
fn fetch() -> Tool {
    Tool::new(ToolDefinition::new("fetch", "Fetches a page."), |it| async move {
        Ok(fetched(&it.call.arguments).into())
    })
    .unwrap()
}

fn fetched(arguments: &Value) -> String {
    let chars = usize::try_from(arguments["chars"].as_u64().unwrap()).unwrap();
    let name = format!("page {}", arguments["n"]);
    if arguments["dense"] == true { dense(&name, chars) } else { page(&name, chars) }
}

/// Calls `fetch` for these pages at once: `c1` is the call for page 1.
fn fetches(pages: std::ops::Range<usize>, chars: usize) -> Step {
    fetches_like(pages, chars, false)
}

/// The same; dense pages have more tokens.
fn fetches_like(pages: std::ops::Range<usize>, chars: usize, dense: bool) -> Step {
    let parts = pages.map(|n| {
        let arguments = json!({"n": n, "chars": chars, "dense": dense});
        Part::ToolCall(ToolCall { id: format!("c{n}"), name: "fetch".to_owned(), arguments })
    });
    Step::Answer(Answer { usage: Usage::default(), ..Answer::parts(parts.collect()) })
}

impl Scene {
    async fn new(setup: Setup, act: impl Fn(&Request, usize) -> Step + Send + Sync + 'static) -> Self {
        let stage = Stage::new().await;
        let model =
            Acting::new(&stage.thread, move |request, number| truthful(act(request, number), request));
        let passes = Passes::default();
        let prompt = Prompt::builder("p").model(setup.model).system("Be brief.");
        let prompt = match setup.history {
            Some(history) => prompt.history(history),
            None => prompt,
        };
        let prompt = passes.watch(prompt).build().unwrap();
        let config = AgentConfig { compaction: setup.compaction, max_steps: 200, ..AgentConfig::default() };
        let known = setup.window.map(|it| (MODEL.to_owned(), facts(it))).into_iter().chain(setup.others);
        let builder = Agent::builder(model.clone(), Arc::new(TestTime), Counting::default())
            .config(config)
            .catalogue(Catalogue::standard().with_models(known.collect()))
            .tool(fetch());
        let builder = match setup.summaries {
            Some(summaries) => builder.summarizer(summaries),
            None => builder,
        };
        Self { stage, model, agent: builder.build().unwrap(), prompt, passes }
    }

    async fn talk(&self, text: &str) -> Told {
        let mut run = self.agent.run(&self.prompt, &self.stage.thread, RunRequest::user(text));
        let mut events = Vec::new();
        while let Some(event) = run.next().await {
            events.push(event);
        }
        let events = events.iter().map(|it: &Event| json!(it)).collect();
        Told { events, outcome: run.outcome().await }
    }

    /// Turns that were before, each with a question and an answer of about so many tokens together.
    async fn filled(&self, turns: usize, tokens: usize) {
        for turn in 0..turns {
            let question = Message::user(words(&format!("question {turn}"), tokens / 2));
            let answer = Message::assistant(words(&format!("answer {turn}"), tokens / 2));
            self.stage.thread.add_messages(vec![question, answer]).await.unwrap();
        }
    }

    /// The requests of the conversation, without those for summaries.
    fn requests(&self) -> Vec<Arc<Request>> {
        self.model.requests().into_iter().filter(|it| self.passes.has(it)).collect()
    }

    /// The requests for summaries that the model got.
    fn summary_requests(&self) -> Vec<Arc<Request>> {
        self.model.requests().into_iter().filter(|it| !self.passes.has(it)).collect()
    }
}

/// Reports what the model read, where the script does not say.
fn truthful(step: Step, request: &Request) -> Step {
    match step {
        Step::Answer(answer) if answer.usage.input_tokens <= 10 => {
            let usage = Usage { input_tokens: tokens(request).into(), output_tokens: 10, ..Usage::default() };
            Step::Answer(Answer { usage, ..answer })
        }
        other => other,
    }
}

/// The messages of a request without the system's.
fn n_messages(request: &Request) -> u64 {
    let said = request.messages.iter().filter(|it| it.role != contexture_message::Role::System);
    u64::try_from(said.count()).unwrap()
}

fn fine(_: &Request, _: usize) -> Step {
    Step::Answer(says("Fine."))
}

/// How a configuration is written by users.
fn configured(value: Value) -> CompactionConfig {
    serde_json::from_value(value).unwrap()
}
