//! Evidence cards, and what a compaction must keep of them.

use contexture_message::{Citation, CitationOrigin, Message, Part, Role};

use super::handbook;
use crate::grounding::{EvidenceCard, Finding, GroundingRules, KnownEvidence, cards, check, still_cited};

fn cards_of(answer: &str, known: &KnownEvidence, query: &str) -> Vec<EvidenceCard> {
    cards(&check(answer, &[], known, &GroundingRules::default()), known, query)
}

fn named(cards: &[EvidenceCard]) -> Vec<String> {
    let name = |it: &'_ EvidenceCard| -> String {
        match &it.finding {
            Finding::Cited { id, .. } => id.clone(),
            Finding::NothingFound => "nothing".to_owned(),
        }
    };
    cards.iter().map(name).collect()
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

#[test]
fn only_what_the_kept_history_cites_must_stay() {
    let mut all = cards_of("Yes [handbook:12]. No [handbook:13]. So [handbook:7].", &handbook(), "q");
    all.extend(cards_of("None.", &KnownEvidence::default(), "moon  phases"));
    all.extend(cards_of("None.", &KnownEvidence::default(), "tides"));
    let cited = Part::Text {
        text: "Without a mark.".to_owned(),
        citations: vec![Citation::new("shipping.md", "handbook:7", CitationOrigin::Provider)],
    };
    let history = [
        Message::user("What about moon phases and [handbook:13]?"),
        Message::assistant("As said [faq:1, handbook:12]."),
        Message::parts(Role::Assistant, vec![cited]),
    ];
    let (kept, removable) = still_cited(all, &history);
    assert_eq!(named(&kept), ["handbook:12", "handbook:7", "nothing"]);
    assert_eq!(named(&removable), ["handbook:13", "nothing"]);
}
