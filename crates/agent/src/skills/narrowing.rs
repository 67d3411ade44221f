//! Which tools need approval because of the active skills.

use contexture_session::Snapshot;

use super::record::loaded;
use crate::text::is_match;

/// What the active skills allow without approval. It takes away, and never gives: a tool that needs approval anyway still
/// needs it.
///
/// A skill that lists no tools says nothing about them. If several list some, what any of them lists is allowed. A
/// pattern with arguments, such as `Bash(git:*)`, can't be checked here, so the tool needs approval.
#[derive(Debug, Default)]
pub(crate) struct Narrowing {
    /// What is allowed, if any active skill lists something.
    allowed: Option<Vec<String>>,
}

impl Narrowing {
    pub(crate) fn of(thread: &Snapshot) -> Self {
        let skills = loaded(thread).into_values().filter(|it| it.is_active && !it.allowed_tools.is_empty());
        let lists: Vec<Vec<String>> = skills.map(|it| it.allowed_tools).collect();
        Self { allowed: (!lists.is_empty()).then(|| lists.concat()) }
    }

    /// Whether a call of the tool needs approval. A tool that only reads what the model could be shown needs none.
    pub(crate) fn requires_approval(&self, tool: &str, only_reads: bool) -> bool {
        match &self.allowed {
            Some(allowed) => !only_reads && !allowed.iter().any(|it| is_match(it, tool)),
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Narrowing;

    #[test]
    fn what_no_skill_lists_needs_approval() {
        assert!(!Narrowing::default().requires_approval("send", false));
        let narrowing = Narrowing { allowed: Some(vec!["read".to_owned(), "Bash(git:*)".to_owned()]) };
        assert!(narrowing.requires_approval("send", false) && narrowing.requires_approval("Bash", false));
        assert!(!narrowing.requires_approval("read", false) && !narrowing.requires_approval("recall", true));
    }
}
