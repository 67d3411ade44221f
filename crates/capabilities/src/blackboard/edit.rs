//! Decides what a write changes: from the state of a board and an edit to the changes of its record. Pure.
//!
//! The rule, in full:
//!
//! 1. The edit is made on a copy. Every path that it touches is noted: a field, an element, or a whole array if its
//!    elements move.
//! 2. Each touched path must be as the writer expects it. Merging a value (`append`, `union`, `counter`, `max`), adding
//!    to the end of an array, and what a `test` of the same patch covers expect nothing.
//! 3. The result fits the schema and the limit of size.
//! 4. What did not change is left out. An edit without changes makes no record.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use super::error::BoardError;
use super::pointer::{Pointer, index};
use super::schema::{BoardSchema, MergeRule};
use super::state::{BoardState, PathChange};

/// How large a board may be, as JSON. All of it is part of requests.
pub const MAX_BOARD_BYTES: usize = 64 * 1024;
/// How deep a board may be nested: less than a log can hold.
const MAX_DEPTH: usize = 32;

/// What a writer expects of the paths that it writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expected {
    /// There is nothing yet, or only a default.
    #[default]
    Nothing,
    /// They have not changed since this version of the board.
    At(u64),
    /// Whatever is there may be replaced.
    Any,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expected::Nothing => f.write_str("nothing there"),
            Expected::At(version) => write!(f, "at most {version}"),
            Expected::Any => f.write_str("anything"),
        }
    }
}

impl From<Option<u64>> for Expected {
    fn from(version: Option<u64>) -> Self {
        version.map_or(Expected::Nothing, Expected::At)
    }
}

/// A change that a writer wants.
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// Writes a value by the merge rule of its field.
    Put {
        /// The field; `-` as the last name is the end of an array.
        path: Pointer,
        /// The value.
        value: Value,
    },
    /// Applies a JSON Patch (RFC 6902) as a whole or not at all.
    Patch(Vec<PatchOperation>),
    /// Removes a value, or sets it back to its default; an empty path clears the board.
    Clear(Pointer),
}

/// An operation of a JSON Patch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum PatchOperation {
    /// Sets a field, or inserts an element.
    Add {
        /// The place of the new value.
        path: Pointer,
        /// The new value.
        value: Value,
    },
    /// Removes what is there.
    Remove {
        /// The place.
        path: Pointer,
    },
    /// Replaces what is there.
    Replace {
        /// The place.
        path: Pointer,
        /// The new value.
        value: Value,
    },
    /// Removes a value and adds it at another place.
    Move {
        /// The old place.
        from: Pointer,
        /// The new place.
        path: Pointer,
    },
    /// Adds a value that is at another place too.
    Copy {
        /// The place of the value.
        from: Pointer,
        /// The place of the copy.
        path: Pointer,
    },
    /// Fails the patch unless the value there is this one.
    Test {
        /// The place.
        path: Pointer,
        /// The value that must be there.
        value: Value,
    },
}

/// Returns what an edit changes. Nothing, if everything is as it would be after it.
pub(crate) fn changes(
    state: &BoardState,
    schema: &BoardSchema,
    edit: &Edit,
    expected: Expected,
) -> Result<Vec<PathChange>, BoardError> {
    let mut draft = Draft { value: state.value().clone(), touched: Vec::new(), tested: Vec::new() };
    match edit {
        Edit::Put { path, value } => draft.put(path, value, schema.rule(path))?,
        Edit::Patch(operations) => operations.iter().try_for_each(|it| draft.operate(it))?,
        Edit::Clear(path) => draft.clear(path, schema.initial())?,
    }
    draft.check_expected(state, schema, expected)?;
    check_result(&draft.value, schema)?;
    Ok(draft.changes(state.value()))
}

fn check_result(value: &Value, schema: &BoardSchema) -> Result<(), BoardError> {
    let bytes = value.to_string().len();
    if bytes > MAX_BOARD_BYTES {
        return Err(BoardError::TooLarge { bytes, max: MAX_BOARD_BYTES });
    }
    if depth_exceeds(value, MAX_DEPTH) {
        let faults = vec![format!("it is nested deeper than {MAX_DEPTH} levels")];
        return Err(BoardError::Schema { faults });
    }
    let faults = schema.faults(value);
    if faults.is_empty() { Ok(()) } else { Err(BoardError::Schema { faults }) }
}

fn depth_exceeds(value: &Value, levels: usize) -> bool {
    match value {
        _ if levels == 0 => true,
        Value::Array(items) => items.iter().any(|it| depth_exceeds(it, levels - 1)),
        Value::Object(fields) => fields.values().any(|it| depth_exceeds(it, levels - 1)),
        _ => false,
    }
}

/// A board while an edit is made.
struct Draft {
    value: Value,
    /// The paths that were touched, and whether the writer must expect what was there.
    touched: Vec<(Pointer, bool)>,
    tested: Vec<Pointer>,
}

impl Draft {
    fn put(&mut self, path: &Pointer, value: &Value, rule: MergeRule) -> Result<(), BoardError> {
        if let Some((above, "-")) = path.split() {
            return self.extend(&above, &Value::Array(vec![value.clone()]), MergeRule::Append);
        }
        match rule {
            MergeRule::Replace => self.set(path, value.clone()),
            MergeRule::Append | MergeRule::Union => self.extend(path, value, rule),
            MergeRule::Counter | MergeRule::Max => self.combine(path, value, rule),
        }
    }

    /// Adds values to the end of the array at a path, which is made if it does not exist.
    fn extend(&mut self, path: &Pointer, value: &Value, rule: MergeRule) -> Result<(), BoardError> {
        let new = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        match path.get(&self.value) {
            Some(Value::Array(_)) => {}
            None | Some(Value::Null) => {
                let items = Value::Array(Vec::new());
                self.place(path, items)?;
                // Two writers may both make the array: what they add is merged.
                self.touched.push((path.clone(), false));
            }
            Some(_) => return Err(merge_fault(path, rule, "what is there is not an array")),
        }
        for value in new {
            let has =
                |items: &Value| items.as_array().is_some_and(|it| it.iter().any(|it| is_equal(it, value)));
            if rule == MergeRule::Append || !path.get(&self.value).is_some_and(has) {
                self.push(path, value.clone())?;
            }
        }
        Ok(())
    }

    fn combine(&mut self, path: &Pointer, value: &Value, rule: MergeRule) -> Result<(), BoardError> {
        let merged = match path.get(&self.value) {
            None | Some(Value::Null) if rule == MergeRule::Max || value.is_number() => value.clone(),
            None | Some(Value::Null) => return Err(merge_fault(path, rule, "the value is not a number")),
            Some(old) if rule == MergeRule::Counter => {
                sum(old, value).ok_or_else(|| merge_fault(path, rule, "the sum is not a number that fits"))?
            }
            Some(old) => match compared(old, value) {
                Some(Ordering::Less) => value.clone(),
                Some(_) => old.clone(),
                None => return Err(merge_fault(path, rule, "the values can't be compared")),
            },
        };
        self.place(path, merged)?;
        self.touched.push((path.clone(), false));
        Ok(())
    }

    /// Sets a field or an element that exists; missing objects above it are made.
    fn set(&mut self, path: &Pointer, value: Value) -> Result<(), BoardError> {
        self.place(path, value)?;
        self.touched.push((path.clone(), true));
        Ok(())
    }

    /// Writes without noting it.
    fn place(&mut self, path: &Pointer, value: Value) -> Result<(), BoardError> {
        match path.set(&mut self.value, value) {
            true => Ok(()),
            false => Err(no_such(path)),
        }
    }

    fn push(&mut self, array: &Pointer, value: Value) -> Result<(), BoardError> {
        let Some(Value::Array(items)) = array.get_mut(&mut self.value) else { return Err(no_such(array)) };
        items.push(value);
        self.touched.push((array.child((items.len() - 1).to_string()), false));
        Ok(())
    }

    fn operate(&mut self, operation: &PatchOperation) -> Result<(), BoardError> {
        match operation {
            PatchOperation::Add { path, value } => self.add(path, value.clone()),
            PatchOperation::Remove { path } => self.remove(path).map(drop),
            PatchOperation::Replace { path, value } => {
                self.existing(path)?;
                self.set(path, value.clone())
            }
            PatchOperation::Move { from, path } => {
                if from.covers(path) && from != path {
                    return Err(no_such(path));
                }
                let value = self.remove(from)?;
                self.add(path, value)
            }
            PatchOperation::Copy { from, path } => {
                let value = self.existing(from)?.clone();
                self.add(path, value)
            }
            PatchOperation::Test { path, value } => match path.get(&self.value) {
                Some(found) if is_equal(found, value) => {
                    self.tested.push(path.clone());
                    Ok(())
                }
                found => Err(BoardError::TestFailed {
                    path: path.to_string(),
                    value: found.cloned().unwrap_or_default(),
                }),
            },
        }
    }

    fn existing(&self, path: &Pointer) -> Result<&Value, BoardError> {
        path.get(&self.value).ok_or_else(|| no_such(path))
    }

    fn add(&mut self, path: &Pointer, value: Value) -> Result<(), BoardError> {
        let Some((above, name)) = path.split() else { return self.set(path, value) };
        match above.get_mut(&mut self.value) {
            Some(Value::Object(_)) => self.set(path, value),
            Some(Value::Array(items)) => match index(name) {
                _ if name == "-" => self.push(&above, value),
                Some(place) if place == items.len() => self.push(&above, value),
                Some(place) if place < items.len() => {
                    items.insert(place, value);
                    self.touched.push((above, true));
                    Ok(())
                }
                _ => Err(no_such(path)),
            },
            _ => Err(no_such(path)),
        }
    }

    fn remove(&mut self, path: &Pointer) -> Result<Value, BoardError> {
        let Some((above, name)) = path.split() else { return Err(no_such(path)) };
        match above.get_mut(&mut self.value) {
            Some(Value::Object(fields)) => {
                let removed = fields.remove(name).ok_or_else(|| no_such(path))?;
                self.touched.push((path.clone(), true));
                Ok(removed)
            }
            Some(Value::Array(items)) => {
                let place = index(name).filter(|it| *it < items.len()).ok_or_else(|| no_such(path))?;
                let removed = items.remove(place);
                // The elements behind it have other indexes now.
                self.touched.push((above, true));
                Ok(removed)
            }
            _ => Err(no_such(path)),
        }
    }

    fn clear(&mut self, path: &Pointer, initial: &Value) -> Result<(), BoardError> {
        match path.get(initial) {
            Some(default) => self.set(path, default.clone()),
            None if path.get(&self.value).is_none() => Ok(()),
            None => self.remove(path).map(drop),
        }
    }

    /// Checks that everything touched is as the writer expects it.
    fn check_expected(
        &self,
        state: &BoardState,
        schema: &BoardSchema,
        expected: Expected,
    ) -> Result<(), BoardError> {
        let is_tested = |path: &Pointer| self.tested.iter().any(|it| it.covers(path));
        let to_check = self.touched.iter().filter(|(path, is_checked)| *is_checked && !is_tested(path));
        for (path, _) in to_check {
            let (version, value) = (state.version_of(path), path.get(state.value()));
            let is_expected = match expected {
                Expected::Any => true,
                Expected::At(known) => version <= known && known <= state.version(),
                Expected::Nothing => value.is_none() || value == path.get(schema.initial()),
            };
            if !is_expected {
                let (path, expected) = (path.to_string(), expected.to_string());
                return Err(BoardError::Stale {
                    path,
                    expected,
                    version,
                    value: Box::new(value.cloned().unwrap_or_default()),
                });
            }
        }
        Ok(())
    }

    /// Returns the changes of the touched paths, without those below another one.
    fn changes(&self, old: &Value) -> Vec<PathChange> {
        let mut paths: Vec<&Pointer> = self.touched.iter().map(|(it, _)| it).collect();
        paths.sort();
        paths.dedup();
        // An array that was made now is one change, with what was added to it.
        let mut highest: Vec<&Pointer> = Vec::new();
        for path in paths {
            if !highest.last().is_some_and(|it| it.covers(path)) {
                highest.push(path);
            }
        }
        let change = |path: &Pointer| PathChange {
            path: path.clone(),
            before: path.get(old).cloned(),
            after: path.get(&self.value).cloned(),
        };
        let mut changes: Vec<PathChange> = highest.into_iter().map(change).collect();
        changes.retain(|it| it.before != it.after);
        // `/items/10` sorts before `/items/9`, and elements are added one after the other.
        changes.sort_by_key(|it| it.path.split().and_then(|(_, name)| index(name)));
        changes
    }
}

fn no_such(path: &Pointer) -> BoardError {
    BoardError::NoSuchPath { path: path.to_string() }
}

fn merge_fault(path: &Pointer, rule: MergeRule, reason: &'static str) -> BoardError {
    BoardError::Merge { path: path.to_string(), rule: rule.as_str(), reason }
}

/// Whether two values are the same; `1` and `1.0` are.
fn is_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            a == b || (a.as_f64() == b.as_f64() && !(a.is_i64() && b.is_i64()))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| is_equal(a, b)))
        }
        _ => a == b,
    }
}

fn sum(a: &Value, b: &Value) -> Option<Value> {
    let (a, b) = (a.as_number()?, b.as_number()?);
    match (a.as_i64(), b.as_i64()) {
        (Some(a), Some(b)) => Some(Value::from(a.checked_add(b)?)),
        _ => Number::from_f64(a.as_f64()? + b.as_f64()?).map(Value::Number),
    }
}

fn compared(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
        },
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        _ => None,
    }
}
