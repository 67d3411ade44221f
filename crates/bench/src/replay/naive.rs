//! Three strategies as people write them by hand, without any library.
//!
//! They are careful where it costs nothing: tools and instructions never change their order, and on Anthropic the end of the
//! instructions and the last message are marked. A summary is asked for with a prompt of its own, as usual: the conversation as
//! text, without the tools.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use contexture_message::{
    Breakpoint, Message, Part, Request, Role, TokenCounter, Tokens, message_tokens, tool_tokens,
};

use super::scene::CALL;
use super::{Provider, ReplayClock, ReplayConfig, Scene, SceneTurn, SimulatedProvider, Strategy, Tally};

/// Past turns are summarised once they take up so much of the window: the running turn needs the rest.
const FULL_PERCENT: u32 = 80;

/// A message and what it costs, counted once.
#[derive(Clone)]
struct Said {
    message: Arc<Message>,
    tokens: Tokens,
}

struct Naive<'a> {
    scene: &'a Scene,
    strategy: Strategy,
    provider: Provider,
    counter: Arc<dyn TokenCounter>,
    /// What is left of the window for the conversation.
    room: Tokens,
    /// Whole turns, oldest first.
    past: Vec<Vec<Said>>,
}

/// Replays a scene with a strategy that is not ours.
pub(super) fn replay(
    scene: &Scene,
    config: &ReplayConfig,
    provider: Provider,
    strategy: Strategy,
) -> Result<Tally, Box<dyn Error>> {
    let (clock, mut simulated) = (ReplayClock::default(), SimulatedProvider::new(provider, config.window)?);
    let mut naive = Naive::new(scene, config, provider, strategy);
    for turn in &scene.turns {
        clock.pass(turn.pause);
        if let Some(request) = naive.make_room() {
            clock.pass(CALL);
            let summary = Message::assistant(scene.summary.as_str());
            simulated.call(&request, &summary, clock.elapsed())?;
        }
        let system = naive.system(turn, clock.elapsed());
        let mut running = vec![naive.said(naive.user(turn))];
        for round in &turn.rounds {
            clock.pass(CALL);
            simulated.call(&naive.request(&system, &running), &round.answer, clock.elapsed())?;
            running.push(naive.said(round.answer.clone()));
            running.extend(round.results.iter().map(|it| naive.said(it.clone())));
        }
        naive.past.push(running);
    }
    Ok(simulated.tally())
}

impl<'a> Naive<'a> {
    fn new(scene: &'a Scene, config: &ReplayConfig, provider: Provider, strategy: Strategy) -> Self {
        let counter = provider.counter();
        let tools: Tokens = scene.tools.iter().map(|it| tool_tokens(&*counter, it)).sum();
        let room = config.window.saturating_sub(tools).saturating_sub(counter.count(&scene.system));
        Self { scene, strategy, provider, counter, room, past: Vec::new() }
    }

    fn said(&self, message: Message) -> Said {
        let tokens = message_tokens(&*self.counter, &message);
        Said { message: Arc::new(message), tokens }
    }

    /// The moment stands at the end of the system prompt, where it does least harm.
    fn system(&self, turn: &SceneTurn, now: Duration) -> Arc<Message> {
        let text = match self.strategy {
            Strategy::VolatileSystem => {
                format!("{}\n\nTime: {} s\n{}", self.scene.system, now.as_secs(), turn.inline_text())
            }
            _ => self.scene.system.clone(),
        };
        Arc::new(Message::text(Role::System, text))
    }

    /// What is not in the system prompt goes along with the user's words, and stays with them.
    fn user(&self, turn: &SceneTurn) -> Message {
        match self.strategy {
            Strategy::VolatileSystem => Message::user(turn.user.as_str()),
            _ => {
                let parts = vec![Part::text(turn.user.as_str()), Part::text(turn.inline_text())];
                Message::parts(Role::User, parts)
            }
        }
    }

    /// At the limit everything but the last turn becomes a summary. Returns what asks for it.
    fn make_room(&mut self) -> Option<Request> {
        let used: Tokens = self.past.iter().flatten().map(|it| it.tokens).sum();
        let full = u64::from(self.room.0) * u64::from(FULL_PERCENT) / 100;
        if self.strategy == Strategy::SlidingWindow || u64::from(used.0) <= full {
            return None;
        }
        let request = self.asks_for_summary();
        let summary = Message::user(format!("Summary of the conversation so far:\n{}", self.scene.summary));
        let last = self.past.pop();
        self.past = [vec![self.said(summary)]].into_iter().chain(last).collect();
        Some(request)
    }

    /// A prompt of its own: the conversation as text.
    fn asks_for_summary(&self) -> Request {
        let said = self.past.iter().rev().skip(1).rev().flatten();
        let lines = said.map(|it| serde_json::to_string(&*it.message).unwrap_or_default());
        let text = lines.collect::<Vec<_>>().join("\n");
        let system = Message::text(Role::System, "Summarise the conversation.");
        Request {
            model: Some(self.provider.model().to_owned()),
            messages: vec![Arc::new(system), Arc::new(Message::user(text))],
            ..Request::default()
        }
    }

    /// The past turns that go along: all, or the newest that fit beside the running one.
    fn kept(&self, running: &[Said]) -> &[Vec<Said>] {
        if self.strategy != Strategy::SlidingWindow {
            return &self.past;
        }
        let mut left = self.room.saturating_sub(running.iter().map(|it| it.tokens).sum());
        let fits = self.past.iter().rev().take_while(|turn| {
            let cost: Tokens = turn.iter().map(|it| it.tokens).sum();
            let fits = cost <= left;
            left = left.saturating_sub(cost);
            fits
        });
        &self.past[self.past.len() - fits.count()..]
    }

    fn request(&self, system: &Arc<Message>, running: &[Said]) -> Request {
        let history = self.kept(running).iter().flatten().chain(running);
        let messages: Vec<Arc<Message>> =
            std::iter::once(system).chain(history.map(|it| &it.message)).map(Arc::clone).collect();
        let last = messages.len() - 1;
        Request {
            model: Some(self.provider.model().to_owned()),
            messages,
            tools: self.scene.tools.clone(),
            breakpoints: vec![Breakpoint::Message { message: 0 }, Breakpoint::Message { message: last }],
            ..Request::default()
        }
    }
}
