//! Middleware around tool calls: `before`, `around`, `after` and `on_error`, by tool name or pattern.
//!
//! Middleware nests: the first one is outermost. `before` and `around` run from the outside in, then the tool; `after`
//! and `on_error` run from the inside out. A prompt's `tool_middleware` refers to middleware of the agent by its id,
//! or to a built-in kind: `{kind: approval}`, `{kind: deny, reason: …}`, `{kind: timeout, seconds: …}`.

use std::sync::Arc;
use std::time::Duration;

use contexture_compose::{BoxError, BoxFuture, Runner, ToolMiddleware};
use futures::FutureExt;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::tool::{Invocation, Tool};
use crate::AgentError;
use crate::text::is_match;

/// What to do with a call before it runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Before {
    /// Run it.
    Run,
    /// Run it with other arguments, which must match the tool's schema too.
    RunWith(Value),
    /// Do not run it, and use this as its value.
    Answer(Value),
    /// Do not run it, and tell the model that it was denied, with this reason.
    Deny(Option<String>),
}

/// Wraps tool calls. The default of every method changes nothing.
pub trait Middleware: Send + Sync {
    /// Decides about a call before it runs.
    fn before<'a>(&'a self, _call: &'a Invocation) -> BoxFuture<'a, Result<Before, BoxError>> {
        async { Ok(Before::Run) }.boxed()
    }

    /// Runs a call through `next`, or skips it.
    fn around<'a>(&'a self, call: Invocation, next: Next<'a>) -> BoxFuture<'a, Result<Value, BoxError>> {
        next.run(call)
    }

    /// Receives the value of a call and may change it.
    fn after<'a>(&'a self, _call: &'a Invocation, value: Value) -> BoxFuture<'a, Result<Value, BoxError>> {
        async { Ok(value) }.boxed()
    }

    /// Receives the error of a call and may return a value instead.
    fn on_error<'a>(
        &'a self,
        _call: &'a Invocation,
        err: BoxError,
    ) -> BoxFuture<'a, Result<Value, BoxError>> {
        async { Err(err) }.boxed()
    }
}

/// Returns middleware that a prompt carries itself, for tools that match one of the patterns (`*` matches any text; no
/// patterns match all tools).
pub fn tool_middleware<P: Into<String>>(
    id: impl Into<String>,
    patterns: impl IntoIterator<Item = P>,
    middleware: impl Middleware + 'static,
) -> ToolMiddleware {
    let middleware: Arc<dyn Middleware> = Arc::new(middleware);
    let tools = patterns.into_iter().map(Into::into).collect();
    ToolMiddleware { id: id.into(), tools, spec: Map::new(), runner: Some(Runner::new(middleware)) }
}

/// The remaining middleware and the tool.
#[derive(Clone, Copy)]
pub struct Next<'a> {
    layers: &'a [Arc<dyn Middleware>],
    tool: &'a Tool,
}

impl<'a> Next<'a> {
    pub(crate) fn new(layers: &'a [Arc<dyn Middleware>], tool: &'a Tool) -> Self {
        Self { layers, tool }
    }

    /// Runs the remaining middleware and the tool.
    pub fn run(self, call: Invocation) -> BoxFuture<'a, Result<Value, BoxError>> {
        let Some((layer, layers)) = self.layers.split_first() else { return self.tool.run(call) };
        let next = Next { layers, tool: self.tool };
        async move {
            let call = match layer.before(&call).await? {
                Before::Run => call,
                Before::RunWith(arguments) => match next.tool.argument_faults(&arguments) {
                    Some(faults) => return Err(faults.into()),
                    None => with_arguments(call, arguments),
                },
                Before::Answer(value) => return Ok(value),
                Before::Deny(reason) => return Err(Denied { reason }.into()),
            };
            match layer.around(call.clone(), next).await {
                Ok(value) => layer.after(&call, value).await,
                // A denial is a decision, so `on_error` can't turn it into a value.
                Err(err) if err.is::<Denied>() => Err(err),
                Err(err) => layer.on_error(&call, err).await,
            }
        }
        .boxed()
    }
}

fn with_arguments(mut call: Invocation, arguments: Value) -> Invocation {
    call.call.arguments = arguments;
    call
}

/// Middleware denied the call.
#[derive(Debug, thiserror::Error)]
#[error("denied")]
pub(crate) struct Denied {
    pub(crate) reason: Option<String>,
}

/// Middleware and the tools it applies to.
#[derive(Clone)]
pub(crate) struct Layer {
    pub(crate) patterns: Vec<String>,
    pub(crate) middleware: LayerKind,
}

/// What a layer does.
#[derive(Clone)]
pub(crate) enum LayerKind {
    Custom(Arc<dyn Middleware>),
    Approval,
    Timeout(Duration),
}

impl Layer {
    pub(crate) fn is_for(&self, tool: &str) -> bool {
        self.patterns.is_empty() || self.patterns.iter().any(|it| is_match(it, tool))
    }
}

/// The built-in kinds.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum BuiltIn {
    Approval,
    Deny {
        #[serde(default)]
        reason: Option<String>,
    },
    Timeout {
        seconds: f64,
    },
}

struct Deny(Option<String>);

impl Middleware for Deny {
    fn before<'a>(&'a self, _call: &'a Invocation) -> BoxFuture<'a, Result<Before, BoxError>> {
        async { Ok(Before::Deny(self.0.clone())) }.boxed()
    }
}

/// Validates the definition of a built-in kind, for example when a project is loaded. Others are looked up by id at
/// run time.
pub fn check_middleware(definition: &ToolMiddleware) -> Result<(), String> {
    match definition.spec.contains_key("kind") {
        true => built_in(definition).map(drop),
        false => Ok(()),
    }
}

fn built_in(definition: &ToolMiddleware) -> Result<LayerKind, String> {
    let spec = Value::Object(definition.spec.clone());
    match serde_json::from_value(spec).map_err(|err| err.to_string())? {
        BuiltIn::Approval => Ok(LayerKind::Approval),
        BuiltIn::Deny { reason } => Ok(LayerKind::Custom(Arc::new(Deny(reason)))),
        BuiltIn::Timeout { seconds } => match Duration::try_from_secs_f64(seconds) {
            Ok(timeout) if !timeout.is_zero() => Ok(LayerKind::Timeout(timeout)),
            Ok(_) | Err(_) => Err(format!("`seconds` is {seconds}: give a positive number")),
        },
    }
}

/// Returns the layer for a prompt's definition.
pub(crate) fn layer(
    definition: &ToolMiddleware,
    known: impl Fn(&str) -> Option<Arc<dyn Middleware>>,
) -> Result<Layer, AgentError> {
    let patterns = definition.tools.clone();
    if let Some(carried) = definition.runner.as_ref().and_then(Runner::get::<Arc<dyn Middleware>>) {
        return Ok(Layer { patterns, middleware: LayerKind::Custom(Arc::clone(carried)) });
    }
    if let Some(middleware) = known(&definition.id).filter(|_| !definition.spec.contains_key("kind")) {
        return Ok(Layer { patterns, middleware: LayerKind::Custom(middleware) });
    }
    let unknown =
        |reason| AgentError::Unknown { source_of: format!("tool_middleware:{}", definition.id), reason };
    let middleware = built_in(definition).map_err(unknown)?;
    Ok(Layer { patterns, middleware })
}

#[cfg(test)]
mod tests {
    use crate::text::is_match as fits;

    #[test]
    fn patterns_are_names_with_stars() {
        let cases = [("*", "any", true), ("get_*", "get_it", true), ("get_*", "set_it", false)];
        let more = [
            ("*_it", "get_it", true),
            ("g*t*t", "get_it", true),
            ("get", "get_it", false),
            ("é*", "éa", true),
        ];
        for (pattern, name, expected) in cases.into_iter().chain(more) {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }
}
