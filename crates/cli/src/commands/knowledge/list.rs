//! `knowledge list`: lists bases, or the documents of one.

use std::collections::BTreeMap;

use contexture::SystemTime;
use contexture_session::Time;
use contexture_session::sources::{BaseInfo, SourceInfo};
use serde_json::{Value, json};

use super::Bases;
use crate::error::Failure;
use crate::output::Reply;
use crate::terminal::paint::{BOLD, DIM};
use crate::terminal::table::{Align, Cell, Table};

/// How many are read at once.
const PAGE: usize = 1_000;

/// Returns all bases in the order of their names, and whether each is a folder of the project.
pub(super) async fn all(bases: &Bases) -> Result<Vec<(BaseInfo, bool)>, Failure> {
    let mut all = BTreeMap::new();
    let mut after = None;
    loop {
        let page = bases.store.bases(bases.tenant.clone(), after.take(), PAGE).await?;
        let is_last = page.len() < PAGE;
        after = page.last().map(|it| it.base.clone());
        all.extend(
            page.into_iter().filter(|it| !it.base.is_reserved()).map(|it| (it.base.clone(), (it, false))),
        );
        if is_last {
            break;
        }
    }
    for id in bases.project.folder_bases() {
        let Ok(found) = bases.find(id.as_str()) else { continue };
        let info = bases.store.base(found.key.clone()).await?;
        let not_indexed = || BaseInfo::new(id.clone(), found.base.settings(), SystemTime.now());
        all.insert(id.clone(), (info.unwrap_or_else(not_indexed), true));
    }
    Ok(all.into_values().collect())
}

pub(super) async fn bases(bases: &Bases) -> Result<Reply, Failure> {
    let all = all(bases).await?;
    if bases.as_json {
        return Ok(Reply::json(
            all.iter().map(|(info, is_folder)| base_document(info, *is_folder)).collect(),
        ));
    }
    if all.is_empty() {
        let reply = Reply::styled("There are no knowledge bases.");
        return Ok(reply.note("`contexture knowledge add BASE PATH` makes one"));
    }
    let mut table = Table::new(&[
        ("base", Align::Left),
        ("documents", Align::Right),
        ("chunks", Align::Right),
        ("from", Align::Left),
        ("about", Align::Left),
    ]);
    for (info, is_folder) in &all {
        let from = if *is_folder { format!("knowledge/{}", info.base) } else { "added".to_owned() };
        table.row(vec![
            Cell::new(info.base.as_str()).style(BOLD),
            Cell::new(info.documents.to_string()),
            Cell::new(info.chunks.to_string()),
            Cell::new(from).style(DIM),
            Cell::new(info.settings.description.as_deref().unwrap_or_default()),
        ]);
    }
    Ok(Reply::styled(table.lines(0, bases.screen.width).join("\n")))
}

fn base_document(info: &BaseInfo, is_folder: bool) -> Value {
    json!({
        "base": info.base, "description": info.settings.description, "language": info.settings.language,
        "is_folder": is_folder, "documents": info.documents, "chunks": info.chunks,
    })
}

pub(super) async fn documents(bases: &Bases, base: &str) -> Result<Reply, Failure> {
    let found = bases.find(base)?;
    bases.info(&found).await?;
    let mut all: Vec<SourceInfo> = Vec::new();
    loop {
        let after = all.last().map(|it| it.id.clone());
        let page = bases.store.sources(found.key.clone(), after, PAGE).await?;
        let is_last = page.len() < PAGE;
        all.extend(page);
        if is_last {
            break;
        }
    }
    if bases.as_json {
        return Ok(Reply::json(all.iter().map(document).collect()));
    }
    if all.is_empty() {
        return Ok(Reply::styled("The base has no documents."));
    }
    let mut table = Table::new(&[
        ("document", Align::Left),
        ("title", Align::Left),
        ("chunks", Align::Right),
        ("bytes", Align::Right),
        ("type", Align::Left),
    ]);
    for info in &all {
        table.row(vec![
            Cell::new(info.id.as_str()).style(BOLD),
            Cell::new(&info.title),
            Cell::new(info.chunks.to_string()),
            Cell::new(info.bytes.to_string()),
            Cell::new(&info.media_type).style(DIM),
        ]);
    }
    Ok(Reply::styled(table.lines(0, bases.screen.width).join("\n")))
}

/// Returns a document for programs.
pub(super) fn document(info: &SourceInfo) -> Value {
    json!({
        "id": info.id, "title": info.title, "url": info.origin, "media_type": info.media_type,
        "metadata": info.metadata, "version": info.version, "bytes": info.bytes, "chunks": info.chunks,
    })
}
