//! A table of answers with their verdicts.

use contexture_message::{Citation, CitationOrigin, Span};

use super::{handbook, verdict, verdict_on};
use crate::grounding::{GroundingRules, KnownEvidence, check};

const DEFAULT: &str = "{}";

#[test]
fn a_citation_that_holds() {
    insta::assert_snapshot!(verdict(DEFAULT, "Refunds take 30 days [handbook:12]."), @r#"
    passed, 1 of 1 sentences
    "[handbook:12]" cites handbook:12 of refunds.md
    "#);
    insta::assert_snapshot!(verdict(DEFAULT, "Keep it. [handbook:13; handbook:12] Bye."), @r#"
    passed, 1 of 2 sentences
    "[handbook:13; handbook:12]" cites handbook:13 of receipts.md
    "[handbook:13; handbook:12]" cites handbook:12 of refunds.md
    "#);
}

#[test]
fn a_forged_id() {
    insta::assert_snapshot!(verdict(DEFAULT, "It takes 30 days [handbook:99]. Or so [wiki:1]."), @r#"
    failed, 0 of 2 sentences
    "[handbook:99]": {"kind":"unknown_chunk","chunk":"handbook:99"}
    "[wiki:1]": {"kind":"unknown_chunk","chunk":"wiki:1"}
    "It takes 30 days [handbook:99]. Or so [wiki:1].": {"kind":"too_few_citations","needed":1}
    "#);
}

#[test]
fn an_id_that_was_found_but_not_sent() {
    insta::assert_snapshot!(verdict(DEFAULT, "See [handbook:14] and [handbook:13]."), @r#"
    failed, 1 of 1 sentences
    "[handbook:13]" cites handbook:13 of receipts.md
    "[handbook:14]": {"kind":"dropped_chunk","chunk":"handbook:14"}
    "#);
}

#[test]
fn a_quote_with_other_marks_spaces_and_dashes() {
    insta::assert_snapshot!(verdict(DEFAULT, "It says «form RF-100 - see https://shop.example/refunds» [handbook:12]."), @r#"
    passed, 1 of 1 sentences
    "[handbook:12]" cites handbook:12 of refunds.md "form RF-100 — see https://shop.example/refunds"
    "#);
    insta::assert_snapshot!(verdict(DEFAULT, "“the \"pro\" plan costs” [handbook:12], „it can't be cancelled“ [handbook:12]"), @r#"
    failed, 1 of 1 sentences
    "[handbook:12]" cites handbook:12 of refunds.md
    "[handbook:12]" cites handbook:12 of refunds.md "it can’t be cancelled"
    "the \"pro\" plan costs": {"kind":"quote_not_found","chunk":"handbook:12","quote":"the \"pro\" plan costs","nearest":"The “pro” plan costs"}
    "#);
    insta::assert_snapshot!(verdict(DEFAULT, "[handbook:13 \"receipt.  Cafe\u{301} vouchers\"] is what counts."), @r#"
    passed, 1 of 1 sentences
    "[handbook:13 \"receipt.  Cafe\u{301} vouchers\"]" cites handbook:13 of receipts.md "receipt.\nCafé vouchers"
    "#);
}

#[test]
fn a_quote_that_was_altered() {
    insta::assert_snapshot!(verdict(DEFAULT, "\"Refunds take forty days from 5 March\" [handbook:12]."), @r#"
    failed, 1 of 1 sentences
    "[handbook:12]" cites handbook:12 of refunds.md
    "Refunds take forty days from 5 March": {"kind":"quote_not_found","chunk":"handbook:12","quote":"Refunds take forty days from 5 March","nearest":"Refunds take 30 days from 5 March"}
    "#);
    insta::assert_snapshot!(verdict(DEFAULT, "\"Nothing like this is there\" [handbook:13]."), @r#"
    failed, 1 of 1 sentences
    "[handbook:13]" cites handbook:13 of receipts.md
    "Nothing like this is there": {"kind":"quote_not_found","chunk":"handbook:13","quote":"Nothing like this is there"}
    "#);
    // Two words are emphasis.
    insta::assert_snapshot!(verdict(DEFAULT, "The \"gold\" plan is fine [handbook:12]."), @r#"
    passed, 1 of 1 sentences
    "[handbook:12]" cites handbook:12 of refunds.md
    "#);
}

#[test]
fn a_quote_with_an_ellipsis_or_with_punctuation_of_its_own() {
    insta::assert_snapshot!(verdict(DEFAULT, "\"Refunds take 30 days … it can't be cancelled,\" [handbook:12]"), @r#"
    passed, 1 of 1 sentences
    "[handbook:12]" cites handbook:12 of refunds.md "Refunds take 30 days"
    "[handbook:12]" cites handbook:12 of refunds.md "it can’t be cancelled"
    "#);
}

#[test]
fn a_quote_shared_by_marks_that_follow_each_other() {
    insta::assert_snapshot!(verdict(r#"{"quotes": "required"}"#, "\"Keep the receipt\" [handbook:12] [handbook:13]."), @r#"
    passed, 1 of 1 sentences
    "[handbook:12]" cites handbook:12 of refunds.md
    "[handbook:13]" cites handbook:13 of receipts.md "Keep the receipt"
    "#);
}

#[test]
fn quotes_that_are_required_or_off() {
    insta::assert_snapshot!(verdict(r#"{"quotes": "required"}"#, "Keep the receipt [handbook:13]."), @r#"
    failed, 1 of 1 sentences
    "[handbook:13]" cites handbook:13 of receipts.md
    "[handbook:13]": {"kind":"quote_missing","chunk":"handbook:13"}
    "#);
    insta::assert_snapshot!(verdict(r#"{"quotes": "off"}"#, "\"Not a word of it\" [handbook:13]."), @r#"
    passed, 1 of 1 sentences
    "[handbook:13]" cites handbook:13 of receipts.md
    "#);
}

#[test]
fn altered_numbers_dates_identifiers_and_urls() {
    insta::assert_snapshot!(verdict(DEFAULT, "Refunds take 14 days from March 6, 2024 [handbook:12]."), @r#"
    failed, 1 of 1 sentences
    "[handbook:12]" cites handbook:12 of refunds.md
    "14": {"kind":"fact_not_found","fact":"number","text":"14","chunks":["handbook:12"]}
    "March 6, 2024": {"kind":"fact_not_found","fact":"date","text":"March 6, 2024","chunks":["handbook:12"]}
    "#);
    insta::assert_snapshot!(verdict(DEFAULT, "Use RF-101 at https://shop.example/returns for 1.200,00 € [handbook:12]."), @r#"
    failed, 1 of 1 sentences
    "[handbook:12]" cites handbook:12 of refunds.md
    "RF-101": {"kind":"fact_not_found","fact":"identifier","text":"RF-101","chunks":["handbook:12"]}
    "https://shop.example/returns": {"kind":"fact_not_found","fact":"url","text":"https://shop.example/returns","chunks":["handbook:12"]}
    "#);
    // Only cited sentences are checked.
    insta::assert_snapshot!(verdict(DEFAULT, "You asked about 4711. It takes 30 days [handbook:12]."), @r#"
    passed, 1 of 2 sentences
    "[handbook:12]" cites handbook:12 of refunds.md
    "#);
}

#[test]
fn a_citation_of_text_that_was_cut_off() {
    insta::assert_snapshot!(verdict(DEFAULT, "\"Express takes 2 days\" for 15 € [handbook:7]."), @r#"
    failed, 1 of 1 sentences
    "[handbook:7]" cites handbook:7 of shipping.md
    "Express takes 2 days": {"kind":"quote_cut","chunk":"handbook:7","quote":"Express takes 2 days"}
    "2": {"kind":"fact_cut","fact":"number","text":"2","chunks":["handbook:7"]}
    "15": {"kind":"fact_cut","fact":"number","text":"15","chunks":["handbook:7"]}
    "#);
    insta::assert_snapshot!(verdict(DEFAULT, "Ship to Berlin for 16 € [handbook:7]."), @r#"
    failed, 1 of 1 sentences
    "[handbook:7]" cites handbook:7 of shipping.md
    "16": {"kind":"fact_not_found","fact":"number","text":"16","chunks":["handbook:7"]}
    "#);
}

#[test]
fn too_few_citations() {
    insta::assert_snapshot!(verdict(DEFAULT, "Refunds are possible. I am sure."), @r#"
    failed, 0 of 2 sentences
    "Refunds are possible. I am sure.": {"kind":"too_few_citations","needed":1}
    "#);
    insta::assert_snapshot!(verdict(r#"{"citations": "optional"}"#, "Refunds are possible. I am sure."), @"passed, 0 of 2 sentences");
    insta::assert_snapshot!(verdict(r#"{"min_coverage": 0.9}"#, "Keep the receipt [handbook:13]. I am sure."), @r#"
    failed, 1 of 2 sentences
    "[handbook:13]" cites handbook:13 of receipts.md
    "Keep the receipt [handbook:13]. I am sure.": {"kind":"too_few_citations","needed":2}
    "#);
    let nothing =
        check("Nothing is known about this.", &[], &KnownEvidence::default(), &GroundingRules::default());
    assert!(nothing.report.passed);
}

#[test]
fn abbreviations_lists_and_code() {
    let answer = "E.g. Dr. No. 5 knows:\n\n1. Refunds take 30 days [handbook:12].\n2. Keep the receipt [handbook:13]\n\n\
                  ```\nx[handbook:99] = 17\n```\nThat is `[handbook:98]`.";
    insta::assert_snapshot!(verdict(DEFAULT, answer), @r#"
    passed, 2 of 4 sentences
    "[handbook:12]" cites handbook:12 of refunds.md
    "[handbook:13]" cites handbook:13 of receipts.md
    "#);
}

#[test]
fn unicode() {
    insta::assert_snapshot!(verdict(DEFAULT, "返品は30日です【handbook:12】。“Café vouchers have no expiry date” [handbook:13] 🎈"), @r#"
    passed, 2 of 2 sentences
    "【handbook:12】" cites handbook:12 of refunds.md
    "[handbook:13]" cites handbook:13 of receipts.md "Café vouchers have no expiry date"
    "#);
}

#[test]
fn citations_of_the_provider() {
    let answer = "They take 30 days. Bye.";
    let cited = |chunk: &str, quote: &str, end: usize| Citation {
        answer_span: Some(Span { start: 0, end }),
        quote: Some(quote.to_owned()),
        ..Citation::new(chunk, chunk, CitationOrigin::Provider)
    };
    insta::assert_snapshot!(verdict_on(DEFAULT, answer, &[cited("handbook:12", "Refunds take 30 days", 18)]), @r#"
    passed, 1 of 2 sentences
    "They take 30 days." cites handbook:12 of refunds.md "Refunds take 30 days"
    "#);
    insta::assert_snapshot!(verdict_on(DEFAULT, answer, &[cited("handbook:13", "Keep the receipts.", 18)]), @r#"
    failed, 1 of 2 sentences
    "They take 30 days." cites handbook:13 of receipts.md
    "They take 30 days.": {"kind":"quote_not_found","chunk":"handbook:13","quote":"Keep the receipts.","nearest":"Keep the receipt."}
    "30": {"kind":"fact_not_found","fact":"number","text":"30","chunks":["handbook:13"]}
    "#);
    insta::assert_snapshot!(verdict_on(DEFAULT, answer, &[cited("https://example.org", "30 days", 999)]), @r#"
    failed, 0 of 2 sentences
    "They take 30 days. Bye." cites https://example.org of https://example.org
    "They take 30 days. Bye.": {"kind":"too_few_citations","needed":1}
    "#);
}

#[test]
fn the_complaint_names_every_fault_once() {
    let answer = "It takes 14 days [handbook:99] [handbook:12]. Again 14 days [handbook:12]. \
                  \"Keep a receipt\" [handbook:13]. \"Express takes 2 days\" [handbook:7]. See [handbook:14].";
    let grounded = check(answer, &[], &handbook(), &GroundingRules::default());
    insta::assert_snapshot!(grounded.report.complaint().unwrap(), @r#"
    The answer's citations do not hold:
      - [handbook:99] was not given to you.
      - [handbook:14] was found but not shown to you, so it can't be cited.
      - "Keep a receipt" is not in [handbook:13]. The chunk says: "Keep the receipt."
      - The number 14 is not in [handbook:12], which the sentence cites.
      - "Express takes 2 days" is in a part of [handbook:7] that was cut off and not shown to you.
      - The number 2 is in a part of [handbook:7] that was cut off and not shown to you.
    Answer again from the evidence. Cite only chunks that you were given, by their ids in brackets. Copy quotes, numbers, dates, identifiers and URLs exactly. If the evidence does not say something, leave it out, or say that it is not known and write [none] behind it.
    "#);
    let json = serde_json::to_string(&grounded.report).unwrap();
    assert_eq!(serde_json::from_str::<crate::grounding::Report>(&json).unwrap(), grounded.report);
}

/// Whether an answer passes, and what is wrong with it otherwise.
fn outcome(answer: &str, fault: &str) -> bool {
    let verdict = verdict(DEFAULT, answer);
    assert!(verdict.contains(fault), "{answer}: {verdict}");
    verdict.starts_with("passed")
}

#[test]
fn what_the_evidence_does_not_tell_is_said_with_none() {
    assert!(outcome("That is not known [none].", "1 of 1 sentences"));
    assert!(!outcome("That is not known.", "too_few_citations"));
    assert!(!outcome("", "too_few_citations"));
}

#[test]
fn a_mark_alone_belongs_to_the_sentence_before_it() {
    assert!(!outcome("It costs 777 euros.\n\n[handbook:12]", r#""text":"777""#));
    assert!(!outcome("**Refunds**: 31 days\n- [handbook:12]", r#""text":"31""#));
    assert!(outcome("Refunds take 30 days.\n\n[handbook:12]", "1 of 1 sentences"));
}

#[test]
fn a_quote_behind_its_mark_is_checked_too() {
    assert!(!outcome("[handbook:13] says \"Batteries last for ever\".", "quote_not_found"));
    assert!(outcome("[handbook:13] says \"Keep the receipt\", and that is all.", "\"Keep the receipt\""));
}

#[test]
fn names_in_camel_case_and_addresses_without_a_scheme_are_facts() {
    assert!(!outcome("Call getUserById [handbook:13].", r#""text":"getUserById""#));
    assert!(!outcome("See evil.example/path [handbook:13].", r#""text":"evil.example/path""#));
    assert!(outcome("Take either/or of McDonald [handbook:13].", "1 of 1 sentences"));
}
