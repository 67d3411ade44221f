//! Answers the waits of a run from the terminal or a pipe.

use contexture_flow::{QuestionKind, Wait};
use contexture_message::ErrorCode;
use serde_json::{Value, json};

use crate::commands::chat::lines::{Lines, Typed};
use crate::error::Failure;
use crate::output;

/// Answers the waits of runs.
pub(super) struct Respondent {
    /// `None` if no one can be asked.
    lines: Option<Lines>,
    approves: bool,
}

impl Respondent {
    pub(super) fn new(is_asked: bool, approves: bool) -> Result<Self, Failure> {
        Ok(Self { lines: is_asked.then(|| Lines::open(None)).transpose()?, approves })
    }

    /// Asks until the answer is valid. Returns `None` if no one can be asked, or at the end of input.
    pub(super) fn answer(&mut self, wait: &Wait) -> Result<Option<Value>, Failure> {
        if wait.asked.kind == QuestionKind::Approval && self.approves {
            return Ok(Some(json!({"approve": true})));
        }
        let Some(lines) = &mut self.lines else { return Ok(None) };
        loop {
            output::aside(&question(wait));
            let line = match lines.read()? {
                Typed::Line(line) => line,
                Typed::Nothing | Typed::End => return Ok(None),
            };
            match value(wait, &line) {
                Ok(value) => return Ok(Some(value)),
                // Input from a pipe cannot be corrected by asking again.
                Err(why) if !lines.is_terminal() => {
                    return Err(Failure::new(
                        ErrorCode::AnswerInvalid,
                        format!("the answer to `{}`: {why}", wait.id),
                    ));
                }
                Err(why) => output::warn(&why),
            }
        }
    }
}

fn question(wait: &Wait) -> String {
    let about = match wait.asked.kind {
        QuestionKind::Approval => format!("\n{} [y/N]", wait.asked.about["arguments"]),
        QuestionKind::Input => choices(&wait.asked.schema),
    };
    let message =
        if wait.asked.message.is_empty() { wait.node.as_str() } else { wait.asked.message.trim_end() };
    format!("{message}{about}")
}

fn choices(schema: &Value) -> String {
    let choices = schema["enum"].as_array().into_iter().flatten();
    let choices: Vec<String> = choices.map(plain).collect();
    if choices.is_empty() { String::new() } else { format!(" [{}]", choices.join(", ")) }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Converts typed text to the expected value: text, yes or no for approvals, otherwise JSON.
pub(super) fn value(wait: &Wait, typed: &str) -> Result<Value, String> {
    let text = || Value::String(typed.to_owned());
    let value = match wait.asked.kind {
        QuestionKind::Approval if !typed.trim_start().starts_with('{') => {
            json!({"approve": matches!(typed.trim().to_lowercase().as_str(), "y" | "yes")})
        }
        _ if wait.asked.schema["type"] == "string" => text(),
        _ => serde_json::from_str(typed).unwrap_or_else(|_| text()),
    };
    wait.check(&value).map(|()| value)
}
