//! The job on a whole turn: everything around a model call.
//!
//! A prompt with a window of 20,000 tokens is run on a stored conversation: resolve, append the user's message, encode the
//! request to bytes, append the answer. The model is a no-op: it answers at once with the same words.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use contexture::agent::{Agent, RunRequest, Secrets};
use contexture::compose::Hooks;
use contexture::compose::{HistoryConfig, Prompt};
use contexture::history::Limit;
use contexture::message::Tokens;
use contexture::message::{Answer as ModelAnswer, Delta, Usage};
use contexture::model::{Deltas, Model, ModelCall};
use contexture::session::Thread;
use contexture::wire::{Dialect, Target, encode_request};
use contexture::{SystemTime, engine};
use futures::StreamExt;
use futures::stream;

use super::store::{Lines, Place};
use crate::data::{Conversation, StorePlace};
use crate::{Answer, Runner};

/// What the window may cost.
const WINDOW: Tokens = Tokens(20_000);
/// What the user says, and what the model does.
const QUESTION: &str = "Where is order A-7, and when will it be here?";
const REPLY: &str = "It left the warehouse this morning and will be with you on Friday.";

/// When each phase of the turn that runs was over.
#[derive(Clone, Default)]
struct Marks(Arc<Mutex<Vec<(&'static str, Instant)>>>);

impl Marks {
    fn set(&self, phase: &'static str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((phase, Instant::now()));
    }

    /// Returns how long each phase took since `start`, and forgets them.
    fn take(&self, start: Instant) -> Vec<(&'static str, Duration)> {
        let marks = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let begins = std::iter::once(start).chain(marks.iter().map(|(_, at)| *at)).collect::<Vec<_>>();
        marks
            .iter()
            .zip(begins)
            .map(|((phase, end), begin)| (*phase, end.saturating_duration_since(begin)))
            .collect()
    }
}

/// A model that does nothing but what every client must: it makes the bytes that would be sent.
struct Nothing {
    marks: Marks,
    target: Target,
}

impl Model for Nothing {
    fn stream(&self, call: ModelCall) -> Deltas {
        self.marks.set("append_user");
        let body = encode_request(&self.target, &call.request).body.to_string();
        std::hint::black_box(&body);
        self.marks.set("encode");
        let usage = Usage { input_tokens: 20_000, output_tokens: 16, ..Usage::default() };
        let answer = ModelAnswer { usage, ..ModelAnswer::text(REPLY) };
        stream::iter([Ok(Delta::Text(REPLY.to_owned())), Ok(Delta::Done(Box::new(answer)))]).boxed()
    }
}

struct NoSecrets;

impl Secrets for NoSecrets {
    fn next(&self) -> String {
        String::new()
    }
}

/// Runs a turn on a stored conversation.
pub(crate) fn turn<'a>(data: &'a Conversation, place: &StorePlace) -> Result<Runner<'a>, Box<dyn Error>> {
    let store = Place::open(place)?;
    let thread = filled(&store, data)?;
    let marks = Marks::default();
    let told = marks.clone();
    let prompt = Prompt::builder("bench")
        .model("openai/gpt-5-mini")
        .system(data.system.content.as_str())
        .history(HistoryConfig { limit: Some(Limit::Tokens(WINDOW)) })
        .hooks(Hooks::default().on_prepare(move |_| told.set("resolve")))
        .build()?;
    let target = Target { stream: true, ..Target::new(Dialect::Openai, "openai", "gpt-5-mini") };
    let model = Nothing { marks: marks.clone(), target };
    let agent = Agent::builder(model, Arc::new(SystemTime), NoSecrets).engine(engine()).build()?;
    let mut phases = Phases::default();
    Ok(Box::new(move || {
        // The whole store: its folder must not go before it.
        let store = &store;
        let start = Instant::now();
        let run = agent.run(&prompt, &thread, RunRequest::user(QUESTION));
        store.runtime.block_on(run.outcome())?;
        marks.set("append_answer");
        phases.add(marks.take(start));
        Ok(Answer::Turn { phases: phases.medians() })
    }))
}

fn filled(store: &Place, data: &Conversation) -> Result<Thread, Box<dyn Error>> {
    let messages: Vec<_> = data.turns.iter().flat_map(crate::data::FileTurn::to_messages).collect();
    Ok(store.filled(&messages)?.main().clone())
}

/// The phases of all turns so far.
#[derive(Default)]
struct Phases(BTreeMap<&'static str, Vec<Duration>>);

impl Phases {
    fn add(&mut self, turn: Vec<(&'static str, Duration)>) {
        turn.into_iter().for_each(|(phase, took)| self.0.entry(phase).or_default().push(took));
    }

    /// Returns the medians in microseconds; sorting costs something, so only once in a while.
    fn medians(&self) -> Option<BTreeMap<&'static str, f64>> {
        let runs = self.0.values().map(Vec::len).max().unwrap_or_default();
        let median = |took: &Vec<Duration>| {
            let mut sorted = took.clone();
            sorted.sort();
            (sorted[sorted.len() / 2].as_secs_f64() * 1e7).round() / 10.0
        };
        runs.is_power_of_two().then(|| self.0.iter().map(|(phase, took)| (*phase, median(took))).collect())
    }
}

/// What is left of a turn without anything clever: the messages as JSON, and two lines that are synced.
pub(crate) fn turn_floor<'a>(
    data: &'a Conversation,
    place: &StorePlace,
) -> Result<Runner<'a>, Box<dyn Error>> {
    let mut lines = Lines::empty(place)?;
    let newest: Vec<_> =
        data.turns.iter().rev().take(10).flat_map(crate::data::FileTurn::to_messages).collect();
    let user = contexture::message::Message::user(QUESTION);
    let reply = contexture::message::Message::assistant(REPLY);
    Ok(Box::new(move || {
        lines.append(std::slice::from_ref(&user))?;
        std::hint::black_box(serde_json::to_string(&newest)?);
        lines.append(std::slice::from_ref(&reply))?;
        Ok(Answer::Turn { phases: None })
    }))
}
