//! Hidden attachments of a request: texts that accompany the user's message.

use std::sync::Arc;

use contexture_compose::{
    BoxError, BoxFuture, Call, Contribution, Contributor, Declaration, Entry, Piece, Placement, Profile,
    Source, Trust,
};

use super::tagged;
use crate::spec::Attachment;

/// An attachment as an entry of its request.
struct AttachmentEntry {
    id: String,
    text: String,
}

/// Returns the entries of attachments, in their order.
pub(crate) fn attachment_entries(attachments: &[Attachment]) -> Vec<Entry> {
    attachments.iter().map(entry).collect()
}

fn entry(attachment: &Attachment) -> Entry {
    let Attachment { name, media_type, text } = attachment;
    let attributes = [("name", Some(name.as_str())), ("media_type", media_type.as_deref())];
    let text = tagged("attachment", &attributes, text);
    Entry::Contributor(Arc::new(AttachmentEntry { id: format!("attachment:{name}"), text }))
}

impl Contributor for AttachmentEntry {
    fn id(&self) -> &str {
        &self.id
    }

    fn contribute(&self, _call: Call) -> BoxFuture<'_, Result<Contribution, BoxError>> {
        let pieces = vec![Piece::new(&self.text)];
        Box::pin(async { Ok(Contribution { pieces, ..Contribution::default() }) })
    }

    fn has_gate(&self) -> bool {
        false
    }

    fn declare(&self) -> Declaration {
        let profile = Profile { placement: Placement::User, trust: Trust::User, ..Profile::default() };
        let source = Some(Source::Noted(self.id.as_str().into()));
        Declaration { profile, source, family: Some("attachment".to_owned()), ..Declaration::default() }
    }
}
