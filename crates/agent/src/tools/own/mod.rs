//! The engine's own tools, `read_tool_result` and `recall`: the model uses them to read what a request does not show.
//!
//! Requests show large tool results as previews and old ranges as summaries; the log keeps everything. These tools
//! read only the log of the thread on which they are called, after its last reset, and never write.
//!
//! Tool definitions come first in every request, so adding or removing one costs the provider's cache. Each tool is
//! therefore offered only once there is something to read with it, and from then on always:
//!
//! * `recall` as soon as the thread has an archive;
//! * `read_tool_result` as soon as the thread has an archive or old results, a pass shows a result as a preview, or a
//!   result was too large for a message in the log. The last two are noted in the thread.
//!
//! Models with a small window get only `read_tool_result`, or neither. A user's tool with the same name takes
//! precedence. The tools' own results are small enough to be shown in full.

mod log;
mod range;
mod read_result;
mod recall;

use contexture_compose::{Pass, SharedTool};
use contexture_message::{Tokens, ToolDefinition};
use contexture_session::{NewItem, Snapshot};
use serde_json::{Value, json};

pub(crate) use self::log::TOOL_OUTPUT;
use self::range::Room;
use super::tool::ToolRefused;
use crate::compaction::CompactionConfig;

/// The key of the note that a thread has results shown as previews.
const KEY: &str = "contexture.reads_results";

/// The names of the engine's own tools, which may be offered on any thread.
pub const ENGINE_TOOLS: [&str; 2] = [READ_RESULT, RECALL];

/// The names as in the definitions.
const READ_RESULT: &str = "read_tool_result";
const RECALL: &str = "recall";

/// The engine's own tools, created once per agent.
pub(crate) struct OwnTools {
    read_result: SharedTool,
    recall: SharedTool,
}

/// The tools that a pass offers.
#[derive(Default)]
pub(crate) struct Offer {
    /// Offered in any case.
    pub(crate) always: Vec<SharedTool>,
    /// Offered if the pass shows a result as a preview.
    pub(crate) with_previews: Option<SharedTool>,
}

impl OwnTools {
    /// Returns the tools. Results of more than `max_bytes` would be shown as previews themselves.
    pub(crate) fn new(config: &CompactionConfig, max_bytes: usize) -> Result<Self, ToolRefused> {
        let room = Room::of(config, max_bytes);
        Ok(Self {
            read_result: read_result::tool(room)?.only_reads().into(),
            recall: recall::tool(room)?.only_reads().into(),
        })
    }

    /// Returns the tools that a pass on a thread offers to a model with that window, if known. A prompt that shows no
    /// history has nothing to recall.
    pub(crate) fn offer(&self, thread: &Snapshot, window: Option<Tokens>, shows_history: bool) -> Offer {
        let mut offer = Offer::default();
        let is_at_least = |tokens: Tokens| window.is_none_or(|it| it >= tokens);
        if !is_at_least(SMALLEST_WINDOW) {
            return offer;
        }
        if !thread.state().archives.is_empty() && shows_history && is_at_least(SMALLEST_TO_RECALL) {
            offer.always.push(self.recall.clone());
        }
        match has_previews(thread) {
            true => offer.always.push(self.read_result.clone()),
            false => offer.with_previews = Some(self.read_result.clone()),
        }
        offer
    }

    /// Returns the note that makes the offer permanent, if a pass is the first to make it.
    pub(crate) fn record(&self, thread: &Snapshot, pass: &Pass) -> Option<NewItem> {
        let offered = pass.request().tools.iter().any(|it| it == self.read_result.tool());
        (offered && !has_previews(thread)).then(has_preview)
    }
}

/// A definition costs about 250 tokens, too much for models with a very small window.
const SMALLEST_WINDOW: Tokens = Tokens(2048);
/// With little room, the model can do without summarised text, but not without a result that it has never read.
const SMALLEST_TO_RECALL: Tokens = Tokens(8192);

/// Returns the note that a thread has something shown as a preview.
pub(crate) fn has_preview() -> NewItem {
    NewItem::note(KEY, Some(json!(true)))
}

/// Whether the thread is known to have something that is not shown in full. Anything before a reset does not count.
fn has_previews(thread: &Snapshot) -> bool {
    let state = thread.state();
    let noted = state.notes.get(KEY).is_some_and(|it| *it > state.history_after);
    noted || !state.archives.is_empty() || state.aged_results > state.history_after
}

/// Parses a tool's definition. It is in a file because all of it is text that the model reads.
fn definition(json: &str) -> Result<ToolDefinition, ToolRefused> {
    let refused = |err: serde_json::Error| ToolRefused { name: "own".to_owned(), reason: err.to_string() };
    serde_json::from_str(json).map_err(refused)
}

/// Returns a numeric argument. Models also write integers as `5.0`, which the schema accepts.
fn number(arguments: &Value, name: &str) -> Option<u64> {
    let value = arguments.get(name)?;
    value.as_u64().or_else(|| value.as_f64().filter(|it| *it >= 0.0).map(|it| it as u64))
}

fn position(arguments: &Value, name: &str) -> Option<usize> {
    number(arguments, name).map(|it| usize::try_from(it).unwrap_or(usize::MAX))
}
