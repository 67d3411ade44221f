//! System events: durable facts between messages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The longest name of an event, in bytes.
const MAX_NAME: usize = 64;
/// The longest text of an event, in bytes.
const MAX_TEXT: usize = 16 * 1024;
/// The most data of an event, in bytes of JSON.
const MAX_DATA: usize = 16 * 1024;
/// Names of the engine's own events: the name itself, and all names that continue it with a dot.
const OWN: [&str; 3] = ["artifact", "compaction", "memory"];

/// A durable fact between messages, such as a deployment that finished.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SystemEvent {
    /// Its name, written as an attribute of the tag around it.
    pub name: String,
    /// The description of the event, which the model reads.
    pub text: String,
    /// Data for the application. The model does not read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

/// What is wrong with an event from outside.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventInvalid {
    /// The name breaks a rule.
    #[error("invalid event name `{shown}`: {why}")]
    Name {
        /// The beginning of the name.
        shown: String,
        /// The rule it breaks.
        why: &'static str,
    },
    /// There is nothing to read.
    #[error("the text of the event is blank")]
    Blank,
    /// A field is too long.
    #[error("the {field} of the event has {bytes} bytes; it has at most {max}")]
    TooLong {
        /// `text` or `data`.
        field: &'static str,
        /// Its size.
        bytes: usize,
        /// The limit.
        max: usize,
    },
}

impl EventInvalid {
    /// Returns the field at fault.
    pub fn field(&self) -> &'static str {
        match self {
            EventInvalid::Name { .. } => "name",
            EventInvalid::Blank => "text",
            EventInvalid::TooLong { field, .. } => field,
        }
    }
}

impl SystemEvent {
    /// Returns an event without data. Its name is not checked.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: text.into(), data: None }
    }

    /// Adds data for the application.
    #[must_use]
    pub fn data(self, data: Value) -> Self {
        Self { data: Some(data), ..self }
    }

    /// Returns an event that comes from outside, if it keeps the rules: the name has letters, digits, `.`, `_` and `-`
    /// and is none of the engine's own, the text is not blank, and neither is too long.
    ///
    /// ```
    /// use contexture_history::SystemEvent;
    ///
    /// assert!(SystemEvent::from_outside("deploy.finished", "Version 7 is live.", None).is_ok());
    /// let forged = SystemEvent::from_outside("artifact.updated", "Version 7 is live.", None).unwrap_err();
    /// assert_eq!(forged.field(), "name");
    /// ```
    pub fn from_outside(
        name: impl Into<String>,
        text: impl Into<String>,
        data: Option<Value>,
    ) -> Result<Self, EventInvalid> {
        let event = Self { name: name.into(), text: text.into(), data };
        if let Some(why) = broken_rule(&event.name) {
            return Err(EventInvalid::Name { shown: event.name.chars().take(40).collect(), why });
        }
        if event.text.trim().is_empty() {
            return Err(EventInvalid::Blank);
        }
        let data = event.data.as_ref().map_or(0, |it| it.to_string().len());
        let sizes = [("text", event.text.len(), MAX_TEXT), ("data", data, MAX_DATA)];
        match sizes.into_iter().find(|(_, bytes, max)| bytes > max) {
            Some((field, bytes, max)) => Err(EventInvalid::TooLong { field, bytes, max }),
            None => Ok(event),
        }
    }
}

fn broken_rule(name: &str) -> Option<&'static str> {
    let is_allowed = |it: char| it.is_ascii_alphanumeric() || matches!(it, '.' | '_' | '-');
    let is_own =
        |it: &&str| name.strip_prefix(*it).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    match name {
        "" => Some("it is empty"),
        _ if name.len() > MAX_NAME => Some("it is longer than 64 bytes"),
        _ if !name.chars().all(is_allowed) => Some("it may have letters, digits, `.`, `_` and `-`"),
        _ if !name.starts_with(|it: char| it.is_ascii_alphanumeric()) => {
            Some("it must begin with a letter or a digit")
        }
        _ if OWN.iter().any(is_own) => Some("the engine itself uses it"),
        _ => None,
    }
}
