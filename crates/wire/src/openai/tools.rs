//! Encodes and decodes tools and the tool choice.

use std::sync::Arc;

use contexture_message::{Request, ToolChoice, ToolDefinition};
use serde_json::{Map, Value, json};

use crate::DecodeError;
use crate::loss::Losses;
use crate::read::Place;

/// Encodes the tools and the tool choice for either OpenAI dialect: `tool` encodes a tool, `named` the choice of one
/// tool.
pub(crate) fn encode_tools(
    request: &Request,
    tool: fn(&ToolDefinition) -> Value,
    named: fn(&str) -> Value,
    body: &mut Map<String, Value>,
    losses: &mut Losses,
) {
    if request.tools.is_empty() {
        if request.tool_choice.is_some() {
            losses.add("tool_choice", "left out: there are no tools");
        }
        return;
    }
    body.insert("tools".to_owned(), request.tools.iter().map(|it| tool(it)).collect());
    let choice = request.tool_choice.as_ref().map(|it| match it {
        ToolChoice::Auto => json!("auto"),
        ToolChoice::None => json!("none"),
        ToolChoice::Required => json!("required"),
        ToolChoice::Tool(name) => named(name),
    });
    body.extend(choice.map(|it| ("tool_choice".to_owned(), it)));
}

pub(super) fn encode_tool(tool: &ToolDefinition) -> Value {
    let mut function = Map::new();
    function.insert("name".to_owned(), json!(tool.name));
    if !tool.description.is_empty() {
        function.insert("description".to_owned(), json!(tool.description));
    }
    function.insert("parameters".to_owned(), tool.parameters.clone());
    json!({"type": "function", "function": function})
}

pub(super) fn decode_tools(
    body: &Place<'_>,
    losses: &mut Losses,
) -> Result<Vec<Arc<ToolDefinition>>, DecodeError> {
    let mut tools = Vec::new();
    for place in body.get_list("tools")? {
        if place.need("type")?.str()? != "function" {
            losses.add(place.at(), "only functions are tools here, left out");
            continue;
        }
        tools.push(Arc::new(decode_tool(&place.need("function")?, losses)?));
    }
    Ok(tools)
}

/// Decodes a function; OpenAI Responses writes the same fields one level higher.
pub(crate) fn decode_tool(function: &Place<'_>, losses: &mut Losses) -> Result<ToolDefinition, DecodeError> {
    let name = function.need("name")?.str()?;
    let mut tool = ToolDefinition::new(name, function.get_str("description")?.unwrap_or_default());
    if let Some(parameters) = function.get("parameters") {
        parameters.object()?;
        tool.parameters = parameters.value.clone();
    }
    if function.get("strict").is_some_and(|it| it.value == &Value::Bool(true)) {
        losses.add(format!("{}.strict", function.at()), "tools are never strict here");
    }
    function.report(losses);
    Ok(tool)
}

/// Decodes a tool choice of either OpenAI dialect.
pub(crate) fn decode_choice(
    place: &Place<'_>,
    losses: &mut Losses,
) -> Result<Option<ToolChoice>, DecodeError> {
    let Value::String(word) = place.value else {
        place.object()?;
        let name = match place.get("function") {
            Some(function) => Some(function.need("name")?.str()?),
            None if place.get_str("type")? == Some("function") => Some(place.need("name")?.str()?),
            None => None,
        };
        if name.is_none() {
            losses.add(place.at(), "only a function can be chosen here, left out");
        }
        return Ok(name.map(|it| ToolChoice::Tool(it.to_owned())));
    };
    match word.as_str() {
        "auto" => Ok(Some(ToolChoice::Auto)),
        "none" => Ok(Some(ToolChoice::None)),
        "required" => Ok(Some(ToolChoice::Required)),
        other => Err(DecodeError::new(place.at(), format!("unknown choice `{other}`"))),
    }
}
