//! Structured output: from the model's text to a value that matches the prompt's schema, or to a list of errors.

use contexture_compose::SchemaValidator;
use serde_json::Value;

use crate::ports::{Offload, offloaded};

/// Parses the JSON value of an answer, bare or in a Markdown code fence.
pub(crate) fn json(text: &str) -> Result<Value, String> {
    let text = text.trim();
    let inner = text
        .strip_prefix("```")
        .and_then(|it| it.strip_suffix("```"))
        .map(|it| it.split_once('\n').map_or(it, |(_, rest)| rest).trim());
    serde_json::from_str(inner.unwrap_or(text)).map_err(|err| format!("it is not JSON: {err}"))
}

/// Lists what is wrong with a value, with paths. Values are masked, since they may be secret or huge.
pub(crate) fn faults(validator: &SchemaValidator, value: &Value) -> Vec<String> {
    let shown =
        |path: String, fault: String| if path.is_empty() { fault } else { format!("{path}: {fault}") };
    validator.faults(value).into_iter().map(|it| shown(it.path, it.masked)).collect()
}

/// Parses and validates an answer. A long validation is offloaded, so that it does not block other turns on this
/// thread.
pub(crate) async fn checked(
    validator: &SchemaValidator,
    text: &str,
    offload: &dyn Offload,
) -> Result<Value, Vec<String>> {
    let value = json(text).map_err(|fault| vec![fault])?;
    if validator.is_brief(&value) {
        return fitting(validator, value);
    }
    let validator = validator.clone();
    let late = || Err(vec!["it could not be checked against the schema in time".to_owned()]);
    offloaded(offload, move || fitting(&validator, value)).await.unwrap_or_else(late)
}

fn fitting(validator: &SchemaValidator, value: Value) -> Result<Value, Vec<String>> {
    let faults = faults(validator, &value);
    if faults.is_empty() { Ok(value) } else { Err(faults) }
}

/// Returns the feedback for the model about an invalid answer.
pub(crate) fn feedback(faults: &[String], schema: &Value) -> String {
    include_str!("templates/output_feedback.txt")
        .trim_end()
        .replacen("{schema}", &schema.to_string(), 1)
        .replacen("{faults}", &listed(faults), 1)
}

/// Formats the errors as a list, one per line.
pub(crate) fn listed(faults: &[String]) -> String {
    faults.iter().map(|it| format!("- {it}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::json;

    #[test]
    fn json_is_read_bare_or_fenced() {
        let expected = serde_json::json!({"a": 1});
        for text in ["{\"a\":1}", " {\"a\": 1}\n", "```json\n{\"a\":1}\n```", "```\n{\"a\":1}\n```"] {
            assert_eq!(json(text), Ok(expected.clone()), "{text}");
        }
        assert!(json("Sure! {\"a\":1}").is_err());
    }
}
