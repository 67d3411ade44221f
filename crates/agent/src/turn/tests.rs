//! Tables of what a turn does next: the log and what happened since go in, the actions come out.

use std::fmt::Write as _;
use std::sync::Arc;

use contexture_compose::StopCondition;
use contexture_history::{Application, Body, Cost, Item, Seq, Timestamp, TurnNo, Visibility};
use contexture_message::{Message, Part, Role, Tokens, ToolCall, ToolOutput, ToolResult};
use serde_json::{Value, json};

use super::attempt::Attempt;
use super::next::{Action, Ending, Treatment, next};
use super::state::{CallStatus, Limits, Origin, TurnState};
use crate::ResumePolicy;
use crate::checks::Judgement;

/// Replays the lines above the origin (`begun`, `decided`, `client replied`, `recovered, close` or `recovered, repeat`)
/// and applies those below it. Returns the action after the replay and after each line. The only caller of the API.
fn actions(limits: &str, table: &str) -> String {
    let lines: Vec<&str> = table.lines().map(str::trim).filter(|it| !it.is_empty()).collect();
    let at = lines.iter().position(|it| origin(it).is_some()).expect("a table names the origin");
    let items: Vec<Item> = lines[..at].iter().map(|it| item(it)).collect();
    let origin = origin(lines[at]).expect("it was found");
    let mut state = TurnState::replay(&items, origin, limits_of(limits));
    let mut out = String::new();
    for (idx, line) in lines[at..].iter().enumerate() {
        if idx > 0 {
            apply(&mut state, line);
        }
        let _ = writeln!(out, "{line:<20} → {}", shown(&next(&state)));
    }
    out
}

fn origin(line: &str) -> Option<Origin> {
    Some(match line {
        "begun" => Origin::Begun,
        "decided" => Origin::Decided,
        "client replied" => Origin::ClientReplied,
        "recovered, close" => Origin::Recovered(ResumePolicy::CloseCalls),
        "recovered, repeat" => Origin::Recovered(ResumePolicy::RepeatCalls),
        _ => return None,
    })
}

fn limits_of(text: &str) -> Limits {
    let mut limits =
        Limits { stop_when: Vec::new(), max_steps: 10, output_repairs: 1, constraint_retries: 2 };
    for (key, value) in text.split(", ").filter_map(|it| it.split_once('=')) {
        let number = || value.parse().expect("a number");
        match key {
            "max_steps" => limits.max_steps = number(),
            "steps" => limits.stop_when.push(StopCondition::MaxSteps(number())),
            "tool" => limits.stop_when.push(StopCondition::ToolCalled(value.to_owned())),
            other => panic!("no limit `{other}`"),
        }
    }
    limits
}

/// Parses a line of the log.
fn item(line: &str) -> Item {
    let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
    let own = |kind: &str, value: Value| Body::Application(Application { kind: kind.to_owned(), value });
    let body = match kind {
        "user" => Body::Message(Message::user(rest).into()),
        "text" => Body::Message(Message::assistant(rest).into()),
        "calls" => Body::Message(calls(rest)),
        "result" => {
            let output = ToolOutput::Text("done".to_owned());
            let result = ToolResult { call_id: rest.to_owned(), name: "look".to_owned(), output };
            Body::Message(Message::parts(Role::Tool, vec![Part::ToolResult(result)]).into())
        }
        "attempt" => {
            own("contexture.attempt", json!({"message": Message::assistant(rest), "feedback": "no"}))
        }
        "suspended" => {
            let client_calls: Vec<&str> = rest.split_whitespace().collect();
            let usage = json!({"input_tokens": 5, "output_tokens": 5});
            let run = json!({"prompt": "p", "client_calls": client_calls, "steps": 1, "usage": usage, "cost": null});
            own("contexture.run", run)
        }
        "asked" => {
            let call = json!({"id": rest, "name": "pay", "arguments": {}});
            own("contexture.approval", json!({"id": rest, "call": call, "token_sha256": ""}))
        }
        "approved" => own("contexture.approval_decision", json!({"id": rest, "verdict": "approve"})),
        "denied" => own(
            "contexture.approval_decision",
            json!({"id": rest, "verdict": {"deny": {"reason": "too much"}}}),
        ),
        other => panic!("no item `{other}`"),
    };
    let cost = Cost { counter: Arc::from(""), tokens: Tokens(0) };
    let (seq, turn, at) = (Seq(1), TurnNo(1), Timestamp(0));
    Item { seq, turn, visibility: Visibility::BOTH, cost, author: None, at, body }
}

/// Parses calls: `look#a pay#b` are a call of `look` with the id `a` and one of `pay` with the id `b`.
fn calls(text: &str) -> Arc<Message> {
    let parts = text.split_whitespace().map(|it| {
        let (name, id) = it.split_once('#').expect("a call is `name#id`");
        Part::ToolCall(ToolCall { id: id.to_owned(), name: name.to_owned(), arguments: json!({}) })
    });
    Arc::new(Message::parts(Role::Assistant, parts.collect()))
}

/// Applies a line about what happened after the replay.
fn apply(state: &mut TurnState, line: &str) {
    let answered = |state: &mut TurnState, message: Arc<Message>, is_paused: bool| {
        state.call_made();
        state.spent.steps += 1;
        state.receive(message, is_paused);
    };
    match line.split_once(' ').unwrap_or((line, "")) {
        ("text", text) => answered(state, Arc::new(Message::assistant(text)), false),
        ("pauses", text) => answered(state, Arc::new(Message::assistant(text)), true),
        ("calls", text) => answered(state, calls(text), false),
        ("answered", ids) => {
            ids.split_whitespace().for_each(|it| state.set(it, CallStatus::Answered));
        }
        ("needs-approval", id) => state.set(id, CallStatus::NeedsApproval),
        ("needs-client", id) => state.set(id, CallStatus::NeedsClient),
        ("accepted", _) => state.judged(Judgement::Accepted(None)),
        ("misfit", _) => state.judged(Judgement::Misfit { faults: Vec::new(), feedback: "no".to_owned() }),
        ("fails", _) => state.judged(Judgement::Failed { failures: Vec::new(), feedback: "no".to_owned() }),
        ("retried", _) => {
            let message = Arc::new(Message::assistant("bad"));
            state.rejected(Attempt { message, feedback: "no".to_owned(), place: 1, is_shown: true });
        }
        ("cancelled", _) => state.is_cancelled = true,
        (other, _) => panic!("no fact `{other}`"),
    }
}

fn shown(action: &Action) -> String {
    let ids = |calls: &[ToolCall]| {
        let ids: Vec<&str> = calls.iter().map(|it| it.id.as_str()).collect();
        if ids.is_empty() { "none".to_owned() } else { ids.join(" ") }
    };
    match action {
        Action::CallModel => "call the model".to_owned(),
        Action::Judge => "judge".to_owned(),
        Action::Retry => "retry".to_owned(),
        Action::RunTools(calls) => {
            let each = calls.iter().map(|(call, treatment)| match treatment {
                Treatment::Run => format!("run {}", call.id),
                Treatment::RunApproved => format!("run approved {}", call.id),
                Treatment::Deny { reason } => {
                    format!("deny {} ({})", call.id, reason.as_deref().unwrap_or("-"))
                }
                Treatment::Interrupt => format!("interrupt {}", call.id),
            });
            each.collect::<Vec<_>>().join(", ")
        }
        Action::Ask { approvals, client } => {
            format!("ask: approve {}, client {}", ids(approvals), ids(client))
        }
        Action::Wait { for_decision, client } => {
            format!("wait: decision {for_decision}, client {}", ids(client))
        }
        Action::End(Ending::Ended(ended)) => format!("end: {ended:?}"),
        Action::End(ending) => format!("end: {ending:?}"),
    }
}

#[test]
fn a_turn_begins_with_a_call_and_ends_with_an_accepted_answer() {
    insta::assert_snapshot!(actions("", "
        begun
        text Hi.
        accepted
    "), @"
    begun                → call the model
    text Hi.             → judge
    accepted             → end: Answered
    ");
}

#[test]
fn tools_run_and_the_model_is_called_again() {
    insta::assert_snapshot!(actions("", "
        begun
        calls look#a look#b
        answered a b
        text Done.
        accepted
    "), @"
    begun                → call the model
    calls look#a look#b  → run a, run b
    answered a b         → call the model
    text Done.           → judge
    accepted             → end: Answered
    ");
}

#[test]
fn a_paused_answer_is_continued_within_the_limits() {
    insta::assert_snapshot!(actions("max_steps=2", "
        begun
        pauses So
        pauses far
    "), @"
    begun                → call the model
    pauses So            → call the model
    pauses far           → end: MaxSteps(2)
    ");
}

#[test]
fn calls_of_the_client_and_approvals_wait_for_the_others() {
    insta::assert_snapshot!(actions("", "
        begun
        calls look#a pay#b shop#c
        needs-client c
        needs-approval b
        answered a
    "), @"
    begun                → call the model
    calls look#a pay#b shop#c → run a, run b, run c
    needs-client c       → run a, run b
    needs-approval b     → run a
    answered a           → ask: approve b, client c
    ");
}

#[test]
fn nothing_runs_until_every_decision_and_result_has_arrived() {
    let suspended = "
        user hi
        calls look#a pay#b pay#c shop#d
        result a
        suspended d
        asked b
        asked c
    ";
    insta::assert_snapshot!(actions("", &format!("{suspended} approved b \n decided")), @"decided              → wait: decision true, client d");
    insta::assert_snapshot!(actions("", &format!("{suspended} approved b \n denied c \n decided")), @"decided              → wait: decision false, client d");
    insta::assert_snapshot!(actions("", &format!("{suspended} result d \n client replied")), @"client replied       → wait: decision true, client none");
    insta::assert_snapshot!(
        actions("", &format!("{suspended} approved b \n denied c \n result d \n client replied \n answered b c")),
        @"
    client replied       → run approved b, deny c (too much)
    answered b c         → call the model
    "
    );
}

#[test]
fn a_first_decision_is_kept() {
    insta::assert_snapshot!(actions("", "
        user hi
        calls pay#b
        suspended
        asked b
        denied b
        approved b
        decided
    "), @"decided              → deny b (too much)");
}

#[test]
fn results_of_the_client_continue_the_turn_or_stop_it() {
    let replied = "
        user hi
        calls shop#a
        suspended a
        result a
        client replied
    ";
    insta::assert_snapshot!(actions("", replied), @"client replied       → call the model");
    insta::assert_snapshot!(actions("tool=shop", replied), @r#"client replied       → end: ToolCalled("shop")"#);
    // The client decides how often to continue, so earlier steps do not count.
    insta::assert_snapshot!(actions("max_steps=1", replied), @"client replied       → call the model");
}

#[test]
fn a_decision_continues_with_the_steps_of_the_suspended_run() {
    insta::assert_snapshot!(actions("max_steps=1", "
        user hi
        calls pay#b
        suspended
        asked b
        approved b
        decided
        answered b
    "), @"
    decided              → run approved b
    answered b           → end: MaxSteps(1)
    ");
}

#[test]
fn rejected_answers_are_retried_a_bounded_number_of_times() {
    insta::assert_snapshot!(actions("", "
        begun
        text bad
        misfit
        retried
        text bad
        misfit
    "), @"
    begun                → call the model
    text bad             → judge
    misfit               → retry
    retried              → call the model
    text bad             → judge
    misfit               → end: Rejected
    ");
    insta::assert_snapshot!(actions("", "
        begun
        text bad
        fails
        retried
        text bad
        fails
        retried
        text bad
        fails
    "), @"
    begun                → call the model
    text bad             → judge
    fails                → retry
    retried              → call the model
    text bad             → judge
    fails                → retry
    retried              → call the model
    text bad             → judge
    fails                → end: Rejected
    ");
}

#[test]
fn a_rejected_answer_is_not_retried_beyond_the_step_limit() {
    insta::assert_snapshot!(actions("max_steps=1", "
        begun
        text bad
        fails
    "), @"
    begun                → call the model
    text bad             → judge
    fails                → end: Rejected
    ");
}

#[test]
fn stop_conditions_are_checked_once_a_round_is_answered() {
    insta::assert_snapshot!(actions("tool=pay", "
        begun
        calls look#a
        answered a
        calls pay#b
        answered b
    "), @r#"
    begun                → call the model
    calls look#a         → run a
    answered a           → call the model
    calls pay#b          → run b
    answered b           → end: ToolCalled("pay")
    "#);
    insta::assert_snapshot!(actions("max_steps=1, steps=2", "
        begun
        calls look#a
        answered a
        calls look#b
        answered b
    "), @"
    begun                → call the model
    calls look#a         → run a
    answered a           → call the model
    calls look#b         → run b
    answered b           → end: MaxSteps(2)
    ");
}

#[test]
fn a_cancelled_run_answers_every_call_before_it_ends() {
    insta::assert_snapshot!(actions("", "
        begun
        calls look#a pay#b shop#c
        needs-approval b
        needs-client c
        answered a
        cancelled
        answered b c
    "), @"
    begun                → call the model
    calls look#a pay#b shop#c → run a, run b, run c
    needs-approval b     → run a, run c
    needs-client c       → run a
    answered a           → ask: approve b, client c
    cancelled            → interrupt b, interrupt c
    answered b c         → end: Cancelled
    ");
}

#[test]
fn calls_of_a_lost_process_are_closed_or_repeated() {
    let lost = "
        user hi
        calls look#a look#b
    ";
    insta::assert_snapshot!(actions("", &format!("{lost} recovered, close \n answered a b")), @"
    recovered, close     → interrupt a, interrupt b
    answered a b         → call the model
    ");
    insta::assert_snapshot!(actions("", &format!("{lost} recovered, repeat \n answered a b")), @"
    recovered, repeat    → run a, run b
    answered a b         → call the model
    ");
    insta::assert_snapshot!(actions("", &format!("{lost} result a \n recovered, close")), @"recovered, close     → interrupt b");
    insta::assert_snapshot!(actions("", &format!("{lost} result a \n recovered, repeat")), @"recovered, repeat    → run b");
}

#[test]
fn approved_calls_of_a_lost_process_may_have_run() {
    let decided = "
        user hi
        calls pay#a pay#b
        suspended
        asked a
        asked b
        approved a
        denied b
    ";
    insta::assert_snapshot!(actions("", &format!("{decided} recovered, close")), @"recovered, close     → interrupt a, deny b (too much)");
    insta::assert_snapshot!(actions("", &format!("{decided} recovered, repeat")), @"recovered, repeat    → run approved a, deny b (too much)");
}

#[test]
fn a_recovered_turn_still_waits_for_its_replies() {
    insta::assert_snapshot!(actions("", "
        user hi
        calls pay#a pay#b
        suspended
        asked a
        asked b
        approved a
        recovered, repeat
    "), @"recovered, repeat    → wait: decision true, client none");
}

#[test]
fn a_recovered_turn_with_all_results_calls_the_model() {
    // Its steps count, but it gets its next answer: the limit is checked after a round, not before a call.
    insta::assert_snapshot!(actions("max_steps=2", "
        user hi
        attempt bad
        calls look#a
        result a
        recovered, close
        calls look#b
        answered b
    "), @"
    recovered, close     → call the model
    calls look#b         → run b
    answered b           → end: MaxSteps(2)
    ");
}

#[test]
fn an_incomplete_answer_is_generated_again() {
    insta::assert_snapshot!(actions("", "
        user hi
        text Once upon
        recovered, close
    "), @"recovered, close     → call the model");
}
