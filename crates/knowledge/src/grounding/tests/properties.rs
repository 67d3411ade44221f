//! What holds for every text.

use contexture_message::{Citation, CitationOrigin, Span};
use proptest::prelude::*;

use crate::grounding::normal::Normal;
use crate::grounding::{
    CitationRule, Finding, GroundingRules, KnownEvidence, QuoteRule, SentEvidence, cards, check,
};

/// Text with everything that the checks look at.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-zA-Zäöüéßﬁ½²한글日本🎈e\u{301}0-9.,;:!?…\\-–—'\"“”„«»‘’`_/@# \u{a0}\u{200b}\u{ad}\\n]{0,12}",
        1 => Just("[h:1]".to_owned()),
        1 => Just("[h:2, x:9 \"ab c\"]".to_owned()),
        1 => Just("【h:3】".to_owned()),
        1 => Just("```\n".to_owned()),
        1 => Just("5 March 2024 https://a.org/b RF-1 1,000.5 ".to_owned()),
        1 => any::<String>(),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|it| it.concat())
}

fn known() -> impl Strategy<Value = KnownEvidence> {
    let sent = (text(), prop::option::of(text()));
    prop::collection::vec(sent, 0..3).prop_map(|sent| {
        let sent = sent.into_iter().enumerate().map(|(idx, (text, whole))| SentEvidence {
            whole,
            ..SentEvidence::new(format!("h:{}", idx + 1), "s.md", text)
        });
        KnownEvidence { sent: sent.collect(), dropped: vec!["h:3".to_owned()] }
    })
}

fn rules() -> impl Strategy<Value = GroundingRules> {
    let quotes = prop::sample::select(vec![QuoteRule::Required, QuoteRule::Optional, QuoteRule::Off]);
    let citations = prop::sample::select(vec![CitationRule::Required, CitationRule::Optional]);
    (quotes, citations, prop::num::f64::ANY).prop_map(|(quotes, citations, min_coverage)| GroundingRules {
        citations,
        quotes,
        min_coverage,
    })
}

fn returned() -> impl Strategy<Value = Vec<Citation>> {
    let span = prop::option::of((0..99_usize, 0..99_usize).prop_map(|(start, end)| Span { start, end }));
    let citation = (span, "h:[1-3]", prop::option::of(text())).prop_map(|(answer_span, chunk, quote)| {
        Citation { answer_span, quote, ..Citation::new("s", chunk, CitationOrigin::Provider) }
    });
    prop::collection::vec(citation, 0..3)
}

/// The quote's own form, or that without the punctuation at its end.
fn is_quoted(quote: &str, source: &str) -> bool {
    let bare = quote.trim_end_matches(['.', ',', ';', ':', '!', '?', '。', '，']);
    let found = Normal::new(source);
    [quote, bare].iter().any(|it| Normal::new(it).as_str() == found.as_str())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_answer_is_checked(answer in text(), known in known(), rules in rules(), returned in returned()) {
        let grounded = check(&answer, &returned, &known, &rules);
        for citation in &grounded.citations {
            if let Some(span) = citation.answer_span {
                prop_assert!(span.of(&answer).is_some(), "{span:?}");
            }
            let Some(span) = citation.source_span else { continue };
            let source = known.find(&citation.chunk).and_then(|it| span.of(&it.text));
            prop_assert!(source.is_some(), "{span:?}");
            let quote = citation.quote.as_deref().unwrap_or_default();
            prop_assert!(is_quoted(quote, source.unwrap_or_default()), "{quote:?} is not {source:?}");
        }
        for fault in &grounded.report.faults {
            prop_assert!(fault.at.of(&answer).is_some(), "{fault:?}");
        }
        prop_assert_eq!(grounded.report.passed, grounded.report.complaint().is_none());
        prop_assert!(grounded.report.cited <= grounded.report.sentences);
        for card in cards(&grounded, &known, &answer) {
            if let Finding::Cited { id, .. } = card.finding {
                prop_assert!(grounded.citations.iter().any(|it| it.chunk == id), "{id} is not cited");
            }
        }
    }

    #[test]
    fn a_copied_sentence_is_found(source in text(), from in 0..60_usize, length in 1..60_usize) {
        let normal = Normal::new(&source);
        let start = source.floor_char_boundary(from);
        let end = source.floor_char_boundary(start + length).max(start);
        let wanted = Normal::new(&source[start..end]);
        if let Some(span) = normal.find(&wanted) {
            let found = Normal::new(span.of(&source).unwrap());
            prop_assert_eq!(found.as_str(), wanted.as_str());
        }
        // A copy of whole words is always found.
        let words: Vec<&str> = source.split_whitespace().collect();
        let copy = words.join(" ");
        if !Normal::new(&copy).as_str().is_empty() {
            prop_assert!(normal.find(&Normal::new(&copy)).is_some(), "{copy:?}");
        }
    }
}
