//! Adds the texts around hits to them, as far as there is room.

use std::sync::Arc;

use contexture_message::TokenCounter;
use futures::future::join_all;

use crate::retrieve::{Around, Hit, Retriever};

/// The hits after an expansion, with what went wrong.
pub(super) struct Expanded {
    pub(super) hits: Vec<Hit>,
    pub(super) notes: Vec<String>,
}

/// Expands hits, best first, until all of them together have as many tokens as they may. A chunk that another hit has
/// already is not repeated. A hit whose surroundings can't be read stays as it is.
pub(super) async fn expand(
    retrievers: &[Arc<dyn Retriever>],
    counter: &dyn TokenCounter,
    hits: Vec<Hit>,
    around: Around,
    tokens: u32,
) -> Expanded {
    let read = |hit: &Hit| {
        let retriever = retrievers.iter().find(|it| it.base() == hit.base).cloned();
        let hit = hit.clone();
        async move {
            match retriever {
                Some(retriever) => retriever.around(&hit, around).await,
                None => Ok(Vec::new()),
            }
        }
    };
    let surroundings = join_all(hits.iter().map(read)).await;
    let count = |text: &str| counter.count(text).0;
    let mut left = tokens.saturating_sub(hits.iter().map(|it| count(&it.text)).sum());
    let mut taken: Vec<(String, String)> =
        hits.iter().map(|it| (it.base.clone(), it.chunk.clone())).collect();
    let mut notes = Vec::new();
    let mut expanded = Vec::with_capacity(hits.len());
    for (hit, around) in hits.into_iter().zip(surroundings) {
        let around = around.unwrap_or_else(|err| {
            notes.push(format!("{}: {err}", hit.source()));
            Vec::new()
        });
        expanded.push(joined(hit, around, &mut left, &mut taken, &count));
    }
    Expanded { hits: expanded, notes }
}

/// Grows a hit on both sides, nearest first, as long as there is room and no chunk is missing in between.
fn joined(
    hit: Hit,
    around: Vec<Hit>,
    left: &mut u32,
    taken: &mut Vec<(String, String)>,
    count: &impl Fn(&str) -> u32,
) -> Hit {
    let Some(own) = around.iter().position(|it| it.chunk == hit.chunk) else { return hit };
    let (mut first, mut last) = (own, own);
    let mut take = |idx: usize| {
        let it = &around[idx];
        let key = (it.base.clone(), it.chunk.clone());
        let cost = count(&it.text);
        let fits = cost <= *left && !taken.contains(&key);
        if fits {
            *left -= cost;
            taken.push(key);
        }
        fits
    };
    let (mut grows_down, mut grows_up) = (true, true);
    while grows_down || grows_up {
        grows_up = grows_up && last + 1 < around.len() && take(last + 1);
        last += usize::from(grows_up);
        grows_down = grows_down && first > 0 && take(first - 1);
        first -= usize::from(grows_down);
    }
    let parts: Vec<&str> = around[first..=last]
        .iter()
        .map(|it| if it.chunk == hit.chunk { &*hit.text } else { &*it.text })
        .collect();
    let span =
        around[first].document.span.zip(around[last].document.span).map(|(one, other)| (one.0, other.1));
    let text = parts.join("\n\n");
    let mut hit = hit;
    hit.text = text;
    hit.document.span = span.or(hit.document.span);
    hit
}
