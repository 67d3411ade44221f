//! Pipelines: steps, and what they tell.

use std::sync::{Arc, Mutex};

use contexture_compose::{BoxError, BoxFuture};
use contexture_knowledge::pipeline::{
    AskModel, Filter, ListwiseReranker, Pipeline, PipelineResult, Rewriting, Step,
};
use contexture_knowledge::retrieve::Around;
use contexture_knowledge::{Query, Retriever};
use contexture_message::counter_for;
use contexture_template::Template;
use futures::executor::block_on;
use serde_json::json;

use crate::support::Base;

fn filled() -> Base {
    let base = Base::new();
    base.add("refunds.md", "# Refunds\n\nRefunds take 30 days.");
    base.add("parcels.md", "# Parcels\n\nParcels take two days. They are tracked.");
    base.add("prices.md", "# Prices\n\nPrices are fixed for a year.");
    base
}

fn run(base: &Base, steps: Vec<Step>, query: &str) -> PipelineResult {
    let retrievers: Vec<Arc<dyn Retriever>> = vec![Arc::new(base.retriever())];
    let pipeline = Pipeline::new(retrievers, steps, counter_for(None));
    block_on(pipeline.run(Query::new(query, 10), &[("input", &json!({"topic": "prices"}))])).unwrap()
}

fn ids(result: &PipelineResult) -> Vec<&str> {
    result.hits.iter().filter_map(|it| it.document.id.as_deref()).collect()
}

/// Gives the same answer each time, and remembers what it was asked.
struct Scripted(&'static str, Mutex<Vec<String>>);

impl Scripted {
    fn new(answer: &'static str) -> Arc<Self> {
        Arc::new(Self(answer, Mutex::default()))
    }
}

impl AskModel for Scripted {
    fn ask(&self, prompt: String) -> BoxFuture<'_, Result<String, BoxError>> {
        self.1.lock().unwrap().push(prompt);
        Box::pin(
            async move { if self.0.is_empty() { Err("it is down".into()) } else { Ok(self.0.to_owned()) } },
        )
    }
}

#[test]
fn queries_are_rewritten_and_multiplied() {
    let base = filled();
    let template = |text: &str| Rewriting::Template(Template::parse(text).unwrap());
    let steps = vec![
        Step::Rewrite(template("{{ query | downcase }} days")),
        Step::FanOut(vec![template("{{ input.topic }}"), template("  ")]),
        Step::Retrieve { top_k: 5 },
        Step::Filter(Filter { top_k: Some(3), ..Filter::default() }),
    ];
    let result = run(&base, steps, "REFUNDS");
    assert_eq!(ids(&result).len(), 3);
    insta::assert_snapshot!(result.trace, @r"
    rewrite: 1 query → 1 query
    fan_out: 1 query → 2 queries
    retrieve: 2 queries, 0 hits → 3 hits
    filter: 3 hits → 3 hits
    ");
    assert_eq!(result.trace.steps[1].queries_out, ["refunds days", "prices"]);
    assert_eq!(result.trace.steps[2].hits_out.len(), 3);
}

#[test]
fn a_model_rewrites_and_multiplies_too() {
    let base = filled();
    let model = Scripted::new("1. \"fixed prices\"\n- parcels\n\n3) refunds");
    let steps = vec![Step::FanOut(vec![Rewriting::Model(model.clone())]), Step::Retrieve { top_k: 5 }];
    let result = run(&base, steps, "what is there?");
    assert_eq!(result.trace.steps[0].queries_out, ["what is there?", "fixed prices", "parcels", "refunds"]);
    assert!(model.1.lock().unwrap()[0].contains("Question: what is there?"));
    let result = run(&base, vec![Step::Rewrite(Rewriting::Model(Scripted::new("parcels")))], "where is it?");
    assert_eq!((ids(&result)[0], result.trace.steps.len()), ("parcels.md", 2));
}

#[test]
fn a_reranker_orders_and_its_failure_changes_nothing() {
    let base = filled();
    let steps = |answer| {
        let by = Arc::new(ListwiseReranker::new(Scripted::new(answer)));
        vec![Step::Retrieve { top_k: 5 }, Step::Rerank { by, top: 10 }]
    };
    let plain = run(&base, vec![Step::Retrieve { top_k: 5 }], "days take");
    let two = ids(&plain);
    assert_eq!(two.len(), 2);
    assert_eq!(ids(&run(&base, steps("[2] > [1]"), "days take")), [two[1], two[0]]);
    assert_eq!(ids(&run(&base, steps("The best is 2, then 2, 99 and 0."), "days take")), [two[1], two[0]]);
    let failed = run(&base, steps(""), "days take");
    assert_eq!(
        (ids(&failed), &failed.trace.steps[1].notes[..]),
        (two.clone(), &["the order stays as it was: it is down".to_owned()][..])
    );
    assert_eq!(ids(&run(&base, steps("none of them"), "days take")), two);
}

#[test]
fn filters_look_at_documents() {
    let base = Base::new();
    let long = |word: &str| format!("{word} {}", "and some more words about it ".repeat(60));
    base.add("a.md", &format!("{}\n\n{}\n\n{}", long("alpha"), long("alpha"), long("alpha")));
    base.add("b.md", "alpha");
    let filtered =
        |filter| run(&base, vec![Step::Retrieve { top_k: 9 }, Step::Filter(filter)], "alpha").hits.len();
    assert_eq!(filtered(Filter::default()), 4);
    assert_eq!(filtered(Filter { per_document: Some(1), ..Filter::default() }), 2);
    assert_eq!(filtered(Filter { metadata: vec![("kind".to_owned(), json!("x"))], ..Filter::default() }), 0);
    assert_eq!(filtered(Filter { min_score: 2.0, ..Filter::default() }), 0);
}

#[test]
fn hits_grow_by_their_neighbours_as_far_as_there_is_room() {
    let base = Base::new();
    let long = |word: &str| format!("{word} {}", "and some more words about it ".repeat(60));
    base.add("a.md", &format!("{}\n\n{}\n\n{}", long("alpha"), long("beta"), long("gamma")));
    let expanded = |tokens| {
        let expand = Step::Expand { around: Around::Neighbours(1), tokens };
        let result = run(&base, vec![Step::Retrieve { top_k: 1 }, expand], "beta");
        let text = &result.hits[0].text;
        ["alpha", "beta", "gamma"].into_iter().filter(|it| text.contains(it)).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(expanded(100), "beta");
    assert_eq!(expanded(900), "beta gamma");
    assert_eq!(expanded(9_000), "alpha beta gamma");
}

#[test]
fn compression_keeps_the_sentences_that_matter() {
    let base = Base::new();
    base.add(
        "a.md",
        "Nothing here. The port is 8443 by default. Other things. The port can be changed. The end.",
    );
    let steps = vec![Step::Retrieve { top_k: 1 }, Step::Compress { tokens: 20 }];
    let result = run(&base, steps, "which port is the default");
    insta::assert_snapshot!(result.hits[0].text, @"The port is 8443 by default. […] The port can be changed.");
}
