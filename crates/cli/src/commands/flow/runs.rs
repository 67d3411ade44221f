//! `flow runs`: lists runs.

use contexture_flow::{RunList, RunPage, RunStatus};
use contexture_session::SessionId;
use serde_json::{Value, json};

use super::setup::DriveSetup;
use crate::args::{FlowRunsArgs, Globals, StatusName};
use crate::error::Failure;
use crate::output::Reply;
use crate::setup::runtime;
use crate::setup::store::Missing;
use crate::terminal::paint::{BOLD, DIM};
use crate::terminal::table::{Align, Cell, Table};

pub(super) fn run(args: &FlowRunsArgs, globals: &Globals) -> Result<Reply, Failure> {
    let work = async {
        let setup = DriveSetup::open(&args.store, Missing::Refuse, globals).await?;
        let list = RunList {
            session: args.session.as_deref().map(SessionId::parse).transpose()?,
            flow: args.flow.clone(),
            status: args.status.map(status),
            after: None,
            max: args.limit,
        };
        let found = setup.runtime.list(&list).await?;
        Ok(match globals.json {
            true => Reply::json(document(&found)),
            false if found.runs.is_empty() && found.damaged.is_empty() => Reply::styled("There are no runs."),
            false => Reply::styled(page(&found)),
        })
    };
    runtime::block_on(work)?
}

fn status(name: StatusName) -> RunStatus {
    match name {
        StatusName::Running => RunStatus::Running,
        StatusName::Waiting => RunStatus::Waiting,
        StatusName::Completed => RunStatus::Completed,
        StatusName::Failed => RunStatus::Failed,
        StatusName::Cancelled => RunStatus::Cancelled,
    }
}

fn document(found: &RunPage) -> Value {
    found.runs.iter().map(|it| json!(it)).chain(found.damaged.iter().map(|it| json!(it))).collect()
}

fn page(found: &RunPage) -> String {
    // The run id is the last column, which is never cut, so that it can be copied.
    let columns = ["flow", "status", "updated", "run"].map(|it| (it, Align::Left));
    let mut table = Table::new(&columns);
    for info in &found.runs {
        let status = match &info.node {
            Some(node) => format!("{} at {node}", info.status.as_str()),
            None => info.status.as_str().to_owned(),
        };
        table.row(vec![
            Cell::new(info.flow.as_str()),
            Cell::new(status),
            Cell::new(info.updated.to_seconds()).style(DIM),
            Cell::new(info.run.to_string()).style(BOLD),
        ]);
    }
    for it in &found.damaged {
        table.row(vec![
            Cell::new(""),
            Cell::new("damaged"),
            Cell::new(""),
            Cell::new(it.run.to_string()).style(BOLD),
        ]);
    }
    table.lines(0, usize::MAX).join("\n")
}
