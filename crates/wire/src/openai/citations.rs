//! Encodes and decodes annotations, the citations of both OpenAI dialects.
//!
//! Annotations count characters, citations count bytes; the text that they belong to converts one into the other. Chat
//! Completions wraps the fields of an annotation in another object, Responses does not. Annotations are never part of a
//! request, so nothing is sent back.

use contexture_message::{Citation, CitationOrigin, RawCitation, Span};
use serde_json::{Value, json};

use crate::Target;
use crate::loss::Losses;
use crate::read::Place;

/// How a dialect writes the fields of an annotation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Form {
    /// In an object under the name of the annotation's type.
    Wrapped,
    /// Beside the type.
    Flat,
}

/// Decodes an annotation of `text`; returns `None` if it is no citation.
pub(crate) fn read(target: &Target, place: &Place<'_>, text: &str, losses: &mut Losses) -> Option<Citation> {
    let kind = place.name("type").unwrap_or_default();
    let inner = place.get(&kind).filter(|it| it.value.is_object());
    let fields = inner.as_ref().unwrap_or(place);
    let file = || fields.name("file_id").unwrap_or_default();
    let (source, chunk) = match kind.as_str() {
        "url_citation" => {
            let url = fields.name("url").unwrap_or_default();
            (url.clone(), url)
        }
        "file_citation" | "container_file_citation" => (fields.name("filename").unwrap_or_else(file), file()),
        other => {
            losses.add(place.at(), format!("left out: an annotation of type `{other}` is no citation"));
            return None;
        }
    };
    let raw = RawCitation { provider: target.provider.clone(), value: place.value.clone() };
    Some(Citation {
        answer_span: span(fields, text),
        quote: fields.name("content"),
        raw: Some(raw),
        ..Citation::new(source, chunk, CitationOrigin::Provider)
    })
}

/// Returns the span of an annotation, or its position if it has no end.
fn span(fields: &Place<'_>, text: &str) -> Option<Span> {
    let start = fields.count("start_index").or_else(|| fields.count("index"))?;
    let end = fields.count("end_index").unwrap_or(start).max(start);
    Some(Span { start: byte_offset(text, start), end: byte_offset(text, end) })
}

fn byte_offset(text: &str, n_chars: u64) -> usize {
    let n_chars = usize::try_from(n_chars).unwrap_or(usize::MAX);
    text.char_indices().nth(n_chars).map_or(text.len(), |(at, _)| at)
}

/// Encodes the citations of the text part that begins at byte `from` of `text`. Those that another provider made, or
/// that the text itself contains, are written as citations of a URL.
pub(crate) fn annotations(
    target: &Target,
    form: Form,
    citations: &[Citation],
    (text, from): (&str, usize),
    at: &str,
    losses: &mut Losses,
) -> Vec<Value> {
    let mut annotations = Vec::new();
    for (idx, citation) in citations.iter().enumerate() {
        let raw = citation.raw.as_ref().filter(|it| it.provider == target.provider && is_of(form, &it.value));
        annotations.push(match raw {
            Some(raw) => raw.value.clone(),
            None => {
                losses.add(format!("{at}.citations[{idx}]"), "written as the citation of a URL");
                url_citation(form, citation, text, from)
            }
        });
    }
    annotations
}

/// Whether a provider with both dialects made the annotation in this one.
fn is_of(form: Form, value: &Value) -> bool {
    let kind = value.get("type").and_then(Value::as_str).unwrap_or_default();
    let is_wrapped = value.get(kind).is_some_and(Value::is_object);
    is_wrapped == (form == Form::Wrapped)
}

fn url_citation(form: Form, citation: &Citation, text: &str, from: usize) -> Value {
    let part = text.get(from..).unwrap_or_default();
    let span = citation.answer_span.unwrap_or(Span { start: 0, end: part.len() }).within(part).after(from);
    let n_chars = |end: usize| text.get(..end).unwrap_or_default().chars().count();
    let (start, end) = (n_chars(span.start), n_chars(span.end));
    let (url, title) = (&citation.source, &citation.chunk);
    match form {
        Form::Wrapped => {
            let fields = json!({"start_index": start, "end_index": end, "url": url, "title": title});
            json!({"type": "url_citation", "url_citation": fields})
        }
        Form::Flat => json!({
            "type": "url_citation", "start_index": start, "end_index": end, "url": url, "title": title,
        }),
    }
}
