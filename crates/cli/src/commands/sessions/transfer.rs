//! `sessions export`, `import` and `fork`.

use contexture_message::ErrorCode;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use contexture_history::{Seq, TurnNo};
use contexture_session::{
    Head, Imported, SessionError, SessionId, SessionKey, SessionStart, Sessions, Span, StoreError,
    fork_session, list_all,
};
use serde_json::json;

use super::session_id;
use crate::commands::resolve::counted;
use crate::error::Failure;
use crate::output::Reply;
use crate::read;
use crate::terminal::paint::{BOLD, GREEN, one_line, paint};

/// The number of items to read at once.
const PAGE: usize = 1024;

/// Exports one session, or all of them.
pub(super) async fn export(
    sessions: &Sessions,
    id: Option<&str>,
    out: Option<&Path>,
    as_json: bool,
) -> Result<Reply, Failure> {
    let ids: Vec<SessionId> = match id {
        Some(id) => vec![session_id(id)?],
        None => list_all(sessions).await?.into_iter().map(|it| it.session).collect(),
    };
    let Some(out) = out else {
        let mut text = Vec::new();
        write(sessions, &ids, &mut text).await?;
        let text = String::from_utf8_lossy(&text);
        return Ok(if text.is_empty() { Reply::default() } else { Reply::document(text.trim_end()) });
    };
    to_file(sessions, &ids, out).await?;
    let name = out.display().to_string();
    if as_json {
        return Ok(Reply::json(json!({"file": name, "sessions": ids})));
    }
    let wrote = paint(GREEN, &format!("{} exported", counted(ids.len(), "session")));
    Ok(Reply::styled(format!("{wrote} to {}", one_line(&name))))
}

async fn write(sessions: &Sessions, ids: &[SessionId], out: &mut impl Write) -> Result<(), Failure> {
    for id in ids {
        contexture_session::export(sessions, id, |line| {
            writeln!(out, "{line}").map_err(|err| {
                Failure::new(ErrorCode::WriteFailed, format!("the export can't be written: {err}"))
            })
        })
        .await?;
    }
    Ok(())
}

/// Writes to a temporary file and renames it when complete, so that a partial export is never mistaken for a whole
/// one.
async fn to_file(sessions: &Sessions, ids: &[SessionId], path: &Path) -> Result<(), Failure> {
    let name = path.display().to_string();
    let failed = |err: io::Error| {
        Failure::new(ErrorCode::WriteFailed, format!("cannot write `{name}`: {err}")).at(name.clone())
    };
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let mut file = BufWriter::new(fs::File::create(&partial).map_err(failed)?);
    let written = write(sessions, ids, &mut file).await;
    let written = written.and_then(|()| file.flush().map_err(failed));
    let written = written.and_then(|()| file.get_ref().sync_all().map_err(failed));
    let written = written.and_then(|()| fs::rename(&partial, path).map_err(failed));
    if written.is_err() {
        // The original error is returned.
        let _ = fs::remove_file(&partial);
    }
    written
}

/// Imports sessions that `export` wrote.
pub(super) async fn import(
    sessions: &Sessions,
    file: &str,
    rename: Option<&str>,
    as_json: bool,
) -> Result<Reply, Failure> {
    let text = read::large_text(file)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let parts = parts(text);
    if rename.is_some() && parts.len() > 1 {
        let message = format!("`--as` names one session, the file has {}", parts.len());
        return Err(Failure::usage(message));
    }
    let rename = rename.map(session_id).transpose()?;
    let mut done: Vec<Imported> = Vec::new();
    for (first, lines) in parts {
        let imported = contexture_session::import(sessions, lines, rename.clone()).await;
        done.push(imported.map_err(|err| not_imported(err, read::name(file), first, &done))?);
    }
    if as_json {
        return Ok(Reply::json(json!(done)));
    }
    let lines: Vec<String> = done.iter().map(|it| written("imported", it)).collect();
    Ok(Reply::styled(lines.join("\n")))
}

/// Splits a file into sessions, each with the number of its first line.
fn parts(text: &str) -> Vec<(usize, Vec<&str>)> {
    let mut parts: Vec<(usize, Vec<&str>)> = Vec::new();
    for (idx, line) in text.lines().enumerate() {
        let begins = line.chars().filter(|it| !it.is_whitespace()).take(10).eq("{\"session\"".chars());
        match parts.last_mut().filter(|_| !begins) {
            Some((_, lines)) => lines.push(line),
            None if line.trim().is_empty() => {}
            None => parts.push((idx, vec![line])),
        }
    }
    // The import reports a file without any session.
    if parts.is_empty() { vec![(0, Vec::new())] } else { parts }
}

fn not_imported(err: SessionError, name: &str, first: usize, done: &[Imported]) -> Failure {
    let failure = match err {
        SessionError::Import { line, detail } => {
            let at = if line == 0 { name.to_owned() } else { format!("{name}:{}", first + line) };
            let hint = "the file must be what `contexture sessions export` wrote";
            Failure::new(ErrorCode::ImportInvalid, detail).at(at).hint(hint)
        }
        other => Failure::from(other),
    };
    let names: Vec<String> = done.iter().map(|it| it.session.to_string()).collect();
    match names.is_empty() {
        true => failure,
        false => failure
            .with_details(&format!("Imported before that: {}", one_line(&names.join(", "))))
            .sources(names),
    }
}

/// Returns the id and label of a copy.
pub(super) fn start(rename: Option<&str>, label: Option<&str>) -> Result<SessionStart, Failure> {
    Ok(SessionStart { id: rename.map(session_id).transpose()?, label: label.map(str::to_owned) })
}

/// Copies a session's main thread.
pub(super) async fn fork(
    sessions: &Sessions,
    id: &SessionId,
    at: Option<&str>,
    start: SessionStart,
    as_json: bool,
) -> Result<Reply, Failure> {
    let at = match at {
        Some(at) => Some(position(sessions, id, at).await?),
        None => None,
    };
    let forked = fork_session(sessions, id, at, start).await?;
    if as_json {
        return Ok(Reply::json(json!(forked)));
    }
    Ok(Reply::styled(written("forked to", &forked)))
}

/// Returns the position of an item: its number, or the last item of a turn.
async fn position(sessions: &Sessions, id: &SessionId, at: &str) -> Result<Seq, Failure> {
    if let Ok(seq) = at.parse() {
        return Ok(Seq(seq));
    }
    let Some(turn) = TurnNo::parse(at) else {
        let failure = Failure::usage(format!("`--at {at}` is neither an item nor a turn"));
        return Err(failure.hint("write the number of an item, such as `12`, or a turn, such as `t3`"));
    };
    let main = SessionKey { tenant: sessions.tenant().clone(), session: id.clone() }.main();
    let head = Head::read(&**sessions.store(), &main).await?;
    let head = head.ok_or_else(|| StoreError::NotFound { what: "session", id: id.to_string() })?;
    if turn > head.state.turn {
        return Err(SessionError::NotInThread { thread: id.to_string(), what: format!("turn {turn}") }.into());
    }
    let mut end = Seq(0);
    loop {
        let page = sessions.store().read(main.clone(), Span::After { seq: end, max: PAGE }).await?;
        let within = page.iter().take_while(|it| it.turn <= turn);
        let n_within = within.clone().count();
        end = within.last().map_or(end, |it| it.seq);
        if n_within < page.len() || page.is_empty() {
            return Ok(end);
        }
    }
}

fn written(what: &str, imported: &Imported) -> String {
    let Imported { session, threads, items } = imported;
    let facts = format!("{}, {}", counted(*threads, "thread"), counted(*items, "item"));
    format!("{} {}: {facts}", paint(GREEN, what), paint(BOLD, &one_line(session.as_str())))
}
