//! `knowledge search`: shows the best chunks of a base, with the shares of their scores.

use contexture::SystemTime;
use contexture::knowledge::{Hit, Query, Retrieved};
use contexture_session::{BaseId, Time};
use serde_json::{Value, json};

use super::Bases;
use crate::error::Failure;
use crate::output::Reply;
use crate::terminal::paint::{BOLD, DIM, cut, one_line, paint, visible};

/// How much of a hit is shown, in lines of the terminal.
const SNIPPET_LINES: usize = 2;

pub(super) async fn run(
    bases: &Bases,
    base: &str,
    query: &str,
    top_k: u32,
    min_score: f64,
) -> Result<Reply, Failure> {
    if query.trim().is_empty() {
        return Err(Failure::usage("the query is empty"));
    }
    let project_base = bases.project.base(&BaseId::parse(base)?);
    // A search engine has documents of its own; all others are found in the store.
    if let Ok(found) = bases.find(base) {
        bases.info(&found).await?;
    }
    let retriever = project_base.retriever(&bases.tenant).await?;
    let query = Query { min_score, now: Some(SystemTime.now()), ..Query::new(query, top_k as usize) };
    let found = retriever.retrieve(query).await?;
    Ok(reply(bases, &found))
}

fn reply(bases: &Bases, found: &Retrieved) -> Reply {
    if bases.as_json {
        let hits: Vec<Value> = found.hits.iter().map(document).collect();
        let notes: Vec<String> = found.notes.iter().map(ToString::to_string).collect();
        return Reply::json(json!({"hits": hits, "notes": notes}));
    }
    let hits = found.hits.iter().enumerate();
    let hits: Vec<String> = hits.map(|(idx, hit)| page(idx + 1, hit, bases.screen.width)).collect();
    let reply = match hits.is_empty() {
        true => Reply::styled("Nothing was found."),
        false => Reply::styled(hits.join("\n\n")),
    };
    found.notes.iter().fold(reply, |reply, note| reply.note(note.to_string()))
}

fn document(hit: &Hit) -> Value {
    json!({
        "chunk": hit.chunk, "score": hit.score, "shares": hit.shares, "text": hit.text,
        "document": hit.document,
    })
}

/// Returns a hit as lines: rank, score and place; the shares; the beginning of the text.
fn page(rank: usize, hit: &Hit, columns: usize) -> String {
    let title = hit.document.title.as_deref().or(hit.document.id.as_deref()).unwrap_or_default();
    let headings = hit.document.headings.iter().map(String::as_str).filter(|it| *it != title);
    let place: Vec<&str> = std::iter::once(title).chain(headings).filter(|it| !it.is_empty()).collect();
    let head = format!("{rank}. {:.3}  {}  {}", hit.score, hit.tag(), place.join(" › "));
    let shares = hit.shares.iter().map(|(signal, share)| format!("{} {share:.3}", signal.as_str()));
    let shares: Vec<String> = shares.collect();
    let text = cut(&one_line(&hit.text), columns.saturating_sub(3) * SNIPPET_LINES);
    let mut lines = vec![paint(BOLD, &visible(&one_line(&head)))];
    let origin = hit.document.origin.iter().cloned();
    let facts: Vec<String> = origin.chain((!shares.is_empty()).then(|| shares.join(" + "))).collect();
    if !facts.is_empty() {
        lines.push(paint(DIM, &format!("   {}", visible(&one_line(&facts.join(" · "))))));
    }
    lines.push(format!("   {}", visible(&text)));
    lines.join("\n")
}
