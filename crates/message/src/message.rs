//! A message: its role and its parts.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Part;

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
/// `content` is written as a string if it is a single text part, and as a list of parts otherwise; both
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
            Part::Text { text } => Some(text.as_str()),
            Part::Image(_) | Part::File(_) | Part::Thinking(_) | Part::ToolCall(_) | Part::ToolResult(_) => {
                None
            }
        });
        texts.collect()
    }

    /// Returns the text, if the message is a single text part.
    pub fn as_text(&self) -> Option<&str> {
        match self.content.as_slice() {
            [Part::Text { text }] => Some(text),
            _ => None,
        }
    }

    /// Returns the number of tool results in it.
    pub fn n_tool_results(&self) -> usize {
        self.content.iter().filter(|it| matches!(it, Part::ToolResult(_))).count()
    }

    /// Whether the message is empty: it has no parts, or only blank text.
    pub fn is_blank(&self) -> bool {
        self.content.iter().all(|it| matches!(it, Part::Text { text } if text.trim().is_empty()))
    }
}

fn content_schema(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({"anyOf": [{"type": "string"}, generator.subschema_for::<Vec<Part>>()]})
}

fn write_content<S: Serializer>(content: &[Part], serializer: S) -> Result<S::Ok, S::Error> {
    match content {
        [Part::Text { text }] => serializer.serialize_str(text),
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
