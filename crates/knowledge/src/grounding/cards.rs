//! Evidence cards: what an answer cited, as its report records it. A report is no part of the conversation, so no summary
//! replaces it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::check::Grounded;
use super::evidence::KnownEvidence;

/// What an answer relied on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EvidenceCard {
    /// What was searched for.
    pub query: String,
    /// What was cited, or that there was nothing to cite.
    pub finding: Finding,
}

/// What a search gave the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[schemars(rename = "EvidenceFinding")]
pub enum Finding {
    /// A chunk was cited.
    Cited {
        /// The id of the chunk.
        id: String,
        /// The document that the chunk comes from.
        source: String,
        /// The SHA-256 hash of the chunk's text, to notice that it has changed since.
        hash: String,
        /// The words that were quoted, as the source has them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        quote: Option<String>,
    },
    /// The search found nothing.
    NothingFound,
}

/// Returns the cards of a checked answer: one for each chunk and quote that it cites, or one that says that the search
/// for `query` found nothing.
pub fn cards(grounded: &Grounded, known: &KnownEvidence, query: &str) -> Vec<EvidenceCard> {
    let card = |finding: Finding| EvidenceCard { query: query.to_owned(), finding };
    if known.sent.is_empty() && known.dropped.is_empty() {
        return vec![card(Finding::NothingFound)];
    }
    let mut cards: Vec<EvidenceCard> = Vec::new();
    for citation in &grounded.citations {
        let Some(evidence) = known.find(&citation.chunk) else { continue };
        // The source's own words, not the spelling of the answer.
        let quote = citation.source_span.and_then(|it| it.of(&evidence.text)).map(str::to_owned);
        let new = card(Finding::Cited {
            id: evidence.chunk.clone(),
            source: evidence.source.clone(),
            hash: hash(evidence.whole.as_ref().unwrap_or(&evidence.text)),
            quote,
        });
        if !cards.contains(&new) {
            cards.push(new);
        }
    }
    cards
}

fn hash(text: &str) -> String {
    Sha256::digest(text).iter().map(|it| format!("{it:02x}")).collect()
}
