//! `flow graph`: draws a flow.

use contexture_message::ErrorCode;
use std::fs;
use std::path::Path;

use contexture_flow::graph;
use contexture_project::Project;
use serde_json::json;

use crate::args::{FlowGraphArgs, GraphFormat};
use crate::error::Failure;
use crate::output::Reply;

pub(super) fn run(args: &FlowGraphArgs, project: &Project, as_json: bool) -> Result<Reply, Failure> {
    let flow = project.flow(&args.flow)?;
    let (format, picture) = match args.format {
        GraphFormat::Mermaid => ("mermaid", graph::mermaid(flow.definition())),
        GraphFormat::Svg => ("svg", graph::svg(flow.definition())),
    };
    if let Some(file) = &args.output {
        write(file, &picture)?;
        let name = file.display().to_string();
        return Ok(match as_json {
            true => Reply::json(json!({"flow": flow.id(), "format": format, "file": name})),
            false => Reply::default().note(format!("Wrote {name}.")),
        });
    }
    Ok(match as_json {
        true => Reply::json(json!({"flow": flow.id(), "format": format, "picture": picture})),
        false => Reply::verbatim(picture.trim_end()),
    })
}

fn write(file: &Path, picture: &str) -> Result<(), Failure> {
    fs::write(file, picture).map_err(|err| {
        let name = file.display().to_string();
        Failure::new(ErrorCode::WriteFailed, format!("cannot write `{name}`: {err}")).at(name)
    })
}
