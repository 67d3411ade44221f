//! `flow list`: lists the flows of the project.

use anstyle::Style;
use contexture_flow::Flow;
use contexture_project::{Project, ProjectError};
use serde_json::{Map, Value, json};

use super::{NONE, extent};
use crate::error::Failure;
use crate::output::Reply;
use crate::terminal::Screen;
use crate::terminal::paint::{BOLD, DIM, PLAIN, RED, one_line, paint, wrapped};

pub(super) fn run(project: &Project, as_json: bool, screen: Screen) -> Reply {
    let flows = project.flows();
    let flows = flows.map(|(id, flow)| (id, project.flow_file(id).unwrap_or_default(), flow));
    if as_json {
        return Reply::json(flows.map(|(id, file, flow)| document(id, file, flow)).collect());
    }
    let blocks: Vec<String> = flows.map(|(id, file, flow)| block(id, file, flow, screen)).collect();
    match blocks.is_empty() {
        true => Reply::styled(NONE),
        false => Reply::styled(blocks.join("\n\n")),
    }
}

fn block(id: &str, file: &str, flow: Result<&Flow, &ProjectError>, screen: Screen) -> String {
    let mut lines = vec![format!("{}  {}", paint(BOLD, &one_line(id)), paint(DIM, &one_line(file)))];
    let mut add = |style: Style, text: &str| {
        let wrapped = wrapped(&one_line(text), screen.width - 2);
        lines.extend(wrapped.iter().map(|it| format!("  {}", paint(style, it))));
    };
    match flow {
        Ok(flow) => {
            if !flow.definition().description.is_empty() {
                add(PLAIN, &flow.definition().description);
            }
            add(PLAIN, &extent(flow));
            let inputs: Vec<String> =
                flow.inputs().iter().map(|(name, of)| format!("{name} ({})", of.json)).collect();
            if !inputs.is_empty() {
                add(PLAIN, &format!("input: {}", inputs.join(" ")));
            }
        }
        Err(err) => err.faults.iter().for_each(|it| add(RED, &format!("broken: {it}"))),
    }
    lines.join("\n")
}

/// Returns a flow as JSON, the same for `list` and `check`.
pub(super) fn document(id: &str, file: &str, flow: Result<&Flow, &ProjectError>) -> Value {
    match flow {
        Ok(flow) => {
            let definition = flow.definition();
            let inputs = flow.inputs().iter().map(|(name, of)| (name.clone(), of.to_schema()));
            json!({
                "id": id, "path": file, "description": definition.description,
                "nodes": definition.nodes.len(), "edges": definition.edges.len(),
                "input": inputs.collect::<Map<_, _>>(),
                "outputs": definition.outputs.keys().collect::<Vec<_>>(),
                "fingerprint": flow.fingerprint(),
            })
        }
        Err(err) => {
            let failure = Failure::from(err.clone()).to_json();
            json!({"id": id, "path": file, "error": failure["error"]})
        }
    }
}
