//! What `lint` wants to know of a file, noted while it is read.

use contexture_compose::Volatility;
use serde_json::Value;

use crate::error::Place;

/// What was noted about one file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// The global variables that its templates and conditions read.
    pub(crate) variables: Vec<Read>,
    /// The input schemas that it declares.
    pub(crate) schemas: Vec<Value>,
    /// Its entries, in order.
    pub(crate) uses: Vec<Use>,
    /// Tools without a description.
    pub(crate) silent_tools: Vec<(String, Place)>,
    /// The top-level keys that it adds to the tag tree.
    pub(crate) slot: Vec<(String, Place)>,
    /// What a `<context>` section reads of the tag tree, if there is one.
    pub(crate) section: Option<Vec<Read>>,
    /// Remarks that need no other file.
    pub(crate) remarks: Vec<Remark>,
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
