//! Keeps knowledge bases ready: folders indexed before the first search, vectors made after documents were added. Until
//! then a search waits for its folder, and ranks by words alone.

use std::collections::BTreeSet;
use std::time::Duration;

use contexture_session::BaseKey;

use crate::app::App;

/// How long to wait before a base that failed is tried again.
const RETRY: Duration = Duration::from_secs(30);

/// Works until the server stops.
pub(super) async fn work(app: &App) {
    loop {
        let failed = tokio::select! {
            failed = work_once(app) => failed,
            () = app.stop.cancelled() => return,
        };
        let has_failed = !failed.is_empty();
        app.bases.put(failed);
        tokio::select! {
            () = app.bases.woken() => {}
            () = tokio::time::sleep(RETRY), if has_failed => {}
            () = app.stop.cancelled() => return,
        }
    }
}

/// Indexes folders and makes vectors. Returns the bases whose vectors could not be made.
async fn work_once(app: &App) -> BTreeSet<BaseKey> {
    let project = app.loaded().project.clone();
    for id in project.folder_bases() {
        let base = project.base(&id);
        match base.open_folder().await {
            Ok(()) => base.want_vectors(),
            Err(err) => tracing::warn!(?base, "cannot index the folder: {err}"),
        }
    }
    let mut failed = BTreeSet::new();
    for key in app.bases.take() {
        if let Err(err) = project.base(&key.base).embed(&key, &|_| {}).await {
            tracing::warn!(base = %key.base, "cannot make vectors; the base is ranked by words alone: {err}");
            failed.insert(key);
        }
    }
    failed
}
