//! Prompts as applications hold them: the handle, its builder, its hooks and registries.

mod builder;
mod hooks;
mod registry;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde_json::Value;

pub use self::builder::PromptBuilder;
pub use self::hooks::Hooks;
pub use self::registry::{PromptTree, Prompts, below};
use crate::lower::Compiled;
use crate::{Definition, Engine};

/// A compiled, immutable definition of a model call. Cheap to clone.
///
/// `In` is the type of the input and `Out` the type of the answer. Plain `Prompt` takes any JSON and returns text;
/// see [`PromptBuilder::input`](crate::PromptBuilder::input) and
/// [`PromptBuilder::output`](crate::PromptBuilder::output).
pub struct Prompt<In = Value, Out = String> {
    inner: Arc<PromptInner>,
    engine: Engine,
    // A function pointer: the prompt owns neither an input nor an answer, so it is `Send` and `Sync` whatever they
    // are.
    types: PhantomData<fn(&In) -> Out>,
}

/// What all clones of a prompt share.
struct PromptInner {
    compiled: Compiled,
    hooks: Hooks,
}

impl<In, Out> Prompt<In, Out> {
    /// Returns the prompt's id.
    pub fn id(&self) -> &str {
        &self.inner.compiled.definition.id
    }

    /// Returns the author's definition.
    pub fn definition(&self) -> &Definition {
        &self.inner.compiled.definition
    }

    /// Returns the functions that observe its passes and runs.
    pub fn hooks(&self) -> &Hooks {
        &self.inner.hooks
    }

    /// Returns what the stages read.
    pub(crate) fn compiled(&self) -> &Compiled {
        &self.inner.compiled
    }

    /// Returns the JSON Schema of the input, merged from the prompt and all its entries.
    pub fn input_schema(&self) -> Value {
        self.inner.compiled.input.to_json()
    }

    /// Lists the keys of an input that no schema of the prompt declares, each with the key that may be meant. They
    /// are allowed, but may be typos.
    pub fn undeclared_input(&self, input: &Value) -> Vec<String> {
        self.inner.compiled.input.undeclared(input)
    }

    /// Returns the prompt's ports.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the prompt with other ports. Prompts that share an engine share its caches.
    #[must_use]
    pub fn with_engine(&self, engine: &Engine) -> Self {
        Self { inner: Arc::clone(&self.inner), engine: engine.clone(), types: PhantomData }
    }

    /// Returns the same prompt with JSON input and text output, the form that registries, agents and servers hold.
    pub fn untyped(&self) -> Prompt {
        self.retyped()
    }

    /// Returns whether two handles refer to the same compiled prompt.
    pub fn is_same<I, O>(&self, other: &Prompt<I, O>) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    pub(crate) fn retyped<I, O>(&self) -> Prompt<I, O> {
        Prompt { inner: Arc::clone(&self.inner), engine: self.engine.clone(), types: PhantomData }
    }
}

impl<In, Out> Clone for Prompt<In, Out> {
    fn clone(&self) -> Self {
        self.retyped()
    }
}

impl<In, Out> fmt::Debug for Prompt<In, Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompt").field("id", &self.id()).finish_non_exhaustive()
    }
}
