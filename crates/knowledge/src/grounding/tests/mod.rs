//! Tests of whole checks; single steps are tested beside their code.

mod cards;
mod cases;
mod properties;

use contexture_message::Citation;

use super::{GroundingRules, KnownEvidence, SentEvidence, check};

/// The evidence of all cases: three chunks that were sent, one of them shortened, and one that was dropped.
pub(super) fn handbook() -> KnownEvidence {
    let shortened = SentEvidence {
        whole: Some("Ship to Berlin. Express takes 2 days and costs 15 €.".to_owned()),
        ..SentEvidence::new("handbook:7", "shipping.md", "Ship to Berlin. […]")
    };
    let refunds = "Refunds take 30 days from 5 March 2024. Use form RF-100 — see https://shop.example/refunds. \
                   The “pro” plan costs 1,200 € a year; it can’t be cancelled.";
    KnownEvidence {
        sent: vec![
            SentEvidence::new("handbook:12", "refunds.md", refunds),
            SentEvidence::new(
                "handbook:13",
                "receipts.md",
                "Keep the receipt.\nCafé vouchers have no expiry date.",
            ),
            shortened,
        ],
        dropped: vec!["handbook:14".to_owned()],
    }
}

/// Returns what a check says about an answer, one line for each citation and fault.
pub(super) fn verdict(rules: &str, answer: &str) -> String {
    verdict_on(rules, answer, &[])
}

/// Like [`verdict`], with citations of the provider.
pub(super) fn verdict_on(rules: &str, answer: &str, returned: &[Citation]) -> String {
    let rules: GroundingRules = serde_json::from_str(rules).unwrap();
    let known = handbook();
    let grounded = check(answer, returned, &known, &rules);
    let report = &grounded.report;
    let mut lines = vec![format!(
        "{}, {} of {} sentences",
        if report.passed { "passed" } else { "failed" },
        report.cited,
        report.sentences
    )];
    for citation in &grounded.citations {
        let source = known.find(&citation.chunk).map_or("", |it| it.text.as_str());
        let quote = citation.source_span.and_then(|it| it.of(source)).map(|it| format!(" {it:?}"));
        let at = citation.answer_span.and_then(|it| it.of(answer)).unwrap_or_default();
        lines.push(format!(
            "{at:?} cites {} of {}{}",
            citation.chunk,
            citation.source,
            quote.unwrap_or_default()
        ));
    }
    for fault in &report.faults {
        let at = fault.at.of(answer).unwrap();
        lines.push(format!("{at:?}: {}", serde_json::to_string(&fault.kind).unwrap()));
    }
    lines.join("\n")
}
