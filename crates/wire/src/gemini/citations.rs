//! Encodes and decodes what Gemini says about the sources of an answer.
//!
//! `groundingMetadata` links segments of the answer to chunks that Gemini found; `citationMetadata` names texts that the
//! answer repeats. Both count bytes. Neither is part of a request, so nothing is sent back.

use contexture_message::{Citation, CitationOrigin, Message, RawCitation, Span};
use serde_json::{Map, Value, json};

use crate::citations::citations_of;
use crate::loss::Losses;
use crate::read::Place;
use crate::{DecodeError, Target};

/// Reads the citations of a candidate. Spans count from the start of the whole text.
pub(super) fn read(
    provider: &str,
    candidate: &Place<'_>,
    losses: &mut Losses,
) -> Result<Vec<Citation>, DecodeError> {
    let mut citations = Vec::new();
    if let Some(metadata) = candidate.get_object("groundingMetadata")? {
        let chunks = metadata.get_list("groundingChunks")?;
        for support in metadata.get_objects("groundingSupports")? {
            let span = support.get("segment").and_then(|it| segment(&it, candidate));
            for index in support.get_list("groundingChunkIndices")? {
                let index = index.value.as_u64().and_then(|it| usize::try_from(it).ok());
                let chunk = index.and_then(|it| chunks.get(it));
                citations.extend(chunk.map(|it| chunk_citation(provider, it, span)));
            }
        }
        metadata.report(losses);
    }
    if let Some(metadata) = candidate.get_object("citationMetadata")? {
        // The second name is that of Vertex AI.
        let sources = [metadata.get_objects("citationSources")?, metadata.get_objects("citations")?].concat();
        citations.extend(sources.iter().map(|it| source_citation(provider, it)));
        metadata.report(losses);
    }
    Ok(citations)
}

/// Returns the span of a segment in the whole text. A segment counts from the start of its part.
fn segment(segment: &Place<'_>, candidate: &Place<'_>) -> Option<Span> {
    let index = segment.count("partIndex").unwrap_or_default();
    let parts = candidate.value.pointer("/content/parts").and_then(Value::as_array).into_iter().flatten();
    let before = parts.take(usize::try_from(index).unwrap_or(usize::MAX));
    let is_thought = |it: &Value| it.get("thought").and_then(Value::as_bool).unwrap_or_default();
    let lengths = before.filter(|it| !is_thought(it)).filter_map(|it| it.get("text")?.as_str()).map(str::len);
    let offset = lengths.sum();
    let at = |name: &str| usize::try_from(segment.count(name).unwrap_or_default()).unwrap_or(usize::MAX);
    segment.count("endIndex")?;
    Some(Span { start: at("startIndex"), end: at("endIndex") }.after(offset))
}

fn chunk_citation(provider: &str, chunk: &Place<'_>, span: Option<Span>) -> Citation {
    let kinds = ["retrievedContext", "web", "maps"];
    let fields = kinds.iter().find_map(|it| chunk.get(it)).unwrap_or_else(|| chunk.clone());
    let title = fields.name("title");
    let source = fields.name("uri").or_else(|| title.clone()).unwrap_or_default();
    let document = fields.name("documentName").or_else(|| fields.name("placeId"));
    Citation {
        answer_span: span,
        quote: fields.name("text"),
        raw: Some(RawCitation { provider: provider.to_owned(), value: chunk.value.clone() }),
        ..Citation::new(source.clone(), document.unwrap_or(source), CitationOrigin::Provider)
    }
}

fn source_citation(provider: &str, source: &Place<'_>) -> Citation {
    let uri = source.name("uri").or_else(|| source.name("title")).unwrap_or_default();
    let at = |name: &str| source.count(name).map(|it| usize::try_from(it).unwrap_or(usize::MAX));
    let span = at("endIndex").map(|end| Span { start: at("startIndex").unwrap_or_default().min(end), end });
    Citation {
        answer_span: span,
        raw: Some(RawCitation { provider: provider.to_owned(), value: source.value.clone() }),
        ..Citation::new(uri.clone(), uri, CitationOrigin::Provider)
    }
}

/// Returns the metadata fields of a candidate with these citations. Other providers' citations become retrieved
/// chunks.
pub(super) fn metadata(target: &Target, message: &Message) -> Map<String, Value> {
    let (mut chunks, mut supports, mut sources) = (Vec::<Value>::new(), Vec::new(), Vec::new());
    for (citation, own) in message.citations().into_iter().zip(citations_of(message)) {
        let raw = own.raw.as_ref().filter(|it| it.provider == target.provider);
        if let Some(raw) = raw.filter(|it| it.value.get("uri").is_some()) {
            sources.push(raw.value.clone());
            continue;
        }
        let chunk = raw.map_or_else(|| retrieved(&citation), |it| it.value.clone());
        let index = chunks.iter().position(|it| *it == chunk).unwrap_or_else(|| {
            chunks.push(chunk);
            chunks.len() - 1
        });
        let mut support = Map::new();
        if let Some(span) = citation.answer_span.filter(|_| own.answer_span.is_some()) {
            support.insert("segment".to_owned(), json!({"startIndex": span.start, "endIndex": span.end}));
        }
        support.insert("groundingChunkIndices".to_owned(), json!([index]));
        supports.push(Value::Object(support));
    }
    let mut fields = Map::new();
    if !sources.is_empty() {
        fields.insert("citationMetadata".to_owned(), json!({"citationSources": sources}));
    }
    if !chunks.is_empty() {
        let metadata = json!({"groundingChunks": chunks, "groundingSupports": supports});
        fields.insert("groundingMetadata".to_owned(), metadata);
    }
    fields
}

fn retrieved(citation: &Citation) -> Value {
    let mut fields = Map::new();
    fields.insert("uri".to_owned(), citation.source.as_str().into());
    fields.insert("documentName".to_owned(), citation.chunk.as_str().into());
    fields.extend(citation.quote.as_ref().map(|it| ("text".to_owned(), it.as_str().into())));
    json!({"retrievedContext": fields})
}

/// Reports the citations that are written in a form other than their own.
pub(super) fn report_foreign(target: &Target, message: &Message, losses: &mut Losses) {
    let is_own = |it: &Citation| it.raw.as_ref().is_some_and(|it| it.provider == target.provider);
    if citations_of(message).any(|it| !is_own(it)) {
        losses.add("message", "citations are written as chunks that Gemini retrieved");
    }
}
