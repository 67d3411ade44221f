//! `knowledge show` and `knowledge remove`: one document.

use contexture::knowledge::retrieve::{Hit, ReadRange, ReadTarget};
use contexture_session::SourceId;
use serde_json::{Value, json};

use super::{Bases, list};
use crate::error::Failure;
use crate::output::Reply;
use crate::terminal::paint::{BOLD, DIM, GREEN, paint, visible};

pub(super) async fn run(bases: &Bases, base: &str, document: &str) -> Result<Reply, Failure> {
    let found = bases.find(base)?;
    let id = SourceId::parse(document)?;
    let info = bases.document(&found, &id).await?;
    let retriever = found.base.retriever(&bases.tenant).await?;
    let range = ReadRange { from: Some(0), max: u64::MAX };
    let passage = retriever.read(ReadTarget::Document(id.to_string()), range).await?;
    if bases.as_json {
        let chunks: Vec<Value> = passage.hits.iter().map(chunk).collect();
        return Ok(Reply::json(json!({"document": list::document(&info), "chunks": chunks})));
    }
    let origin = info.origin.iter().map(|it| format!("{it} · ")).collect::<String>();
    let facts = format!("{origin}{} · {} bytes · {} chunks", info.media_type, info.bytes, info.chunks);
    let mut parts = vec![format!("{}\n{}", paint(BOLD, &visible(&info.title)), paint(DIM, &visible(&facts)))];
    for hit in &passage.hits {
        parts.push(format!("{}\n{}", paint(DIM, &visible(&hit.tag())), visible(&hit.text)));
    }
    Ok(Reply::styled(parts.join("\n\n")))
}

fn chunk(hit: &Hit) -> Value {
    json!({
        "chunk": hit.chunk, "headings": hit.document.headings, "span": hit.document.span, "text": hit.text,
    })
}

pub(super) async fn remove(bases: &Bases, base: &str, document: &str) -> Result<Reply, Failure> {
    let found = bases.writable(base)?;
    let id = SourceId::parse(document)?;
    bases.document(&found, &id).await?;
    let removed = bases.store.remove_sources(found.key, vec![id.clone()]).await?;
    if bases.as_json {
        return Ok(Reply::json(json!({"base": base, "document": id, "removed": removed})));
    }
    Ok(Reply::styled(format!("{} {}", paint(GREEN, "removed"), visible(id.as_str()))))
}
