//! The input of a pass, shared by everything that reads it, and how its strings are sanitized.

use std::any::{Any, TypeId};
use std::sync::{Arc, Mutex, PoisonError};

use contexture_history::neutral::is_invisible;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::BoxError;
use crate::tags::escape_text;

/// The validated input of one pass. Cheap to clone.
///
/// Each Rust type that closures ask for is deserialized from the JSON value once and then shared.
#[derive(Clone, Debug)]
pub struct Input(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    value: Arc<Value>,
    typed: Mutex<Vec<(TypeId, Arc<dyn Any + Send + Sync>)>>,
}

impl Input {
    /// Wraps a JSON object.
    pub fn new(value: Value) -> Self {
        Self(Arc::new(Inner { value: Arc::new(value), typed: Mutex::default() }))
    }

    /// Returns the JSON value.
    pub fn value(&self) -> &Value {
        &self.0.value
    }

    /// Returns the input deserialized as a Rust type.
    pub fn get<T: DeserializeOwned + Send + Sync + 'static>(&self) -> Result<Arc<T>, BoxError> {
        // A closure over `Value` gets the value itself, not a copy.
        let whole: Arc<dyn Any + Send + Sync> = Arc::clone(&self.0.value) as _;
        if let Ok(same) = whole.downcast::<T>() {
            return Ok(same);
        }
        if let Some(known) = self.known::<T>() {
            return Ok(known);
        }
        let parsed = Arc::new(T::deserialize(&*self.0.value)?);
        self.0
            .typed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push((TypeId::of::<T>(), Arc::clone(&parsed) as _));
        Ok(parsed)
    }

    fn known<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let typed = self.0.typed.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, found) = typed.iter().find(|(id, _)| *id == TypeId::of::<T>())?;
        Arc::clone(found).downcast().ok()
    }
}

impl Default for Input {
    fn default() -> Self {
        Self::new(Value::Object(Map::new()))
    }
}

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
