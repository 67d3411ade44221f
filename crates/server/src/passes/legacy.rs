//! Passes of earlier versions: the elements of their lists are documents of the session, under their hashes, and so are
//! the results of their calls.

use std::collections::BTreeMap;

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
    let found = documents.documents(vec![key_of(session, RESULT, key)]).await?;
    Ok(found.into_iter().next().map(|it| it.data))
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
        let hashes = list.iter().filter_map(Value::as_str).map(|it| key_of(session, CHUNK, it));
        let found = documents.documents(hashes.collect()).await?;
        let found: BTreeMap<String, String> = found.into_iter().map(|it| (it.key.name, it.data)).collect();
        let whole = |hash: &Value| serde_json::from_str(found.get(hash.as_str()?)?).ok();
        match list.iter().map(whole).collect::<Option<Vec<Value>>>() {
            Some(whole) => *list = whole,
            None => return Ok(false),
        }
    }
    Ok(true)
}
