//! Episodes: what was said in the threads of a namespace, made searchable.
//!
//! The log is the home of what was said. The index has it in blocks of messages, one chunk each, so that a search knows
//! what was said before and after, and adding a message rewrites one block and not the whole thread.

use contexture_history::{Body, Item, Timestamp};
use contexture_message::{Message, Part, Role};
use contexture_session::SourceId;
use contexture_session::rank::Analyzer;
use contexture_session::sources::{NewSource, SourceInfo};
use serde::{Deserialize, Serialize};

use super::error::MemoryError;
use super::sources::{Kind, data, document};

/// So many messages are in a block.
pub(crate) const BLOCK: u64 = 64;
/// A longer message is cut in the index; the log has it all.
const MAX_CHARS: usize = 8_000;

/// The data of a block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EpisodeData {
    /// The thread.
    pub(crate) thread: String,
    /// Where each text was said, in the order of the chunks.
    pub(crate) said: Vec<Said>,
}

/// Where a text was said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Said {
    pub(crate) seq: u64,
    pub(crate) turn: String,
    pub(crate) role: Role,
    pub(crate) at: Timestamp,
}

/// A text with where it was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Utterance {
    pub(crate) said: Said,
    pub(crate) text: String,
}

/// Returns what was said in an item by the user or the model. Hidden text, calls and results are not.
pub(crate) fn utterance(item: &Item) -> Option<Utterance> {
    let Body::Message(message) = &item.body else { return None };
    if !item.visibility.history {
        return None;
    }
    let text = spoken(message)?;
    let said = Said { seq: item.seq.0, turn: item.turn.to_string(), role: message.role, at: item.at };
    Some(Utterance { said, text })
}

fn spoken(message: &Message) -> Option<String> {
    if !matches!(message.role, Role::User | Role::Assistant) {
        return None;
    }
    let texts = message.content.iter().filter_map(|it| match it {
        Part::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n");
    let end = text.char_indices().nth(MAX_CHARS).map_or(text.len(), |(end, _)| end);
    Some(text[..end].to_owned()).filter(|it| !it.trim().is_empty())
}

/// Returns what was said in a block, which has these texts.
pub(crate) fn utterances(info: &SourceInfo, texts: Vec<String>) -> Result<Vec<Utterance>, MemoryError> {
    let EpisodeData { said, .. } = data(info)?;
    Ok(said.into_iter().zip(texts).map(|(said, text)| Utterance { said, text }).collect())
}

/// Returns the id of a block of a thread.
pub(crate) fn block_id(thread: &str, block: u64) -> Result<SourceId, MemoryError> {
    Kind::Episode.id(&format!("{thread}/{block:08}"))
}

/// Returns a block with these texts.
pub(crate) fn block(
    thread: &str,
    number: u64,
    utterances: &[Utterance],
    analyzer: &mut Analyzer,
) -> Result<NewSource, MemoryError> {
    let id = block_id(thread, number)?;
    let said: Vec<Said> = utterances.iter().map(|it| it.said.clone()).collect();
    let at = said.last().map_or(Timestamp(0), |it| it.at);
    let version = format!("{}.{}", said.last().map_or(0, |it| it.seq), said.len());
    let texts: Vec<&str> = utterances.iter().map(|it| it.text.as_str()).collect();
    let data = EpisodeData { thread: thread.to_owned(), said };
    Ok(document(id, version, &data, &texts, (at, analyzer)))
}
