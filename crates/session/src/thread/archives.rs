//! Archives of a thread: making, listing, reading and undoing them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use contexture_history::{Archived, Body, Change, Item, Seq, Summary, Timestamp};
use contexture_message::Tokens;
use futures::TryStreamExt as _;
use futures::future::ready;

use super::Thread;
use crate::store::pages;
use crate::view::{NewArchive, View, archive_draft, newest, undo_draft};
use crate::{SessionError, Snapshot, State};

/// An archive in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct ArchiveInfo {
    /// The range it covers.
    pub archived: Archived,
    /// Whether the model reads its summary now; otherwise a larger one replaced it.
    pub holds: bool,
    /// The summary that replaces the range.
    pub summary: Summary,
    /// The cost of the summary.
    pub after: Tokens,
    /// The time of the archive.
    pub at: Timestamp,
}

impl Thread {
    /// Reads what the model reads of the thread, item by item, within the session's window.
    pub async fn view(&self) -> Result<View, SessionError> {
        Ok(self.live.stored().view(self.history_window()).await?)
    }

    /// Archives a range of the view; items appended after `view` was read stay.
    ///
    /// Returns [`SessionError::ViewChanged`] and writes nothing if another writer archived or undid something in the
    /// meantime.
    pub async fn archive_range(&self, view: &View, new: &NewArchive) -> Result<Arc<Snapshot>, SessionError> {
        let thread = self.id().to_string();
        let draft = |state: &State| archive_draft(state, &view.state, new, &thread);
        let mut writer = self.live.lock_writer(self.policy).await?;
        // The view comes from the store, which another process may have written to since this one looked.
        if self.get().state().end < view.state.end {
            self.live.refresh(&writer).await?;
        }
        self.live.write(&mut writer, self.policy, None, draft).await?;
        Ok(self.get())
    }

    /// Lists the archives, oldest first, also those that a larger one took the place of. What was undone is not among
    /// them.
    pub async fn archives(&self) -> Result<Vec<ArchiveInfo>, SessionError> {
        let archives = self.head().await?.state.archives;
        let mut found = BTreeMap::new();
        let mut seen = BTreeSet::new();
        let mut waiting: Vec<(Archived, bool)> = archives.into_iter().map(|it| (it, true)).collect();
        while let Some((archived, holds)) = waiting.pop() {
            // An imported log may say that an archive took the place of itself.
            if !seen.insert(archived.record) {
                continue;
            }
            let Some(Item { body: Body::Summary(summary), cost, at, .. }) =
                self.item(archived.record).await?
            else {
                continue;
            };
            waiting.extend(summary.replaces.iter().map(|it| (it.clone(), false)));
            let info = ArchiveInfo { archived, holds, summary, after: cost.tokens, at };
            found.insert(info.archived.number, info);
        }
        Ok(found.into_values().collect())
    }

    /// Returns the items that an archive covers, as they were appended.
    pub async fn archive(&self, number: u64) -> Result<Vec<Item>, SessionError> {
        let found = self.archives().await?.into_iter().find(|it| it.archived.number == number);
        let Archived { first, last, .. } = found.ok_or_else(|| self.no_archive(number))?.archived;
        let mut items = self.log(Seq(first.0.saturating_sub(1)), last).await?;
        items.retain(is_original);
        Ok(items)
    }

    /// Returns everything ever said on the thread, as it was appended, including archived items and items before a
    /// reset. Bookkeeping records (summaries, ageing, notes) are not included.
    pub async fn full_history(&self) -> Result<Vec<Item>, SessionError> {
        let mut items = self.log(Seq(0), Seq(u64::MAX)).await?;
        items.retain(is_original);
        Ok(items)
    }

    /// Undoes the newest archive: the model reads the covered items again, or the archives that it had replaced.
    /// Returns what was undone, or `None` if there is no archive.
    pub async fn undo(&self) -> Result<Option<Archived>, SessionError> {
        let snapshot = self.refresh().await?;
        let Some(archived) = newest(snapshot.state()).cloned() else { return Ok(None) };
        let record = self.item(archived.record).await?;
        let restores = match record.map(|it| it.body) {
            Some(Body::Summary(summary)) => summary.replaces,
            _ => Vec::new(),
        };
        let thread = self.id().to_string();
        self.write(|state| undo_draft(state, archived.number, &restores, &thread)).await?;
        Ok(Some(archived))
    }

    fn no_archive(&self, number: u64) -> SessionError {
        SessionError::NotInThread { thread: self.id().to_string(), what: format!("archive a{number}") }
    }

    async fn item(&self, seq: Seq) -> Result<Option<Item>, SessionError> {
        Ok(self.live.stored().item_at(seq).await?)
    }

    /// Reads the log after one position up to another.
    async fn log(&self, after: Seq, last: Seq) -> Result<Vec<Item>, SessionError> {
        let live = &self.live;
        let items = pages::items_after(&*live.shared.store, live.key.clone(), after);
        Ok(items.try_take_while(|it| ready(Ok(it.seq <= last))).try_collect().await?)
    }
}

/// Whether an item is content, not a record about how other items are read.
fn is_original(item: &Item) -> bool {
    let is_record = matches!(
        item.body,
        Body::Summary(_)
            | Body::Change(Change::ArchiveUndone { .. } | Change::Aged { .. } | Change::Noted { .. })
    );
    !is_record
}
