//! Passes of earlier versions: the elements of their lists are documents of the session, under their hashes, and so are
//! the results of their calls.

use contexture_session::documents::{DocumentKey, Documents};
use contexture_session::{SessionKey, StoreError};
use serde_json::Value;

/// The kind of the documents that hold elements.
pub(crate) const CHUNK: &str = "piece";
/// The kind of the documents with the results of calls.
pub(crate) const RESULT: &str = "pass_result";

fn key_of(session: &SessionKey, kind: &str, name: &str) -> DocumentKey {
    DocumentKey::of_session(&session.tenant, &session.session, kind, name)
}

/// Reads the JSON with the result of a call.
pub(super) async fn result(
    documents: &dyn Documents,
    session: &SessionKey,
    key: &str,
) -> Result<Option<String>, StoreError> {
    Ok(documents.document(key_of(session, RESULT, key)).await?.map(|it| it.data))
}

/// Puts the elements back into a document. Returns whether all of them are there.
pub(super) async fn join(
    documents: &dyn Documents,
    session: &SessionKey,
    document: &mut Value,
) -> Result<bool, StoreError> {
    let paths = ["/request/messages", "/request/tools", "/explanation/parts"];
    for path in paths {
        let Some(list) = document.pointer_mut(path).and_then(Value::as_array_mut) else { continue };
        for element in list {
            let key = key_of(session, CHUNK, element.as_str().unwrap_or_default());
            let found = documents.document(key).await?;
            match found.and_then(|it| serde_json::from_str(&it.data).ok()) {
                Some(whole) => *element = whole,
                None => return Ok(false),
            }
        }
    }
    Ok(true)
}
