//! A model of writers, saves, crashes and reconnects: whatever happens in between, and behind whatever id a follower
//! continues, what it has assembled is what the log has.

use std::collections::BTreeMap;

use contexture_agent::Event;
use contexture_history::{
    Application, Body, Change, Cost, Item, Seq, Timestamp, TurnNo, TurnStatus, Visibility,
};
use contexture_message::{Message, Part, Role, Thinking, Tokens, ToolCall};
use contexture_session::{FeedItem, ThreadId, UnfinishedText};
use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
use serde_json::json;

use super::{Follower, Told, What};
use crate::events::cursor::Cursor;

/// What a session goes through.
#[derive(Clone, Debug)]
enum Act {
    /// A thread's model says more; a turn begins if none runs.
    Say { thread: usize, text: String, is_thinking: bool },
    /// The text so far is saved for other instances.
    Save { thread: usize },
    /// The answer is written, with tool calls or not.
    Answer { thread: usize, n_calls: usize },
    /// The turn ends, with or without its answer.
    End { thread: usize, keeps: bool },
    /// The instance is lost; another one ends its turns with what was saved.
    Crash,
    /// The instance is lost; another one resumes the turn, whose answer begins again.
    Resume { thread: usize },
    /// A message is appended to a thread.
    Add { thread: usize },
    /// A follower reads: the log, at most so many items, then what grows here or elsewhere.
    Read { follower: usize, items: usize, is_here: bool },
    /// A follower comes back behind one of the last ids that it has got.
    Reconnect { follower: usize, back: usize },
}

const THREADS: usize = 2;
const FOLLOWERS: usize = 3;

fn act() -> impl Strategy<Value = Act> {
    let thread = 0..THREADS;
    let follower = 0..FOLLOWERS;
    prop_oneof![
        6 => (thread.clone(), "[aé😀]{1,3}", any::<bool>())
            .prop_map(|(thread, text, is_thinking)| Act::Say { thread, text, is_thinking }),
        3 => thread.clone().prop_map(|thread| Act::Save { thread }),
        2 => (thread.clone(), 0..3_usize).prop_map(|(thread, n_calls)| Act::Answer { thread, n_calls }),
        2 => (thread.clone(), any::<bool>()).prop_map(|(thread, keeps)| Act::End { thread, keeps }),
        1 => Just(Act::Crash),
        1 => thread.clone().prop_map(|thread| Act::Resume { thread }),
        1 => thread.prop_map(|thread| Act::Add { thread }),
        8 => (follower.clone(), 0..5_usize, any::<bool>())
            .prop_map(|(follower, items, is_here)| Act::Read { follower, items, is_here }),
        4 => (follower, 0..6_usize).prop_map(|(follower, back)| Act::Reconnect { follower, back }),
    ]
}

/// The store, and the instance that runs turns.
#[derive(Default)]
struct World {
    feed: Vec<FeedItem>,
    ends: [u64; THREADS],
    turns: [u64; THREADS],
    /// The answers that grow, and what was saved of them.
    growing: [Option<UnfinishedText>; THREADS],
    saved: [Option<UnfinishedText>; THREADS],
    running: [Option<u64>; THREADS],
}

fn name(thread: usize) -> ThreadId {
    ThreadId::parse(["s", "s/side"][thread]).unwrap()
}

impl World {
    fn append(&mut self, thread: usize, body: Body) -> u64 {
        self.ends[thread] += 1;
        let item = Item {
            seq: Seq(self.ends[thread]),
            turn: TurnNo(self.turns[thread]),
            visibility: Visibility::NONE,
            cost: Cost { counter: "c".into(), tokens: Tokens(0) },
            author: None,
            at: Timestamp(0),
            body,
        };
        let number = self.feed.len() as u64 + 1;
        self.feed.push(FeedItem { number, thread: name(thread), item });
        number
    }

    fn begin(&mut self, thread: usize) -> u64 {
        if let Some(began) = self.running[thread] {
            return began;
        }
        self.turns[thread] += 1;
        let began = self.append(thread, Body::Change(Change::began(None)));
        self.append(thread, Body::Message(Message::user("hi").into()));
        *self.running[thread].insert(began)
    }

    fn say(&mut self, thread: usize, text: &str, is_thinking: bool) {
        let began = self.begin(thread);
        let new = UnfinishedText {
            turn: TurnNo(self.turns[thread]),
            end: Seq(self.ends[thread]),
            began,
            after: self
                .feed
                .iter()
                .filter(|it| it.thread == name(thread))
                .map(|it| it.number)
                .max()
                .unwrap_or(0),
            ..UnfinishedText::default()
        };
        let growing = self.growing[thread].get_or_insert(new);
        if is_thinking { growing.thinking.push_str(text) } else { growing.text.push_str(text) }
    }

    fn answer(&mut self, thread: usize, n_calls: usize) {
        let Some(UnfinishedText { text, thinking, .. }) = self.growing[thread].take() else { return };
        let mut content = Vec::new();
        if !thinking.is_empty() {
            content.push(Part::Thinking(Thinking { text: thinking, ..Thinking::default() }));
        }
        // Some providers split a text into parts.
        let half = text.floor_char_boundary(text.len() / 2);
        content.extend(
            [&text[..half], &text[half..]].iter().filter(|it| !it.is_empty()).map(|it| Part::text(*it)),
        );
        let call = |n| ToolCall { id: format!("c{n}"), name: "t".to_owned(), arguments: json!({}) };
        content.extend((0..n_calls).map(call).map(Part::ToolCall));
        if n_calls > 0 {
            // The client runs the last call, which is recorded beside the answer.
            let value = json!({"on_client": [format!("c{}", n_calls - 1)]});
            self.append(
                thread,
                Body::Application(Application { kind: "contexture.beside".to_owned(), value }),
            );
        }
        self.append(thread, Body::Message(Message::parts(Role::Assistant, content).into()));
        // Whatever follows in the turn belongs to another answer.
        let value = json!({"type": "context_usage", "input_tokens": 1, "output_tokens": 2});
        self.append(thread, Body::Application(Application { kind: "contexture.event".to_owned(), value }));
    }

    fn end(&mut self, thread: usize, status: TurnStatus) {
        if self.running[thread].take().is_some() {
            self.growing[thread] = None;
            let (reason, code, usage) = (None, None, None);
            self.append(thread, Body::Change(Change::TurnEnded { status, reason, code, usage }));
        }
    }

    fn crash(&mut self) {
        for thread in 0..THREADS {
            let saved = self.saved[thread].take().filter(|it| Some(it.began) == self.running[thread]);
            let since = |it: &UnfinishedText| self.ends[thread] > it.end.0;
            // What the log has got since then, the saved text is not a part of.
            if let Some(saved) = saved.filter(|it| !since(it) && !it.text.is_empty()) {
                self.append(thread, Body::Message(Message::assistant(saved.text).into()));
            }
            self.growing[thread] = None;
            self.end(thread, TurnStatus::Interrupted);
        }
    }

    fn resume(&mut self, thread: usize) {
        if self.running[thread].is_some() {
            self.growing[thread] = None;
            self.running[thread] = Some(self.append(thread, Body::Change(Change::TurnResumed)));
        }
    }

    /// What the log says: the text of the answers and the other events, in their order.
    fn transcript(&self) -> Vec<String> {
        let mut all = Follower::new(Cursor::default(), BTreeMap::new());
        let mut client = Client::default();
        self.feed.iter().flat_map(|it| all.take(it)).for_each(|it| client.hear(&it));
        client.lines()
    }
}

/// What a client assembles of what it hears.
#[derive(Clone, Default)]
struct Client {
    lines: BTreeMap<ThreadId, Vec<String>>,
    /// The thinking and the text of the answer that is being told, by thread.
    text: BTreeMap<ThreadId, [String; 2]>,
}

impl Client {
    fn hear(&mut self, told: &Told) {
        let What::Turn(_, event) = &told.what else { return };
        let texts = self.text.entry(told.thread.clone()).or_default();
        match event {
            Event::ThinkingDelta { text } => return texts[0].push_str(text),
            Event::TextDelta { text } => return texts[1].push_str(text),
            Event::AttemptDiscarded { .. } => return texts.iter_mut().for_each(String::clear),
            _ => {}
        }
        let [thought, said] = std::mem::take(texts);
        let lines = self.lines.entry(told.thread.clone()).or_default();
        lines.extend(Some(format!("thought {thought}")).filter(|_| !thought.is_empty()));
        lines.extend(Some(said).filter(|it| !it.is_empty()));
        lines.push(match event {
            Event::ToolCall { id, runs, .. } => format!("{id} {runs:?}"),
            Event::TurnStart { turn, .. } => format!("start {turn}"),
            Event::TurnEnd { status, .. } => format!("end {}", status.as_str()),
            Event::ContextUsage { output_tokens, .. } => format!("usage {output_tokens}"),
            other => format!("{other:?}"),
        });
    }

    /// Returns everything that it has assembled.
    fn known(&self) -> (Vec<String>, Vec<&String>) {
        (self.lines(), self.text.values().flatten().filter(|it| !it.is_empty()).collect())
    }

    fn lines(&self) -> Vec<String> {
        self.lines
            .iter()
            .flat_map(|(thread, it)| it.iter().map(move |it| format!("{thread}: {it}")))
            .collect()
    }
}

/// A follower, and what its client knew at each id that it got.
#[derive(Default)]
struct Connection {
    follower: Follower,
    client: Client,
    heard: Vec<(Cursor, Client)>,
}

impl Connection {
    fn hear(&mut self, told: Vec<Told>) {
        for told in told {
            self.client.hear(&told);
            let id = told.id.to_string().parse().unwrap();
            assert!(self.heard.iter().all(|it| it.0 != id), "{id} is told twice");
            self.heard.push((id, self.client.clone()));
        }
    }

    fn read(&mut self, world: &World, items: usize, is_here: bool) {
        let next = world.feed.iter().filter(|it| it.number > self.follower.number());
        for item in next.take(items).cloned().collect::<Vec<_>>() {
            let told = self.follower.take(&item);
            self.hear(told);
        }
        let answers = if is_here { &world.growing } else { &world.saved };
        for (thread, answer) in answers.iter().enumerate() {
            let Some(answer) = answer else { continue };
            let is_in_log = world.feed.iter().any(|it| {
                let is_end =
                    matches!(&it.item.body, Body::Change(Change::TurnEnded { .. } | Change::TurnResumed))
                        || matches!(&it.item.body, Body::Message(it) if it.role == Role::Assistant);
                it.thread == name(thread) && it.item.seq > answer.end && is_end
            });
            if !is_here && self.follower.is_new(&name(thread), answer) && is_in_log {
                self.follower.skip(&name(thread), answer);
            }
            let told = self.follower.grow(&name(thread), answer);
            self.hear(told);
        }
    }

    fn reconnect(&mut self, world: &World, back: usize) {
        let Some(at) = self.heard.len().checked_sub(back + 1) else { return };
        self.heard.truncate(at + 1);
        let (cursor, client) = self.heard[at].clone();
        let thread =
            |began: &u64| Some((*began, world.feed.iter().find(|it| it.number == *began)?.thread.clone()));
        let threads = cursor.answers.keys().filter_map(thread).collect();
        let last = world.feed.iter().find(|it| it.number == cursor.number);
        (self.follower, self.client) = (Follower::new(cursor, threads), client);
        last.into_iter().for_each(|it| self.follower.recall(it));
    }
}

proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 2000, ..Default::default() })]

    #[test]
    fn what_is_assembled_is_what_the_log_has(acts in proptest::collection::vec(act(), 1..80)) {
        let mut world = World::default();
        let mut connections: [Connection; FOLLOWERS] = Default::default();
        for act in acts {
            match act {
                Act::Say { thread, text, is_thinking } => world.say(thread, &text, is_thinking),
                Act::Save { thread } => world.saved[thread] = world.growing[thread].clone().or(world.saved[thread].take()),
                Act::Answer { thread, n_calls } => world.answer(thread, n_calls),
                Act::End { thread, keeps } => {
                    if keeps {
                        world.answer(thread, 0);
                    }
                    world.end(thread, if keeps { TurnStatus::Completed } else { TurnStatus::Failed });
                }
                Act::Crash => world.crash(),
                Act::Resume { thread } => world.resume(thread),
                Act::Add { thread } => _ = world.append(thread, Body::Message(Message::user("by the way").into())),
                Act::Read { follower, items, is_here } => connections[follower].read(&world, items, is_here),
                Act::Reconnect { follower, back } => connections[follower].reconnect(&world, back),
            }
        }
        (0..THREADS).for_each(|it| world.end(it, TurnStatus::Failed));
        let transcript = world.transcript();
        for connection in &mut connections {
            connection.read(&world, usize::MAX, false);
            assert_eq!(connection.client.lines(), transcript);
            let mut known = BTreeMap::new();
            for (id, client) in &connection.heard {
                let first = known.entry(id.to_string()).or_insert(client);
                assert_eq!(first.known(), client.known(), "an id names one state: {id}");
            }
        }
    }
}
