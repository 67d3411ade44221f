//! The variables that a template sets while it renders.

use std::{collections::HashMap, rc::Rc, sync::Arc};

use crate::{value::Value, value::loops::LoopState};

/// The variables and other state of a template. A partial gets a new scope with `render` and shares it with
/// `include`.
#[derive(Debug, Default)]
pub(crate) struct Scope<'a> {
    /// Variables set by `assign` and `capture`. These maps are never iterated, so their order does not matter.
    locals: HashMap<Arc<str>, Value<'a>>,
    /// Loop variables and the arguments of `include`, innermost last.
    bound: Vec<(Arc<str>, Value<'a>)>,
    counters: HashMap<Arc<str>, i128>,
    /// The current position of each cycle.
    pub(crate) cycles: HashMap<String, usize>,
    /// The position after the last item of each loop, for `offset: continue`.
    pub(crate) offsets: HashMap<Arc<str>, i128>,
    /// The running `for` loops, innermost last.
    pub(crate) loops: Vec<Rc<LoopState>>,
    /// The text that `ifchanged` printed last.
    pub(crate) shown: Option<String>,
}

impl<'a> Scope<'a> {
    /// Looks up a variable: first loop variables, then assigned variables, then counters.
    pub(crate) fn get(&self, name: &str) -> Option<Value<'a>> {
        if let Some((_, value)) = self.bound.iter().rev().find(|(key, _)| **key == *name) {
            return Some(value.clone());
        }
        if let Some(value) = self.locals.get(name) {
            return Some(value.clone());
        }
        self.counters.get(name).map(|count| Value::Int(*count))
    }

    pub(crate) fn assign(&mut self, name: &Arc<str>, value: Value<'a>) {
        self.locals.insert(name.clone(), value);
    }

    /// Returns the number of bound variables, to pass to [`unbind`](Self::unbind) later.
    pub(crate) fn mark(&self) -> usize {
        self.bound.len()
    }

    pub(crate) fn bind(&mut self, name: &Arc<str>, value: Value<'a>) {
        self.bound.push((name.clone(), value));
    }

    /// Replaces the value of the variable that was bound last.
    pub(crate) fn rebind(&mut self, value: Value<'a>) {
        if let Some((_, last)) = self.bound.last_mut() {
            *last = value;
        }
    }

    pub(crate) fn unbind(&mut self, mark: usize) {
        self.bound.truncate(mark);
    }

    /// Adds `by` to a counter and returns its values before and after.
    pub(crate) fn count(&mut self, name: &Arc<str>, by: i128) -> (i128, i128) {
        let count = self.counters.entry(name.clone()).or_insert(0);
        let before = *count;
        *count = count.saturating_add(by);
        (before, *count)
    }
}
