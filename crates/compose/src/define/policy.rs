//! How input strings are escaped and sanitized before anything reads them.

use contexture_history::neutral::is_invisible;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tags::escape_text;

/// Rules for strings in the input. All off by default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InputPolicy {
    /// Escape `&`, `<` and `>`, so that no value can open or close a tag.
    pub auto_escape: bool,
    /// Remove control, zero-width and direction-changing characters, which models read but people cannot see.
    pub sanitize: bool,
    /// Fields that are left unchanged, by dotted path: `page.html`.
    pub raw_fields: Vec<String>,
}

impl InputPolicy {
    /// Returns the input with the rules applied.
    pub(crate) fn apply(&self, value: Value) -> Value {
        if self.auto_escape || self.sanitize { self.field(value, "") } else { value }
    }

    fn field(&self, value: Value, path: &str) -> Value {
        if self.raw_fields.iter().any(|it| it == path) {
            return value;
        }
        match value {
            Value::String(text) => Value::String(self.text(text)),
            // Items of a list share the list's path.
            Value::Array(items) => items.into_iter().map(|it| self.field(it, path)).collect(),
            Value::Object(fields) => {
                let below = |(key, value): (String, Value)| {
                    let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    let value = self.field(value, &path);
                    (key, value)
                };
                Value::Object(fields.into_iter().map(below).collect())
            }
            other => other,
        }
    }

    fn text(&self, mut text: String) -> String {
        if self.sanitize {
            text.retain(|it| !is_hidden(it));
        }
        if self.auto_escape { escape_text(&text).into_owned() } else { text }
    }
}

/// Characters that a model reads but a person does not see.
fn is_hidden(c: char) -> bool {
    !matches!(c, '\n' | '\r' | '\t') && is_invisible(c)
}
