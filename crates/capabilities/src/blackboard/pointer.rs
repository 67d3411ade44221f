//! JSON Pointers (RFC 6901): how parts of a board are addressed.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::error::BoardError;

/// A path into a board, such as `/items/3/done`; the empty one is the whole board.
///
/// Paths are ordered so that everything below a path follows it directly.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pointer(Vec<String>);

impl Pointer {
    /// Returns the names of the path, from the top.
    pub fn names(&self) -> &[String] {
        &self.0
    }

    /// Whether it is the whole board.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it is the other path or one above it.
    pub fn covers(&self, other: &Pointer) -> bool {
        other.0.starts_with(&self.0)
    }

    /// Returns the path one level below.
    #[must_use]
    pub fn child(&self, name: impl Into<String>) -> Self {
        let mut names = self.0.clone();
        names.push(name.into());
        Self(names)
    }

    /// Returns the path above it and its last name; nothing for the whole board.
    pub fn split(&self) -> Option<(Pointer, &str)> {
        let (last, above) = self.0.split_last()?;
        Some((Pointer(above.to_vec()), last))
    }

    /// Returns the paths above it and itself, from the top.
    pub(crate) fn upwards(&self) -> impl Iterator<Item = Pointer> {
        (0..=self.0.len()).map(|it| Pointer(self.0[..it].to_vec()))
    }

    /// Returns the value at the path.
    pub fn get<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.0.iter().try_fold(value, |value, name| match value {
            Value::Object(fields) => fields.get(name),
            Value::Array(items) => items.get(index(name)?),
            _ => None,
        })
    }

    /// Sets the value at the path, which may be one behind the end of an array. Missing objects above it are made.
    /// Returns whether the path can exist.
    pub(crate) fn set(&self, value: &mut Value, new: Value) -> bool {
        let mut place = value;
        for name in &self.0 {
            let Some(next) = slot(place, name) else { return false };
            place = next;
        }
        *place = new;
        true
    }

    /// Removes a field of an object. Returns whether it existed.
    pub(crate) fn remove_field(&self, value: &mut Value) -> bool {
        let Some((above, name)) = self.split() else { return false };
        match above.get_mut(value) {
            Some(Value::Object(fields)) => fields.remove(name).is_some(),
            _ => false,
        }
    }

    pub(crate) fn get_mut<'a>(&self, value: &'a mut Value) -> Option<&'a mut Value> {
        self.0.iter().try_fold(value, |value, name| match value {
            Value::Object(fields) => fields.get_mut(name),
            Value::Array(items) => items.get_mut(index(name)?),
            _ => None,
        })
    }
}

/// Returns the place of a name in a value, which is made if it does not exist.
fn slot<'a>(value: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    // A place that was made on the way is empty.
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(fields) => Some(fields.entry(name.to_owned()).or_insert(Value::Null)),
        Value::Array(items) => {
            let index = index(name)?;
            if index == items.len() {
                items.push(Value::Null);
            }
            items.get_mut(index)
        }
        _ => None,
    }
}

/// Reads an index of an array: digits without a leading zero.
pub(crate) fn index(name: &str) -> Option<usize> {
    let is_plain = name.bytes().all(|it| it.is_ascii_digit()) && (name == "0" || !name.starts_with('0'));
    if is_plain { name.parse().ok() } else { None }
}

impl FromStr for Pointer {
    type Err = BoardError;

    fn from_str(text: &str) -> Result<Self, BoardError> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let invalid = |why| BoardError::InvalidPath { path: text.chars().take(100).collect(), why };
        let Some(names) = text.strip_prefix('/') else {
            return Err(invalid("it does not begin with `/`"));
        };
        let name = |it: &str| {
            let is_escaped = it.split('~').skip(1).all(|it| it.starts_with(['0', '1']));
            is_escaped.then(|| it.replace("~1", "/").replace("~0", "~"))
        };
        let names: Option<Vec<String>> = names.split('/').map(name).collect();
        names.map(Self).ok_or_else(|| invalid("`~` is written `~0`, and `/` in a name `~1`"))
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|it| write!(f, "/{}", it.replace('~', "~0").replace('/', "~1")))
    }
}

impl TryFrom<String> for Pointer {
    type Error = BoardError;

    fn try_from(text: String) -> Result<Self, BoardError> {
        text.parse()
    }
}

impl From<Pointer> for String {
    fn from(path: Pointer) -> String {
        path.to_string()
    }
}
