//! What `lint` wants to know of a file, noted while it is read.

use std::collections::BTreeSet;

use contexture_compose::Volatility;
use contexture_message::ToolDefinition;
use serde_json::Value;

use crate::error::Place;
use crate::spread::Spread;
use crate::tools::ProjectTool;

/// What was noted about one file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// The global variables that its templates and conditions read.
    pub(crate) variables: Vec<Read>,
    /// The input schemas that it declares.
    pub(crate) schemas: Vec<Value>,
    /// Its entries, in order.
    pub(crate) uses: Vec<Use>,
    /// The files of the blocks that its entries name.
    pub(crate) blocks: BTreeSet<String>,
    /// Tools that the project itself can run.
    pub(crate) tools: Vec<(ProjectTool, Place)>,
    /// Tools that the application runs, unless another file says how.
    pub(crate) plain_tools: Vec<(ToolDefinition, Place)>,
    /// Tools without a description.
    pub(crate) silent_tools: Vec<(String, Place)>,
    /// The top-level keys that it adds to the tag tree.
    pub(crate) slot: Vec<(String, Place)>,
    /// What a `<context>` section reads of the tag tree, if there is one.
    pub(crate) section: Option<Vec<Read>>,
    /// What the text of the user's turn reads.
    pub(crate) user: Vec<Read>,
    /// Tools that the model is told to call.
    pub(crate) chosen_tools: Vec<ChosenTool>,
    /// Where a prompt is given its id.
    pub(crate) id: Option<Place>,
    /// Where its templates stand.
    pub(crate) texts: Vec<Spread>,
    /// Remarks that need no other file.
    pub(crate) remarks: Vec<Remark>,
}

impl Facts {
    /// Returns the place in the file of what one of its templates counts as `counted`.
    pub(crate) fn in_file(&self, counted: Place) -> Place {
        // Escapes let a template count further than its lines go, into the next one: something stands at the place,
        // and whoever begins last before it has it.
        let found =
            self.texts.iter().filter_map(|it| Some(((it.has_ink(counted), it.start), it.find(counted)?)));
        found.max_by_key(|(rank, _)| *rank).map_or(counted, |(_, place)| place)
    }
}

/// A tool that the model is told to call.
#[derive(Clone, Debug)]
pub(crate) struct ChosenTool {
    /// The field that says so, such as `adapt.openai.tool_choice`.
    pub(crate) field: String,
    pub(crate) tool: String,
    pub(crate) place: Place,
}

/// A variable that is read somewhere.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub(crate) path: Vec<String>,
    pub(crate) file: String,
    pub(crate) place: Place,
}

/// An entry that is used.
#[derive(Clone, Debug)]
pub(crate) enum Use {
    File { path: String, place: Place },
    Inline(Spot),
}

/// How a context is laid out.
#[derive(Clone, Debug)]
pub(crate) struct Spot {
    /// `context:brand`, or the word `context` for one without an id.
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) volatility: Volatility,
    pub(crate) cached: bool,
    /// Whether its text stands in the system message.
    pub(crate) in_system: bool,
    pub(crate) uses: Vec<Use>,
}

/// A warning about a file alone.
#[derive(Clone, Debug)]
pub(crate) struct Remark {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) place: Place,
    pub(crate) hint: Option<&'static str>,
}
