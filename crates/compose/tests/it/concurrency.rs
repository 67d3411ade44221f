//! Contributors side by side: waiting, deadlines, failures, the memo.

use std::sync::Arc;
use std::time::Duration;

use contexture_compose::ports::{Collected, DenySources, EngineEvent, InMemoryMemo, ManualClock};
use contexture_compose::{
    Context, Contribution, Engine, OnError, Profile, Prompt, ResolveOptions, Text, contributor,
};
use contexture_testkit::{Probe, TokioTime, failure, request, resolve, runtime};
use serde_json::{Value, json};
use tokio::time::Instant;

fn with_clock() -> Engine {
    Engine { clock: Arc::new(TokioTime::new()), ..Engine::default() }
}

#[test]
fn two_hundred_waiting_contributors_wait_together() {
    let wait = Duration::from_millis(20);
    let prompt = (0..200)
        .fold(Prompt::builder("p"), |it, n| it.contribute(Probe::new(format!("c{n:03}")).waiting(wait)));
    let prompt = prompt.build().expect("it builds");
    let (pass, took) = runtime().block_on(async {
        let started = Instant::now();
        (prompt.resolve(ResolveOptions::default()).await.expect("it resolves"), started.elapsed())
    });
    // One after the other would take 4 seconds on the clock of the runtime, which counts nothing but waiting.
    assert!(took < 2 * wait, "{took:?}");
    let text = pass.request().messages[0].as_text().expect("a text");
    assert!(text.starts_with("c000\n\nc001\n\nc002") && text.ends_with("c199"));
}

#[test]
fn the_order_is_resolved_order_whoever_finishes_first() {
    let slow = Probe::new("slow").waiting(Duration::from_millis(30));
    let prompt =
        Prompt::builder("p").contribute(slow).contribute(Probe::new("quick")).build().expect("it builds");
    let pass = resolve(&prompt, ResolveOptions::default()).expect("it resolves");
    assert_eq!(request(&pass), "[system]\nslow\n\nquick");
}

#[test]
fn explaining_runs_nothing_again() {
    let probe = Probe::new("probe");
    let prompt = Prompt::builder("p").contribute(probe.clone()).build().expect("it builds");
    let pass = resolve(&prompt, ResolveOptions::default()).expect("it resolves");
    let first = pass.explain();
    assert_eq!(pass.explain(), first);
    let _ = (pass.request(), pass.fingerprint(), pass.segments());
    assert_eq!(probe.calls(), 1);
}

#[test]
fn a_missed_deadline_fails_the_pass_or_leaves_the_entry_out() {
    let late = |on_error| {
        let wait = Duration::from_secs(600);
        let profile = Profile { deadline: Some(Duration::from_millis(5)), on_error, ..Profile::default() };
        let prompt =
            Prompt::builder("p").system("Own.").contribute(Probe::new("late").waiting(wait).profile(profile));
        resolve(&prompt.build().expect("it builds"), ResolveOptions::default().engine(&with_clock()))
    };
    insta::assert_snapshot!(
        failure(&late(OnError::Fail).expect_err("too late")),
        @"deadline_exceeded at p: contributor:late did not finish within 5ms"
    );
    let pass = late(OnError::Skip).expect("it resolves");
    assert_eq!(request(&pass), "[system]\nOwn.");
    assert_eq!(pass.explain().excluded[0].reason, "skipped: contributor:late did not finish within 5ms");
}

#[test]
fn blocks_run_at_once_and_a_late_one_is_left_out() {
    let block = |name: &str, wait: u64| {
        let text = name.to_owned();
        let waiting = contexture_compose::Block::dynamic(name, move |_| {
            let text = text.clone();
            async move {
                tokio::time::sleep(Duration::from_millis(wait)).await;
                Ok(text)
            }
        });
        waiting.deadline(Duration::from_millis(200)).on_error(OnError::Skip)
    };
    let prompt =
        Prompt::builder("p").include(block("b", 20)).include(block("a", 20)).include(block("late", 60_000));
    let options = ResolveOptions::default().engine(&with_clock());
    let pass = resolve(&prompt.build().expect("it builds"), options).expect("it resolves");
    assert_eq!(request(&pass), "[system]\n<a>\na\n</a>\n\n<b>\nb\n</b>");
    assert_eq!(pass.explain().excluded[0].reason, "skipped: block:late did not finish within 200ms");
}

#[test]
fn a_failure_names_its_source_and_keeps_the_original_error() {
    let failing = |on_error| {
        let context = Context::text("broken", Text::try_of(|_: &Value| Err::<String, _>("no database")))
            .on_error(on_error);
        let prompt = Prompt::builder("p").system("Own.").include(context).build().expect("it builds");
        resolve(&prompt, ResolveOptions::default())
    };
    let err = failing(OnError::Fail).expect_err("it fails");
    insta::assert_snapshot!(failure(&err), @"contributor_failed at p: context:broken: the contributor failed: no database");
    assert_eq!(std::error::Error::source(&err).map(ToString::to_string).as_deref(), Some("no database"));
    let pass = failing(OnError::Skip).expect("it resolves");
    assert_eq!(
        pass.explain().excluded[0].reason,
        "skipped: context:broken: the contributor failed: no database"
    );
}

#[test]
fn a_deadline_without_a_clock_is_warned_of() {
    let prompt = Prompt::builder("p").include(
        contributor("c", |_| async { Ok(Contribution::text("C.")) }).deadline(Duration::from_secs(1)),
    );
    let heard = Collected::default();
    let engine = Engine { diagnostics: Arc::new(heard.clone()), ..Engine::default() };
    let pass = resolve(&prompt.build().expect("it builds"), ResolveOptions::default().engine(&engine))
        .expect("it resolves");
    let warning = "contributor:c has a deadline, but the engine has no clock to keep it";
    assert_eq!(pass.explain().warnings, [warning]);
    assert_eq!(heard.warnings(), [format!("p: {warning}")]);
}

#[test]
fn the_memo_runs_a_contributor_once_for_the_same_input_until_it_expires() {
    let profile = Profile { remember: Some(Duration::from_secs(60)), ..Profile::default() };
    let probe = Probe::new("probe").profile(profile).waiting(Duration::from_millis(5));
    let prompt = Prompt::builder("p").contribute(probe.clone()).build().expect("it builds");
    let clock = ManualClock::default();
    let engine = Engine { clock: Arc::new(clock.clone()), ..Engine::default() };
    let options = |n: u32| ResolveOptions::new(json!({"n": n})).engine(&engine);

    runtime().block_on(async {
        // Single flight: many at once are one call.
        let many = (0..50).map(|_| prompt.resolve(options(1)));
        futures::future::try_join_all(many).await.expect("all resolve");
        assert_eq!(probe.calls(), 1);
        prompt.resolve(options(2)).await.expect("another input");
        assert_eq!(probe.calls(), 2);
        clock.advance(Duration::from_secs(61));
        prompt.resolve(options(1)).await.expect("expired");
        assert_eq!(probe.calls(), 3);
    });
}

#[test]
fn the_memo_is_bounded_and_forgets_failures() {
    let memo = InMemoryMemo::new(2);
    let engine = Engine { memo: Arc::new(memo.clone()), ..Engine::default() };
    let failing = Context::text(
        "f",
        Text::try_of(|it: &Value| match it["ok"].as_bool() {
            Some(true) => Ok("fine"),
            _ => Err("broken"),
        }),
    );
    let prompt =
        Prompt::builder("p").include(failing.remember(Duration::from_secs(60))).build().expect("it builds");
    let run = |input: Value| resolve(&prompt, ResolveOptions::new(input).engine(&engine));
    assert_eq!(
        failure(&run(json!({"n": 1})).expect_err("broken")),
        "contributor_failed at p: context:f: the contributor failed: broken"
    );
    assert!(memo.is_empty());
    for n in 0..5 {
        run(json!({"n": n, "ok": true})).expect("fine");
    }
    assert_eq!(memo.len(), 2);
}

#[test]
fn the_sink_hears_of_every_contributor_and_the_pass() {
    let heard = Collected::default();
    let engine = Engine { sink: Arc::new(heard.clone()), ..Engine::default() };
    let prompt = Prompt::builder("p").include(Context::text("a", "A.")).build().expect("it builds");
    resolve(&prompt, ResolveOptions::default().engine(&engine)).expect("it resolves");
    let events = heard.events();
    assert!(
        matches!(&events[0], EngineEvent::Contributed { source, ok: true, .. } if source.to_string() == "context:a")
    );
    assert!(matches!(&events[1], EngineEvent::Resolved { prompt, .. } if prompt == "p"));
}

#[test]
fn a_policy_has_the_last_word_with_a_reason_on_record() {
    let engine =
        Engine { policy: Arc::new(DenySources(vec!["context:secret".to_owned()])), ..Engine::default() };
    let prompt = Prompt::builder("p")
        .system("Own.")
        .include(Context::text("secret", "Secret."))
        .build()
        .expect("it builds");
    let pass = resolve(&prompt, ResolveOptions::default().engine(&engine)).expect("it resolves");
    assert_eq!(request(&pass), "[system]\nOwn.");
    assert_eq!(pass.explain().excluded[0].reason, "denied by policy");
}

#[test]
fn a_policy_is_asked_before_templates_can_read_a_value() {
    let engine = Engine { policy: Arc::new(DenySources(vec!["context:s".to_owned()])), ..Engine::default() };
    let prompt = Prompt::builder("p")
        .system(Text::template("Own {{ config.context.secret | default: 'nothing' }}").expect("a template"))
        .include(Context::new("s").values(json!({"secret": "HIDDEN"})));
    let pass = resolve(&prompt.build().expect("it builds"), ResolveOptions::default().engine(&engine))
        .expect("it resolves");
    assert_eq!(request(&pass), "[system]\nOwn nothing");
    assert_eq!(pass.explain().excluded[0].source, "context:s");
}

#[test]
fn what_is_remembered_belongs_to_one_entry() {
    let minute = Duration::from_secs(60);
    let text = |it: &'static str| Text::of(move |_: &Value| it);
    let inner = Context::unnamed(text("inner")).remember(minute);
    let prompt = Prompt::builder("p")
        .include(Context::unnamed(text("outer")).remember(minute))
        .include(Context::text("x", "X").include(inner))
        .build()
        .expect("it builds");
    let pass = resolve(&prompt, ResolveOptions::default()).expect("it resolves");
    assert_eq!(request(&pass), "[system]\nouter\n\ninner\n\nX");
}

#[test]
fn a_run_that_was_given_up_or_panicked_is_not_remembered() {
    let calls = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let flaky = contributor("flaky", move |_| {
        let call = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        async move {
            match call {
                0 => futures::future::pending().await,
                1 => panic!("once"),
                _ => Ok(Contribution::text("fine")),
            }
        }
    });
    let profile = Profile {
        remember: Some(Duration::MAX),
        deadline: Some(Duration::from_millis(5)),
        on_error: OnError::Skip,
        ..Profile::default()
    };
    let prompt = Prompt::builder("p").include(flaky.profile(profile)).build().expect("it builds");
    let engine = with_clock();
    let run = || resolve(&prompt, ResolveOptions::default().engine(&engine)).expect("it resolves");
    assert_eq!(request(&run()), "", "given up at the deadline");
    assert_eq!(request(&run()), "", "panicked");
    assert_eq!(request(&run()), "[system]\nfine");
    assert_eq!(request(&run()), "[system]\nfine");
    assert_eq!(calls.load(std::sync::atomic::Ordering::SeqCst), 3);
}

#[test]
fn the_time_of_the_request_does_not_spoil_what_is_remembered() {
    let probe = Probe::new("probe")
        .profile(Profile { remember: Some(Duration::from_secs(60)), ..Profile::default() });
    let prompt = Prompt::builder("p").contribute(probe.clone()).build().expect("it builds");
    for second in 0..3 {
        let mut options = ResolveOptions::default();
        options.scope.now = Some(format!("2026-07-01T09:30:0{second}Z"));
        resolve(&prompt, options).expect("it resolves");
    }
    assert_eq!(probe.calls(), 1);
}

#[test]
fn prompts_that_share_an_engine_share_what_it_remembers() {
    let heard = Collected::default();
    let engine = Engine { sink: Arc::new(heard.clone()), ..Engine::default() };
    let prompt = Prompt::builder("p").system("Own.").build().expect("it builds").with_engine(&engine);
    resolve(&prompt, ResolveOptions::default()).expect("it resolves");
    assert_eq!(heard.events().len(), 1);
}
