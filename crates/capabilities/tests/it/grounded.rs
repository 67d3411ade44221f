//! Grounded answers with a scripted model: in context and tool mode, regenerated, ended typed, recorded.

use contexture_agent::{AgentError, RunRequest};
use contexture_capabilities::{Inject, grounding};
use contexture_compose::Prompt;
use contexture_knowledge::grounding::{CitationRule, QuoteRule};
use contexture_message::Part;
use serde_json::json;

use crate::stage::{Given, Stage, agent, calls, says, script};

fn handbook() -> Given {
    Given::new("handbook", &["Refunds take 30 days.", "Shipping is free."])
}

fn prompt(base: &Given, inject: Inject) -> Prompt {
    let entry = grounding(vec![base.base()]).inject(inject);
    Prompt::builder("p").model("test/m").system("Help.").include(entry).build().unwrap()
}

#[tokio::test]
async fn in_context_a_wrong_answer_is_made_again_and_the_outcome_has_citations_and_cards() {
    let (stage, base) = (Stage::new().await, handbook());
    let model = script([says("14 days [handbook:9]."), says("They say \"30 days\" [handbook:1].")]);
    let agent = agent(&model).build().unwrap();
    let run = agent.run(&prompt(&base, Inject::Context), &stage.thread, RunRequest::user("How long?"));
    let outcome = run.outcome().await.unwrap();
    insta::assert_snapshot!(model.requests()[0].messages[0].joined_text(), @r"
    Help.

    Answer from the evidence that you are given. Cite it behind each statement by its id in brackets, as in [handbook:12]. Cite only ids that you were given. Copy numbers, dates, identifiers and URLs exactly. If the evidence does not say something, say that it is not known and write [none] behind it. Words in quotation marks beside a citation must be copied exactly from it.
    ");
    let complaint = model.requests()[1].messages.last().unwrap().joined_text();
    assert!(complaint.contains("[handbook:9] was not given to you"), "{complaint}");
    let [citation] = outcome.citations.as_slice() else { panic!("{:?}", outcome.citations) };
    assert_eq!((citation.chunk.as_str(), citation.source.as_str()), ("handbook:1", "1.md"));
    let report = &outcome.reports[0];
    assert_eq!(report.source, "constraint:grounding:handbook");
    assert_eq!(report.report["cards"][0]["query"], "How long?");
    assert_eq!(report.report["cards"][0]["finding"]["quote"], "30 days");
    // The evidence was searched for once, and each pass sent it.
    assert_eq!(base.searches(), 1);
    for request in model.requests() {
        let parts = request.messages.iter().flat_map(|it| &it.content);
        assert_eq!(parts.filter(|it| matches!(it, Part::Evidence(_))).count(), 2);
    }
}

#[tokio::test]
async fn what_never_holds_ends_the_turn_with_a_typed_error() {
    let (stage, base) = (Stage::new().await, handbook());
    let wrong = || says("14 days [handbook:1].");
    let model = script([wrong(), wrong(), wrong(), says("never asked for")]);
    let agent = agent(&model).build().unwrap();
    let run = agent.run(&prompt(&base, Inject::Context), &stage.thread, RunRequest::user("How long?"));
    let err = run.outcome().await.unwrap_err();
    let AgentError::Constraints { failures, attempts: 3, .. } = err else { panic!("{err}") };
    assert_eq!(failures[0].id, "grounding:handbook");
    assert!(
        failures[0].feedback.contains("The number 14 is not in [handbook:1]"),
        "{}",
        failures[0].feedback
    );
}

#[tokio::test]
async fn in_tool_mode_what_a_search_returned_can_be_cited() {
    let (stage, base) = (Stage::new().await, handbook());
    let model = script([
        calls("handbookSearch", json!({"query": "refunds", "top_k": 1})),
        says("Shipping is free [handbook:2]."),
        says("30 days [handbook:1]."),
    ]);
    let agent = agent(&model).build().unwrap();
    let run = agent.run(&prompt(&base, Inject::Tool), &stage.thread, RunRequest::user("How long?"));
    let outcome = run.outcome().await.unwrap();
    assert_eq!(outcome.citations[0].chunk, "handbook:1");
    let complaint = model.requests()[2].messages.last().unwrap().joined_text();
    assert!(complaint.contains("[handbook:2] was not given to you"), "{complaint}");
    assert!(model.requests()[0].messages[0].joined_text().contains("Search the knowledge bases before"));
    assert_eq!(outcome.reports[0].report["cards"][0]["query"], "How long?");
}

#[tokio::test]
async fn nothing_found_is_a_card_too() {
    let (stage, base) = (Stage::new().await, Given::new("handbook", &[]));
    let model = script([says("That is not known.")]);
    let agent = agent(&model).build().unwrap();
    let run = agent.run(&prompt(&base, Inject::Context), &stage.thread, RunRequest::user("How long?"));
    let outcome = run.outcome().await.unwrap();
    assert_eq!(outcome.reports[0].report["cards"][0]["finding"]["type"], "nothing_found");
}

#[tokio::test]
async fn rules_decide_what_is_asked_for_and_checked() {
    let (stage, base) = (Stage::new().await, handbook());
    let entry = grounding(vec![base.base()]).citations(CitationRule::Optional).quotes(QuoteRule::Required);
    let prompt = Prompt::builder("p").model("test/m").include(entry).build().unwrap();
    let model =
        script([says("Hello."), says("30 days [handbook:1]."), says("Soon [handbook:1 \"take 30 days\"].")]);
    let agent = agent(&model).build().unwrap();
    agent.run(&prompt, &stage.thread, RunRequest::user("Hi")).outcome().await.unwrap();
    let outcome = agent.run(&prompt, &stage.thread, RunRequest::user("How long?")).outcome().await.unwrap();
    assert_eq!(outcome.citations[0].quote.as_deref(), Some("take 30 days"));
    assert_eq!(model.requests().len(), 3);
}

#[tokio::test]
async fn in_tool_mode_an_answer_without_a_search_is_made_again() {
    let (stage, base) = (Stage::new().await, handbook());
    let model = script([
        says("30 days."),
        calls("handbookSearch", json!({"query": "refunds", "top_k": 1})),
        says("30 days [handbook:1]."),
    ]);
    let agent = agent(&model).build().unwrap();
    let run = agent.run(&prompt(&base, Inject::Tool), &stage.thread, RunRequest::user("How long?"));
    let outcome = run.outcome().await.unwrap();
    assert_eq!(outcome.citations[0].chunk, "handbook:1");
    let complaint = model.requests()[1].messages.last().unwrap().joined_text();
    assert!(complaint.contains("Call `handbookSearch` before you answer"), "{complaint}");
}

#[tokio::test]
async fn a_source_is_read_as_results_name_it() {
    let (stage, base) = (Stage::new().await, handbook());
    let model = script([
        calls("handbookGetSource", json!({"source": "file:1.md"})),
        calls("handbookSearch", json!({"query": "refunds", "top_k": 1})),
        says("30 days [handbook:1]."),
    ]);
    let agent = agent(&model).build().unwrap();
    let run = agent.run(&prompt(&base, Inject::Tool), &stage.thread, RunRequest::user("How long?"));
    run.outcome().await.unwrap();
    let read = format!("{:?}", model.requests()[1].messages.last().unwrap());
    assert!(read.contains("Refunds take 30 days."), "{read}");
}
