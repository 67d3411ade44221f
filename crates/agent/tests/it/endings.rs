//! Whatever way a turn ends, the thread afterwards is a valid request for every provider.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use contexture_agent::{Agent, CancellationToken, Checked, Run, RunRequest, Tool};
use contexture_compose::{BoxFuture, Constraint, Prompt, contributor};
use contexture_history::{Timestamp, TurnStatus};
use contexture_message::{Answer, Delta, Part, ToolCall};
use contexture_model::{Deltas, Model, ModelCall, ModelError, ModelErrorKind, Scripted, Step};
use contexture_session::{Policy, Ports, SessionConfig, SessionId, SessionStart, Sessions, Thread, Time};
use contexture_store_sqlite::{SqliteConfig, SqliteStore};
use futures::{FutureExt, Stream, StreamExt, stream};
use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};
use serde_json::json;

use crate::stage::{Stage, TestTime, agent, calls, echo, hi, ports, prompt, says, script, told};
use crate::valid::assert_valid_everywhere;

/// A model that lets others run between two pieces, so that there is something to wait for everywhere.
struct Halting(Scripted);

impl Model for Halting {
    fn stream(&self, call: ModelCall) -> Deltas {
        let waits = stream::unfold(self.0.stream(call), |mut deltas| async move {
            tokio::task::yield_now().await;
            deltas.next().await.map(|it| (it, deltas))
        });
        waits.boxed()
    }
}

/// Tools for every way in which a tool can end.
fn tools() -> Vec<Tool> {
    let tool = |name: &str, run: fn() -> Result<serde_json::Value, contexture_compose::BoxError>| {
        Tool::new(contexture_message::ToolDefinition::new(name, "A tool."), move |_| async move {
            tokio::task::yield_now().await;
            run()
        })
        .unwrap()
    };
    vec![
        tool("good", || Ok(json!("fine"))),
        tool("bad", || Err("broken".into())),
        tool("panics", || panic!("a tool's own trouble")),
        tool("large", || Ok(json!("x".repeat(200_000)))),
        echo("asks").needs_approval(),
        Tool::new(contexture_message::ToolDefinition::new("hangs", "Never ends."), |_| {
            std::future::pending()
        })
        .unwrap()
        .timeout(Duration::from_millis(5)),
    ]
}

fn halting(model: &Scripted) -> Agent {
    let builder =
        Agent::builder(Halting(model.clone()), Arc::new(TestTime), crate::stage::Counting::default());
    tools().into_iter().fold(builder, |it, tool| it.tool(tool)).build().unwrap()
}

/// How somebody stops a turn from outside.
#[derive(Clone, Copy, Debug)]
enum Stop {
    Never,
    /// The run is dropped after so many polls, as by a client that goes away or a process that dies.
    Dropped(usize),
    /// The run is cancelled after so many events.
    Cancelled(usize),
}

async fn stopped(mut run: Run, cancel: &CancellationToken, stop: Stop) {
    let (mut polls, mut events) = (0, 0);
    loop {
        let next = futures::future::poll_fn(|cx| {
            polls += 1;
            match stop {
                Stop::Dropped(after) if polls > after => std::task::Poll::Ready(Err(())),
                _ => std::pin::Pin::new(&mut run).poll_next(cx).map(Ok),
            }
        });
        match next.await {
            Err(()) | Ok(None) => return,
            Ok(Some(_)) => events += 1,
        }
        if matches!(stop, Stop::Cancelled(after) if events >= after) {
            cancel.cancel();
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let name = prop_oneof![
        Just("good"),
        Just("bad"),
        Just("panics"),
        Just("large"),
        Just("asks"),
        Just("hangs"),
        Just("nobody")
    ];
    let call = (name, prop_oneof![Just(json!({})), Just(json!("{broken")), Just(json!([1]))]);
    let calling = (vec(call, 1..4), any::<bool>()).prop_map(|(calls, speaks)| {
        let calls = calls.into_iter().enumerate().map(|(idx, (name, arguments))| {
            Part::ToolCall(ToolCall { id: format!("c{idx}"), name: name.to_owned(), arguments })
        });
        let text = speaks.then(|| Part::text("Let me see."));
        Step::Answer(Answer::parts(text.into_iter().chain(calls).collect()))
    });
    let breaks = |text: &str| {
        vec![
            Delta::Text(text.to_owned()),
            Delta::Call { index: 0, id: "half".to_owned(), name: "good".to_owned() },
            Delta::Arguments { index: 0, json: "{\"a\":".to_owned() },
        ]
    };
    let error = || ModelError::new(ModelErrorKind::Disconnected, "cut");
    prop_oneof![
        4 => calling,
        2 => Just(Step::Answer(Answer::text("An answer."))),
        1 => Just(Step::Answer(Answer::text(""))),
        1 => Just(Step::Fail(error())),
        1 => Just(Step::Pieces(breaks("Half an ans"), Some(error()))),
        1 => Just(Step::Pieces(breaks(""), Some(error()))),
    ]
}

fn stop() -> impl Strategy<Value = Stop> {
    prop_oneof![
        Just(Stop::Never),
        (0usize..40).prop_map(Stop::Dropped),
        (0usize..12).prop_map(Stop::Cancelled),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_thread_is_a_valid_request_whatever_happened(turns in vec((vec(step(), 1..5), stop()), 1..4)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let stage = Stage::new().await;
            for (steps, stop) in turns {
                let cancel = CancellationToken::new();
                let request = RunRequest { cancel: cancel.clone(), ..hi() };
                let run = halting(&Scripted::new(steps)).run(&prompt(), &stage.thread, request);
                stopped(run, &cancel, stop).await;
            }
            // Another process goes on; whoever held the lease is gone.
            let elsewhere = stage.elsewhere().await;
            let model = Scripted::always(Answer::text("ok"));
            agent(&model).build().unwrap().run(&prompt(), &elsewhere, hi()).outcome().await.unwrap();
            assert_valid_everywhere(model.requests().last().unwrap());
        });
    }
}

#[tokio::test]
async fn text_that_came_before_a_failure_is_kept() {
    let stage = Stage::new().await;
    let err = ModelError::new(ModelErrorKind::Disconnected, "cut");
    let model = Scripted::new([Step::Pieces(vec![Delta::Text("Half an".into())], Some(err))]);
    let (events, outcome) = told(agent(&model).build().unwrap().run(&prompt(), &stage.thread, hi())).await;
    assert_eq!(outcome.unwrap_err().code(), "model_unreachable");
    assert!(events.ends_with(r#"error {"code":"model_unreachable","message":"cut"}"#), "{events}");
    insta::assert_snapshot!(stage.log().await, @r#"
    t1 {"turn_began":{}}
    t1 user: hi
    t1 assistant: Half an
    t1 {"turn_ended":{"status":"failed","reason":"cut","code":"model_unreachable"}}
    "#);
}

#[tokio::test]
async fn a_cancelled_turn_is_interrupted_with_what_was_said() {
    let stage = Stage::new().await;
    let model = Scripted::new([Step::Pieces(vec![Delta::Text("On and".into())], None)]);
    let request = hi();
    let cancel = request.cancel.clone();
    let mut run = agent(&model).build().unwrap().run(&prompt(), &stage.thread, request);
    while let Some(event) = run.next().await {
        if matches!(event, contexture_agent::Event::TextDelta { .. }) {
            cancel.cancel();
        }
    }
    assert!(run.outcome().await.unwrap_err().is_cancelled());
    let log = stage.log().await;
    let end = r#"t1 {"turn_ended":{"status":"interrupted","reason":"cancelled","code":"cancelled"}}"#;
    assert!(log.ends_with(&format!("t1 assistant: On and\n{end}")), "{log}");
}

#[tokio::test]
async fn a_cancelled_round_answers_every_call() {
    let stage = Stage::new().await;
    let hangs = Tool::new(contexture_message::ToolDefinition::new("hangs", "Never ends."), |_| {
        std::future::pending()
    });
    let model = script([calls([("a", "good", json!({})), ("b", "hangs", json!({}))])]);
    let request = hi();
    let cancel = request.cancel.clone();
    let agent = agent(&model).tool(echo("good")).tool(hangs.unwrap()).build().unwrap();
    let mut run = agent.run(&prompt(), &stage.thread, request);
    while let Some(event) = run.next().await {
        if matches!(event, contexture_agent::Event::ToolResult { .. }) {
            cancel.cancel();
        }
    }
    assert!(run.outcome().await.unwrap_err().is_cancelled());
    let log = stage.log().await;
    assert!(
        log.contains(
            "a->{\"type\":\"json\",\"value\":{}} b->{\"type\":\"error-text\",\"value\":\"interrupted\"}"
        ),
        "{log}"
    );
}

/// A prompt whose one constraint is a function.
fn judged() -> Prompt {
    let constraint: Constraint = serde_json::from_value(json!({"id": "judge"})).unwrap();
    Prompt::builder("p").model("test/m").constraint(constraint).build().unwrap()
}

/// Runs, cancels after a while, and returns how it ended; a run that does not hear of it never returns.
async fn cancelled(run: Run, cancel: CancellationToken) -> &'static str {
    let stop = async {
        tokio::time::sleep(Duration::from_millis(5)).await;
        cancel.cancel();
    };
    let ended = futures::join!(tokio::time::timeout(Duration::from_secs(1), run.outcome()), stop).0;
    ended.map_or("never", |it| it.map_or_else(|err| err.code().as_str(), |_| "done"))
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_for_another_turn_can_be_cancelled() {
    let stage = Stage::new().await;
    let model = Scripted::new([Step::Pieces(vec![Delta::Text("On and".into())], None)]);
    let mut first = agent(&model).build().unwrap().run(&prompt(), &stage.thread, hi());
    first.next().await.unwrap();
    let request = hi();
    let cancel = request.cancel.clone();
    let second = agent(&script([says("never")])).build().unwrap().run(&prompt(), &stage.thread, request);
    assert_eq!(cancelled(second, cancel).await, "cancelled");
    assert!(!stage.log().await.contains("t2"));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_for_a_check_or_an_entry_can_be_cancelled() {
    let stage = Stage::new().await;
    let hangs = |_: Checked| std::future::pending::<Result<(), String>>();
    let agent_with = || agent(&script([says("said")])).constraint("judge", hangs).build().unwrap();
    let request = hi();
    let cancel = request.cancel.clone();
    let run = agent_with().run(&judged(), &stage.thread, request);
    assert_eq!(cancelled(run, cancel).await, "cancelled");
    assert!(stage.log().await.contains("{\"status\":\"interrupted\",\"reason\":\"cancelled\""));

    let entry = contributor("hangs", |_| std::future::pending());
    let prompt = Prompt::builder("p").model("test/m").include(entry).build().unwrap();
    let request = hi();
    let cancel = request.cancel.clone();
    let run = agent_with().run(&prompt, &stage.thread, request);
    assert_eq!(cancelled(run, cancel).await, "cancelled");
    assert!(!stage.log().await.contains("t2"));
}

#[tokio::test(start_paused = true)]
async fn a_slow_check_does_not_lose_the_thread() {
    let stage = Stage::new().await;
    let slow = |_: Checked| async {
        tokio::time::sleep(Duration::from_secs(600)).await;
        Ok(())
    };
    let run = agent(&script([says("fine")])).constraint("judge", slow).build().unwrap().run(
        &judged(),
        &stage.thread,
        hi(),
    );
    let other = async {
        tokio::time::sleep(Duration::from_secs(400)).await;
        let (thread, request) = (stage.elsewhere().await, RunRequest { policy: Policy::Reject, ..hi() });
        agent(&script([says("never")])).build().unwrap().run(&prompt(), &thread, request).outcome().await
    };
    let (ours, theirs) = futures::join!(run.outcome(), other);
    assert_eq!(
        (ours.unwrap().text().as_str(), theirs.unwrap_err().code().as_str()),
        ("fine", "turn_in_progress")
    );
}

#[tokio::test]
async fn a_dropped_run_is_interrupted_for_the_next_writer() {
    let stage = Stage::new().await;
    let model = Scripted::new([Step::Pieces(vec![], None)]);
    let agent = agent(&model).build().unwrap();
    let mut run = agent.run(&prompt(), &stage.thread, hi());
    assert!(run.next().await.is_some());
    assert!(run.next().now_or_never().is_none());
    drop(run);
    assert_eq!(stage.thread.get().state().open.unwrap().status, TurnStatus::InFlight);
    stage.thread.add_message(contexture_message::Message::user("again")).await.unwrap();
    assert!(stage.log().await.contains("\"status\":\"interrupted\",\"reason\":\"its writer was lost\""));
}

const FILE: &str = "CONTEXTURE_AGENT_CRASH_FILE";
const KILLS: u64 = 25;

/// The time of day: leases of killed processes run out.
#[derive(Debug)]
struct RealTime;

impl Time for RealTime {
    fn now(&self) -> Timestamp {
        let since = std::time::UNIX_EPOCH.elapsed().unwrap();
        Timestamp(i64::try_from(since.as_millis()).unwrap())
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

async fn stored(file: &Path) -> Thread {
    let store = SqliteStore::open(file, SqliteConfig::new(Arc::new(RealTime))).unwrap();
    // A short lease: whoever was killed does not hold up the next one for long.
    let config = SessionConfig { lease: Duration::from_millis(20), ..SessionConfig::default() };
    let ports = Ports { time: Arc::new(RealTime), ..ports() };
    let sessions = Sessions::new(Arc::new(store), ports, config);
    let id = SessionId::parse("s").unwrap();
    match sessions.open(&id).await {
        Ok(session) => session.main().clone(),
        Err(_) => sessions.create(SessionStart { id: Some(id), label: None }).await.unwrap().main().clone(),
    }
}

/// Not a test of its own: what the test below starts and kills. It runs turns with tools until it is killed.
#[tokio::test]
#[ignore = "started by `a_killed_process_leaves_a_valid_thread`"]
async fn child() {
    let Some(file) = std::env::var_os(FILE) else { return };
    let thread = stored(Path::new(&file)).await;
    loop {
        let model = script([calls([("a", "good", json!({})), ("b", "bad", json!({}))]), says("done")]);
        halting(&model).run(&prompt(), &thread, hi()).outcome().await.unwrap();
        std::io::Write::write_all(&mut std::io::stdout(), b"turn\n").unwrap();
    }
}

#[tokio::test]
async fn a_killed_process_leaves_a_valid_thread() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.db");
    for kill in 0..KILLS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["endings::child", "--exact", "--ignored", "--nocapture"])
            .env(FILE, &file)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.any(|it| it.ends_with("turn")), "the child ran a turn");
        std::thread::sleep(Duration::from_micros(kill * 7919 % 4000));
        child.kill().unwrap();
        child.wait().unwrap();
        let model = Scripted::always(Answer::text("ok"));
        let thread = stored(&file).await;
        agent(&model).build().unwrap().run(&prompt(), &thread, hi()).outcome().await.unwrap();
        assert_valid_everywhere(model.requests().last().unwrap());
    }
}
