//! Archives: what the model reads in their place, and that nothing is lost.

use std::sync::Arc;

use contexture_history::compaction::{Layout, Plan, PlanLimits, Trigger};
use contexture_history::{EnvelopeTag, Item, Seq, TurnNo};
use contexture_message::{Message, Part, Role, Tokens, ToolCall, ToolOutput, ToolResult};
use contexture_session::{
    Begun, MemoryStore, NewItem, Ports, SessionConfig, SessionError, SessionId, SessionStart, Sessions,
    Thread, TurnConfig, View,
};
use futures::executor::block_on;
use proptest::collection;
use proptest::prelude::{Just, Strategy};
use proptest::{prop_oneof, proptest};
use serde_json::json;

use crate::threads::{Counting, Ticking, words};

/// A thread, and how somebody else opens it.
pub(crate) struct Stage {
    pub(crate) store: MemoryStore,
    pub(crate) thread: Thread,
}

impl Stage {
    pub(crate) fn new(window: usize) -> Self {
        let time = Arc::new(Ticking::default());
        let store = MemoryStore::new(time);
        let sessions = opened(&store, window);
        let session = block_on(sessions.create(SessionStart::default())).unwrap();
        Self { store, thread: session.main().clone() }
    }

    /// Runs a turn with a call of a tool.
    pub(crate) async fn turn(&self, text: &str, with_tool: bool) {
        let items = vec![
            NewItem::from(Message::user(text)),
            NewItem::envelope(EnvelopeTag::SystemContext, format!("page of {text}")),
        ];
        let begun = self.thread.begin(TurnConfig { items, ..TurnConfig::default() }).await.unwrap();
        let Begun::Running(mut turn) = begun else { panic!("it runs") };
        if with_tool {
            turn.append(called(text)).await.unwrap();
        }
        turn.complete(vec![NewItem::from(Message::assistant(format!("answer to {text}")))]).await.unwrap();
    }

    async fn archive(&self, strategy: How) -> Option<(View, Plan)> {
        let view = self.thread.view().await.unwrap();
        let plan = planned(&view, strategy)?;
        self.thread.archive_range(&view, &view.archive(&plan, text(&plan), Vec::new())).await.unwrap();
        Some((view, plan))
    }

    /// What the model reads, as this process and as a new one see it.
    pub(crate) async fn reads(&self) -> String {
        let live = written(&self.thread);
        let others = opened(&self.store, self.thread.history_window());
        let session = others.open(&SessionId::parse(self.thread.id().as_str()).unwrap()).await.unwrap();
        assert_eq!(live, written(session.main()), "a new process reads the same");
        live
    }
}

pub(crate) fn opened(store: &MemoryStore, window: usize) -> Sessions {
    let ports = Ports {
        time: Arc::new(Ticking::default()),
        names: Arc::new(Counting::default()),
        counter: Arc::new(words),
    };
    let config = SessionConfig { history_window: window, ..SessionConfig::default() };
    Sessions::new(Arc::new(store.clone()), ports, config)
}

fn called(text: &str) -> Vec<NewItem> {
    let call = ToolCall { id: format!("c {text}"), name: "look".into(), arguments: json!({"at": text}) };
    let output = ToolOutput::Text(format!("seen {text}"));
    let result = ToolResult { call_id: call.id.clone(), name: "look".into(), output };
    vec![
        NewItem::from(Message::parts(Role::Assistant, vec![Part::ToolCall(call)])),
        NewItem::from(Message::parts(Role::Tool, vec![Part::ToolResult(result)])),
    ]
}

fn text(plan: &Plan) -> Result<String, String> {
    Ok(format!("sum of {} rounds", plan.n_rounds))
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    Micro,
    Full,
}

pub(crate) fn planned(view: &View, how: How) -> Option<Plan> {
    let limits = PlanLimits {
        min_range_tokens: Tokens(1),
        preserve_recent_api_rounds: 1,
        ..PlanLimits::for_window(Tokens(100))
    };
    let layout = Layout::new(&view.items, view.open(), &words);
    match how {
        How::Micro => layout.micro(Trigger::Asked, &limits).ok(),
        How::Full => layout.full(Trigger::Asked, &limits).ok(),
    }
}

fn written(thread: &Thread) -> String {
    let snapshot = thread.get();
    let turns = snapshot.turns().iter().map(|turn| {
        let messages = turn.messages().iter().map(|it| serde_json::to_string(it).unwrap());
        format!("{} {}\n", turn.id(), messages.collect::<Vec<_>>().join(" "))
    });
    let omitted = snapshot.omitted().iter().map(|it| format!("{}: {}\n", it.turns, it.reason));
    omitted.chain(turns).chain([format!("old {}", snapshot.n_old_results())]).collect()
}

#[test]
fn a_summary_takes_the_place_of_what_it_covers() {
    let stage = Stage::new(50);
    block_on(async {
        for text in ["one", "two", "three"] {
            stage.turn(text, text == "two").await;
        }
        stage.archive(How::Micro).await.unwrap();
        stage.turn("four", false).await;
        stage.archive(How::Micro).await.unwrap();
        insta::assert_snapshot!(stage.reads().await, @r#"
        t1..t2: summarised in a1 (items 1 to 10)
        t2..t3: summarised in a2 (items 11 to 17)
        a1 {"role":"user","content":[{"type":"text","text":"<system-event name=\"compaction\">\nMessages of t1 to t2 were summarised. The tool `recall`, if offered, searches archive a1.\n</system-event>"},{"type":"text","text":"The conversation before this point was summarised; the summary stands in its place.\n\nsum of 2 rounds"}]}
        a2 {"role":"user","content":[{"type":"text","text":"<system-event name=\"compaction\">\nMessages of t2 to t3 were summarised. The tool `recall`, if offered, searches archive a2.\n</system-event>"},{"type":"text","text":"The conversation before this point was summarised; the summary stands in its place.\n\nsum of 2 rounds"}]}
        t4 {"role":"user","content":[{"type":"text","text":"four"},{"type":"text","text":"<system-context>\npage of four\n</system-context>"}]} {"role":"assistant","content":"answer to four"}
        old 0
        "#);
        stage.archive(How::Full).await.unwrap();
        insta::assert_snapshot!(stage.reads().await, @r#"
        t1..t3: summarised in a3 (items 1 to 17)
        a3 {"role":"user","content":[{"type":"text","text":"<system-event name=\"compaction\">\nMessages of t1 to t3 were summarised. The tool `recall`, if offered, searches archive a3.\n</system-event>"},{"type":"text","text":"The conversation before this point was summarised; the summary stands in its place.\n\nsum of 2 rounds"}]}
        t4 {"role":"user","content":[{"type":"text","text":"four"},{"type":"text","text":"<system-context>\npage of four\n</system-context>"}]} {"role":"assistant","content":"answer to four"}
        old 0
        "#);
        let archives = stage.thread.archives().await.unwrap();
        let lines = archives.iter().map(|it| {
            let archived = &it.archived;
            let (first, last) = (archived.first, archived.last);
            format!("{} {first}..{last} holds: {} {}\n", archived.name(), it.holds, it.summary.text)
        });
        insta::assert_snapshot!(lines.collect::<String>(), @r"
        a1 1..10 holds: false sum of 2 rounds
        a2 11..17 holds: false sum of 2 rounds
        a3 1..17 holds: true sum of 2 rounds
        ");
        let kinds = stage.thread.archive(1).await.unwrap();
        insta::assert_snapshot!(kinds.iter().map(|it| it.body.kind()).collect::<Vec<_>>().join(" "), @"turn_began user envelope assistant turn_ended turn_began user envelope assistant tool");
        let err = stage.thread.archive(9).await.unwrap_err();
        assert_eq!(err.to_string(), format!("thread `{}` has no archive a9", stage.thread.id()));
    });
}

#[test]
fn what_is_appended_meanwhile_stays_and_only_one_of_two_commits() {
    let stage = Stage::new(50);
    block_on(async {
        for text in ["one", "two", "three"] {
            stage.turn(text, false).await;
        }
        let view = stage.thread.view().await.unwrap();
        let plan = planned(&view, How::Full).unwrap();
        stage.turn("meanwhile", false).await;
        let new = view.archive(&plan, text(&plan), Vec::new());
        stage.thread.archive_range(&view, &new).await.unwrap();
        let again = stage.thread.archive_range(&view, &new).await.unwrap_err();
        assert!(matches!(again, SessionError::ViewChanged { .. }), "{again}");
        let reads = stage.reads().await;
        assert!(reads.contains("meanwhile") && !reads.contains("answer to one"), "{reads}");
        assert_eq!(stage.thread.archives().await.unwrap().len(), 1);
    });
}

#[test]
fn a_range_inside_a_running_turn_is_archived_there() {
    let stage = Stage::new(50);
    block_on(async {
        stage.turn("before", false).await;
        let items = vec![NewItem::from(Message::user("go"))];
        let begun = stage.thread.begin(TurnConfig { items, ..TurnConfig::default() }).await.unwrap();
        let Begun::Running(mut turn) = begun else { panic!("it runs") };
        for text in ["a", "b", "c"] {
            turn.append(called(text)).await.unwrap();
        }
        let view = turn.thread().view().await.unwrap();
        let limits = PlanLimits {
            min_range_tokens: Tokens(1),
            preserve_recent_api_rounds: 1,
            ..PlanLimits::for_window(Tokens(10))
        };
        let layout = Layout::weighed(&view.items, view.open(), |it| {
            if it.turn == turn.turn() { Tokens(10) } else { Tokens(1) }
        });
        let plan = layout.full(Trigger::Asked, &limits).unwrap();
        turn.archive(&view, &view.archive(&plan, text(&plan), Vec::new())).await.unwrap();
        insta::assert_snapshot!(stage.reads().await, @r#"
        t2: summarised in a1 (items 8 to 11)
        t1 {"role":"user","content":[{"type":"text","text":"before"},{"type":"text","text":"<system-context>\npage of before\n</system-context>"}]} {"role":"assistant","content":"answer to before"}
        t2 {"role":"user","content":"go"} {"role":"user","content":[{"type":"text","text":"<system-event name=\"compaction\">\nMessages of t2 were summarised. The tool `recall`, if offered, searches archive a1.\n</system-event>"},{"type":"text","text":"The conversation before this point was summarised; the summary stands in its place.\n\nsum of 2 rounds"}]} {"role":"assistant","content":[{"type":"tool_call","id":"c c","name":"look","arguments":{"at":"c"}}]} {"role":"tool","content":[{"type":"tool_result","call_id":"c c","name":"look","output":{"type":"text","value":"seen c"}}]}
        old 0
        "#);
        turn.complete(Vec::new()).await.unwrap();
    });
}

#[test]
fn old_results_are_counted_and_hidden_context_is_left_out_with_a_reason() {
    let stage = Stage::new(50);
    block_on(async {
        stage.turn("one", true).await;
        stage.turn("two", true).await;
        let end = stage.thread.get().state().end;
        stage.turn("three", true).await;
        stage.thread.add(vec![NewItem::aged(end, Seq(4))]).await.unwrap();
        insta::assert_snapshot!(stage.reads().await, @r#"
        t1: hidden context that is older than is kept
        t1 {"role":"user","content":"one"} {"role":"assistant","content":[{"type":"tool_call","id":"c one","name":"look","arguments":{"at":"one"}}]} {"role":"tool","content":[{"type":"tool_result","call_id":"c one","name":"look","output":{"type":"text","value":"seen one"}}]} {"role":"assistant","content":"answer to one"}
        t2 {"role":"user","content":[{"type":"text","text":"two"},{"type":"text","text":"<system-context>\npage of two\n</system-context>"}]} {"role":"assistant","content":[{"type":"tool_call","id":"c two","name":"look","arguments":{"at":"two"}}]} {"role":"tool","content":[{"type":"tool_result","call_id":"c two","name":"look","output":{"type":"text","value":"seen two"}}]} {"role":"assistant","content":"answer to two"}
        t3 {"role":"user","content":[{"type":"text","text":"three"},{"type":"text","text":"<system-context>\npage of three\n</system-context>"}]} {"role":"assistant","content":[{"type":"tool_call","id":"c three","name":"look","arguments":{"at":"three"}}]} {"role":"tool","content":[{"type":"tool_result","call_id":"c three","name":"look","output":{"type":"text","value":"seen three"}}]} {"role":"assistant","content":"answer to three"}
        old 2
        "#);
    });
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Turn,
    ToolTurn,
    Event,
    Archive(How),
    Undo,
    Note,
    Age,
    Reset,
}

pub(crate) fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => Just(Op::Turn),
        4 => Just(Op::ToolTurn),
        1 => Just(Op::Event),
        4 => Just(Op::Archive(How::Micro)),
        2 => Just(Op::Archive(How::Full)),
        3 => Just(Op::Undo),
        1 => Just(Op::Note),
        1 => Just(Op::Age),
        1 => Just(Op::Reset),
    ]
}

pub(crate) async fn play(stage: &Stage, op: &Op, number: usize) {
    let text = format!("n{number}");
    match op {
        Op::Turn => stage.turn(&text, false).await,
        Op::ToolTurn => stage.turn(&text, true).await,
        Op::Event => drop(stage.thread.add(vec![NewItem::event("seen", text)]).await.unwrap()),
        Op::Archive(how) => {
            let before = stage.reads().await;
            if stage.archive(*how).await.is_some() && number.is_multiple_of(2) {
                let undone = stage.thread.undo().await.unwrap();
                assert!(undone.is_some());
                assert_eq!(stage.reads().await, before, "undone, everything reads as before");
            }
        }
        Op::Undo => drop(stage.thread.undo().await.unwrap()),
        Op::Note => drop(stage.thread.add(vec![NewItem::note("k", Some(json!(text)))]).await.unwrap()),
        Op::Age => {
            let end = stage.thread.get().state().end;
            stage.thread.add(vec![NewItem::aged(Seq(end.0 / 2), Seq(end.0 / 3))]).await.unwrap();
        }
        Op::Reset => drop(stage.thread.reset_history().await.unwrap()),
    }
}

/// Every item that the history sees is read, covered, left out by name, outside of the window, or before the reset.
pub(crate) async fn nothing_is_missing(stage: &Stage) {
    let snapshot = stage.thread.get();
    let state = snapshot.state();
    let older = snapshot.omitted().iter().find_map(|it| TurnNo::parse(it.turns.strip_prefix("..")?));
    let read: Vec<Seq> = stage.thread.view().await.unwrap().items.iter().map(|it| it.seq).collect();
    for item in stage.thread.full_history().await.unwrap() {
        let is_known = item.seq <= state.history_after
            || state.archives.iter().any(|it| it.covers(item.seq))
            || item.seq <= state.aged_hidden
            || older.is_some_and(|it| item.turn <= it)
            || read.contains(&item.seq);
        assert!(is_known, "item {} is neither read nor archived", item.seq);
    }
}

proptest! {
    #[test]
    fn archives_lose_nothing(ops in collection::vec(op(), 1..24)) {
        let stage = Stage::new(50);
        block_on(async {
            let mut said: Vec<Item> = Vec::new();
            for (number, op) in ops.iter().enumerate() {
                play(&stage, op, number).await;
                let full = stage.thread.full_history().await.unwrap();
                assert_eq!(full[..said.len()], said[..], "what was said stays as it was");
                said = full;
                stage.reads().await;
                nothing_is_missing(&stage).await;
            }
        });
    }
}
