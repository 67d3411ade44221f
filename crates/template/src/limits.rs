//! Resource limits and the meter that enforces them.
//!
//! Every node, loop iteration and list item is a step; reading a long text costs one step per [`BYTES_PER_STEP`]
//! bytes. The bytes that filters, `assign` and `capture` build are counted and never credited back, so memory stays
//! bounded even if a template keeps doubling a string.

use crate::error::Fault;

/// Bounds for parsing and rendering. Exceeding one is a `LimitExceeded` error.
///
/// ```
/// use contexture_template::{ErrorKind, Globals, Limits, RenderConfig, Template};
///
/// let template = Template::parse("{% for i in (1..999999999) %}{% endfor %}")?;
/// let config = RenderConfig { limits: Limits { steps: 1_000, ..Limits::default() }, ..RenderConfig::default() };
/// let error = template.render(&Globals::default(), &config).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::LimitExceeded);
/// # Ok::<(), contexture_template::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// The maximum size of a template's source. Default 1 MiB.
    pub source_bytes: usize,
    /// The maximum combined nesting of blocks, partials and index expressions while rendering. Default 100; values
    /// above [`Limits::MAX_NESTING`] are capped to it.
    pub nesting: usize,
    /// The maximum number of nodes, loop iterations and list items that a render may process. Default 1,000,000.
    pub steps: usize,
    /// The maximum size of the rendered text. Default 4 MiB.
    pub output_bytes: usize,
    /// The maximum total size of the values that filters, `assign` and `capture` build in one render. Default 32 MiB.
    pub built_bytes: usize,
}

impl Limits {
    /// The highest nesting limit: a thread with a 2 MiB stack can render it in a debug build.
    pub const MAX_NESTING: usize = 128;

    pub(crate) fn depth(&self) -> usize {
        self.nesting.min(Self::MAX_NESTING)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            source_bytes: 1 << 20,
            nesting: 100,
            steps: 1_000_000,
            output_bytes: 4 << 20,
            built_bytes: 32 << 20,
        }
    }
}

/// The number of bytes of text that can be read per step.
const BYTES_PER_STEP: usize = 256;

/// The bytes charged for each item of a list that a filter builds.
const BYTES_PER_ITEM: usize = 48;

/// The maximum nesting of data that is traversed as a whole (`join`, `==`, `json`).
pub(crate) const DATA_DEPTH: usize = 200;

/// Tracks the resources that one render has left.
#[derive(Debug)]
pub(crate) struct Meter {
    limits: Limits,
    steps: usize,
    built: usize,
}

impl Meter {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, steps: limits.steps, built: limits.built_bytes }
    }

    /// Counts `count` steps.
    pub(crate) fn steps(&mut self, count: usize) -> Result<(), Fault> {
        match self.steps.checked_sub(count) {
            Some(rest) => {
                self.steps = rest;
                Ok(())
            }
            None => Err(Fault::limit("the number of steps", self.limits.steps)),
        }
    }

    /// Counts the steps for reading `text`.
    pub(crate) fn read(&mut self, text: &str) -> Result<(), Fault> {
        self.steps(1 + text.len() / BYTES_PER_STEP)
    }

    /// Counts bytes as allocated until the render ends.
    pub(crate) fn build(&mut self, bytes: usize) -> Result<(), Fault> {
        match self.built.checked_sub(bytes) {
            Some(rest) => {
                self.built = rest;
                Ok(())
            }
            None => Err(Fault::limit("the size of built values", self.limits.built_bytes)),
        }
    }

    /// Counts a list of `count` items: one step and a fixed size each. Call it before building the list.
    pub(crate) fn list(&mut self, count: usize) -> Result<(), Fault> {
        self.steps(count)?;
        self.build(count.saturating_mul(BYTES_PER_ITEM))
    }

    /// Counts a list whose length may exceed `usize`, and returns the length.
    pub(crate) fn long_list(&mut self, count: u128) -> Result<usize, Fault> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        self.list(count)?;
        Ok(count)
    }

    /// Checks that `depth` is within [`DATA_DEPTH`].
    pub(crate) fn data_depth(depth: usize) -> Result<(), Fault> {
        if depth > DATA_DEPTH { Err(Fault::limit("the nesting of data", DATA_DEPTH)) } else { Ok(()) }
    }
}

/// A string builder that counts bytes before it stores them.
#[derive(Debug)]
pub(crate) struct Builder<'m> {
    text: String,
    meter: &'m mut Meter,
}

impl<'m> Builder<'m> {
    pub(crate) fn new(meter: &'m mut Meter) -> Self {
        Self { text: String::new(), meter }
    }

    pub(crate) fn push(&mut self, part: &str) -> Result<(), Fault> {
        self.meter.build(part.len())?;
        self.text.push_str(part);
        Ok(())
    }

    pub(crate) fn push_char(&mut self, part: char) -> Result<(), Fault> {
        self.meter.build(part.len_utf8())?;
        self.text.push(part);
        Ok(())
    }

    pub(crate) fn meter(&mut self) -> &mut Meter {
        self.meter
    }

    pub(crate) fn finish(self) -> String {
        self.text
    }
}
