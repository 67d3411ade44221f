//! Encodes and decodes tools and the tool choice.

use std::sync::Arc;

use contexture_message::{Request, ToolChoice, ToolDefinition};
use serde_json::{Map, Value, json};

use crate::DecodeError;
use crate::loss::Losses;
use crate::read::Place;

pub(super) fn encode_tools(tools: &[Arc<ToolDefinition>], losses: &mut Losses) -> Vec<Value> {
    let tools = tools.iter().enumerate();
    tools.map(|(index, it)| encode_tool(it, &format!("tools[{index}].parameters"), losses)).collect()
}

fn encode_tool(tool: &ToolDefinition, at: &str, losses: &mut Losses) -> Value {
    let mut json = Map::new();
    json.insert("name".to_owned(), tool.name.as_str().into());
    if !tool.description.is_empty() {
        json.insert("description".to_owned(), tool.description.as_str().into());
    }
    let schema = if tool.parameters.is_object() {
        tool.parameters.clone()
    } else {
        losses.add(at, "any object is taken: the schema is not an object");
        json!({"type": "object"})
    };
    json.insert("parametersJsonSchema".to_owned(), schema);
    Value::Object(json)
}

/// Encodes the tool choice.
pub(super) fn encode_choice(request: &Request, losses: &mut Losses) -> Option<Value> {
    let choice = request.tool_choice.as_ref()?;
    if request.tools.is_empty() {
        losses.add("tool_choice", "left out: there are no tools");
        return None;
    }
    let config = match choice {
        ToolChoice::Auto => json!({"mode": "AUTO"}),
        ToolChoice::None => json!({"mode": "NONE"}),
        ToolChoice::Required => json!({"mode": "ANY"}),
        ToolChoice::Tool(name) => json!({"mode": "ANY", "allowedFunctionNames": [name]}),
    };
    Some(json!({"functionCallingConfig": config}))
}

pub(super) fn decode_tools(
    doc: &Place<'_>,
    losses: &mut Losses,
) -> Result<Vec<Arc<ToolDefinition>>, DecodeError> {
    let mut tools = Vec::new();
    for group in doc.get_objects("tools")? {
        for doc in group.get_objects("functionDeclarations")? {
            let tool = ToolDefinition::new(
                doc.need_string("name")?,
                doc.get_string("description")?.unwrap_or_default(),
            );
            let schema = doc
                .get_value("parametersJsonSchema")
                .or_else(|| doc.get_value("parameters").map(json_schema));
            tools.push(Arc::new(match schema {
                Some(schema) => tool.parameters(schema),
                None => tool,
            }));
            doc.report(losses);
        }
        group.report(losses);
    }
    Ok(tools)
}

/// Converts Gemini's older schemas, which write types in capitals, to JSON Schema.
pub(super) fn json_schema(schema: Value) -> Value {
    const TYPES: [&str; 7] = ["STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"];
    match schema {
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(key, value)| match value {
                Value::String(kind) if key == "type" && TYPES.contains(&kind.as_str()) => {
                    (key, kind.to_ascii_lowercase().into())
                }
                other => (key, json_schema(other)),
            });
            Value::Object(fields.collect())
        }
        Value::Array(items) => items.into_iter().map(json_schema).collect(),
        other => other,
    }
}

pub(super) type Rest = Map<String, Value>;

/// Decodes the tool choice, and returns the fields it does not cover unchanged.
pub(super) fn decode_choice(doc: &Place<'_>) -> Result<(Option<ToolChoice>, Rest), DecodeError> {
    let Some(config) = doc.get_object("toolConfig")? else { return Ok((None, Rest::new())) };
    let Some(calling) = config.get_object("functionCallingConfig")? else { return Ok((None, config.left())) };
    let mode = calling.get_string("mode")?.map(|it| it.to_ascii_uppercase());
    let mut names = calling.get_strings("allowedFunctionNames")?;
    let choice = match (mode.as_deref(), names.len()) {
        (None | Some("AUTO"), 0) => ToolChoice::Auto,
        (Some("NONE"), _) => ToolChoice::None,
        (Some("ANY"), 0) => ToolChoice::Required,
        (Some("ANY"), 1) => ToolChoice::Tool(names.remove(0)),
        _ => return Ok((None, config.object()?.clone())),
    };
    Ok((Some(choice), config.left()))
}
