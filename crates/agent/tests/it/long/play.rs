//! Plays a conversation: what the user says, which tools the model calls, and a look at everything after each turn.

use std::sync::Arc;

use contexture_agent::{Agent, AgentConfig, Event, RunRequest, Tool};
use contexture_compose::{BoxError, Prompt};
use contexture_message::{Tokens, ToolCall, ToolDefinition, ToolOutput};
use contexture_wire::{Catalogue, ModelFacts};
use futures::StreamExt;
use serde_json::{Value, json};

use super::check::Checks;
use super::provider::{Does, Provider, Random, World};
use crate::readable::{dense, page};
use crate::scene::Passes;
use crate::stage::{Counting, Stage, TestTime, event_text};

/// What the user says once, in the first turns, and wants to be heeded for ever.
pub(super) const INSTRUCTIONS: [&str; 12] = [
    "My name is Ada Lovelace.",
    "Always answer in German.",
    "Never mention prices.",
    "I am allergic to peanuts.",
    "From now on call me Countess.",
    "Use metric units.",
    "Our deadline is 3 May.",
    "Please do not use emojis.",
    "Antworte immer in ganzen Sätzen.",
    "Verwende bitte keine Abkürzungen.",
    "Ich bin allergisch gegen Nüsse.",
    "Nenne niemals den Namen meines Hundes.",
];

/// Which of them a turn says.
const SAID: [(usize, &[usize]); 7] =
    [(0, &[0, 1]), (1, &[2]), (2, &[3, 4]), (3, &[5, 6]), (4, &[7]), (6, &[8, 9]), (7, &[10, 11])];

/// What a tool gives for its arguments.
pub(super) fn given(call: &ToolCall) -> Option<ToolOutput> {
    match (call.name.as_str(), made(&call.name, &call.arguments)?) {
        (_, Ok(value)) => Some(ToolOutput::from_value(value)),
        (_, Err(message)) => Some(ToolOutput::ErrorJson(json!({ "error": message }))),
    }
}

fn made(tool: &str, arguments: &Value) -> Option<Result<Value, String>> {
    let chars = usize::try_from(arguments["chars"].as_u64()?).ok()?;
    let name = format!("page {}", arguments["n"]);
    let text = if arguments["dense"] == true { dense(&name, chars) } else { page(&name, chars) };
    match tool {
        "fetch" => Some(Ok(text.into())),
        "rows" => Some(Ok(text.lines().map(|it| json!({ "row": it })).collect::<Vec<_>>().into())),
        "breaks" => Some(Err(text)),
        _ => None,
    }
}

fn tool(name: &'static str) -> Tool {
    Tool::new(ToolDefinition::new(name, "Looks something up."), move |it| async move {
        let made = made(name, &it.call.arguments).ok_or("bad arguments")?;
        made.map_err(|it| -> BoxError { it.into() })
    })
    .unwrap()
}

struct Play {
    world: World,
    random: Random,
    stage: Stage,
    agent: Agent,
    prompt: Prompt,
    provider: Provider,
    checks: Checks,
    n_pages: usize,
    after_huge: bool,
}

/// Plays all turns of a conversation.
pub(super) async fn play(world: World) {
    let mut play = Play::new(world).await;
    for turn in 0..play.world.turns {
        play.turn(turn).await;
    }
    play.checks.ended();
}

impl Play {
    async fn new(world: World) -> Self {
        let stage = Stage::new().await;
        let passes = Passes::default();
        let provider = Provider::new(&world, &stage.thread, &passes);
        let prompt = Prompt::builder("p").model(world.model).system("You help with a household.");
        let prompt = passes.watch(prompt).build().unwrap();
        let facts = ModelFacts {
            context_window: Some(Tokens(world.window)),
            output_reserve: Some(Tokens(world.window / 16)),
            ..ModelFacts::default()
        };
        let builder = Agent::builder(provider.clone(), Arc::new(TestTime), Counting::default())
            .config(AgentConfig { max_steps: 50, ..AgentConfig::default() })
            .catalogue(Catalogue::standard().with_models([(world.model.to_owned(), facts)].into()))
            .tool(tool("fetch"))
            .tool(tool("rows"))
            .tool(tool("breaks"));
        let builder = if world.port { builder.summarizer(provider.clone()) } else { builder };
        let agent = builder.build().unwrap();
        let (random, checks) = (Random::new(world.seed), Checks::new(&world, passes));
        Self { random, stage, agent, prompt, provider, checks, n_pages: 0, after_huge: false, world }
    }

    async fn turn(&mut self, turn: usize) {
        let text = self.user_text(turn);
        let script = self.script();
        self.checks.begin(turn, &text, &script);
        self.provider.script(script);
        let mut run = self.agent.run(&self.prompt, &self.stage.thread, RunRequest::user(text));
        let mut events: Vec<Event> = Vec::new();
        while let Some(event) = run.next().await {
            events.push(event);
        }
        let outcome = run.outcome().await;
        self.checks.told(events.iter().map(|it| event_text(it).chars().take(600).collect()).collect());
        self.checks.turn(self.provider.take_seen(), &events, outcome);
    }

    /// Mostly short; sometimes up to twice the window, and then short again.
    fn user_text(&mut self, turn: usize) -> String {
        let said = SAID.iter().find(|(it, _)| *it == turn).map_or(&[][..], |(_, said)| said);
        let said: String = said.iter().map(|it| format!("{} ", INSTRUCTIONS[*it])).collect();
        let begin = format!("Turn {turn}. {said}");
        let is_huge = turn > 8 && !self.after_huge && self.random.once_in(25);
        self.after_huge = is_huge;
        if is_huge {
            // Two or three characters to a token: from half of the window to twice as much.
            let window = self.world.window.min(32_768) as usize;
            let chars = self.random.between(window * 5 / 4, window * 5);
            return format!("{begin}{}", page(&format!("the letter {turn}"), chars));
        }
        match self.random.below(6) {
            0 => format!("{begin}{}", page(&format!("the note {turn}"), 600)),
            1 => format!("{begin}{}", page(&format!("the note {turn}"), 150)),
            _ => format!("{begin}What about it?"),
        }
    }

    /// The rounds of a turn and its answer.
    fn script(&mut self) -> Vec<Does> {
        let n_rounds = [0, 0, 1, 1, 1, 2, 3][self.random.below(7)];
        let mut script: Vec<Does> = (0..n_rounds).map(|_| self.round()).collect();
        self.n_pages += 1;
        let chars = match self.random.below(12) {
            0 => self.world.real.min(32_768) as usize, // Almost half of the real window.
            1 | 2 => 2_000,
            _ => self.random.between(10, 500),
        };
        script.push(Does::Says(page(&format!("the answer {}", self.n_pages), chars)));
        script
    }

    fn round(&mut self) -> Does {
        let n_calls =
            if self.random.once_in(3) { self.random.between(2, 8) } else { self.random.between(1, 2) };
        Does::Calls((0..n_calls).map(|_| self.call()).collect())
    }

    fn call(&mut self) -> ToolCall {
        self.n_pages += 1;
        let name = ["fetch", "fetch", "rows", "breaks"][self.random.below(4)];
        let chars = match self.random.below(20) {
            0 => self.random.between(12_000, 40_000),
            1..4 => self.random.between(4_000, 12_000),
            4..9 => self.random.between(600, 4_000),
            _ => self.random.between(10, 600),
        };
        let arguments = json!({"n": self.n_pages, "chars": chars, "dense": self.random.once_in(4)});
        ToolCall { id: format!("call{}", self.n_pages), name: name.to_owned(), arguments }
    }
}
