//! `sessions artifacts`: the named, versioned documents of a session.

use contexture_message::ErrorCode;
use contexture_session::{ArtifactInfo, NewArtifact, Sessions};
use serde_json::{Value, json};

use super::open_thread;
use crate::args::{ArtifactAddArgs, ArtifactsCommand};
use crate::error::Failure;
use crate::output::Reply;
use crate::read;
use crate::terminal::Screen;
use crate::terminal::paint::{BOLD, GREEN, one_line, paint, visible};
use crate::terminal::table::{Align, Cell, Table};

pub(super) async fn run(
    sessions: &Sessions,
    command: &ArtifactsCommand,
    as_json: bool,
    screen: Screen,
) -> Result<Reply, Failure> {
    match command {
        ArtifactsCommand::List { id } => list(sessions, id, as_json, screen).await,
        ArtifactsCommand::Show { id, name, version } => show(sessions, id, name, *version, as_json).await,
        ArtifactsCommand::Add(args) => add(sessions, args, as_json).await,
        ArtifactsCommand::Delete { id, name, expected } => {
            let thread = open_thread(sessions, id, None).await?;
            thread.delete_artifact(name, *expected, None).await?;
            Ok(match as_json {
                true => Reply::json(json!({"deleted": name})),
                false => Reply::styled(format!("{} {}", paint(GREEN, "deleted"), one_line(name))),
            })
        }
    }
}

async fn list(sessions: &Sessions, id: &str, as_json: bool, screen: Screen) -> Result<Reply, Failure> {
    let all = open_thread(sessions, id, None).await?.artifacts().await?;
    if as_json {
        return Ok(Reply::json(all.iter().map(document).collect()));
    }
    if all.is_empty() {
        return Ok(Reply::styled("The session has no artifacts."));
    }
    let headings =
        [("name", Align::Left), ("version", Align::Right), ("bytes", Align::Right), ("about", Align::Left)];
    let mut table = Table::new(&headings);
    for it in &all {
        let about = it.summary.as_ref().or(it.title.as_ref()).map(|it| one_line(it)).unwrap_or_default();
        table.row(vec![
            Cell::new(one_line(&it.name)).style(BOLD),
            Cell::new(it.version.to_string()),
            Cell::new(it.bytes.to_string()),
            Cell::new(about),
        ]);
    }
    Ok(Reply::styled(table.lines(0, screen.width).join("\n")))
}

fn document(info: &ArtifactInfo) -> Value {
    json!({
        "name": info.name, "version": info.version, "title": info.title, "media_type": info.media_type,
        "summary": info.summary, "bytes": info.bytes, "updated": info.updated.to_millis(),
        "versions": info.versions().collect::<Vec<_>>(),
    })
}

async fn show(
    sessions: &Sessions,
    id: &str,
    name: &str,
    version: Option<u64>,
    as_json: bool,
) -> Result<Reply, Failure> {
    let found = open_thread(sessions, id, None).await?.artifact(name, version).await?;
    let found = found.ok_or_else(|| {
        Failure::new(
            ErrorCode::NotFound,
            format!("session `{id}` has no such version of an artifact `{name}`"),
        )
        .hint("`contexture sessions artifacts list SESSION` lists them")
    })?;
    if as_json {
        let mut document = document(&found.info);
        (document["version"], document["text"]) = (found.version.into(), found.text.into());
        return Ok(Reply::json(document));
    }
    Ok(Reply::styled(visible(&found.text).into_owned()))
}

async fn add(sessions: &Sessions, args: &ArtifactAddArgs, as_json: bool) -> Result<Reply, Failure> {
    let new = NewArtifact {
        name: args.name.clone(),
        text: read::text(&args.file)?,
        title: args.title.clone(),
        media_type: args.media_type.clone(),
        summary: args.summary.clone(),
        expected: args.expected,
    };
    let info = open_thread(sessions, &args.id, None).await?.put_artifact(new, None).await?;
    Ok(match as_json {
        true => Reply::json(document(&info)),
        false => {
            let name = one_line(&info.name);
            Reply::styled(format!("{} {name}, version {}", paint(GREEN, "wrote"), info.version))
        }
    })
}
