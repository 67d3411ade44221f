//! `keys`: manages the API keys of a server.

use contexture::{SystemSecrets, SystemTime};
use contexture_history::Timestamp;
use contexture_message::ErrorCode;
use contexture_server::{Key, Keys, NewKey};
use contexture_session::{Tenant, Time};
use serde_json::{Value, json};

use crate::args::{Globals, KeysArgs, KeysCommand, NewKeyArgs, StoreArgs};
use crate::error::Failure;
use crate::output::Reply;
use crate::setup::runtime;
use crate::setup::store::{Missing, Opened, open_all, place};
use crate::terminal::Screen;
use crate::terminal::paint::{BOLD, DIM, GREEN, paint};
use crate::terminal::table::{Align, Cell, Table};

/// The actor in the audit log.
const ACTOR: &str = "cli";
const DAY_MS: i64 = 24 * 3600 * 1000;

pub(super) fn run(args: &KeysArgs, globals: &Globals, screen: Screen) -> Result<Reply, Failure> {
    let place = place(&StoreArgs { store: args.store.clone(), tenant: String::new() }, globals)?;
    let missing = match args.command {
        // Keys may be created before the first start of a server.
        KeysCommand::Create(_) => Missing::Create,
        KeysCommand::List | KeysCommand::Revoke { .. } => Missing::Refuse,
    };
    runtime::block_on(async {
        let Opened { store, documents, .. } = open_all(&place, missing).await?;
        let keys = Keys::new(store, documents);
        match &args.command {
            KeysCommand::Create(new) => create(&keys, new, globals.json).await,
            KeysCommand::List => list(&keys, globals.json, screen).await,
            KeysCommand::Revoke { ids } => revoke(&keys, ids, globals.json).await,
        }
    })?
}

async fn create(keys: &Keys, args: &NewKeyArgs, as_json: bool) -> Result<Reply, Failure> {
    let now = SystemTime.now();
    let expires = args.expires_days.map(|it| Timestamp(now.0.saturating_add(i64::from(it) * DAY_MS)));
    let new = NewKey {
        tenant: Tenant::parse(args.tenant.as_str())?,
        label: args.label.clone(),
        expires,
        requests_per_minute: args.requests_per_minute,
        concurrent: args.concurrent,
        admin: args.admin,
    };
    let (key, token) = keys.create(new, &SystemSecrets, ACTOR, now).await?;
    if as_json {
        let mut document = document(&key, now);
        document["token"] = token.reveal().into();
        return Ok(Reply::json(document));
    }
    let note = format!("this is the only time that key `{}` is shown: keep it safe", key.id);
    Ok(Reply::verbatim(token.reveal()).note(note))
}

async fn list(keys: &Keys, as_json: bool, screen: Screen) -> Result<Reply, Failure> {
    let (keys, now) = (keys.list().await?, SystemTime.now());
    if as_json {
        return Ok(Reply::json(keys.iter().map(|it| document(it, now)).collect()));
    }
    match keys.is_empty() {
        true => Ok(Reply::styled("There are no keys.")),
        false => Ok(Reply::styled(page(&keys, now, screen))),
    }
}

async fn revoke(keys: &Keys, ids: &[String], as_json: bool) -> Result<Reply, Failure> {
    let missing = keys.missing(ids).await?;
    // All keys must exist, or none is revoked.
    if let Some(id) = missing.first() {
        // Truncated, so that a complete key given by mistake does not appear in the error.
        let id: String = id.chars().take(20).collect();
        return Err(Failure::new(ErrorCode::NotFound, format!("there is no key `{id}`"))
            .hint("`contexture keys list` shows what there is; an id is what follows `ctx_`"));
    }
    for id in ids {
        keys.revoke(id, ACTOR, SystemTime.now()).await?;
    }
    if as_json {
        return Ok(Reply::json(json!({"revoked": ids})));
    }
    let lines = ids.iter().map(|it| format!("{} {it}", paint(GREEN, "revoked")));
    Ok(Reply::styled(lines.collect::<Vec<_>>().join("\n")))
}

fn state(key: &Key, now: Timestamp) -> &'static str {
    match (key.revoked, key.expires) {
        (Some(_), _) => "revoked",
        (None, Some(at)) if at <= now => "expired",
        _ => "active",
    }
}

fn document(key: &Key, now: Timestamp) -> Value {
    let Key { id, tenant, label, created, expires, revoked, requests_per_minute, concurrent, admin } = key;
    json!({
        "id": id, "tenant": tenant, "label": label, "state": state(key, now), "admin": admin,
        "created": created.to_seconds(), "expires": expires.map(|it| it.to_seconds()),
        "revoked": revoked.map(|it| it.to_seconds()),
        "requests_per_minute": requests_per_minute, "concurrent": concurrent,
    })
}

fn page(keys: &[Key], now: Timestamp, screen: Screen) -> String {
    let mut table = Table::new(&[
        ("id", Align::Left),
        ("tenant", Align::Left),
        ("state", Align::Left),
        ("created", Align::Left),
        ("expires", Align::Left),
        ("label", Align::Left),
    ]);
    for key in keys {
        let state =
            if key.admin { format!("{}, admin", state(key, now)) } else { state(key, now).to_owned() };
        table.row(vec![
            Cell::new(key.id.as_str()).style(BOLD),
            Cell::new(key.tenant.as_str()),
            Cell::new(state),
            Cell::new(key.created.to_seconds()).style(DIM),
            Cell::new(key.expires.map(|it| it.to_seconds()).unwrap_or_default()).style(DIM),
            Cell::new(key.label.as_deref().unwrap_or_default()),
        ]);
    }
    table.lines(0, screen.width).join("\n")
}
