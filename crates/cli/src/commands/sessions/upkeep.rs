//! `sessions delete`, `refresh`, `usage`, `vacuum` and `recover`.

use contexture_message::ErrorCode;
use std::fs;
use std::path::Path;

use contexture::capabilities::memory::Memories;
use contexture_session::{SessionId, SessionKey, Sessions, StoreError, Usage};
use contexture_store_sqlite::SqliteStore;
use serde_json::json;

use super::{open_thread, session_id};
use crate::args::Globals;
use crate::commands::resolve::counted;
use crate::error::Failure;
use crate::output::{self, Reply};
use crate::setup::models::{self, Models};
use crate::setup::root;
use crate::setup::store::Place;
use crate::terminal::Screen;
use crate::terminal::paint::{BOLD, GREEN, YELLOW, one_line, paint, wrapped};
use crate::terminal::table::{Align, Cell, Table};

/// Removes sessions, if all of them exist and the user confirms.
pub(super) async fn delete(
    sessions: &Sessions,
    memories: &Memories,
    ids: &[String],
    yes: bool,
    as_json: bool,
) -> Result<Reply, Failure> {
    let mut found: Vec<SessionId> = Vec::with_capacity(ids.len());
    for id in ids {
        let id = session_id(id)?;
        let key = SessionKey { tenant: sessions.tenant().clone(), session: id.clone() };
        if sessions.store().head(key.main()).await?.is_none() {
            return Err(StoreError::NotFound { what: "session", id: id.to_string() }.into());
        }
        if !found.contains(&id) {
            found.push(id);
        }
    }
    if !yes && !is_meant(&found, as_json)? {
        return Ok(Reply::styled("Nothing is deleted."));
    }
    for id in &found {
        sessions.delete(id).await?;
        memories.drop_session(sessions.tenant(), id).await?;
    }
    if as_json {
        return Ok(Reply::json(json!({"deleted": found})));
    }
    let lines = found.iter().map(|it| format!("{} {}", paint(GREEN, "deleted"), one_line(it.as_str())));
    Ok(Reply::styled(lines.collect::<Vec<_>>().join("\n")))
}

fn is_meant(ids: &[SessionId], as_json: bool) -> Result<bool, Failure> {
    let question = match ids {
        [one] => format!("Delete session `{one}` with everything in it?"),
        several => format!("Delete {} sessions with everything in them?", several.len()),
    };
    let answer = if as_json { None } else { output::ask(&question) };
    answer.ok_or_else(|| {
        Failure::usage("nothing is deleted: there is no terminal to ask on")
            .hint("`--yes` deletes without asking")
    })
}

/// Marks the frozen prefix of a thread to be evaluated again at its next turn.
pub(super) async fn refresh(
    sessions: &Sessions,
    id: &str,
    thread: Option<&str>,
    globals: &Globals,
) -> Result<Reply, Failure> {
    let thread = open_thread(sessions, id, thread).await?;
    // No model is called, so any agent can remove pins.
    let (config, _) = root::config(globals)?;
    let models = Models::of(&config, models::variable)?;
    let agent = contexture::agent(models.client()?).build();
    let agent = agent.map_err(|err| Failure::new(ErrorCode::RuntimeFailed, err.to_string()))?;
    agent.refresh(&thread).await?;
    if globals.json {
        return Ok(Reply::json(json!({"refreshed": thread.id()})));
    }
    let name = one_line(thread.id().as_str());
    Ok(Reply::styled(format!(
        "{} {name}: its next turn evaluates the prefix anew",
        paint(GREEN, "refreshed")
    )))
}

/// Shows the storage used by a tenant's sessions.
pub(super) async fn usage(sessions: &Sessions, as_json: bool, screen: Screen) -> Result<Reply, Failure> {
    let usage = sessions.usage().await?;
    if as_json {
        return Ok(Reply::json(json!(usage)));
    }
    let Usage { sessions, threads, items, blobs, blob_bytes } = usage;
    let mut table = Table::new(&[("", Align::Left), ("", Align::Left)]);
    for (what, count) in [
        ("sessions", sessions),
        ("threads", threads),
        ("items", items),
        ("large texts", blobs),
        ("their bytes", blob_bytes),
    ] {
        table.row(vec![Cell::new(what), Cell::new(count.to_string()).style(BOLD)]);
    }
    Ok(Reply::styled(table.lines(0, screen.width).join("\n")))
}

/// Reclaims unused space.
pub(super) async fn vacuum(sessions: &Sessions, place: &Place, as_json: bool) -> Result<Reply, Failure> {
    let before = size(place);
    sessions.store().vacuum().await?;
    let after = size(place);
    if as_json {
        return Ok(Reply::json(json!({"bytes_before": before, "bytes_after": after})));
    }
    let done = paint(GREEN, "vacuumed");
    Ok(Reply::styled(match before.zip(after) {
        Some((before, after)) => format!("{done}: {before} bytes before, {after} bytes now"),
        None => done,
    }))
}

/// Returns the size of a file including its log. The size of a database server is unknown.
fn size(place: &Place) -> Option<u64> {
    let Place::Sqlite(path) = place else { return None };
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let of_log = fs::metadata(log).map_or(0, |it| it.len());
    fs::metadata(path).ok().map(|it| it.len() + of_log)
}

/// Copies the readable data of a damaged file.
pub(super) fn recover(damaged: &Path, into: &Path, as_json: bool) -> Result<Reply, Failure> {
    let shown = |path: &Path| path.display().to_string();
    if !damaged.is_file() {
        let path = shown(damaged);
        return Err(Failure::new(ErrorCode::NotFound, format!("there is no file `{path}`")).at(path));
    }
    if into.exists() {
        let path = shown(into);
        return Err(Failure::new(
            ErrorCode::FileExists,
            format!("nothing is written: `{path}` is already there"),
        )
        .at(path));
    }
    let recovered = SqliteStore::recover(damaged, into)?;
    if as_json {
        return Ok(Reply::json(json!({
            "sessions": recovered.sessions, "threads": recovered.threads, "items": recovered.items,
            "lost": recovered.lost,
        })));
    }
    let number = |n: u64, word: &str| counted(usize::try_from(n).unwrap_or(usize::MAX), word);
    let facts = [
        number(recovered.sessions, "session"),
        number(recovered.threads, "thread"),
        number(recovered.items, "item"),
    ];
    let into = one_line(&shown(into));
    let mut lines = vec![format!("{} to {into}: {}", paint(GREEN, "recovered"), facts.join(", "))];
    for lost in &recovered.lost {
        let text = wrapped(&one_line(lost), 90).join("\n     ");
        lines.push(format!("{} {text}", paint(YELLOW, "lost")));
    }
    Ok(Reply::styled(lines.join("\n")))
}
