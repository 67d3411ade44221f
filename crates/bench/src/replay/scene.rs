//! What is the same for all strategies: the conversation, the instructions, the tools, what the user looks at, the pauses.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use contexture_message::{Message, Role, ToolDefinition};
use serde_json::{Value, json};

use crate::data::{Conversation, FileTurn};
use crate::sample::{Dice, Kind};

/// How long a model call takes, the tools it asks for included.
pub(super) const CALL: Duration = Duration::from_secs(20);
/// Now and then the user goes for a coffee: longer than any cache lives.
const LONG_PAUSE: Duration = Duration::from_secs(20 * 60);
/// One in so many pauses is a long one.
const LONG_PAUSES: usize = 20;
/// About 3,000 tokens of instructions.
const SYSTEM_BYTES: usize = 17_000;
/// What a summary says: about 1,000 tokens.
const SUMMARY_BYTES: usize = 5_500;

/// A conversation with everything around it.
#[derive(Clone, Debug)]
pub struct Scene {
    /// The instructions.
    pub system: String,
    /// The tools that the recording uses, by name.
    pub tools: Vec<Arc<ToolDefinition>>,
    /// What happened.
    pub turns: Vec<SceneTurn>,
    /// What a summary of any part of the conversation says.
    pub summary: String,
}

/// One turn.
#[derive(Clone, Debug)]
pub struct SceneTurn {
    /// How long the user took before it.
    pub pause: Duration,
    /// What the user says.
    pub user: String,
    /// What goes along without being said, by name: it is another one in each turn.
    pub inline: BTreeMap<&'static str, String>,
    /// The model calls.
    pub rounds: Vec<Round>,
}

/// One model call.
#[derive(Clone, Debug)]
pub struct Round {
    /// What the model answers.
    pub answer: Message,
    /// What the tools give that it asks for.
    pub results: Vec<Message>,
}

impl Scene {
    /// Returns the scene of a recorded conversation. The same conversation gives the same scene.
    pub fn new(data: &Conversation) -> Self {
        let mut dice = Dice::new(11);
        let rules = dice.text(Kind::Prose, SYSTEM_BYTES);
        let summary = dice.text(Kind::Prose, SUMMARY_BYTES);
        Self {
            system: format!("{}\n\n{rules}", data.system.content),
            tools: tools(data),
            turns: data.turns.iter().map(|it| turn(it, &mut dice)).collect(),
            summary,
        }
    }

    /// Returns how many model calls the recording has.
    pub fn n_rounds(&self) -> usize {
        self.turns.iter().map(|it| it.rounds.len()).sum()
    }
}

impl SceneTurn {
    /// Returns what goes along as one text.
    pub fn inline_text(&self) -> String {
        self.inline.iter().map(|(name, text)| format!("<{name}>\n{text}\n</{name}>\n")).collect()
    }
}

fn turn(recorded: &FileTurn, dice: &mut Dice) -> SceneTurn {
    let messages = recorded.to_messages();
    let said = messages.iter().filter(|it| it.role == Role::User).filter_map(|it| it.as_text());
    let mut rounds: Vec<Round> = Vec::new();
    for message in &messages {
        match (message.role, rounds.last_mut()) {
            (Role::Assistant, _) => rounds.push(Round { answer: message.clone(), results: Vec::new() }),
            (Role::Tool, Some(round)) => round.results.push(message.clone()),
            _ => {}
        }
    }
    SceneTurn { pause: pause(dice), user: said.collect::<Vec<_>>().join("\n"), inline: inline(dice), rounds }
}

fn pause(dice: &mut Dice) -> Duration {
    match dice.below(LONG_PAUSES) {
        0 => LONG_PAUSE,
        _ => Duration::from_secs(dice.between(30, 120) as u64),
    }
}

/// What an application knows of the moment: where the user is, what is selected, what has just happened.
fn inline(dice: &mut Dice) -> BTreeMap<&'static str, String> {
    let page = format!("/accounts/{}/{}", dice.below(10_000), dice.text(Kind::Prose, 200));
    BTreeMap::from([
        ("page", page),
        ("selection", dice.text(Kind::Code, 120)),
        ("activity", dice.text(Kind::Logs, 240)),
    ])
}

/// Returns the tools of the recording, with the arguments that they are called with.
fn tools(data: &Conversation) -> Vec<Arc<ToolDefinition>> {
    let mut seen: BTreeMap<&str, BTreeMap<&str, &str>> = BTreeMap::new();
    let calls = data.turns.iter().flat_map(|it| &it.messages).flat_map(|it| &it.tool_calls);
    for call in calls {
        let arguments = seen.entry(&call.name).or_default();
        for (name, value) in call.arguments.as_object().into_iter().flatten() {
            arguments.insert(name, kind(value));
        }
    }
    let tool = |(name, arguments): (&str, BTreeMap<&str, &str>)| {
        let fields = arguments.into_iter().map(|(name, kind)| (name.to_owned(), json!({"type": kind})));
        let fields: serde_json::Map<String, Value> = fields.collect();
        let description = format!("Does what `{name}` says, and gives back what it found.");
        Arc::new(
            ToolDefinition::new(name, description)
                .parameters(json!({"type": "object", "properties": fields})),
        )
    };
    seen.into_iter().map(tool).collect()
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "boolean",
        Value::Array(_) => "array",
        Value::Object(_) | Value::Null => "object",
    }
}
