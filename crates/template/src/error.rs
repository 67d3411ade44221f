//! Errors and their places in the source.
//!
//! An [`Error`] is meant for template authors: it always has a [`Place`] in the source. Inside the crate, functions
//! that do not know the place return a [`Fault`]; the parser and the renderer add the place.

use std::fmt;

/// A position in a template. Line and column start at 1.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Place {
    /// The line, counted from [`ParseConfig::first_line`](crate::ParseConfig::first_line).
    pub line: usize,
    /// The column, counted in characters.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// The kind of an error, for callers that handle kinds differently.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The template is not well formed.
    Syntax,
    /// A variable is absent in strict mode.
    UndefinedVariable,
    /// A filter does not exist.
    UnknownFilter,
    /// A tag does not exist or is not allowed where it appears.
    UnknownTag,
    /// A filter, loop or comparison received a value it cannot handle.
    Argument,
    /// The template or the render exceeded one of the [`Limits`](crate::Limits).
    LimitExceeded,
    /// A partial does not exist, or the render has no partials.
    MissingPartial,
}

/// An error with the place in the template that caused it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", .inner.message)]
pub struct Error {
    inner: Box<Inner>,
}

#[derive(Clone, Debug)]
struct Inner {
    kind: ErrorKind,
    message: String,
    place: Place,
    name: Option<String>,
    hint: Option<String>,
}

impl Error {
    pub(crate) fn new(fault: Fault, place: Place, name: Option<String>) -> Self {
        let Fault { kind, message, hint } = fault;
        Self { inner: Box::new(Inner { kind, message, place, name, hint }) }
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// Returns the position of the error in the template.
    pub fn place(&self) -> Place {
        self.inner.place
    }

    /// Returns the name of the template or partial that [`place`](Self::place) points into.
    pub fn name(&self) -> Option<&str> {
        self.inner.name.as_deref()
    }

    /// Returns a suggestion for the author, such as ``did you mean `upcase`?``.
    pub fn hint(&self) -> Option<&str> {
        self.inner.hint.as_deref()
    }

    /// Displays the message prefixed with its place, such as
    /// ``p.md:5:9: undefined variable `input.nme` ``.
    pub fn with_place(&self) -> impl fmt::Display + '_ {
        WithPlace(self)
    }
}

struct WithPlace<'a>(&'a Error);

impl fmt::Display for WithPlace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.0.name() {
            write!(f, "{name}:")?;
        }
        write!(f, "{}: {}", self.0.place(), self.0)
    }
}

/// An error without a place.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
}

impl Fault {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }

    /// Adds a suggestion for the author.
    pub(crate) fn hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint;
        self
    }

    pub(crate) fn syntax(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Syntax, message)
    }

    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Argument, message)
    }

    pub(crate) fn limit(what: &str, limit: usize) -> Self {
        Self::new(ErrorKind::LimitExceeded, format!("{what} exceeds the limit of {limit}"))
    }
}
