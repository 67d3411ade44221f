//! Encodes evidence as search results, and encodes and decodes the citations of text blocks.
//!
//! A search result has one name, `source`. It is written as `DOCUMENT#CHUNK`, so that a citation of it names both; where
//! the two are equal, it is written once. What the API demands beyond single blocks:
//!
//! 1. Search results either all return citations or none do. If one of them is to return citations, all are.
//! 2. Citations and an output schema exclude each other. The schema wins.
//! 3. A citation that is sent back must refer to a search result or document of the same request. Its index is set
//!    again, because results before it may be gone; without its search result it is left out.

use contexture_message::{Citation, CitationOrigin, Evidence, RawCitation};
use serde_json::{Map, Value, json};

use super::turns::Turn;
use crate::loss::Losses;
use crate::read::Place;
use crate::{DecodeError, Target};

/// Encodes evidence as a search result; returns `None` if it has no text, which the API rejects.
pub(super) fn search_result(evidence: &Evidence, at: &str, losses: &mut Losses) -> Option<Value> {
    let blocks: Vec<Value> = evidence
        .text
        .iter()
        .filter(|it| !it.trim().is_empty())
        .map(|it| json!({"type": "text", "text": it}))
        .collect();
    if blocks.is_empty() {
        losses.add(at, "left out: a search result can't be blank");
        return None;
    }
    if blocks.len() < evidence.text.len() {
        losses.add(format!("{at}.text"), "blank texts were left out");
    }
    if evidence.chunk.contains('#') {
        losses.add(format!("{at}.chunk"), "an id with `#` is not recognized in citations");
    }
    let title = evidence.title.as_ref().unwrap_or(&evidence.source);
    let mut block = Map::new();
    block.insert("type".to_owned(), "search_result".into());
    block.insert("source".to_owned(), name_of(&evidence.source, &evidence.chunk).into());
    block.insert("title".to_owned(), title.as_str().into());
    block.insert("content".to_owned(), Value::Array(blocks));
    if evidence.citations {
        block.insert("citations".to_owned(), json!({"enabled": true}));
    }
    Some(Value::Object(block))
}

fn name_of(source: &str, chunk: &str) -> String {
    match source == chunk || source.is_empty() {
        true => chunk.to_owned(),
        false => format!("{source}#{chunk}"),
    }
}

/// Returns the document and the chunk that the name of a search result stands for.
fn named(name: &str) -> (String, String) {
    let (source, chunk) = name.rsplit_once('#').unwrap_or((name, name));
    (source.to_owned(), chunk.to_owned())
}

/// Decodes a search result.
pub(super) fn read_search_result(doc: &Place<'_>, losses: &mut Losses) -> Result<Evidence, DecodeError> {
    let (source, chunk) = named(&doc.need_string("source")?);
    let title = doc.get_string("title")?.filter(|it| *it != source);
    let mut text = Vec::new();
    for block in doc.need("content")?.objects()? {
        block.ignore(&["type", "citations", "cache_control"]);
        text.push(block.need_string("text")?);
        block.report(losses);
    }
    let citations = match doc.get_object("citations")? {
        Some(config) => config.flag("enabled")?,
        None => false,
    };
    Ok(Evidence { chunk, source, title, text, citations })
}

/// Returns the citations of a text in the form in which this provider returned them.
pub(super) fn own(target: &Target, citations: &[Citation], at: &str, losses: &mut Losses) -> Vec<Value> {
    let mut own = Vec::new();
    for (idx, citation) in citations.iter().enumerate() {
        match &citation.raw {
            Some(raw) if raw.provider == target.provider => own.push(raw.value.clone()),
            // The text says what it cites.
            None if citation.origin == CitationOrigin::Text => {}
            Some(raw) => {
                losses.add(format!("{at}.citations[{idx}]"), format!("left out: made by `{}`", raw.provider));
            }
            None => losses.add(format!("{at}.citations[{idx}]"), "left out: its provider is unknown"),
        }
    }
    own
}

/// Adds citations to a text block.
pub(super) fn cited(mut block: Value, citations: Vec<Value>) -> Value {
    if let Some(block) = block.as_object_mut().filter(|_| !citations.is_empty()) {
        block.insert("citations".to_owned(), Value::Array(citations));
    }
    block
}

/// Decodes a citation of a text block.
///
/// Offsets into documents count characters of a text that is not known here, so only the quoted words are read.
pub(super) fn read(provider: &str, value: &Value) -> Citation {
    let doc = Place::root(value);
    let title = doc.name("document_title").or_else(|| doc.name("title"));
    let document = doc.count("document_index").map(|it| format!("document[{it}]"));
    let range = |what: &str, start: &str, end: &str| {
        let document = document.clone().unwrap_or_default();
        match (doc.count(start), doc.count(end)) {
            (Some(start), Some(end)) => format!("{document}/{what}[{start}-{end}]"),
            _ => document,
        }
    };
    let kind = doc.name("type").unwrap_or_default();
    let (source, chunk) = match kind.as_str() {
        "search_result_location" => named(&doc.name("source").unwrap_or_default()),
        "web_search_result_location" => {
            let url = doc.name("url").unwrap_or_default();
            (url.clone(), url)
        }
        "page_location" => {
            let chunk = range("pages", "start_page_number", "end_page_number");
            (title.or(document).unwrap_or_default(), chunk)
        }
        "content_block_location" => {
            let chunk = range("blocks", "start_block_index", "end_block_index");
            (title.or(document).unwrap_or_default(), chunk)
        }
        // `char_location`, and kinds that are not known yet.
        _ => {
            let source = title.or(document.clone()).unwrap_or_else(|| kind.clone());
            (source.clone(), document.unwrap_or(source))
        }
    };
    let raw = RawCitation { provider: provider.to_owned(), value: value.clone() };
    Citation {
        quote: doc.name("cited_text"),
        raw: Some(raw),
        ..Citation::new(source, chunk, CitationOrigin::Provider)
    }
}

/// Makes search results and citations of a request agree, by the rules above.
pub(super) fn settle(turns: &mut [Turn], has_schema: bool, losses: &mut Losses) {
    let mut sent = Sent::default();
    for block in turns.iter_mut().flat_map(|it| &mut it.blocks) {
        let at = format!("messages[{}]", block.message);
        refer_again(&mut block.json, &sent, &at, losses);
        sent.add(&block.json);
    }
    let blocks = turns.iter_mut().flat_map(|it| &mut it.blocks);
    let mut results: Vec<&mut Map<String, Value>> = Vec::new();
    blocks.for_each(|it| collect(&mut it.json, &mut results));
    let cites = results.iter().any(|it| it.get("citations").is_some());
    let n_silent = results.iter().filter(|it| it.get("citations").is_none()).count();
    if cites && has_schema {
        losses.add("messages", "citations are off: they exclude an output schema");
        results.iter_mut().for_each(|it| drop(it.shift_remove("citations")));
    } else if cites && n_silent > 0 {
        losses.add("messages", "citations are on for all search results: they can't be on for some");
        let enabled = || json!({"enabled": true});
        results.iter_mut().for_each(|it| drop(it.insert("citations".to_owned(), enabled())));
    }
}

/// Collects the search results of a block, also those in a tool result.
fn collect<'a>(block: &'a mut Value, results: &mut Vec<&'a mut Map<String, Value>>) {
    let Some(fields) = block.as_object_mut() else { return };
    match fields.get("type").and_then(Value::as_str) {
        Some("search_result") => results.push(fields),
        Some("tool_result") => {
            let content = fields.get_mut("content").and_then(Value::as_array_mut).into_iter().flatten();
            content.for_each(|it| collect(it, results));
        }
        _ => {}
    }
}

/// What the blocks so far have that a citation may refer to.
#[derive(Default)]
struct Sent {
    /// The names of the search results.
    sources: Vec<String>,
    n_documents: u64,
}

impl Sent {
    fn add(&mut self, block: &Value) {
        match block.get("type").and_then(Value::as_str) {
            Some("search_result") => {
                let source = block.get("source").and_then(Value::as_str).unwrap_or_default();
                self.sources.push(source.to_owned());
            }
            Some("document") => self.n_documents += 1,
            Some("tool_result") => {
                let content = block.get("content").and_then(Value::as_array).into_iter().flatten();
                content.for_each(|it| self.add(it));
            }
            _ => {}
        }
    }
}

/// Sets the indexes of a text's citations. They refer to what comes before the text, so that a new message never
/// changes what precedes it.
fn refer_again(block: &mut Value, sent: &Sent, at: &str, losses: &mut Losses) {
    let is_text = block.get("type").is_some_and(|it| it == "text");
    let Some(fields) = block.as_object_mut().filter(|_| is_text) else { return };
    let Some(Value::Array(citations)) = fields.get_mut("citations") else { return };
    let n_before = citations.len();
    citations.retain_mut(|it| match it.get("search_result_index").and_then(Value::as_u64) {
        Some(index) => {
            let source = it.get("source").and_then(Value::as_str);
            let is_meant = |own: &String| Some(own.as_str()) == source;
            let same = usize::try_from(index).ok().filter(|idx| sent.sources.get(*idx).is_some_and(is_meant));
            let found = same.or_else(|| sent.sources.iter().position(is_meant));
            if let Some(found) = found {
                it["search_result_index"] = found.into();
            }
            found.is_some()
        }
        None => it.get("document_index").and_then(Value::as_u64).is_none_or(|it| it < sent.n_documents),
    });
    if citations.len() < n_before {
        losses.add(at, "citations of what is not sent any more were left out");
    }
    if citations.is_empty() {
        fields.shift_remove("citations");
    }
}
