//! `sessions list`: lists the sessions of a store.

use std::cmp::Reverse;

use contexture_session::{SessionInfo, Sessions, list_all};
use serde_json::{Value, json};

use crate::error::Failure;
use crate::output::Reply;
use crate::terminal::Screen;
use crate::terminal::paint::{BOLD, DIM};
use crate::terminal::table::{Align, Cell, Table};

pub(in crate::commands) async fn run(
    sessions: &Sessions,
    limit: Option<usize>,
    as_json: bool,
    screen: Screen,
) -> Result<Reply, Failure> {
    let mut all = list_all(sessions).await?;
    all.sort_by_key(|it| Reverse(it.updated));
    let n_sessions = all.len();
    all.truncate(limit.unwrap_or(usize::MAX));
    if as_json {
        return Ok(Reply::json(all.iter().map(document).collect()));
    }
    if n_sessions == 0 {
        return Ok(Reply::styled("There are no sessions."));
    }
    let reply = Reply::styled(page(&all, screen));
    Ok(match n_sessions - all.len() {
        0 => reply,
        more => reply.note(format!("{more} more; `--limit` shows them")),
    })
}

fn document(info: &SessionInfo) -> Value {
    let SessionInfo { session, label, created, updated, threads, items, turns } = info;
    json!({
        "session": session, "label": label, "created": created.to_millis(),
        "updated": updated.to_millis(), "threads": threads, "turns": turns, "items": items,
    })
}

fn page(all: &[SessionInfo], screen: Screen) -> String {
    let mut table = Table::new(&[
        ("session", Align::Left),
        ("turns", Align::Right),
        ("items", Align::Right),
        ("threads", Align::Right),
        ("updated", Align::Left),
        ("label", Align::Left),
    ]);
    for info in all {
        table.row(vec![
            Cell::new(info.session.as_str()).style(BOLD),
            Cell::new(info.turns.to_string()),
            Cell::new(info.items.to_string()),
            Cell::new(info.threads.to_string()),
            Cell::new(info.updated.to_seconds()).style(DIM),
            Cell::new(info.label.as_deref().unwrap_or_default()),
        ]);
    }
    table.lines(0, screen.width).join("\n")
}
