//! The server before judges that are not ours: Schemathesis for the OpenAPI document, `EventSource` and curl for events.
//!
//! Schemathesis runs if `CONTEXTURE_TEST_PYTHON` names a Python that has it, as `cargo xtask test` sets it.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use contexture_wire::Dialect;
use serde_json::Value;

use crate::Folder;
use crate::served::calls;
use crate::serving::Serving;

/// How often Schemathesis tries each route in each way; more of it finds little more.
const EXAMPLES: &str = "5";

fn script(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/judge").join(name)
}

/// What a judge needs, or nothing after it has been said that it is missing.
#[allow(clippy::print_stdout, reason = "whoever reads the tests' output should know what was not tested")]
fn variable(name: &str) -> Option<std::ffi::OsString> {
    let value = std::env::var_os(name).filter(|it| !it.is_empty());
    if value.is_none() {
        println!("skipped: `{name}` is not set; `cargo xtask test` sets it");
    }
    value
}

fn document() -> Value {
    Folder::new([]).run(&["serve", "--print-openapi"]).json()
}

#[test]
fn every_route_has_a_name() {
    let document = document();
    let paths = document["paths"].as_object().expect("there are routes");
    let operations = paths.iter().flat_map(|(path, item)| {
        let methods = item.as_object().into_iter().flatten();
        methods.map(move |(method, it)| {
            let name = it["operationId"].as_str().unwrap_or("?");
            format!("{} {path}: {name} ({})", method.to_uppercase(), it["tags"][0].as_str().unwrap_or("?"))
        })
    });
    insta::assert_snapshot!("openapi-routes", operations.collect::<Vec<_>>().join("\n"));
}

#[test]
fn the_server_does_what_its_document_says() {
    let Some(python) = variable("CONTEXTURE_TEST_PYTHON") else { return };
    let serving = Serving::start([calls(Dialect::Openai, 7)]);
    let mut command = Command::new(python);
    serving.judged_by(command.arg(script("openapi.py")).args([&serving.url, EXAMPLES]));
}

#[test]
fn event_source_loses_nothing_on_a_connection_that_breaks() {
    let Some(folder) = variable("CONTEXTURE_TEST_NODE") else { return };
    let serving = Serving::start([]);
    let mut command = Command::new("node");
    serving.judged_by(command.arg(script("events.mjs")).arg(folder).arg(&serving.url));
}

/// Runs curl until it has said so many bytes, or comes to its end.
fn curl(args: &[&str], url: &str, most: usize) -> String {
    let mut command = Command::new("curl");
    command.args(["-sN", "--max-time", "120"]).args(args).arg(url).stdout(Stdio::piped());
    let mut child = command.spawn().expect("there is a curl");
    let mut text = Vec::new();
    let out = child.stdout.take().expect("it is piped");
    out.take(most as u64).read_to_end(&mut text).expect("it can be read");
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
    String::from_utf8(text).expect("it is a text")
}

#[test]
fn curl_follows_a_session_and_goes_on_behind_an_event() {
    let serving = Serving::with_config([], "[server]\nheartbeat_seconds = 1");
    let url = |path: &str| format!("{}{path}", serving.url);
    curl(&["--json", r#"{"id": "demo"}"#], &url("/v1/sessions"), usize::MAX);
    let turn = ["--json", r#"{"user": "Hello"}"#, "-H", "accept: text/event-stream"];
    let alive = ": alive\n\n";
    // On a busy machine there is time for a heartbeat in the middle of the turn.
    let told = curl(&turn, &url("/v1/sessions/demo/turns"), usize::MAX).replace(alive, "");
    assert!(told.starts_with("id: 1\nevent: turn.start\ndata: {"), "{told}");
    assert!(told.trim_end().lines().last().is_some_and(|it| it.contains("turn.end")), "{told}");
    // The stream of the session says the same, with the ids of items that are in the log, and then that it is alive.
    let without_ids =
        |it: &str| it.lines().filter(|it| !it.starts_with("id: ")).collect::<Vec<_>>().join("\n");
    let seconds = ["--max-time", "3"];
    let followed = curl(&seconds, &url("/v1/sessions/demo/events"), usize::MAX);
    assert!(followed.ends_with(alive), "{followed}");
    assert_eq!(without_ids(followed.replace(alive, "").trim_end()), without_ids(told.trim_end()));
    let (_, rest) = told.split_once("\n\n").expect("there is more than one event");
    let behind = [seconds[0], seconds[1], "-H", "last-event-id: 1"];
    let behind = curl(&behind, &url("/v1/sessions/demo/events"), usize::MAX).replace(alive, "");
    assert_eq!(without_ids(behind.trim_end()), without_ids(rest.trim_end()));
}
