//! Evidence cards: what an answer cited, kept apart from summaries.
//!
//! A card outlives the text that it comes from. A compaction may remove it only when nothing in the history that is kept
//! cites it any more.

use std::collections::BTreeSet;

use contexture_message::{Message, Part, Role};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::check::Grounded;
use super::evidence::KnownEvidence;
use super::marks::marks;
use super::normal::Normal;
use super::sentences::code;

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

/// Splits cards into those that a compaction must keep and those that it may remove. `history` are the messages that
/// stay.
///
/// A card of a chunk stays while an answer of the history cites the chunk, in its text or in its parts. A card that says
/// that nothing was found stays while the history has the question.
pub fn still_cited<'a>(
    cards: Vec<EvidenceCard>,
    history: impl IntoIterator<Item = &'a Message>,
) -> (Vec<EvidenceCard>, Vec<EvidenceCard>) {
    let mut chunks = BTreeSet::new();
    let mut asked = Vec::new();
    for message in history {
        match message.role {
            Role::Assistant => cited_chunks(message, &mut chunks),
            Role::User => asked.push(Normal::new(&message.joined_text())),
            Role::System | Role::Tool => {}
        }
    }
    cards.into_iter().partition(|card| match &card.finding {
        Finding::Cited { id, .. } => chunks.contains(id),
        Finding::NothingFound => {
            let query = Normal::new(&card.query);
            asked.iter().any(|it| it.as_str().contains(query.as_str()))
        }
    })
}

fn cited_chunks(message: &Message, chunks: &mut BTreeSet<String>) {
    for part in &message.content {
        let Part::Text { citations, .. } = part else { continue };
        chunks.extend(citations.iter().map(|it| it.chunk.clone()));
    }
    // A mark may stand in one part and its sentence in another, so the text is read as a whole.
    let text = message.joined_text();
    let marks = marks(&text, &code(&text), &|_| false);
    chunks.extend(marks.into_iter().flat_map(|it| it.entries).map(|it| it.id));
}
