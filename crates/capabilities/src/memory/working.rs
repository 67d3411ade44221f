//! The working state of a session: a blackboard under the schema that a memory entry gives.
//!
//! The board is the only place that keeps the state. Checks, versions, tools and what the model reads are those of
//! [blackboards](crate::blackboard).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::blackboard::BoardOptions;

/// The id of the board with the working state of a session.
pub const WORKING: &str = "working";

/// The working state of each session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkingOptions {
    /// The JSON Schema of the state, an object. A field's `x-merge` says how writes to it are merged.
    pub schema: Value,
    /// What the state is for. The model reads it.
    #[serde(default)]
    pub description: Option<String>,
}

impl WorkingOptions {
    /// Returns the options of a state under a schema.
    pub fn new(schema: Value) -> Self {
        Self { schema, description: None }
    }

    /// Returns the options of its board.
    pub(crate) fn board(&self) -> BoardOptions {
        let description = self.description.clone();
        BoardOptions { description, ..BoardOptions::new(WORKING, self.schema.clone()) }
    }
}

/// What the layer `working` of a memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkingLayer {
    /// Notes in free text, as records of the namespace.
    FreeText,
    /// State of the session under a schema, which tools of its own write.
    State,
}
