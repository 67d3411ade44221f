//! A client that keeps its own history, and whatever it does with it: nothing is stored twice.
#![allow(clippy::unwrap_used, reason = "a test that can't go on says so")]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use contexture::{SystemTime, session_ports};
use contexture_agent::{Agent, AnswerRequest, RunRequest, Tool};
use contexture_compose::Prompt;
use contexture_message::{Answer, Message, Part, Role, ToolCall, ToolDefinition, ToolOutput, ToolResult};
use contexture_model::{Deltas, Model, ModelCall, Scripted, Step as Scene};
use contexture_session::{MemoryStore, Session, SessionConfig, SessionStart, Sessions, Thread};
use futures::StreamExt;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::answer::{CompletionResult, StreamedText, replayed};
use super::errors::document;
use super::locate::{ChatStep, locate, recent};
use super::recognise::{ClientHistory, Hints};
use super::request::ChatRequest;
use super::stored_thread::{HistoryToken, StoredThread, join, tokenize};

/// The model's next action.
#[derive(Clone, Copy, Debug)]
enum Says {
    Text,
    Here,
    There,
    Both,
}

/// A model that never says the same twice.
#[derive(Clone)]
struct Unique(Arc<Mutex<(Vec<Says>, usize)>>);

impl Model for Unique {
    fn stream(&self, call: ModelCall) -> Deltas {
        let mut state = self.0.lock().unwrap();
        let says = state.0.pop().unwrap_or(Says::Text);
        state.1 += 1;
        let n = state.1;
        let call_of = |name: &str| {
            let (id, name) = (format!("{name}-{n}"), name.to_owned());
            Part::ToolCall(ToolCall { id, name, arguments: json!({}) })
        };
        let parts = match says {
            Says::Text => vec![Part::text(format!("Answer {n}. "))],
            Says::Here => vec![Part::text(format!("Let me see {n}. ")), call_of("here")],
            Says::There => vec![call_of("there")],
            Says::Both => vec![Part::text(format!("Both {n}. ")), call_of("here"), call_of("there")],
        };
        Scripted::new([Scene::Answer(Answer::parts(parts))]).stream(call)
    }
}

struct ChatFixture {
    agent: Agent,
    prompt: Prompt,
    session: Session,
}

async fn fixture(script: Vec<Says>) -> ChatFixture {
    let model = Unique(Arc::new(Mutex::new((script, 0))));
    let here = Tool::new(ToolDefinition::new("here", "Runs here."), |_| async { Ok(json!("ok")) }).unwrap();
    let agent = contexture::agent(model).tool(here).build().unwrap();
    let store = Arc::new(MemoryStore::new(Arc::new(SystemTime)));
    let sessions = Sessions::new(store, session_ports(None), SessionConfig::default());
    let session = sessions.create(SessionStart::default()).await.unwrap();
    let prompt = Prompt::builder("p").model("test/m").system("Be brief.").build().unwrap();
    ChatFixture { agent, prompt, session }
}

impl ChatFixture {
    /// Does what the endpoint does with a list.
    async fn complete(&self, list: &[Message], is_retry: bool) -> (Thread, CompletionResult) {
        let client_history = ClientHistory::of(list.to_vec());
        let hints = Hints { is_retry, ..Hints::default() };
        let (thread, step) = locate(&self.session, &client_history, hints).await.unwrap();
        let client_tools = vec![ToolDefinition::new("there", "Runs at the client.")];
        let mut run = match step {
            ChatStep::Replay(turn) => {
                let has_results = client_history.is_only_results();
                return (thread.clone(), replayed(&thread, turn, has_results).await.unwrap());
            }
            ChatStep::Wait(turn) => panic!("turn {turn} runs"),
            ChatStep::Run { user, after } => {
                let request = RunRequest { user, after: Some(after), ..RunRequest::default() }
                    .client_tools(client_tools);
                self.agent.run(&self.prompt, &thread, request)
            }
            ChatStep::Answer(results) => {
                let request = AnswerRequest { results, ..AnswerRequest::default() };
                self.agent.answer(&self.prompt, &thread, request)
            }
        };
        let mut streamed = StreamedText::default();
        while let Some(event) = run.next().await {
            streamed.add_event(&event);
        }
        let outcome = run.outcome().await.unwrap();
        (thread, CompletionResult::of(&outcome, streamed))
    }
}

fn assistant(result: &CompletionResult) -> Message {
    // Clients trim what they keep.
    let text = Some(result.streamed.text.trim()).filter(|it| !it.is_empty()).map(Part::text);
    let calls = result.calls.iter().cloned().map(Part::ToolCall);
    Message::parts(Role::Assistant, text.into_iter().chain(calls).collect())
}

fn results(message: &Message) -> Vec<Message> {
    let each = message.content.iter().filter_map(|it| match it {
        Part::ToolCall(call) => {
            let (call_id, name, output) = (call.id.clone(), call.name.clone(), ToolOutput::Text("r".into()));
            Some(Message::parts(Role::Tool, vec![Part::ToolResult(ToolResult { call_id, name, output })]))
        }
        _ => None,
    });
    each.collect()
}

/// The client's next action.
#[derive(Clone, Copy, Debug)]
enum Does {
    Says,
    /// Asks for the last answer again.
    Regenerates,
    /// Changes something that the user said.
    Edits(usize),
    /// Says something, and leaves out its oldest messages. With nothing left but that, it would be like one that
    /// keeps nothing.
    Trims(usize),
    /// Sends its last request again, because the answer was lost.
    Retries,
}

fn does() -> impl Strategy<Value = Does> {
    prop_oneof![
        6 => Just(Does::Says),
        2 => Just(Does::Regenerates),
        2 => (0usize..6).prop_map(Does::Edits),
        2 => (3usize..8).prop_map(Does::Trims),
        1 => Just(Does::Retries),
    ]
}

fn says() -> impl Strategy<Value = Says> {
    prop_oneof![
        3 => Just(Says::Text),
        1 => Just(Says::Here),
        1 => Just(Says::There),
        1 => Just(Says::Both),
    ]
}

fn tokens(list: &[Message]) -> Vec<HistoryToken> {
    let mut tokens: Vec<HistoryToken> = Vec::new();
    for message in list {
        tokenize(message, |token| {
            if !tokens.last_mut().is_some_and(|it| join(it, &token)) {
                tokens.push(token);
            }
        });
    }
    tokens
}

/// Whether a thread ends with what the client knows, and has nothing twice.
async fn check(thread: &Thread, list: &[Message]) {
    let items = recent(thread).await.unwrap();
    let theirs = tokens(list);
    let ids: BTreeSet<&str> = theirs
        .iter()
        .filter_map(|it| if let HistoryToken::Call(id) = it { Some(id.as_str()) } else { None })
        .collect();
    let heard = StoredThread::read(&items, true).tokens_known_to(&ids);
    let ours: Vec<HistoryToken> = heard.into_iter().map(|it| it.token).collect();
    assert!(ours.ends_with(&theirs), "{ours:#?}\n{theirs:#?}");
    let mut once = BTreeSet::new();
    for token in &ours {
        assert!(once.insert(format!("{token:?}")), "twice: {token:?} in {ours:#?}");
    }
    let results = items.iter().filter_map(|it| it.body.as_message()).flat_map(|it| &it.content);
    let mut answered = BTreeSet::new();
    for part in results {
        if let Part::ToolResult(result) = part {
            assert!(answered.insert(result.call_id.clone()), "two results: {}", result.call_id);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_client_that_keeps_its_history_stores_nothing_twice(script in vec(says(), 0..24), acts in vec(does(), 1..10)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let fixture = fixture(script).await;
            let mut kept: Vec<Message> = Vec::new();
            // Until it has sent an answer back, the server can't know that this client keeps its history.
            let mut resent = false;
            for (n, act) in acts.into_iter().enumerate() {
                let last_user = kept.iter().rposition(|it| it.role == Role::User);
                let (sent, is_retry) = match (act, last_user) {
                    (Does::Regenerates, Some(at)) => (at + 1, false),
                    (Does::Retries, Some(at)) => (at + 1, true),
                    (Does::Edits(nth), Some(_)) if resent => {
                        let users: Vec<usize> = (0..kept.len()).filter(|it| kept[*it].role == Role::User).collect();
                        let at = users[nth % users.len()];
                        kept[at] = Message::user(format!("edited {n}"));
                        (at + 1, false)
                    }
                    (Does::Trims(most), _) => {
                        kept.push(Message::user(format!("said {n}")));
                        kept.drain(..kept.len().saturating_sub(most));
                        (kept.len(), false)
                    }
                    _ => {
                        kept.push(Message::user(format!("said {n}")));
                        (kept.len(), false)
                    }
                };
                kept.truncate(sent);
                resent |= kept.iter().any(|it| it.role == Role::Assistant);
                loop {
                    let (thread, result) = fixture.complete(&kept, is_retry).await;
                    let message = assistant(&result);
                    let (_, again) = fixture.complete(&kept, true).await;
                    assert_eq!(assistant(&again), message, "a request that comes again");
                    let brought = results(&message);
                    kept.push(message);
                    check(&thread, &kept).await;
                    if brought.is_empty() {
                        break;
                    }
                    kept.extend(brought);
                }
            }
        });
    }
}

/// Reads a body, or says why it is refused.
fn read(body: Value) -> String {
    match ChatRequest::read(&body) {
        Ok(it) => {
            format!("{} {} stream={} usage={}", it.model, it.messages.len(), it.stream, it.include_usage)
        }
        Err(err) => {
            let err = &document(&err)["error"];
            format!("{} {}", err["code"].as_str().unwrap_or("?"), err["param"].as_str().unwrap_or("?"))
        }
    }
}

fn body(more: Value) -> Value {
    let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[test]
fn a_body_is_read_or_refused_by_the_name_of_its_parameter() {
    assert_eq!(read(body(json!({}))), "m 1 stream=false usage=false");
    let streamed = body(json!({"stream": true, "stream_options": {"include_usage": true}}));
    assert_eq!(read(streamed), "m 1 stream=true usage=true");
    assert_eq!(
        read(body(json!({"n": 1, "logprobs": false, "parallel_tool_calls": true}))),
        "m 1 stream=false usage=false"
    );
    for (param, value) in [
        ("n", json!(2)),
        ("logprobs", json!(true)),
        ("audio", json!({"voice": "x"})),
        ("functions", json!([{"name": "f"}])),
        ("parallel_tool_calls", json!(false)),
        ("frequency_penalty", json!(1)),
        ("what", json!(1)),
    ] {
        assert_eq!(read(body(json!({param: value}))), format!("unsupported_parameter {param}"));
    }
    let audio = json!({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]});
    assert_eq!(read(body(audio)), "unsupported_parameter messages[0].content[0].type");
    assert_eq!(read(body(json!({"messages": []}))), "invalid_value messages");
    assert_eq!(read(body(json!({"messages": "x"}))), "invalid_value messages");
    assert_eq!(read(body(json!({"model": ""}))), "invalid_value model");
    assert_eq!(read(body(json!({"stream": "yes"}))), "invalid_value stream");
    assert_eq!(read(json!([])), "invalid_value body");
}
