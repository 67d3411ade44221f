//! OpenAI's own clients, unmodified, against the server: see `sdk/chat.py` and `sdk/chat.mjs`.
//!
//! The Python one runs if `CONTEXTURE_TEST_PYTHON` names a Python with the package `openai`, the Node one if
//! `CONTEXTURE_TEST_NODE` names a folder in which it is installed. `cargo xtask test` sets both.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use contexture::{SystemNames, SystemTime, session_ports};
use contexture_message::{Answer, Delta, Part, ToolCall, Usage};
use contexture_mockmodel::{MockModel, Reply};
use contexture_model::{Client, ClientConfig, ModelProvider, Retries};
use contexture_project::{InMemory, Project};
use contexture_server::{Keys, NewKey, Parts, Server};
use contexture_session::{MemoryStore, SessionConfig, SessionId, Sessions, Thread, Time};
use contexture_wire::Dialect;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::task::JoinSet;

const FILES: [(&str, &str); 2] = [
    ("contexture.toml", "[model]\ndefault = \"mock/mock-1\"\n"),
    ("prompts/chat.md", "---\nmodel: mock/mock-1\n---\nYou are helpful.\n"),
];

/// A server with a model over HTTP behind it.
struct Stage {
    url: String,
    key: String,
    model: MockModel,
    sessions: Sessions,
    _tasks: JoinSet<()>,
}

impl Stage {
    async fn new(script: Vec<Reply>) -> Self {
        let model = MockModel::start(script).await;
        let provider = ModelProvider::new(Dialect::Openai).at(format!("{}/v1", model.url()));
        let retries = Retries { max: 0, ..Retries::default() };
        let providers = [("mock".to_owned(), provider)].into();
        let client = Client::new(ClientConfig { providers, retries, ..ClientConfig::default() }).unwrap();
        let store = Arc::new(MemoryStore::new(Arc::new(SystemTime)));
        let keys = Keys::new(store.clone(), store.clone());
        let (_, key) = keys
            .create(NewKey::default(), &contexture::SystemSecrets, "test", SystemTime.now())
            .await
            .unwrap();
        let sessions = Sessions::new(store.clone(), session_ports(None), SessionConfig::default());
        let server = Server::new(Parts {
            project: Project::from_files(Arc::new(InMemory::new(FILES))).unwrap(),
            agent: Arc::new(move |_| Ok(contexture::agent(client.clone()))),
            sessions: sessions.clone(),
            documents: store.clone(),
            sources: store,
            time: Arc::new(SystemTime),
            names: Arc::new(SystemNames),
        });
        let server = Arc::new(server.unwrap());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = server.router();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
        tasks.spawn(async move { server.background().await });
        Self { url, key: key.reveal().to_owned(), model, sessions, _tasks: tasks }
    }

    /// Runs a scenario of both clients, each on a stage of its own, and hands the stages over.
    async fn each(scenario: &str, script: impl Fn() -> Vec<Reply>) -> Vec<Stage> {
        let mut stages = Vec::new();
        for program in [python(), node()].into_iter().flatten() {
            let stage = Stage::new(script()).await;
            stage.run(program, scenario).await;
            stages.push(stage);
        }
        stages
    }

    async fn run(&self, (program, args): (OsString, Vec<OsString>), scenario: &str) {
        let mut command = Command::new(program);
        command.args(args).args([&self.url, &self.key, scenario]).kill_on_drop(true);
        let output = tokio::time::timeout(Duration::from_secs(300), command.output()).await;
        let output = output.expect("the client comes to an end").unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{scenario}: {errors}");
    }

    async fn main(&self, session: &str) -> Thread {
        let session = self.sessions.open(&SessionId::parse(session).unwrap()).await.unwrap();
        session.main().refresh().await.unwrap();
        session.main().clone()
    }

    /// Returns what a thread says, a line for each message.
    async fn said(&self, thread: &Thread) -> String {
        let turns = thread.history(None).await.unwrap();
        let messages = turns.iter().flat_map(|it| it.messages());
        let line = |it: &contexture_message::Message| {
            let parts = it.content.iter().map(|it| match it {
                Part::Text { text, .. } => text.clone(),
                Part::ToolCall(call) => format!("{}()", call.name),
                Part::ToolResult(result) => json!(result.output)["value"].to_string(),
                _ => "…".to_owned(),
            });
            format!("{}: {}", it.role.as_str(), parts.collect::<Vec<_>>().join(" "))
        };
        messages.map(|it| line(it)).collect::<Vec<_>>().join("\n")
    }
}

fn script(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/sdk").join(name)
}

fn python() -> Option<(OsString, Vec<OsString>)> {
    let python = given("CONTEXTURE_TEST_PYTHON")?;
    Some((python, vec![script("chat.py").into()]))
}

fn node() -> Option<(OsString, Vec<OsString>)> {
    let folder = given("CONTEXTURE_TEST_NODE")?;
    Some(("node".into(), vec![script("chat.mjs").into(), folder]))
}

#[allow(clippy::print_stdout, reason = "the person who runs the test should see that nothing was checked")]
pub(crate) fn given(variable: &str) -> Option<OsString> {
    let value = std::env::var_os(variable);
    if value.is_none() {
        println!("skipped: `{variable}` is not set");
    }
    value
}

fn says(text: &str) -> Reply {
    let usage = Usage { input_tokens: 10, output_tokens: 2, cache_read_tokens: Some(4), ..Usage::default() };
    Reply::answer(Dialect::Openai, &Answer { usage, ..Answer::text(text) })
}

fn calls(ids: &[&str], city: &str) -> Reply {
    let call = |id: &&str| {
        let (id, name) = ((*id).to_owned(), "weather".to_owned());
        Part::ToolCall(ToolCall { id, name, arguments: json!({"city": city}) })
    };
    Reply::answer(Dialect::Openai, &Answer::parts(ids.iter().map(call).collect()))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clients_chat() {
    for stage in Stage::each("chat", || vec![says("Hello.")]).await {
        let asked = &stage.model.received()[0].body;
        assert_eq!(asked["messages"][0]["content"], "You are helpful.");
        assert_eq!(stage.sessions.list(None, 9).await.unwrap().len(), 0, "nothing is kept without a session");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clients_stream() {
    for stage in Stage::each("stream", || vec![says("Hello there."), says("More.")]).await {
        let said = stage.said(&stage.main("s").await).await;
        assert_eq!(said, "user: hi\nassistant: Hello there.\nuser: more\nassistant: More.");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clients_run_tools() {
    let script = || vec![calls(&["a", "b"], "Rome"), says("It rains in Rome."), calls(&["c"], "Oslo")];
    for stage in Stage::each("tools", script).await {
        let said = stage.said(&stage.main("s").await).await;
        insta::allow_duplicates! {
            insta::assert_snapshot!(said, @r#"
            user: How is the weather in Rome?
            assistant: weather() weather()
            tool: "It rains." "It rains."
            assistant: It rains in Rome.
            user: And in Oslo?
            assistant: weather()
            "#);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_that_is_sent_again_is_stored_once() {
    let script = || (0..5).map(|n| says(&format!("answer {n}"))).collect();
    for stage in Stage::each("history", script).await {
        let main = stage.main("ann").await;
        let said = stage.said(&main).await;
        insta::allow_duplicates! {
            insta::assert_snapshot!(said, @r"
            user: question 0
            assistant: answer 0
            user: question 1
            assistant: answer 1
            user: question 2
            assistant: answer 2
            ");
        }
        let session = stage.sessions.open(&SessionId::parse("ann").unwrap()).await.unwrap();
        let mut branches = Vec::new();
        for info in session.threads().await.unwrap().iter().filter(|it| it.thread != *main.id()) {
            branches.push(stage.said(&session.thread(&info.thread).await.unwrap()).await);
        }
        branches.sort();
        insta::allow_duplicates! {
            insta::assert_snapshot!(branches.join("\n--\n"), @r"
            user: question 0
            assistant: answer 0
            user: another question
            assistant: answer 4
            --
            user: question 0
            assistant: answer 0
            user: question 1
            assistant: answer 1
            user: question 2
            assistant: answer 3
            ");
        }
        // The client's system message stands behind the prompt's own words.
        let asked = stage.model.received().last().unwrap().body.clone();
        let system = asked["messages"][0]["content"].to_string();
        let (own, theirs) = (system.find("You are helpful."), system.find("Be brief."));
        assert!(own.is_some() && own < theirs, "{system}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clients_know_the_errors() {
    let error = |status: u16, code: &str| {
        Reply::json(status, &json!({"error": {"message": "no", "type": "x", "code": code}}))
    };
    let twice = |reply: Reply| [reply.clone(), reply];
    let script = || {
        let pieces = [Delta::Text("Half an ".to_owned()), Delta::Text("answer".to_owned())];
        let half = Reply::deltas(Dialect::Openai, &pieces);
        let bytes = half.body().len();
        let mut script = Vec::new();
        script.extend(twice(error(429, "rate_limit_exceeded").header("retry-after", "7")));
        script.extend(twice(error(400, "context_length_exceeded")));
        script.extend(twice(error(503, "overloaded")));
        script.push(half.then_cut(bytes));
        script
    };
    Stage::each("errors", script).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_aborts_stops_the_turn() {
    let script = || {
        let pieces = [Delta::Text("Once upon a time".to_owned()), Delta::Text("there was".to_owned())];
        let reply = Reply::deltas(Dialect::Openai, &pieces);
        let silent = reply.place_after("Once upon a time");
        let end = silent + reply.body()[silent..].windows(2).position(|it| it == b"\n\n").unwrap() + 2;
        vec![reply.then_silence(end)]
    };
    for stage in Stage::each("abort", script).await {
        // The model hears of it too.
        tokio::time::timeout(Duration::from_secs(60), stage.model.client_gone()).await.unwrap();
        let log = loop {
            let items = stage.main("s").await.all(None).await.unwrap();
            let log = items.iter().map(|it| it.document("s").to_string()).collect::<Vec<_>>().join("\n");
            if log.contains("interrupted") {
                break log;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        assert!(log.contains("Once upon a time"), "{log}");
    }
}

/// Sends a body as a client without an SDK would.
async fn ask(
    stage: &Stage,
    body: Value,
    headers: &[(&str, &str)],
) -> (u16, reqwest::header::HeaderMap, Value) {
    let client = contexture_model::http_client(Vec::new(), None).unwrap();
    let mut request =
        client.post(format!("{}/v1/chat/completions", stage.url)).json(&body).bearer_auth(&stage.key);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = request.send().await.unwrap();
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    let text = answer.text().await.unwrap();
    (status, headers, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

fn hi(more: Value) -> Value {
    let mut body = json!({"model": "chat", "messages": [{"role": "user", "content": "hi"}]});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[tokio::test(flavor = "multi_thread")]
async fn the_headers_say_where_the_turn_is() {
    let stage = Stage::new(vec![says("Hello.")]).await;
    let (_, headers, _) = ask(&stage, hi(json!({"metadata": {"contexture_session": "m"}})), &[]).await;
    let header = |name: &str| headers.get(name).and_then(|it| it.to_str().ok()).unwrap_or("-").to_owned();
    assert_eq!(
        ["x-contexture-session", "x-contexture-thread", "x-contexture-turn"].map(header),
        ["m", "m", "t1"].map(str::to_owned)
    );
    assert!(header("x-request-id").len() > 8, "the gate names the request");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_sent_again_gets_the_answer_it_had() {
    let stage = Stage::new(vec![says("Once."), says("Twice.")]).await;
    let session = ("x-contexture-session", "s");
    let text = |answer: (u16, _, Value)| answer.2["choices"][0]["message"]["content"].clone();
    assert_eq!(text(ask(&stage, hi(json!({})), &[session]).await), "Once.");
    let again = [session, ("x-stainless-retry-count", "1")];
    assert_eq!(text(ask(&stage, hi(json!({})), &again).await), "Once.");
    // Without saying so it is asked for once more.
    assert_eq!(text(ask(&stage, hi(json!({})), &[session]).await), "Twice.");
    assert_eq!(stage.model.received().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_is_followed_and_a_bad_name_refused() {
    let stage = Stage::new(vec![says("no"), says("{\"n\": 1}")]).await;
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let format = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}});
    let (status, _, answer) = ask(&stage, hi(json!({"response_format": format, "stream": true})), &[]).await;
    let text = answer.as_str().unwrap_or_default();
    // What was not good enough is never sent: it could not be taken back.
    assert!(status == 200 && !text.contains("\"no\"") && text.ends_with("data: [DONE]\n\n"), "{text}");
    let (status, _, answer) = ask(&stage, hi(json!({"user": "../x"})), &[]).await;
    assert_eq!((status, &answer["error"]["param"]), (400, &json!("user")));
    let (status, _, answer) = ask(&stage, hi(json!({})), &[("x-contexture-session", "../x")]).await;
    assert_eq!((status, &answer["error"]["code"]), (400, &json!("id_invalid")));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_session_tools_go_round_too() {
    let stage = Stage::new(vec![calls(&["a"], "Rome"), says("It rains.")]).await;
    let tool = json!({"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}});
    let (_, _, answer) = ask(&stage, hi(json!({"tools": [tool]})), &[]).await;
    let message = answer["choices"][0]["message"].clone();
    let result = json!({"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "rain"});
    let messages = json!([{"role": "user", "content": "hi"}, message, result]);
    let (_, _, answer) = ask(&stage, hi(json!({"tools": [tool], "messages": messages})), &[]).await;
    assert_eq!(answer["choices"][0]["message"]["content"], "It rains.", "{answer}");
    let asked = stage.model.received()[1].body["messages"].clone();
    let roles: Vec<&str> = asked.as_array().unwrap().iter().filter_map(|it| it["role"].as_str()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_gives_the_answer_it_had_and_the_user_may_speak_instead_of_waiting() {
    let stage = Stage::new(vec![calls(&["a"], "Rome"), says("Never mind.")]).await;
    let tool = json!({"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}});
    let headers = [("x-contexture-session", "s"), ("idempotency-key", "k")];
    let body = hi(json!({"tools": [tool]}));
    let (_, _, first) = ask(&stage, body.clone(), &headers).await;
    let (_, _, again) = ask(&stage, body, &headers).await;
    assert_eq!(first["choices"], again["choices"], "{again}");
    // Both at once: a result, and something else to say.
    let message = &first["choices"][0]["message"];
    let result = json!({"role": "tool", "tool_call_id": "a", "content": "rain"});
    let stop = json!({"role": "user", "content": "stop"});
    let messages = json!([{"role": "user", "content": "hi"}, message, result, stop]);
    let body = hi(json!({"tools": [tool], "messages": messages}));
    let (_, _, answer) = ask(&stage, body, &headers[..1]).await;
    assert_eq!(answer["choices"][0]["message"]["content"], "Never mind.", "{answer}");
    insta::assert_snapshot!(stage.said(&stage.main("s").await).await, @r#"
    user: hi
    assistant: weather()
    tool: "rain"
    user: stop
    assistant: Never mind.
    "#);
}

#[tokio::test(flavor = "multi_thread")]
async fn results_alone_continue_the_turn_that_waits_and_are_never_discarded() {
    let script = vec![calls(&["a"], "Rome"), says("It rains."), says("Nothing yet.")];
    let stage = Stage::new(script).await;
    let tool = json!({"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}});
    let session = [("x-contexture-session", "s")];
    let result = |call: &str| {
        let result = json!({"role": "tool", "tool_call_id": call, "content": "rain"});
        hi(json!({"tools": [tool], "messages": [result]}))
    };
    // Nothing waits on an empty thread, nor without a session.
    let (status, _, answer) = ask(&stage, result("a"), &session).await;
    assert_eq!((status, &answer["error"]["code"]), (409, &json!("tool_result_unexpected")), "{answer}");
    let (status, _, answer) = ask(&stage, result("a"), &[]).await;
    assert_eq!((status, &answer["error"]["code"]), (409, &json!("tool_result_unexpected")), "{answer}");

    ask(&stage, hi(json!({"tools": [tool]})), &session).await;
    let (status, _, answer) = ask(&stage, result("other"), &session).await;
    assert_eq!((status, &answer["error"]["code"]), (409, &json!("tool_result_unexpected")), "{answer}");
    let (status, _, answer) = ask(&stage, result("a"), &session).await;
    assert_eq!((status, &answer["choices"][0]["message"]["content"]), (200, &json!("It rains.")), "{answer}");
    // The same request again has the answer that it had; without saying so it is refused.
    let again = [session[0], ("x-stainless-retry-count", "1")];
    let (_, _, answer) = ask(&stage, result("a"), &again).await;
    assert_eq!(answer["choices"][0]["message"]["content"], "It rains.", "{answer}");
    let (status, _, answer) = ask(&stage, result("a"), &session).await;
    assert_eq!((status, &answer["error"]["code"]), (409, &json!("tool_result_unexpected")), "{answer}");
    insta::assert_snapshot!(stage.said(&stage.main("s").await).await, @r#"
    user: hi
    assistant: weather()
    tool: "rain"
    assistant: It rains.
    "#);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_said_in_the_shape_of_the_client() {
    let stage = Stage::new(Vec::new()).await;
    let client = contexture_model::http_client(Vec::new(), None).unwrap();
    let of = async |agent: &str| {
        let request =
            client.post(format!("{}/v1/embeddings", stage.url)).bearer_auth(&stage.key).json(&json!({}));
        let answer = request.header("user-agent", agent).send().await.unwrap();
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
    };
    let (status, theirs) = of("OpenAI/Python 2.0.0").await;
    assert_eq!((status, &theirs["error"]["code"]), (404, &json!("route_unknown")), "{theirs}");
    let (status, ours) = of("curl/8").await;
    assert_eq!((status, &ours["code"]), (404, &json!("route_unknown")), "{ours}");
    let root = client.get(&stage.url).send().await.unwrap();
    assert_eq!(root.json::<Value>().await.unwrap()["name"], "contexture");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_may_have_slashes_in_its_name() {
    let stage = Stage::new(Vec::new()).await;
    let client = contexture_model::http_client(Vec::new(), None).unwrap();
    for (id, status) in [("chat", 200), ("mock/mock-1", 200), ("mock%2Fmock-1", 200), ("a/b/c", 404)] {
        let request = client.get(format!("{}/v1/models/{id}", stage.url)).bearer_auth(&stage.key);
        assert_eq!(request.send().await.unwrap().status(), status, "{id}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_failed_is_known_although_nothing_was_heard_of_it() {
    let stage = Stage::new(vec![Reply::status(503), says("Here I am.")]).await;
    let session = [("x-contexture-session", "s")];
    assert_eq!(ask(&stage, hi(json!({})), &session).await.0, 503);
    let messages = json!([{"role": "user", "content": "hi"}, {"role": "user", "content": "hello?"}]);
    let (_, _, answer) = ask(&stage, hi(json!({"messages": messages})), &session).await;
    assert_eq!(answer["choices"][0]["message"]["content"], "Here I am.");
    let said = stage.said(&stage.main("s").await).await;
    assert_eq!(said, "user: hi\nuser: hello?\nassistant: Here I am.");
}
