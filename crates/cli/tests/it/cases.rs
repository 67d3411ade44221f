//! The case files of the repository, through the built program.

use serde_json::{Value, json};

use crate::Folder;

fn cases(file: &str) -> Vec<Value> {
    let path = format!("{}/../../cases/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|err| panic!("{path}: {err}"));
    let document: Value = serde_json::from_str(&text).expect("a case file is JSON");
    document["cases"].as_array().expect("a case file has a list `cases`").clone()
}

/// Compares what was printed with what a case expects, and returns what does not fit.
fn mismatch(
    expect: &Value,
    code: Option<i32>,
    printed: &Value,
    actual: impl Fn(&str) -> Value,
) -> Option<String> {
    if let Some(error) = expect.get("error") {
        let document = printed.to_string();
        let mentions = error["mentions"].as_array().into_iter().flatten().filter_map(Value::as_str);
        // Inside a JSON text quotes are escaped, and so they are in the words.
        let escaped = |it: &str| json!(it).to_string().trim_matches('"').to_owned();
        let silent = mentions.map(escaped).find(|it| !document.contains(it.as_str()));
        let fits = printed["error"]["code"] == error["code"] && code == Some(2) && silent.is_none();
        return (!fits).then(|| format!("expected {error}, exit 2; found {document}, exit {code:?}"));
    }
    if code != Some(0) {
        return Some(format!("exit {code:?}: {printed}"));
    }
    let fields = expect.as_object().expect("an expectation is an object");
    let wrong = fields.iter().find(|(field, expected)| match field.as_str() {
        "settings" => !is_subset(expected, &actual(field)),
        _ => actual(field) != **expected,
    });
    wrong.map(|(field, expected)| format!("{field}: expected {expected}, found {}", actual(field)))
}

fn is_subset(some: &Value, all: &Value) -> bool {
    some.as_object().is_some_and(|it| it.iter().all(|(key, value)| all[key] == *value))
}

fn pluck(list: &Value, key: &str) -> Value {
    list.as_array().into_iter().flatten().map(|it| it[key].clone()).collect()
}

#[test]
fn every_resolve_case_holds() {
    let mut failures = Vec::new();
    for case in cases("resolve.json") {
        let files = case["files"].as_object().expect("a case has files");
        let folder =
            Folder::new(files.iter().filter_map(|(path, text)| Some((path.as_str(), text.as_str()?))));
        let input = case["input"].to_string();
        let mut args = vec![
            "resolve",
            case["prompt"].as_str().expect("a case has a prompt"),
            "--input",
            &input,
            "--json",
        ];
        args.extend(case["args"].as_array().into_iter().flatten().filter_map(Value::as_str));
        let run = folder.run(&args);
        let printed = run.json();
        let actual = |field: &str| match field {
            "system" => printed["request"]["messages"][0]["content"].clone(),
            "messages" => printed["request"]["messages"].clone(),
            "tools" => pluck(&printed["request"]["tools"], "name"),
            "settings" => printed["request"]["settings"].clone(),
            "excluded" => printed["explanation"]["excluded"].clone(),
            "dropped" => pluck(&printed["explanation"]["dropped"], "source"),
            other => panic!("a case expects `{other}`, which nobody knows"),
        };
        failures.extend(
            mismatch(&case["expect"], run.code, &printed, actual).map(|it| format!("{}: {it}", case["name"])),
        );
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_tags_case_holds() {
    let folder = Folder::new([]);
    let mut failures = Vec::new();
    for case in cases("tags.json") {
        let run = folder.run_with(&["render", "-", "--json"], &case["entries"].to_string(), &[]);
        let printed = run.json();
        let wrong = mismatch(&case["expect"], run.code, &printed, |field| printed[field].clone());
        failures.extend(wrong.map(|it| format!("{}: {it}", case["name"])));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Counts the tool calls and results of neutral messages that have no partner directly after.
fn n_unpaired(messages: &[Value]) -> usize {
    let ids = |message: &Value, kind: &str, key: &str| -> Vec<Value> {
        let parts = message["content"].as_array().into_iter().flatten();
        parts.filter(|it| it["type"] == kind).map(|it| it[key].clone()).collect()
    };
    let mut open: Vec<Value> = Vec::new();
    let mut n_unpaired = 0;
    for message in messages {
        for id in ids(message, "tool_result", "call_id") {
            match open.iter().position(|it| *it == id) {
                Some(at) => drop(open.remove(at)),
                None => n_unpaired += 1,
            }
        }
        if message["role"] != "tool" {
            n_unpaired += open.len();
            open = ids(message, "tool_call", "id");
        }
    }
    n_unpaired + open.len()
}

#[test]
fn every_window_case_holds() {
    let folder = Folder::new([]);
    let mut failures = Vec::new();
    for case in cases("window.json") {
        let lines: Vec<String> =
            case["transcript"].as_array().into_iter().flatten().map(Value::to_string).collect();
        let mut args = vec!["window", "-", "--json"];
        args.extend(case["args"].as_array().into_iter().flatten().filter_map(Value::as_str));
        let run = folder.run_with(&args, &lines.join("\n"), &[]);
        let printed = run.json();
        let messages = printed["messages"].as_array().cloned().unwrap_or_default();
        let actual = |field: &str| match field {
            "turns" => printed["turns"].clone(),
            "n_messages" => json!(messages.len()),
            "roles" => pluck(&printed["messages"], "role"),
            "n_repairs" => json!(printed["repairs"].as_array().map(Vec::len)),
            other => panic!("a case expects `{other}`, which nobody knows"),
        };
        let wrong = mismatch(&case["expect"], run.code, &printed, actual);
        let unpaired = Some(n_unpaired(&messages)).filter(|it| *it > 0).map(|it| format!("{it} unpaired"));
        failures.extend(wrong.or(unpaired).map(|it| format!("{}: {it}", case["name"])));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
