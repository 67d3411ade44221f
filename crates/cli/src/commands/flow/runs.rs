//! `flow runs`.

use contexture_flow::{RunInfo, RunList, RunStatus};
use contexture_session::SessionId;
use serde_json::json;

use super::desk::Desk;
use crate::args::{FlowRunsArgs, Globals, StatusName};
use crate::error::Failure;
use crate::output::Reply;
use crate::paint::{BOLD, DIM};
use crate::runtime;
use crate::store::Missing;
use crate::table::{Align, Cell, Table};

pub(super) fn run(args: &FlowRunsArgs, globals: &Globals) -> Result<Reply, Failure> {
    let work = async {
        let desk = Desk::open(&args.store, Missing::Refuse, globals).await?;
        let list = RunList {
            session: args.session.as_deref().map(SessionId::parse).transpose()?,
            flow: args.flow.clone(),
            status: args.status.map(status),
            after: None,
            max: args.limit,
        };
        let runs = desk.runtime.list(&list).await?;
        Ok(match globals.json {
            true => Reply::json(json!(runs)),
            false if runs.is_empty() => Reply::styled("There are no runs."),
            false => Reply::styled(page(&runs)),
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

fn page(runs: &[RunInfo]) -> String {
    // The run's name stands last, where nothing is cut: it is there to be copied.
    let columns = ["flow", "status", "updated", "run"].map(|it| (it, Align::Left));
    let mut table = Table::new(&columns);
    for info in runs {
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
    table.lines(0, usize::MAX).join("\n")
}
