//! `resolve`: shows what would be sent to the model.

use contexture_compose::{Explanation, Pass};
use contexture_message::{
    Image, MediaSource, Message, Part, Request, ToolChoice, ToolDefinition, ToolOutput,
};
use serde_json::{Value, json};

use super::wire;
use crate::args::{Globals, WireArgs};
use crate::error::Failure;
use crate::output::{self, Reply};
use crate::stage;
use crate::terminal::Screen;
use crate::terminal::paint::{BOLD, CYAN, DIM, YELLOW, behind, joined, one_line, paint, visible, width};

pub(super) fn run(args: &WireArgs, globals: &Globals, screen: Screen) -> Result<Reply, Failure> {
    let (pass, catalogue) = stage::resolve(&args.resolve, globals)?;
    if globals.json || args.wire.is_some() {
        // The page shows the warnings itself.
        pass.explain().warnings.iter().for_each(|it| output::warn(it));
    }
    if let Some(dialect) = args.wire {
        let cache_key = args.resolve.call.session.clone();
        return wire::reply(dialect, &pass, &catalogue, cache_key, globals.json);
    }
    Ok(match globals.json {
        true => Reply::json(document(&pass)),
        false => Reply::styled(page(pass.request(), &pass.explain(), screen)),
    })
}

/// Returns a pass as JSON, which `diff` can read.
fn document(pass: &Pass) -> Value {
    json!({"fingerprint": pass.fingerprint(), "request": pass.request(), "explanation": pass.explain()})
}

/// Formats the request for people.
fn page(request: &Request, explanation: &Explanation, screen: Screen) -> String {
    let mut blocks: Vec<String> = request.messages.iter().map(|it| message(it, screen)).collect();
    if !request.tools.is_empty() {
        let tools: Vec<String> = request.tools.iter().map(|it| tool(it)).collect();
        blocks.push(format!("{}\n{}", heading("tools", screen), tools.join("\n")));
    }
    let settings = settings(request);
    if !settings.is_empty() {
        blocks.push(format!("{}\n{}", heading("settings", screen), settings.join("\n")));
    }
    if let Some(output) = &request.output {
        blocks.push(format!("{}\n{}", heading("output", screen), visible(&output.to_string())));
    }
    blocks.push(totals(request, explanation, screen));
    blocks.join("\n\n")
}

fn heading(name: &str, screen: Screen) -> String {
    let line = if screen.terminal { "─" } else { "-" };
    let rest = screen.width.saturating_sub(width(name) + 4);
    let (left, right) = (line.repeat(2), line.repeat(rest));
    format!("{} {} {}", paint(DIM, &left), paint(BOLD, name), paint(DIM, &right))
}

fn message(message: &Message, screen: Screen) -> String {
    let parts: Vec<String> = message.content.iter().map(part).collect();
    format!("{}\n{}", heading(message.role.as_str(), screen), parts.join("\n"))
}

fn part(part: &Part) -> String {
    let note = |text: String| paint(CYAN, &format!("[{}]", one_line(&text)));
    match part {
        Part::Text { text, .. } => visible(text).into_owned(),
        Part::Image(Image { source, media_type }) => {
            note(format!("image {}, {}", media_type.as_deref().unwrap_or("of unknown type"), media(source)))
        }
        Part::File(file) => {
            let media_type = file.media_type.as_deref().unwrap_or("of unknown type");
            note(format!(
                "file {} {media_type}, {}",
                file.name.as_deref().unwrap_or_default(),
                media(&file.source)
            ))
        }
        Part::Evidence(evidence) => {
            let head = note(format!("evidence {}, {}", evidence.chunk, evidence.source));
            format!("{head}\n{}", visible(&evidence.joined_text()))
        }
        Part::Thinking(thinking) => format!("{}\n{}", note("thinking".to_owned()), visible(&thinking.text)),
        Part::ToolCall(call) => note(format!("call {} {}: {}", call.id, call.name, call.arguments)),
        Part::ToolResult(result) => {
            let head = note(format!("result {} {}", result.call_id, result.name));
            format!("{head}\n{}", output(&result.output))
        }
    }
}

fn media(source: &MediaSource) -> String {
    match source {
        MediaSource::Data(data) => format!("about {} bytes", data.len() / 4 * 3),
        MediaSource::Url(url) => url.clone(),
        MediaSource::Id(id) => format!("id {id}"),
    }
}

fn output(output: &ToolOutput) -> String {
    match output {
        ToolOutput::Text(text) | ToolOutput::ErrorText(text) => visible(text).into_owned(),
        ToolOutput::Json(value) | ToolOutput::ErrorJson(value) => visible(&value.to_string()).into_owned(),
        ToolOutput::ExecutionDenied { reason } => {
            format!("denied: {}", visible(reason.as_deref().unwrap_or("no reason is given")))
        }
        ToolOutput::Content(parts) => parts.iter().map(part).collect::<Vec<_>>().join("\n"),
    }
}

/// Formats a tool as a signature: `lookup(id: string, limit?: integer)`.
fn tool(tool: &ToolDefinition) -> String {
    let required: Vec<&str> =
        tool.parameters["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let parameters = tool.parameters["properties"].as_object().into_iter().flatten().map(|(name, schema)| {
        let optional = if required.contains(&name.as_str()) { "" } else { "?" };
        match schema["type"].as_str() {
            Some(kind) => format!("{name}{optional}: {kind}"),
            None => format!("{name}{optional}"),
        }
    });
    let parameters = parameters.collect::<Vec<_>>().join(", ");
    let signature = format!("{}({})", paint(BOLD, &tool.name), one_line(&parameters));
    match tool.description.is_empty() {
        true => signature,
        false => format!("{signature}\n  {}", visible(&tool.description).replace('\n', "\n  ")),
    }
}

fn settings(request: &Request) -> Vec<String> {
    let mut lines = Vec::new();
    if let Ok(Value::Object(fields)) = serde_json::to_value(&request.settings) {
        lines.extend(fields.iter().map(|(name, value)| format!("{name} = {}", visible(&value.to_string()))));
    }
    match &request.tool_choice {
        None => {}
        Some(ToolChoice::Auto) => lines.push("tool_choice = auto".to_owned()),
        Some(ToolChoice::None) => lines.push("tool_choice = none".to_owned()),
        Some(ToolChoice::Required) => lines.push("tool_choice = required".to_owned()),
        Some(ToolChoice::Tool(name)) => lines.push(format!("tool_choice = the tool {name}")),
    }
    lines
}

fn totals(request: &Request, explanation: &Explanation, screen: Screen) -> String {
    let exactness = if explanation.counter.exact { "exact" } else { "an estimate" };
    let counter = &explanation.counter.name;
    let mut facts = vec![
        format!("{} tokens ({counter}, {exactness})", explanation.total_tokens),
        counted(request.messages.len(), "message"),
    ];
    let n_tools = request.tools.len();
    facts.extend((n_tools > 0).then(|| counted(n_tools, "tool")));
    facts.extend(request.model.clone());
    for (n, word) in [(explanation.dropped.len(), "dropped"), (explanation.excluded.len(), "excluded")] {
        facts.extend((n > 0).then(|| format!("{n} {word}")));
    }
    let separator = if screen.terminal { " · " } else { " | " };
    let facts: Vec<_> = facts.iter().map(|it| (DIM, one_line(it))).collect();
    let mut lines = joined(&facts, separator, screen.width);
    let front = format!("{} ", paint(YELLOW, "warning:"));
    lines.extend(explanation.warnings.iter().flat_map(|it| behind(&front, 9, &one_line(it), screen.width)));
    lines.join("\n")
}

/// Formats a count: `1 message`, `2 messages`.
pub(super) fn counted(n: usize, word: &str) -> String {
    match n {
        1 => format!("1 {word}"),
        n => format!("{n} {word}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::{totals, width};
    use crate::commands::inspect::tests::pass;
    use crate::terminal::Screen;

    #[test]
    fn the_totals_are_not_wider_than_the_screen() {
        let pass = pass();
        for columns in [60, 80] {
            let screen = Screen { width: columns, terminal: true };
            let text = totals(pass.request(), &pass.explain(), screen);
            let text = anstream::adapter::strip_str(&text).to_string();
            assert!(text.lines().all(|it| width(it) <= columns), "{columns}: {text}");
            assert!(text.contains("a-model-with-a-very-long-name-2026-07-01"), "{text}");
        }
    }
}
