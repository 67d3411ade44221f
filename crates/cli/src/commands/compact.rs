//! `compact`: summarises the older turns of a session now, or undoes the newest summary.

use contexture_agent::{CancellationToken, CompactRequest, CompactionReport};
use contexture_history::Archived;
use contexture_message::ErrorCode;
use contexture_session::{SessionId, Sessions, Tenant, Thread};
use serde_json::json;

use super::sessions::{open_thread, spanned};
use crate::args::{CompactArgs, Globals, StoreArgs, TalkArgs};
use crate::error::Failure;
use crate::live::compaction_line;
use crate::output::{self, Reply};
use crate::setup::store::{Missing, open_store, place};
use crate::setup::{root, runtime};
use crate::stage::{Stage, session_config};
use crate::terminal::paint::one_line;

pub(super) fn run(args: CompactArgs, globals: &Globals) -> Result<Reply, Failure> {
    if args.undo {
        return runtime::block_on(taken_back(&args, globals))?;
    }
    let CompactArgs { id, prompt, thread, input, model, store, scope, .. } = args;
    let session = SessionId::parse(id.as_str())?;
    let talk = TalkArgs {
        strict: false,
        input,
        model,
        max_tokens: None,
        temperature: None,
        thinking: false,
        skills: Vec::new(),
        yes: false,
        session: Some(id.clone()),
        store,
        scope,
    };
    let stage = Stage::open(prompt.as_deref(), &talk, globals).map_err(|err| match err.code() {
        ErrorCode::Usage if prompt.is_none() => {
            err.hint("name it: `--prompt ID`; `contexture prompts` lists them")
        }
        _ => err,
    })?;
    let place = stage.place(&talk)?;
    runtime::block_on(async {
        let sessions = stage.sessions(&place, talk.scope.tenant.as_deref(), Missing::Refuse).await?;
        let thread = open_thread(&sessions, &id, thread.as_deref()).await?;
        let report = compacted(&stage, &thread, &session).await?;
        Ok(reply(&report, globals.json))
    })?
}

async fn taken_back(args: &CompactArgs, globals: &Globals) -> Result<Reply, Failure> {
    let tenant = args.scope.tenant.as_deref().map(Tenant::parse).transpose()?.unwrap_or_default();
    let of_store = StoreArgs { store: args.store.clone(), tenant: tenant.to_string() };
    let store = open_store(&place(&of_store, globals)?, Missing::Refuse).await?;
    let sessions =
        Sessions::new(store, contexture::session_ports(None), session_config(&root::config(globals)?.0));
    let thread = open_thread(&sessions.of_tenant(tenant), &args.id, args.thread.as_deref()).await?;
    undone(&thread, globals.json).await
}

/// Summarises the older turns of a thread. Ctrl-C cancels it and changes nothing.
pub(super) async fn compacted(
    stage: &Stage,
    thread: &Thread,
    session: &SessionId,
) -> Result<CompactionReport, Failure> {
    stage.check(Some(thread))?;
    output::aside("compacting …");
    let cancel = CancellationToken::new();
    let request = CompactRequest { cancel: cancel.clone(), ..stage.compact_request(session) };
    let mut work = std::pin::pin!(stage.agent.compact(&stage.prompt, thread, request));
    let report = loop {
        tokio::select! {
            report = &mut work => break report,
            Ok(()) = tokio::signal::ctrl_c(), if !cancel.is_cancelled() => cancel.cancel(),
        }
    };
    report.map_err(|err| match err.is_cancelled() {
        true => Failure::from(err).hint("nothing is changed"),
        false => stage.failure(err),
    })
}

/// Formats the result of a compaction. Having nothing to do is not an error.
pub(super) fn reply(report: &CompactionReport, as_json: bool) -> Reply {
    match as_json {
        true => Reply::json(json!(report)),
        false => Reply::styled(one_line(&compaction_line(report))),
    }
}

/// Undoes the newest archive of a thread.
pub(super) async fn undone(thread: &Thread, as_json: bool) -> Result<Reply, Failure> {
    let undone = thread.undo().await?;
    if as_json {
        let undone = undone.map(|it| {
            json!({"archive": it.name(), "turns": [it.turns.0.to_string(), it.turns.1.to_string()], "first": it.first, "last": it.last})
        });
        return Ok(Reply::json(json!({ "undone": undone })));
    }
    Ok(Reply::styled(match undone {
        None => "There is no archive that could be taken back.".to_owned(),
        Some(it) => {
            let Archived { first, last, .. } = it;
            format!(
                "archive {} is undone: {} (items {first} to {last}) is read again as it was",
                it.name(),
                spanned(it.turns)
            )
        }
    }))
}
