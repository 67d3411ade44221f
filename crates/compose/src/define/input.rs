//! The input of a pass, shared by everything that reads it.

use std::any::{Any, TypeId};
use std::sync::{Arc, Mutex, PoisonError};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::BoxError;

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
