//! `recall`: searches the archived items, or reads one of them in full.

use contexture_compose::BoxError;
use contexture_history::search::searchable;
use contexture_history::{Item, Seq};
use contexture_message::TokenCounter;
use contexture_session::{SearchHit, Thread};
use serde_json::Value;

use super::range::{Range, Room};
use super::{definition, log, number, position};
use crate::text::fill;
use crate::tools::tool::{Invocation, Tool, ToolRefused};

/// How many items are returned by default, and at most.
const DEFAULT_FOUND: usize = 5;
const MAX_FOUND: usize = 10;
/// How many characters of an item are returned at a time.
const ITEM_CHARS: usize = 6_000;
/// How many result handles of an item are listed.
const MAX_HANDLES: usize = 5;

pub(super) fn tool(room: Room) -> Result<Tool, ToolRefused> {
    let tool = definition(include_str!("templates/recall.json"))?;
    Tool::new(tool, move |invocation: Invocation| async move {
        let (thread, arguments) = (&invocation.log, &invocation.call.arguments);
        let room = room.within(invocation.result_tokens);
        let query = arguments.get("query").and_then(Value::as_str).filter(|it| !it.trim().is_empty());
        let text = match (query, number(arguments, "item")) {
            (Some(query), None) => {
                let max = position(arguments, "limit").unwrap_or(DEFAULT_FOUND).min(MAX_FOUND);
                find(thread, query, max, &room).await?
            }
            (None, Some(item)) => {
                let offset = position(arguments, "offset").unwrap_or(0);
                read(thread, Seq(item), offset, &room).await?
            }
            _ => return Err("say either a `query` to look for or an `item` to read".into()),
        };
        Ok(Value::String(text))
    })
}

/// Returns the best matches for a query, as many as fit.
async fn find(thread: &Thread, query: &str, max: usize, room: &Room) -> Result<String, BoxError> {
    let counter = thread.counter();
    let mut rendered = String::new();
    // Asks for more than needed, because hidden items and echoes are skipped.
    let mut left = max;
    for found in thread.search(query, max * 2).await? {
        let item = log::item(thread, found.seq).await?.filter(|it| is_for_model(it) && !log::is_echo(it));
        let Some(item) = item.filter(|_| left > 0) else { continue };
        left -= 1;
        let more = shown(&found, &item);
        let longer = if rendered.is_empty() { more } else { format!("{rendered}\n\n{more}") };
        if !room.fits(&longer, &*counter) && !rendered.is_empty() {
            break;
        }
        rendered = longer;
    }
    match rendered.is_empty() {
        true => Ok(include_str!("templates/nothing_found.txt").trim_end().to_owned()),
        false => Ok(rendered),
    }
}

fn shown(found: &SearchHit, item: &Item) -> String {
    let handles = handles(item).join(" or ");
    let template = match handles.is_empty() {
        true => include_str!("templates/found.txt"),
        false => include_str!("templates/found_result.txt"),
    };
    let values = [
        ("item", found.seq.0.to_string()),
        ("turn", found.turn.0.to_string()),
        ("kind", found.kind.clone()),
        ("handles", handles),
        ("text", found.text.clone()),
    ];
    fill(template, &values.each_ref().map(|(key, it)| (*key, it.as_str())))
}

/// Returns the handles of the results of an item.
fn handles(item: &Item) -> Vec<String> {
    let mut handles: Vec<&str> = log::results(item).map(|it| it.call_id.as_str()).collect();
    handles.reverse();
    handles.extend(log::whole(item).map(|(handle, _)| handle));
    handles.into_iter().take(MAX_HANDLES).map(|it| format!("\"{it}\"")).collect()
}

/// Returns the text of an archived item, starting at an offset.
async fn read(thread: &Thread, seq: Seq, offset: usize, room: &Room) -> Result<String, BoxError> {
    let is_archived = thread.get().state().archives.iter().any(|it| (it.first..=it.last).contains(&seq));
    let item = match is_archived {
        true => log::item(thread, seq).await?.filter(is_for_model),
        false => None,
    };
    let found = item.and_then(|it| searchable(&it).map(|text| (it, text)));
    let Some((item, text)) = found else {
        return Err(format!(
            "there is no item {seq} among what was summarised; a `query` finds the items that can be read"
        )
        .into());
    };
    let values = [
        ("item", item.seq.0.to_string()),
        ("turn", item.turn.0.to_string()),
        ("kind", item.body.kind().to_owned()),
    ];
    let what =
        fill(include_str!("templates/item.txt"), &values.each_ref().map(|(key, it)| (*key, it.as_str())));
    let counter: &dyn TokenCounter = &*thread.counter();
    Ok(Range::of(&text, offset, ITEM_CHARS, room, counter).render(&what))
}

/// Whether the model could see the item, at least as a preview.
fn is_for_model(item: &Item) -> bool {
    item.visibility.history || log::whole(item).is_some()
}
