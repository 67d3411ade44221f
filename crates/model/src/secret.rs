//! A text that is never displayed: keys, and headers that may hold one.

use std::fmt;

/// Shown in place of a secret.
const MASK: &str = "***";

/// The mark at the end of a text that was cut.
const DOTS: &str = "…";

/// Shorter texts are placeholders such as `x`; masking them would only garble a message.
const SHORTEST: usize = 4;

/// A key. It is never shown in `Debug`, `Display`, errors or logs.
///
/// ```
/// use contexture_model::Secret;
///
/// let key = Secret::new("sk-very-secret");
/// assert_eq!(format!("{key} {key:?}"), "*** ***");
/// assert_eq!(key.mask("wrong key: sk-very-secret"), "wrong key: ***");
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Returns a secret; surrounding whitespace, such as the line end of a file, is removed.
    pub fn new(text: impl AsRef<str>) -> Self {
        Self(text.as_ref().trim().to_owned())
    }

    /// Returns the text itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns `text` with every occurrence of the secret masked, including a prefix of it at the end of `text`: long
    /// texts may be cut anywhere.
    pub fn mask(&self, text: &str) -> String {
        if self.0.len() < SHORTEST {
            return text.to_owned();
        }
        let masked = text.replace(&self.0, MASK);
        let (said, dots) = masked.strip_suffix(DOTS).map_or((masked.as_str(), ""), |it| (it, DOTS));
        let starts = self.0.char_indices().map(|(end, _)| &self.0[..end]).filter(|it| it.len() >= SHORTEST);
        match starts.rev().find_map(|it| said.strip_suffix(it)) {
            Some(kept) => format!("{kept}{MASK}{dots}"),
            None => masked,
        }
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

/// Returns a URL for use in errors: credentials are masked, query and fragment are left out.
pub(crate) fn without_password(text: &str) -> String {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    match text.rsplit_once('@') {
        Some((_, host)) => format!("***@{host}"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::Secret;

    #[test]
    fn a_secret_that_was_cut_is_blanked_out_too() {
        let key = Secret::new("sk-very-secret");
        assert_eq!(key.mask("no: sk-very-secret, sk-very-sec…"), "no: ***, ***…");
        assert_eq!(key.mask("no: sk-very"), "no: ***");
        assert_eq!(key.mask("it asks"), "it asks");
        assert_eq!(key.mask(""), "");
    }
}
