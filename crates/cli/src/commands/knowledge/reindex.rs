//! `knowledge reindex`: brings folders up to date and makes missing vectors.

use contexture::knowledge::IndexReport;
use contexture_session::BaseId;
use serde_json::{Value, json};

use super::{Bases, StoredBase, indexing, list, missing};
use crate::error::Failure;
use crate::output::{Progress, Reply};
use crate::terminal::paint::{BOLD, paint, visible};

/// What was done to a base: its index, and how many vectors were made if there is an embedder.
type Done = (BaseId, IndexReport, Option<u64>);

pub(super) async fn run(bases: &Bases, base: Option<&str>) -> Result<Reply, Failure> {
    let names = match base {
        Some(base) => vec![base.to_owned()],
        None => list::all(bases).await?.into_iter().map(|(info, _)| info.base.to_string()).collect(),
    };
    let mut done = Vec::new();
    for name in names {
        let found = bases.find(&name)?;
        let report = {
            let progress = Progress::new(bases.screen);
            let show = indexing(&progress, &found.key.base);
            found.base.sync_folder(&show).await?
        };
        // Documents that were added are in the index since then.
        let unchanged = match bases.store.base(found.key.clone()).await? {
            Some(info) => IndexReport { unchanged: info.documents, ..IndexReport::default() },
            None => return Err(missing(&found.key.base)),
        };
        let embedded = embed(bases, &found).await?;
        done.push((found.key.base.clone(), report.unwrap_or(unchanged), embedded));
    }
    Ok(reply(bases, done))
}

/// Makes the missing vectors of a base. Returns how many, or `None` without an embedder.
pub(super) async fn embed(bases: &Bases, found: &StoredBase) -> Result<Option<u64>, Failure> {
    let progress = Progress::new(bases.screen);
    let base = &found.key.base;
    let chunks = bases.store.base(found.key.clone()).await?.map_or(0, |it| it.chunks);
    let show = |done: u64| progress.show(done, chunks, &format!("vectors of {base}"));
    Ok(found.base.embed(&found.key, &show).await?)
}

pub(super) fn reply(bases: &Bases, done: Vec<Done>) -> Reply {
    if bases.as_json {
        return Reply::json(done.iter().map(document).collect());
    }
    let lines: Vec<String> = done.iter().map(line).collect();
    let reply = match lines.is_empty() {
        true => Reply::styled("There are no knowledge bases."),
        false => Reply::styled(lines.join("\n")),
    };
    let skipped = done.iter().flat_map(|(_, report, _)| &report.skipped);
    skipped.fold(reply, |reply, it| reply.note(format!("left out `{}`: {}", it.path, it.reason)))
}

fn document((base, report, vectors): &Done) -> Value {
    let skipped = report.skipped.iter();
    let skipped = skipped.map(|it| json!({"path": it.path, "reason": it.reason.to_string()}));
    let mut document = json!({
        "base": base, "added": report.added, "updated": report.updated, "unchanged": report.unchanged,
        "removed": report.removed, "chunks": report.chunks, "skipped": skipped.collect::<Vec<_>>(),
    });
    if let Some(vectors) = vectors {
        document["vectors"] = json!(vectors);
    }
    document
}

fn line((base, report, vectors): &Done) -> String {
    let mut facts = vec![
        format!("{} added", report.added),
        format!("{} updated", report.updated),
        format!("{} unchanged", report.unchanged),
    ];
    facts.extend((report.removed > 0).then(|| format!("{} removed", report.removed)));
    facts.extend((report.chunks > 0).then(|| format!("{} chunks written", report.chunks)));
    facts.extend(vectors.map(|it| format!("{it} vectors made")));
    format!("{}: {}", paint(BOLD, &visible(base.as_str())), facts.join(", "))
}
