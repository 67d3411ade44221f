//! `prompts`: lists the prompts of the project.

use anstyle::Style;
use contexture_compose::Prompt;
use contexture_project::ProjectError;
use serde_json::{Value, json};

use crate::args::Globals;
use crate::error::Failure;
use crate::output::Reply;
use crate::setup::root;
use crate::terminal::Screen;
use crate::terminal::paint::{BOLD, DIM, PLAIN, RED, one_line, paint, wrapped};

pub(super) fn run(globals: &Globals, screen: Screen) -> Result<Reply, Failure> {
    let project = root::open(globals)?;
    let prompts: Vec<(&str, Result<&Prompt, &ProjectError>)> = project.prompts().collect();
    if globals.json {
        return Ok(Reply::json(prompts.iter().map(|(path, prompt)| document(path, *prompt)).collect()));
    }
    if prompts.is_empty() {
        return Ok(Reply::styled("The project has no prompts; they go to prompts/NAME.md."));
    }
    let blocks: Vec<String> = prompts.iter().map(|(path, prompt)| block(path, *prompt, screen)).collect();
    Ok(Reply::styled(blocks.join("\n\n")))
}

fn block(path: &str, prompt: Result<&Prompt, &ProjectError>, screen: Screen) -> String {
    let id = prompt.map_or(path, Prompt::id);
    let mut lines = vec![format!("{}  {}", paint(BOLD, &one_line(id)), paint(DIM, &one_line(&file(path))))];
    let mut add = |style: Style, text: &str| {
        let wrapped = wrapped(&one_line(text), screen.width - 2);
        lines.extend(wrapped.iter().map(|it| format!("  {}", paint(style, it))));
    };
    match prompt {
        Ok(prompt) => {
            if let Some(description) = &prompt.definition().description {
                add(PLAIN, description);
            }
            let keys = keys(prompt);
            if !keys.is_empty() {
                add(PLAIN, &format!("input: {}", keys.join(" ")));
            }
        }
        Err(err) => err.faults.iter().for_each(|it| add(RED, &format!("broken: {it}"))),
    }
    lines.join("\n")
}

fn document(path: &str, prompt: Result<&Prompt, &ProjectError>) -> Value {
    match prompt {
        Ok(prompt) => {
            let definition = prompt.definition();
            json!({
                "id": prompt.id(), "path": file(path), "description": definition.description,
                "tags": definition.tags, "model": definition.model, "input": prompt.input_schema(),
                "output": definition.output.as_ref().map(|it| it.value()),
            })
        }
        Err(err) => {
            let failure = Failure::from(err.clone()).to_json();
            json!({"id": path, "path": file(path), "error": failure["error"]})
        }
    }
}

fn file(path: &str) -> String {
    format!("prompts/{path}.md")
}

/// Returns the keys of the input; `?` marks optional ones.
fn keys(prompt: &Prompt) -> Vec<String> {
    let schema = prompt.input_schema();
    let is_required =
        |key: &str| schema["required"].as_array().is_some_and(|it| it.iter().any(|it| it == key));
    let properties = schema["properties"].as_object();
    let mark = |key: &String| if is_required(key) { key.clone() } else { format!("{key}?") };
    properties.into_iter().flatten().map(|(key, _)| mark(key)).collect()
}
