//! Evidence cards.

use super::handbook;
use crate::grounding::{EvidenceCard, GroundingRules, KnownEvidence, cards, check};

fn cards_of(answer: &str, known: &KnownEvidence, query: &str) -> Vec<EvidenceCard> {
    cards(&check(answer, &[], known, &GroundingRules::default()), known, query)
}

#[test]
fn a_card_has_the_words_of_the_source() {
    let cards =
        cards_of("\"The \"pro\" plan” [handbook:12] “Keep the receipt” [handbook:13].", &handbook(), "plans");
    let json = serde_json::to_string_pretty(&cards[1]).unwrap();
    insta::assert_snapshot!(json, @r#"
    {
      "query": "plans",
      "finding": {
        "type": "cited",
        "id": "handbook:13",
        "source": "receipts.md",
        "hash": "e2d65be94129406f58830df127010a81b72168856a5b99d71351c28e51e9ed9a",
        "quote": "Keep the receipt"
      }
    }
    "#);
    assert_eq!(serde_json::from_str::<EvidenceCard>(&json).unwrap(), cards[1]);
    let nothing = cards_of("I do not know.", &KnownEvidence::default(), "the moon");
    insta::assert_snapshot!(serde_json::to_string(&nothing).unwrap(), @r#"[{"query":"the moon","finding":{"type":"nothing_found"}}]"#);
}
