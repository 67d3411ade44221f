//! How commits are written: one JSON document a row, large texts apart.
//!
//! A commit is the unit of durability and one row of a table. An append of many items is split into several rows (at
//! most [`MAX_ITEMS`] items and about [`MAX_BYTES`] each), so reading the newest few items never decodes thousands. A
//! text longer than [`BLOB_BYTES`] is moved out of its body and stored once under its SHA-256; a body that is still
//! longer than that is stored the same way, as JSON. The references are stored next to the document, not in it, so
//! user data can never look like a reference.

use std::borrow::Cow;
use std::sync::Arc;

use contexture_history::{Application, Body, Cost, Item, Seq, Timestamp, TurnNo, Visibility};
use contexture_message::Tokens;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::texts;

/// The most items of one row.
pub const MAX_ITEMS: usize = 16;
/// About how long a row's document gets before the next one starts.
pub const MAX_BYTES: usize = 32 * 1024;
/// Texts longer than this are stored apart.
pub const BLOB_BYTES: usize = 8 * 1024;

/// One row: a commit, or a part of a large one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The position of its first item.
    pub first: Seq,
    /// How many items it has.
    pub count: u32,
    /// The JSON document.
    pub body: String,
    /// The texts that were taken out of it.
    pub blobs: Vec<Blob>,
    /// The list of their [`BlobRef`]s as JSON, if there are any.
    pub places: Option<String>,
}

/// A large text and its position in the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// The text's position in the row.
    pub place: BlobRef,
    /// The text.
    pub text: String,
}

/// The position of a large text. A row stores the list of these as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlobRef {
    /// The index of the item in the row.
    pub item: usize,
    /// The index of the text in its body; without it, the text is the whole body as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<usize>,
    /// SHA-256 of the text, in hex digits.
    pub hash: String,
}

/// A row that can't be read back.
#[derive(Debug, thiserror::Error)]
pub enum RowDamaged {
    /// The document is not what was written.
    #[error("its document is invalid: {0}")]
    Document(#[from] serde_json::Error),
    /// A large text has no place in the document.
    #[error("the document has no place for the large text {0}")]
    Place(String),
    /// A large text is missing.
    #[error("the large text {0} is missing")]
    Blob(String),
    /// The number of items differs from what the row claims.
    #[error("it says {said} items and has {found}")]
    Count {
        /// The number of items the row claims.
        said: u32,
        /// The number of items found.
        found: usize,
    },
}

#[derive(Serialize, Deserialize)]
struct Document<'a> {
    at: Timestamp,
    #[serde(borrow)]
    counter: Cow<'a, str>,
    items: Vec<Entry<'a>>,
}

#[derive(Serialize, Deserialize)]
struct Entry<'a> {
    turn: TurnNo,
    #[serde(default, skip_serializing_if = "is_free")]
    tokens: Tokens,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    visibility: Option<Visibility>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    author: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    counter: Option<Cow<'a, str>>,
    body: Cow<'a, Body>,
}

fn is_free(tokens: &Tokens) -> bool {
    tokens.0 == 0
}

/// Writes items as rows.
pub fn encode(items: &[Item]) -> Result<Vec<Row>, serde_json::Error> {
    let mut rows = Vec::new();
    let mut rest = items;
    while !rest.is_empty() {
        let (row, more) = rest.split_at(row_length(rest));
        rows.push(encode_row(row)?);
        rest = more;
    }
    Ok(rows)
}

/// Returns how many of the items go into the next row.
fn row_length(items: &[Item]) -> usize {
    let mut bytes = 0;
    let fits = |item: &&Item| {
        let fits = bytes < MAX_BYTES;
        bytes += rough_bytes(&item.body);
        fits
    };
    items.iter().take(MAX_ITEMS).take_while(fits).count().max(1)
}

/// Returns the approximate length of a body; large texts do not count, since they are stored separately.
fn rough_bytes(body: &Body) -> usize {
    use contexture_message::{Part, ToolOutput};
    let within = |text: &str| if text.len() > BLOB_BYTES { 0 } else { text.len() };
    match body {
        Body::Message(message) => message.content.iter().map(|part| match part {
            Part::Text { text, citations } => within(text) + citations.len() * 256,
            Part::Evidence(evidence) => 256 + evidence.text.iter().map(|it| within(it)).sum::<usize>(),
            Part::ToolResult(result) => match &result.output {
                ToolOutput::Text(text) | ToolOutput::ErrorText(text) => within(text),
                _ => BLOB_BYTES,
            },
            _ => 256,
        }),
        _ => return 256,
    }
    .sum()
}

/// Writes items as one row, for rows that are rewritten.
pub fn encode_row(items: &[Item]) -> Result<Row, serde_json::Error> {
    let Some(head) = items.first() else {
        return Ok(Row { first: Seq(0), count: 0, body: String::new(), blobs: Vec::new(), places: None });
    };
    let mut document =
        Document { at: head.at, counter: Cow::Borrowed(&head.cost.counter), items: entries(head, items) };
    let mut body = serde_json::to_string(&document)?;
    let mut blobs = Vec::new();
    // Most rows are shorter than the shortest text that would be taken out, and need no second look.
    if body.len() > BLOB_BYTES {
        for (idx, entry) in document.items.iter_mut().enumerate() {
            take_blobs(idx, entry, &mut blobs)?;
        }
        if !blobs.is_empty() {
            body = serde_json::to_string(&document)?;
        }
    }
    let refs: Vec<&BlobRef> = blobs.iter().map(|it: &Blob| &it.place).collect();
    let places = (!refs.is_empty()).then(|| serde_json::to_string(&refs)).transpose()?;
    let count = u32::try_from(items.len()).unwrap_or(u32::MAX);
    Ok(Row { first: head.seq, count, body, blobs, places })
}

fn entries<'a>(head: &Item, items: &'a [Item]) -> Vec<Entry<'a>> {
    let entry = |item: &'a Item| Entry {
        turn: item.turn,
        tokens: item.cost.tokens,
        visibility: (item.visibility != item.body.default_visibility()).then_some(item.visibility),
        author: item.author.as_deref().map(Cow::Borrowed),
        at: (item.at != head.at).then_some(item.at),
        counter: (item.cost.counter != head.cost.counter).then(|| Cow::Borrowed(&*item.cost.counter)),
        body: Cow::Borrowed(&item.body),
    };
    items.iter().map(entry).collect()
}

/// Takes large texts out of a body, then the body if it is still large.
fn take_blobs(item: usize, entry: &mut Entry<'_>, blobs: &mut Vec<Blob>) -> Result<(), serde_json::Error> {
    let body = &mut entry.body;
    if serde_json::to_string(body)?.len() <= BLOB_BYTES {
        return Ok(());
    }
    let mut number = 0;
    texts::each(body.to_mut(), &mut |text| {
        if text.len() > BLOB_BYTES {
            blobs.push(blob(item, Some(number), std::mem::take(text)));
        }
        number += 1;
    });
    let rest = serde_json::to_string(body)?;
    if rest.len() > BLOB_BYTES {
        blobs.push(blob(item, None, rest));
        // The placeholder is of another kind, which has another visibility.
        entry.visibility.get_or_insert(body.default_visibility());
        *body = Cow::Owned(Body::Application(Application { kind: String::new(), value: Value::Null }));
    }
    Ok(())
}

fn blob(item: usize, text: Option<usize>, content: String) -> Blob {
    let hash = blob_hash(&content);
    Blob { place: BlobRef { item, text, hash }, text: content }
}

/// Returns the name of a large text: its SHA-256 in hex digits.
pub fn blob_hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|it| format!("{it:02x}")).collect()
}

/// Reads a row back. `blobs` are its large texts, in the order of the row's list.
pub fn decode(first: Seq, count: u32, body: &str, blobs: Vec<Blob>) -> Result<Vec<Item>, RowDamaged> {
    let document: Document<'_> = serde_json::from_str(body)?;
    if document.items.len() != count as usize {
        return Err(RowDamaged::Count { said: count, found: document.items.len() });
    }
    let mut items = items(first, document);
    // Restores in reverse order: a body comes back before the texts that were taken out of it.
    for blob in blobs.into_iter().rev() {
        put_blob(&mut items, blob)?;
    }
    Ok(items)
}

fn put_blob(items: &mut [Item], blob: Blob) -> Result<(), RowDamaged> {
    let Blob { place, text } = blob;
    let Some(item) = items.get_mut(place.item) else {
        return Err(RowDamaged::Place(place.hash));
    };
    let Some(wanted) = place.text else {
        item.body = serde_json::from_str(&text)?;
        return Ok(());
    };
    let (mut number, mut text) = (0, Some(text));
    texts::each(&mut item.body, &mut |slot| {
        if let Some(text) = text.take_if(|_| number == wanted) {
            *slot = text;
        }
        number += 1;
    });
    if text.is_some() { Err(RowDamaged::Place(place.hash)) } else { Ok(()) }
}

fn items(first: Seq, document: Document<'_>) -> Vec<Item> {
    let Document { at, counter, items } = document;
    let counter: Arc<str> = Arc::from(counter);
    let item = |(idx, entry): (u64, Entry<'_>)| {
        let counter = entry.counter.map_or_else(|| Arc::clone(&counter), |it| Arc::from(&*it));
        let body = entry.body.into_owned();
        Item {
            seq: first.plus(idx),
            turn: entry.turn,
            visibility: entry.visibility.unwrap_or_else(|| body.default_visibility()),
            cost: Cost { counter, tokens: entry.tokens },
            author: entry.author.map(Cow::into_owned),
            at: entry.at.unwrap_or(at),
            body,
        }
    };
    (0..).zip(items).map(item).collect()
}
