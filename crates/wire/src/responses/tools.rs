//! Encodes and decodes tools; the tool choice is that of `openai`.

use std::sync::Arc;

use contexture_message::ToolDefinition;
use serde_json::{Map, Value, json};

use crate::DecodeError;
use crate::loss::Losses;
use crate::openai::tools::decode_tool;
use crate::read::Place;

pub(super) fn encode_tool(tool: &ToolDefinition) -> Value {
    let mut function = Map::new();
    function.insert("type".to_owned(), json!("function"));
    function.insert("name".to_owned(), json!(tool.name));
    if !tool.description.is_empty() {
        function.insert("description".to_owned(), json!(tool.description));
    }
    function.insert("parameters".to_owned(), tool.parameters.clone());
    function.insert("strict".to_owned(), json!(false));
    Value::Object(function)
}

pub(super) fn decode_tools(
    body: &Place<'_>,
    losses: &mut Losses,
) -> Result<Vec<Arc<ToolDefinition>>, DecodeError> {
    let mut tools = Vec::new();
    for place in body.get_list("tools")? {
        match place.need("type")?.str()? {
            "function" => tools.push(Arc::new(decode_tool(&place, losses)?)),
            other => losses.add(place.at(), format!("a tool of type `{other}` is not supported, left out")),
        }
    }
    Ok(tools)
}
