//! Grounding beside other features: reminders, blocks, attachments, restarts, compaction, streaming.

use contexture_agent::{CompactRequest, Event, KnowledgeRequest, ResumePolicy, RunRequest};
use contexture_capabilities::{Bases, Inject, grounding};
use contexture_compose::{InlineBlock, Prompt};
use contexture_message::{File, MediaSource, Message, Part, Role};
use contexture_model::Scripted;
use contexture_model::{ModelError, ModelErrorKind, Step};
use futures::StreamExt as _;

use crate::stage::{Given, Stage, agent, says, script};

fn handbook() -> Given {
    Given::new("handbook", &["Refunds take 30 days.", "Shipping is free."])
}

fn prompt(base: &Given) -> Prompt {
    Prompt::builder("p")
        .model("test/m")
        .system("Help.")
        .include(grounding(vec![base.base()]))
        .build()
        .unwrap()
}

/// The parts of the user message by kind: words, evidence, the tag of an envelope.
fn shape(message: &Message) -> String {
    let kind = |it: &Part| match it {
        Part::Text { text, .. } if text.starts_with('<') => {
            text.split('>').next().unwrap_or_default().to_owned() + ">"
        }
        Part::Text { text, .. } => text.clone(),
        Part::Evidence(it) => it.chunk.clone(),
        Part::File(_) => "file".to_owned(),
        other => format!("{other:?}"),
    };
    message.content.iter().map(kind).collect::<Vec<_>>().join(" | ")
}

#[tokio::test]
async fn evidence_stands_beside_attachments_blocks_snippets_and_reminders() {
    let (stage, base) = (Stage::new().await, handbook());
    let bases: Bases = [base.base()].into_iter().collect();
    let model = script([says("30 days [handbook:1]."), says("Free [handbook:2].")]);
    let agent = agent(&model).knowledge(bases).build().unwrap();
    let file =
        File { source: MediaSource::Id("f1".into()), media_type: Some("text/plain".into()), name: None };
    let parts = vec![Part::text("How long?"), Part::File(file)];
    let knowledge = KnowledgeRequest { bases: vec!["handbook".into()], query: None, top_k: Some(1) };
    let request = RunRequest {
        user: Some(Message::parts(Role::User, parts)),
        blocks: vec![InlineBlock { name: "page".into(), body: "7".into(), order: 0 }],
        reminders: vec!["Be brief.".into()],
        ..RunRequest::default()
    };
    agent.run(&prompt(&base), &stage.thread, request.knowledge(knowledge)).outcome().await.unwrap();
    agent.run(&prompt(&base), &stage.thread, RunRequest::user("And shipping?")).outcome().await.unwrap();
    let sent = model.requests();
    assert_eq!(
        shape(&sent[0].messages[1]),
        "How long? | file | handbook:1 | handbook:2 | <system-context> | <system-reminders>"
    );
    // The next turn replays the same bytes.
    assert_eq!(sent[1].messages[..2], sent[0].messages[..2]);
    assert_eq!(shape(sent[1].messages.last().unwrap()), "And shipping? | handbook:1 | handbook:2");
}

#[tokio::test]
async fn after_a_restart_the_recorded_evidence_is_sent_and_checked_again_without_a_search() {
    let (stage, base) = (Stage::new().await, handbook());
    let lost = ModelError::new(ModelErrorKind::Disconnected, "cut");
    let model = Scripted::new([
        Step::Fail(lost),
        Step::Answer(says("9 days [handbook:1].")),
        Step::Answer(says("30 days [handbook:1].")),
    ]);
    let agent = agent(&model).build().unwrap();
    let request = RunRequest {
        key: Some("k".into()),
        resume: Some(ResumePolicy::CloseCalls),
        ..RunRequest::user("How long?")
    };
    agent.run(&prompt(&base), &stage.thread, request.clone()).outcome().await.unwrap_err();
    let again = stage.elsewhere().await;
    let outcome = agent.run(&prompt(&base), &again, request).outcome().await.unwrap();
    assert_eq!(outcome.citations[0].chunk, "handbook:1");
    assert_eq!(base.searches(), 1);
    let sent = model.requests();
    assert_eq!(sent[1].messages, sent[0].messages);
}

#[tokio::test]
async fn an_answer_that_may_be_rejected_is_not_streamed_before_it_is_accepted() {
    let (stage, base) = (Stage::new().await, handbook());
    let model = script([says("14 days [handbook:1]."), says("30 days [handbook:1].")]);
    let agent = agent(&model).build().unwrap();
    let mut run = agent.run(&prompt(&base), &stage.thread, RunRequest::user("How long?"));
    let mut told = String::new();
    while let Some(event) = run.next().await {
        if let Event::TextDelta { text, .. } = event {
            told.push_str(&text);
        }
    }
    assert_eq!(told, "30 days [handbook:1].");
}

#[tokio::test]
async fn a_citation_that_lost_its_evidence_is_kept_as_a_card() {
    let (stage, base) = (Stage::new().await, handbook());
    let model = script([says("They say \"30 days\" [handbook:1]."), says("Still \"30 days\" [handbook:1].")]);
    let agent = agent(&model).build().unwrap();
    agent.run(&prompt(&base), &stage.thread, RunRequest::user("How long?")).outcome().await.unwrap();
    // Another prompt of the thread, whose base finds other things, and whose history has no hidden context.
    let other = Given::new("handbook", &[]);
    let entry = grounding(vec![other.base()]).inject(Inject::Both);
    let prompt = Prompt::builder("q").model("test/m").include(entry);
    let prompt = prompt.transform(contexture_history::transform("bare", without_evidence)).build().unwrap();
    let outcome = agent.run(&prompt, &stage.thread, RunRequest::user("Sure?")).outcome().await.unwrap();
    assert_eq!(outcome.citations[0].chunk, "handbook:1");
    let sent = model.requests();
    let last = sent[1].messages.last().unwrap();
    let Some(Part::Evidence(card)) = last.content.iter().find(|it| matches!(it, Part::Evidence(_))) else {
        panic!()
    };
    assert_eq!((card.chunk.as_str(), card.joined_text().as_str()), ("handbook:1", "30 days"));
}

#[tokio::test]
async fn what_the_kept_history_cites_outlives_a_compaction_as_a_card() {
    let stage = Stage::new().await;
    let silent = Given { finds_nothing: true, ..handbook() };
    let model = script([
        says("30 days [handbook:1], and shipping is \"free\" [handbook:2]."),
        says("Yes, 30 days [handbook:1]."),
        says("Yes, it is \"free\" [handbook:2]."),
        says("The user asked about refunds and shipping."),
        says("30 days [handbook:1]."),
    ]);
    let agent = agent(&model).build().unwrap();
    let first = format!("How long, and how much? {}", "The shade is blue. ".repeat(100));
    for (base, question) in [(&handbook(), first.as_str()), (&silent, "Sure?"), (&silent, "And shipping?")] {
        agent.run(&prompt(base), &stage.thread, RunRequest::user(question)).outcome().await.unwrap();
    }
    let report = agent.compact(&prompt(&silent), &stage.thread, CompactRequest::default()).await.unwrap();
    assert!(report.archive.is_some(), "{report:?}");
    let outcome =
        agent.run(&prompt(&silent), &stage.thread, RunRequest::user("Again?")).outcome().await.unwrap();
    assert_eq!(outcome.citations[0].chunk, "handbook:1");
    let sent = model.requests();
    let last = sent.last().unwrap();
    // The first turn is summarised; what it found went with it.
    let evidence = |it: &Message| it.content.iter().any(|it| matches!(it, Part::Evidence(_)));
    let (turn, earlier) = last.messages.split_last().unwrap();
    assert!(!earlier.iter().any(|it| evidence(it)));
    // One card has the chunk, the other the words that were quoted.
    let parts = turn.content.iter();
    let cards = parts.filter_map(|it| match it {
        Part::Evidence(card) => Some(format!("{} {}: {}", card.chunk, card.source, card.joined_text())),
        _ => None,
    });
    insta::assert_snapshot!(cards.collect::<Vec<_>>().join("\n"), @r"
    handbook:1 1.md: Refunds take 30 days.
    handbook:2 2.md: free
    ");
}

/// Leaves the evidence out of earlier turns, as ageing and summaries do.
fn without_evidence(turns: Vec<contexture_history::Turn>) -> Vec<contexture_history::Turn> {
    let bare = |message: &std::sync::Arc<Message>| {
        let content = message.content.iter().filter(|it| !matches!(it, Part::Evidence(_))).cloned().collect();
        std::sync::Arc::new(Message { content, ..(**message).clone() })
    };
    let rewritten = |turn: contexture_history::Turn| match turn.status() {
        contexture_history::TurnStatus::InFlight => turn,
        _ => {
            let messages = turn.messages().iter().map(bare).collect();
            turn.with_messages(messages)
        }
    };
    turns.into_iter().map(rewritten).collect()
}
