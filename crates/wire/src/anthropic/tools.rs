//! Encodes and decodes tools and the tool choice.

use std::sync::Arc;

use contexture_message::{Breakpoint, NativeTool, Request, ToolChoice, ToolDefinition};
use serde_json::{Map, Value, json};

use super::decode_parts::mark;
use crate::loss::Losses;
use crate::read::Place;
use crate::{DecodeError, ModelFacts};

/// The name of the provider's own memory tool.
const MEMORY: &str = "memory_20250818";

pub(super) fn encode_tools(
    facts: &ModelFacts,
    tools: &[Arc<ToolDefinition>],
    losses: &mut Losses,
) -> Vec<Value> {
    let tools = tools.iter().enumerate();
    let encode = |(index, it): (usize, &Arc<ToolDefinition>)| match native_type(it, facts) {
        Some(kind) => json!({"type": kind, "name": it.name}),
        None => encode_tool(it, &format!("tools[{index}].parameters"), losses),
    };
    tools.map(encode).collect()
}

/// Returns the type of the tool that the provider has itself, if the model knows it.
fn native_type(tool: &ToolDefinition, facts: &ModelFacts) -> Option<&'static str> {
    match tool.native? {
        // The provider's tool has this name only.
        NativeTool::Memory if facts.capabilities.memory_tool == Some(true) && tool.name == "memory" => {
            Some(MEMORY)
        }
        NativeTool::Memory => None,
    }
}

fn encode_tool(tool: &ToolDefinition, at: &str, losses: &mut Losses) -> Value {
    let mut json = Map::new();
    json.insert("name".to_owned(), tool.name.as_str().into());
    if !tool.description.is_empty() {
        json.insert("description".to_owned(), tool.description.as_str().into());
    }
    json.insert("input_schema".to_owned(), object_schema(&tool.parameters, at, losses));
    Value::Object(json)
}

/// Adds the type `object` to a schema that does not have it: the API requires it.
fn object_schema(schema: &Value, at: &str, losses: &mut Losses) -> Value {
    match schema {
        Value::Object(fields) if fields.contains_key("type") => schema.clone(),
        Value::Object(fields) => {
            losses.add(at, "the type `object` was added");
            let mut typed = Map::from_iter([("type".to_owned(), Value::from("object"))]);
            typed.extend(fields.clone());
            Value::Object(typed)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            losses.add(at, "any object is taken: the schema is not an object");
            json!({"type": "object"})
        }
    }
}

pub(super) fn encode_choice(request: &Request, thinks: bool, losses: &mut Losses) -> Option<Value> {
    let choice = request.tool_choice.as_ref()?;
    if request.tools.is_empty() {
        losses.add("tool_choice", "left out: there are no tools");
        return None;
    }
    Some(match choice {
        ToolChoice::Auto => json!({"type": "auto"}),
        ToolChoice::None => json!({"type": "none"}),
        ToolChoice::Required | ToolChoice::Tool(_) if thinks => {
            losses.add("tool_choice", "left to the model: a tool can't be forced while it thinks");
            json!({"type": "auto"})
        }
        ToolChoice::Required => json!({"type": "any"}),
        ToolChoice::Tool(name) => json!({"type": "tool", "name": name}),
    })
}

pub(super) fn decode_tools(
    doc: &Place<'_>,
    breakpoints: &mut Vec<Breakpoint>,
    losses: &mut Losses,
) -> Result<Vec<Arc<ToolDefinition>>, DecodeError> {
    let docs = doc.get_objects("tools")?;
    let n_tools = docs.len();
    let mut tools = Vec::new();
    for (index, doc) in docs.into_iter().enumerate() {
        let marked = mark(&doc, losses)?;
        if marked && index + 1 < n_tools {
            losses.add(doc.below("cache_control"), "left out: only the end of the tools is marked");
        } else if marked {
            breakpoints.insert(0, Breakpoint::Tools);
        }
        match doc.get_string("type")? {
            Some(kind) if kind == MEMORY => {
                let tool = ToolDefinition::new(doc.need_string("name")?, "");
                tools.push(Arc::new(ToolDefinition { native: Some(NativeTool::Memory), ..tool }));
                doc.report(losses);
            }
            Some(kind) if kind != "custom" => {
                losses.add(doc.at(), format!("left out: tools of type `{kind}` are not known"));
            }
            Some(_) | None => {
                tools.push(Arc::new(decode_tool(&doc)?));
                doc.report(losses);
            }
        }
    }
    Ok(tools)
}

fn decode_tool(doc: &Place<'_>) -> Result<ToolDefinition, DecodeError> {
    let tool =
        ToolDefinition::new(doc.need_string("name")?, doc.get_string("description")?.unwrap_or_default());
    Ok(match doc.get_value("input_schema") {
        Some(schema) => tool.parameters(schema),
        None => tool,
    })
}

pub(super) fn decode_choice(doc: &Place<'_>, losses: &mut Losses) -> Result<Option<ToolChoice>, DecodeError> {
    let Some(choice) = doc.get_object("tool_choice")? else { return Ok(None) };
    let at = choice.below("type");
    let value = match choice.need_string("type")?.as_str() {
        "auto" => ToolChoice::Auto,
        "none" => ToolChoice::None,
        "any" => ToolChoice::Required,
        "tool" => ToolChoice::Tool(choice.need_string("name")?),
        other => return Err(DecodeError::new(at, format!("unknown choice `{other}`"))),
    };
    choice.report(losses);
    Ok(Some(value))
}
