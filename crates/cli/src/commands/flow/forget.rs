//! `flow forget`: removes finished runs.

use contexture::SystemTime;
use contexture_flow::ForgetReport;
use contexture_history::Timestamp;
use contexture_session::{Tenant, Time};
use serde_json::json;

use super::setup::DriveSetup;
use crate::args::{FlowForgetArgs, Globals, RunStoreArgs};
use crate::commands::resolve::counted;
use crate::error::Failure;
use crate::output::{self, Reply};
use crate::setup::runtime;
use crate::setup::store::Missing;
use crate::terminal::paint::{GREEN, paint};

pub(super) fn run(args: &FlowForgetArgs, globals: &Globals) -> Result<Reply, Failure> {
    let work = async {
        let store = RunStoreArgs { store: args.store.clone(), tenant: Tenant::default().to_string() };
        let setup = DriveSetup::open(&store, Missing::Refuse, globals).await?;
        if !args.yes && !is_meant(globals.json)? {
            return Ok(Reply::styled("Nothing is forgotten."));
        }
        let before = Timestamp(SystemTime.now().0.saturating_sub(args.before.0));
        let forgotten = setup.runtime.forget(before).await?;
        Ok(match globals.json {
            true => Reply::json(json!(forgotten)),
            false => Reply::styled(shown(forgotten)),
        })
    };
    runtime::block_on(work)?
}

fn is_meant(as_json: bool) -> Result<bool, Failure> {
    let question = "Forget runs of all tenants that were over before that?";
    let answer = if as_json { None } else { output::ask(question) };
    answer.ok_or_else(|| {
        Failure::usage("nothing is forgotten: there is no terminal to ask on")
            .hint("`--yes` forgets without asking")
    })
}

fn shown(forgotten: ForgetReport) -> String {
    let ForgetReport { runs, definitions, cached } = forgotten;
    let parts = [(runs, "run"), (definitions, "definition"), (cached, "cached value")];
    let some = parts.iter().filter(|it| it.0 > 0);
    let lines = some.map(|(n, what)| {
        let n = usize::try_from(*n).unwrap_or(usize::MAX);
        format!("{} {}", paint(GREEN, "forgotten"), counted(n, what))
    });
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() { "There is nothing to forget.".to_owned() } else { lines.join("\n") }
}
