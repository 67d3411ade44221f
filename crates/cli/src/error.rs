//! Failures of commands, formatted for people and for programs.
//!
//! ```text
//! error[unknown_field]: unknown field `temprature`
//!  --> prompts/p.md:2:1
//!   |
//! 2 | temprature: 1
//!   | ^^^^^^^^^^
//! hint: did you mean `temperature`?
//! ```

use contexture_message::{ErrorClass, ErrorCode};
use std::path::Path;

use contexture_agent::AgentError;
use contexture_compose::tags::TagError;
use contexture_flow::RunError;
use contexture_project::{Fault, ProjectError};
use contexture_session::{IdInvalid, SessionError, StoreError};
use serde::Serialize;
use serde_json::{Value, json};

use crate::terminal::paint::{BLUE, BOLD, CYAN, RED, paint, visible};
use crate::terminal::snippet::{self, Spot};

/// The exit status of the process.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Exit {
    /// Success.
    #[default]
    Done,
    /// A check failed.
    CheckFailed,
    /// Invalid usage or an invalid definition.
    Wrong,
    /// A model, a store or the network failed.
    World,
}

impl Exit {
    /// Returns the exit code for the shell.
    pub(crate) fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::CheckFailed => 1,
            Exit::Wrong => 2,
            Exit::World => 3,
        }
    }
}

/// A single problem.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct Problem {
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
    pub(crate) at: Option<String>,
    pub(crate) sources: Vec<String>,
    pub(crate) hint: Option<String>,
    /// The parsed position of `at`, if it points to a line.
    #[serde(skip)]
    spot: Option<Spot>,
    /// The source line, shown to people.
    #[serde(skip)]
    line: Option<String>,
}

/// The failure of a command: at least one problem.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Failure {
    // Boxed, because a failure is part of most return types but rarely occurs.
    first: Box<Problem>,
    more: Vec<Problem>,
    /// Lines for people only, such as the usage of a command.
    details: String,
}

impl Failure {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let first = Problem {
            code,
            message: message.into(),
            at: None,
            sources: Vec::new(),
            hint: None,
            spot: None,
            line: None,
        };
        Self { first: Box::new(first), more: Vec::new(), details: String::new() }
    }

    /// Returns a failure for invalid arguments.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Usage, message)
    }

    /// Returns a failure for invalid input data.
    pub(crate) fn input(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InputInvalid, message)
    }

    pub(crate) fn at(mut self, at: impl Into<String>) -> Self {
        self.first.at = Some(at.into());
        (self.first.spot, self.first.line) = (None, None);
        self
    }

    /// Sets the position in a file or in a given text.
    pub(crate) fn at_line(mut self, spot: Spot, text: &str) -> Self {
        self.first.at = Some(format!("{}:{}:{}", spot.file, spot.line, spot.column));
        self.first.line = snippet::line(text, spot.line);
        self.first.spot = Some(spot);
        self
    }

    /// Adds the source lines of the problems, from files in the project folder or the current one.
    pub(crate) fn with_lines(mut self, root: Option<&Path>) -> Self {
        for problem in std::iter::once(&mut *self.first).chain(&mut self.more) {
            if let Some(spot) = problem.spot.as_ref().filter(|_| problem.line.is_none()) {
                problem.line = snippet::line_of(spot, root);
            }
        }
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.first.hint = Some(hint.into());
        self
    }

    pub(crate) fn sources(mut self, sources: Vec<String>) -> Self {
        self.first.sources = sources;
        self
    }

    pub(crate) fn with_details(mut self, details: &str) -> Self {
        details.clone_into(&mut self.details);
        self
    }

    /// Returns the code of the first problem.
    pub(crate) fn code(&self) -> ErrorCode {
        self.first.code
    }

    /// Returns the message of the first problem.
    pub(crate) fn message(&self) -> &str {
        &self.first.message
    }

    /// Returns the exit status.
    pub(crate) fn exit(&self) -> Exit {
        exit_of(self.first.code.class())
    }

    /// Returns the failure as JSON for programs.
    pub(crate) fn to_json(&self) -> Value {
        let mut error = json!(*self.first);
        if !self.more.is_empty() {
            error["more"] = json!(self.more);
        }
        json!({ "error": error })
    }

    /// Returns the failure as styled text for people.
    pub(crate) fn to_text(&self) -> String {
        let problems = std::iter::once(&*self.first).chain(&self.more).map(Problem::to_text);
        let mut text = problems.collect::<Vec<_>>().join("\n\n");
        if !self.details.is_empty() {
            text.push_str("\n\n");
            text.push_str(&self.details);
        }
        text
    }
}

/// Returns the exit status of a class of errors.
fn exit_of(class: ErrorClass) -> Exit {
    match class {
        ErrorClass::CheckFailed => Exit::CheckFailed,
        ErrorClass::Unauthorized
        | ErrorClass::Forbidden
        | ErrorClass::NotFound
        | ErrorClass::MethodNotAllowed
        | ErrorClass::NotAcceptable
        | ErrorClass::Conflict
        | ErrorClass::Gone
        | ErrorClass::TooLarge
        | ErrorClass::UnsupportedMedia
        | ErrorClass::Malformed
        | ErrorClass::Invalid => Exit::Wrong,
        ErrorClass::RequestTimeout
        | ErrorClass::Contention
        | ErrorClass::Refused
        | ErrorClass::Throttled
        | ErrorClass::Internal
        | ErrorClass::Upstream
        | ErrorClass::Unavailable
        | ErrorClass::Timeout => Exit::World,
    }
}

impl Problem {
    fn to_text(&self) -> String {
        let head = paint(RED, &format!("error[{}]", self.code));
        let mut text = format!("{head}{}", paint(BOLD, &format!(": {}", visible(&self.message))));
        if let Some(at) = &self.at {
            text.push_str(&format!("\n {} {}", paint(BLUE, "-->"), visible(at)));
        }
        if let Some((spot, line)) = self.spot.as_ref().zip(self.line.as_ref()) {
            text.push('\n');
            text.push_str(&snippet::draw(line, spot.line, spot.column));
        }
        if let Some(hint) = &self.hint {
            text.push_str(&format!("\n{} {}", paint(CYAN, "hint:"), visible(hint)));
        }
        text
    }
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        let at = fault.at();
        let Fault { code, message, file, line, column, sources, hint } = fault;
        let spot = file.zip(line).map(|(file, line)| Spot { file, line, column: column.unwrap_or(1) });
        Self { code, message, at, sources, hint, spot, line: None }
    }
}

impl From<ProjectError> for Failure {
    fn from(err: ProjectError) -> Self {
        let mut problems = err.faults.into_iter().map(Problem::from);
        match problems.next() {
            Some(first) => Self { first: Box::new(first), more: problems.collect(), details: String::new() },
            None => Failure::new(ErrorCode::FileInvalid, "cannot read the project"),
        }
    }
}

impl From<SessionError> for Failure {
    fn from(err: SessionError) -> Self {
        let failure = Failure::new(err.code(), err.to_string());
        let SessionError::Store(err) = &err else { return failure };
        match err {
            StoreError::NotFound { what: "session", .. } => {
                failure.hint("`contexture sessions list` shows what there is")
            }
            StoreError::Exists { .. } => failure.hint("`--as ID` gives it another name"),
            StoreError::Newer { .. } => {
                failure.hint("a newer version of this program wrote it; update this one")
            }
            StoreError::Damaged { .. } => failure.hint(
                "`contexture sessions recover FILE --into NEW` copies what is readable of a SQLite file",
            ),
            StoreError::Unavailable { .. } => failure.hint("`--store URL` names another store"),
            StoreError::Conflict { .. }
            | StoreError::Stale { .. }
            | StoreError::Held { .. }
            | StoreError::Fenced { .. } => failure.hint("another process writes to it; try again later"),
            StoreError::NotFound { .. }
            | StoreError::IsMain { .. }
            | StoreError::Malformed { .. }
            | StoreError::NameTooLong { .. } => failure,
        }
    }
}

impl From<AgentError> for Failure {
    fn from(err: AgentError) -> Self {
        let failure = Failure::new(err.code(), err.to_string());
        match err {
            AgentError::Session(err) | AgentError::Unrecorded(err) | AgentError::Entries(err) => err.into(),
            AgentError::RequestInvalid { at, .. } => failure.at(at),
            AgentError::Constraints { .. } | AgentError::OutputInvalid { .. } => failure
                .hint("the last answer is in the log; a stronger model, or a clearer prompt, may do better"),
            AgentError::Unknown { .. } => {
                failure.hint("this program runs what is declared; what is a function needs the library")
            }
            AgentError::NoExecutor { .. } => failure
                .hint("give the tool an `http` section, or let the client of the turn bring and run it"),
            AgentError::Cancelled => failure.hint("what was said until then is kept"),
            AgentError::Compose(_)
            | AgentError::Model(_)
            | AgentError::Approval(_)
            | AgentError::ClientTool(_)
            | AgentError::NoModel
            | AgentError::NoSuchTool { .. }
            | AgentError::NoSuchBase { .. }
            | AgentError::NoSuchSkill { .. }
            | AgentError::SkillUnreadable { .. }
            | AgentError::NoAnswer { .. }
            | AgentError::Panicked
            | AgentError::Blocked { .. } => failure,
        }
    }
}

impl From<RunError> for Failure {
    fn from(err: RunError) -> Self {
        let failure = Failure::new(err.code(), err.to_string());
        match err {
            RunError::Session(err) => err.into(),
            RunError::Store(err) => err.into(),
            RunError::Id(err) => err.into(),
            RunError::NotFound { .. } => failure.hint("`contexture flow runs` lists them"),
            RunError::Driven { .. } => failure.hint("another process drives it; try again later"),
            RunError::NoSuchWait { .. } | RunError::Answered { .. } => {
                failure.hint("`contexture flow show RUN` says what it waits for")
            }
            RunError::InputInvalid { .. } => failure.hint("`contexture flow list` says what it is given"),
            RunError::AnswerInvalid { .. }
            | RunError::Over { .. }
            | RunError::FlowChanged { .. }
            | RunError::Damaged { .. } => failure,
        }
    }
}

impl From<StoreError> for Failure {
    fn from(err: StoreError) -> Self {
        SessionError::from(err).into()
    }
}

impl From<IdInvalid> for Failure {
    fn from(err: IdInvalid) -> Self {
        SessionError::from(err).into()
    }
}

impl From<TagError> for Failure {
    fn from(err: TagError) -> Self {
        let failure = Failure::new(err.code(), err.to_string()).sources(err.sources());
        let failure = if err.path().is_empty() { failure } else { failure.at(err.path()) };
        match err.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use contexture_message::ErrorCode;

    use super::{Exit, Failure};

    #[test]
    fn the_class_of_an_error_is_its_exit_code() {
        let exit = |code| Failure::new(code, "").exit();
        assert_eq!(exit(ErrorCode::Usage), Exit::Wrong);
        assert_eq!(exit(ErrorCode::BudgetExceeded), Exit::Wrong);
        assert_eq!(exit(ErrorCode::ContributorFailed), Exit::World);
        assert_eq!(exit(ErrorCode::DeadlineExceeded), Exit::World);
        assert_eq!(exit(ErrorCode::StoreUnavailable), Exit::World);
        assert_eq!(exit(ErrorCode::NotFound), Exit::Wrong);
        assert_eq!(exit(ErrorCode::ConstraintFailed), Exit::CheckFailed);
        assert_eq!(exit(ErrorCode::Cancelled), Exit::World);
        assert_eq!(exit(ErrorCode::ModelMissing), Exit::Wrong);
    }

    #[test]
    fn every_trouble_of_a_model_is_the_world_s() {
        use contexture_model::ModelErrorKind as Kind;
        let kinds = [
            Kind::KeyMissing,
            Kind::Auth,
            Kind::RateLimited,
            Kind::PromptTooLong,
            Kind::Refused,
            Kind::Overloaded,
            Kind::NotFound,
            Kind::Address,
            Kind::Invalid,
            Kind::TimedOut,
            Kind::Disconnected,
            Kind::Malformed,
            Kind::TooLarge,
        ];
        for kind in kinds {
            assert_eq!(Failure::new(kind.code(), "").exit(), Exit::World, "{kind:?}");
        }
    }
}
