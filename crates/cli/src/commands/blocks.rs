//! `blocks`: lists the prompt blocks of the project, and previews one.

use contexture_compose::{Block, BlockBody, BlockDefinition, Prompt, ResolveOptions, Source, Text};
use contexture_message::counter_for;
use contexture_project::{Project, ProjectError};
use serde_json::{Value, json};

use crate::args::{BlocksArgs, BlocksCommand, Globals, PreviewArgs};
use crate::error::Failure;
use crate::output::Reply;
use crate::setup::{root, runtime};
use crate::terminal::Screen;
use crate::terminal::paint::{BOLD, DIM, RED, joined, one_line, paint, visible, wrapped};
use crate::terminal::table::{Align, Cell, Table};
use crate::{pass, read};

pub(super) fn run(args: &BlocksArgs, globals: &Globals, screen: Screen) -> Result<Reply, Failure> {
    let project = root::open(globals)?;
    match &args.command {
        None => Ok(list(&project, globals.json, screen)),
        Some(BlocksCommand::Preview(args)) => preview(args, &project, globals.json, screen),
    }
}

fn list(project: &Project, as_json: bool, screen: Screen) -> Reply {
    let blocks: Vec<(&str, Result<&Block, ProjectError>)> = project.blocks().collect();
    if as_json {
        return Reply::json(blocks.iter().map(|(file, block)| document(file, block.as_ref())).collect());
    }
    if blocks.is_empty() {
        return Reply::styled("The project has no blocks; they go to blocks/NAME.md.");
    }
    let headings = ["name", "message", "scope", "mode", "order", "agents", "enabled"];
    let headings = headings.map(|it| (it, if it == "order" { Align::Right } else { Align::Left }));
    let mut table = Table::new(&headings);
    for block in blocks.iter().filter_map(|(_, block)| block.as_ref().ok()) {
        let BlockDefinition { name, message, scope, mode, order, agents, enabled, .. } = block.definition();
        let agents = if agents.is_empty() { "all".to_owned() } else { agents.join(", ") };
        let enabled = if *enabled { "yes" } else { "no" };
        let words = [word(message), word(scope), word(mode), order.to_string(), agents, enabled.to_owned()];
        let cells = std::iter::once(Cell::new(one_line(name)).style(BOLD));
        table.row(cells.chain(words.iter().map(|it| Cell::new(one_line(it)))).collect());
    }
    let mut lines =
        if blocks.iter().any(|(_, it)| it.is_ok()) { table.lines(0, screen.width) } else { Vec::new() };
    let faults = blocks.iter().filter_map(|(_, block)| block.as_ref().err()).flat_map(|it| &it.faults);
    for fault in faults {
        let text = wrapped(&one_line(&format!("broken: {fault}")), screen.width);
        lines.extend(text.iter().map(|it| paint(RED, it)));
    }
    Reply::styled(lines.join("\n"))
}

fn document(file: &str, block: Result<&&Block, &ProjectError>) -> Value {
    match block {
        Ok(block) => {
            let it = block.definition();
            json!({
                "name": it.name, "path": file, "description": it.description, "message": it.message,
                "scope": it.scope, "mode": it.mode, "order": it.order, "agents": it.agents, "enabled": it.enabled,
                "tags": it.tags, "raw": it.raw, "ttl_s": it.ttl.map(|it| it.as_secs_f64()),
            })
        }
        Err(err) => json!({"path": file, "error": Failure::from(err.clone()).to_json()["error"]}),
    }
}

/// Returns the name that a value has in a file.
fn word(value: &impl serde::Serialize) -> String {
    json!(value).as_str().unwrap_or_default().to_owned()
}

fn preview(args: &PreviewArgs, project: &Project, as_json: bool, screen: Screen) -> Result<Reply, Failure> {
    if args.body.as_deref() == Some("-") && args.input.input.as_deref() == Some("-") {
        return Err(Failure::usage("standard input can be read only once"));
    }
    let block = project.block(&args.name)?;
    let body = args.body.as_deref().map(body).transpose()?;
    let is_given = body.is_some();
    let mut definition = block.definition().clone();
    // Preview the block as a prompt that it applies to would see it.
    (definition.agents, definition.enabled) = (Vec::new(), true);
    definition.body = body.map_or(definition.body, BlockBody::Static);
    let prompt = Prompt::builder("preview").include(Block::from(definition.clone()));
    let prompt = prompt.build().map_err(|err| project.error(&err))?;
    let mut options = ResolveOptions::new(pass::input(&args.input, false, &prompt)?)
        .scope(pass::scope(&args.scope, None)?)
        .engine(&contexture::engine());
    options.target.model.clone_from(&args.model);
    let pass = runtime::block_on(prompt.resolve(options))?.map_err(|err| project.error(&err))?;
    let source = pass.segments().iter().map(|it| &it.source).find(|it| matches!(it, Source::Block(_)));
    let source = source.map(ToString::to_string);
    let part = pass.explain().parts.into_iter().find(|it| Some(&it.source) == source.as_ref());
    let part = part.ok_or_else(|| Failure::input(format!("block `{}` took no part", args.name)))?;
    let text = part.text.unwrap_or_default();
    let counter = counter_for(args.model.as_deref()).profile();
    let BlockDefinition { name, message, scope, mode, .. } = &definition;
    if as_json {
        return Ok(Reply::json(json!({
            "name": name, "message": message, "scope": scope, "mode": mode, "state": part.state, "text": text,
            "tokens": part.tokens, "counter": {"name": counter.name, "exact": counter.exact}, "body_given": is_given,
        })));
    }
    let exactness = if counter.exact { "exact" } else { "an estimate" };
    let facts = [
        format!("{} tokens ({}, {exactness})", part.tokens, counter.name),
        [word(message), word(scope), word(mode)].join(" "),
    ];
    let facts: Vec<_> = facts.iter().map(|it| (DIM, one_line(it))).collect();
    let separator = if screen.terminal { " · " } else { " | " };
    let mut lines = match text.is_empty() {
        true => vec![paint(DIM, "the body is blank: the block is left out")],
        false => vec![visible(&text).into_owned(), String::new()],
    };
    lines.extend(joined(&facts, separator, screen.width));
    Ok(Reply::styled(lines.join("\n")))
}

/// Reads a body that replaces the file's: a template, `@FILE`, or `-` for standard input.
fn body(value: &str) -> Result<Text, Failure> {
    let text = match value.strip_prefix('@') {
        Some(file) => read::text(file)?,
        None if value == "-" => read::text("-")?,
        None => value.to_owned(),
    };
    Text::template(&text).map_err(|err| Failure::input(format!("--body: {}", err.with_place())))
}
