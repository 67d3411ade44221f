//! Texts and tools that stages share instead of copying, and the code that runs a tool.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, PoisonError, RwLock};

use contexture_history::neutral::{neutral_tool, neutralise, neutralise_envelopes};
use contexture_message::tokens::tool_tokens;
use contexture_message::{TokenCounter, Tokens, ToolDefinition};

/// A value with its token count, which each counter computes once and all holders share.
pub struct Counted<T> {
    value: T,
    // The counter is stored with its count, so that another counter at the same address cannot be mistaken for it. A
    // few counters are enough: a prompt is rarely used with more models at a time.
    counts: RwLock<Vec<(Arc<dyn TokenCounter>, Tokens)>>,
}

/// For how many counters a value remembers the count.
const MAX_COUNTERS: usize = 4;

impl<T> Counted<T> {
    fn new(value: T) -> Self {
        Self { value, counts: RwLock::default() }
    }

    fn tokens(
        &self,
        counter: &Arc<dyn TokenCounter>,
        count: impl Fn(&dyn TokenCounter, &T) -> Tokens,
    ) -> Tokens {
        let counts = self.counts.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, tokens)) = counts.iter().find(|(known, _)| Arc::ptr_eq(known, counter)) {
            return *tokens;
        }
        drop(counts);
        let tokens = count(&**counter, &self.value);
        let mut counts = self.counts.write().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= MAX_COUNTERS {
            counts.remove(0);
        }
        counts.push((Arc::clone(counter), tokens));
        tokens
    }
}

impl<T: fmt::Debug> fmt::Debug for Counted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

/// Text that stages share instead of copying. The engine's own tags are neutralised in it.
#[derive(Clone, Debug)]
pub struct SharedText(Arc<Counted<Box<str>>>);

impl SharedText {
    /// Takes a body from any source, and neutralises every tag of the engine in it.
    pub fn authored(text: &str) -> Self {
        Self(Arc::new(Counted::new(neutralise(text).into())))
    }

    /// Takes a body that was composed of neutralised texts, and keeps the tags that the engine writes inside of bodies.
    /// Everything in it that comes from outside must have been [neutralised](contexture_history::neutral::neutralise).
    pub fn composed(text: &str) -> Self {
        Self(Arc::new(Counted::new(neutralise_envelopes(text).into())))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0.value
    }

    /// Returns its token count, computed once per counter.
    pub fn tokens(&self, counter: &Arc<dyn TokenCounter>) -> Tokens {
        self.0.tokens(counter, |counter, text| counter.count(text))
    }
}

impl Deref for SharedText {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

/// A tool that stages share: its definition with its token count, and the code that runs it, if its owner supplied
/// any.
#[derive(Clone, Debug)]
pub struct SharedTool {
    counted: Arc<Counted<Arc<ToolDefinition>>>,
    runner: Option<Runner>,
}

impl SharedTool {
    /// Takes a definition and neutralises everything in it that could pass for an envelope of the engine.
    pub fn new(tool: ToolDefinition) -> Self {
        let counted = Arc::new(Counted::new(Arc::new(neutral_tool(tool))));
        Self { counted, runner: None }
    }

    /// Returns the same tool with the code that runs it.
    #[must_use]
    pub fn run_by(self, runner: Runner) -> Self {
        Self { runner: Some(runner), ..self }
    }

    /// Returns the code that runs it, if its owner supplied any.
    pub fn runner(&self) -> Option<&Runner> {
        self.runner.as_ref()
    }

    /// Returns whether both have the same definition and the same runner. Without a runner they never match.
    pub(crate) fn is_same(&self, other: &SharedTool) -> bool {
        self.runner.is_some() && self.runner == other.runner && self.tool() == other.tool()
    }

    /// Returns the definition.
    pub fn tool(&self) -> &Arc<ToolDefinition> {
        &self.counted.value
    }

    /// Returns its token count, computed once per counter.
    pub fn tokens(&self, counter: &Arc<dyn TokenCounter>) -> Tokens {
        self.counted.tokens(counter, |counter, tool| tool_tokens(counter, tool))
    }
}

impl From<ToolDefinition> for SharedTool {
    fn from(tool: ToolDefinition) -> Self {
        Self::new(tool)
    }
}

/// The code that runs a tool, a check or middleware. The engine carries it without looking inside; the agent asks for
/// the type that it knows how to run.
///
/// Clones of a runner are equal, and so are runners that were made of equal [data](Runner::of).
#[derive(Clone)]
pub struct Runner {
    code: Arc<dyn Any + Send + Sync>,
    made_of: Option<Arc<dyn AnyEq>>,
}

impl Runner {
    /// Wraps a value of the type that the agent will ask for.
    pub fn new(runner: impl Any + Send + Sync) -> Self {
        Self { code: Arc::new(runner), made_of: None }
    }

    /// Wraps a value whose behaviour follows from `data` alone, such as an HTTP call that a file declares. Two files
    /// that declare the same call then bring the same runner.
    pub fn of(data: impl Any + PartialEq + Send + Sync, runner: impl Any + Send + Sync) -> Self {
        Self { made_of: Some(Arc::new(data)), ..Self::new(runner) }
    }

    /// Returns the runner, if it has that type.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.code.downcast_ref()
    }
}

impl PartialEq for Runner {
    fn eq(&self, other: &Self) -> bool {
        let is_made_alike = match (&self.made_of, &other.made_of) {
            (Some(one), Some(other)) => one.equals((**other).as_any()),
            _ => false,
        };
        is_made_alike || Arc::ptr_eq(&self.code, &other.code)
    }
}

/// Data of any type that can be compared. Data of different types is never equal.
pub(crate) trait AnyEq: Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn equals(&self, other: &dyn Any) -> bool;
}

impl<T: Any + PartialEq + Send + Sync> AnyEq for T {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<T>().is_some_and(|it| self == it)
    }
}

impl Eq for Runner {}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Runner")
    }
}
