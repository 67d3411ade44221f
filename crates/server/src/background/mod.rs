//! Background tasks: close lost turns, drive orphaned runs, prune old records and runs, reload changed files, index
//! folders of knowledge.

mod bases;

use std::sync::Arc;
use std::time::Duration;

use contexture_flow::ForgetReport;
use contexture_history::{Body, Change, Seq, Timestamp, TurnNo};
use contexture_project::{Fault, Project, Reload};
use contexture_session::{DueKind, SessionError, StoreError, Thread, ThreadKey};

use crate::Problem;
use crate::app::App;
use crate::loaded_project::LoadedProject;
use crate::ops::audit::{AuditEvent, SERVER};
use crate::passes::{CHUNK, PASSES, RESULT, SHARED_HOURS};
use crate::tenant_blocks::{DELETED, TenantBlocks};

/// The longest pause between two searches for runs without a driver.
const DUE_EVERY: Duration = Duration::from_secs(3);
/// How often old records are pruned.
const PRUNE_EVERY: Duration = Duration::from_secs(600);
/// How often ended runs are pruned; this reads all runs.
const FORGET_EVERY: Duration = Duration::from_secs(3600);
/// How many are pruned per call, so that the store is not blocked for long.
const PRUNE_AT_ONCE: usize = 2000;
/// How many lost turns are looked for at once.
const LOST_AT_ONCE: usize = 100;

/// Does everything until the server stops.
pub(crate) async fn work(app: &App) {
    let lease = Duration::from_secs(app.config.lease_seconds.max(1));
    let reload_every = Duration::from_secs(app.config.reload_seconds);
    tokio::join!(
        repeat(app, lease / 3, "cannot close lost turns", close_lost_turns),
        // Runs that were released when an instance started or stopped, and those of lost instances.
        repeat(app, DUE_EVERY.min(lease / 3), "cannot look for due runs", async |app| Ok(app
            .drivers
            .sweep()
            .await?)),
        repeat(app, PRUNE_EVERY, "cannot prune old records", prune),
        repeat(app, FORGET_EVERY, "cannot prune runs", forget),
        bases::work(app),
        async {
            while !reload_every.is_zero() && pause(app, reload_every).await {
                reload(app).await;
            }
        },
    );
}

/// Does a task now and after every pause: a server that is restarted often would never get to it otherwise.
async fn repeat(app: &App, every: Duration, failed: &str, task: impl AsyncFn(&App) -> Result<(), Problem>) {
    loop {
        if let Err(problem) = task(app).await {
            tracing::warn!(code = problem.code().as_str(), detail = problem.detail(), "{failed}");
        }
        if !pause(app, every).await {
            return;
        }
    }
}

/// Waits; returns whether to continue.
pub(crate) async fn pause(app: &App, duration: Duration) -> bool {
    tokio::select! {
        () = tokio::time::sleep(duration) => true,
        () = app.stop.cancelled() => false,
    }
}

/// Ends the turns of lost instances, so that their followers hear of it before the next turn begins.
async fn close_lost_turns(app: &App) -> Result<(), Problem> {
    let mut after = None;
    loop {
        let lost = app.store().due(DueKind::Threads, after, LOST_AT_ONCE).await?;
        for key in &lost {
            if let Some(turn) = close_lost_turn(app, key).await? {
                tracing::info!(thread = %key.thread, turn = %turn, "closed a turn of a lost writer");
            }
        }
        match lost.last() {
            Some(last) if lost.len() == LOST_AT_ONCE => after = Some(last.clone()),
            _ => return Ok(()),
        }
    }
}

async fn close_lost_turn(app: &App, key: &ThreadKey) -> Result<Option<TurnNo>, Problem> {
    let sessions = app.sessions.of_tenant(key.tenant.clone());
    let thread = match sessions.open_thread(&key.thread).await {
        // It was deleted meanwhile.
        Err(SessionError::Store(StoreError::NotFound { .. })) => return Ok(None),
        thread => thread?,
    };
    let runs = app.drivers.runtime(&key.tenant);
    match key_of_open_turn(&thread).await? {
        // The next driver of the run continues the turn.
        Some(turn_key) if runs.may_continue_turn(&key.thread.session(), &turn_key).await? => Ok(None),
        _ => Ok(thread.close_lost().await?),
    }
}

/// Returns the idempotency key of the turn that is not over.
async fn key_of_open_turn(thread: &Thread) -> Result<Option<String>, SessionError> {
    let Some(open) = thread.refresh().await?.state().open else { return Ok(None) };
    let first = thread.after(Seq(open.began.0.saturating_sub(1)), 1).await?;
    Ok(first.into_iter().find_map(|it| match it.body {
        Body::Change(Change::TurnBegan { key, .. }) => key,
        _ => None,
    }))
}

/// How long threads keep what they froze of a deleted block, unless their prefix is evaluated again before.
const MARKER_HOURS: u64 = 90 * 24;

/// Prunes passes past their retention.
pub(crate) async fn prune(app: &App) -> Result<(), Problem> {
    // A record may be named by later ones for a while.
    let hours = app.config.passes_retention_hours.saturating_add(SHARED_HOURS);
    let before = hours_ago(app.time.now(), hours);
    let markers = hours_ago(app.time.now(), MARKER_HOURS);
    let (store, documents) = (app.store(), &app.documents);
    loop {
        let mut n_pruned = store.prune_journals(PASSES.to_owned(), before, PRUNE_AT_ONCE).await?;
        for kind in [CHUNK, RESULT] {
            n_pruned += documents.prune(kind.to_owned(), before, PRUNE_AT_ONCE).await?;
        }
        n_pruned += documents.prune(DELETED.to_owned(), markers, PRUNE_AT_ONCE).await?;
        if n_pruned == 0 || !pause(app, Duration::from_millis(20)).await {
            return Ok(());
        }
    }
}

/// Prunes runs that ended long ago, and what only they needed.
async fn forget(app: &App) -> Result<(), Problem> {
    let before = hours_ago(app.time.now(), app.config.runs_retention_hours);
    let ForgetReport { runs, .. } = tokio::select! {
        forgotten = app.drivers.forget(before) => forgotten?,
        // An interrupted prune is finished the next time.
        () = app.stop.cancelled() => return Ok(()),
    };
    if runs > 0 {
        tracing::info!(runs, "pruned ended runs");
    }
    Ok(())
}

fn hours_ago(now: Timestamp, hours: u64) -> Timestamp {
    let ms = i64::try_from(hours.saturating_mul(3_600_000)).unwrap_or(i64::MAX);
    Timestamp(now.0.saturating_sub(ms))
}

/// Loads changed files. Faults are logged, and the last good version stays.
pub(crate) async fn reload(app: &App) {
    let loaded = app.loaded();
    let mut project = loaded.project.clone();
    // Files are read, and prompts compiled.
    let read = tokio::task::spawn_blocking(move || (project.reload(), project)).await;
    let Ok((reload, project)) = read else { return };
    let (project, faults) = match reload {
        Ok(reload) if is_same(&reload, &project, &loaded) => return,
        Ok(reload) => {
            tracing::info!(changed = ?reload.changed, removed = ?reload.removed, "files have changed");
            (project, reload.faults)
        }
        Err(err) if err.faults == loaded.faults => return,
        Err(err) => (loaded.project.clone(), err.faults),
    };
    for fault in faults.iter().filter(|it| !loaded.faults.contains(it)) {
        let act = AuditEvent::new(SERVER, "reload.failed", &fault.at().unwrap_or_default());
        app.audit.note(&act.detail(&fault.message));
        tracing::warn!(
            code = fault.code.as_str(),
            at = fault.at(),
            "{}{}",
            fault.message,
            if has_good_version(&project, fault) { "; the last good version is used" } else { "" }
        );
    }
    let blocks = TenantBlocks::new(Arc::clone(&app.documents));
    match LoadedProject::load(project, faults, &app.agent, app.watcher.clone(), blocks) {
        Ok(loaded) => {
            app.loaded.send_replace(Arc::new(loaded));
            app.bases.wake();
        }
        Err(err) => tracing::warn!(error = err, "cannot rebuild the agent; the last one stays in use"),
    }
}

/// Whether what a fault is about can be used all the same.
fn has_good_version(project: &Project, fault: &Fault) -> bool {
    let file = fault.file.as_deref().unwrap_or_default();
    let prompt = file.strip_prefix("prompts/").and_then(|it| it.strip_suffix(".md"));
    match prompt {
        Some(path) => project.prompts().any(|(it, prompt)| it == path && prompt.is_ok()),
        None => project.flows().any(|(id, flow)| project.flow_file(id) == Some(file) && flow.is_ok()),
    }
}

fn is_same(reload: &Reload, project: &Project, loaded: &LoadedProject) -> bool {
    reload.changed.is_empty()
        && reload.removed.is_empty()
        && reload.changed_flows.is_empty()
        && reload.removed_flows.is_empty()
        && !reload.changed_bases
        && reload.faults == loaded.faults
        && project.config() == loaded.project.config()
}
