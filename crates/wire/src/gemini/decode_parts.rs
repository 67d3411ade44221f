//! Decodes parts.

use std::collections::BTreeSet;

use contexture_message::{File, Image, MediaSource, Part, Thinking, ToolCall, ToolOutput, ToolResult};
use serde_json::{Map, Value};

use crate::loss::Losses;
use crate::read::Place;
use crate::{DecodeError, Dialect};

/// Assigns ids to calls that have none.
pub(super) struct Ids {
    prefix: String,
    next: usize,
    /// Ids that occur in the document.
    given: BTreeSet<String>,
    /// The ids and names of calls without a result so far.
    open: Vec<(String, String)>,
}

impl Ids {
    /// Creates ids that start with `prefix`.
    pub(super) fn new(prefix: String) -> Self {
        Self { prefix, next: 0, given: BTreeSet::new(), open: Vec::new() }
    }

    pub(super) fn of_request(body: &Value) -> Self {
        let mut ids = Self::new("call".to_owned());
        let contents = body.get("contents").and_then(Value::as_array).into_iter().flatten();
        let parts = contents.filter_map(|it| it.get("parts")?.as_array()).flatten();
        let calls = parts.filter_map(|it| it.get("functionCall").or_else(|| it.get("function_call")));
        ids.given = calls.filter_map(|it| it.get("id")?.as_str()).map(str::to_owned).collect();
        ids
    }

    fn fresh(&mut self) -> String {
        loop {
            let id = format!("{}_{}", self.prefix, self.next);
            self.next += 1;
            if !self.given.contains(&id) {
                return id;
            }
        }
    }

    /// Returns the id of a call, generating one if it is missing.
    pub(super) fn call(&mut self, id: Option<String>, name: &str) -> String {
        let id = id.filter(|it| !it.is_empty()).unwrap_or_else(|| self.fresh());
        self.open.push((id.clone(), name.to_owned()));
        id
    }

    fn answer(&mut self, id: Option<String>, name: &str) -> String {
        let is_meant = |(own, own_name): &(String, String)| match &id {
            Some(id) => own == id,
            None => own_name == name,
        };
        let open = self.open.iter().position(is_meant).map(|it| self.open.remove(it).0);
        id.or(open).unwrap_or_else(|| self.fresh())
    }
}

/// Decodes parts.
pub(super) struct Parts {
    provider: String,
    ids: Ids,
    pub(super) losses: Losses,
}

impl Parts {
    pub(super) fn new(provider: &str, ids: Ids) -> Self {
        Self { provider: provider.to_owned(), ids, losses: Losses::default() }
    }

    /// Returns the provider that the parts come from.
    pub(super) fn provider(&self) -> &str {
        &self.provider
    }

    /// Decodes the `parts` of a content.
    pub(super) fn list(&mut self, content: &Place<'_>) -> Result<Vec<Part>, DecodeError> {
        let mut parts = Vec::new();
        for doc in content.get_objects("parts")? {
            self.part(doc, &mut parts)?;
        }
        Ok(parts)
    }

    fn thinking(&self, text: String, signature: Option<String>) -> Part {
        let provider = Some(self.provider.clone());
        Part::Thinking(Thinking { text, signature, provider, redacted: false })
    }

    fn part(&mut self, doc: Place<'_>, parts: &mut Vec<Part>) -> Result<(), DecodeError> {
        let signature = doc.get_string("thoughtSignature")?;
        let thought = doc.flag("thought")?;
        let text = doc.get_string("text")?;
        let part = match text {
            Some(text) if thought => self.thinking(text, signature.clone()),
            Some(text) if text.is_empty() && signature.is_some() => {
                self.sign_last(signature.unwrap_or_default(), parts);
                doc.report(&mut self.losses);
                return Ok(());
            }
            Some(text) => Part::text(text),
            None => match self.other(&doc)? {
                Some(part) => part,
                None => return Ok(()),
            },
        };
        doc.report(&mut self.losses);
        if !thought && let Some(signature) = signature {
            parts.push(self.thinking(String::new(), Some(signature)));
        }
        parts.push(part);
        Ok(())
    }

    /// Attaches a signature that arrived on an empty text to the text before it, unless that one is signed already.
    fn sign_last(&self, signature: String, parts: &mut Vec<Part>) {
        let is_signature =
            |it: &Part| matches!(it, Part::Thinking(it) if it.text.is_empty() && it.signature.is_some());
        let at = match parts.as_slice() {
            [.., before, Part::Text { .. }] if is_signature(before) => parts.len(),
            [.., Part::Text { .. }] => parts.len() - 1,
            _ => parts.len(),
        };
        parts.insert(at, self.thinking(String::new(), Some(signature)));
    }

    fn other(&mut self, doc: &Place<'_>) -> Result<Option<Part>, DecodeError> {
        if let Some(call) = doc.get_object("functionCall")? {
            return self.call(call).map(Some);
        }
        if let Some(response) = doc.get_object("functionResponse")? {
            return self.response(response).map(Some);
        }
        if let Some(data) = doc.get_object("inlineData")? {
            return inline(data, &mut self.losses).map(Some);
        }
        if let Some(data) = doc.get_object("fileData")? {
            return linked(data, &mut self.losses).map(Some);
        }
        self.losses.add(doc.at(), "left out: this kind of part is not known");
        Ok(None)
    }

    fn call(&mut self, doc: Place<'_>) -> Result<Part, DecodeError> {
        let name = doc.need_string("name")?;
        let id = doc.get_string("id")?;
        let arguments = doc.get_value("args").unwrap_or_else(|| Value::Object(Map::new()));
        doc.report(&mut self.losses);
        let id = self.ids.call(id, &name);
        Ok(Part::ToolCall(ToolCall { id, name, arguments }))
    }

    fn response(&mut self, doc: Place<'_>) -> Result<Part, DecodeError> {
        let name = doc.need_string("name")?;
        let id = doc.get_string("id")?;
        let mut media = Vec::new();
        for part in doc.get_objects("parts")? {
            match part.get_object("inlineData")? {
                Some(data) => media.push(inline(data, &mut self.losses)?),
                None => self.losses.add(part.at(), "left out: this kind of part is not known"),
            }
        }
        let response = doc.get_value("response").unwrap_or_else(|| Value::Object(Map::new()));
        doc.report(&mut self.losses);
        let call_id = self.ids.answer(id, &name);
        Ok(Part::ToolResult(ToolResult { call_id, name, output: output(response, media) }))
    }
}

/// Decodes a function response; a form that we do not write ourselves becomes a structured value.
fn output(response: Value, media: Vec<Part>) -> ToolOutput {
    let fields = response.as_object().into_iter().flatten();
    let fields: Vec<(&str, &Value)> = fields.map(|(key, value)| (key.as_str(), value)).collect();
    if !media.is_empty() {
        let text = match fields.as_slice() {
            [] => None,
            [("output", Value::String(text))] => Some(text.clone()),
            _ => Some(response.to_string()),
        };
        return ToolOutput::Content(text.map(Part::text).into_iter().chain(media).collect());
    }
    match fields.as_slice() {
        [("output", Value::String(text))] => ToolOutput::Text(text.clone()),
        [("output", value)] => ToolOutput::Json((*value).clone()),
        [("error", Value::String(text))] => ToolOutput::ErrorText(text.clone()),
        [("error", value)] => ToolOutput::ErrorJson((*value).clone()),
        [("denied", Value::Bool(true))] => ToolOutput::ExecutionDenied { reason: None },
        [("denied", Value::Bool(true)), ("reason", Value::String(reason))] => {
            ToolOutput::ExecutionDenied { reason: Some(reason.clone()) }
        }
        _ => ToolOutput::Json(response),
    }
}

fn media(source: MediaSource, media_type: Option<String>) -> Part {
    match media_type {
        Some(kind) if kind.starts_with("image/") => Part::Image(Image { source, media_type: Some(kind) }),
        media_type => Part::File(File { source, media_type, name: None }),
    }
}

pub(super) fn inline(doc: Place<'_>, losses: &mut Losses) -> Result<Part, DecodeError> {
    let data = doc.need_string("data")?;
    let part = media(MediaSource::Data(data), doc.get_string("mimeType")?);
    doc.report(losses);
    Ok(part)
}

/// Decodes a linked file. A file that was uploaded to Gemini is referenced by its id.
pub(super) fn linked(doc: Place<'_>, losses: &mut Losses) -> Result<Part, DecodeError> {
    let uri = doc.need_string("fileUri")?;
    let media_type = doc.get_string("mimeType")?;
    doc.report(losses);
    let own = uri.strip_prefix(Dialect::Gemini.base_url()).and_then(|it| it.strip_prefix('/'));
    Ok(match own.filter(|it| it.starts_with("files/")) {
        Some(id) => Part::File(File { source: MediaSource::Id(id.to_owned()), media_type, name: None }),
        None => media(MediaSource::Url(uri), media_type),
    })
}
