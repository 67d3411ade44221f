//! The shared behaviour cases: each is a project folder, a prompt and what must come out.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use contexture_compose::Pass;
use contexture_message::Tokens;
use contexture_project::{InMemory, Project, ProjectError};
use serde::Deserialize;
use serde_json::{Value, json};

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../cases/resolve.json");

#[derive(Deserialize)]
struct Cases {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    files: BTreeMap<String, String>,
    prompt: String,
    input: Value,
    args: Vec<String>,
    expect: BTreeMap<String, Value>,
}

#[test]
fn every_case_of_the_shared_file_holds() {
    let cases: Cases = serde_json::from_str(&std::fs::read_to_string(CASES).unwrap()).unwrap();
    assert!(cases.cases.len() >= 25, "cases are missing");
    let mut report = String::new();
    for case in &cases.cases {
        for failure in check(case) {
            writeln!(report, "{}: {failure}", case.name).unwrap();
        }
    }
    assert!(report.is_empty(), "\n{report}");
}

fn resolve(case: &Case) -> Result<Pass, ProjectError> {
    let project = Project::from_files(Arc::new(InMemory(case.files.clone())))?;
    let prompt = project.prompt(&case.prompt)?;
    let argument = |name: &str| {
        let at = case.args.iter().position(|it| it == name)?;
        case.args.get(at + 1).map(String::as_str)
    };
    let mut options = project.options(prompt, argument("--provider"), argument("--model"));
    options.input = case.input.clone();
    options.overrides.budget.token_budget = argument("--budget").map(|it| Tokens(it.parse().unwrap()));
    futures::executor::block_on(prompt.resolve(options)).map_err(|err| ProjectError::from(&err))
}

fn check(case: &Case) -> Vec<String> {
    let resolved = resolve(case);
    let expected_error = case.expect.get("error");
    match (resolved, expected_error) {
        (Ok(pass), None) => {
            let compared = case.expect.iter().map(|(what, expected)| compare(&pass, what, expected));
            compared.filter_map(Result::err).collect()
        }
        (Err(error), Some(expected)) => compare_error(&error, expected),
        (Ok(_), Some(expected)) => vec![format!("resolved, expected {expected}")],
        (Err(error), None) => vec![format!("failed: {error}")],
    }
}

fn compare(pass: &Pass, what: &str, expected: &Value) -> Result<(), String> {
    let request = serde_json::to_value(pass.request()).unwrap();
    let explanation = pass.explain();
    let found = match what {
        "system" => request["messages"][0]["content"].clone(),
        "messages" => request["messages"].clone(),
        "tools" => request["tools"].as_array().unwrap().iter().map(|it| it["name"].clone()).collect(),
        "excluded" => serde_json::to_value(&explanation.excluded).unwrap(),
        "dropped" => json!(explanation.dropped.iter().map(|it| &it.source).collect::<Vec<_>>()),
        "settings" => {
            let settings = request["settings"].as_object().unwrap();
            let asked = expected.as_object().unwrap().keys();
            Value::Object(
                asked.map(|it| (it.clone(), settings.get(it).cloned().unwrap_or_default())).collect(),
            )
        }
        other => panic!("no such expectation: {other}"),
    };
    if &found == expected { Ok(()) } else { Err(format!("{what} is {found}, expected {expected}")) }
}

fn compare_error(error: &ProjectError, expected: &Value) -> Vec<String> {
    let mut failures = Vec::new();
    let fault = &error.faults[0];
    if fault.code != expected["code"].as_str().unwrap_or_default() {
        failures.push(format!("code {} instead of {}: {error}", fault.code, expected["code"]));
    }
    let text = format!("{error} {}", fault.sources.join(" "));
    for word in expected["mentions"].as_array().unwrap() {
        if !text.contains(word.as_str().unwrap()) {
            failures.push(format!("does not mention {word}: {text}"));
        }
    }
    failures
}
