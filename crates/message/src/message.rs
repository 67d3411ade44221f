//! A message: its role and its parts.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Citation, CitationOrigin, Part, Span};

/// The role of a message's author.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The application's instructions.
    System,
    /// The user, or whatever acts for them.
    User,
    /// The model.
    Assistant,
    /// The results of tool calls.
    Tool,
}

impl Role {
    /// Returns the role's name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        }
    }

    /// Returns the role with that name, if there is one.
    pub fn parse(name: &str) -> Option<Role> {
        [Role::System, Role::User, Role::Assistant, Role::Tool].into_iter().find(|it| it.as_str() == name)
    }
}

/// One message of a conversation.
///
/// `content` is written as a string if it is a single text part without citations, and as a list of parts otherwise; both
/// forms are read. Unknown fields are rejected by name, so that no data is lost silently.
///
/// ```
/// use contexture_message::Message;
///
/// let message: Message = serde_json::from_str(r#"{"role": "user", "content": "hi"}"#)?;
/// assert_eq!(message, Message::user("hi"));
/// assert_eq!(serde_json::to_string(&message)?, r#"{"role":"user","content":"hi"}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// The role of the author.
    pub role: Role,
    /// The parts of the message, in order.
    #[serde(serialize_with = "write_content", deserialize_with = "read_content")]
    #[schemars(schema_with = "content_schema")]
    pub content: Vec<Part>,
    /// A stable id, if the message has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Distinguishes several authors with the same role, for providers that support it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Message {
    /// Returns a message with one text part.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self::parts(role, vec![Part::text(text)])
    }

    /// Returns a message with the given parts.
    pub fn parts(role: Role, content: Vec<Part>) -> Self {
        Self { role, content, id: None, name: None }
    }

    /// Returns a system message.
    pub fn system(text: impl Into<String>) -> Self {
        Self::text(Role::System, text)
    }

    /// Returns a user message.
    pub fn user(text: impl Into<String>) -> Self {
        Self::text(Role::User, text)
    }

    /// Returns an assistant message.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::text(Role::Assistant, text)
    }

    /// Returns the same message with an id.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Returns all text parts joined.
    pub fn joined_text(&self) -> String {
        let texts = self.content.iter().filter_map(|it| match it {
            Part::Text { text, .. } => Some(text.as_str()),
            Part::Image(_)
            | Part::File(_)
            | Part::Evidence(_)
            | Part::Thinking(_)
            | Part::ToolCall(_)
            | Part::ToolResult(_) => None,
        });
        texts.collect()
    }

    /// Returns the citations of all text parts in order, without the form of the provider. Their spans count from the
    /// start of the [joined text](Message::joined_text).
    ///
    /// ```
    /// use contexture_message::{Citation, CitationOrigin, Message, Part, Role, Span};
    ///
    /// let cited = Citation::new("refunds.md", "handbook:12", CitationOrigin::Provider);
    /// let text = "within 30 days".to_owned();
    /// let parts = vec![Part::text("Return it "), Part::Text { text, citations: vec![cited] }];
    /// let citations = Message::parts(Role::Assistant, parts).citations();
    /// assert_eq!(citations[0].answer_span, Some(Span { start: 10, end: 24 }));
    /// ```
    pub fn citations(&self) -> Vec<Citation> {
        let mut offset = 0;
        let mut all = Vec::new();
        for part in &self.content {
            let Part::Text { text, citations } = part else { continue };
            let whole = Span { start: 0, end: text.len() };
            all.extend(citations.iter().map(|it| Citation {
                answer_span: Some(it.answer_span.unwrap_or(whole).within(text).after(offset)),
                raw: None,
                ..it.clone()
            }));
            offset += text.len();
        }
        all
    }

    /// Replaces the citations. Their spans count from the start of the [joined text](Message::joined_text). One that the
    /// provider returned keeps the provider's form, and so do those that are not in the new list: the provider expects
    /// them back.
    pub fn set_citations(&mut self, citations: Vec<Citation>) {
        let mut old = Vec::new();
        for (neutral, own) in self.citations().into_iter().zip(self.taken_citations()) {
            old.extend(own.raw.map(|raw| (neutral, raw)));
        }
        for citation in citations {
            let is_same =
                |it: &Citation| it.answer_span == citation.answer_span && it.quote == citation.quote;
            let is_of_provider = citation.origin == CitationOrigin::Provider;
            let found = old.iter().position(|(it, _)| is_of_provider && is_same(it));
            let raw = found.map(|it| old.remove(it).1);
            self.cite(Citation { raw, ..citation });
        }
        old.into_iter().for_each(|(it, raw)| self.cite(Citation { raw: Some(raw), ..it }));
    }

    fn taken_citations(&mut self) -> Vec<Citation> {
        let mut taken = Vec::new();
        for part in &mut self.content {
            if let Part::Text { citations, .. } = part {
                taken.append(citations);
            }
        }
        taken
    }

    /// Adds a citation whose span counts from the start of the [joined text](Message::joined_text). It goes to the part
    /// in which the span begins; without a span it goes to the last text part. A message without text has no place for
    /// it.
    pub fn cite(&mut self, citation: Citation) {
        let mut texts: Vec<(&mut String, &mut Vec<Citation>)> = Vec::new();
        for part in &mut self.content {
            if let Part::Text { text, citations } = part {
                texts.push((text, citations));
            }
        }
        let mut rest = citation.answer_span.map_or(usize::MAX, |it| it.start);
        let n_texts = texts.len();
        for (idx, (text, citations)) in texts.into_iter().enumerate() {
            if rest < text.len() || idx + 1 == n_texts {
                let offset = citation.answer_span.map_or(0, |it| it.start.saturating_sub(rest));
                let local = |it: Span| {
                    let span = Span { start: rest, end: it.end.saturating_sub(offset) };
                    span.within(text)
                };
                let answer_span = citation.answer_span.map(local);
                return citations.push(Citation { answer_span, ..citation });
            }
            rest = if rest == usize::MAX { rest } else { rest - text.len() };
        }
    }

    /// Returns the text, if the message is a single text part.
    pub fn as_text(&self) -> Option<&str> {
        match self.content.as_slice() {
            [Part::Text { text, .. }] => Some(text),
            _ => None,
        }
    }

    /// Returns the number of tool results in it.
    pub fn n_tool_results(&self) -> usize {
        self.content.iter().filter(|it| matches!(it, Part::ToolResult(_))).count()
    }

    /// Whether the message is empty: it has no parts, or only blank text.
    pub fn is_blank(&self) -> bool {
        self.content.iter().all(|it| matches!(it, Part::Text { text, .. } if text.trim().is_empty()))
    }
}

fn content_schema(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({"anyOf": [{"type": "string"}, generator.subschema_for::<Vec<Part>>()]})
}

fn write_content<S: Serializer>(content: &[Part], serializer: S) -> Result<S::Ok, S::Error> {
    match content {
        [Part::Text { text, citations }] if citations.is_empty() => serializer.serialize_str(text),
        parts => parts.serialize(serializer),
    }
}

fn read_content<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Part>, D::Error> {
    struct Content;

    impl<'de> serde::de::Visitor<'de> for Content {
        type Value = Vec<Part>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a string or a list of parts")
        }

        fn visit_str<E>(self, text: &str) -> Result<Vec<Part>, E> {
            Ok(vec![Part::text(text)])
        }

        fn visit_string<E>(self, text: String) -> Result<Vec<Part>, E> {
            Ok(vec![Part::text(text)])
        }

        fn visit_seq<A: serde::de::SeqAccess<'de>>(self, seq: A) -> Result<Vec<Part>, A::Error> {
            Vec::deserialize(serde::de::value::SeqAccessDeserializer::new(seq))
        }
    }

    // A visitor instead of an untagged enum, which would hide which part was wrong.
    deserializer.deserialize_any(Content)
}
