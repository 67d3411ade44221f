//! The definition of a board, as a project or an application writes it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::BoardError;
use super::schema::BoardSchema;
use super::scope::BoardScope;

/// How long the id of a board and the prefix of its tools may be: with it the names of tools stay short enough.
const MAX_ID: usize = 48;

/// The options of a board.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoardOptions {
    /// Its id: letters, digits, `_` and `-`.
    pub id: String,
    /// The JSON Schema of what it holds. A field's `x-merge` says how writes to it are merged.
    pub schema: Value,
    /// Who shares it.
    #[serde(default)]
    pub scope: BoardScope,
    /// Whether the model gets tools to read and write it.
    #[serde(default = "yes")]
    pub tools: bool,
    /// What the names of the tools begin with; the id if absent.
    #[serde(default)]
    pub prefix: Option<String>,
    /// What it is for. The model reads it.
    #[serde(default)]
    pub description: Option<String>,
}

fn yes() -> bool {
    true
}

impl BoardOptions {
    /// Returns the options of a board of a session, with tools.
    pub fn new(id: impl Into<String>, schema: Value) -> Self {
        let (id, scope) = (id.into(), BoardScope::default());
        Self { id, schema, scope, tools: true, prefix: None, description: None }
    }

    /// Sets who shares it.
    #[must_use]
    pub fn scope(self, scope: BoardScope) -> Self {
        Self { scope, ..self }
    }
}

/// A checked definition of a board.
#[derive(Clone, Debug)]
pub struct BoardDefinition {
    pub(crate) options: BoardOptions,
    pub(crate) schema: BoardSchema,
}

impl BoardDefinition {
    /// Checks options.
    pub fn new(options: BoardOptions) -> Result<Self, BoardError> {
        let refused = |reason| BoardError::Definition { id: options.id.clone(), reason };
        for (what, name) in [("id", Some(&options.id)), ("prefix", options.prefix.as_ref())] {
            if let Some(name) = name.filter(|it| !is_name(it)) {
                let rule = format!("1 to {MAX_ID} letters, digits, `_` and `-`, beginning with a letter");
                return Err(refused(format!("its {what} `{name}` is not {rule}")));
            }
        }
        let schema = BoardSchema::new(&options.schema).map_err(refused)?;
        Ok(Self { schema, options })
    }

    /// Returns the id.
    pub fn id(&self) -> &str {
        &self.options.id
    }

    /// Returns who shares the board.
    pub fn scope(&self) -> BoardScope {
        self.options.scope
    }

    /// Returns the compiled schema.
    pub fn schema(&self) -> &BoardSchema {
        &self.schema
    }

    /// Returns the options it was made of.
    pub fn options(&self) -> &BoardOptions {
        &self.options
    }

    /// Returns what the names of its tools begin with.
    pub(crate) fn prefix(&self) -> &str {
        self.options.prefix.as_deref().unwrap_or(&self.options.id)
    }
}

fn is_name(name: &str) -> bool {
    let is_allowed = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '-');
    name.len() <= MAX_ID
        && name.chars().all(is_allowed)
        && name.starts_with(|it: char| it.is_ascii_alphabetic())
}
