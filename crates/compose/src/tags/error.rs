//! What an author can get wrong with tags.

use std::fmt;

use super::names::MAX_TAG_NAME_BYTES;

/// An entry, or a name, that can't become tags.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TagError {
    /// A key that is no name.
    #[error("`{key}` is not a valid name: {fault}{place}")]
    NameInvalid {
        /// The key as authored, with the `@` of an attribute.
        key: String,
        /// What is wrong with it.
        fault: NameFault,
        /// Where it stands.
        place: TagPlace,
    },
    /// A key whose name has a meaning of its own in prompts.
    #[error("`{key}` is the reserved tag name `{name}`{place}")]
    NameReserved {
        /// The key as authored.
        key: String,
        /// The name in kebab-case.
        name: String,
        /// Where it stands.
        place: TagPlace,
    },
    /// Text under a name that holds nested tags, or the reverse.
    #[error("`{path}` is {first} in `{first_source}` and {second} in `{second_source}`")]
    ShapeMismatch {
        /// The names from the top, joined by dots.
        path: String,
        /// What it was first.
        first: TagShape,
        /// Who made it so.
        first_source: String,
        /// What it was then.
        second: TagShape,
        /// Who made it so.
        second_source: String,
    },
    /// An attribute with two values.
    #[error("the attribute `{path}` has one value in `{first_source}` and another in `{second_source}`")]
    AttributeMismatch {
        /// The names from the top, the attribute last, with its `@`.
        path: String,
        /// Who set it first.
        first_source: String,
        /// Who set it to something else.
        second_source: String,
    },
    /// An attribute, or a tag's own text, that is not text.
    #[error("the value is {found} where only text, a number or a boolean can stand{place}")]
    NotText {
        /// What it is, with its article.
        found: &'static str,
        /// Where it stands; the path ends in `@name` or `#text`.
        place: TagPlace,
    },
    /// A message under a tag name.
    #[error("a message with a `role` stands inside a tag{place}")]
    MessageInTag {
        /// Where it stands.
        place: TagPlace,
    },
    /// An object with a `role` that is not a message.
    #[error("an object with the key `role` is neither a message nor a tag: {reason}{place}")]
    RoleAmbiguous {
        /// Why it is no message.
        reason: String,
        /// Where it stands.
        place: TagPlace,
    },
    /// A message with a part that is none.
    #[error("a message is invalid: {reason}{place}")]
    MessageInvalid {
        /// What is wrong with it.
        reason: String,
        /// Where it stands.
        place: TagPlace,
    },
    /// An entry that is `true`, which is no text.
    #[error("an entry is `true` where text, a message or named values can stand{place}")]
    EntryInvalid {
        /// Where it stands.
        place: TagPlace,
    },
    /// Too many levels.
    #[error("a value has more than {limit} levels{place}")]
    DepthExceeded {
        /// How many there may be.
        limit: usize,
        /// Where the level too many begins.
        place: TagPlace,
    },
}

impl TagError {
    /// Returns the stable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            TagError::NameInvalid { .. } => "tag_name_invalid",
            TagError::NameReserved { .. } => "tag_name_reserved",
            TagError::ShapeMismatch { .. }
            | TagError::AttributeMismatch { .. }
            | TagError::NotText { .. } => "tag_shape_mismatch",
            TagError::MessageInTag { .. } => "message_in_tag",
            TagError::RoleAmbiguous { .. } => "role_ambiguous",
            TagError::MessageInvalid { .. } => "message_invalid",
            TagError::EntryInvalid { .. } => "entry_invalid",
            TagError::DepthExceeded { .. } => "depth_exceeded",
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

    /// Returns who is involved: both sources of a mismatch (equal, where one source contradicts itself), the
    /// one source of anything else, none for a name outside an entry.
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

    /// Returns what to do about it.
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

/// Where in the entries something stands.
///
/// Shown as ``, in `context[0]` at `a.b` ``; not at all outside entries.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TagPlace {
    /// The names from the top, joined by dots.
    pub path: String,
    /// Who contributed the entry.
    pub contributor: Option<String>,
}

impl TagPlace {
    /// Returns the place of a name that no entry holds.
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

/// Why a key is no name.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NameFault {
    /// Nothing is left of it as a name.
    #[error("it has neither a letter nor a digit")]
    Empty,
    /// A character that no name has.
    #[error("only ASCII letters, digits, `_` and `-` can stand in a name")]
    Character,
    /// A digit stands first.
    #[error("it begins with a digit")]
    Digit,
    /// An attribute or `#text` at the top of an entry.
    #[error("there is no tag around it")]
    NoTag,
    /// More bytes than a name may have.
    #[error("it has {bytes} bytes, and a name at most {MAX_TAG_NAME_BYTES}")]
    TooLong {
        /// How many it has.
        bytes: usize,
    },
}

/// What stands under a tag name.
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
