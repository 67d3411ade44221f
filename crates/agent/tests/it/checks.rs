//! Checks: structured output, guardrails, constraints, hooks.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use contexture_agent::{AgentError, Checked, GuardrailVerdict, RunRequest};
use contexture_compose::{
    Constraint, Contribution, Guardrail, Hooks, Prompt, PromptBuilder, Text, contributor,
};
use contexture_message::{Answer, Message, Part, Request, Role, StopReason, Thinking};
use contexture_model::Scripted;
use serde_json::{Value, json};

use crate::stage::{Stage, agent, calls, echo, hi, says, script, told};

fn builder() -> PromptBuilder {
    Prompt::builder("p").model("test/m").system("Be brief.")
}

fn with_constraints(constraints: Value) -> Prompt {
    let constraints: Vec<Constraint> = serde_json::from_value(constraints).unwrap();
    constraints.into_iter().fold(builder(), PromptBuilder::constraint).build().unwrap()
}

fn with_guardrails(guardrails: Value) -> Prompt {
    let guardrails: Vec<Guardrail> = serde_json::from_value(guardrails).unwrap();
    guardrails.into_iter().fold(builder(), PromptBuilder::guardrail).build().unwrap()
}

/// Runs a prompt on answers and returns the last line of events, the outcome and the log.
async fn ran<In, Out>(
    prompt: &Prompt<In, Out>,
    answers: impl IntoIterator<Item = Answer>,
) -> (String, Result<String, AgentError>, String) {
    let stage = Stage::new().await;
    let model = script(answers);
    let (events, outcome) = told(agent(&model).build().unwrap().run(prompt, &stage.thread, hi())).await;
    let texts: Vec<&str> = events
        .lines()
        .filter(|it| it.starts_with("text") || it.starts_with("att") || it.starts_with("warn"))
        .collect();
    (
        texts.join("\n"),
        outcome.map(|it| it.output.as_ref().map_or_else(|| it.text(), |it| it.to_string())),
        stage.log().await,
    )
}

#[derive(schemars::JsonSchema)]
#[allow(dead_code)]
struct Verdict {
    good: bool,
}

#[tokio::test]
async fn structured_output_is_read_and_checked() {
    let prompt = builder().output::<Verdict>().build().unwrap();
    let (_, output, _) = ran(&prompt, [says("```json\n{\"good\": true}\n```")]).await;
    assert_eq!(output.unwrap(), r#"{"good":true}"#);
}

#[tokio::test]
async fn structured_output_is_repaired_once() {
    let prompt = builder().output::<Verdict>().build().unwrap();
    let (events, output, log) = ran(&prompt, [says("Good!"), says("{\"good\":true}")]).await;
    assert_eq!(output.unwrap(), r#"{"good":true}"#);
    assert!(events.contains("attempt.discarded"), "{events}");
    assert!(log.contains("contexture.attempt") && !log.contains("t1 assistant: Good!"), "{log}");
    assert_eq!(log.matches("t1 assistant:").count(), 1);

    let (_, output, log) = ran(&prompt, [says("Good!"), says("{\"good\":7}")]).await;
    let err = output.unwrap_err();
    insta::assert_snapshot!(err, @r#"the answer does not fit its schema after 2 attempts: /good: the value is not of type "boolean""#);
    assert!(matches!(err, AgentError::OutputInvalid { output, .. } if output == "{\"good\":7}"));
    assert!(log.contains("\"status\":\"failed\""), "{log}");
}

#[tokio::test]
async fn a_failing_constraint_has_the_answer_made_again_with_all_feedback() {
    let prompt = with_constraints(json!([
        {"id": "short", "max_words": 3},
        {"id": "polite", "contains": "please", "feedback": "say please"},
        {"id": "calm", "mode": "suggest", "not_contains": "!"}
    ]));
    let stage = Stage::new().await;
    let model = script([says("No no no no!"), says("One, please!")]);
    let (events, outcome) = told(agent(&model).build().unwrap().run(&prompt, &stage.thread, hi())).await;
    assert_eq!(outcome.unwrap().text(), "One, please!");
    // The feedback of both in one message; nothing of the first answer was streamed.
    let request = &model.requests()[1];
    insta::assert_snapshot!(request.messages.last().unwrap().as_text().unwrap(), @r"
    Your last answer does not meet these requirements:
    - it has 4 words, at most 3 are allowed
    - say please

    Write the whole answer again so that it meets all of them. Do not mention this message.
    ");
    assert!(
        !events.contains("No no") && events.contains("text.delta {\"text\":\"One, please!\"}"),
        "{events}"
    );
    assert!(events.contains("warning {\"source\":\"constraint:calm\""), "{events}");
}

#[tokio::test]
async fn constraints_give_up_after_two_retries_with_the_last_output() {
    let prompt = with_constraints(json!([{"id": "short", "max_chars": 2}]));
    let (_, output, log) = ran(&prompt, [says("one"), says("two"), says("three"), says("never asked")]).await;
    let err = output.unwrap_err();
    insta::assert_snapshot!(err, @"the answer fails constraint `short` (it has 5 characters, at most 2 are allowed) after 3 attempts");
    assert!(matches!(err, AgentError::Constraints { output, .. } if output == "three"));
    assert!(log.contains("\"status\":\"failed\""));
}

#[tokio::test]
async fn attempts_stay_where_they_were_made() {
    let prompt = with_constraints(json!([{"id": "short", "max_chars": 3}]));
    let stage = Stage::new().await;
    let model = script([says("too long"), calls([("a", "echo", json!({}))]), says("ok")]);
    let agent = agent(&model).tool(echo("echo")).build().unwrap();
    agent.run(&prompt, &stage.thread, hi()).outcome().await.unwrap();
    let roles = |n: usize| model.requests()[n].messages.iter().map(|it| it.role.as_str()).collect::<Vec<_>>();
    assert_eq!(roles(2), ["system", "user", "assistant", "user", "assistant", "tool"]);
    let (second, third) = (&model.requests()[1].messages, &model.requests()[2].messages);
    assert_eq!(second[..], third[..second.len()]);
}

#[tokio::test]
async fn constraints_that_an_entry_brings_later_hold() {
    let n_runs = AtomicU32::new(0);
    let entry = contributor("later", move |_| {
        let is_first = n_runs.fetch_add(1, Ordering::Relaxed) == 0;
        let constraint: Constraint = serde_json::from_value(json!({"id": "short", "max_chars": 3})).unwrap();
        let constraints = if is_first { Vec::new() } else { vec![constraint] };
        async { Ok(Contribution { constraints, ..Contribution::default() }) }
    });
    let prompt = builder().include(entry).build().unwrap();
    let stage = Stage::new().await;
    let model = script([calls([("a", "echo", json!({}))]), says("too long"), says("ok")]);
    let agent = agent(&model).tool(echo("echo")).build().unwrap();
    let outcome = agent.run(&prompt, &stage.thread, hi()).outcome().await.unwrap();
    assert_eq!(outcome.text(), "ok");
}

#[tokio::test]
async fn constraints_can_be_functions() {
    let prompt = with_constraints(json!([{"id": "even"}]));
    let stage = Stage::new().await;
    let model = script([says("abc"), says("abcd")]);
    let even = |it: Checked| async move {
        if it.text.len().is_multiple_of(2) { Ok(()) } else { Err("make it even".to_owned()) }
    };
    let agent = agent(&model).constraint("even", even).build().unwrap();
    let outcome = agent.run(&prompt, &stage.thread, hi()).outcome().await.unwrap();
    assert_eq!(outcome.text(), "abcd");
}

#[tokio::test]
async fn guardrails_block_rewrite_and_warn_in_order() {
    let prompt = with_guardrails(json!([
        {"id": "mask", "not_matches": "\\d{4}", "action": "rewrite", "replacement": "****"},
        {"id": "loud", "not_contains": "!", "action": "warn", "reason": "shouting"},
        {"id": "secret", "not_matches": "5678|hunter2"}
    ]));
    let (events, output, log) = ran(&prompt, [says("Pin 5678!")]).await;
    assert_eq!(output.unwrap(), "Pin ****!");
    insta::assert_snapshot!(events, @r#"
    warning {"source":"guardrail:loud","message":"shouting"}
    text.delta {"text":"Pin ****!"}
    "#);
    assert!(!log.contains("5678"), "{log}");

    let (events, output, log) = ran(&prompt, [says("It is hunter2")]).await;
    let err = output.unwrap_err();
    insta::assert_snapshot!(err, @"guardrail `secret` blocked the output: it must not match `5678|hunter2`");
    assert_eq!((events.as_str(), err.code().as_str()), ("", "guardrail_blocked"));
    assert!(!log.contains("is hunter2"), "{log}");
}

#[tokio::test]
async fn input_guardrails_run_before_anything_is_on_record() {
    let prompt = with_guardrails(json!([{"id": "no-hi", "on": "input", "not_contains": "hi"}]));
    let (_, output, log) = ran(&prompt, [says("never")]).await;
    assert_eq!((output.unwrap_err().code().as_str(), log.as_str()), ("guardrail_blocked", ""));

    let prompt = with_guardrails(
        json!([{"id": "m", "on": "input", "not_contains": "hi", "action": "rewrite", "replacement": "ho"}]),
    );
    let (_, output, log) = ran(&prompt, [says("ok")]).await;
    assert!(output.is_ok() && log.contains("t1 user: ho"), "{log}");
}

/// Runs a prompt whose own user text holds a secret, with a guardrail against it and a tool call between two steps; returns
/// all that the model saw.
async fn sent(user: Text, guardrail: Value, request: RunRequest) -> Result<String, AgentError> {
    let guardrail: Guardrail = serde_json::from_value(guardrail).unwrap();
    let prompt = builder().user(user).guardrail(guardrail).build().unwrap();
    let stage = Stage::new().await;
    let model = script([calls([("a", "echo", json!({}))]), says("ok")]);
    agent(&model).tool(echo("echo")).build().unwrap().run(&prompt, &stage.thread, request).outcome().await?;
    let of_user = |it: &&Arc<Message>| it.role == Role::User;
    let texts = |it: &Request| {
        it.messages.iter().filter(of_user).map(|it| it.as_text().unwrap().to_owned()).collect::<Vec<_>>()
    };
    Ok(model.requests().iter().map(|it| texts(it).join(", ")).collect::<Vec<_>>().join(" | "))
}

#[tokio::test]
async fn input_guardrails_guard_the_prompts_own_user_text() {
    let pin = || Text::literal("my pin is 1234");
    let mask =
        json!({"id": "m", "on": "input", "not_matches": "\\d{4}", "action": "rewrite", "replacement": "*"});
    let block = json!({"id": "b", "on": "input", "not_matches": "\\d{4}"});
    let alone = sent(pin(), mask.clone(), RunRequest::default()).await.unwrap();
    assert_eq!(alone, "my pin is * | my pin is *");
    let beside = sent(pin(), mask.clone(), hi()).await.unwrap();
    assert_eq!(beside, "hi, my pin is * | hi, my pin is *");
    let same = sent(pin(), mask, RunRequest::user("my pin is 1234")).await.unwrap();
    assert_eq!(same, "my pin is * | my pin is *");
    assert_eq!(sent(pin(), block.clone(), hi()).await.unwrap_err().code(), "guardrail_blocked");
    assert_eq!(sent(pin(), block, RunRequest::default()).await.unwrap_err().code(), "guardrail_blocked");
}

#[tokio::test]
async fn a_turn_starts_before_anybody_warns() {
    let prompt = with_guardrails(json!([{"id": "w", "on": "input", "max_chars": 1, "action": "warn"}]));
    let stage = Stage::new().await;
    let agent = agent(&script([says("ok")])).build().unwrap();
    let (events, _) = told(agent.run(&prompt, &stage.thread, hi())).await;
    let names: Vec<_> = events.lines().filter_map(|it| it.split(' ').next()).take(2).collect();
    assert_eq!(names, ["turn.start", "warning"]);
}

#[tokio::test]
async fn a_user_text_that_changes_is_said_once() {
    let n = AtomicU32::new(0);
    let text = Text::of(move |_: &Value| format!("at {}", n.fetch_add(1, Ordering::Relaxed)));
    let any = json!({"id": "any", "on": "input", "max_chars": 99});
    assert_eq!(sent(text, any, RunRequest::default()).await.unwrap(), "at 0 | at 0");
}

fn with_part(part: Part, mut answer: Answer) -> Answer {
    answer.message.content.insert(0, part);
    answer
}

fn thinks(text: &str, answer: Answer) -> Answer {
    let thinking = Thinking { text: text.to_owned(), signature: None, provider: None, redacted: false };
    with_part(Part::Thinking(thinking), answer)
}

/// Runs a prompt that holds answers back, with a tool, and returns what was streamed.
async fn streamed(prompt: &Prompt, answers: impl IntoIterator<Item = Answer>) -> String {
    let stage = Stage::new().await;
    let agent = agent(&script(answers)).tool(echo("echo")).build().unwrap();
    let (events, _) = told(agent.run(prompt, &stage.thread, hi())).await;
    let deltas = events.lines().filter(|it| it.contains(".delta"));
    deltas.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn thinking_is_held_back_with_its_answer() {
    let guarded = with_guardrails(json!([{"id": "secret", "not_contains": "hunter2"}]));
    assert_eq!(streamed(&guarded, [thinks("hunter2?", says("hunter2"))]).await, "");
    insta::assert_snapshot!(streamed(&guarded, [thinks("Hm.", says("Fine."))]).await, @r#"
    thinking.delta {"text":"Hm."}
    text.delta {"text":"Fine."}
    "#);
}

#[tokio::test]
async fn what_is_said_on_the_way_is_streamed() {
    let asserting = with_constraints(json!([{"id": "short", "max_chars": 5}]));
    let guarded = with_guardrails(json!([{"id": "secret", "not_contains": "hunter2"}]));
    for prompt in [asserting, guarded] {
        let calling = with_part(Part::text("Let me see."), calls([("a", "echo", json!({}))]));
        let paused = Answer { stop: StopReason::Paused, ..says("Wait") };
        let expected = ["Let me see.", "Wait", "Done."].map(|it| format!("text.delta {{\"text\":\"{it}\"}}"));
        assert_eq!(streamed(&prompt, [calling, paused, says("Done.")]).await, expected.join("\n"));
    }
}

#[tokio::test]
async fn an_empty_answer_is_guarded_too() {
    let prompt = with_guardrails(json!([{"id": "signed", "contains": "Yours"}]));
    assert_eq!(ran(&prompt, [says("")]).await.1.unwrap_err().code(), "guardrail_blocked");
}

#[tokio::test]
async fn guardrails_can_be_functions() {
    let prompt = with_guardrails(json!([{"id": "upper"}]));
    let stage = Stage::new().await;
    let upper = |text: Arc<str>| async move { GuardrailVerdict::Rewrite(text.to_uppercase()) };
    let agent = agent(&script([says("quiet")])).guardrail("upper", upper).build().unwrap();
    let outcome = agent.run(&prompt, &stage.thread, hi()).outcome().await.unwrap();
    assert_eq!(outcome.text(), "QUIET");
}

#[tokio::test]
async fn checks_that_nobody_can_run_are_errors() {
    let unknown = async |prompt: Prompt| ran(&prompt, [says("x")]).await.1.unwrap_err().to_string();
    insta::assert_snapshot!(unknown(with_constraints(json!([{"id": "who"}]))).await, @"constraint:who: it has no rules, and no function of this name is known");
    insta::assert_snapshot!(unknown(with_constraints(json!([{"id": "re", "matches": "("}]))).await.lines().next().unwrap(), @"constraint:re: `matches` is not a valid regular expression: regex parse error:");
    assert!(
        unknown(with_constraints(json!([{"id": "typo", "max_word": 3}])))
            .await
            .contains("unknown field `max_word`")
    );
    insta::assert_snapshot!(unknown(with_guardrails(json!([{"id": "g", "max_chars": 1, "action": "explode"}]))).await, @"guardrail:g: `action` is `explode`: block, warn or rewrite");
}

#[tokio::test]
async fn hooks_observe_and_change_nothing() {
    let notes: Arc<Mutex<Vec<String>>> = Arc::default();
    let note = |what: &'static str| {
        let notes = Arc::clone(&notes);
        move |detail: String| notes.lock().unwrap().push(format!("{what} {detail}"))
    };
    let (prepared, generated, failed) = (note("prepared"), note("generated"), note("failed"));
    let hooks = Hooks::default()
        .on_prepare(move |pass| prepared(pass.prompt().to_owned()))
        .on_generate(move |answer| generated(answer.joined_text()))
        .on_generate(|_| panic!("a hook's own trouble"))
        .on_error(move |err| failed(err.to_string()));
    let prompt = builder().hooks(hooks).build().unwrap();
    let stage = Stage::new().await;
    let agent = agent(&Scripted::new([contexture_model::Step::Answer(says("Hello."))])).build().unwrap();
    assert!(agent.run(&prompt, &stage.thread, hi()).outcome().await.is_ok());
    assert!(agent.run(&prompt, &stage.thread, hi()).outcome().await.is_err());
    assert_eq!(
        notes.lock().unwrap().join(", "),
        "prepared p, generated Hello., prepared p, failed the script is over"
    );
}
