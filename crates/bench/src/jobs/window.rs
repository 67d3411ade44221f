//! The jobs on a conversation in memory: which messages go along.

use std::error::Error;
use std::sync::Arc;

use contexture::history::Limit;
use contexture::history::{Turn, newest_messages, window};
use contexture::message::{Message, Part, TokenCounter, Tokens};
use contexture::session::{MemoryStore, SessionConfig, SessionStart, Sessions, Snapshot};
use contexture::{SystemTime, session_ports};
use contexture_message::{Encoding, message_tokens};
use futures::executor::block_on;
use tiktoken::CoreBpe;

use super::store::TAIL;
use crate::data::{Conversation, FileMessage};
use crate::{Answer, Runner};

/// What the whole window may cost, the instructions included.
const WINDOW: Tokens = Tokens(20_000);

fn limit(data: &Conversation) -> Tokens {
    WINDOW.saturating_sub(message_tokens(&Encoding::O200kBase, &data.system.to_message()))
}

fn answer(system: &Arc<Message>, mut messages: Vec<Arc<Message>>) -> Answer {
    messages.insert(0, Arc::clone(system));
    Answer::Messages(messages)
}

/// Chooses the newest turns, counting as it goes.
pub(crate) fn trim_cold(data: &Conversation) -> Runner<'_> {
    let system = Arc::new(data.system.to_message());
    let turns: Vec<Turn> =
        data.turns.iter().zip(1..).map(|(turn, n)| Turn::new(format!("t{n}"), turn.to_messages())).collect();
    Box::new(move || {
        let limit = Limit::Tokens(limit(data));
        Ok(answer(&system, window(&turns, Some(limit), &Encoding::O200kBase).messages().messages))
    })
}

/// Chooses the newest turns of a session whose messages were counted when they were appended.
pub(crate) fn trim_warm(data: &Conversation) -> Result<Runner<'_>, Box<dyn Error>> {
    let system = Arc::new(data.system.to_message());
    let thread = session(data)?;
    let counter = session_ports(None).counter;
    let limit = Limit::Tokens(limit(data));
    Ok(Box::new(move || {
        let snapshot: Arc<Snapshot> = thread.get();
        Ok(answer(&system, snapshot.history(Some(limit), &*counter).messages().messages))
    }))
}

/// Takes the newest 64 messages, calls with their results.
pub(crate) fn window_count(data: &Conversation) -> Result<Runner<'_>, Box<dyn Error>> {
    let thread = session(data)?;
    Ok(Box::new(move || Ok(Answer::Messages(newest_messages(thread.get().turns(), TAIL)))))
}

fn session(data: &Conversation) -> Result<contexture::prelude::Thread, Box<dyn Error>> {
    let store = Arc::new(MemoryStore::new(Arc::new(SystemTime)));
    let sessions = Sessions::new(store, session_ports(None), SessionConfig::default());
    let session = block_on(sessions.create(SessionStart::default()))?;
    for turn in &data.turns {
        block_on(session.main().add_messages(turn.to_messages()))?;
    }
    Ok(session.main().clone())
}

/// A conversation with nothing around it.
struct Plain<'a> {
    data: &'a Conversation,
    system: Arc<Message>,
    turns: Vec<Vec<Arc<Message>>>,
    library: &'static CoreBpe,
}

impl<'a> Plain<'a> {
    fn new(data: &'a Conversation) -> Result<Self, Box<dyn Error>> {
        let library =
            tiktoken::get_encoding(Encoding::O200kBase.name()).ok_or("o200k_base is not compiled in")?;
        let turns =
            data.turns.iter().map(|it| it.to_messages().into_iter().map(Arc::new).collect()).collect();
        Ok(Self { data, system: Arc::new(data.system.to_message()), turns, library })
    }

    fn tokens(&self, message: &FileMessage) -> usize {
        let frame = Encoding::O200kBase.profile().framing.message as usize;
        let call = |it: &contexture_message::ToolCall| {
            self.library.count(&it.name) + self.library.count(&it.arguments.to_string())
        };
        let calls: usize = message.tool_calls.iter().map(call).sum();
        frame * message.tool_calls.len().max(1) + self.library.count(&message.content) + calls
    }

    fn turn_tokens(&self, turn: usize) -> usize {
        self.data.turns[turn].messages.iter().map(|it| self.tokens(it)).sum()
    }

    fn newest(&self, tokens: impl Fn(usize) -> usize) -> Vec<Arc<Message>> {
        let mut left = limit(self.data).0 as usize;
        let mut first = self.turns.len();
        while first > 0 {
            let cost = tokens(first - 1);
            if cost > left {
                break;
            }
            left -= cost;
            first -= 1;
        }
        std::iter::once(&self.system).chain(self.turns[first..].iter().flatten()).map(Arc::clone).collect()
    }
}

/// Counts from the newest turn back until one does not fit.
pub(crate) fn trim_cold_floor(data: &Conversation) -> Result<Runner<'_>, Box<dyn Error>> {
    let plain = Plain::new(data)?;
    Ok(Box::new(move || Ok(Answer::Messages(plain.newest(|it| plain.turn_tokens(it))))))
}

/// The same with the counts in a list.
pub(crate) fn trim_warm_floor(data: &Conversation) -> Result<Runner<'_>, Box<dyn Error>> {
    let plain = Plain::new(data)?;
    let counts: Vec<usize> = (0..plain.turns.len()).map(|it| plain.turn_tokens(it)).collect();
    Ok(Box::new(move || Ok(Answer::Messages(plain.newest(|it| counts[it])))))
}

/// Takes the last 64 messages, and leaves out results whose call is not among them.
pub(crate) fn window_count_floor(data: &Conversation) -> Result<Runner<'_>, Box<dyn Error>> {
    let plain = Plain::new(data)?;
    let messages: Vec<Arc<Message>> = plain.turns.iter().flatten().map(Arc::clone).collect();
    let is_result = |it: &Message| it.content.iter().any(|part| matches!(part, Part::ToolResult(_)));
    Ok(Box::new(move || {
        let mut newest = &messages[messages.len().saturating_sub(TAIL)..];
        while newest.first().is_some_and(|it| is_result(it)) {
            newest = &newest[1..];
        }
        Ok(Answer::Messages(newest.to_vec()))
    }))
}
