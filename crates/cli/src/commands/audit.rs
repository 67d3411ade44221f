//! `audit`: shows the audit log of the server.

use contexture_server::{AuditEntry, audit_log};
use serde_json::{Value, json};

use crate::args::{AuditArgs, Globals, StoreArgs};
use crate::error::Failure;
use crate::output::Reply;
use crate::setup::runtime;
use crate::setup::store::{Missing, open_store, place};
use crate::terminal::Screen;
use crate::terminal::paint::{BOLD, DIM};
use crate::terminal::table::{Align, Cell, Table};

pub(super) fn run(args: &AuditArgs, globals: &Globals, screen: Screen) -> Result<Reply, Failure> {
    let place = place(&StoreArgs { store: args.store.clone(), tenant: String::new() }, globals)?;
    let acts = runtime::block_on(async {
        let store = open_store(&place, Missing::Refuse).await?;
        Ok::<_, Failure>(audit_log(&store, None, args.limit).await?)
    })??;
    if globals.json {
        return Ok(Reply::json(acts.iter().map(document).collect()));
    }
    match acts.is_empty() {
        true => Ok(Reply::styled("Nothing was done yet.")),
        false => Ok(Reply::styled(page(&acts, screen))),
    }
}

fn document(entry: &AuditEntry) -> Value {
    let mut document = json!(entry.act);
    document["number"] = entry.number.into();
    document["time"] = entry.at.to_millis().into();
    document
}

fn page(acts: &[AuditEntry], screen: Screen) -> String {
    let mut table = Table::new(&[
        ("time", Align::Left),
        ("actor", Align::Left),
        ("act", Align::Left),
        ("tenant", Align::Left),
        ("target", Align::Left),
    ]);
    for entry in acts {
        let act = &entry.act;
        table.row(vec![
            Cell::new(entry.at.to_seconds()).style(DIM),
            Cell::new(act.actor.as_str()),
            Cell::new(act.act.as_str()).style(BOLD),
            Cell::new(act.tenant.as_ref().map(ToString::to_string).unwrap_or_default()),
            Cell::new(act.target.as_str()),
        ]);
    }
    table.lines(0, screen.width).join("\n")
}
