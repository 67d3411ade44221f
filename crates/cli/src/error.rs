//! What went wrong, as people and programs read it.
//!
//! ```text
//! error[unknown_field]: unknown field `temprature`
//!  --> prompts/p.md:2:1
//! hint: did you mean `temperature`?
//! ```

use contexture_compose::tags::TagError;
use contexture_project::{Fault, ProjectError};
use serde::Serialize;
use serde_json::{Value, json};

use crate::paint::{BLUE, BOLD, CYAN, RED, paint, visible};

/// How the process ends.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Exit {
    /// All is well.
    #[default]
    Done,
    /// A check failed.
    CheckFailed,
    /// Wrong usage or definition.
    Wrong,
    /// A model, a store or the network failed.
    World,
}

impl Exit {
    /// Returns the number that a shell sees.
    pub(crate) fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::CheckFailed => 1,
            Exit::Wrong => 2,
            Exit::World => 3,
        }
    }
}

/// One thing that went wrong.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct Problem {
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) at: Option<String>,
    pub(crate) sources: Vec<String>,
    pub(crate) hint: Option<String>,
}

/// Why a command did not do its work: at least one problem.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Failure {
    // Boxed: a failure is returned everywhere and happens seldom.
    first: Box<Problem>,
    more: Vec<Problem>,
    /// Lines for people only, such as the usage of a command.
    details: String,
}

impl Failure {
    pub(crate) fn new(code: &str, message: impl Into<String>) -> Self {
        let first = Problem {
            code: code.to_owned(),
            message: message.into(),
            at: None,
            sources: Vec::new(),
            hint: None,
        };
        Self { first: Box::new(first), more: Vec::new(), details: String::new() }
    }

    /// Arguments that make no sense.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new("usage", message)
    }

    /// Data that is not what it should be.
    pub(crate) fn input(message: impl Into<String>) -> Self {
        Self::new("input_invalid", message)
    }

    pub(crate) fn at(mut self, at: impl Into<String>) -> Self {
        self.first.at = Some(at.into());
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

    /// Returns how the process ends.
    pub(crate) fn exit(&self) -> Exit {
        match self.first.code.as_str() {
            "contributor_failed" | "deadline_exceeded" | "model_error" | "store_error" | "write_failed" => {
                Exit::World
            }
            _ => Exit::Wrong,
        }
    }

    /// Returns the document for programs.
    pub(crate) fn to_json(&self) -> Value {
        let mut error = json!(*self.first);
        if !self.more.is_empty() {
            error["more"] = json!(self.more);
        }
        json!({ "error": error })
    }

    /// Returns the text for people, styled.
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

impl Problem {
    fn to_text(&self) -> String {
        let head = paint(RED, &format!("error[{}]", self.code));
        let mut text = format!("{head}{}", paint(BOLD, &format!(": {}", visible(&self.message))));
        if let Some(at) = &self.at {
            text.push_str(&format!("\n {} {}", paint(BLUE, "-->"), visible(at)));
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
        Self { code: fault.code, message: fault.message, at, sources: fault.sources, hint: fault.hint }
    }
}

impl From<ProjectError> for Failure {
    fn from(err: ProjectError) -> Self {
        let mut problems = err.faults.into_iter().map(Problem::from);
        match problems.next() {
            Some(first) => Self { first: Box::new(first), more: problems.collect(), details: String::new() },
            None => Failure::new("file_invalid", "the project can't be read"),
        }
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
    use super::{Exit, Failure};

    #[test]
    fn the_class_of_an_error_is_its_exit_code() {
        let exit = |code| Failure::new(code, "").exit();
        assert_eq!(exit("usage"), Exit::Wrong);
        assert_eq!(exit("budget_exceeded"), Exit::Wrong);
        assert_eq!(exit("contributor_failed"), Exit::World);
        assert_eq!(exit("deadline_exceeded"), Exit::World);
    }
}
