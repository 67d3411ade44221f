//! The inputs of rendering: global variables, modes, limits and partials.

use serde_json::Value as Json;

use crate::{limits::Limits, template::Template};

/// The global variables of a render, borrowed from the caller.
///
/// ```
/// use contexture_template::{Globals, RenderConfig, Template};
/// use serde_json::json;
///
/// let input = json!({"name": "Ada"});
/// let globals = [("input", &input)];
/// let text = Template::parse("Hello {{ input.name }}!")?.render(&Globals::new(&globals), &RenderConfig::strict())?;
/// assert_eq!(text, "Hello Ada!");
/// # Ok::<(), contexture_template::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Globals<'a> {
    entries: &'a [(&'a str, &'a Json)],
}

impl<'a> Globals<'a> {
    /// Returns the globals in `entries`. If a name occurs twice, the first entry wins.
    pub fn new(entries: &'a [(&'a str, &'a Json)]) -> Self {
        Self { entries }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.entries.iter().map(|(name, _)| *name)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'a Json> {
        self.entries.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }
}

/// How a render treats an absent variable.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Mode {
    /// An absent variable is an error, unless a condition reads it or `default` is its first filter.
    Strict,
    /// An absent variable is nil.
    #[default]
    Lenient,
}

/// Options for rendering a template. The default is lenient and has no partials.
#[derive(Clone, Copy, Default)]
pub struct RenderConfig<'a> {
    /// How an absent variable is treated.
    pub mode: Mode,
    /// Resolves the templates that `render` and `include` refer to.
    pub partials: Option<&'a dyn Partials>,
    /// Bounds for steps, nesting, output and memory.
    pub limits: Limits,
    /// The time that `"now" | date` shows: RFC 3339 or seconds since 1970. The engine never reads a clock.
    pub now: Option<&'a str>,
}

impl RenderConfig<'_> {
    /// Returns a config in which absent variables are errors.
    pub fn strict() -> Self {
        Self { mode: Mode::Strict, ..Self::default() }
    }

    /// Returns a config in which absent variables are nil.
    pub fn lenient() -> Self {
        Self::default()
    }
}

impl std::fmt::Debug for RenderConfig<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RenderConfig")
            .field("mode", &self.mode)
            .field("partials", &self.partials.is_some())
            .field("limits", &self.limits)
            .field("now", &self.now)
            .finish()
    }
}

/// Resolves the templates that `{% render %}` and `{% include %}` refer to.
///
/// Implementations must return the same template for the same name during one render. They should parse templates
/// ahead of time and return clones, which are cheap.
pub trait Partials: Send + Sync {
    /// Returns the partial called `name`, or `None` if it does not exist.
    fn partial(&self, name: &str) -> Option<Template>;
}
