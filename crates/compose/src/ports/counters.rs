//! Token counters by model.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use contexture_message::TokenCounter;
use contexture_message::tokens::{Family, Remembered, counter_for};

/// Finds the token counter for a model.
///
/// Callers rely on getting the same counter for the same model: counts are cached per counter.
pub trait Counters: Send + Sync {
    /// Returns the counter for `model`, or a default one if there is no model.
    fn for_model(&self, model: Option<&str>) -> Arc<dyn TokenCounter>;
}

/// The counters of all known model families. Each text is counted once and its count cached by content.
#[derive(Default)]
pub struct ModelCounters {
    known: Mutex<HashMap<Option<Family>, Arc<dyn TokenCounter>>>,
}

impl Counters for ModelCounters {
    fn for_model(&self, model: Option<&str>) -> Arc<dyn TokenCounter> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let counter = known
            .entry(model.map(Family::of_model))
            .or_insert_with(|| Arc::new(Remembered::new(counter_for(model))));
        Arc::clone(counter)
    }
}

/// The same counter for every model.
#[derive(Clone)]
pub struct FixedCounter(pub Arc<dyn TokenCounter>);

impl Counters for FixedCounter {
    fn for_model(&self, _model: Option<&str>) -> Arc<dyn TokenCounter> {
        Arc::clone(&self.0)
    }
}
