//! Evidence cards in a request: what earlier answers cite and the request no longer has, because it was summarised, aged
//! or left out. Without it the model could not repeat a citation.
//!
//! Nothing is stored for it: the kept history says what it cites, so a card stays exactly as long as its citation. Its
//! text is the words that were quoted, or else the chunk as its base has it now.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use contexture_compose::{Call, Piece, Priority, Scope, Source};
use contexture_knowledge::retrieve::{ReadRange, ReadTarget};
use contexture_message::{Evidence, Message, Part, Role, ToolOutput};
use serde_json::json;

use crate::base::KnowledgeBase;
use crate::pieces::evidence;

/// The priority of cards: what earlier answers rest on gives way after the hits of this turn.
const CARDS: f64 = 70.0;
/// How many chunks are read again at most.
const MAX_READ: usize = 8;

/// Returns the cards of the conversation so far. `found` are the chunks that this turn has anyway.
pub(crate) async fn pieces(call: &Call, bases: &[KnowledgeBase], found: &BTreeSet<String>) -> Vec<Piece> {
    let messages: Vec<&Message> =
        call.conversation().iter().flat_map(|it| it.messages()).map(|it| &**it).collect();
    let present: BTreeSet<&str> = messages.iter().flat_map(|it| chunks_in(&it.content)).collect();
    let mut pieces = Vec::new();
    let mut n_read = 0;
    for (chunk, cited) in cited(&messages) {
        let base = chunk.split_once(':').and_then(|(name, _)| bases.iter().find(|it| it.name() == name));
        let Some(base) = base.filter(|_| !present.contains(chunk.as_str()) && !found.contains(&chunk)) else {
            continue;
        };
        let card = match cited.quotes.is_empty() {
            false => Some(cited.card(&chunk)),
            true if n_read < MAX_READ => {
                n_read += 1;
                read(base, &call.scope, &chunk).await
            }
            true => None,
        };
        pieces.extend(card.map(piece));
    }
    pieces
}

/// How the history cites a chunk.
#[derive(Default)]
struct Cited {
    source: String,
    /// The words that were quoted, each once.
    quotes: Vec<String>,
}

impl Cited {
    fn card(self, chunk: &str) -> Evidence {
        let mut quotes = self.quotes.into_iter();
        let first = quotes.next().into_iter();
        let text = first.chain(quotes.map(|it| format!("\n{it}"))).collect();
        Evidence { chunk: chunk.to_owned(), source: self.source, title: None, text, citations: true }
    }
}

/// Returns what the answers of a conversation cite, by chunk.
fn cited(messages: &[&Message]) -> BTreeMap<String, Cited> {
    let mut all: BTreeMap<String, Cited> = BTreeMap::new();
    for message in messages.iter().filter(|it| it.role == Role::Assistant) {
        for citation in message.citations() {
            let cited = all.entry(citation.chunk).or_default();
            cited.source = citation.source;
            cited.quotes.extend(citation.quote.filter(|it| !cited.quotes.contains(it)));
        }
    }
    all
}

/// Reads a chunk again. One that its base does not have any more is no card.
async fn read(base: &KnowledgeBase, scope: &Scope, chunk: &str) -> Option<Evidence> {
    let id = chunk.split_once(':')?.1;
    let retriever = base.retriever(scope).await.ok()?;
    let range = ReadRange { from: None, max: 1 };
    let passage = retriever.read(ReadTarget::Chunk(id.to_owned()), range).await.ok()?;
    passage.hits.iter().find(|it| it.chunk == id).map(evidence)
}

fn piece(card: Evidence) -> Piece {
    let (base, chunk) = card.chunk.split_once(':').unwrap_or(("", &card.chunk));
    Piece {
        source: Some(Source::Knowledge { base: base.into(), chunk: chunk.into() }),
        priority: Priority::new(CARDS).ok(),
        detail: Some(Arc::new(json!({"card": true}))),
        evidence: Some(Arc::new(card.clone())),
        ..Piece::new(card.labelled_text())
    }
}

/// Lists the chunks of the evidence in parts, also in tool results.
fn chunks_in(parts: &[Part]) -> Vec<&str> {
    let mut chunks = Vec::new();
    for part in parts {
        match part {
            Part::Evidence(evidence) => chunks.push(evidence.chunk.as_str()),
            Part::ToolResult(result) => {
                if let ToolOutput::Content(parts) = &result.output {
                    chunks.extend(chunks_in(parts));
                }
            }
            Part::Text { .. } | Part::Image(_) | Part::File(_) | Part::Thinking(_) | Part::ToolCall(_) => {}
        }
    }
    chunks
}
