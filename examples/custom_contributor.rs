//! A contributor of one's own: it awaits a search and contributes each hit with a rank of its own, so that a
//! tight budget keeps the best ones.
//!
//! `cargo run --example custom_contributor`
#![allow(clippy::print_stdout)]

use std::time::Duration;

use contexture::compose::{BoxFuture, Declaration, OnError, Priority, Profile, Trust};
use contexture::prelude::*;
use contexture::serde_json::json;

/// Searches a knowledge base.
struct Search;

/// A passage and how well it fits, from 0 to 1.
struct Hit {
    text: &'static str,
    score: f64,
}

impl Search {
    async fn find(&self, _query: &str) -> Result<Vec<Hit>, BoxError> {
        tokio::time::sleep(Duration::from_millis(20)).await; // A vector store would be asked here.
        Ok(vec![
            Hit { text: "Refunds are paid within five working days.", score: 0.92 },
            Hit { text: "Refunds go back to the card that was charged.", score: 0.81 },
            Hit { text: "Our office dog is called Refund.", score: 0.12 },
        ])
    }
}

impl Contributor for Search {
    fn id(&self) -> &str {
        "search"
    }

    fn contribute(&self, call: Call) -> BoxFuture<'_, Result<Contribution, BoxError>> {
        Box::pin(async move {
            let question = call.input.value()["question"].as_str().unwrap_or_default();
            let hits = self.find(question).await?;
            let ranked = |all: Contribution, hit: &Hit| {
                Ok(all.and_ranked(hit.text, Priority::new(hit.score * 100.0)?))
            };
            hits.iter().try_fold(Contribution::default(), ranked)
        })
    }

    fn declare(&self) -> Declaration {
        let profile = Profile {
            trust: Trust::External,
            deadline: Some(Duration::from_secs(2)),
            on_error: OnError::Skip,
            ..Profile::default()
        };
        Declaration { profile, ..Declaration::default() }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let prompt = Prompt::builder("support")
        .system("Answer from the passages below.")
        .contribute(Search)
        .token_budget(30)
        .build()?;
    let options = ResolveOptions::new(json!({"question": "When do I get my money back?"}));
    let pass = prompt.resolve(options.engine(&contexture::engine())).await?;

    println!("{}\n", pass.system().unwrap_or_default());
    let why = pass.explain();
    for hit in &why.dropped {
        println!("dropped {} ({} tokens): {}", hit.source, hit.tokens, hit.reason);
    }
    for timing in &why.timings {
        println!("{} took {:.1} ms", timing.source, timing.ms);
    }
    Ok(())
}
