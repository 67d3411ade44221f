//! Lists of lists, flattened to any depth without recursion.

use std::slice;

use serde_json::Value;

/// Iterates over the value itself if it is not a list, or over the contents of its nested lists, in order.
pub(super) struct Flat<'a> {
    open: Vec<slice::Iter<'a, Value>>,
}

/// Returns the values in `value` that are not lists.
pub(super) fn flat(value: &Value) -> Flat<'_> {
    Flat { open: vec![slice::from_ref(value).iter()] }
}

impl<'a> Iterator for Flat<'a> {
    type Item = &'a Value;

    fn next(&mut self) -> Option<&'a Value> {
        loop {
            match self.open.last_mut()?.next() {
                Some(Value::Array(inner)) => self.open.push(inner.iter()),
                Some(value) => return Some(value),
                None => {
                    self.open.pop();
                }
            }
        }
    }
}

/// Returns whether `value` has more than `limit` levels of lists and objects.
pub(super) fn is_deeper_than(value: &Value, limit: usize) -> bool {
    let mut open = vec![(value, 0)];
    while let Some((value, depth)) = open.pop() {
        if depth > limit {
            return true;
        }
        match value {
            Value::Array(inner) => open.extend(inner.iter().map(|it| (it, depth + 1))),
            Value::Object(inner) => open.extend(inner.values().map(|it| (it, depth + 1))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    false
}
