//! Errors in the tags that authors write.

use contexture_message::ErrorCode;
use std::fmt;

/// The maximum length in bytes of the name of a tag or an attribute, as authored.
pub const MAX_TAG_NAME_BYTES: usize = 128;

/// Why an entry or a name cannot become a tag.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TagError {
    /// A key is not a valid name.
    #[error("`{key}` is not a valid name: {fault}{place}")]
    NameInvalid {
        /// The key as authored, with the `@` of an attribute.
        key: String,
        /// Why the key is not a name.
        fault: NameFault,
        /// The place of the key.
        place: TagPlace,
    },
    /// A key has a name that is reserved in prompts.
    #[error("`{key}` is the reserved tag name `{name}`{place}")]
    NameReserved {
        /// The key as authored.
        key: String,
        /// The name in kebab-case.
        name: String,
        /// The place of the key.
        place: TagPlace,
    },
    /// A name holds text in one place and nested tags in another.
    #[error("`{path}` is {first} in `{first_source}` and {second} in `{second_source}`")]
    ShapeMismatch {
        /// The names from the top, joined by dots.
        path: String,
        /// The shape it had first.
        first: TagShape,
        /// The source of the first shape.
        first_source: String,
        /// The conflicting shape.
        second: TagShape,
        /// The source of the conflicting shape.
        second_source: String,
    },
    /// An attribute has two values.
    #[error("the attribute `{path}` has one value in `{first_source}` and another in `{second_source}`")]
    AttributeMismatch {
        /// The names from the top, the attribute last, with its `@`.
        path: String,
        /// The source of the first value.
        first_source: String,
        /// The source of the conflicting value.
        second_source: String,
    },
    /// An attribute, or a tag's own text, is not text.
    #[error("the value is {found} where only text, a number or a boolean can stand{place}")]
    NotText {
        /// The kind of value found, with its article.
        found: &'static str,
        /// The place of the value; the path ends in `@name` or `#text`.
        place: TagPlace,
    },
    /// A message is inside a tag.
    #[error("a message with a `role` stands inside a tag{place}")]
    MessageInTag {
        /// The place of the message.
        place: TagPlace,
    },
    /// An object with a `role` is not a message.
    #[error("an object with the key `role` is neither a message nor a tag: {reason}{place}")]
    RoleAmbiguous {
        /// Why it is not a message.
        reason: String,
        /// The place of the object.
        place: TagPlace,
    },
    /// A message has an invalid part.
    #[error("a message is invalid: {reason}{place}")]
    MessageInvalid {
        /// Why the part is invalid.
        reason: String,
        /// The place of the message.
        place: TagPlace,
    },
    /// An entry is `true`, which is not text.
    #[error("an entry is `true` where text, a message or named values can stand{place}")]
    EntryInvalid {
        /// The place of the entry.
        place: TagPlace,
    },
    /// Tags are nested too deep.
    #[error("a value has more than {limit} levels{place}")]
    DepthExceeded {
        /// The maximum depth.
        limit: usize,
        /// The place where the limit is exceeded.
        place: TagPlace,
    },
}

impl TagError {
    /// Returns the stable code of the error.
    pub fn code(&self) -> ErrorCode {
        match self {
            TagError::NameInvalid { .. } => ErrorCode::TagNameInvalid,
            TagError::NameReserved { .. } => ErrorCode::TagNameReserved,
            TagError::ShapeMismatch { .. }
            | TagError::AttributeMismatch { .. }
            | TagError::NotText { .. } => ErrorCode::TagShapeMismatch,
            TagError::MessageInTag { .. } => ErrorCode::MessageInTag,
            TagError::RoleAmbiguous { .. } => ErrorCode::RoleAmbiguous,
            TagError::MessageInvalid { .. } => ErrorCode::MessageInvalid,
            TagError::EntryInvalid { .. } => ErrorCode::EntryInvalid,
            TagError::DepthExceeded { .. } => ErrorCode::DepthExceeded,
        }
    }

    /// Returns the names from the top, joined by dots, such as `a.b.c`; empty for an entry itself.
    pub fn path(&self) -> &str {
        match self {
            TagError::ShapeMismatch { path, .. } | TagError::AttributeMismatch { path, .. } => path,
            TagError::NameInvalid { place, .. }
            | TagError::NameReserved { place, .. }
            | TagError::NotText { place, .. }
            | TagError::MessageInTag { place }
            | TagError::RoleAmbiguous { place, .. }
            | TagError::MessageInvalid { place, .. }
            | TagError::EntryInvalid { place }
            | TagError::DepthExceeded { place, .. } => &place.path,
        }
    }

    /// Returns the sources involved: both sources of a mismatch (equal if one source contradicts itself), the only
    /// source of other errors, none for a name outside an entry.
    pub fn sources(&self) -> Vec<String> {
        match self {
            TagError::ShapeMismatch { first_source, second_source, .. }
            | TagError::AttributeMismatch { first_source, second_source, .. } => {
                vec![first_source.clone(), second_source.clone()]
            }
            TagError::NameInvalid { place, .. }
            | TagError::NameReserved { place, .. }
            | TagError::NotText { place, .. }
            | TagError::MessageInTag { place }
            | TagError::RoleAmbiguous { place, .. }
            | TagError::MessageInvalid { place, .. }
            | TagError::EntryInvalid { place }
            | TagError::DepthExceeded { place, .. } => place.contributor.iter().cloned().collect(),
        }
    }

    /// Returns how to fix it, if known.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            TagError::NameInvalid { fault: NameFault::NoTag, .. } => {
                "put the key into the object of the tag it belongs to".to_owned()
            }
            TagError::NameInvalid { fault: NameFault::TooLong { .. }, .. } => {
                "give the tag a short name, and put the text under it".to_owned()
            }
            TagError::NameInvalid { .. } => {
                "use ASCII letters, digits, `_` and `-`, and begin with a letter".to_owned()
            }
            TagError::NameReserved { name, .. } => format!("rename the key, such as `{name}-notes`"),
            TagError::ShapeMismatch { path, .. } => {
                format!("give `{path}` only text or only nested tags in all sources, or use two names")
            }
            TagError::AttributeMismatch { .. } => {
                "set the attribute in one source, or to the same value in both".to_owned()
            }
            TagError::NotText { .. } => "write the value as text, or make it a nested tag".to_owned(),
            TagError::MessageInTag { .. } => {
                "make the message an entry of its own, or put only its text under the key".to_owned()
            }
            TagError::RoleAmbiguous { .. } => {
                "rename the key, such as `userRole`, or make the object a message with a `role` (system, user, \
                 assistant or tool) and `content`"
                    .to_owned()
            }
            TagError::MessageInvalid { .. } => {
                "write `content` as text, or as a list of parts such as `{\"type\": \"text\", \"text\": \"…\"}`"
                    .to_owned()
            }
            TagError::EntryInvalid { .. } => {
                "write what the model should read, or give the value a name, such as `{isMember: true}`".to_owned()
            }
            TagError::DepthExceeded { .. } => "nest the value less deeply, or pass it as text".to_owned(),
        })
    }
}

/// The place of something in the entries.
///
/// Displays as ``, in `context[0]` at `a.b` ``; empty outside entries.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TagPlace {
    /// The names from the top, joined by dots.
    pub path: String,
    /// The source of the entry.
    pub contributor: Option<String>,
}

impl TagPlace {
    /// Returns the place of a name that is not part of an entry.
    pub(super) fn outside(name: &str) -> Self {
        Self { path: name.to_owned(), contributor: None }
    }
}

impl fmt::Display for TagPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(contributor) = &self.contributor {
            write!(f, ", in `{contributor}`")?;
            if !self.path.is_empty() {
                write!(f, " at `{}`", self.path)?;
            }
        }
        Ok(())
    }
}

/// Why a key is not a valid name.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NameFault {
    /// It has no letters or digits.
    #[error("it has neither a letter nor a digit")]
    Empty,
    /// It contains a character that is not allowed in names.
    #[error("only ASCII letters, digits, `_` and `-` can stand in a name")]
    Character,
    /// It starts with a digit.
    #[error("it begins with a digit")]
    Digit,
    /// It is an attribute or `#text` at the top of an entry, where there is no tag.
    #[error("there is no tag around it")]
    NoTag,
    /// It is longer than a name may be.
    #[error("it has {bytes} bytes, and a name at most {MAX_TAG_NAME_BYTES}")]
    TooLong {
        /// Its length in bytes.
        bytes: usize,
    },
}

/// The kind of content that a tag holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TagShape {
    /// Lines of text.
    Text,
    /// Other tags.
    Nested,
}

impl fmt::Display for TagShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TagShape::Text => "text",
            TagShape::Nested => "an object with nested tags",
        })
    }
}
