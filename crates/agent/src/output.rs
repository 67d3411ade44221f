//! Structured output: from the model's text to a value that fits the prompt's schema, or to what is wrong with it.

use jsonschema::Validator;
use serde_json::Value;

/// Reads a value from an answer: JSON, alone or in a fence of Markdown.
pub(crate) fn json(text: &str) -> Result<Value, String> {
    let text = text.trim();
    let inner = text
        .strip_prefix("```")
        .and_then(|it| it.strip_suffix("```"))
        .map(|it| it.split_once('\n').map_or(it, |(_, rest)| rest).trim());
    serde_json::from_str(inner.unwrap_or(text)).map_err(|err| format!("it is not JSON: {err}"))
}

/// Lists what is wrong with a value, with places. Values are shown short: they may be secret or huge.
pub(crate) fn faults(validator: &Validator, value: &Value) -> Vec<String> {
    const MOST: usize = 20;
    let each = validator.iter_errors(value).take(MOST).map(|err| {
        let place = err.instance_path().as_str().to_owned();
        let fault: String = err.masked_with("the value").to_string();
        if place.is_empty() { fault } else { format!("{place}: {fault}") }
    });
    each.collect()
}

/// Reads and checks an answer.
pub(crate) fn checked(validator: &Validator, text: &str) -> Result<Value, Vec<String>> {
    let value = json(text).map_err(|fault| vec![fault])?;
    let faults = faults(validator, &value);
    if faults.is_empty() { Ok(value) } else { Err(faults) }
}

/// Returns what the model is told about an answer that does not fit.
pub(crate) fn feedback(faults: &[String], schema: &Value) -> String {
    include_str!("templates/output_feedback.txt")
        .trim_end()
        .replacen("{schema}", &schema.to_string(), 1)
        .replacen("{faults}", &listed(faults), 1)
}

/// Returns one line for each fault.
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
