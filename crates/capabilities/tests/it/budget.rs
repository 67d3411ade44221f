//! With any limit, kept hits are a prefix by rank, and every other hit has a reason.

use contexture_capabilities::{grounding, retriever};
use contexture_compose::{Entry, Prompt, ResolveOptions};
use futures::executor::block_on;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::stage::Given;

/// The states and reasons of hits by rank, or `None` if what must be sent does not fit.
fn hits(entry: impl Into<Entry>, options: ResolveOptions) -> Option<Vec<(String, String, Option<String>)>> {
    let prompt = Prompt::builder("p").system("Help.").include(entry).build().unwrap();
    let pass = block_on(prompt.resolve(options.model("openai/gpt-5-mini").user_message("Which?"))).ok()?;
    let parts = pass.explain().parts.into_iter().filter(|it| it.source.starts_with("knowledge:"));
    let mut hits: Vec<(u64, _)> = parts
        .map(|it| (it.detail.unwrap()["rank"].as_u64().unwrap(), (it.source, it.state, it.reason)))
        .collect();
    hits.sort_by_key(|(rank, _)| *rank);
    Some(hits.into_iter().map(|(_, it)| it).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn kept_hits_are_a_prefix_by_rank_and_others_have_a_reason(
        sizes in vec(1..60usize, 1..9),
        top_k in 1..8usize,
        limit in 20..400u32,
        form in 0..3u8,
    ) {
        let texts: Vec<String> = sizes.iter().map(|it| "refunds take days ".repeat(*it)).collect();
        let base = Given::new("handbook", &texts.iter().map(String::as_str).collect::<Vec<_>>());
        let found = match form {
            0 => hits(retriever(base.base()).top_k(top_k), ResolveOptions::default().input_budget(limit)),
            1 => hits(retriever(base.base()).top_k(top_k).in_system(), ResolveOptions::default().token_budget(limit)),
            _ => hits(grounding(vec![base.base()]).top_k(top_k), ResolveOptions::default().input_budget(limit)),
        };
        let Some(found) = found else { return Ok(()) };
        // Every hit that was found is there, up to a few beyond the last.
        prop_assert_eq!(found.len(), sizes.len().min(top_k + 5));
        let first_out = found.iter().position(|(_, state, _)| state != "kept").unwrap_or(found.len());
        for (source, state, reason) in &found[first_out..] {
            prop_assert_ne!(state, "kept", "{} is kept behind one that is not", source);
            prop_assert!(reason.as_ref().is_some_and(|it| !it.is_empty()), "{} has no reason", source);
        }
        prop_assert!(first_out <= top_k);
    }
}
