//! The data that jobs run on, as read from files.

use std::fs;
use std::path::{Path, PathBuf};

use contexture_message::{Message, Part, Role, ToolCall, ToolDefinition, ToolOutput};
use indexmap::IndexMap;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::BenchError;

/// `conv-N.json`: a conversation of N turns.
#[derive(Clone, Debug, Deserialize)]
pub struct Conversation {
    /// The instructions.
    pub system: FileMessage,
    /// The turns, oldest first.
    pub turns: Vec<FileTurn>,
}

/// A user's message and everything up to the answer.
#[derive(Clone, Debug, Deserialize)]
pub struct FileTurn {
    /// The messages in order.
    pub messages: Vec<FileMessage>,
}

/// A message in a neutral format.
#[derive(Clone, Debug, Deserialize)]
pub struct FileMessage {
    /// Its id.
    #[serde(default)]
    pub id: Option<String>,
    /// The role of the speaker.
    pub role: Role,
    /// The text; may be empty if there are tool calls.
    pub content: String,
    /// The tool calls of the model.
    #[serde(default)]
    pub tool_calls: Vec<ToolCall>,
    /// The call that a tool's message answers.
    #[serde(default)]
    pub tool_call_id: Option<String>,
    /// The name of that tool.
    #[serde(default)]
    pub name: Option<String>,
}

/// `compose-K.json`: a system text, K contexts, tools, and a budget that forces some of the contexts out.
#[derive(Clone, Debug, Deserialize)]
pub struct Composition {
    /// The instructions.
    pub system: String,
    /// The contexts in declared order.
    pub contexts: Vec<FileContext>,
    /// The tools.
    pub tools: Vec<ToolDefinition>,
    /// The user message.
    pub user: String,
    /// The limit of the whole request.
    pub budget_tokens: u32,
}

/// One context.
#[derive(Clone, Debug, Deserialize)]
pub struct FileContext {
    /// Its id, such as `c007`.
    pub id: String,
    /// The tag around it.
    pub tag: String,
    /// A thousand times its rank from 1 to 99, plus its position: no two are equal.
    pub priority: u32,
    /// The text.
    pub body: String,
}

/// `tree-L.json`: tags of depth 3 with L leaves.
#[derive(Clone, Debug, Deserialize)]
pub struct Tree {
    /// The outermost tag.
    pub root: TreeNode,
}

/// One tag: a leaf with text, or one with children.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct TreeNode {
    /// The name.
    pub tag: String,
    /// Attributes in order.
    #[serde(default)]
    pub attrs: IndexMap<String, String>,
    /// The text of a leaf.
    #[serde(default)]
    pub text: Option<String>,
    /// The tags inside.
    #[serde(default)]
    pub children: Vec<TreeNode>,
}

/// Where the jobs on a store run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorePlace {
    /// A folder on a real disk.
    pub scratch: PathBuf,
    /// A PostgreSQL database, instead of an SQLite file in the folder.
    pub url: Option<String>,
}

/// A session to fill, and what is appended to it then.
#[derive(Clone, Debug)]
pub struct SessionData {
    /// What a session has before anything is measured.
    pub messages: Vec<Message>,
    /// What is appended.
    pub more: Vec<Message>,
    /// How many such sessions there are.
    pub sessions: usize,
    /// Where they are.
    pub place: StorePlace,
}

/// `msgs-M.json`: messages to fill a session with, and 400 more.
#[derive(Deserialize)]
struct FileMessages {
    messages: Vec<FileMessage>,
}

/// The largest file of messages; larger sessions repeat it.
pub(crate) const MOST_MESSAGES: usize = 10_000;

impl SessionData {
    /// Reads messages for sessions of `n` messages.
    pub fn read(folder: &Path, n: usize, sessions: usize, place: &StorePlace) -> Result<Self, BenchError> {
        let file: FileMessages = read(folder, &format!("msgs-{}.json", n.min(MOST_MESSAGES)))?;
        let messages: Vec<Message> = file.messages.iter().map(FileMessage::to_message).collect();
        Ok(Self::of(messages, n, sessions, place))
    }

    /// Returns sessions of `n` messages; what is left over is appended to them.
    pub(crate) fn of(mut messages: Vec<Message>, n: usize, sessions: usize, place: &StorePlace) -> Self {
        let more = messages.split_off(n.min(MOST_MESSAGES).min(messages.len()));
        let messages = messages.iter().cycle().take(n).cloned().collect();
        Self { messages, more, sessions, place: place.clone() }
    }
}

/// Reads one file of the data.
pub fn read<T: DeserializeOwned>(folder: &Path, file: &str) -> Result<T, BenchError> {
    let path = folder.join(file);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(source) => return Err(BenchError::Unreadable { path, source }),
    };
    serde_json::from_str(&text).map_err(|source| BenchError::Undecodable { path, source })
}

impl Conversation {
    /// Iterates over all messages, the instructions first.
    pub fn messages(&self) -> impl Iterator<Item = &FileMessage> {
        std::iter::once(&self.system).chain(self.turns.iter().flat_map(|it| &it.messages))
    }

    /// Iterates over all messages to change them, the instructions first.
    pub(crate) fn messages_mut(&mut self) -> impl Iterator<Item = &mut FileMessage> {
        std::iter::once(&mut self.system).chain(self.turns.iter_mut().flat_map(|it| &mut it.messages))
    }
}

impl FileTurn {
    /// Returns its messages as the library's users have them.
    pub fn to_messages(&self) -> Vec<Message> {
        self.messages.iter().map(FileMessage::to_message).collect()
    }
}

impl FileMessage {
    /// Returns the message as the library's users have it.
    pub fn to_message(&self) -> Message {
        let mut parts = Vec::new();
        if let Some(call_id) = &self.tool_call_id {
            parts.push(Part::ToolResult(contexture_message::ToolResult {
                call_id: call_id.clone(),
                name: self.name.clone().unwrap_or_default(),
                output: ToolOutput::Text(self.content.clone()),
            }));
        } else if !self.content.is_empty() {
            parts.push(Part::text(self.content.as_str()));
        }
        parts.extend(self.tool_calls.iter().cloned().map(Part::ToolCall));
        Message { role: self.role, content: parts, id: self.id.clone(), name: None }
    }
}

impl FileContext {
    /// Returns the context as the model reads it. The body is the author's and stays as it is.
    pub fn section(&self) -> String {
        let Self { id, tag, body, .. } = self;
        format!("<{tag} id=\"{id}\">\n{body}\n</{tag}>")
    }
}
