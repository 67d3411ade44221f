//! What a run waits for, asked on the terminal or read from a pipe.

use contexture_flow::{QuestionKind, Wait};
use serde_json::{Value, json};

use crate::commands::chat::lines::{Lines, Typed};
use crate::error::Failure;
use crate::output;

/// Who answers what runs wait for.
pub(super) struct Respondent {
    /// Nobody, if there are no lines.
    lines: Option<Lines>,
    approves: bool,
}

impl Respondent {
    pub(super) fn new(is_asked: bool, approves: bool) -> Result<Self, Failure> {
        Ok(Self { lines: is_asked.then(|| Lines::open(None)).transpose()?, approves })
    }

    /// Asks until an answer fits; nothing if there is nobody, or no more.
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
                // What comes from a pipe does not get better by asking again.
                Err(why) if !lines.is_terminal() => {
                    return Err(Failure::new(
                        "answer_invalid",
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

/// Reads what was typed as what is expected: text where text is, yes or no for approvals, and JSON elsewhere.
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
