//! Faults of a project, with their positions.
//!
//! The parsers return [`Problem`]s, which have a position but no file. The file's reader converts them to [`Fault`]s.
//! A [`ProjectError`] holds all faults of a prompt at once, sorted by file and line.

use std::fmt;

use contexture_compose::{Error, ErrorKind};
use contexture_message::ErrorCode;
use contexture_template::did_you_mean;

/// The maximum number of ids that an error lists.
const MAX_LISTED: usize = 20;

/// A position in a file. Line and column start at 1; the column counts characters.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Place {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl Place {
    pub(crate) const START: Place = Place { line: 1, column: 1 };
}

impl From<contexture_template::Place> for Place {
    fn from(place: contexture_template::Place) -> Self {
        Self { line: place.line, column: place.column }
    }
}

/// A single fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// A stable code, such as `unknown_field`.
    pub code: ErrorCode,
    /// A description of the fault.
    pub message: String,
    /// The file, relative to the project.
    pub file: Option<String>,
    /// The line, starting at 1.
    pub line: Option<usize>,
    /// The column in characters, starting at 1.
    pub column: Option<usize>,
    /// All sources involved.
    pub sources: Vec<String>,
    /// How to fix it.
    pub hint: Option<String>,
}

impl Fault {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            file: None,
            line: None,
            column: None,
            sources: Vec::new(),
            hint: None,
        }
    }

    pub(crate) fn in_file(mut self, file: &str) -> Self {
        self.file = Some(file.to_owned());
        self
    }

    pub(crate) fn at_place(mut self, place: Place) -> Self {
        (self.line, self.column) = (Some(place.line), Some(place.column));
        self
    }

    /// Returns the position, such as `prompts/p.md:3:1`.
    pub fn at(&self) -> Option<String> {
        let file = self.file.as_deref()?;
        Some(match (self.line, self.column) {
            (Some(line), Some(column)) => format!("{file}:{line}:{column}"),
            (Some(line), None) => format!("{file}:{line}"),
            (None, _) => file.to_owned(),
        })
    }

    fn order(&self) -> (Option<&str>, Option<usize>, Option<usize>, &str) {
        (self.file.as_deref(), self.line, self.column, &self.message)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at() {
            Some(at) => write!(f, "{at}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl From<&Error> for Fault {
    /// Converts the error itself, without the others that were found at the same time.
    fn from(err: &Error) -> Self {
        let mut fault = Fault {
            sources: err.kind().sources(),
            hint: err.kind().hint(),
            file: err.at().map(str::to_owned),
            ..Fault::new(err.code(), err.kind().to_string())
        };
        if let ErrorKind::Template { fault: template, .. } = err.kind() {
            fault = fault.at_place(template.place().into());
            fault.message = template.to_string();
            fault.file = template.name().map(str::to_owned).or(fault.file);
        }
        fault
    }
}

/// All faults at once, sorted by file and line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectError {
    /// At least one fault.
    pub faults: Vec<Fault>,
}

impl ProjectError {
    /// Sorts the faults and removes duplicates.
    pub(crate) fn new(mut faults: Vec<Fault>) -> Self {
        faults.sort_by(|one, other| one.order().cmp(&other.order()));
        faults.dedup();
        Self { faults }
    }
}

impl From<Fault> for ProjectError {
    fn from(fault: Fault) -> Self {
        Self { faults: vec![fault] }
    }
}

impl From<&Error> for ProjectError {
    fn from(err: &Error) -> Self {
        let others = err.others().iter().map(|it| {
            let mut fault = Fault::from(it);
            fault.file = fault.file.or_else(|| err.at().map(str::to_owned));
            fault
        });
        Self { faults: std::iter::once(Fault::from(err)).chain(others).collect() }
    }
}

impl fmt::Display for ProjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (idx, fault) in self.faults.iter().enumerate() {
            match idx {
                0 => write!(f, "{fault}")?,
                _ => write!(f, "\n{fault}")?,
            }
            if let (0, Some(hint)) = (idx, &fault.hint) {
                write!(f, " ({hint})")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for ProjectError {}

/// A problem at a position of the file being read.
#[derive(Clone, Debug)]
pub(crate) struct Problem(Box<Parts>);

#[derive(Clone, Debug)]
struct Parts {
    code: ErrorCode,
    message: String,
    /// The path to the field, such as `tools[0].name`.
    path: String,
    place: Option<Place>,
    /// Set if the problem is in another file than the one being read, such as a partial.
    file: Option<String>,
    sources: Vec<String>,
    hint: Option<String>,
    is_absence: bool,
}

impl Problem {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self(Box::new(Parts {
            code,
            message: message.into(),
            path: String::new(),
            place: None,
            file: None,
            sources: Vec::new(),
            hint: None,
            is_absence: false,
        }))
    }

    /// An invalid value.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::FileInvalid, message)
    }

    /// A required value that is missing.
    pub(crate) fn absence(message: impl Into<String>) -> Self {
        Self::invalid(message).with(|it| it.is_absence = true)
    }

    /// A template that does not parse. The error has its own file; `in_file` maps its position to that file.
    pub(crate) fn of_template(
        err: &contexture_template::Error,
        in_file: impl FnOnce(Place) -> Place,
    ) -> Self {
        let problem = Self::new(ErrorCode::TemplateError, err.to_string()).at(in_file(err.place().into()));
        let problem = problem.hint(err.hint().map(str::to_owned));
        problem.with(|it| it.file = err.name().map(str::to_owned))
    }

    /// A file that could not be read.
    pub(crate) fn of_file(fault: Fault) -> Self {
        Self::invalid(fault.message).hint(fault.hint).with(|it| it.file = fault.file)
    }

    /// Sets the file, unless one is already set.
    pub(crate) fn in_file(self, file: &str) -> Self {
        self.with(|it| {
            it.file.get_or_insert_with(|| file.to_owned());
        })
    }

    /// Sets the position, unless one is already set.
    pub(crate) fn at(self, place: Place) -> Self {
        self.with(|it| {
            it.place.get_or_insert(place);
        })
    }

    /// Sets the path to the field, unless one is already set.
    pub(crate) fn within(self, path: &str) -> Self {
        self.with(|it| {
            if it.path.is_empty() {
                path.clone_into(&mut it.path);
            }
        })
    }

    pub(crate) fn hint(self, hint: Option<String>) -> Self {
        self.with(|it| it.hint = hint)
    }

    pub(crate) fn sources(self, sources: Vec<String>) -> Self {
        self.with(|it| it.sources = sources)
    }

    /// Whether the problem is a missing value: the values that are present may still be valid.
    pub(crate) fn is_absence(&self) -> bool {
        self.0.is_absence
    }

    pub(crate) fn place(&self) -> Option<Place> {
        self.0.place
    }

    pub(crate) fn path(&self) -> &str {
        &self.0.path
    }

    pub(crate) fn message(&self) -> &str {
        &self.0.message
    }

    pub(crate) fn into_fault(self, file: &str) -> Fault {
        let Parts { code, message, path, place, file: own, sources, hint, .. } = *self.0;
        let message = if path.is_empty() { message } else { format!("`{path}`: {message}") };
        let fault = Fault { sources, hint, ..Fault::new(code, message) };
        let fault = fault.in_file(own.as_deref().unwrap_or(file));
        match place {
            Some(place) => fault.at_place(place),
            None => fault,
        }
    }

    fn with(mut self, change: impl FnOnce(&mut Parts)) -> Self {
        change(&mut self.0);
        self
    }
}

/// Formats the known ids for the end of a "not found" message.
fn listed(known: &[&str]) -> String {
    match known.get(..MAX_LISTED) {
        Some(some) => format!("; there are: {} and {} more", some.join(", "), known.len() - MAX_LISTED),
        None if known.is_empty() => "; the project has none".to_owned(),
        None => format!("; there are: {}", known.join(", ")),
    }
}

/// Returns the message for an unknown name, and a hint if a similar name exists.
pub(crate) fn unknown<'a>(
    what: &str,
    name: &'a str,
    known: impl Iterator<Item = &'a str>,
) -> (String, Option<String>) {
    let known: Vec<&str> = known.collect();
    let shown: String = name.chars().take(100).collect();
    let message = format!("there is no {what} `{shown}`{}", listed(&known));
    (message, did_you_mean(name, known))
}
