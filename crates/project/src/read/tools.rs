//! Tools that a project declares: the definition for the model, and optionally the HTTP call that implements it.

use std::sync::Arc;
use std::time::Duration;

use contexture_agent::{HttpCaller, HttpTool, Tool, ToolRefused};
use contexture_compose::{Runner, SchemaValidator, SharedTool, is_tool_name};
use contexture_message::ToolDefinition;
use serde::Deserialize;
use serde_json::Value;

use crate::error::Problem;
use crate::source::decode::Cursor;

/// A tool that the project can run without the application.
#[derive(Clone, Debug, PartialEq)]
pub struct ProjectTool {
    /// The definition that the model sees.
    pub tool: ToolDefinition,
    /// The HTTP call that implements the tool.
    pub http: HttpTool,
    /// Whether each call needs a person's approval.
    pub approval: bool,
    /// The time limit of a call.
    pub timeout: Option<Duration>,
    /// Whether calls run alone, never in parallel with other calls.
    pub alone: bool,
}

impl ProjectTool {
    /// Returns a runnable tool that makes its HTTP calls through `caller`.
    pub fn into_agent_tool(self, caller: Arc<dyn HttpCaller>) -> Result<Tool, ToolRefused> {
        let tool = self.http.into_tool(self.tool, self.timeout, caller)?;
        let tool = if self.approval { tool.needs_approval() } else { tool };
        Ok(if self.alone { tool.alone() } else { tool })
    }

    /// Returns the tool as its owner brings it: with its executor. Equal declarations give the same tool.
    pub(crate) fn shared(&self, caller: Arc<dyn HttpCaller>) -> Result<SharedTool, ToolRefused> {
        let runner = Runner::of(self.clone(), self.clone().into_agent_tool(caller)?);
        Ok(SharedTool::new(self.tool.clone()).run_by(runner))
    }
}

/// A tool as declared in a file.
#[derive(Debug, Deserialize)]
pub(crate) struct DeclaredTool {
    name: String,
    #[serde(default)]
    description: String,
    parameters: Option<Value>,
    http: Option<HttpTool>,
    #[serde(default)]
    approval: bool,
    timeout: Option<f64>,
    #[serde(default)]
    alone: bool,
}

impl DeclaredTool {
    /// Checks the declaration at `at`; returns the tool, and its HTTP call if there is one.
    pub(crate) fn check(self, at: &Cursor<'_>) -> Result<(ToolDefinition, Option<ProjectTool>), Problem> {
        let Self { name, description, parameters, http, approval, timeout, alone } = self;
        let place_of = |key: &str| at.node.get(key).map_or(at.node.place, |it| it.value.place);
        if !is_tool_name(&name) {
            let message = format!("invalid tool name `{name}`: use 1 to 64 letters, digits, `_` or `-`");
            return Err(Problem::invalid(message).at(place_of("name")).within(&at.path));
        }
        let tool = ToolDefinition::new(name, description);
        let tool = match parameters {
            None => tool,
            Some(schema) => {
                let within = format!("{}.parameters", at.path);
                check_parameters(&schema).map_err(|it| it.at(place_of("parameters")).within(&within))?;
                tool.parameters(schema)
            }
        };
        let Some(http) = http else {
            let set = [("approval", approval), ("timeout", timeout.is_some()), ("alone", alone)];
            return match set.into_iter().find(|(_, set)| *set) {
                Some((key, _)) => Err(at.invalid(format!(
                    "`{key}` needs `http`: a tool without `http` is run by the application"
                ))),
                None => Ok((tool, None)),
            };
        };
        http.check(&tool.parameters).map_err(|err| at.invalid(format!("`http`: {err}")))?;
        let timeout = match timeout.map(Duration::try_from_secs_f64) {
            None => None,
            Some(Ok(timeout)) if !timeout.is_zero() => Some(timeout),
            Some(_) => return Err(at.invalid("`timeout` must be a positive number of seconds")),
        };
        Ok((tool.clone(), Some(ProjectTool { tool, http, approval, timeout, alone })))
    }
}

/// The JSON Schema keywords that may appear in the schema of an object.
const OF_OBJECTS: [&str; 24] = [
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "default",
    "definitions",
    "dependentRequired",
    "dependentSchemas",
    "deprecated",
    "description",
    "else",
    "enum",
    "examples",
    "if",
    "maxProperties",
    "minProperties",
    "not",
    "oneOf",
    "patternProperties",
    "properties",
    "propertyNames",
    "required",
    "then",
    "title",
];

/// Checks that `parameters` is the JSON Schema of an object, since a model calls a tool with named arguments.
fn check_parameters(schema: &Value) -> Result<(), Problem> {
    let Value::Object(fields) = schema else {
        return Err(Problem::invalid("expected the JSON Schema of an object, such as `{type: object}`"));
    };
    let is_object = |it: &Value| it == "object";
    match fields.get("type") {
        Some(Value::Array(types)) if types.iter().any(is_object) => {}
        Some(kind) if is_object(kind) => {}
        Some(kind) => {
            let message = format!("expected the JSON Schema of an object, found one of type {kind}");
            return Err(Problem::invalid(message).hint(Some(example("name", &Value::from("string")))));
        }
        None => {
            let is_known = |it: &str| OF_OBJECTS.contains(&it) || it.starts_with('$') || it.starts_with("x-");
            if let Some((key, value)) = fields.iter().find(|(key, _)| !is_known(key)) {
                let message =
                    format!("`{key}` is not a word of JSON Schema: `parameters` is the schema of an object");
                return Err(Problem::invalid(message).hint(Some(example(key, value))));
            }
        }
    }
    SchemaValidator::check(schema).map_err(|err| Problem::invalid(format!("invalid schema: {err}")))
}

/// Returns a hint that shows how to declare one argument.
fn example(key: &str, value: &Value) -> String {
    let kind = value.as_str().filter(|it| TYPES.contains(it)).unwrap_or("string");
    format!("write `{{type: object, properties: {{{key}: {{type: {kind}}}}}}}`")
}

/// The type names of JSON Schema.
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];
