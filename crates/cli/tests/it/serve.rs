//! `serve`, `keys` and `audit`: the program as a server, keys in its store, signals.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, PoisonError};

use contexture_wire::Dialect;
use serde_json::{Value, json};

use crate::served::{Served, says};
use crate::{Folder, initialised};

/// The program, serving. It is killed when it is dropped.
struct Serving {
    child: Child,
    address: String,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Serving {
    fn start(folder: &Folder, more: &[&str]) -> Self {
        Self::start_with(folder, more, &[])
    }

    fn start_with(folder: &Folder, more: &[&str], variables: &[(&str, &str)]) -> Self {
        let args = [&["serve", "--listen", "127.0.0.1:0", "--json"], more].concat();
        let mut command = folder.command(&args);
        let mut child = command.envs(variables.iter().copied()).spawn().expect("the program starts");
        let mut line = String::new();
        let out = child.stdout.take().expect("it is piped");
        BufReader::new(out).read_line(&mut line).expect("it says where it listens");
        let said: Value = serde_json::from_str(&line).expect("it is one line of JSON");
        let address = said["listening"].as_str().expect("it is a URL").replace("http://", "");
        Self { child, address }
    }

    /// Sends a request and returns the status and the body.
    fn ask(&self, method: &str, path: &str, key: Option<&str>, body: &Value) -> (u16, Value) {
        answer(self.send(method, path, key, body))
    }

    fn send(&self, method: &str, path: &str, key: Option<&str>, body: &Value) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        let body = body.to_string();
        let key = key.map(|it| format!("authorization: Bearer {it}\r\n")).unwrap_or_default();
        let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{key}");
        let head = format!("{head}content-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(format!("{head}{body}").as_bytes()).expect("it reads");
        stream
    }

    #[cfg(unix)]
    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let status = Command::new("kill").args([name, &id]).status().expect("there is a `kill`");
        assert!(status.success());
    }

    /// Waits for its end and returns the exit code and what it printed on standard error.
    fn end(mut self) -> (Option<i32>, String) {
        let mut text = String::new();
        let status = self.child.wait().expect("it ends");
        let err = self.child.stderr.take();
        err.map(|mut it| it.read_to_string(&mut text)).transpose().expect("it is text");
        (status.code(), text)
    }
}

fn answer(mut stream: TcpStream) -> (u16, Value) {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it answers");
    let status = text.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or_default();
    let body = text.split_once("\r\n\r\n").map(|it| it.1).unwrap_or_default();
    (status, serde_json::from_str(body).unwrap_or_default())
}

#[test]
fn keys_are_made_listed_and_revoked() {
    let folder = initialised();
    let made = folder.run(&["keys", "create", "--tenant", "acme", "--label", "the app", "--json"]).json();
    let (id, token) = (made["id"].as_str().unwrap_or_default(), made["token"].as_str().unwrap_or_default());
    assert!(token.starts_with(&format!("ctx_{id}_")) && token.len() > 70, "{token}");
    let shown = folder.run(&["keys", "create", "--admin"]);
    assert!(shown.stdout.starts_with("ctx_") && shown.stderr.contains("the only time"), "{}", shown.shown());
    let listed = folder.run(&["keys", "list"]);
    assert!(listed.stdout.contains(id) && listed.stdout.contains("the app"), "{}", listed.shown());
    let secret = token.rsplit('_').next().unwrap_or_default();
    assert!(!listed.stdout.contains(secret));
    assert_eq!(folder.run(&["keys", "revoke", "nobody"]).code, Some(2));
    assert_eq!(folder.run(&["keys", "revoke", id, "--json"]).json(), json!({"revoked": [id]}));
    let listed = folder.run(&["keys", "list", "--json"]).json();
    assert_eq!(listed[0]["state"], "revoked");
    let acts = folder.run(&["audit", "--json"]).json();
    let acts: Vec<String> = acts
        .as_array()
        .into_iter()
        .flatten()
        .map(|it| format!("{} {}", it["actor"].as_str().unwrap_or("?"), it["act"].as_str().unwrap_or("?")))
        .collect();
    assert_eq!(acts, ["cli key.revoked", "cli key.created", "cli key.created"]);
    // Nothing of a secret is in the store, in any form that can be used.
    let store = std::fs::read(folder.path().join(".contexture/contexture.db")).expect("there is a store");
    assert!(!store.windows(secret.len()).any(|it| it == secret.as_bytes()));
}

#[test]
fn a_served_project_asks_for_the_keys_of_its_store() {
    let folder = initialised();
    let serving = Serving::start(&folder, &[]);
    assert_eq!(serving.ask("GET", "/v1/prompts", None, &json!({})).0, 200);
    drop(serving);
    let made = folder.run(&["keys", "create", "--json"]).json();
    let serving = Serving::start(&folder, &["--log-format", "json"]);
    let token = made["token"].as_str().unwrap_or_default();
    assert_eq!(serving.ask("GET", "/v1/prompts", None, &json!({})).0, 401);
    assert_eq!(serving.ask("GET", "/v1/prompts?tag=hidden", Some(token), &json!({})).0, 200);
    #[cfg(unix)]
    {
        serving.signal("-INT");
        let (code, err) = serving.end();
        assert_eq!(code, Some(0), "{err}");
        let line = err.lines().find(|it| it.contains("\"status\":200")).expect("the request is logged");
        let line: Value = serde_json::from_str(line).expect("it is JSON");
        assert_eq!((line["path"].as_str(), line["key"].as_str()), (Some("/v1/prompts"), made["id"].as_str()));
        let secret = token.rsplit('_').next().unwrap_or_default();
        assert!(!err.contains(secret) && !err.contains("hidden"), "{err}");
    }
}

#[test]
fn what_can_t_be_served_is_told_before_anybody_comes() {
    let folder = initialised();
    let open = folder.run(&["serve", "--listen", "0.0.0.0:0", "--store", "memory:"]);
    assert!(open.code == Some(2) && open.stderr.contains("contexture keys create"), "{}", open.shown());
    let half = folder.run(&["serve", "--tls-key", "k.pem", "--store", "memory:", "--json"]);
    assert_eq!((half.code, half.json()["error"]["code"].as_str()), (Some(2), Some("server_config_invalid")));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    let address = taken.local_addr().expect("it is bound").to_string();
    let taken = folder.run(&["serve", "--listen", &address, "--store", "memory:"]);
    assert!(taken.code == Some(3) && taken.stderr.contains("listen_failed"), "{}", taken.shown());
    let wrong = folder.run_with(&["serve"], "", &[("CONTEXTURE_SERVER_MAX_BODY_BYTES", "many")]);
    assert_eq!(wrong.code, Some(2), "{}", wrong.shown());
}

#[cfg(unix)]
#[test]
fn a_turn_that_runs_may_end_when_the_server_is_told_to_stop() {
    use std::time::Duration;
    let slow = says(Dialect::Openai, "A slow answer.").after(Duration::from_millis(1500));
    let served = Served::new(Dialect::Openai, [slow]);
    let serving = Serving::start(&served.folder, &[]);
    assert_eq!(serving.ask("POST", "/v1/sessions", None, &json!({"id": "demo"})).0, 201);
    let turn =
        serving.send("POST", "/v1/sessions/demo/turns", None, &json!({"prompt": "p", "user": "Well?"}));
    while served.asked().is_empty() {
        std::thread::sleep(Duration::from_millis(20));
    }
    serving.signal("-TERM");
    let (status, document) = answer(turn);
    assert_eq!((status, document["text"].as_str()), (200, Some("A slow answer.")), "{document}");
    let (code, err) = serving.end();
    assert_eq!(code, Some(0), "{err}");
    let shown = served.run(&["sessions", "show", "demo", "--json"]);
    assert!(shown.stdout.contains("A slow answer."), "{}", shown.shown());
}

/// A schema of 30 definitions, each of which leads to the next twice.
#[cfg(unix)]
fn doubling() -> Value {
    let mut all: serde_json::Map<String, Value> = (0..30)
        .map(|it| {
            let next = json!({"$ref": format!("#/$defs/d{}", it + 1)});
            (format!("d{it}"), json!({"anyOf": [next, next]}))
        })
        .collect();
    all.insert("d30".to_owned(), json!({"type": "integer"}));
    json!({"$ref": "#/$defs/d0", "$defs": all})
}

#[cfg(unix)]
#[test]
fn a_server_under_attack_ends_within_its_grace() {
    use std::time::{Duration, Instant};
    // The last turn waits for its model when the signal comes.
    let stuck = says(Dialect::Openai, "Too late.").after(Duration::from_secs(300));
    let served = Served::new(Dialect::Openai, [says(Dialect::Openai, "\"x\""), stuck]);
    let serving = Serving::start(&served.folder, &["--shutdown-grace-seconds", "1"]);
    let ask = |schema: Value| {
        let format = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}});
        let messages = json!([{"role": "user", "content": "go"}]);
        json!({"model": "p", "messages": messages, "response_format": format})
    };
    for _ in 0..2 {
        let (status, error) = serving.ask("POST", "/v1/chat/completions", None, &ask(doubling()));
        assert_eq!((status, error["error"]["param"].as_str()), (400, Some("response_format")), "{error}");
    }
    let (status, _) = serving.ask("POST", "/v1/chat/completions", None, &ask(json!({"type": "string"})));
    assert_eq!(status, 200);
    let _turn = serving.send("POST", "/v1/chat/completions", None, &ask(json!({"type": "string"})));
    while served.asked().len() < 2 {
        std::thread::sleep(Duration::from_millis(20));
    }
    let start = Instant::now();
    serving.signal("-TERM");
    let (code, err) = serving.end();
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}: {code:?} {err}", start.elapsed());
}

/// A collector that takes whatever is sent: returns its address, and what it got until then.
fn collector() -> (String, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    let got = Arc::new(Mutex::new(Vec::new()));
    let all = Arc::clone(&got);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream);
            let (mut line, mut length) = (String::new(), 0);
            while reader.read_line(&mut line).is_ok_and(|it| it > 2) {
                let lower = line.to_lowercase();
                let of_body = lower.strip_prefix("content-length: ").and_then(|it| it.trim().parse().ok());
                length = of_body.unwrap_or(length);
                line.clear();
            }
            let mut body = vec![0; length];
            if reader.read_exact(&mut body).is_ok() {
                all.lock().unwrap_or_else(PoisonError::into_inner).extend(body);
            }
            let answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
            let _ = reader.get_mut().write_all(answer);
        }
    });
    (url, got)
}

#[cfg(unix)]
#[test]
fn a_turn_is_in_the_trace_of_the_client_that_asked_for_it() {
    let served = Served::new(Dialect::Openai, [says(Dialect::Openai, "Yes.")]);
    let (url, got) = collector();
    let serving = Serving::start_with(&served.folder, &[], &[("CONTEXTURE_TELEMETRY_OTLP_ENDPOINT", &url)]);
    assert_eq!(serving.ask("POST", "/v1/sessions", None, &json!({"id": "demo"})).0, 201);
    let trace =
        [0x0a, 0xf7, 0x65, 0x19, 0x16, 0xcd, 0x43, 0xdd, 0x84, 0x48, 0xeb, 0x21, 0x1c, 0x80, 0x31, 0x9c];
    let hex: String = trace.iter().map(|it: &u8| format!("{it:02x}")).collect();
    let path = "/v1/sessions/demo/turns HTTP/1.1\r\ntraceparent: 00-TRACE-b7ad6b7169203331-01\r\nx-rest:";
    let (status, _) =
        serving.ask("POST", &path.replace("TRACE", &hex), None, &json!({"prompt": "p", "user": "Is it?"}));
    assert_eq!(status, 200);
    serving.signal("-TERM");
    assert_eq!(serving.end().0, Some(0));
    let got = got.lock().unwrap_or_else(PoisonError::into_inner);
    let n_spans = got.windows(16).filter(|it| *it == trace).count();
    // The request, the run of the agent and the model call.
    assert!(n_spans >= 3, "{n_spans} spans: {}", String::from_utf8_lossy(&got));
    for name in ["POST /v1/sessions/{id}/turns", "invoke_agent p", "chat m-1"] {
        assert!(got.windows(name.len()).any(|it| it == name.as_bytes()), "{name}");
    }
}

#[cfg(unix)]
#[test]
fn the_folder_of_a_new_store_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = initialised();
    let mode = |name: &str| {
        let found = std::fs::metadata(folder.path().join(name)).expect("it is there");
        found.permissions().mode() & 0o777
    };
    let _ = std::fs::remove_dir_all(folder.path().join(".contexture"));
    assert_eq!(folder.run(&["keys", "create"]).code, Some(0));
    assert_eq!((mode(".contexture"), mode(".contexture/contexture.db")), (0o700, 0o600));
    std::fs::create_dir(folder.path().join("mine")).expect("it is new");
    let before = mode("mine");
    assert_eq!(folder.run(&["keys", "create", "--store", "sqlite:mine/x.db"]).code, Some(0));
    assert_eq!((mode("mine"), mode("mine/x.db")), (before, 0o600));
}

#[test]
fn what_can_not_work_is_said_when_the_server_starts() {
    let folder = Folder::new([
        ("contexture.toml", "[model]\ndefault = \"openai/gpt-5-mini\"\n"),
        ("prompts/good.md", "Be kind."),
        ("prompts/bad.md", "---\nuse: [nobody]\n---\nHi."),
    ]);
    let serving = Serving::start(&folder, &["--store", "memory:"]);
    let (status, body) = serving.ask("POST", "/v1/prompts/bad/run", None, &json!({"user": "hi"}));
    assert_eq!(
        (status, &body["code"], &body["at"]),
        (422, &json!("prompt_invalid"), &json!("prompts/bad.md:2:7"))
    );
    // Without a key nothing is sent, so nothing is tried again.
    let (status, body) = serving.ask("POST", "/v1/prompts/good/run", None, &json!({"user": "hi"}));
    assert_eq!((status, &body["code"]), (422, &json!("model_auth")), "{body}");
    serving.signal("-TERM");
    let (_, said) = serving.end();
    assert!(said.contains("warning: prompts/bad.md:2:7: error[unknown_entry]"), "{said}");
    assert!(said.contains("model `openai/gpt-5-mini`: there is no key for provider `openai`"), "{said}");
    assert!(said.contains("`OPENAI_API_KEY`"), "{said}");
    assert!(!said.contains("last good version"), "{said}");
}

#[test]
fn a_folder_without_a_project_is_not_served() {
    for args in
        [&["serve", "--listen", "127.0.0.1:0"] as &[&str], &["serve", "sub", "--listen", "127.0.0.1:0"]]
    {
        let folder = Folder::new([("sub/notes.txt", "x")]);
        let run = folder.run(args);
        assert_eq!(run.code, Some(2), "{}", run.shown());
        assert!(run.stderr.contains("there is no project"), "{}", run.shown());
    }
}
