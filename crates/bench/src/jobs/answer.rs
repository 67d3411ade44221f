//! What a job gives, and the function that does it once.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use contexture_compose::Pass;
use contexture_message::Message;

/// What a job gives. Made inside the measured time, read outside of it.
#[derive(Clone, Debug)]
pub enum Answer {
    /// A number of tokens.
    Tokens(u64),
    /// A text.
    Text(String),
    /// A pass, whose text is the composed system message.
    Pass(Pass),
    /// Messages, whose ids are the answer.
    Messages(Vec<Arc<Message>>),
    /// A part of a session's log.
    Log(Vec<contexture::history::Item>),
    /// So many items are durable.
    Items {
        /// How many.
        items: usize,
        /// What a turn takes on the disk, where it was looked at.
        disk_mb_per_turn: Option<f64>,
    },
    /// A turn is over.
    Turn {
        /// The medians of its phases in microseconds, where they were looked at.
        phases: Option<BTreeMap<&'static str, f64>>,
    },
}

impl Answer {
    /// Returns the medians of a turn's phases, if this run looked.
    pub fn phases(&self) -> Option<&BTreeMap<&'static str, f64>> {
        match self {
            Answer::Turn { phases } => phases.as_ref(),
            _ => None,
        }
    }

    /// Returns the number of tokens, if that is the answer.
    pub fn tokens(&self) -> Option<u64> {
        match self {
            Answer::Tokens(tokens) => Some(*tokens),
            _ => None,
        }
    }

    /// Returns the text, if there is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Answer::Text(text) => Some(text),
            Answer::Pass(pass) => pass.request().messages.first()?.as_text(),
            _ => None,
        }
    }

    /// Returns the ids of the messages, if that is the answer.
    pub fn ids(&self) -> Option<Vec<&str>> {
        match self {
            Answer::Messages(messages) => Some(messages.iter().map(message_id).collect()),
            Answer::Log(items) => {
                Some(items.iter().filter_map(|it| it.body.as_message()).map(message_id).collect())
            }
            _ => None,
        }
    }

    /// Returns what a turn takes on the disk, if this run looked.
    pub fn disk_mb_per_turn(&self) -> Option<f64> {
        match self {
            Answer::Items { disk_mb_per_turn, .. } => *disk_mb_per_turn,
            _ => None,
        }
    }

    /// Whether both say the same.
    pub fn is_same(&self, other: &Answer) -> bool {
        self.text() == other.text() && self.tokens() == other.tokens() && self.ids() == other.ids()
    }

    /// Returns how many items were written or read, if that is the answer.
    pub fn items(&self) -> Option<usize> {
        match self {
            Answer::Items { items, .. } => Some(*items),
            Answer::Log(items) => Some(items.len()),
            // The question and the answer.
            Answer::Turn { .. } => Some(2),
            _ => None,
        }
    }
}

fn message_id(message: &Arc<Message>) -> &str {
    message.id.as_deref().unwrap_or_default()
}

/// One run of a job. Each call does everything again.
pub type Runner<'a> = Box<dyn FnMut() -> Result<Answer, Box<dyn Error>> + 'a>;
