//! `memory`: looks after what agents remember.

use std::sync::Arc;

use contexture::SystemTime;
use contexture::capabilities::memory::{
    Finding, Forget, ForgetOptions, Layer, Memories, MemoryError, MemoryHit, MemoryPorts, MemorySpace,
    Namespace, NewRecord, Receipt, Record, RecordFilter, SearchRequest, Status,
};
use contexture_message::ErrorCode;
use contexture_session::Tenant;
use serde_json::{Value, json};

use crate::args::{Globals, LayerName, MemoryArgs, MemoryCommand};
use crate::error::Failure;
use crate::output::Reply;
use crate::setup::store::{self, Missing, Opened, Place, open_all};
use crate::setup::{root, runtime};
use crate::terminal::Screen;
use crate::terminal::paint::{BOLD, DIM, cut, one_line, paint, visible};
use crate::terminal::table::{Align, Cell, Table};

pub(super) fn run(args: &MemoryArgs, globals: &Globals, screen: Screen) -> Result<Reply, Failure> {
    let tenant = Tenant::parse(args.tenant.as_str())?;
    let (project, dir) = root::open_or_empty(globals)?;
    let place = match &args.store {
        Some(url) => store::parse(url, &root::here()?)?,
        None => store::parse(&project.config().store.url, &dir)?,
    };
    let is_write = matches!(args.command, MemoryCommand::Add { .. } | MemoryCommand::Import { .. });
    if place == Place::Memory && is_write {
        let failure = Failure::usage("a store in memory is gone when this program ends");
        return Err(failure.hint("`--store URL` names another store"));
    }
    let namespace =
        Namespace { user: args.user.clone(), agent: args.agent.clone(), custom: args.custom.clone() };
    runtime::block_on(async {
        let missing = if is_write { Missing::Create } else { Missing::Refuse };
        let Opened { store, sources, .. } = open_all(&place, missing).await?;
        let memories = Memories::new(MemoryPorts { index: sources, log: store, time: Arc::new(SystemTime) });
        if namespace == Namespace::default() && matches!(args.command, MemoryCommand::List { .. }) {
            return namespaces(&memories, &tenant, globals.json).await;
        }
        let space = memories.space(&tenant, namespace)?;
        let shown = Shown { as_json: globals.json, columns: screen.width };
        dispatch(&args.command, &space, shown).await
    })?
}

/// How replies are written.
#[derive(Clone, Copy)]
struct Shown {
    as_json: bool,
    columns: usize,
}

async fn dispatch(command: &MemoryCommand, space: &MemorySpace, shown: Shown) -> Result<Reply, Failure> {
    match command {
        MemoryCommand::List { layer, proposed, past } => {
            let status = proposed.then_some(Status::Proposed);
            let filter =
                RecordFilter { layer: layer.map(Layer::from), status, as_of: None, with_past: *past };
            Ok(list(&space.list(&filter).await?, shown))
        }
        MemoryCommand::Add { text, layer } => {
            Ok(one(&space.add(NewRecord::new(Layer::from(*layer), text.as_str())).await?, shown))
        }
        MemoryCommand::Search { query, limit } => {
            let hits = space.search(&SearchRequest::new(query.as_str(), *limit as usize)).await?;
            Ok(found(&hits, shown))
        }
        MemoryCommand::Show { id } => {
            let record = space.get(id).await?.ok_or_else(|| MemoryError::NotFound { id: id.clone() })?;
            Ok(one(&record, shown))
        }
        MemoryCommand::History { id } => Ok(list(&space.history(id).await?, shown)),
        MemoryCommand::Approve { id } => Ok(one(&space.decide(id, Status::Accepted, None).await?, shown)),
        MemoryCommand::Reject { id } => Ok(one(&space.decide(id, Status::Rejected, None).await?, shown)),
        MemoryCommand::Forget { dry_run, keep_bytes, keep_turns, .. } => {
            let (erase, keep_turns) = (!keep_bytes && !dry_run, *keep_turns);
            let options = ForgetOptions { dry_run: *dry_run, erase, keep_turns };
            Ok(forgotten(&space.forget(&target(command)?, options).await?, shown))
        }
        MemoryCommand::Audit => Ok(audit(&space.audit().await?, shown)),
        MemoryCommand::Export => Ok(Reply::verbatim(space.export().await?)),
        MemoryCommand::Import { file, source } => import(space, file, source.as_deref(), shown).await,
        MemoryCommand::CatchUp => {
            let captured = space.catch_up().await?;
            if shown.as_json {
                return Ok(Reply::json(json!(captured)));
            }
            let (records, messages) = (captured.records, captured.messages);
            Ok(Reply::styled(format!("Captured {records} records and {messages} messages.")))
        }
    }
}

impl From<LayerName> for Layer {
    fn from(name: LayerName) -> Self {
        match name {
            LayerName::Rules => Layer::Rules,
            LayerName::Facts => Layer::Facts,
            LayerName::Digests => Layer::Digests,
            LayerName::Procedures => Layer::Procedures,
            LayerName::Working => Layer::Working,
        }
    }
}

impl From<MemoryError> for Failure {
    fn from(err: MemoryError) -> Self {
        let code = err.code();
        match err {
            MemoryError::Store(err) => err.into(),
            MemoryError::NotFound { .. } => {
                let failure = Failure::new(code, err.to_string());
                failure.hint(
                    "`contexture memory list` shows what there is; `--user` and `--agent` name whose memory",
                )
            }
            other => Failure::new(code, other.to_string()),
        }
    }
}

/// Returns what to forget.
fn target(command: &MemoryCommand) -> Result<Forget, Failure> {
    let MemoryCommand::Forget { id, turn, session, source, everything, .. } = command else {
        return Err(Failure::usage("nothing was named"));
    };
    Ok(match (id, turn, session, source) {
        (Some(id), ..) => Forget::Record(id.clone()),
        (_, Some(turn), ..) => {
            let parts = turn.rsplit_once(':').ok_or_else(|| {
                Failure::usage(format!("`{turn}` does not name a turn"))
                    .hint("write `THREAD:TURN`, such as `demo:t7`")
            })?;
            Forget::Turn { thread: parts.0.to_owned(), turn: parts.1.to_owned() }
        }
        (_, _, Some(session), _) => Forget::Session(session.clone()),
        (.., Some(source)) => Forget::Source(source.clone()),
        _ if *everything => Forget::Everything,
        _ => return Err(Failure::usage("nothing was named")),
    })
}

async fn namespaces(memories: &Memories, tenant: &Tenant, as_json: bool) -> Result<Reply, Failure> {
    let found = memories.namespaces(tenant).await?;
    if as_json {
        return Ok(Reply::json(json!(found)));
    }
    if found.is_empty() {
        return Ok(Reply::styled("Nothing is remembered."));
    }
    let lines: Vec<String> =
        found.iter().map(|it| visible(&one_line(&it.to_string())).into_owned()).collect();
    Ok(Reply::styled(lines.join("\n")).note("`--user`, `--agent` and `--custom` name one of them"))
}

fn list(records: &[Record], shown: Shown) -> Reply {
    if shown.as_json {
        return Reply::json(json!(records));
    }
    if records.is_empty() {
        return Reply::styled("Nothing is remembered.");
    }
    let headings = [
        ("id", Align::Left),
        ("layer", Align::Left),
        ("status", Align::Left),
        ("version", Align::Right),
        ("uses", Align::Right),
        ("text", Align::Left),
    ];
    let mut table = Table::new(&headings);
    for record in records {
        table.row(vec![
            Cell::new(&record.id).style(BOLD),
            Cell::new(record.layer.as_str()),
            Cell::new(status(record)),
            Cell::new(record.version.to_string()),
            Cell::new(record.uses.to_string()),
            Cell::new(one_line(&record.text)),
        ]);
    }
    Reply::styled(table.lines(0, shown.columns).join("\n"))
}

fn status(record: &Record) -> &'static str {
    match record.status {
        Status::Proposed => "proposed",
        Status::Accepted if record.superseded_by.is_some() => "superseded",
        Status::Accepted => "accepted",
        Status::Rejected => "rejected",
    }
}

fn one(record: &Record, shown: Shown) -> Reply {
    if shown.as_json {
        return Reply::json(json!(record));
    }
    let head = format!(
        "{}  {}, {}, version {}, used {} times",
        record.id,
        record.layer.as_str(),
        status(record),
        record.version,
        record.uses
    );
    let from = record.provenance.iter().filter_map(|it| {
        let turn =
            it.thread.as_ref().map(|thread| format!("{thread} {}", it.turn.as_deref().unwrap_or_default()));
        turn.or_else(|| it.source.clone()).or_else(|| it.record.clone())
    });
    let from: Vec<String> = from.collect();
    let mut lines = vec![paint(BOLD, &visible(&head)), visible(record.text.trim_end()).into_owned()];
    if !from.is_empty() {
        lines.push(paint(DIM, &visible(&one_line(&format!("from {}", from.join(", "))))));
    }
    Reply::styled(lines.join("\n"))
}

fn found(hits: &[MemoryHit], shown: Shown) -> Reply {
    if shown.as_json {
        return Reply::json(json!({"hits": hits}));
    }
    if hits.is_empty() {
        return Reply::styled("Nothing was found.");
    }
    let page = |(idx, hit): (usize, &MemoryHit)| {
        let head = format!("{}. {:.3}  {}  {}", idx + 1, hit.score, hit.id, hit.layer.as_str());
        let text = cut(&one_line(&hit.text), shown.columns.saturating_sub(3) * 2);
        format!("{}\n   {}", paint(BOLD, &visible(&one_line(&head))), visible(&text))
    };
    Reply::styled(hits.iter().enumerate().map(page).collect::<Vec<_>>().join("\n\n"))
}

fn forgotten(receipt: &Receipt, shown: Shown) -> Reply {
    if shown.as_json {
        return Reply::json(json!(receipt));
    }
    let Receipt { records, versions, messages, tombstones, dry_run, erased, id, .. } = receipt;
    let verb = if *dry_run { "Would forget" } else { "Forgot" };
    let text = format!(
        "{verb} {} records with {versions} earlier versions, and {messages} messages of the index.",
        records.len()
    );
    let reply = Reply::styled(text);
    match (dry_run, erased) {
        (true, _) => reply,
        (false, true) => reply.note(format!("receipt {id}: {tombstones} tombstones, and the bytes are gone")),
        (false, false) => reply.note(format!("receipt {id}: {tombstones} tombstones")),
    }
}

fn audit(findings: &[Finding], shown: Shown) -> Reply {
    if shown.as_json {
        return Reply::json(json!({"findings": findings}));
    }
    if findings.is_empty() {
        return Reply::styled("Nothing to look at.");
    }
    let mut table = Table::new(&[("concern", Align::Left), ("record", Align::Left), ("other", Align::Left)]);
    for finding in findings {
        let concern = json!(finding.concern);
        let other = finding.other.as_deref().unwrap_or_default();
        table.row(vec![
            Cell::new(concern.as_str().unwrap_or_default()).style(BOLD),
            Cell::new(&finding.record),
            Cell::new(other),
        ]);
    }
    Reply::styled(table.lines(0, shown.columns).join("\n"))
}

async fn import(
    space: &MemorySpace,
    file: &std::path::Path,
    source: Option<&str>,
    shown: Shown,
) -> Result<Reply, Failure> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file)
        .map_err(|err| Failure::new(ErrorCode::FileInvalid, format!("`{name}`: {err}")).at(name.clone()))?;
    let stem = file.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
    let imported = space.import(&text, source.unwrap_or(&stem)).await?;
    if shown.as_json {
        let value: Value = json!(imported);
        return Ok(Reply::json(value));
    }
    Ok(Reply::styled(format!("Added {} records, {} were known.", imported.added, imported.known)))
}
