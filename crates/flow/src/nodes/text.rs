//! Templates over what a node is given, and `transform`, which is nothing else.

use std::sync::Arc;

use contexture_compose::BoxFuture;
use contexture_message::ErrorCode;
use contexture_template::{Condition, Globals, RenderConfig, Template};
use indexmap::IndexMap;
use serde_json::Value;

use crate::{
    DataType, FlowFault, JsonType, Node, NodeContext, NodeError, Port, PortType, PortValue, Step,
    TransformConfig,
};

/// The template variables of a node: its inputs by name.
pub(crate) struct Scope(Vec<(String, Value)>);

impl Scope {
    pub(crate) fn of(cx: &NodeContext) -> Self {
        Self(cx.inputs.iter().map(|(name, value)| (name.clone(), value.to_json())).collect())
    }

    /// Returns the variables with one more.
    pub(crate) fn with(mut self, name: &str, value: Value) -> Self {
        self.0.push((name.to_owned(), value));
        self
    }

    pub(crate) fn render(&self, template: &Template) -> Result<String, NodeError> {
        let globals: Vec<(&str, &Value)> = self.globals();
        template.render(&Globals::new(&globals), &RenderConfig::strict()).map_err(error_of)
    }

    pub(crate) fn holds(&self, condition: &Condition) -> Result<bool, NodeError> {
        condition.evaluate(&Globals::new(&self.globals()), &RenderConfig::strict()).map_err(error_of)
    }

    fn globals(&self) -> Vec<(&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value)).collect()
    }
}

fn error_of(err: contexture_template::Error) -> NodeError {
    NodeError::new(ErrorCode::TemplateError, err.with_place().to_string())
}

/// Reports an invalid template.
pub(crate) fn fault_of(err: &contexture_template::Error) -> FlowFault {
    FlowFault::new(ErrorCode::TemplateError, err.with_place().to_string())
}

/// Parses the template of a field.
pub(crate) fn template(field: &str, text: &str) -> Result<Template, Vec<FlowFault>> {
    Template::parse(text).map_err(|err| vec![fault_of(&err).at([field])])
}

/// Returns the inputs that an author declares.
pub(crate) fn declared(inputs: &IndexMap<String, DataType>) -> impl Iterator<Item = Port> {
    inputs.iter().map(|(name, of)| Port::new(name, PortType::Data(of.clone())).required())
}

/// Makes a value with a template.
#[derive(Debug)]
pub(crate) struct TransformNode {
    inputs: Vec<Port>,
    template: Template,
    output: DataType,
}

impl TransformNode {
    pub(crate) fn new(config: &TransformConfig) -> Result<Self, Vec<FlowFault>> {
        let template = template("template", &config.template)?;
        let known = |name: &str| config.inputs.contains_key(name);
        let unknown = template.variables().into_iter().find(|it| !known(it.path.first().map_or("", |it| it)));
        if let Some(variable) = unknown {
            let message = format!("the template reads `{}`, which is not an input", variable.path.join("."));
            let fault = FlowFault::new(ErrorCode::FlowMissingInput, message).at(["template"]);
            return Err(vec![fault.hint("declare it in `inputs`")]);
        }
        let output = config.output.clone().unwrap_or(DataType::of(JsonType::String));
        Ok(Self { inputs: declared(&config.inputs).collect(), template, output })
    }
}

impl Node for TransformNode {
    fn inputs(&self) -> Vec<Port> {
        self.inputs.clone()
    }

    fn outputs(&self) -> Vec<Port> {
        vec![Port::new("value", PortType::Data(self.output.clone()))]
    }

    fn run(self: Arc<Self>, cx: NodeContext) -> BoxFuture<'static, Result<Step, NodeError>> {
        Box::pin(async move {
            let text = Scope::of(&cx).render(&self.template)?;
            let value = match self.output.json {
                JsonType::String => Value::String(text),
                _ => serde_json::from_str(&text).map_err(|err| {
                    let message = format!("the template's output is not valid JSON: {err}");
                    NodeError::new("transform_invalid", message)
                })?,
            };
            Ok(Step::done([("value", PortValue::data(value))]))
        })
    }
}
