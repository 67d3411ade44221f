//! The variables that a template makes itself.

use std::{collections::HashMap, rc::Rc, sync::Arc};

use crate::{loops::LoopState, value::Value};

/// The variables and other state of a template. A `render`ed partial gets a new one, an `include`d one shares it.
#[derive(Debug, Default)]
pub(crate) struct Scope<'a> {
    /// What `assign` and `capture` set. None of these maps is ever iterated, so their order does not matter.
    locals: HashMap<Arc<str>, Value<'a>>,
    /// Loop variables and the arguments of `include`, innermost last.
    bound: Vec<(Arc<str>, Value<'a>)>,
    counters: HashMap<Arc<str>, i128>,
    /// Where each cycle is.
    pub(crate) cycles: HashMap<String, usize>,
    /// Where each loop ended, for `offset: continue`.
    pub(crate) offsets: HashMap<Arc<str>, i128>,
    /// The running `for` loops, innermost last.
    pub(crate) loops: Vec<Rc<LoopState>>,
    /// What `ifchanged` showed last.
    pub(crate) shown: Option<String>,
}

impl<'a> Scope<'a> {
    /// Looks for a variable: loop variables first, then what was assigned, then counters.
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

    /// Returns how many variables are bound, to be given to [`unbind`](Self::unbind) later.
    pub(crate) fn mark(&self) -> usize {
        self.bound.len()
    }

    pub(crate) fn bind(&mut self, name: &Arc<str>, value: Value<'a>) {
        self.bound.push((name.clone(), value));
    }

    /// Gives the variable that was bound last a new value.
    pub(crate) fn rebind(&mut self, value: Value<'a>) {
        if let Some((_, last)) = self.bound.last_mut() {
            *last = value;
        }
    }

    pub(crate) fn unbind(&mut self, mark: usize) {
        self.bound.truncate(mark);
    }

    /// Adds to a counter and returns its values before and after.
    pub(crate) fn count(&mut self, name: &Arc<str>, by: i128) -> (i128, i128) {
        let count = self.counters.entry(name.clone()).or_insert(0);
        let before = *count;
        *count = count.saturating_add(by);
        (before, *count)
    }
}
