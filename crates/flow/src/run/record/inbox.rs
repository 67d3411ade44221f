//! Messages to a run from outside: answers and cancellation. Any process may add one; the run's driver takes them out.

use contexture_history::Timestamp;
use contexture_session::records::MAX_NAME_BYTES;
use contexture_session::{Document, NewRecord, Record, Records, StoreError, Writes, pages};
use futures::future::ready;
use futures::{StreamExt as _, TryStreamExt as _};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{document, load, parsed, written};
use crate::keys::{CANCEL, Keys};
use crate::port::weight::check_size;
use crate::{RunError, RunStatus, Wait};

/// A message to a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum InboxMessage {
    /// An answer to a wait.
    Answer { wait: String, value: Value },
    /// The run is to stop.
    Cancel,
}

/// Returns the id of a node's wait: the node, the firing, and the number of the wait.
pub(crate) fn wait_id(node: &str, firing: u32, n_waits: u32) -> String {
    // Names contain no colon, so ids are unique. The id is part of URLs, so it must not contain a slash.
    let node = node.replace('/', ":");
    match n_waits {
        0 => format!("{node}.{firing}"),
        n => format!("{node}.{firing}.{}", u64::from(n) + 1),
    }
}

/// Whether a text can name a wait: what can't is not looked for, for a store may not even take it as a name.
fn is_wait_id(text: &str) -> bool {
    let fine = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '-' | ':' | '.');
    text.len() <= MAX_NAME_BYTES / 2 + 64 && text.chars().all(fine)
}

/// Puts an answer into a run's inbox, once: the wait's document is deleted in the same commit.
pub(crate) async fn answer(
    records: &dyn Records,
    keys: &Keys,
    wait: &str,
    value: Value,
    at: Timestamp,
) -> Result<(), RunError> {
    let key = keys.wait(wait);
    let found = match is_wait_id(wait) {
        true => document(records, key.clone()).await?,
        false => None,
    };
    let Some(open) = found else { return Err(not_open(records, keys, wait).await) };
    let open: Wait = parsed(keys, &open.data)?;
    let checked = check_size(&value).and_then(|()| open.check(&value));
    checked.map_err(|why| RunError::AnswerInvalid { wait: wait.to_owned(), why })?;
    let message = InboxMessage::Answer { wait: wait.to_owned(), value };
    let writes =
        Writes { deletes: vec![key.clone()], requires: vec![key], ..posted(keys, &message, wait, at) };
    match records.write(writes).await {
        Ok(_) => Ok(()),
        Err(StoreError::NotFound { .. }) => Err(not_open(records, keys, wait).await),
        Err(err) => Err(err.into()),
    }
}

/// Tells a run to stop.
pub(crate) async fn cancel(records: &dyn Records, keys: &Keys, at: Timestamp) -> Result<RunStatus, RunError> {
    let (run_record, _) = load(records, keys).await?;
    if !run_record.status.is_over() {
        let writes = posted(keys, &InboxMessage::Cancel, CANCEL, at);
        records.write(Writes { requires: vec![keys.run()], ..writes }).await?;
    }
    Ok(run_record.status)
}

fn posted(keys: &Keys, message: &InboxMessage, mark: &str, at: Timestamp) -> Writes {
    let record = NewRecord { stream: keys.inbox(), at, data: written(message) };
    let mark = Document { key: keys.mark(mark), at: Timestamp(0), data: String::new() };
    Writes { records: vec![record], puts: vec![mark], ..Writes::default() }
}

/// Explains why a wait can't be answered: it already was, or it never existed.
async fn not_open(records: &dyn Records, keys: &Keys, wait: &str) -> RunError {
    let run = keys.run.to_string();
    let run_record = match load(records, keys).await {
        Ok((run_record, _)) => run_record,
        Err(err) => return err,
    };
    if run_record.status.is_over() {
        return RunError::Over { run, status: run_record.status };
    }
    let wait = wait.to_owned();
    match was_asked(records, keys, &wait).await {
        Ok(true) => RunError::Answered { run, wait },
        Ok(false) => RunError::NoSuchWait { run, wait },
        Err(err) => err,
    }
}

/// Whether a run has waited under that id, as far back as we look: an unknown id is no reason to read a long log.
async fn was_asked(records: &dyn Records, keys: &Keys, wait: &str) -> Result<bool, RunError> {
    const MAX_RECORDS: usize = 2048;
    let needle = format!("\"id\":{}", written(&wait));
    let asked = |it: Record| it.data.contains("\"node.wait\"") && it.data.contains(&needle);
    let newest = pages::records_back(records, keys.log()).take(MAX_RECORDS);
    Ok(newest.try_any(|it| ready(asked(it))).await?)
}
