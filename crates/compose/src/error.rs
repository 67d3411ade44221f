//! Errors, with the place in the prompt that caused them.

use std::fmt;
use std::time::Duration;

use contexture_history::TransformPanic;
use contexture_message::{ErrorCode, Tokens};

use crate::tags::TagError;
use crate::{PriorityOutOfRange, Source};

/// Any error of an author's function.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// An error with the place in the prompt that caused it, and all others found at the same time.
///
/// As small as a pointer, so that the success path stays fast.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    at: Option<String>,
    others: Vec<Error>,
}

/// The kind of an error.
#[derive(Debug, thiserror::Error)]
pub enum ErrorKind {
    /// Two different entries have the same id.
    #[error("two different entries have the id `{id}`: {first} and {second}")]
    DuplicateId {
        /// The duplicate id.
        id: String,
        /// The place of the first entry.
        first: String,
        /// The place of the second entry.
        second: String,
    },
    /// Two owners declare the same input key differently.
    #[error("input key `{key}` is declared differently by {first} and {second}: {difference}")]
    SchemaConflict {
        /// The input key.
        key: String,
        /// The owner of the first declaration.
        first: Source,
        /// The owner of the conflicting declaration.
        second: Source,
        /// The first difference between the two.
        difference: String,
    },
    /// A schema that is not a JSON Schema.
    #[error("the schema of {owner} is invalid: {fault}")]
    SchemaInvalid {
        /// The owner of the schema.
        owner: Source,
        /// What is wrong with it.
        fault: String,
    },
    /// The input does not match its schema.
    #[error("the input is invalid: {}", list(faults))]
    InputInvalid {
        /// All faults of the input.
        faults: Vec<InputFault>,
    },
    /// Two owners add a tool with the same name.
    #[error("tool `{tool}` is given by {first} and by {second}")]
    ToolCollision {
        /// The tool's name.
        tool: String,
        /// The first owner.
        first: Source,
        /// The second owner.
        second: Source,
    },
    /// Providers do not accept the name of a tool.
    #[error("tool name `{tool}` of {owner} is not 1 to 64 letters, digits, `_` or `-`")]
    ToolNameInvalid {
        /// The invalid name.
        tool: String,
        /// The owner of the tool.
        owner: Source,
    },
    /// Entries are nested too deep.
    #[error("{entry} is nested more than {limit} deep")]
    DepthExceeded {
        /// The entry that is nested too deep.
        entry: String,
        /// The maximum depth.
        limit: usize,
    },
    /// A priority is out of range.
    #[error("{owner}: {fault}")]
    Priority {
        /// The owner of the priority.
        owner: Source,
        /// The rejected value.
        fault: PriorityOutOfRange,
    },
    /// The parts that may not be dropped do not fit.
    #[error(
        "{which} is {limit}, but what can't be dropped needs {need} tokens{}; the largest: {}", kept_free(*margin), largest_list(largest)
    )]
    BudgetExceeded {
        /// `token_budget` or `input_budget`.
        which: &'static str,
        /// The tokens that are needed.
        need: Tokens,
        /// The tokens that are allowed.
        limit: Tokens,
        /// The part of the limit that is kept free because the count is an estimate.
        margin: Tokens,
        /// The largest sources.
        largest: Vec<(Source, Tokens)>,
    },
    /// Tag values are incompatible.
    #[error(transparent)]
    Tag(#[from] TagError),
    /// A template failed.
    #[error("{}", .fault.with_place())]
    Template {
        /// The owner of the template.
        owner: Source,
        /// The error of the template.
        fault: contexture_template::Error,
    },
    /// An author's function failed.
    #[error("{owner}: {what} failed: {fault}")]
    Failed {
        /// The owner of the function.
        owner: Source,
        /// The kind of function.
        what: &'static str,
        /// The original error.
        fault: BoxError,
    },
    /// A contributor exceeded its deadline.
    #[error("{owner} did not finish within {deadline:?}")]
    Deadline {
        /// The contributor.
        owner: Source,
        /// The deadline it exceeded.
        deadline: Duration,
    },
    /// A transform panicked.
    #[error(transparent)]
    Transform(#[from] TransformPanic),
    /// Two fields are mutually exclusive.
    #[error("give `{first}` or `{second}`, not both")]
    Exclusive {
        /// The first field.
        first: &'static str,
        /// The second field.
        second: &'static str,
    },
    /// A capability's name can't be part of a template variable.
    #[error(
        "`{name}` is not the name of a capability: use a letter, then letters, digits, `_` or `-`, 64 at most"
    )]
    CapabilityName {
        /// The invalid name.
        name: String,
    },
    /// A capability has no preset with that name.
    #[error("capability `{capability}` at {place} has no preset `{preset}`; there are: {}", known.join(", "))]
    UnknownPreset {
        /// The capability.
        capability: String,
        /// The requested preset.
        preset: String,
        /// Where it is included.
        place: String,
        /// The presets that exist.
        known: Vec<String>,
    },
    /// A prompt includes two presets of one capability.
    #[error(
        "capability `{capability}` is included with the preset `{first}` at {first_place}, and with `{second}` at {second_place}"
    )]
    PresetConflict {
        /// The capability.
        capability: String,
        /// The preset that was included first.
        first: String,
        /// Where it is included.
        first_place: String,
        /// The other preset.
        second: String,
        /// Where that one is included.
        second_place: String,
    },
    /// A capability that changes the whole request depends on a condition.
    #[error("{owner} has {what}, which can't depend on a condition")]
    Conditional {
        /// The capability.
        owner: Source,
        /// `transforms` or `tool_middleware`.
        what: &'static str,
    },
    /// No prompt has that id.
    #[error("there is no prompt `{id}`{}", did_you_mean(known))]
    UnknownPrompt {
        /// The requested id.
        id: String,
        /// The ids that exist.
        known: Vec<String>,
    },
}

/// One fault of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputFault {
    /// The JSON path, such as `input.items[2].price`.
    pub path: String,
    /// The rule that was broken, such as `required`.
    pub rule: String,
    /// The owner of the rule.
    pub owner: Source,
    /// A description of the fault.
    pub message: String,
}

impl fmt::Display for InputFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {} (rule `{}` of {})", self.path, self.message, self.rule, self.owner)
    }
}

impl ErrorKind {
    /// Returns the stable code.
    pub fn code(&self) -> ErrorCode {
        match self {
            ErrorKind::DuplicateId { .. } => ErrorCode::DuplicateId,
            ErrorKind::SchemaConflict { .. } => ErrorCode::SchemaConflict,
            ErrorKind::SchemaInvalid { .. } => ErrorCode::SchemaInvalid,
            ErrorKind::InputInvalid { .. } => ErrorCode::InputInvalid,
            ErrorKind::ToolCollision { .. } => ErrorCode::ToolCollision,
            ErrorKind::ToolNameInvalid { .. } => ErrorCode::ToolNameInvalid,
            ErrorKind::DepthExceeded { .. } => ErrorCode::DepthExceeded,
            ErrorKind::Priority { .. } => ErrorCode::PriorityInvalid,
            ErrorKind::BudgetExceeded { .. } => ErrorCode::BudgetExceeded,
            ErrorKind::Tag(err) => err.code(),
            ErrorKind::Template { .. } => ErrorCode::TemplateError,
            ErrorKind::Failed { .. } => ErrorCode::ContributorFailed,
            ErrorKind::Deadline { .. } => ErrorCode::DeadlineExceeded,
            ErrorKind::Transform(_) => ErrorCode::TransformFailed,
            ErrorKind::Exclusive { .. } => ErrorCode::DefinitionInvalid,
            ErrorKind::CapabilityName { .. } | ErrorKind::Conditional { .. } => ErrorCode::DefinitionInvalid,
            ErrorKind::UnknownPreset { .. } => ErrorCode::UnknownEntry,
            ErrorKind::PresetConflict { .. } => ErrorCode::DuplicateId,
            ErrorKind::UnknownPrompt { .. } => ErrorCode::UnknownPrompt,
        }
    }

    /// Returns all sources involved.
    pub fn sources(&self) -> Vec<String> {
        match self {
            ErrorKind::DuplicateId { first, second, .. } => vec![first.clone(), second.clone()],
            ErrorKind::SchemaConflict { first, second, .. }
            | ErrorKind::ToolCollision { first, second, .. } => {
                vec![first.to_string(), second.to_string()]
            }
            ErrorKind::SchemaInvalid { owner, .. }
            | ErrorKind::ToolNameInvalid { owner, .. }
            | ErrorKind::Priority { owner, .. }
            | ErrorKind::Template { owner, .. }
            | ErrorKind::Failed { owner, .. }
            | ErrorKind::Conditional { owner, .. }
            | ErrorKind::Deadline { owner, .. } => vec![owner.to_string()],
            ErrorKind::CapabilityName { name: capability }
            | ErrorKind::UnknownPreset { capability, .. }
            | ErrorKind::PresetConflict { capability, .. } => {
                vec![Source::Capability(capability.as_str().into()).to_string()]
            }
            ErrorKind::InputInvalid { faults } => {
                let mut owners: Vec<String> = faults.iter().map(|it| it.owner.to_string()).collect();
                owners.sort();
                owners.dedup();
                owners
            }
            ErrorKind::BudgetExceeded { largest, .. } => {
                largest.iter().map(|(it, _)| it.to_string()).collect()
            }
            ErrorKind::Tag(err) => err.sources(),
            ErrorKind::DepthExceeded { entry, .. } => vec![entry.clone()],
            ErrorKind::Transform(panic) => vec![Source::Transform(panic.name.as_str().into()).to_string()],
            ErrorKind::Exclusive { .. } | ErrorKind::UnknownPrompt { .. } => Vec::new(),
        }
    }

    /// Returns how to fix it, if known.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            ErrorKind::DuplicateId { .. } => {
                "rename one of them, or use the same entry twice: it renders once"
            }
            ErrorKind::SchemaConflict { .. } => {
                "make both declarations equal, or list the key under `override` in the prompt"
            }
            ErrorKind::InputInvalid { .. } => "`contexture prompts` lists the input that each prompt expects",
            ErrorKind::ToolCollision { .. } => {
                "rename one; tools given at the call site replace others of that name"
            }
            ErrorKind::DepthExceeded { .. } => "look for an entry that uses itself",
            ErrorKind::BudgetExceeded { which, largest, .. } => {
                let mut advice: Vec<String> = largest.iter().map(|(it, _)| smaller(it)).collect();
                advice.dedup();
                return Some(format!("raise `{which}`, or {}", advice.join(", or ")));
            }
            ErrorKind::Priority { .. } => "priorities go from 0 (gives way first) to 100",
            ErrorKind::Tag(err) => return err.hint(),
            ErrorKind::Template { fault, .. } => return template_hint(fault),
            ErrorKind::UnknownPreset { preset, known, .. } => {
                return contexture_template::did_you_mean(preset, known.iter().map(String::as_str));
            }
            ErrorKind::PresetConflict { .. } => "name the same preset everywhere",
            ErrorKind::Conditional { .. } => {
                "include the capability without a condition, or move what depends on it to a capability of its own"
            }
            ErrorKind::Deadline { .. } => "raise the deadline, or set `on_error` to skip",
            ErrorKind::Failed { .. } => "set `on_error` to skip if the pass can do without it",
            ErrorKind::SchemaInvalid { .. }
            | ErrorKind::ToolNameInvalid { .. }
            | ErrorKind::CapabilityName { .. }
            | ErrorKind::Transform(_)
            | ErrorKind::Exclusive { .. }
            | ErrorKind::UnknownPrompt { .. } => return None,
        };
        Some(hint.to_owned())
    }
}

impl Error {
    /// Returns the kind of the error.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// Returns the stable code.
    pub fn code(&self) -> ErrorCode {
        self.0.kind.code()
    }

    /// Returns the place, such as `support/context:refunds`.
    pub fn at(&self) -> Option<&str> {
        self.0.at.as_deref()
    }

    /// Returns the other errors found at the same time.
    pub fn others(&self) -> &[Error] {
        &self.0.others
    }

    /// Adds the place, unless a more specific one is known.
    #[must_use]
    pub fn or_at(mut self, at: impl Into<String>) -> Self {
        self.0.at.get_or_insert_with(|| at.into());
        self
    }

    /// Combines all errors into the first one; `Ok` if there are none.
    pub(crate) fn all(errors: Vec<Error>) -> Result<(), Error> {
        let mut errors = errors.into_iter();
        match errors.next() {
            None => Ok(()),
            Some(mut first) => {
                first.0.others.extend(errors);
                Err(first)
            }
        }
    }

    /// Wraps the error of an author's function. A template error keeps its kind.
    pub(crate) fn of_function(owner: &Source, what: &'static str, fault: BoxError) -> Self {
        match fault.downcast::<contexture_template::Error>() {
            Ok(fault) => ErrorKind::Template { owner: owner.clone(), fault: *fault }.into(),
            Err(fault) => ErrorKind::Failed { owner: owner.clone(), what, fault }.into(),
        }
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self(Box::new(Inner { kind, at: None, others: Vec::new() }))
    }
}

impl From<TagError> for Error {
    fn from(err: TagError) -> Self {
        ErrorKind::Tag(err).into()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.kind.fmt(f)?;
        self.0.others.iter().try_for_each(|it| write!(f, "; {it}"))
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.kind {
            ErrorKind::Failed { fault, .. } => Some(&**fault),
            ErrorKind::Template { fault, .. } => Some(fault),
            _ => None,
        }
    }
}

fn list(faults: &[InputFault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn largest_list(largest: &[(Source, Tokens)]) -> String {
    largest.iter().map(|(source, tokens)| format!("{source} ({tokens})")).collect::<Vec<_>>().join(", ")
}

/// Suggests how to make a source smaller.
fn smaller(source: &Source) -> String {
    match source {
        Source::Prompt => "shorten the prompt's own text".to_owned(),
        Source::History(_) => "shorten the newest turn, or begin a new session".to_owned(),
        Source::User => "send a shorter message".to_owned(),
        _ => format!("shorten or unpin `{source}`"),
    }
}

fn kept_free(margin: Tokens) -> String {
    match margin {
        Tokens(0) => String::new(),
        margin => format!(", and {margin} are kept free because the count is an estimate"),
    }
}

fn did_you_mean(known: &[String]) -> String {
    match known {
        [] => String::new(),
        some => format!("; there are: {}", some.join(", ")),
    }
}

fn template_hint(fault: &contexture_template::Error) -> Option<String> {
    if let Some(hint) = fault.hint() {
        return Some(hint.to_owned());
    }
    let undefined = fault.kind() == contexture_template::ErrorKind::UndefinedVariable;
    undefined.then(|| "declare it in `input`, or guard it with `{% if %}` or the `default` filter".to_owned())
}
