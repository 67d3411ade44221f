//! What is known of models.

use std::collections::BTreeMap;

use contexture_message::{Price, Tokens, Usage};
use contexture_wire::{Catalogue, ModelFacts};

/// Shows the facts of models, one a line.
fn facts(models: &[&str]) -> String {
    let catalogue = Catalogue::standard();
    let line = |model: &&str| {
        let facts = serde_json::to_string(&catalogue.facts(model)).expect("plain data");
        format!("{model} {facts}")
    };
    models.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_most_exact_pattern_wins() {
    insta::assert_snapshot!(facts(&["gpt-5", "openai/gpt-5-mini", "o1-mini", "claude-opus-4-5", "gemini-2.5-flash-lite"]), @r#"
    gpt-5 {"context_window":400000,"max_output":128000,"price":{"input":1.25,"output":10.0,"cache_read":0.125,"cache_write":null},"cache":{"max_breakpoints":0,"min_tokens":1024,"lifetime_s":300},"capabilities":{"tools":true,"images":true,"pdf":true,"structured_output":true,"reasoning":true,"sampling":false}}
    openai/gpt-5-mini {"context_window":400000,"max_output":128000,"price":{"input":0.25,"output":2.0,"cache_read":0.025,"cache_write":null},"cache":{"max_breakpoints":0,"min_tokens":1024,"lifetime_s":300},"capabilities":{"tools":true,"images":true,"pdf":true,"structured_output":true,"reasoning":true,"sampling":false}}
    o1-mini {"context_window":128000,"max_output":65536,"price":{"input":1.1,"output":4.4,"cache_read":0.55,"cache_write":null},"cache":{"max_breakpoints":0,"min_tokens":1024,"lifetime_s":300},"capabilities":{"tools":false,"images":false,"pdf":false,"structured_output":false,"reasoning":false,"sampling":false}}
    claude-opus-4-5 {"context_window":200000,"max_output":64000,"price":{"input":5.0,"output":25.0,"cache_read":0.5,"cache_write":6.25},"cache":{"max_breakpoints":4,"min_tokens":4096,"lifetime_s":300},"capabilities":{"tools":true,"images":true,"pdf":true,"structured_output":true,"reasoning":true,"sampling":true,"memory_tool":true}}
    gemini-2.5-flash-lite {"context_window":1048576,"max_output":65536,"price":{"input":0.1,"output":0.4,"cache_read":0.01,"cache_write":null},"cache":{"max_breakpoints":0,"min_tokens":1024,"lifetime_s":300},"capabilities":{"tools":true,"images":true,"pdf":true,"structured_output":true,"reasoning":true,"sampling":true}}
    "#);
}

#[test]
fn a_prefix_of_a_name_is_skipped() {
    let catalogue = Catalogue::standard();
    let claude = catalogue.facts("claude-sonnet-4-5");
    for name in [
        "anthropic/claude-sonnet-4-5",
        "openrouter/anthropic/claude-sonnet-4.5",
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "Claude-Sonnet-4-5",
    ] {
        assert_eq!(catalogue.facts(name), claude, "{name}");
    }
    assert_eq!(catalogue.facts("ft:gpt-4o:gemini-team::id"), catalogue.facts("gpt-4o"));
    assert_eq!(catalogue.facts("ollama/llama3.2:1b").context_window, Some(Tokens(131_072)));
    assert_eq!(catalogue.facts("HuggingFaceTB/SmolLM2-135M-Instruct").context_window, Some(Tokens(2048)));
    assert_eq!(catalogue.facts("o100"), ModelFacts::default());
    assert_eq!(catalogue.facts(""), ModelFacts::default());
}

#[test]
fn the_users_own_facts_win_field_by_field() {
    let mine = ModelFacts {
        context_window: Some(Tokens(1000)),
        price: Some(Price { input: Some(9.0), ..Price::default() }),
        ..ModelFacts::default()
    };
    let known = Catalogue::standard().facts("openai/gpt-5-mini");
    let catalogue =
        Catalogue::standard().with_models(BTreeMap::from([("openai/gpt-5-mini".to_owned(), mine)]));
    let facts = catalogue.facts("openai/gpt-5-mini");
    assert_eq!(facts.context_window, Some(Tokens(1000)));
    assert_eq!(facts.price, known.price.map(|it| Price { input: Some(9.0), ..it }));
    assert_eq!(facts.max_output, known.max_output);
    assert_eq!(catalogue.facts("gpt-5-mini"), known, "another provider's model is not meant");
    assert_eq!(catalogue.models().last(), Some(("openai/gpt-5-mini", mine)));
}

#[test]
fn a_call_has_its_price() {
    let usage = Usage {
        input_tokens: 1_000_000,
        cache_read_tokens: Some(400_000),
        cache_write_tokens: Some(100_000),
        output_tokens: 10_000,
        reasoning_tokens: 0,
    };
    let cost = Catalogue::standard().cost("claude-sonnet-4-5", usage).expect("the price is known");
    assert!((cost - (1.5 + 0.12 + 0.375 + 0.15)).abs() < 1e-9, "{cost}");
    assert_eq!(Catalogue::standard().cost("unheard-of", usage), None);
}
