//! Tools that the client runs: suspended durably, answered once, in any process.

use contexture_agent::{
    Agent, AgentError, AnswerRequest, CancellationToken, Decision, Ended, Event, Outcome, RunRequest, Verdict,
};
use contexture_compose::Prompt;
use contexture_history::TurnStatus;
use contexture_message::{Answer, Delta, Part, Role, Settings, ToolCall, ToolDefinition, ToolOutput};
use contexture_model::{Scripted, Step};
use contexture_session::Thread;
use futures::StreamExt;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use crate::stage::{Stage, agent, calls, echo, hi, prompt, says, script, told};
use crate::valid::assert_valid_everywhere;

fn mixed() -> Scripted {
    script([calls([("a", "here", json!({"n": 1})), ("b", "there", json!({"n": 2}))]), says("All done.")])
}

fn server(model: &Scripted) -> Agent {
    agent(model).tool(echo("here")).tool(echo("risky").needs_approval()).build().unwrap()
}

fn there() -> Vec<ToolDefinition> {
    vec![ToolDefinition::new("there", "Runs at the client."), ToolDefinition::new("also", "So does this.")]
}

fn request() -> RunRequest {
    hi().client_tools(there())
}

fn text(text: &str) -> ToolOutput {
    ToolOutput::Text(text.to_owned())
}

async fn begin(agent: &Agent, stage: &Stage) -> Outcome {
    agent.run(&prompt(), &stage.thread, request()).outcome().await.unwrap()
}

async fn answer<const N: usize>(
    agent: &Agent,
    thread: &Thread,
    results: [(&str, &str); N],
) -> Result<Outcome, AgentError> {
    let results = results.into_iter().map(|(id, it)| (id.to_owned(), text(it))).collect();
    agent.answer(&prompt(), thread, AnswerRequest { results, ..AnswerRequest::default() }).outcome().await
}

fn waits(outcome: &Outcome) -> String {
    let ids: Vec<&str> = outcome.client_calls.iter().map(|it| it.id.as_str()).collect();
    format!("{:?} {:?} {}", outcome.status, outcome.ended, ids.join(" "))
}

#[tokio::test]
async fn a_call_of_the_client_waits_and_its_siblings_are_answered() {
    let stage = Stage::new().await;
    let (events, outcome) = told(server(&mixed()).run(&prompt(), &stage.thread, request())).await;
    assert_eq!(waits(&outcome.unwrap()), "Suspended ClientTools b");
    insta::assert_snapshot!(events, @r#"
    turn.start {"thread":"s","turn":"t1"}
    context_usage {"input_tokens":10,"output_tokens":2,"cache_read_tokens":0,"budget_used_pct":0.0}
    tool.call {"id":"a","name":"here","arguments":{"n":1},"runs":"server"}
    tool.call {"id":"b","name":"there","arguments":{"n":2},"runs":"client"}
    tool.result {"id":"a","name":"here","output":{"type":"json","value":{"n":1}}}
    turn.end {"status":"suspended","reason":"it waits for tools of the client","usage":{"input_tokens":10,"cache_read_tokens":0,"output_tokens":2,"reasoning_tokens":0},"client_calls":[{"id":"b","name":"there","arguments":{"n":2}}]}
    "#);
}

#[tokio::test]
async fn the_turn_goes_on_with_the_clients_result() {
    let (stage, model) = (Stage::new().await, mixed());
    let agent = server(&model);
    begin(&agent, &stage).await;
    let request = AnswerRequest::result("b", text("two"));
    let (events, outcome) = told(agent.answer(&prompt(), &stage.thread, request)).await;
    let outcome = outcome.unwrap();
    assert_eq!((outcome.text().as_str(), outcome.turn.0, outcome.ended), ("All done.", 1, Ended::Answered));
    // A request of its own: what it cost is what it says.
    assert_eq!((outcome.steps, outcome.usage.input_tokens), (1, 10));
    insta::assert_snapshot!(events, @r#"
    turn.start {"thread":"s","turn":"t1"}
    tool.result {"id":"b","name":"there","output":{"type":"text","value":"two"}}
    text.delta {"text":"All done."}
    context_usage {"input_tokens":10,"output_tokens":2,"cache_read_tokens":0,"cache_forecast_tokens":102,"budget_used_pct":0.0}
    turn.end {"status":"completed","usage":{"input_tokens":10,"cache_read_tokens":0,"output_tokens":2,"reasoning_tokens":0}}
    "#);
    let names = |at: usize| {
        let requests = model.requests();
        requests[at].tools.iter().map(|it| it.name.clone()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!((names(0), names(1)), ("also here risky there".into(), "also here risky there".into()));
    assert_valid_everywhere(&model.requests()[1]);
    insta::assert_snapshot!(stage.log().await, @r#"
    t1 {"turn_began":{}}
    t1 user: hi
    t1 assistant: a=here({"n":1}) b=there({"n":2})
    t1 tool: a->{"type":"json","value":{"n":1}}
    t1 contexture.run {"prompt":"p","input":null,"scope":{"session":null,"tenant":null,"user":null,"now":null},"model":null,"settings":{},"client_tools":[{"name":"there","description":"Runs at the client.","parameters":{"type":"object"}},{"name":"also","description":"So does this.","parameters":{"type":"object"}}],"own_words":[],"client_calls":["b"],"steps":1,"usage":{"input_tokens":10,"cache_read_tokens":0,"output_tokens":2,"reasoning_tokens":0},"cost":null}
    t1 {"noted":{"key":"contexture.sent","value":{"view":[0,0,0,0],"sent":{"model":"test/model","tools":[{"source":"call","text":"{\"name\":\"also\",\"description\":\"So does this.\",\"parameters\":{\"type\":\"object\"}}","tokens":21},{"source":"call","text":"{\"name\":\"here\",\"description\":\"Gives back what it gets.\",\"parameters\":{\"type\":\"object\"}}","tokens":24},{"source":"call","text":"{\"name\":\"risky\",\"description\":\"Gives back what it gets.\",\"parameters\":{\"type\":\"object\"}}","tokens":25},{"source":"call","text":"{\"name\":\"there\",\"description\":\"Runs at the client.\",\"parameters\":{\"type\":\"object\"}}","tokens":22}],"system":[{"source":"prompt","text":"Be brief.","tokens":4}],"messages":0}}}}
    t1 {"turn_ended":{"status":"suspended","reason":"it waits for tools of the client","usage":{"input_tokens":10,"cache_read_tokens":0,"output_tokens":2,"reasoning_tokens":0}}}
    t1 "turn_resumed"
    t1 tool: b->{"type":"text","value":"two"}
    t1 assistant: All done.
    t1 {"turn_ended":{"status":"completed","usage":{"input_tokens":10,"cache_read_tokens":0,"output_tokens":2,"reasoning_tokens":0}}}
    "#);
}

#[tokio::test]
async fn a_client_may_be_asked_again_and_again() {
    let rounds = (0..14).map(|n| calls([(format!("c{n}").as_str(), "there", json!({}))]));
    let model = script(rounds.chain([says("ok")]));
    let (stage, agent) = (Stage::new().await, server(&model));
    let mut outcome = begin(&agent, &stage).await;
    for n in 0..14 {
        let id = format!("c{n}");
        assert_eq!(waits(&outcome), format!("Suspended ClientTools {id}"));
        // Another process each time: the most steps of a run are no limit for what the client asks for.
        let elsewhere = stage.elsewhere().await;
        outcome = answer(&server(&model), &elsewhere, [(id.as_str(), "x")]).await.unwrap();
    }
    assert_eq!(outcome.text(), "ok");
}

#[tokio::test]
async fn results_may_come_one_by_one() {
    let model = script([calls([("a", "there", json!({})), ("b", "also", json!({}))]), says("ok")]);
    let (stage, agent) = (Stage::new().await, server(&model));
    begin(&agent, &stage).await;
    let outcome = answer(&agent, &stage.thread, [("b", "second")]).await.unwrap();
    assert_eq!((waits(&outcome).as_str(), model.requests().len()), ("Suspended ClientTools a", 1));
    let outcome = answer(&agent, &stage.elsewhere().await, [("a", "first")]).await.unwrap();
    assert_eq!(outcome.text(), "ok");
    let sent = &model.requests()[1];
    let results = sent.messages.iter().filter(|it| it.role == Role::Tool).flat_map(|it| &it.content);
    let ids: Vec<_> =
        results.map(|it| if let Part::ToolResult(it) = it { it.call_id.as_str() } else { "" }).collect();
    // In the order in which they came: what stands before a new result never changes.
    assert_eq!(ids, ["b", "a"]);
}

#[tokio::test]
async fn forged_repeated_and_strange_results_change_nothing() {
    let model = script([
        calls([("a", "here", json!({})), ("b", "there", json!({})), ("c", "also", json!({}))]),
        says("ok"),
    ]);
    let (stage, agent) = (Stage::new().await, server(&model));
    assert_eq!(
        answer(&agent, &stage.thread, [("b", "x")]).await.unwrap_err().code(),
        "tool_result_unexpected"
    );
    begin(&agent, &stage).await;
    let refused = async |results: [(&str, &str); 2]| {
        let before = stage.log().await;
        let code = answer(&agent, &stage.thread, results).await.unwrap_err().code();
        assert_eq!(stage.log().await, before);
        code
    };
    assert_eq!(refused([("b", "x"), ("other", "x")]).await, "tool_result_unexpected");
    assert_eq!(refused([("b", "x"), ("b", "y")]).await, "tool_result_unexpected");
    assert_eq!(refused([("a", "x"), ("b", "y")]).await, "tool_result_unexpected");
    let other = Prompt::builder("other").model("test/m").build().unwrap();
    let run = agent.answer(&other, &stage.thread, AnswerRequest::result("b", text("x")));
    assert_eq!(run.outcome().await.unwrap_err().code(), "tool_result_other_prompt");

    answer(&agent, &stage.thread, [("b", "x")]).await.unwrap();
    assert_eq!(refused([("b", "again"), ("c", "y")]).await, "tool_result_unexpected");
    answer(&agent, &stage.thread, [("c", "y")]).await.unwrap();
    assert_eq!(refused([("b", "x"), ("c", "y")]).await, "tool_result_unexpected");
    assert_eq!(model.requests().len(), 2);
}

#[tokio::test]
async fn of_two_answers_at_once_one_counts() {
    let (stage, model) = (Stage::new().await, mixed());
    let agent = server(&model);
    begin(&agent, &stage).await;
    let (one, two) = futures::join!(
        answer(&agent, &stage.thread, [("b", "one")]),
        answer(&agent, &stage.thread, [("b", "two")])
    );
    let codes: Vec<_> =
        [one, two].into_iter().map(|it| it.map_or_else(|err| err.code().as_str(), |_| "done")).collect();
    assert!(codes.contains(&"done") && codes.contains(&"tool_result_unexpected"), "{codes:?}");
    assert_eq!(stage.log().await.matches("b->").count(), 1);
}

#[tokio::test]
async fn a_cancelled_answer_changes_nothing() {
    let (stage, model) = (Stage::new().await, mixed());
    let agent = server(&model);
    begin(&agent, &stage).await;
    let before = stage.log().await;
    let request = AnswerRequest::result("b", text("two"));
    request.cancel.cancel();
    let run = agent.answer(&prompt(), &stage.thread, request);
    assert!(run.outcome().await.unwrap_err().is_cancelled());
    assert_eq!(stage.log().await, before);
    answer(&agent, &stage.thread, [("b", "two")]).await.unwrap();
}

#[tokio::test]
async fn a_run_that_is_cancelled_while_it_goes_on_keeps_what_was_said() {
    let stage = Stage::new().await;
    let hangs = Step::Pieces(vec![Delta::Text("Half an".into())], None);
    let model = Scripted::new([Step::Answer(calls([("b", "there", json!({}))])), hangs]);
    let agent = server(&model);
    begin(&agent, &stage).await;
    let request = AnswerRequest::result("b", text("two"));
    let cancel = request.cancel.clone();
    let mut run = agent.answer(&prompt(), &stage.thread, request);
    while let Some(event) = run.next().await {
        if matches!(event, Event::TextDelta { .. }) {
            cancel.cancel();
        }
    }
    assert!(run.outcome().await.unwrap_err().is_cancelled());
    let log = stage.log().await;
    assert!(log.contains("b->{\"type\":\"text\",\"value\":\"two\"}\nt1 assistant: Half an\n"), "{log}");
}

#[tokio::test]
async fn a_new_turn_leaves_the_waiting_call_answered() {
    let (stage, model) = (Stage::new().await, mixed());
    let agent = server(&model);
    begin(&agent, &stage).await;
    agent.run(&prompt(), &stage.thread, hi()).outcome().await.unwrap();
    assert_valid_everywhere(&model.requests()[1]);
    let late = answer(&agent, &stage.thread, [("b", "two")]).await;
    assert_eq!(late.unwrap_err().code(), "tool_result_unexpected");
}

/// Everybody is asked at once: the server, the client and a person.
async fn all_wait(stage: &Stage) -> (Agent, Scripted) {
    let model = script([
        calls([("a", "here", json!({})), ("b", "there", json!({})), ("c", "risky", json!({"n": 3}))]),
        says("ok"),
    ]);
    let agent = server(&model);
    let outcome = begin(&agent, stage).await;
    assert_eq!((waits(&outcome).as_str(), outcome.approvals.len()), ("Suspended ClientTools b", 1));
    (agent, model)
}

async fn approve(agent: &Agent, thread: &Thread) -> Outcome {
    let (approval, token) = ("s:t1:c".to_owned(), "secret-0".to_owned());
    let decision = Decision { approval, token, verdict: Verdict::Approve };
    agent.decide(&prompt(), thread, decision, CancellationToken::new()).outcome().await.unwrap()
}

#[tokio::test]
async fn a_turn_goes_on_when_the_client_and_the_person_have_answered() {
    for client_first in [true, false] {
        let stage = Stage::new().await;
        let (agent, model) = all_wait(&stage).await;
        let outcome = if client_first {
            let between = answer(&agent, &stage.thread, [("b", "two")]).await.unwrap();
            assert_eq!(waits(&between), "Suspended Suspended ");
            approve(&agent, &stage.thread).await
        } else {
            assert_eq!(waits(&approve(&agent, &stage.thread).await), "Suspended ClientTools b");
            answer(&agent, &stage.thread, [("b", "two")]).await.unwrap()
        };
        assert_eq!((outcome.status, outcome.text().as_str()), (TurnStatus::Completed, "ok"));
        assert_valid_everywhere(&model.requests()[1]);
    }
}

#[tokio::test]
async fn a_tool_of_the_client_must_not_have_the_name_of_another() {
    let stage = Stage::new().await;
    let model = script([says("ok"), says("ok")]);
    let agent = agent(&model).tool(echo("here")).executor(echo("declared")).build().unwrap();
    let declares = Prompt::builder("p")
        .model("test/m")
        .tool(ToolDefinition::new("declared", "Declared."))
        .build()
        .unwrap();
    let run = async |prompt: &Prompt, names: &[&str]| {
        let client_tools = names.iter().map(|it| ToolDefinition::new(*it, "Of the client.")).collect();
        let request = hi().client_tools(client_tools);
        agent
            .run(prompt, &stage.thread, request)
            .outcome()
            .await
            .map_or_else(|err| err.code().as_str(), |_| "done")
    };
    assert_eq!(run(&prompt(), &["here"]).await, "tool_collision");
    assert_eq!(run(&prompt(), &["there", "there"]).await, "tool_collision");
    assert_eq!(run(&prompt(), &["recall"]).await, "tool_collision");
    assert_eq!(run(&declares, &["declared"]).await, "tool_collision");
    assert_eq!(stage.log().await, "");
    // A prompt that does not declare it leaves the name free.
    assert_eq!(run(&prompt(), &["declared"]).await, "done");
}

#[tokio::test]
async fn an_answer_may_change_tools_model_and_settings() {
    let (stage, model) = (Stage::new().await, mixed());
    let agent = server(&model);
    begin(&agent, &stage).await;
    let changed = |tool: &str| AnswerRequest {
        client_tools: Some(vec![ToolDefinition::new(tool, "Another.")]),
        model: Some("test/other".to_owned()),
        settings: Some(Settings { temperature: Some(1.into()), ..Settings::default() }),
        ..AnswerRequest::result("b", text("two"))
    };
    let before = stage.log().await;
    let refused = agent.answer(&prompt(), &stage.thread, changed("here")).outcome().await;
    assert_eq!((refused.unwrap_err().code().as_str(), stage.log().await), ("tool_collision", before));
    agent.answer(&prompt(), &stage.thread, changed("new")).outcome().await.unwrap();
    let sent = &model.requests()[1];
    let names: Vec<_> = sent.tools.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(
        (sent.model.as_deref(), sent.settings.temperature.clone()),
        (Some("test/other"), Some(1.into()))
    );
    assert_eq!(names, ["here", "new", "risky"]);
}

#[tokio::test]
async fn a_repeated_key_says_what_the_client_must_run() {
    let (stage, model) = (Stage::new().await, mixed());
    let agent = server(&model);
    for ended in [Ended::ClientTools, Ended::Replayed] {
        let request = RunRequest { key: Some("k".into()), ..request() };
        let outcome = agent.run(&prompt(), &stage.thread, request).outcome().await.unwrap();
        assert_eq!((outcome.client_calls.len(), outcome.ended), (1, ended));
    }
}

/// What a client does when calls wait.
#[derive(Clone, Copy, Debug)]
enum Does {
    All,
    Some,
    Forges,
    GivesUp,
    Stops,
}

fn does() -> impl Strategy<Value = Does> {
    prop_oneof![
        4 => Just(Does::All),
        3 => Just(Does::Some),
        1 => Just(Does::Forges),
        1 => Just(Does::GivesUp),
        1 => Just(Does::Stops)
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let name = prop_oneof![Just("here"), Just("there"), Just("also"), Just("risky"), Just("unknown")];
    let calling = vec(name, 1..4).prop_map(|names| {
        // All ids are the same: the record makes others of them.
        let call = |name: &str| ToolCall { id: "c".into(), name: name.into(), arguments: json!({}) };
        Step::Answer(Answer::parts(names.into_iter().map(|it| Part::ToolCall(call(it))).collect()))
    });
    prop_oneof![5 => calling, 1 => Just(Step::Answer(Answer::text("An answer.")))]
}

/// Answers what waits as `does` says; returns what the turn came to then.
async fn reply(agent: &Agent, thread: &Thread, waits: &Outcome, does: Does) -> Option<Outcome> {
    let ids: Vec<String> = waits.client_calls.iter().map(|it| it.id.clone()).collect();
    let chosen = match does {
        Does::All | Does::Stops => ids,
        Does::Some => ids.into_iter().take(1).collect(),
        Does::Forges => ids.into_iter().chain(["forged".to_owned()]).collect(),
        Does::GivesUp => return None,
    };
    let results = chosen.into_iter().map(|id| (id, text("result"))).collect();
    let request = AnswerRequest { results, ..AnswerRequest::default() };
    if matches!(does, Does::Stops) {
        request.cancel.cancel();
    }
    agent.answer(&prompt(), thread, request).outcome().await.ok()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn no_call_goes_out_without_its_result(steps in vec(step(), 1..12), acts in vec((does(), any::<bool>()), 1..16)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let stage = Stage::new().await;
            let model = Scripted::new(steps.into_iter().chain(std::iter::repeat_with(|| Step::Answer(Answer::text("ok"))).take(64)));
            let agent = server(&model);
            let mut waits: Option<Outcome> = None;
            for (does, is_elsewhere) in acts {
                let thread = if is_elsewhere { stage.elsewhere().await } else { stage.thread.clone() };
                thread.refresh().await.unwrap();
                waits = match waits.filter(|it| !it.client_calls.is_empty()) {
                    Some(waits) => match reply(&agent, &thread, &waits, does).await {
                        // What was refused or stopped changed nothing: it still waits.
                        None if !matches!(does, Does::GivesUp) => Some(waits),
                        outcome => outcome,
                    },
                    None => agent.run(&prompt(), &thread, request()).outcome().await.ok(),
                };
            }
            agent.run(&prompt(), &stage.elsewhere().await, hi()).outcome().await.unwrap();
            model.requests().iter().for_each(|it| assert_valid_everywhere(it));
            // Nothing is on record twice.
            let log = stage.log().await;
            let results: Vec<&str> = log.split_whitespace().filter(|it| it.contains("->")).collect();
            let mut ids: Vec<&str> = results.iter().filter_map(|it| it.split("->").next()).collect();
            let n_results = ids.len();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), n_results, "{log}");
        });
    }
}
