//! Names of tags: converts any common spelling to kebab-case.
//!
//! A key consists of ASCII letters, digits, `_` and `-`. It is split into words at `_`, `-` and case changes: before
//! an uppercase letter that follows a lowercase one, and before the last uppercase letter of a run that is followed
//! by a lowercase letter. Digits belong to the word before them and do not end a run. The words are joined by `-`, in
//! lowercase; the first character must be a letter.

use std::borrow::Cow;

use contexture_history::neutral::{ENGINE_TAG_NAMES, is_engine_tag_name};

use super::error::{MAX_TAG_NAME_BYTES, NameFault, TagError, TagPlace};

/// The names that authors cannot use, at any depth and in any spelling.
pub const RESERVED_TAG_NAMES: &[&str] = &[
    "active-skill",
    "thinking",
    "answer",
    "tool-use",
    "tool-result",
    "function-calls",
    "invoke",
    "parameter",
    "system",
    "user",
    "assistant",
    "role",
    "message",
    "system-context",
    "system-reminders",
    "system-event",
];

/// How many characters of an overlong name are shown.
const SHOWN: usize = 40;

/// Returns the tag name of an authored key, or why it is not valid.
///
/// ```
/// use contexture_compose::tags::validate_tag_name;
///
/// assert_eq!(validate_tag_name("userID")?, "user-id");
/// assert_eq!(validate_tag_name("XMLParser")?, "xml-parser");
/// assert_eq!(validate_tag_name("tool_result").unwrap_err().code(), "tag_name_reserved");
/// assert_eq!(validate_tag_name("café").unwrap_err().code(), "tag_name_invalid");
/// # Ok::<(), contexture_compose::tags::TagError>(())
/// ```
pub fn validate_tag_name(key: &str) -> Result<String, TagError> {
    tag_name(key, TagPlace::outside).map(Cow::into_owned)
}

/// Returns the tag name of a block, or why it is not valid. A block is wrapped separately, so only the engine's own
/// names are reserved.
///
/// ```
/// use contexture_compose::tags::block_tag_name;
///
/// assert_eq!(block_tag_name("role")?, "role");
/// assert_eq!(block_tag_name("system_event").unwrap_err().code(), "tag_name_reserved");
/// # Ok::<(), contexture_compose::tags::TagError>(())
/// ```
pub fn block_tag_name(key: &str) -> Result<String, TagError> {
    match kebab(key) {
        Ok(name) if ENGINE_TAG_NAMES.contains(&name.as_ref()) => {
            let place = TagPlace::outside(&name);
            Err(TagError::NameReserved { key: key.to_owned(), name: name.into_owned(), place })
        }
        Ok(name) => Ok(name.into_owned()),
        Err(fault) => {
            let key = shown(key);
            Err(TagError::NameInvalid { place: TagPlace::outside(&key), key, fault })
        }
    }
}

/// Returns the tag name of a block that a request or a tenant brings. Such a block can't have the name of a tag that the
/// engine writes inside of bodies either, such as `active-skill`: the model could not tell it from the engine's.
pub fn outside_block_name(key: &str) -> Result<String, TagError> {
    let name = block_tag_name(key)?;
    match is_engine_tag_name(&name) {
        false => Ok(name),
        true => {
            let place = TagPlace::outside(&name);
            Err(TagError::NameReserved { key: key.to_owned(), name, place })
        }
    }
}

/// Returns the tag name of `key`, borrowed if it is already in that form.
///
/// `place` returns the place of the name, for errors.
pub(super) fn tag_name(key: &str, place: impl FnOnce(&str) -> TagPlace) -> Result<Cow<'_, str>, TagError> {
    match kebab(key) {
        Ok(name) if RESERVED_TAG_NAMES.contains(&name.as_ref()) => {
            let place = place(&name);
            Err(TagError::NameReserved { key: key.to_owned(), name: name.into_owned(), place })
        }
        Ok(name) => Ok(name),
        Err(fault) => {
            let key = shown(key);
            Err(TagError::NameInvalid { place: place(&key), key, fault })
        }
    }
}

/// Returns a key as errors show it, shortened if it is too long.
pub(super) fn shown(key: &str) -> String {
    match key.len() > MAX_TAG_NAME_BYTES {
        true => format!("{}…", key.chars().take(SHOWN).collect::<String>()),
        false => key.to_owned(),
    }
}

/// Returns the name of `key` in kebab-case. Attributes may have reserved names, so those are not checked.
pub(super) fn kebab(key: &str) -> Result<Cow<'_, str>, NameFault> {
    if key.len() > MAX_TAG_NAME_BYTES {
        return Err(NameFault::TooLong { bytes: key.len() });
    }
    let name = if is_kebab(key.as_bytes()) { Cow::Borrowed(key) } else { Cow::Owned(join_words(key)?) };
    match name.as_bytes().first() {
        None => Err(NameFault::Empty),
        Some(first) if first.is_ascii_digit() => Err(NameFault::Digit),
        Some(_) => Ok(name),
    }
}

/// Returns whether [`join_words`] would leave the key unchanged.
fn is_kebab(key: &[u8]) -> bool {
    let mut dash = true; // A dash can't be first, nor follow another.
    for byte in key {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' => dash = false,
            b'-' if !dash => dash = true,
            _ => return false,
        }
    }
    !dash || key.is_empty()
}

fn join_words(key: &str) -> Result<String, NameFault> {
    /// The case of the word so far; digits keep it.
    #[derive(Clone, Copy, PartialEq)]
    enum Case {
        Unknown,
        Lower,
        Upper,
    }

    let bytes = key.as_bytes();
    let mut name = String::with_capacity(key.len() + 4);
    let mut dash = false;
    let mut case = Case::Unknown;
    for (idx, &byte) in bytes.iter().enumerate() {
        let next_is_lower = bytes.get(idx + 1).is_some_and(u8::is_ascii_lowercase);
        match byte {
            b'_' | b'-' => {
                (dash, case) = (true, Case::Unknown);
                continue;
            }
            b'A'..=b'Z' => {
                dash |= case == Case::Lower || (case == Case::Upper && next_is_lower);
                case = Case::Upper;
            }
            b'a'..=b'z' => case = Case::Lower,
            b'0'..=b'9' => {}
            _ => return Err(NameFault::Character),
        }
        if dash && !name.is_empty() {
            name.push('-');
        }
        dash = false;
        name.push(char::from(byte.to_ascii_lowercase()));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::{Cow, kebab};

    #[test]
    fn a_name_in_kebab_case_is_borrowed() {
        for key in ["a", "doc2", "user-id", "a-2b"] {
            assert!(matches!(kebab(key), Ok(Cow::Borrowed(it)) if it == key), "{key}");
        }
    }
}
