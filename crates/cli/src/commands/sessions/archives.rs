//! `sessions archives`: shows what was summarised or left out, and which turns it covers.

use contexture_history::{Archived, Body, Item, Summary, Visibility};
use contexture_message::ErrorCode;
use contexture_session::search::MAX_FOUND;
use contexture_session::{ArchiveInfo, Head, SearchHit, Sessions, StoreError, Thread, ThreadId, ThreadKey};
use serde_json::{Value, json};

use super::{open_thread, show, spanned};
use crate::args::ArchivesArgs;
use crate::error::Failure;
use crate::output::Reply;
use crate::terminal::Screen;
use crate::terminal::paint::{BOLD, DIM, GREEN, PLAIN, YELLOW, behind, cut, one_line, paint, visible};
use crate::terminal::table::{Align, Cell, Table};

pub(in crate::commands) async fn run(
    sessions: &Sessions,
    args: &ArchivesArgs,
    as_json: bool,
    screen: Screen,
) -> Result<Reply, Failure> {
    let thread = open_thread(sessions, &args.id, args.thread.as_deref()).await?;
    if let Some(words) = &args.search {
        return found(&thread, words, as_json, screen).await;
    }
    if args.full {
        return full(sessions, &thread, as_json, screen).await;
    }
    match args.number {
        Some(number) => one(sessions, &thread, number, as_json, screen).await,
        None => list(&thread, as_json, screen).await,
    }
}

/// Lists the archives of a thread.
pub(in crate::commands) async fn list(
    thread: &Thread,
    as_json: bool,
    screen: Screen,
) -> Result<Reply, Failure> {
    let all = thread.archives().await?;
    if as_json {
        return Ok(Reply::json(all.iter().map(document).collect()));
    }
    if all.is_empty() {
        return Ok(Reply::styled("There are no archives: the model reads everything as it was said."));
    }
    let mut table = Table::new(&[
        ("archive", Align::Left),
        ("turns", Align::Left),
        ("items", Align::Left),
        ("tokens", Align::Right),
        ("after", Align::Right),
        ("strategy", Align::Left),
        ("made", Align::Left),
        ("state", Align::Left),
        ("what stands there", Align::Left),
    ]);
    for info in &all {
        let ArchiveInfo { archived, holds, summary, after, at } = info;
        let (state, style) = if *holds { ("holds", GREEN) } else { ("replaced", DIM) };
        let (said, said_style) = match &summary.left_out {
            Some(reason) => (format!("left out: {reason}"), YELLOW),
            None => (first_line(&summary.text, screen), PLAIN),
        };
        table.row(vec![
            Cell::new(archived.name()).style(BOLD),
            Cell::new(spanned(archived.turns)),
            Cell::new(format!("{}-{}", archived.first, archived.last)),
            Cell::new(summary.before.to_string()),
            Cell::new(after.to_string()),
            Cell::new(summary.strategy.map_or("", |it| it.as_str())),
            Cell::new(at.to_seconds()).style(DIM),
            Cell::new(state).style(style),
            Cell::new(said).style(said_style),
        ]);
    }
    Ok(Reply::styled(table.lines(0, screen.width).join("\n")))
}

/// Returns the first line with content, skipping headings.
fn first_line(text: &str, screen: Screen) -> String {
    let lines = || text.lines().map(str::trim).filter(|it| !it.is_empty());
    let line = lines()
        .find(|it| !it.starts_with('#') && !it.ends_with(':'))
        .or_else(|| lines().next())
        .unwrap_or_default();
    cut(line, screen.width.saturating_sub(4))
}

fn document(info: &ArchiveInfo) -> Value {
    let ArchiveInfo { archived, holds, summary, after, at } = info;
    let Archived { first, last, turns, .. } = archived;
    let replaces: Vec<String> = summary.replaces.iter().map(Archived::name).collect();
    json!({
        "archive": archived.name(), "holds": holds, "turns": [turns.0.to_string(), turns.1.to_string()], "first": first,
        "last": last, "tokens_before": summary.before, "tokens_after": after, "strategy": summary.strategy,
        "at": at.to_millis(), "replaces": replaces, "left_out": summary.left_out,
        "summary": Some(&summary.text).filter(|it| !it.is_empty()),
    })
}

/// Shows one archive: its summary, and the items it covers.
pub(in crate::commands) async fn one(
    sessions: &Sessions,
    thread: &Thread,
    number: u64,
    as_json: bool,
    screen: Screen,
) -> Result<Reply, Failure> {
    let all = thread.archives().await?;
    let info = all.iter().find(|it| it.archived.number == number).ok_or_else(|| {
        let failure =
            Failure::new(ErrorCode::NotFound, format!("thread `{}` has no archive a{number}", thread.id()));
        let names: Vec<String> = all.iter().map(|it| it.archived.name()).collect();
        failure.hint(if names.is_empty() {
            "it has no archives".to_owned()
        } else {
            format!("it has {}", names.join(", "))
        })
    })?;
    let items = thread.archive(number).await?;
    if as_json {
        let mut document = document(info);
        document["items"] = items.iter().map(|it| it.document(thread.id().as_str())).collect();
        return Ok(Reply::json(document));
    }
    let head = head(sessions, thread.id()).await?;
    let mut blocks = vec![heading(info, screen)];
    blocks.extend(show::blocks(&head, &items, &said(&items), screen));
    Ok(Reply::styled(blocks.join("\n\n")))
}

fn heading(info: &ArchiveInfo, screen: Screen) -> String {
    let ArchiveInfo { archived, holds, summary, after, at } = info;
    let Summary { before, strategy, replaces, left_out, text, .. } = summary;
    let state = if *holds { "holds" } else { "replaced by a later one" };
    let mut facts = vec![
        format!("items {} to {}", archived.first, archived.last),
        format!("{before} to {after} tokens"),
        strategy.map_or("", |it| it.as_str()).to_owned(),
        at.to_seconds(),
        state.to_owned(),
    ];
    let names: Vec<String> = replaces.iter().map(Archived::name).collect();
    facts.extend((!names.is_empty()).then(|| format!("took the place of {}", names.join(", "))));
    facts.retain(|it| !it.is_empty());
    let name = format!("{}  {}", archived.name(), spanned(archived.turns));
    let mut lines = vec![paint(BOLD, &name), paint(DIM, &facts.join(", "))];
    match left_out {
        Some(reason) => {
            lines.extend(behind("  ", 2, &one_line(&format!("left out: {reason}")), screen.width))
        }
        None => {
            let text = visible(text).replace('\t', " ");
            lines.extend(text.lines().flat_map(|it| behind("  ", 2, it, screen.width)));
        }
    }
    lines.join("\n")
}

/// Shows the full history, including archived items.
async fn full(sessions: &Sessions, thread: &Thread, as_json: bool, screen: Screen) -> Result<Reply, Failure> {
    let items = thread.full_history().await?;
    if as_json {
        return Ok(Reply::json(items.iter().map(|it| it.document(thread.id().as_str())).collect()));
    }
    let head = head(sessions, thread.id()).await?;
    Ok(Reply::styled(show::page(&head, &items, &said(&items), screen)))
}

/// Returns the items without records of turn starts and ends, which the headings show, and without what the log keeps
/// for events, such as usage.
fn said(items: &[Item]) -> Vec<&Item> {
    let is_record = |it: &Item| match it.body {
        Body::Change(_) => true,
        Body::Application(_) => it.visibility == Visibility::NONE,
        _ => false,
    };
    items.iter().filter(|it| !is_record(it)).collect()
}

async fn head(sessions: &Sessions, thread: &ThreadId) -> Result<Head, Failure> {
    let key = ThreadKey { tenant: sessions.tenant().clone(), thread: thread.clone() };
    let head = Head::read(&**sessions.store(), &key).await?;
    Ok(head.ok_or_else(|| StoreError::no_thread(thread))?)
}

/// Searches the archived items.
async fn found(thread: &Thread, words: &str, as_json: bool, screen: Screen) -> Result<Reply, Failure> {
    let found = thread.search(words, MAX_FOUND).await?;
    if as_json {
        let hit = |it: &SearchHit| {
            json!({
                "id": format!("{}:{}", thread.id(), it.seq), "seq": it.seq, "turn": it.turn.to_string(), "kind": it.kind,
                "at": it.at.to_millis(), "text": it.text,
            })
        };
        return Ok(Reply::json(found.iter().map(hit).collect()));
    }
    if found.is_empty() {
        return Ok(Reply::styled("Nothing that is archived has one of these words."));
    }
    let mut table = Table::new(&[
        ("turn", Align::Left),
        ("item", Align::Right),
        ("kind", Align::Left),
        ("said", Align::Left),
        ("text", Align::Left),
    ]);
    for SearchHit { seq, turn, at, kind, text } in &found {
        table.row(vec![
            Cell::new(turn.to_string()).style(BOLD),
            Cell::new(seq.to_string()),
            Cell::new(kind),
            Cell::new(at.to_seconds()).style(DIM),
            Cell::new(text),
        ]);
    }
    Ok(Reply::styled(table.lines(0, screen.width).join("\n")))
}
