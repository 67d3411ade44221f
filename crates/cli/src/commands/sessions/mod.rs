//! `sessions`: inspects and maintains the sessions of a store.

pub(super) mod archives;
mod artifacts;
mod event;
pub(super) mod list;
pub(super) mod show;
mod transfer;
mod upkeep;

use std::sync::Arc;

use contexture::SystemTime;
use contexture::capabilities::memory::{Memories, MemoryPorts};
use contexture_history::TurnNo;
use contexture_session::{SessionId, SessionKey, Sessions, Tenant, Thread};

use crate::args::{Globals, SessionsArgs, SessionsCommand};
use crate::error::Failure;
use crate::output::Reply;
use crate::setup::store::{Missing, Opened, Place, open_all, place};
use crate::setup::{root, runtime};
use crate::stage::session_config;
use crate::terminal::Screen;

pub(super) fn run(args: &SessionsArgs, globals: &Globals, screen: Screen) -> Result<Reply, Failure> {
    if let SessionsCommand::Recover { damaged, into } = &args.command {
        return upkeep::recover(damaged, into, globals.json);
    }
    let tenant = Tenant::parse(args.store.tenant.as_str())?;
    let place = place(&args.store, globals)?;
    runtime::block_on(async {
        let missing = match args.command {
            SessionsCommand::Import { .. } => Missing::Create,
            _ => Missing::Refuse,
        };
        let Opened { store, sources, .. } = open_all(&place, missing).await?;
        let (log, time) = (Arc::clone(&store), Arc::new(SystemTime));
        let memories = Memories::new(MemoryPorts { index: sources, log, time });
        let sessions =
            Sessions::new(store, contexture::session_ports(None), session_config(&root::config(globals)?.0));
        dispatch(&args.command, (&sessions.of_tenant(tenant), &memories), &place, globals, screen).await
    })?
}

async fn dispatch(
    command: &SessionsCommand,
    (sessions, memories): (&Sessions, &Memories),
    place: &Place,
    globals: &Globals,
    screen: Screen,
) -> Result<Reply, Failure> {
    let as_json = globals.json;
    match command {
        SessionsCommand::List { limit } => list::run(sessions, *limit, as_json, screen).await,
        SessionsCommand::Show(args) => show::run(sessions, args, as_json, screen).await,
        SessionsCommand::Archives(args) => archives::run(sessions, args, as_json, screen).await,
        SessionsCommand::Artifacts(args) => artifacts::run(sessions, &args.command, as_json, screen).await,
        SessionsCommand::Event(args) => event::run(sessions, args, as_json).await,
        SessionsCommand::Refresh { id, thread } => {
            upkeep::refresh(sessions, id, thread.as_deref(), globals).await
        }
        SessionsCommand::Export { id, out, .. } => {
            transfer::export(sessions, id.as_deref(), out.as_deref(), as_json).await
        }
        SessionsCommand::Import { file, rename } => {
            transfer::import(sessions, file, rename.as_deref(), as_json).await
        }
        SessionsCommand::Fork { id, at, rename, label } => {
            let start = transfer::start(rename.as_deref(), label.as_deref())?;
            transfer::fork(sessions, &session_id(id)?, at.as_deref(), start, as_json).await
        }
        SessionsCommand::Delete { ids, yes } => upkeep::delete(sessions, memories, ids, *yes, as_json).await,
        SessionsCommand::Usage => upkeep::usage(sessions, as_json, screen).await,
        SessionsCommand::Vacuum => upkeep::vacuum(sessions, place, as_json).await,
        SessionsCommand::Recover { damaged, into } => upkeep::recover(damaged, into, as_json),
    }
}

fn session_id(text: &str) -> Result<SessionId, Failure> {
    Ok(SessionId::parse(text)?)
}

/// Opens a thread of an existing session: the main one, or one by name.
pub(super) async fn open_thread(
    sessions: &Sessions,
    id: &str,
    thread: Option<&str>,
) -> Result<Thread, Failure> {
    let key = SessionKey { tenant: sessions.tenant().clone(), session: session_id(id)? };
    let threads = sessions.store().threads(key.clone()).await?;
    let thread = show::thread(&threads, &key.session, thread)?;
    Ok(sessions.open_thread(&thread).await?)
}

/// Formats a range of turns.
pub(super) fn spanned((first, last): (TurnNo, TurnNo)) -> String {
    if first == last { first.to_string() } else { format!("{first}..{last}") }
}
