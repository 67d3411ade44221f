//! Summaries are tested before they are trusted, and nothing that was said is ever lost by one.

use std::sync::Arc;
use std::time::Duration;

use contexture_agent::{Agent, AgentConfig, CompactRequest, CompactionConfig, CompactionReport, Made};
use contexture_agent::{CancellationToken, RunRequest, Summarizer};
use contexture_compose::Prompt;
use contexture_history::{Body, Item, RedactRule, redact};
use contexture_message::{
    Answer, Encoding, Message, Settings, StopReason, Tokens, ToolChoice, ToolDefinition, message_tokens,
};
use contexture_model::{Scripted, Step};
use contexture_session::Thread;
use futures::FutureExt;
use serde_json::json;

use crate::scene::{Summaries, faithful, small_window, words};
use crate::stage::{Counting, Stage, TestTime, is_beside, prompt, says, told};

/// What only a bad summary says.
const BAD: &str = "Nobody ever said such a thing";

async fn filled(thread: &Thread, turns: usize) {
    for turn in 0..turns {
        let question =
            format!("Always be kind. What is in src/file_{turn}.rs? {}", words("the question", 80));
        let answer = words(&format!("answer {turn}"), 200);
        thread.add_messages(vec![Message::user(question), Message::assistant(answer)]).await.unwrap();
    }
}

fn agent(summaries: impl Summarizer + 'static) -> Agent {
    let model = Scripted::always(says("Fine."));
    Agent::builder(model, Arc::new(TestTime), Counting::default()).summarizer(summaries).build().unwrap()
}

async fn compacted(agent: &Agent, thread: &Thread) -> CompactionReport {
    agent.compact(&prompt(), thread, CompactRequest::default()).await.unwrap()
}

/// The items that were ever said, each as text with everything that is known of it.
async fn whole(thread: &Thread) -> Vec<String> {
    let items = thread.full_history().await.unwrap();
    items.iter().filter(|it| !is_beside(it)).map(|it| format!("{it:?}")).collect()
}

/// Checks that a bad summary changed nothing but that excerpts stand in the place of the range.
async fn refused(summaries: Summaries, reason: &str) {
    let stage = Stage::new().await;
    filled(&stage.thread, 8).await;
    let before = whole(&stage.thread).await;
    let report = compacted(&agent(summaries), &stage.thread).await;
    assert_eq!((report.accepted, report.made), (false, Made::Extract), "{report:?}");
    assert!(report.reason.as_ref().is_some_and(|it| it.contains(reason)), "{report:?}");
    assert_eq!(whole(&stage.thread).await, before);
    let log = stage.thread.all(None).await.unwrap();
    assert!(!format!("{log:?}").contains(BAD));
    let archives = stage.thread.archives().await.unwrap();
    assert_eq!(archives.len(), 1);
    assert!(archives[0].summary.text.contains("Always be kind."), "{}", archives[0].summary.text);
    assert!(report.tokens_after < report.tokens_before && report.messages_after < report.messages_before);
}

#[tokio::test]
async fn a_summariser_that_fails_is_replaced_by_excerpts() {
    refused(Summaries::failing(), "the summariser failed: no").await;
}

#[tokio::test]
async fn one_that_panics_is_too() {
    #[allow(unreachable_code, reason = "the type of what is never returned")]
    let panics = Summaries::of(|_| async {
        panic!("{BAD}");
        Ok(String::new())
    });
    refused(panics, "it panicked").await;
}

#[tokio::test]
async fn one_that_says_nothing_is_too() {
    for nothing in ["", " \n\t", "…"] {
        refused(Summaries::of(move |_| async move { Ok(nothing.to_owned()) }), "the summary is empty").await;
    }
}

#[tokio::test]
async fn one_that_says_too_much_is_too() {
    let long = |call| async move { Ok(format!("{}\n{BAD}\n{}", faithful(&call), words("it", 9_000))) };
    refused(Summaries::of(long), "are allowed").await;
}

#[tokio::test]
async fn one_that_refuses_is_too() {
    let refuses = |call| async move { Ok(format!("I'm sorry, but I can't. {BAD}. {}", faithful(&call))) };
    refused(Summaries::of(refuses), "the summary is a refusal").await;
}

#[tokio::test]
async fn one_that_leaves_out_what_must_stay_is_taken_and_that_is_added() {
    let stage = Stage::new().await;
    filled(&stage.thread, 8).await;
    let summaries = Summaries::of(|_| async { Ok("They spoke.".to_owned()) });
    let report = compacted(&agent(summaries), &stage.thread).await;
    assert_eq!((report.accepted, report.made), (true, Made::Summary), "{report:?}");
    let archives = stage.thread.archives().await.unwrap();
    assert!(archives[0].summary.facts.iter().any(|it| it.text == "Always be kind."), "{archives:?}");
    let read = format!("{:?}", stage.thread.get().turns()[0].messages());
    assert!(read.contains("They spoke.") && read.contains("- Always be kind."), "{read}");
}

#[tokio::test(start_paused = true)]
async fn one_that_hangs_is_too() {
    refused(Summaries::of(|_| futures::future::pending()), "it took longer than 120 s").await;
}

#[tokio::test]
async fn a_model_that_does_not_finish_its_summary_is_not_trusted() {
    // The model's own words hold every fact: only how it stopped says that they are no summary.
    for stop in [StopReason::MaxTokens, StopReason::Refused] {
        let stage = Stage::new().await;
        filled(&stage.thread, 8).await;
        let facts = Summaries::of(|call| async move { Ok(faithful(&call)) });
        let probe = Stage::new().await;
        filled(&probe.thread, 8).await;
        compacted(&agent(facts.clone()), &probe.thread).await;
        let words = faithful(&facts.calls()[0]);
        let model = Scripted::new([Step::Answer(Answer { stop: stop.clone(), ..Answer::text(words) })]);
        let agent = Agent::builder(model, Arc::new(TestTime), Counting::default()).build().unwrap();
        let report = compacted(&agent, &stage.thread).await;
        assert_eq!((report.accepted, report.made), (false, Made::Extract), "{stop:?} {report:?}");
    }
}

#[tokio::test]
async fn a_good_summary_is_taken_and_all_fields_are_told() {
    let stage = Stage::new().await;
    filled(&stage.thread, 12).await;
    let config = CompactionConfig { trigger_tokens: Some(Tokens(1_000)), ..CompactionConfig::default() };
    let agent = Agent::builder(Scripted::always(says("Fine.")), Arc::new(TestTime), Counting::default())
        .config(AgentConfig { compaction: config, ..AgentConfig::default() })
        .summarizer(Summaries::faithful())
        .build()
        .unwrap();
    let (events, outcome) = told(agent.run(&prompt(), &stage.thread, RunRequest::user("And now?"))).await;
    let report = &outcome.unwrap().compactions[0];
    let start = events.lines().find(|it| it.starts_with("context_compaction_start")).unwrap();
    for field in ["strategy", "trigger", "messages_before", "tokens_before"] {
        assert!(start.contains(&format!("\"{field}\"")), "{start}");
    }
    let end = events.lines().find(|it| it.starts_with("context_compaction_end")).unwrap();
    for field in ["strategy", "trigger", "messages_before", "messages_after", "tokens_before", "tokens_after"]
    {
        assert!(end.contains(&format!("\"{field}\"")), "{end}");
    }
    assert!(
        end.contains("\"archive\":\"a1\",\"accepted\":true") && end.contains("\"made\":\"summary\""),
        "{end}"
    );
    assert_eq!(json!(report)["strategy"], "session_compaction");
    let start_at = events.find("context_compaction_start").unwrap();
    assert!(start_at < events.find("context_compaction_end").unwrap());
    assert!(events.find("turn.start").unwrap() < start_at, "{events}");
}

#[tokio::test]
async fn turns_that_are_appended_meanwhile_stay() {
    let stage = Stage::new().await;
    filled(&stage.thread, 8).await;
    let (here, there) = (stage.thread.clone(), stage.elsewhere().await);
    let busy = Summaries::of(move |call| {
        let (here, there) = (here.clone(), there.clone());
        async move {
            here.add_messages(vec![Message::user("from here"), Message::assistant("ok")]).await?;
            there.add_messages(vec![Message::user("from there"), Message::assistant("ok")]).await?;
            Ok(faithful(&call))
        }
    });
    let report = compacted(&agent(busy), &stage.thread).await;
    assert_eq!((report.made, report.archive.as_deref()), (Made::Summary, Some("a1")), "{report:?}");
    for thread in [stage.thread.clone(), stage.elsewhere().await] {
        let read = format!("{:?}", thread.view().await.unwrap().items);
        assert!(read.contains("from here") && read.contains("from there"), "{read}");
        assert!(format!("{:?}", thread.get().turns()).contains("from there"));
    }
}

#[tokio::test]
async fn of_two_at_the_same_time_one_commits() {
    for other_process in [false, true] {
        let stage = Stage::new().await;
        filled(&stage.thread, 8).await;
        let before = whole(&stage.thread).await;
        let other = if other_process { stage.elsewhere().await } else { stage.thread.clone() };
        let slow = Summaries::of(|call| async move {
            tokio::task::yield_now().await;
            Ok(faithful(&call))
        });
        let agent = agent(slow);
        let (one, two) = tokio::join!(compacted(&agent, &stage.thread), compacted(&agent, &other));
        let made: Vec<Made> = [&one, &two].into_iter().map(|it| it.made).collect();
        assert!(made.contains(&Made::Summary) && made.contains(&Made::Unchanged), "{one:?} {two:?}");
        let loser = if one.made == Made::Unchanged { &one } else { &two };
        assert!(loser.archive.is_none() && loser.reason.is_some(), "{loser:?}");
        stage.thread.refresh().await.unwrap();
        assert_eq!(stage.thread.archives().await.unwrap().len(), 1);
        assert_eq!(whole(&stage.thread).await, before);
    }
}

#[tokio::test]
async fn an_interrupted_summary_changes_nothing() {
    let stage = Stage::new().await;
    filled(&stage.thread, 8).await;
    let log = |thread: Thread| async move { format!("{:?}", thread.all(None).await.unwrap()) };
    let before = log(stage.thread.clone()).await;
    let agent = agent(Summaries::of(|_| futures::future::pending()));
    // Dropped.
    assert!(agent.compact(&prompt(), &stage.thread, CompactRequest::default()).now_or_never().is_none());
    assert_eq!(log(stage.thread.clone()).await, before);
    // Cancelled.
    let cancel = CancellationToken::new();
    let request = CompactRequest { cancel: cancel.clone(), ..CompactRequest::default() };
    let prompt = prompt();
    let work = agent.compact(&prompt, &stage.thread, request);
    let stop = async {
        tokio::task::yield_now().await;
        cancel.cancel();
    };
    assert_eq!(tokio::join!(work, stop).0.unwrap_err().code(), "cancelled");
    assert_eq!(log(stage.thread.clone()).await, before);
    // The thread can be used as before.
    assert_eq!(compacted(&self::agent(Summaries::faithful()), &stage.thread).await.made, Made::Summary);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_stopped_while_it_is_compacted_leaves_the_history_as_it_was() {
    let stage = Stage::new().await;
    filled(&stage.thread, 12).await;
    let before = whole(&stage.thread).await;
    let config = CompactionConfig { trigger_tokens: Some(Tokens(1_000)), ..CompactionConfig::default() };
    let agent = Agent::builder(Scripted::always(says("Fine.")), Arc::new(TestTime), Counting::default())
        .config(AgentConfig { compaction: config, ..AgentConfig::default() })
        .summarizer(Summaries::of(|_| futures::future::pending()))
        .build()
        .unwrap();
    let cancel = CancellationToken::new();
    let request = RunRequest { cancel: cancel.clone(), ..RunRequest::user("And now?") };
    let run = agent.run(&prompt(), &stage.thread, request).outcome();
    let stop = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        cancel.cancel();
    };
    assert_eq!(tokio::join!(run, stop).0.unwrap_err().code(), "cancelled");
    // Dropped in the middle, as by a kill; the next writer finds the turn and ends it.
    let run = agent.run(&prompt(), &stage.thread, RunRequest::user("Again?")).outcome();
    assert!(tokio::time::timeout(Duration::from_secs(5), run).await.is_err());
    assert!(stage.thread.archives().await.unwrap().is_empty());
    let after = whole(&stage.thread).await;
    assert_eq!(after[..before.len()], before[..]);
    let outcome = self::agent(Summaries::faithful())
        .run(&prompt(), &stage.thread, RunRequest::user("Well?"))
        .outcome()
        .await;
    assert_eq!(outcome.unwrap().text(), "Fine.");
}

#[tokio::test]
async fn after_any_number_of_compactions_and_undos_everything_is_still_there() {
    let stage = Stage::new().await;
    let agent = agent(Summaries::faithful());
    let mut said: Vec<Vec<String>> = Vec::new();
    for step in 0..6 {
        filled(&stage.thread, 5).await;
        said.push(whole(&stage.thread).await);
        assert_eq!(compacted(&agent, &stage.thread).await.made, Made::Summary, "{step}");
        if step % 3 == 1 {
            let view = stage.thread.view().await.unwrap();
            assert!(stage.thread.undo().await.unwrap().is_some());
            assert_ne!(stage.thread.view().await.unwrap().items, view.items);
        }
        let now = whole(&stage.thread).await;
        assert_eq!(said.last(), Some(&now), "{step}");
        assert_eq!(whole(&stage.elsewhere().await).await, now, "{step}");
    }
    // All of them taken back: what the model reads is what was said.
    while stage.thread.undo().await.unwrap().is_some() {}
    let is_said = |it: &&Item| matches!(it.body, Body::Message(_));
    let read = stage.thread.view().await.unwrap().items;
    let full = stage.thread.full_history().await.unwrap();
    assert_eq!(
        read.iter().filter(is_said).collect::<Vec<_>>(),
        full.iter().filter(is_said).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn archives_return_exactly_what_they_cover() {
    let stage = Stage::new().await;
    filled(&stage.thread, 8).await;
    let full = stage.thread.full_history().await.unwrap();
    compacted(&agent(Summaries::failing()), &stage.thread).await;
    let archived = stage.thread.archives().await.unwrap()[0].archived.clone();
    let covered: Vec<&Item> = full.iter().filter(|it| archived.covers(it.seq)).collect();
    let archive = stage.thread.archive(1).await.unwrap();
    assert!(!covered.is_empty());
    assert_eq!(archive.iter().collect::<Vec<_>>(), covered);
}

#[tokio::test]
async fn a_thread_with_nothing_to_summarise_says_so() {
    let stage = Stage::new().await;
    let report = compacted(&agent(Summaries::faithful()), &stage.thread).await;
    assert_eq!((report.made, report.archive), (Made::Unchanged, None));
    assert!(report.reason.is_some());
}

#[tokio::test]
async fn a_model_is_asked_so_that_it_can_answer() {
    // The conversation wants short answers, and a tool call in each of them: no way to summarise anything.
    let stage = Stage::new().await;
    filled(&stage.thread, 8).await;
    let model = Scripted::always(says("Too short to hold any fact."));
    let agent = Agent::builder(model.clone(), Arc::new(TestTime), Counting::default()).build().unwrap();
    let settings = Settings { max_tokens: Some(8), ..Settings::default() };
    let prompt = Prompt::builder("p").model("test/model").system("Be brief.").settings(settings);
    let prompt =
        prompt.tool(ToolDefinition::new("look", "Looks.")).tool_choice(ToolChoice::Required).build().unwrap();
    agent.compact(&prompt, &stage.thread, CompactRequest::default()).await.unwrap();
    let request = &model.requests()[0];
    assert!(request.settings.max_tokens.is_some_and(|it| it > 200), "{:?}", request.settings);
    assert_eq!((request.tool_choice.as_ref(), request.tools.len()), (None, 1));
}

#[tokio::test]
async fn a_summary_costs_what_it_costs_and_the_question_fits_the_window() {
    // The default summariser asks the model of the conversation, whose window is small.
    let stage = Stage::new().await;
    filled(&stage.thread, 12).await;
    let model = Scripted::always(says("Too short to hold any fact."));
    let agent = Agent::builder(model.clone(), Arc::new(TestTime), Counting::default())
        .catalogue(small_window(4_000))
        .build()
        .unwrap();
    let prompt = Prompt::builder("p").model("test/model").system("Be brief.").build().unwrap();
    let outcome = agent.run(&prompt, &stage.thread, RunRequest::user("And now?")).outcome().await.unwrap();
    assert!(!outcome.compactions.is_empty());
    assert!(outcome.usage.input_tokens > 10, "summaries are paid for too: {:?}", outcome.usage);
}

#[tokio::test]
async fn what_a_transform_takes_out_gets_into_no_summary() {
    const SECRET: &str = "sk-abcdefghijklmnopqrstuvwxyz0123456789ABCD";
    let rules = [RedactRule::built_in("api_key").unwrap()];
    let prompt = Prompt::builder("p").model("test/model").transform(redact(rules)).build().unwrap();
    for summaries in [Summaries::faithful(), Summaries::failing()] {
        let stage = Stage::new().await;
        let question = format!("Always use \"{SECRET}\" as the key. {}", words("why", 100));
        let said = vec![Message::user(question), Message::assistant(words("yes", 200))];
        stage.thread.add_messages(said).await.unwrap();
        filled(&stage.thread, 5).await;
        let report =
            agent(summaries.clone()).compact(&prompt, &stage.thread, CompactRequest::default()).await;
        assert!(report.unwrap().archive.is_some());
        for call in summaries.calls() {
            let asked = format!("{:?} {:?} {}", call.request, call.messages, call.prompt.user);
            assert!(!asked.contains(SECRET) && asked.contains("[redacted:api_key]"));
        }
        let summary = stage.thread.archives().await.unwrap().remove(0).summary.text;
        assert!(!summary.contains(SECRET), "{summary}");
    }
}

#[tokio::test]
async fn an_event_tells_what_was_summarised_and_goes_with_the_summary() {
    let stage = Stage::new().await;
    filled(&stage.thread, 8).await;
    let agent = agent(Summaries::of(|_| async { Ok("They spoke.".to_owned()) }));
    let events = |thread: &Thread| -> Vec<String> {
        let turns = thread.get();
        let messages = turns.turns().iter().flat_map(|it| it.messages().to_vec());
        let texts = messages.map(|it| it.joined_text()).filter(|it| it.contains("<system-event"));
        texts.map(|it| it.split("\n</system-event>").next().unwrap().to_owned()).collect()
    };
    compacted(&agent, &stage.thread).await;
    insta::assert_snapshot!(events(&stage.thread).join("\n---\n"), @r#"
    <system-event name="compaction">
    Messages of t1 to t6 were summarised. The tool `recall`, if offered, searches archive a1.
    "#);
    // It is counted as part of the summary, and was when the summary was tested.
    let archive = stage.thread.archives().await.unwrap().remove(0);
    assert!(archive.after < archive.summary.before, "{archive:?}");
    let summary = stage.thread.get().turns()[0].messages()[0].clone();
    assert_eq!(message_tokens(&Encoding::O200kBase, &summary), archive.after);

    // A larger summary has one event, and what is undone leaves none.
    filled(&stage.thread, 6).await;
    compacted(&agent, &stage.thread).await;
    let told = events(&stage.thread);
    assert!(told.len() == 1 && told[0].contains("t1 to t12") && told[0].contains("archive a2"), "{told:?}");
    stage.thread.undo().await.unwrap().unwrap();
    assert!(events(&stage.thread)[0].contains("archive a1"));
    stage.thread.undo().await.unwrap().unwrap();
    assert_eq!(events(&stage.thread), [] as [&str; 0]);
}
