//! The tools of a memory: `memory_search`, `memory_read`, `remember` and `forget`; or the one tool `memory` with the six
//! commands on files.

use std::sync::Arc;

use contexture_agent::{Invocation, Tool, ToolRefused};
use contexture_compose::BoxError;
use contexture_history::compaction::{holds, normal};
use contexture_history::{Seq, TurnNo};
use contexture_message::{Role, ToolDefinition, ToolOutput};
use contexture_session::{Span, ThreadId, ThreadKey};
use serde::Deserialize;
use serde_json::{Value, json};

use super::capture::Accept;
use super::episodes::utterance;
use super::error::MemoryError;
use super::forget::{Forget, ForgetOptions};
use super::record::{Author, Layer, NewRecord, Provenance, Record, Status, Trust};
use super::sources::Kind;
use super::space::{MemoryHit, MemorySpace, SearchRequest};
use super::words::{origin, words};
use super::working::WorkingLayer;

const DEFAULT_LIMIT: usize = 10;
const MAX_LIMIT: usize = 20;
/// So many items before and after a position are read.
const AROUND: u64 = 4;
/// So many of the newest items are searched for what the user said in a turn.
const NEWEST: usize = 200;

#[derive(Deserialize)]
struct SearchArguments {
    query: String,
    limit: Option<f64>,
    #[serde(default)]
    layers: Vec<Layer>,
    #[serde(default)]
    order: Order,
}

/// In which order results are listed.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Order {
    #[default]
    Best,
    Timeline,
}

#[derive(Deserialize)]
struct IdArgument {
    id: String,
}

#[derive(Deserialize)]
struct RememberArguments {
    text: String,
    layer: Option<Layer>,
    supersedes: Option<String>,
}

/// Returns the four tools of a memory.
pub(crate) fn own_tools(
    space: &MemorySpace,
    accept: Accept,
    working: WorkingLayer,
) -> Result<Vec<Tool>, ToolRefused> {
    let search = made(include_str!("templates/memory_search.json"), space, |space, it| async move {
        search(&space, it).await
    })?;
    let read = made(include_str!("templates/memory_read.json"), space, |space, it| async move {
        read(&space, &bare(&argument::<IdArgument>(&it)?.id)).await
    })?;
    let definition = match working {
        WorkingLayer::FreeText => include_str!("templates/remember.json"),
        WorkingLayer::State => include_str!("templates/remember_beside_working.json"),
    };
    let remember =
        made(definition, space, move |space, it| async move { remember(&space, it, accept).await })?;
    let forget = made(include_str!("templates/forget.json"), space, |space, it| async move {
        forget(&space, &bare(&argument::<IdArgument>(&it)?.id)).await
    })?;
    Ok(vec![search, read, remember, forget])
}

/// Returns the tool with the six commands.
pub(crate) fn file_tool(space: &MemorySpace) -> Result<Tool, ToolRefused> {
    let tool = made(include_str!("templates/memory.json"), space, |space, it| async move {
        let answer = space.run_file_command(&it.call.arguments, Some(place(&it))).await?;
        Ok(match answer {
            Ok(text) => json!({"text": text}),
            Err(error) => json!({"error": error}),
        })
    })?;
    // One after the other, as on a disk.
    Ok(tool.alone().to_model_output(|value| match (value["text"].as_str(), value["error"].as_str()) {
        (Some(text), _) => ToolOutput::Text(text.to_owned()),
        (None, Some(error)) => ToolOutput::ErrorText(error.to_owned()),
        (None, None) => ToolOutput::from_value(value.clone()),
    }))
}

fn made<F>(
    definition: &str,
    space: &MemorySpace,
    run: impl Fn(MemorySpace, Invocation) -> F + Send + Sync + 'static,
) -> Result<Tool, ToolRefused>
where
    F: Future<Output = Result<Value, BoxError>> + Send + 'static,
{
    let refused = |err: serde_json::Error| ToolRefused { name: "memory".to_owned(), reason: err.to_string() };
    let definition: ToolDefinition = serde_json::from_str(definition).map_err(refused)?;
    let (space, run) = (space.clone(), Arc::new(run));
    Ok(Tool::unchecked(definition, move |invocation| {
        let (space, run) = (space.clone(), Arc::clone(&run));
        async move {
            // What the tool shows or is told is in the log of this session.
            space.show_in(&invocation.thread.session()).await?;
            run(space, invocation).await
        }
    }))
}

fn argument<T: serde::de::DeserializeOwned>(invocation: &Invocation) -> Result<T, BoxError> {
    Ok(T::deserialize(&invocation.call.arguments)?)
}

/// Models write an id as they read it, in brackets.
fn bare(id: &str) -> String {
    id.trim().trim_start_matches('[').trim_end_matches(']').to_owned()
}

fn place(invocation: &Invocation) -> Provenance {
    Provenance {
        thread: Some(invocation.thread.to_string()),
        turn: Some(invocation.turn.to_string()),
        ..Provenance::default()
    }
}

async fn search(space: &MemorySpace, invocation: Invocation) -> Result<Value, BoxError> {
    let SearchArguments { query, limit, layers, order } = argument(&invocation)?;
    // Models also write integers as `5.0`; the schema bounds the number.
    let limit = limit.map_or(DEFAULT_LIMIT, |it| it as usize).clamp(1, MAX_LIMIT);
    let request = SearchRequest { layers, ..SearchRequest::new(query.as_str(), limit) };
    let mut hits = space.search(&request).await?;
    if order == Order::Timeline {
        hits.sort_by_key(|it| it.at);
    }
    if hits.is_empty() {
        return Ok(words("nothing", &[("query", &query)]).into());
    }
    let line =
        |hit: &MemoryHit| words("found", &[("id", &hit.id), ("text", &hit.text), ("from", &origin(hit))]);
    Ok(hits.iter().map(line).collect::<Vec<_>>().join("\n").into())
}

async fn read(space: &MemorySpace, id: &str) -> Result<Value, BoxError> {
    let place = id.rsplit_once(':').and_then(|(it, seq)| Some((it, seq.parse().ok()?)));
    if let Some((thread, seq)) = place
        && let Some(text) = around(space, thread, seq).await?
    {
        return Ok(text.into());
    }
    let history = match space.history(id).await {
        Err(MemoryError::NotFound { .. }) => return Err(words("unknown", &[("id", id)]).into()),
        history => history?,
    };
    let line = |it: &Record| {
        let from = it
            .provenance
            .iter()
            .find_map(|it| Some(format!("{} {}", it.thread.as_ref()?, it.turn.as_ref()?)));
        let from = from.unwrap_or_else(|| it.layer.as_str().to_owned());
        let version = it.version.to_string();
        words("record", &[("id", &it.id), ("text", &it.text), ("from", &from), ("version", &version)])
    };
    Ok(history.iter().rev().map(line).collect::<Vec<_>>().join("\n").into())
}

/// Returns what was said around a position of a thread of this namespace.
async fn around(space: &MemorySpace, thread: &str, seq: u64) -> Result<Option<String>, BoxError> {
    // A thread that was not captured here is not for this memory to read.
    if space.documents(vec![Kind::Cursor.id(thread)?]).await?.is_empty() {
        return Ok(None);
    }
    let gone = super::tombstones::Tombstones::of(space).await?;
    let key = ThreadKey { tenant: space.tenant().clone(), thread: ThreadId::parse(thread)? };
    let from = Seq(seq.saturating_sub(AROUND + 1));
    let span = Span::After { seq: from, max: usize::try_from(2 * AROUND + 1).unwrap_or(usize::MAX) };
    let items = space.ports().log.read(key, span).await?;
    let said = items.iter().filter_map(utterance).filter(|it| {
        !gone.covers_turn(thread, &it.said.turn, it.said.at) && !gone.covers_part(&it.text, it.said.at)
    });
    let lines = said.map(|it| {
        format!("[{thread}:{}] {} {}: {}", it.said.seq, it.said.turn, it.said.role.as_str(), it.text)
    });
    let lines: Vec<String> = lines.collect();
    Ok((!lines.is_empty()).then(|| lines.join("\n")))
}

async fn remember(space: &MemorySpace, invocation: Invocation, accept: Accept) -> Result<Value, BoxError> {
    let RememberArguments { text, layer, supersedes } = argument(&invocation)?;
    let layer = layer.unwrap_or(Layer::Facts);
    let is_quoted = is_said(space, &invocation.thread, invocation.turn, &text).await?;
    let status = match (layer, is_quoted) {
        (Layer::Working, _) | (_, true) => Status::Accepted,
        // A rule that the user did not state may come from a tool's text.
        (Layer::Rules, false) => Status::Proposed,
        _ => accept.status(),
    };
    let new = NewRecord {
        status,
        author: Author::Model,
        trust: if is_quoted { Trust::Stated } else { Trust::Derived },
        provenance: vec![place(&invocation)],
        key: Some(format!("{}/{}/{}", invocation.thread, invocation.turn, invocation.call.id)),
        ..NewRecord::new(layer, text.trim())
    };
    let record = match supersedes.map(|it| bare(&it)).filter(|_| status == Status::Accepted) {
        Some(old) => space.supersede(&old, None, new).await?,
        None => space.add(new).await?,
    };
    let key = if record.status == Status::Accepted { "remembered" } else { "proposed" };
    Ok(words(key, &[("id", &record.id)]).into())
}

/// Whether the user said these words in a turn.
async fn is_said(
    space: &MemorySpace,
    thread: &ThreadId,
    turn: TurnNo,
    text: &str,
) -> Result<bool, MemoryError> {
    let key = ThreadKey { tenant: space.tenant().clone(), thread: thread.clone() };
    let items = space.ports().log.read(key, Span::NewestItems { count: NEWEST, client: false }).await?;
    let words = normal(text);
    let words = words.trim_end_matches(['.', '!']);
    let is_user = |it: &super::episodes::Utterance| it.said.role == Role::User;
    let mut said = items.iter().filter(|it| it.turn == turn).filter_map(utterance).filter(is_user);
    Ok(!words.is_empty() && said.any(|it| holds(&normal(&it.text), words)))
}

async fn forget(space: &MemorySpace, id: &str) -> Result<Value, BoxError> {
    let what = match space.get(id).await? {
        Some(_) => Forget::Record(id.to_owned()),
        None => match turn_at(space, id).await? {
            Some((thread, turn)) => Forget::Turn { thread, turn },
            None => return Err(words("unknown", &[("id", id)]).into()),
        },
    };
    let receipt = space.forget(&what, ForgetOptions { keep_turns: true, ..ForgetOptions::default() }).await?;
    let (records, messages) = (receipt.records.len().to_string(), receipt.messages.to_string());
    Ok(words("forgotten", &[("records", &records), ("messages", &messages)]).into())
}

/// Returns the turn of a position of a thread of this namespace, `THREAD:POSITION`.
async fn turn_at(space: &MemorySpace, id: &str) -> Result<Option<(String, String)>, BoxError> {
    let place = id.rsplit_once(':').and_then(|(it, seq)| Some((it, seq.parse::<u64>().ok()?)));
    let Some((thread, seq)) = place else { return Ok(None) };
    if space.documents(vec![Kind::Cursor.id(thread)?]).await?.is_empty() {
        return Ok(None);
    }
    let key = ThreadKey { tenant: space.tenant().clone(), thread: ThreadId::parse(thread)? };
    let span = Span::After { seq: Seq(seq.saturating_sub(1)), max: 1 };
    let item = space.ports().log.read(key, span).await?.pop();
    Ok(item.map(|it| (thread.to_owned(), it.turn.to_string())))
}
