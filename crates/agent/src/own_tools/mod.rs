//! The engine's own tools: `read_tool_result` and `recall`, by which the model reads what a request does not show.
//!
//! Requests show large tool results as previews and old ranges as summaries; the log keeps everything. These tools read
//! the log of the thread on which they are called, after its last reset, and nothing else; they never write.
//!
//! Tools stand at the front of every request, so a tool that comes or goes costs the provider's cache. Therefore each is
//! offered only once there is something to read with it, and from then on always:
//!
//! * `recall` while the thread has an archive;
//! * `read_tool_result` with an archive, with old results, from the first pass on that shows a result as a preview, and
//!   from the first result on that was too large for the log's message. The last two are noted in the thread.
//!
//! Models with a small window get only `read_tool_result`, or none of them. A tool of the user's with the same name wins. What the tools return is small enough to be shown whole.

mod log;
mod output;
mod range;
mod read_result;
mod recall;

use contexture_compose::{Pass, SharedTool};
use contexture_message::{Tokens, ToolDefinition};
use contexture_session::{NewItem, Snapshot};
use serde_json::{Value, json};

use self::range::Room;
use crate::agent::AgentConfig;
use crate::tool::ToolRefused;

/// The note that a thread has results that are shown as previews.
const KEY: &str = "contexture.reads_results";

/// The names of the engine's own tools, which any thread may offer.
pub const ENGINE_TOOLS: [&str; 2] = [READ_RESULT, RECALL];

/// Their names, as the definitions have them.
const READ_RESULT: &str = "read_tool_result";
const RECALL: &str = "recall";

/// The engine's own tools, made once for each agent.
pub(crate) struct OwnTools {
    read_result: SharedTool,
    recall: SharedTool,
}

/// What of it a pass offers.
#[derive(Default)]
pub(crate) struct Offer {
    /// Offered in any case.
    pub(crate) always: Vec<SharedTool>,
    /// Offered if a result is shown as a preview.
    pub(crate) with_previews: Option<SharedTool>,
}

impl OwnTools {
    pub(crate) fn new(config: &AgentConfig) -> Result<Self, ToolRefused> {
        let room = Room::of(config);
        Ok(Self { read_result: read_result::tool(room)?.into(), recall: recall::tool(room)?.into() })
    }

    /// Says what a pass on a thread offers to a model with that window, if it is known. Where a prompt shows no history, there
    /// is nothing that it would have to recall.
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

    /// Returns the note that makes an offer last, if a pass is the first to make it.
    pub(crate) fn record(&self, thread: &Snapshot, pass: &Pass) -> Option<NewItem> {
        let offered = pass.request().tools.iter().any(|it| it == self.read_result.tool());
        (offered && !has_previews(thread)).then(has_preview)
    }
}

/// A definition costs about 250 tokens: too much for models that have next to no room.
const SMALLEST_WINDOW: Tokens = Tokens(2048);
/// What was summarised can be done without where there is little room. A result that the model has never read can't.
const SMALLEST_TO_RECALL: Tokens = Tokens(8192);

/// Returns the note that something of a thread is shown as a preview.
pub(crate) fn has_preview() -> NewItem {
    NewItem::note(KEY, Some(json!(true)))
}

/// Whether it is known that something of a thread is not shown whole. What was before a reset does not count.
fn has_previews(thread: &Snapshot) -> bool {
    let state = thread.state();
    let noted = state.notes.get(KEY).is_some_and(|it| *it > state.history_after);
    noted || !state.archives.is_empty() || state.aged_results > state.history_after
}

/// Reads a tool's definition. It is a file: all of it is text that the model reads.
fn definition(json: &str) -> Result<ToolDefinition, ToolRefused> {
    let refused = |err: serde_json::Error| ToolRefused { name: "own".to_owned(), reason: err.to_string() };
    serde_json::from_str(json).map_err(refused)
}

/// Returns a number of the arguments. Models write whole numbers as `5.0` too, and the schema takes them.
fn number(arguments: &Value, name: &str) -> Option<u64> {
    let value = arguments.get(name)?;
    value.as_u64().or_else(|| value.as_f64().filter(|it| *it >= 0.0).map(|it| it as u64))
}

fn position(arguments: &Value, name: &str) -> Option<usize> {
    number(arguments, name).map(|it| usize::try_from(it).unwrap_or(usize::MAX))
}
