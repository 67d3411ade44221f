//! Facts about a file that `lint` needs, recorded while the file is read.

use std::collections::BTreeSet;

use contexture_compose::Volatility;
use contexture_message::ToolDefinition;
use serde_json::Value;

use crate::error::Place;
use crate::read::tools::ProjectTool;
use crate::source::spread::Spread;

/// The facts about one file.
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
    /// Tools that the project can run.
    pub(crate) tools: Vec<(ProjectTool, Place)>,
    /// Tools that the application runs, unless another file declares an HTTP call for them.
    pub(crate) plain_tools: Vec<(ToolDefinition, Place)>,
    /// Tools without a description.
    pub(crate) silent_tools: Vec<(String, Place)>,
    /// The blackboards that it defines.
    pub(crate) boards: Vec<DefinedBoard>,
    /// The top-level keys that it adds to the tag tree.
    pub(crate) slot: Vec<(String, Place)>,
    /// The variables that a `<context>` section reads from the tag tree, if there is such a section.
    pub(crate) section: Option<Vec<Read>>,
    /// The variables that the user text reads.
    pub(crate) user: Vec<Read>,
    /// The capability that it defines, with the names of its values.
    pub(crate) capability: Option<(String, Vec<String>)>,
    /// Whether it has a context provider that makes HTTP calls.
    pub(crate) asks_servers: bool,
    /// Tools that a `tool_choice` names.
    pub(crate) chosen_tools: Vec<ChosenTool>,
    /// The position where a prompt declares its id.
    pub(crate) id: Option<Place>,
    /// The texts of its templates, with their positions.
    pub(crate) texts: Vec<Spread>,
    /// Warnings that depend on this file alone.
    pub(crate) remarks: Vec<Remark>,
}

/// A blackboard that a file defines.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DefinedBoard {
    pub(crate) id: String,
    pub(crate) schema: Value,
    /// How the names of its tools begin, if it has any.
    pub(crate) prefix: Option<String>,
    pub(crate) place: Place,
}

impl Facts {
    /// Maps a position that one of the templates counted to the file.
    pub(crate) fn in_file(&self, counted: Place) -> Place {
        // Escapes such as `\n` give a template more lines than its source has, so a counted position may run into the
        // next text. Prefer a text with a visible character at the position, then the one that starts last.
        let found =
            self.texts.iter().filter_map(|it| Some(((it.has_ink(counted), it.start), it.find(counted)?)));
        found.max_by_key(|(rank, _)| *rank).map_or(counted, |(_, place)| place)
    }
}

/// A tool that a `tool_choice` names.
#[derive(Clone, Debug)]
pub(crate) struct ChosenTool {
    /// The field that names it, such as `adapt.openai.tool_choice`.
    pub(crate) field: String,
    pub(crate) tool: String,
    pub(crate) place: Place,
}

/// A variable that a text reads.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub(crate) path: Vec<String>,
    pub(crate) file: String,
    pub(crate) place: Place,
}

/// A use of an entry.
#[derive(Clone, Debug)]
pub(crate) enum Use {
    File { path: String, place: Place },
    Inline(Spot),
}

/// Where and how a context appears in the prompt.
#[derive(Clone, Debug)]
pub(crate) struct Spot {
    /// `context:brand`, or just `context` if it has no id.
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) volatility: Volatility,
    pub(crate) cached: bool,
    /// Whether its text is part of the system message.
    pub(crate) in_system: bool,
    pub(crate) uses: Vec<Use>,
}

/// A warning that depends on one file alone.
#[derive(Clone, Debug)]
pub(crate) struct Remark {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) place: Place,
    pub(crate) hint: Option<&'static str>,
}
