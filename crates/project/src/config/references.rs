//! `[refs.TYPE]` and `[references]` of `contexture.toml`.

use contexture_agent::{HttpReference, ReferencePolicy};
use serde::{Deserialize, Serialize};

/// The rules for references of any type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReferencesConfig {
    /// What happens to a turn with a reference of a type that no section `[refs.TYPE]` declares: `warn` or `fail`.
    pub on_unknown: ReferencePolicy,
}

/// Returns what is wrong with a type of references.
pub(super) fn fault(kind: &str, reference: &HttpReference) -> Option<String> {
    let is_allowed = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
    if kind.is_empty() || kind.len() > 64 || !kind.chars().all(is_allowed) {
        return Some(format!("`refs.{kind}`: a type has 1 to 64 letters, digits, `-`, `_` and `.`"));
    }
    reference.check().err().map(|err| format!("`refs.{kind}`: {err}"))
}
