//! A provider with a window of its own: it refuses what is larger, and reports usage in its own tokens.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use contexture_agent::{Summarized, Summarizer, SummaryCall};
use contexture_compose::{BoxError, BoxFuture};
use contexture_history::Item;
use contexture_message::{Answer, Part, Request, ToolCall, Usage};
use contexture_model::{Deltas, Model, ModelCall, ModelError, ModelErrorKind, Scripted, Step};
use contexture_session::Thread;
use futures::StreamExt;
use futures::stream;
use serde_json::json;

use crate::readable::{is_offered, names, page, tokens};
use crate::scene::{Passes, faithful};

/// What a conversation takes place in.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) seed: u64,
    pub(super) turns: usize,
    /// The configured window.
    pub(super) window: u32,
    /// The provider's window, in its own tokens.
    pub(super) real: u32,
    /// The provider's tokens for one of ours.
    pub(super) factor: f64,
    /// Whether a refusal names the sizes.
    pub(super) numbers: bool,
    pub(super) model: &'static str,
    pub(super) mode: Mode,
    /// Whether summaries are made by a summariser of the application, without the model.
    pub(super) port: bool,
}

/// How summaries are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Faithful,
    Failing,
    Empty,
    Longer,
    Omitting,
    Slow,
    /// Each time in another way.
    Any,
}

/// A small generator: the same seed gives the same conversation.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end.max(1)).unwrap()).unwrap()
    }

    pub(super) fn between(&mut self, first: usize, last: usize) -> usize {
        first + self.below(last + 1 - first)
    }

    /// Whether something happens that happens once in so many times.
    pub(super) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

impl Mode {
    fn chosen(self, random: &mut Random) -> Self {
        let all = [Mode::Faithful, Mode::Failing, Mode::Empty, Mode::Longer, Mode::Omitting, Mode::Slow];
        if self == Mode::Any { all[random.below(all.len())] } else { self }
    }
}

/// A request that came in.
#[derive(Clone)]
pub(super) struct Seen {
    pub(super) request: Arc<Request>,
    /// What it has in the provider's tokens.
    pub(super) tokens: u32,
    pub(super) refused: bool,
    /// The calls whose results it should show for the first time.
    pub(super) unread: Vec<ToolCall>,
    /// The log at that moment, of some requests of the conversation.
    pub(super) log: Option<Vec<Item>>,
    pub(super) is_summary: bool,
}

/// What the model does next in this turn.
#[derive(Clone, Debug)]
pub(super) enum Does {
    Calls(Vec<ToolCall>),
    Says(String),
}

struct State {
    random: Random,
    script: VecDeque<Does>,
    unread: Vec<ToolCall>,
    seen: Vec<Seen>,
    n_calls: usize,
}

/// The provider. Clones are the same one.
#[derive(Clone)]
pub(super) struct Provider {
    world: Arc<World>,
    thread: Thread,
    passes: Passes,
    state: Arc<Mutex<State>>,
}

impl Provider {
    pub(super) fn new(world: &World, thread: &Thread, passes: &Passes) -> Self {
        let state = State {
            random: Random::new(world.seed ^ 0xabcd),
            script: VecDeque::new(),
            unread: Vec::new(),
            seen: Vec::new(),
            n_calls: 0,
        };
        Self {
            world: Arc::new(world.clone()),
            thread: thread.clone(),
            passes: passes.clone(),
            state: Arc::new(Mutex::new(state)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Says what it does in the next turn.
    pub(super) fn script(&self, script: Vec<Does>) {
        let mut state = self.state();
        state.script = script.into();
        state.unread.clear();
    }

    /// Returns what came in since it was asked last.
    pub(super) fn take_seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.state().seen)
    }

    fn size(&self, request: &Request) -> u32 {
        (f64::from(tokens(request)) * self.world.factor).ceil() as u32
    }

    async fn called(&self, request: Arc<Request>) -> Step {
        let tokens = self.size(&request);
        let is_summary = !self.passes.has(&request);
        let wants_log = !is_summary && self.state().n_calls.is_multiple_of(12);
        let log = if wants_log { Some(self.thread.all(None).await.unwrap()) } else { None };
        let refused = tokens > self.world.real;
        let (step, slow) = {
            let mut state = self.state();
            state.n_calls += 1;
            let unread = if is_summary { Vec::new() } else { state.unread.clone() };
            let (step, slow) = match (refused, is_summary) {
                (true, _) => (Step::Fail(self.too_long(tokens)), false),
                (false, true) => {
                    let mode = self.world.mode.chosen(&mut state.random);
                    (self.summary(mode, &request, tokens), mode == Mode::Slow)
                }
                (false, false) => (self.answer(&mut state, &request, tokens), false),
            };
            state.seen.push(Seen { request, tokens, refused, unread, log, is_summary });
            (step, slow)
        };
        if slow {
            tokio::time::sleep(Duration::from_secs(3_600)).await;
        }
        step
    }

    fn too_long(&self, tokens: u32) -> ModelError {
        let real = self.world.real;
        let message = match self.world.numbers {
            true => format!("prompt is too long: {tokens} tokens > {real} maximum"),
            false => "the prompt is too long for this model".to_owned(),
        };
        ModelError::new(ModelErrorKind::PromptTooLong, message)
    }

    fn usage(tokens: u32) -> Usage {
        Usage { input_tokens: tokens.into(), output_tokens: 20, ..Usage::default() }
    }

    fn summary(&self, mode: Mode, request: &Request, tokens: u32) -> Step {
        match made(mode, &last_text(request), tokens as usize * 5) {
            Ok(text) => Step::Answer(Answer { usage: Self::usage(tokens), ..Answer::text(text) }),
            Err(_) => Step::Fail(ModelError::new(ModelErrorKind::Overloaded, "busy")),
        }
    }

    fn answer(&self, state: &mut State, request: &Request, tokens: u32) -> Step {
        let reading = if state.random.once_in(3) { self.reading(state, request) } else { None };
        let does = reading.or_else(|| state.script.pop_front()).unwrap_or(Does::Says("Done.".to_owned()));
        let answer = match does {
            Does::Says(text) => Answer::text(text),
            Does::Calls(calls) => {
                state.unread.clone_from(&calls);
                Answer::parts(calls.into_iter().map(Part::ToolCall).collect())
            }
        };
        Step::Answer(Answer { usage: Self::usage(tokens), ..answer })
    }

    /// Reads a part of a result that is shown as a preview, if there is one.
    fn reading(&self, state: &mut State, request: &Request) -> Option<Does> {
        let previews: Vec<&str> = request
            .messages
            .iter()
            .flat_map(|it| &it.content)
            .filter_map(|it| match it {
                Part::ToolResult(it) if names(&it.output, &it.call_id) => Some(it.call_id.as_str()),
                _ => None,
            })
            .collect();
        if previews.is_empty() || !is_offered(request) || state.script.is_empty() {
            return None;
        }
        let handle = previews[state.random.below(previews.len())];
        let id = format!("read{}", state.n_calls);
        let offset = state.random.below(3_000);
        let arguments = match state.random.below(3) {
            0 => json!({"handle": handle}),
            1 => json!({"handle": handle, "offset": offset, "limit": 800}),
            _ => json!({"handle": handle, "search": "entry"}),
        };
        Some(Does::Calls(vec![ToolCall { id, name: "read_tool_result".to_owned(), arguments }]))
    }
}

fn last_text(request: &Request) -> String {
    let parts = request.messages.last().map(|it| it.content.as_slice()).unwrap_or_default();
    let texts = parts.iter().filter_map(|it| match it {
        Part::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// What a summariser of a kind says; `chars` is more than it was given.
fn made(mode: Mode, question: &str, chars: usize) -> Result<String, BoxError> {
    match mode {
        Mode::Failing => Err("busy".into()),
        Mode::Empty => Ok(String::new()),
        Mode::Longer => Ok(page("everything", chars)),
        Mode::Omitting => Ok("They spoke about this and that.".to_owned()),
        Mode::Faithful | Mode::Slow | Mode::Any => {
            let facts = question.lines().filter(|it| it.starts_with("- "));
            Ok(format!("Pages were fetched and read.\n{}", facts.collect::<Vec<_>>().join("\n")))
        }
    }
}

impl Model for Provider {
    fn stream(&self, call: ModelCall) -> Deltas {
        let model = self.clone();
        let begun = async move {
            let step = model.called(Arc::clone(&call.request)).await;
            Scripted::new([step]).stream(call)
        };
        stream::once(begun).flatten().boxed()
    }
}

/// The same kinds of summaries, made by the application.
impl Summarizer for Provider {
    fn summarize(&self, call: SummaryCall) -> BoxFuture<'static, Result<Summarized, BoxError>> {
        let tokens = self.size(&call.request);
        let mode = {
            let mut state = self.state();
            let refused = tokens > self.world.window.max(self.world.real);
            let request = Arc::clone(&call.request);
            state.seen.push(Seen {
                request,
                tokens,
                refused,
                unread: Vec::new(),
                log: None,
                is_summary: true,
            });
            self.world.mode.chosen(&mut state.random)
        };
        Box::pin(async move {
            if mode == Mode::Slow {
                tokio::time::sleep(Duration::from_secs(3_600)).await;
            }
            let text = match mode {
                Mode::Faithful => faithful(&call),
                _ => made(mode, &call.prompt.user, tokens as usize * 5)?,
            };
            Ok(Summarized { text, ..Summarized::default() })
        })
    }
}
