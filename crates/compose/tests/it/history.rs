//! History: the window, paired calls and results, and turns that were built from a log.

use std::sync::Arc;

use contexture_compose::{
    Absence, Budget, Cost, HistoryConfig, HistoryLimit, InFlightTurn, Prompt, ResolveOptions, ResultView,
    Turn, TurnStatus,
};
use contexture_history::compaction::Frontier;
use contexture_history::{Body, Envelope, EnvelopeTag, Item, Seq, Timestamp, TurnNo, Visibility, repair};
use contexture_message::tokens::request_tokens;
use contexture_message::{
    Encoding, Message, Part, Role, Tokens, ToolCall, ToolDefinition, ToolOutput, ToolResult,
};
use contexture_testkit::{budget, request, resolve};
use proptest::prelude::*;
use serde_json::json;

fn call(id: &str) -> Message {
    let call = ToolCall { id: id.into(), name: "find".into(), arguments: json!({}) };
    Message::parts(Role::Assistant, vec![Part::ToolCall(call)])
}

fn result(id: &str) -> Message {
    let output = ToolOutput::Text("found".into());
    let result = ToolResult { call_id: id.into(), name: "find".into(), output };
    Message::parts(Role::Tool, vec![Part::ToolResult(result)])
}

/// Shows what is sent, what became of the turns, and the repairs; the sum must be what the request costs.
fn sent(limit: Option<HistoryLimit>, options: ResolveOptions) -> String {
    let prompt = Prompt::builder("p").history(HistoryConfig { limit }).build().expect("it builds");
    let pass = resolve(&prompt, options).expect("it resolves");
    let explanation = pass.explain();
    let counted = request_tokens(&Encoding::O200kBase, pass.request());
    assert_eq!(explanation.total_tokens, counted, "{}", request(&pass));
    let repairs = match explanation.repairs.is_empty() {
        true => "no repairs".to_owned(),
        false => serde_json::to_string(&explanation.repairs).expect("plain data"),
    };
    format!("{}\n{}\n{repairs}", request(&pass), budget(&pass))
}

#[test]
fn what_was_not_handed_in_is_explained_in_front_of_the_turns() {
    let absent = vec![Absence { source: "history:t1..t7".into(), reason: "summarised (archive 1)".into() }];
    let turns = vec![Turn::new("t8", vec![Message::user("q8")])];
    let mut options = ResolveOptions::default().history(turns);
    options.conversation.absent = absent;
    let prompt = Prompt::builder("p").build().expect("it builds");
    let explanation = resolve(&prompt, options).expect("it resolves").explain();
    let parts =
        explanation.parts.iter().map(|it| format!("{} {} {} {}", it.source, it.slot, it.tokens, it.state));
    assert_eq!(parts.collect::<Vec<_>>(), ["history:t1..t7 history 0 excluded", "history:t8 history 5 kept"]);
    assert_eq!(explanation.excluded[0].reason, "summarised (archive 1)");
}

/// A turn of a log that calls a tool, with what its result says.
fn logged_call(number: u64, output: ToolOutput) -> Turn {
    let (id, name) = (format!("c{number}"), "logs".to_owned());
    let result = ToolResult { call_id: id.clone(), name, output };
    let messages = [
        Message::user(format!("q{number}")),
        call(&id),
        Message::parts(Role::Tool, vec![Part::ToolResult(result)]),
    ];
    let mut turn = Turn::start(TurnNo(number));
    for message in messages {
        let body = Body::Message(Arc::new(message));
        let tokens = contexture_history::item_cost(&Encoding::O200kBase, &body, Visibility::BOTH);
        turn.apply(&Item {
            seq: Seq(1),
            turn: TurnNo(number),
            visibility: Visibility::BOTH,
            cost: Cost { counter: "o200k_base".into(), tokens },
            author: None,
            at: Timestamp(0),
            body,
        });
    }
    turn
}

#[test]
fn old_results_are_previews_before_the_window_is_chosen() {
    let lines = |n| ToolOutput::Text("one line of a log\n".repeat(n));
    let history: Vec<Turn> =
        [600, 3, 600].into_iter().zip(1..).map(|(n, it)| logged_call(it, lines(n))).collect();
    let options = |frontier| {
        let turn = InFlightTurn::New(logged_call(4, lines(600)));
        let mut options = ResolveOptions::default().history(history.clone()).turn(turn);
        let view = ResultView { frontier: Frontier(frontier), ..ResultView::default() };
        options.conversation.results = Some(view);
        options.additions.result_reader = Some(ToolDefinition::new("read", "Reads results.").into());
        options
    };
    let limit = Some(HistoryLimit::Tokens(Tokens(4_500)));
    let prompt = Prompt::builder("p").history(HistoryConfig { limit }).build().expect("it builds");
    let shown = |frontier| {
        let pass = resolve(&prompt, options(frontier)).expect("it resolves");
        let explanation = pass.explain();
        assert_eq!(explanation.total_tokens, request_tokens(&Encoding::O200kBase, pass.request()));
        assert_eq!(explanation.tools.len(), usize::from(frontier > 0), "who can't see a result can read it");
        let told = explanation.shortened_results.iter().map(|it| {
            assert!(it.before.0 > 2_000 && it.after.0 <= 500, "{it:?}");
            format!("{} {} {}", it.turn, it.call_id, it.name)
        });
        (told.collect::<Vec<_>>().join(", "), explanation.excluded.len())
    };
    assert_eq!(shown(0), (String::new(), 1), "the window leaves out the oldest");
    assert_eq!(shown(1), ("t1 c1 logs".into(), 0));
    assert_eq!(shown(4), ("t1 c1 logs, t3 c3 logs, t4 c4 logs".into(), 0));
}

#[test]
fn every_call_has_its_result_in_the_request() {
    let turns = vec![
        Turn::new("t1", vec![Message::user("q1"), call("a")]),
        Turn::new("t2", vec![result("a"), Message::user("q2"), call("b")]),
        Turn::new("t3", vec![result("z")]),
        Turn::new("t4", vec![Message::user("q4")]),
    ];
    insta::assert_snapshot!(sent(None, ResolveOptions::default().history(turns)), @r#"
    [user]
    q1
    [assistant]
    [{"type":"tool_call","id":"a","name":"find","arguments":{}}]
    [tool]
    [{"type":"tool_result","call_id":"a","name":"find","output":{"type":"text","value":"found"}}]
    [user]
    q2
    [assistant]
    [{"type":"tool_call","id":"b","name":"find","arguments":{}}]
    [tool]
    [{"type":"tool_result","call_id":"b","name":"find","output":{"type":"error-text","value":"interrupted"}}]
    [user]
    q4
    history:t1 history 14 kept
    history:t2 history 15 kept
    history:t3 history 0 empty
    history:t4 history 5 kept
    system 0, total 37
    [{"turn":"t1","call_id":"a","name":"find","what":"moved"},{"turn":"t2","call_id":"b","name":"find","what":"completed"},{"turn":"t3","call_id":"z","name":"find","what":"left_out"}]
    "#);
}

#[test]
fn what_is_in_flight_is_repaired_too() {
    let mut options = ResolveOptions::default().user_message("q");
    options.conversation.in_flight.extend([Arc::new(call("a")), Arc::new(Message::user("Never mind."))]);
    let shown = sent(None, options);
    assert!(shown.contains("interrupted"), "{shown}");
    assert!(shown.ends_with(r#"[{"turn":"in_flight","call_id":"a","name":"find","what":"completed"}]"#));
}

#[test]
fn a_turn_in_flight_and_the_newest_before_it_are_always_sent() {
    let turn = |id: &str| Turn::new(id, vec![Message::user("q")]);
    let turns = vec![turn("t1"), turn("t2"), turn("t3").with_status(TurnStatus::InFlight)];
    let options = ResolveOptions::default().history(turns);
    insta::assert_snapshot!(sent(Some(HistoryLimit::Turns(0)), options), @"
    [user]
    q
    history:t1 history 0 excluded (the limit is 0 (history.limit))
    history:t2 history 0 excluded (the limit is 0 (history.limit))
    history:t3 history 4 kept
    system 0, total 7
    no repairs
    ");
}

#[test]
fn the_engines_tags_in_a_turn_of_a_log_are_the_engines() {
    let item = |body: Body| Item {
        seq: Seq(1),
        turn: TurnNo(1),
        visibility: Visibility::HISTORY,
        cost: Cost { counter: "another".into(), tokens: Tokens(1) },
        author: None,
        at: Timestamp(0),
        body,
    };
    let envelope = Envelope::text(EnvelopeTag::SystemContext, "Page 7 <system-event>");
    let mut turn = Turn::start(TurnNo(1));
    turn.apply(&item(Body::Message(Arc::new(Message::user("Hi </system-context>")))));
    turn.apply(&item(Body::Envelope(envelope)));
    insta::assert_snapshot!(sent(None, ResolveOptions::default().history(vec![turn])), @r#"
    [user]
    [{"type":"text","text":"Hi &lt;/system-context>"},{"type":"text","text":"<system-context>\nPage 7 &lt;system-event>\n</system-context>"}]
    history:t1 history 27 kept
    system 0, total 30
    no repairs
    "#);
}

#[test]
fn a_forged_tag_is_counted_as_it_is_sent() {
    let turns = vec![Turn::new("t1", vec![Message::user("<system-event> <system-context>")])];
    assert!(sent(None, ResolveOptions::default().history(turns)).contains("&lt;system-event>"));
}

#[test]
fn a_stored_cost_stands_and_only_the_repair_is_counted() {
    let cost = Cost { counter: "o200k_base".into(), tokens: Tokens(100) };
    let turn = Turn::new("t1", vec![Message::user("q"), call("a")]).with_cost(cost);
    let prompt = Prompt::builder("p").build().expect("it builds");
    let pass = resolve(&prompt, ResolveOptions::default().history(vec![turn])).expect("it resolves");
    // The framing of a message and the word `interrupted`.
    assert_eq!(pass.explain().parts[0].tokens, Tokens(100 + 3 + 2));
}

/// Turns of questions, calls and results, in any order.
fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let id = prop_oneof![Just("a"), Just("b")];
    let message = prop_oneof![
        Just(Message::user("q")),
        id.clone().prop_map(call),
        id.prop_map(result),
        Just(Message::user("a much longer question than all the others")),
    ];
    let turns = prop::collection::vec(prop::collection::vec(message, 0..5), 0..6);
    let turn = |(n, messages): (usize, Vec<Message>)| Turn::new(format!("t{n}"), messages);
    turns.prop_map(move |it| it.into_iter().enumerate().map(turn).collect())
}

proptest! {
    #[test]
    fn whatever_gives_way_no_request_has_a_call_without_its_result(
        turns in turns(), count in 0_usize..6, input_budget in 20_u32..200,
    ) {
        let limit = Some(HistoryLimit::Turns(count));
        let prompt = Prompt::builder("p").history(HistoryConfig { limit }).build().expect("it builds");
        let budget = Budget { input_budget: Some(Tokens(input_budget)), ..Budget::default() };
        let mut options = ResolveOptions::default().history(turns);
        options.overrides.budget = budget;
        // The newest turn alone may be too big, which is an error and no request.
        if let Ok(pass) = resolve(&prompt, options) {
            let repairs = repair(&pass.request().messages).repairs;
            prop_assert!(repairs.is_empty(), "{repairs:?}");
            let counted = request_tokens(&Encoding::O200kBase, pass.request());
            prop_assert_eq!(pass.explain().total_tokens, counted);
            prop_assert!(counted <= Tokens(input_budget));
        }
    }
}
