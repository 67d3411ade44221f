//! Counts: exact ones against an independent library, estimates against what they promise.

use std::sync::Arc;

use contexture_message::tokens::{
    Corrected, Correction, Encoding, Estimate, Family, TokenCounter, Tokens, counter_for,
};
use proptest::prelude::{any, proptest};
use proptest::{prop_assert, prop_assert_eq};

use crate::texts::{long, mixed};

fn count(encoding: Encoding, text: &str) -> usize {
    encoding.count(text).0 as usize
}

/// What the independent library counts.
fn oracle(encoding: Encoding, text: &str) -> usize {
    let library = match encoding {
        Encoding::O200kBase => tiktoken_rs::o200k_base_singleton(),
        Encoding::Cl100kBase => tiktoken_rs::cl100k_base_singleton(),
        Encoding::Llama3 => panic!("the oracle has no llama3"),
    };
    library.encode_ordinary(text).len()
}

/// What our own library counts without cuts.
fn uncut(encoding: Encoding, text: &str) -> usize {
    tiktoken::get_encoding(encoding.name()).unwrap().count(text)
}

#[test]
fn known_texts_have_known_counts() {
    let cases = [
        ("", 0, 0, 0),
        ("hello world", 2, 2, 2),
        ("The quick brown fox jumps over the lazy dog.", 10, 10, 10),
        ("fn main() {\n    println!(\"hi\");\n}\n", 10, 10, 10),
        ("{\"id\":\"e00942d762329d83\",\"ok\":true}", 16, 16, 16),
        ("Здравствуй, мир! हिन्दी में", 9, 18, 14),
        ("<|endoftext|>", 7, 7, 7),
    ];
    let counted = cases.map(|(text, ..)| {
        let [o200k, cl100k, llama3] =
            [Encoding::O200kBase, Encoding::Cl100kBase, Encoding::Llama3].map(|it| count(it, text));
        (text, o200k, cl100k, llama3)
    });
    assert_eq!(counted, cases);
    for (text, o200k, cl100k, _) in cases {
        assert_eq!(
            (oracle(Encoding::O200kBase, text), oracle(Encoding::Cl100kBase, text)),
            (o200k, cl100k),
            "{text}"
        );
    }
}

/// The places where a wrong cut would show, at every distance from the size of a piece.
#[test]
fn cuts_fall_between_runs_wherever_they_fall() {
    let tails = [
        "\n/usr",
        "\n//x",
        "x's y",
        "don't I'LL we'Re",
        "a  b",
        " \n  \n x",
        "12345 67",
        "数据，库",
        "e\u{301} x",
        "\u{a0} x",
        "ab\n\n\ncd",
        "\r\n\r\nx",
        "...\n\n/a",
        "fooBar",
        "A1b2",
        "'s't",
        "\u{3000} x",
    ];
    for tail in tails {
        for pad in 0..24 {
            let text = format!("{}{}", "-".repeat(8_192 - pad), tail.repeat(40));
            for encoding in [Encoding::O200kBase, Encoding::Cl100kBase, Encoding::Llama3] {
                assert_eq!(count(encoding, &text), uncut(encoding, &text), "{encoding:?} {tail:?} {pad}");
            }
        }
    }
}

#[test]
fn a_long_line_without_blanks_is_counted_exactly() {
    let base64 = "aGVsbG8gd29ybGQ+Zm9v/YmFy".repeat(2_000);
    let chinese = "我们需要先确认数据库的索引，然后磁盘的使用率".repeat(1_000);
    let json = r#"{"id":17,"name":"it's","path":"/a/b","list":[1,2,{"x":null}]},"#.repeat(1_000);
    for text in [base64, chinese, json] {
        assert_eq!(count(Encoding::O200kBase, &text), oracle(Encoding::O200kBase, &text));
    }
}

/// Every character beside letters, digits, blanks and signs: each must be in the class of its own script.
#[test]
fn every_character_is_in_its_class() {
    let chars: Vec<char> = (0..0x2_0000).step_by(3).filter_map(char::from_u32).collect();
    for chunk in chars.chunks(200) {
        let text: String = chunk.iter().map(|it| format!("x{it}Y {it}{it}1{it}\n{it}'s ")).collect();
        assert_eq!(count(Encoding::O200kBase, &text), oracle(Encoding::O200kBase, &text), "{:?}", chunk[0]);
        assert_eq!(count(Encoding::Cl100kBase, &text), oracle(Encoding::Cl100kBase, &text), "{:?}", chunk[0]);
    }
}

#[test]
fn a_long_s_is_an_s_in_contractions() {
    for text in ["it'ſ", "é'ſ x", "IT'ſ here", "'ſ"] {
        assert_eq!(count(Encoding::O200kBase, text), oracle(Encoding::O200kBase, text), "{text:?}");
        assert_eq!(count(Encoding::Cl100kBase, text), oracle(Encoding::Cl100kBase, text), "{text:?}");
    }
}

#[test]
fn white_space_at_the_end_is_counted_as_the_provider_does() {
    for end in
        [" ", "  ", "\n", "\n ", "\n    ", " \n  ", "\r\n\t", "\n\n\n  ", "\u{3000}", "\n\u{a0}", " \u{a0}"]
    {
        for text in [format!("word{end}"), format!("é{end}"), format!(").{end}"), end.to_owned()] {
            assert_eq!(count(Encoding::O200kBase, &text), oracle(Encoding::O200kBase, &text), "{text:?}");
            assert_eq!(count(Encoding::Cl100kBase, &text), oracle(Encoding::Cl100kBase, &text), "{text:?}");
        }
    }
}

proptest! {
    #[test]
    fn counts_are_those_of_an_independent_library(text in mixed(60)) {
        prop_assert_eq!(count(Encoding::O200kBase, &text), oracle(Encoding::O200kBase, &text));
        prop_assert_eq!(count(Encoding::Cl100kBase, &text), oracle(Encoding::Cl100kBase, &text));
        prop_assert_eq!(count(Encoding::Llama3, &text), uncut(Encoding::Llama3, &text));
    }

    #[test]
    fn any_text_has_a_count(text in any::<String>()) {
        prop_assert_eq!(count(Encoding::O200kBase, &text), oracle(Encoding::O200kBase, &text));
        prop_assert_eq!(count(Encoding::Llama3, &text), uncut(Encoding::Llama3, &text));
        for estimate in [Estimate::CLAUDE, Estimate::GEMINI, Estimate::OTHER] {
            prop_assert_eq!(estimate.count(&text).0 == 0, text.is_empty());
        }
    }

    #[test]
    fn an_estimate_stays_between_its_factors(text in mixed(200)) {
        let exact = u64::from(Encoding::O200kBase.count(&text).0);
        for (estimate, least, most) in
            [(Estimate::CLAUDE, 115, 130), (Estimate::GEMINI, 110, 110), (Estimate::OTHER, 110, 110)]
        {
            let count = u64::from(estimate.count(&text).0);
            prop_assert!(count >= (exact * least).div_ceil(100));
            prop_assert!(count <= (exact * most).div_ceil(100));
        }
    }

    #[test]
    fn a_correction_stays_in_its_range(reports in proptest::collection::vec((any::<u32>(), any::<u32>()), 0..50)) {
        let mut correction = Correction::default();
        for (estimated, reported) in reports {
            correction.observe(Tokens(estimated), Tokens(reported));
        }
        prop_assert!((500_000..=2_000_000).contains(&correction.millionths));
        prop_assert!(correction.apply(Tokens(u32::MAX)).0 >= u32::MAX / 2);
        prop_assert!(correction.apply(Tokens(1)).0 >= 1);
    }
}

proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(48))]

    #[test]
    fn a_long_text_costs_what_it_costs_uncut(text in long()) {
        for encoding in [Encoding::O200kBase, Encoding::Cl100kBase, Encoding::Llama3] {
            prop_assert_eq!(count(encoding, &text), uncut(encoding, &text));
        }
    }
}

#[test]
fn estimates_tell_prose_from_code_and_chinese() {
    let factor = |text: &str| {
        let text = text.repeat(100);
        100 * Estimate::CLAUDE.count(&text).0 / Encoding::O200kBase.count(&text).0
    };
    assert_eq!(factor("The report says that nothing was found, and that nobody looked. "), 115);
    assert_eq!(factor("if (value[0] >= limit) { return Err(Error::new(\"x\")); }\n"), 120);
    assert_eq!(factor(r#"{"id": 17, "name": "queue", "tags": ["a", "b"]}, "#), 120);
    assert_eq!(factor("我们需要先确认数据库的索引是否已经建立，"), 130);
}

#[test]
fn models_have_families() {
    let families: Vec<String> = [
        "openai/gpt-5-mini",
        "gpt-4o",
        "GPT-4.1-nano",
        "gpt-4",
        "gpt-4-turbo",
        "gpt-3.5-turbo",
        "azure/gpt-35-turbo",
        "o3",
        "openai:o4-mini",
        "o100",
        "ft:gpt-4o:gemini-team::id",
        "anthropic/claude-sonnet-4-5",
        "openrouter/anthropic/claude-3.5-haiku",
        "us.anthropic.claude-sonnet-4-20250514-v1:0",
        "gemini-2.5-pro",
        "models/gemma-3-27b",
        "meta-llama/Llama-3.3-70B",
        "llama3.1:8b",
        "meta-llama/Llama-4-Maverick",
        "mistral-large",
        "",
    ]
    .iter()
    .map(|it| format!("{it} = {:?}", Family::of_model(it)))
    .collect();
    insta::assert_snapshot!(families.join("\n"), @"
    openai/gpt-5-mini = OpenAiO200k
    gpt-4o = OpenAiO200k
    GPT-4.1-nano = OpenAiO200k
    gpt-4 = OpenAiCl100k
    gpt-4-turbo = OpenAiCl100k
    gpt-3.5-turbo = OpenAiCl100k
    azure/gpt-35-turbo = OpenAiCl100k
    o3 = OpenAiO200k
    openai:o4-mini = OpenAiO200k
    o100 = Other
    ft:gpt-4o:gemini-team::id = OpenAiO200k
    anthropic/claude-sonnet-4-5 = Claude
    openrouter/anthropic/claude-3.5-haiku = Claude
    us.anthropic.claude-sonnet-4-20250514-v1:0 = Claude
    gemini-2.5-pro = Gemini
    models/gemma-3-27b = Gemini
    meta-llama/Llama-3.3-70B = Llama
    llama3.1:8b = Llama
    meta-llama/Llama-4-Maverick = Other
    mistral-large = Other
     = Other
    ");
}

#[test]
fn a_counter_says_what_it_is() {
    let names = [
        None,
        Some("gpt-4"),
        Some("claude-opus-4"),
        Some("gemini-2.5-pro"),
        Some("llama3"),
        Some("unheard-of"),
    ]
    .map(|it| {
        let profile = counter_for(it).profile();
        format!("{}, exact {}, margin {} %", profile.name, profile.exact, profile.margin_percent())
    });
    insta::assert_snapshot!(names.join("\n"), @"
    o200k_base, exact true, margin 0 %
    cl100k_base, exact true, margin 0 %
    claude-estimate, exact false, margin 5 %
    gemini-estimate, exact false, margin 5 %
    llama3, exact true, margin 0 %
    other-estimate, exact false, margin 5 %
    ");
}

#[test]
fn a_correction_is_learned_and_applied_to_estimates_only() {
    let mut correction = Correction::default();
    correction.observe(Tokens(0), Tokens(9));
    correction.observe(Tokens(9), Tokens(0));
    assert_eq!(correction, Correction::default());
    for _ in 0..40 {
        correction.observe(Tokens(1_000), Tokens(1_100));
    }
    assert_eq!(correction.apply(Tokens(1_000)), Tokens(1_100));
    correction.observe(Tokens(1), Tokens(1_000_000));
    assert!(correction.apply(Tokens(1_000)) < Tokens(1_220), "one odd report weighs an eighth");

    let fixed = Correction { millionths: 1_100_000, reports: 40 };
    let estimate = Corrected::new(Arc::new(Estimate::OTHER), fixed);
    assert_eq!(estimate.profile().name, "other-estimate, corrected by 1.100");
    assert_eq!(estimate.count("hello world"), Tokens(4));
    let exact = Corrected::new(Arc::new(Encoding::O200kBase), fixed);
    assert_eq!(exact.profile(), Encoding::O200kBase.profile());
    assert_eq!(exact.count("hello world"), Tokens(2));

    let written = serde_json::to_string(&fixed).unwrap();
    assert_eq!(written, r#"{"millionths":1100000,"reports":40}"#);
    assert_eq!(serde_json::from_str::<Correction>(&written).unwrap(), fixed);
}
