//! Reads the input of a command: files, standard input and JSON from the command line.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use contexture_compose::InlineBlock;
use contexture_history::Turn;
use contexture_message::{ErrorCode, JsonFaultKind, json_fault};
use serde_json::{Map, Value};

use crate::error::Failure;
use crate::terminal::snippet::Spot;
use crate::transcript;

/// The maximum size of a file or of standard input.
const MAX_BYTES: u64 = 64 << 20;

/// The name of standard input in messages.
const STDIN: &str = "standard input";

/// Returns the name for error messages: the path, or standard input for `-`.
pub(crate) fn name(path: &str) -> &str {
    if path == "-" { STDIN } else { path }
}

/// Reads a text file, or standard input for `-`.
pub(crate) fn text(path: &str) -> Result<String, Failure> {
    limited(path, MAX_BYTES)
}

/// Reads a text file of any size, or standard input for `-`.
pub(crate) fn large_text(path: &str) -> Result<String, Failure> {
    limited(path, u64::MAX - 1)
}

fn limited(path: &str, max: u64) -> Result<String, Failure> {
    let name = name(path);
    if path.is_empty() {
        return Err(Failure::usage("the name of a file is empty").hint("write `-` for standard input"));
    }
    if Path::new(path).is_dir() {
        return Err(Failure::new(ErrorCode::NotFound, format!("`{name}` is a folder, not a file")).at(name));
    }
    let bytes = match path {
        "-" => bytes(io::stdin().lock(), max),
        path => File::open(path).and_then(|it| bytes(it, max)),
    };
    let bytes = bytes.map_err(|err| match err.kind() {
        io::ErrorKind::NotFound => missing(name),
        _ => Failure::new(ErrorCode::NotFound, format!("cannot read `{name}`: {err}")).at(name),
    })?;
    if bytes.len() as u64 > max {
        return Err(Failure::input(format!("`{name}` is larger than {max} bytes")).at(name));
    }
    String::from_utf8(bytes).map_err(|err| {
        let byte = err.utf8_error().valid_up_to();
        Failure::input(format!("`{name}` is not UTF-8: the byte at {byte} is not part of a character"))
            .at(name)
    })
}

fn missing(name: &str) -> Failure {
    let failure = Failure::new(ErrorCode::NotFound, format!("`{name}` does not exist")).at(name);
    match std::env::current_dir().ok().filter(|_| Path::new(name).is_relative()) {
        Some(here) => failure.hint(format!("it was looked for in `{}`", here.display())),
        None => failure,
    }
}

fn bytes(from: impl Read, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One byte more than allowed is enough to detect a file that is too large.
    from.take(max + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a JSON file, or standard input for `-`.
pub(crate) fn json_file(path: &str) -> Result<Value, Failure> {
    parse(&text(path)?, name(path))
}

/// Reads the value of an option: JSON itself, `@FILE`, or `-` for standard input.
pub(crate) fn json_option(option: &str, value: &str) -> Result<Value, Failure> {
    match (value, value.strip_prefix('@')) {
        ("-", _) => json_file("-"),
        ("@", _) => {
            let failure = Failure::usage(format!("`{option} @` names no file"));
            Err(failure.hint(format!("write `{option} @FILE`, or `{option} -` for standard input")))
        }
        (_, Some(path)) => json_file(path),
        _ => parse(value, option).map_err(|failure| match value.ends_with(".json") {
            true => failure.hint(format!("to read a file, write `{option} @{value}`")),
            false => failure,
        }),
    }
}

fn parse(text: &str, name: &str) -> Result<Value, Failure> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let value = serde_json::from_str(text).map_err(|err| {
        let message = err.to_string();
        let fault = message.rsplit_once(" at line ").map_or(message.as_str(), |(fault, _)| fault);
        let fault = match fault {
            "recursion limit exceeded" => "lists and objects are nested more than 127 deep",
            other => other,
        };
        let failure = Failure::input(format!("{name} is not valid JSON: {fault}"));
        failure.at_line(Spot { file: name.to_owned(), line: err.line(), column: err.column() }, text)
    })?;
    ambiguous(text, name)?;
    Ok(value)
}

/// Rejects what a parser would silently accept: duplicate keys, and numbers that would be rounded.
pub(crate) fn ambiguous(text: &str, name: &str) -> Result<(), Failure> {
    let Some(fault) = json_fault(text) else { return Ok(()) };
    let within = if fault.path.is_empty() { String::new() } else { format!(" in `{}`", fault.path) };
    let failure = Failure::input(format!("{name}: {fault}{within}"));
    let failure = match fault.kind {
        JsonFaultKind::DuplicateKey(_) => failure.hint("remove one of the two"),
        JsonFaultKind::NumberRounded(_) => failure.hint("write it as a text, in quotes"),
    };
    Err(failure.at_line(Spot { file: name.to_owned(), line: fault.line, column: fault.column }, text))
}

/// Sets one key of an input, given as `key.inner=value`. If `schema` declares the key as a string, the value is taken
/// as text; otherwise it is parsed as JSON, with text as the fallback.
pub(crate) fn set(input: &mut Value, assignment: &str, schema: &Value) -> Result<(), Failure> {
    let wrong = |what: String| Failure::usage(format!("--set {assignment}: {what}"));
    let Some((path, value)) = assignment.split_once('=') else {
        return Err(
            wrong("there is no `=`".to_owned()).hint("write `--set key=value` or `--set key.inner=value`")
        );
    };
    let value = match serde_json::from_str(value) {
        Ok(json) if !is_declared_text(schema, path, &json) => {
            ambiguous(value, &format!("--set {path}"))?;
            json
        }
        _ => Value::String(value.to_owned()),
    };
    let mut place = input;
    for (idx, key) in path.split('.').enumerate() {
        if key.is_empty() {
            return Err(wrong("a key is empty".to_owned()));
        }
        if idx > 0 && place.is_null() {
            *place = Value::Object(Map::new());
        }
        place = match place {
            Value::Object(map) => map.entry(key).or_insert(Value::Null),
            Value::Array(items) => {
                let item = key.parse::<usize>().ok().and_then(|at| items.get_mut(at));
                item.ok_or_else(|| wrong(format!("the list has no item `{key}`")))?
            }
            _ => return Err(wrong(format!("`{key}` can't be set in a value that is not an object"))),
        };
    }
    *place = value;
    Ok(())
}

/// Whether a schema declares the key at a dotted path as a string, and not also as the type of `json`.
fn is_declared_text(schema: &Value, path: &str, json: &Value) -> bool {
    let declared = path.split('.').try_fold(schema, |schema, key| match key.parse::<usize>() {
        Ok(_) if schema.get("items").is_some() => schema.get("items"),
        _ => schema.get("properties")?.get(key),
    });
    let types = match declared.and_then(|it| it.get("type")) {
        Some(Value::Array(types)) => types.iter().filter_map(Value::as_str).collect(),
        Some(Value::String(one)) => vec![one.as_str()],
        _ => Vec::new(),
    };
    let is = |name: &str| match name {
        "null" => json.is_null(),
        "boolean" => json.is_boolean(),
        "integer" => json.is_i64() || json.is_u64(),
        "number" => json.is_number(),
        "array" => json.is_array(),
        "object" => json.is_object(),
        _ => false,
    };
    types.contains(&"string") && !types.iter().any(|it| is(it))
}

/// Reads the earlier turns of a conversation: one JSON message per line. Without `turn` ids, each user message starts
/// a turn.
pub(crate) fn turns(path: &str) -> Result<Vec<Turn>, Failure> {
    let text = text(path)?;
    let turns = transcript::history(&text, name(path))?;
    ambiguous(&text, name(path))?;
    Ok(turns)
}

/// Parses an inline block for this turn: `NAME=TEXT` or `NAME=@FILE`.
pub(crate) fn block(given: &str) -> Result<InlineBlock, Failure> {
    let (name, body) =
        given.split_once('=').filter(|(name, _)| !name.trim().is_empty()).ok_or_else(|| {
            Failure::usage(format!("`--block {given}` has no name")).hint("write `--block NAME=TEXT`")
        })?;
    let body = match body.strip_prefix('@') {
        Some(file) => text(file)?,
        None => body.to_owned(),
    };
    Ok(InlineBlock { name: name.trim().to_owned(), body, order: 0 })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{json_option, set};

    fn with(assignments: &[&str]) -> String {
        let mut input = json!({"items": [{"n": 1}], "plan": "free"});
        let schema = json!({"properties": {
            "text": {"type": "string"}, "maybe": {"type": ["string", "null"]}, "either": {"type": ["string", "integer"]},
            "deep": {"properties": {"text": {"type": "string"}}},
            "list": {"type": "array", "items": {"type": "string"}},
        }});
        match assignments.iter().try_for_each(|it| set(&mut input, it, &schema)) {
            Ok(()) => input.to_string(),
            Err(failure) => failure.to_json()["error"]["message"].to_string(),
        }
    }

    #[test]
    fn a_value_is_json_or_else_text() {
        assert_eq!(with(&["plan=pro", "age=41"]), r#"{"items":[{"n":1}],"plan":"pro","age":41}"#);
        assert_eq!(with(&["plan=a=b"]), r#"{"items":[{"n":1}],"plan":"a=b"}"#);
        assert_eq!(with(&["plan="]), r#"{"items":[{"n":1}],"plan":""}"#);
    }

    #[test]
    fn a_key_that_is_declared_as_a_string_takes_the_text() {
        let rest = r#"{"items":[{"n":1}],"plan":"free","#;
        let set = |assignments: &[&str]| with(assignments).replace(rest, "{");
        assert_eq!(set(&["text=3", "deep.text=true"]), r#"{"text":"3","deep":{"text":"true"}}"#);
        assert_eq!(set(&["text={\"a\": 1}"]), r#"{"text":"{\"a\": 1}"}"#);
        assert_eq!(set(&["maybe=null"]), r#"{"maybe":null}"#);
        assert_eq!(set(&["maybe=3"]), r#"{"maybe":"3"}"#);
        assert_eq!(set(&["either=3"]), r#"{"either":3}"#);
        assert_eq!(set(&["list=[\"a\"]", "list.0=7"]), r#"{"list":["7"]}"#);
    }

    #[test]
    fn a_path_goes_through_objects_and_lists() {
        assert_eq!(
            with(&["user.name.first=Ada", "items.0.n=2"]),
            r#"{"items":[{"n":2}],"plan":"free","user":{"name":{"first":"Ada"}}}"#
        );
        assert_eq!(with(&["items.7.n=2"]), r#""--set items.7.n=2: the list has no item `7`""#);
        assert_eq!(
            with(&["plan.x=1"]),
            r#""--set plan.x=1: `x` can't be set in a value that is not an object""#
        );
        assert_eq!(with(&["plan"]), r#""--set plan: there is no `=`""#);
        assert_eq!(with(&["a..b=1"]), r#""--set a..b=1: a key is empty""#);
    }

    #[test]
    fn a_value_that_means_two_things_is_refused_with_its_place() {
        let failed = |text: &str| {
            let error = json_option("--input", text).map(|_| ()).unwrap_err().to_json()["error"].clone();
            format!("{} {}", error["at"], error["message"])
        };
        assert_eq!(
            failed(r#"{"a": {"plan": 1, "plan": 2}}"#),
            r#""--input:1:19" "--input: duplicate key `plan` in `a`""#
        );
        assert_eq!(
            failed(r#"{"id": 12345678901234567890123}"#),
            r#""--input:1:8" "--input: the number 12345678901234567890123 has too many digits to be kept exactly in `id`""#
        );
        assert_eq!(
            with(&["age=12345678901234567890123"]),
            r#""--set age: the number 12345678901234567890123 has too many digits to be kept exactly""#
        );
        assert!(with(&["text=12345678901234567890123"]).contains(r#""text":"12345678901234567890123""#));
    }

    #[test]
    fn a_forgotten_at_sign_is_guessed() {
        let failure = json_option("--input", "input.json").map(|_| ()).unwrap_err().to_json();
        assert_eq!(failure["error"]["hint"], "to read a file, write `--input @input.json`");
        assert_eq!(failure["error"]["at"], "--input:1:1");
    }
}
