//! Grounded answers: citations are checked against what the model read, and reach the outcome, the events and the log.

use contexture_agent::{AgentError, CheckOutcome, Checked, Event, EventView, RunRequest, constraint};
use contexture_compose::{
    Constraint, ConstraintMode, Contribution, Piece, Priority, Prompt, Source, contributor,
};
use contexture_knowledge::grounding::{GroundingRules, KnownEvidence, check};
use contexture_message::{
    Answer, Citation, CitationOrigin, Evidence, Message, Part, RawCitation, Role, Span,
};
use contexture_session::Thread;
use futures::StreamExt as _;
use serde_json::json;

use crate::stage::{Stage, agent, event_text, says, script, told};

/// A check of citations against the evidence of the pass.
fn grounding() -> Constraint {
    constraint("grounding", |answer: Checked| async move {
        let known = KnownEvidence::of(&answer.pass);
        let grounded = check(&answer.text, &answer.message.citations(), &known, &GroundingRules::default());
        CheckOutcome {
            feedback: grounded.report.complaint(),
            report: Some(serde_json::to_value(&grounded.report).unwrap()),
            citations: grounded.citations,
        }
    })
}

fn grounded_prompt() -> Prompt {
    Prompt::builder("p").model("test/m").system("Cite.").constraint(grounding()).build().unwrap()
}

/// A question with one search result.
fn question() -> RunRequest {
    let evidence = Evidence {
        chunk: "handbook:12".to_owned(),
        source: "refunds.md".to_owned(),
        title: None,
        text: vec!["Refunds take 30 days.".to_owned()],
        citations: true,
    };
    let parts = vec![Part::Evidence(evidence), Part::text("How long do refunds take?")];
    RunRequest { user: Some(Message::parts(Role::User, parts)), ..RunRequest::default() }
}

async fn view(thread: &Thread) -> Vec<Event> {
    let (items, mut view) = (thread.all(None).await.unwrap(), EventView::default());
    items.iter().flat_map(|it| view.events(thread.id(), it)).collect()
}

fn shown(citations: &[Citation], text: &str) -> String {
    let each = citations.iter().map(|it| {
        let at = it.answer_span.and_then(|it| it.of(text)).unwrap_or_default();
        format!("{at:?} {} {} {:?}", it.chunk, it.source, it.source_span.map(|it| (it.start, it.end)))
    });
    each.collect::<Vec<_>>().join("; ")
}

#[tokio::test]
async fn a_failing_citation_has_the_answer_made_again_with_the_complaint() {
    let stage = Stage::new().await;
    let model = script([says("14 days [handbook:99]."), says("They say \"30 days\" [handbook:12].")]);
    let run = agent(&model).build().unwrap().run(&grounded_prompt(), &stage.thread, question());
    let (events, outcome) = told(run).await;
    let outcome = outcome.unwrap();
    insta::assert_snapshot!(model.requests()[1].messages.last().unwrap().as_text().unwrap(), @r"
    Your last answer does not meet these requirements:
    - The answer's citations do not hold:
      - [handbook:99] was not given to you.
      - 0 of 1 sentences cite what you were given; at least 1 must.
    Answer again from the evidence. Cite only chunks that you were given, by their ids in brackets. Copy quotes, numbers, dates, identifiers and URLs exactly. If the evidence does not say something, leave it out, or say that it is not known and write [none] behind it.

    Write the whole answer again so that it meets all of them. Do not mention this message.
    ");
    assert_eq!(
        shown(&outcome.citations, &outcome.text()),
        "\"[handbook:12]\" handbook:12 refunds.md Some((13, 20))"
    );
    assert_eq!(outcome.reports[0].source, "constraint:grounding");
    assert_eq!(outcome.reports[0].report["passed"], json!(true));
    // Nothing of the first answer was told, and the citations follow the text.
    assert!(!events.contains("14 days"), "{events}");
    let kinds: Vec<&str> = events.lines().filter_map(|it| it.split(' ').next()).collect();
    let at = |kind: &str| kinds.iter().position(|it| *it == kind);
    assert!(at("check.report").is_some() && at("text.delta") < at("citations"), "{events}");
}

#[tokio::test]
async fn citations_that_never_hold_end_the_turn_with_a_typed_error() {
    let stage = Stage::new().await;
    let wrong = || says("14 days [handbook:99].");
    let model = script([wrong(), wrong(), wrong(), says("never asked for")]);
    let run = agent(&model).build().unwrap().run(&grounded_prompt(), &stage.thread, question());
    let err = told(run).await.1.unwrap_err();
    let AgentError::Constraints { failures, attempts: 3, output } = err else { panic!("{err}") };
    assert_eq!((failures[0].id.as_str(), output.as_str()), ("grounding", "14 days [handbook:99]."));
    assert!(failures[0].feedback.contains("[handbook:99] was not given to you"), "{}", failures[0].feedback);
    assert_eq!(model.requests().len(), 3);
}

#[tokio::test]
async fn a_check_that_suggests_accepts_the_answer_and_reports() {
    let stage = Stage::new().await;
    let suggests = Constraint { mode: ConstraintMode::Suggest, ..grounding() };
    let prompt = Prompt::builder("p").model("test/m").constraint(suggests).build().unwrap();
    let model = script([says("14 days [handbook:12].")]);
    let outcome =
        agent(&model).build().unwrap().run(&prompt, &stage.thread, question()).outcome().await.unwrap();
    assert_eq!(outcome.reports[0].report["faults"][0]["kind"], json!("fact_not_found"));
    assert_eq!(outcome.citations.len(), 1);
    assert_eq!(outcome.remarks.len(), 1);
}

/// An answer of a provider that returns citations.
fn cited_answer() -> Answer {
    let raw = RawCitation { provider: "test".to_owned(), value: json!({"type": "search_result_location"}) };
    let citation = Citation {
        quote: Some("Refunds take 30 days.".to_owned()),
        raw: Some(raw),
        ..Citation::new("handbook:12", "handbook:12", CitationOrigin::Provider)
    };
    let cited = Part::Text { text: "30 days".to_owned(), citations: vec![citation] };
    Answer::parts(vec![Part::text("They take "), cited, Part::text(".")])
}

#[tokio::test]
async fn citations_of_the_provider_are_kept_for_it_and_told_alike() {
    let prompts = [grounded_prompt(), Prompt::builder("p").model("test/m").build().unwrap()];
    for (prompt, source) in prompts.iter().zip(["refunds.md", "handbook:12"]) {
        let stage = Stage::new().await;
        let model = script([cited_answer(), says("30 days [handbook:12].")]);
        let agent = agent(&model).build().unwrap();
        let request = RunRequest { key: Some("k".to_owned()), ..question() };
        let mut run = agent.run(prompt, &stage.thread, request.clone());
        let mut events = Vec::new();
        while let Some(event) = run.next().await {
            events.push(event);
        }
        let outcome = run.outcome().await.unwrap();
        let [citation] = outcome.citations.as_slice() else { panic!("{:?}", outcome.citations) };
        assert_eq!((citation.answer_span, &citation.raw), (Some(Span { start: 10, end: 17 }), &None));
        assert_eq!(citation.source, source);
        let of_citations = |events: &[Event]| -> Vec<String> {
            events.iter().filter(|it| matches!(it, Event::Citations { .. })).map(event_text).collect()
        };
        assert_eq!(of_citations(&view(&stage.thread).await), of_citations(&events));
        assert_eq!(of_citations(&events).len(), 1);
        // The same key gives the same outcome.
        let again = agent.run(prompt, &stage.thread, request).outcome().await.unwrap();
        assert_eq!((again.citations, again.reports), (outcome.citations, outcome.reports));
        // The next request has what the provider returned.
        agent.run(prompt, &stage.elsewhere().await, question()).outcome().await.unwrap();
        let sent = &model.requests()[1].messages;
        let answer = sent.iter().find(|it| it.role == Role::Assistant).unwrap();
        let Part::Text { citations, .. } = &answer.content[1] else { panic!("{answer:?}") };
        assert_eq!(citations[0].raw.as_ref().unwrap().value, json!({"type": "search_result_location"}));
    }
}

#[tokio::test]
async fn a_check_sees_what_the_budget_dropped_and_shortened() {
    let hits = contributor("search", |_: contexture_compose::Call| async {
        let hit = |chunk: &str, text: &str, priority: f64| Piece {
            source: Some(Source::Knowledge { base: "handbook".into(), chunk: chunk.into() }),
            priority: Some(Priority::new(priority).unwrap()),
            ..Piece::new(text)
        };
        let long = "Shipping is a long story. ".repeat(200);
        let pieces = vec![hit("12", "Refunds take 30 days.", 90.0), hit("7", &long, 10.0)];
        Ok(Contribution { pieces, ..Contribution::default() })
    });
    let prompt = Prompt::builder("p")
        .model("test/m")
        .system("Cite.")
        .include(hits)
        .token_budget(300)
        .constraint(grounding())
        .build()
        .unwrap();
    let stage = Stage::new().await;
    let model = script([says("A story [handbook:7]."), says("30 days [handbook:12].")]);
    let run = agent(&model).build().unwrap().run(&prompt, &stage.thread, RunRequest::user("How long?"));
    let outcome = told(run).await.1.unwrap();
    assert_eq!(
        shown(&outcome.citations, &outcome.text()),
        "\"[handbook:12]\" handbook:12 knowledge:handbook#12 None"
    );
    let complaint = model.requests()[1].messages.last().unwrap().joined_text();
    assert!(complaint.contains("[handbook:7] was found but not shown to you"), "{complaint}");
}
