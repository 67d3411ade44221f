//! Faults of a flow, with their location in its document.

use std::fmt;

use contexture_message::ErrorCode;

/// One thing that is wrong with a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowFault {
    /// A stable code, such as `flow_type_mismatch`.
    pub code: ErrorCode,
    /// The message: it names node, port and edge.
    pub message: String,
    /// The location in the flow's document: `["nodes", "ask", "retry"]` or `["edges", "3"]`.
    pub at: Vec<String>,
    /// A hint on how to fix it.
    pub hint: Option<String>,
}

impl FlowFault {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), at: Vec::new(), hint: None }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::FlowInvalid, message)
    }

    pub(crate) fn at<T: ToString>(mut self, path: impl IntoIterator<Item = T>) -> Self {
        self.at = path.into_iter().map(|it| it.to_string()).collect();
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Hints at the names that there are, if there are any.
    pub(crate) fn known<T: AsRef<str>>(self, names: impl IntoIterator<Item = T>) -> Self {
        match names.into_iter().map(|it| it.as_ref().to_owned()).collect::<Vec<_>>() {
            names if names.is_empty() => self,
            names => self.hint(format!("there are: {}", names.join(", "))),
        }
    }

    /// Says in which part of a document it is: before the message, and before the place.
    pub(crate) fn within(self, part: &str, at: &[String]) -> Self {
        let at: Vec<String> = at.iter().chain(&self.at).cloned().collect();
        Self { message: format!("{part}: {}", self.message), ..self }.at(at)
    }
}

impl fmt::Display for FlowFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, " ({hint})"))
    }
}

/// All faults of a flow, in the order of its document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("flow `{flow}` is invalid: {}", listed(.faults))]
pub struct FlowInvalid {
    /// The flow's id.
    pub flow: String,
    /// At least one fault.
    pub faults: Vec<FlowFault>,
}

fn listed(faults: &[FlowFault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
