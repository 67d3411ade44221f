//! `flow check`: checks whether flows can run.

use contexture_flow::Flow;
use contexture_project::{Fault, Project, ProjectError};
use serde_json::{Value, json};

use super::list::document;
use super::{NONE, extent};
use crate::args::FlowCheckArgs;
use crate::commands::resolve::counted;
use crate::error::{Exit, Failure};
use crate::output::Reply;
use crate::terminal::Screen;
use crate::terminal::paint::{BOLD, CYAN, DIM, GREEN, RED, YELLOW, one_line, paint, wrapped};

/// A flow with its file and its warnings.
struct Checked<'a> {
    id: &'a str,
    file: &'a str,
    flow: Result<&'a Flow, &'a ProjectError>,
    warnings: &'a [Fault],
}

pub(super) fn run(
    args: &FlowCheckArgs,
    project: &Project,
    as_json: bool,
    screen: Screen,
) -> Result<Reply, Failure> {
    let all = project.flows().map(|(id, flow)| Checked {
        id,
        file: project.flow_file(id).unwrap_or_default(),
        flow,
        warnings: project.flow_warnings(id),
    });
    let flows: Vec<Checked<'_>> = match &args.flow {
        None => all.collect(),
        Some(id) => all.filter(|it| it.id == id).collect(),
    };
    if let (Some(id), true) = (&args.flow, flows.is_empty()) {
        project.flow(id)?;
    }
    let is_broken = flows.iter().any(|it| it.flow.is_err());
    let reply = match as_json {
        true => Reply::json(flows.iter().map(checked).collect()),
        false => Reply::styled(page(&flows, screen)),
    };
    Ok(reply.exit(if is_broken { Exit::Wrong } else { Exit::Done }))
}

/// Returns a flow as in `list`, with its warnings.
fn checked(of: &Checked<'_>) -> Value {
    let mut document = document(of.id, of.file, of.flow);
    if of.flow.is_ok() {
        let warning = |it: &Fault| json!({"code": it.code, "message": it.message, "line": it.line, "column": it.column, "hint": it.hint});
        document["warnings"] = of.warnings.iter().map(warning).collect();
    }
    document
}

fn page(flows: &[Checked<'_>], screen: Screen) -> String {
    if flows.is_empty() {
        return NONE.to_owned();
    }
    let mut lines = Vec::new();
    for Checked { id, file, flow, warnings } in flows {
        let name = paint(BOLD, &one_line(id));
        match flow {
            Ok(flow) => {
                lines.push(format!("{}  {name}  {}", paint(GREEN, "ok    "), paint(DIM, &extent(flow))));
                warnings.iter().for_each(|it| lines.extend(fault_lines(it, "warning: ", screen)));
            }
            Err(err) => {
                lines.push(format!("{}  {name}  {}", paint(RED, "broken"), paint(DIM, &one_line(file))));
                err.faults.iter().for_each(|it| lines.extend(fault_lines(it, "", screen)));
            }
        }
    }
    let n_broken = flows.iter().filter(|it| it.flow.is_err()).count();
    let n_warnings: usize = flows.iter().filter(|it| it.flow.is_ok()).map(|it| it.warnings.len()).sum();
    let summary = match (n_broken, n_warnings) {
        (0, 0) => paint(GREEN, &format!("{}, no problems found.", counted(flows.len(), "flow"))),
        (0, _) => {
            let warnings = counted(n_warnings, "warning");
            paint(YELLOW, &format!("{}, {warnings}", counted(flows.len(), "flow")))
        }
        _ => paint(RED, &format!("{}, {n_broken} broken", counted(flows.len(), "flow"))),
    };
    lines.extend([String::new(), summary]);
    lines.join("\n")
}

fn fault_lines(fault: &Fault, kind: &str, screen: Screen) -> Vec<String> {
    let columns = screen.width.saturating_sub(10);
    let text = format!("{kind}{} ({})", one_line(&fault.to_string()), fault.code);
    let hint = fault.hint.iter().flat_map(|it| wrapped(&format!("hint: {}", one_line(it)), columns));
    let hint = hint.map(|it| format!("{:10}{}", "", paint(CYAN, &it)));
    let text = wrapped(&text, columns).into_iter().enumerate();
    text.map(|(idx, it)| format!("{:1$}{it}", "", if idx == 0 { 8 } else { 10 })).chain(hint).collect()
}
