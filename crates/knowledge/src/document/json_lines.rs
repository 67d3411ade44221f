//! JSON lines: each line is a record, and becomes a paragraph of `name: value` lines.

use serde_json::Value;

use super::Refusal;

/// Values deeper than this are written as JSON.
const MAX_DEPTH: usize = 4;

/// Returns the records as paragraphs.
pub(super) fn to_text(lines: &str) -> Result<String, Refusal> {
    let mut text = String::with_capacity(lines.len());
    for (idx, line) in lines.lines().enumerate().filter(|(_, it)| !it.trim().is_empty()) {
        let value: Value = serde_json::from_str(line)
            .map_err(|err| Refusal::Json { line: idx + 1, detail: err.to_string() })?;
        if !text.is_empty() {
            text.push('\n');
        }
        push(&mut text, "", &value, 0);
    }
    Ok(text)
}

fn push(text: &mut String, name: &str, value: &Value, depth: usize) {
    match value {
        Value::Null => {}
        Value::Object(fields) if depth < MAX_DEPTH => fields.iter().for_each(|(field, value)| {
            let name = if name.is_empty() { field.clone() } else { format!("{name}.{field}") };
            push(text, &name, value, depth + 1);
        }),
        Value::Array(values) if depth < MAX_DEPTH => {
            values.iter().for_each(|it| push(text, name, it, depth + 1));
        }
        Value::String(value) => push_line(text, name, value),
        other => push_line(text, name, &other.to_string()),
    }
}

fn push_line(text: &mut String, name: &str, value: &str) {
    // A record's text itself needs no name.
    if !name.is_empty() && name != "text" {
        text.push_str(name);
        text.push_str(": ");
    }
    text.push_str(value);
    text.push('\n');
}
