//! `flow show`: shows the outcome of a run and its events.

use contexture_flow::{PortValue, RunEvent, RunId, RunInfo};
use serde_json::{Value, json};

use super::setup::DriveSetup;
use crate::args::{FlowShowArgs, Globals};
use crate::error::Failure;
use crate::output::Reply;
use crate::setup::runtime;
use crate::setup::store::Missing;
use crate::terminal::Screen;
use crate::terminal::paint::{BOLD, DIM, RED, cut, one_line, paint};

pub(super) fn run(args: &FlowShowArgs, globals: &Globals, screen: Screen) -> Result<Reply, Failure> {
    let work = async {
        let setup = DriveSetup::open(&args.store, Missing::Refuse, globals).await?;
        let run = RunId::parse(&args.run)?;
        let info = setup.runtime.info(&run).await?;
        let mut events = Vec::new();
        loop {
            let after = events.last().map_or(0, |(number, _): &(u64, RunEvent)| *number);
            let page = setup.runtime.events(&run, after, 1000).await?;
            if page.is_empty() {
                break;
            }
            events.extend(page);
        }
        Ok(match globals.json {
            true => Reply::json(document(&info, &events)),
            false => Reply::styled(page(&info, &events, screen)),
        })
    };
    runtime::block_on(work)?
}

fn document(info: &RunInfo, events: &[(u64, RunEvent)]) -> Value {
    let mut document = json!(info);
    let numbered = events.iter().map(|(number, event)| {
        let mut event = json!(event);
        event["id"] = json!(number);
        event
    });
    document["events"] = numbered.collect();
    document
}

fn page(info: &RunInfo, events: &[(u64, RunEvent)], screen: Screen) -> String {
    let mut lines = vec![format!(
        "{}  {}  {}",
        paint(BOLD, &info.run.to_string()),
        one_line(&info.flow),
        paint(DIM, info.status.as_str())
    )];
    for (number, event) in events {
        if let Some((text, is_bad)) = line(event) {
            let text = cut(&one_line(&text), screen.width.saturating_sub(8));
            let text = if is_bad { paint(RED, &text) } else { text };
            lines.push(format!("{} {text}", paint(DIM, &format!("{number:>6}"))));
        }
    }
    lines.extend(info.waits.iter().map(|it| format!("waits for {}: {}", it.id, one_line(&it.asked.message))));
    if !info.outputs.is_empty() {
        lines.push(format!("{:#}", json!(info.outputs)));
    }
    lines.join("\n")
}

fn line(event: &RunEvent) -> Option<(String, bool)> {
    let values = |values: &std::collections::BTreeMap<String, PortValue>| {
        let each = values.iter().filter(|(name, _)| *name != "done");
        each.map(|(name, value)| format!("{name}={}", value.to_json())).collect::<Vec<_>>().join(" ")
    };
    Some(match event {
        RunEvent::NodeEvent { .. } => return None,
        RunEvent::NodeStart { node, inputs, .. } => (format!("{node} begins: {}", values(inputs)), false),
        RunEvent::NodeEnd { node, error: Some(error), .. } => (format!("{node} failed: {error}"), true),
        RunEvent::NodeEnd { node, outputs, .. } => (format!("{node} gives: {}", values(outputs)), false),
        RunEvent::NodeWait { node, wait, .. } => (format!("{node} waits as {}", wait.id), false),
        RunEvent::NodeAnswer { wait, value, .. } => (format!("{wait} is answered: {value}"), false),
        RunEvent::NodePull { node, ports, .. } => (format!("{node} asks for {}", ports.join(", ")), false),
        RunEvent::NodeResume { node, .. } => (format!("{node} continues with its answer"), false),
        RunEvent::NodeTurn { node, turn, .. } => {
            (format!("{node} works in turn {} of {}", turn.turn, turn.thread), false)
        }
        RunEvent::NodeRepeat { node, .. } => (format!("{node} is repeated"), false),
        RunEvent::NodeRetry { node, attempt, error, .. } => {
            (format!("{node} failed: {error}; attempt {attempt} begins"), true)
        }
        RunEvent::RunStart { input, .. } => (format!("the run begins: {input}"), false),
        RunEvent::RunResume {} => ("the run is taken over".to_owned(), false),
        RunEvent::RunWait { .. } => ("everything waits".to_owned(), false),
        RunEvent::RunEnd { status, .. } => (format!("the run is {}", status.as_str()), false),
    })
}
