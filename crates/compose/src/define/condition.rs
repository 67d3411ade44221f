//! Conditions of entries: whether an entry is included, and which branch.

use std::fmt;
use std::sync::Arc;

use contexture_template::{Condition, Expression, Mode, Partials, RenderConfig};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Call;
use crate::BoxError;

type PredicateFn = dyn Fn(&Call) -> Result<bool, BoxError> + Send + Sync;
type SelectorFn = dyn Fn(&Call) -> Result<String, BoxError> + Send + Sync;

/// A condition on a call.
#[derive(Clone)]
pub struct Predicate {
    holds: Arc<PredicateFn>,
    /// The condition, if it is a Liquid expression and not a function.
    condition: Option<Condition>,
}

/// How much of a value a reason shows.
const SHOWN: usize = 60;

impl Predicate {
    /// Returns a condition on the typed input.
    pub fn of<I>(predicate: impl Fn(&I) -> bool + Send + Sync + 'static) -> Self
    where
        I: DeserializeOwned + Send + Sync + 'static,
    {
        Self { holds: Arc::new(move |call| Ok(predicate(&*call.input.get::<I>()?))), condition: None }
    }

    /// Returns a Liquid condition on `input` and `ctx`.
    pub fn condition(condition: Condition, partials: Option<Arc<dyn Partials>>) -> Self {
        let shown = Some(condition.clone());
        let holds = move |call: &Call| {
            let result =
                call.in_template(partials.as_deref(), |globals, config| condition.evaluate(globals, config));
            Ok(result?)
        };
        Self { holds: Arc::new(holds), condition: shown }
    }

    pub(crate) fn holds(&self, call: &Call) -> Result<bool, BoxError> {
        (self.holds)(call)
    }

    /// Returns the condition with the values that it read, such as `input.plan == "pro" (input.plan is "free")`.
    /// Returns `None` for a function, which cannot be inspected.
    pub(crate) fn seen(&self, call: &Call) -> Option<String> {
        let condition = self.condition.as_ref()?;
        let values: Vec<String> = condition
            .variables()
            .iter()
            .map(|it| format!("{} {}", it.path.join("."), value(call, &it.path)))
            .collect();
        let source = condition.source().trim();
        Some(match values.is_empty() {
            true => source.to_owned(),
            false => format!("{source} ({})", values.join(", ")),
        })
    }
}

/// Describes the value of a variable in a call, shortened.
fn value(call: &Call, path: &[String]) -> String {
    let [root, keys @ ..] = path else { return "is not set".to_owned() };
    let found =
        keys.iter().try_fold(call.variable(root), |value, key| Some(value.and_then(|it| it.get(key))));
    match found.flatten() {
        None => "is not set".to_owned(),
        Some(Value::Object(_)) => "is an object".to_owned(),
        Some(Value::Array(items)) => format!("is a list of {}", items.len()),
        Some(Value::String(text)) => {
            let start: String = text.chars().take(SHOWN).collect();
            let dots = if start.len() < text.len() { "…" } else { "" };
            format!("is \"{start}{dots}\"")
        }
        Some(scalar) => format!("is {scalar}"),
    }
}

/// A function from a call to the name of a branch.
#[derive(Clone)]
pub struct Selector(Arc<SelectorFn>);

impl Selector {
    /// Returns a selector that reads the typed input.
    pub fn of<I, R>(select: impl Fn(&I) -> R + Send + Sync + 'static) -> Self
    where
        I: DeserializeOwned + Send + Sync + 'static,
        R: Into<String>,
    {
        Self(Arc::new(move |call| Ok(select(&*call.input.get::<I>()?).into())))
    }

    /// Returns a selector that evaluates a Liquid expression on `input` and `ctx`.
    pub fn expression(expression: Expression) -> Self {
        Self(Arc::new(move |call| {
            // A missing key selects the default, as it does in a `case` tag.
            let value = call.in_template(None, |globals, config| {
                expression.evaluate(globals, &RenderConfig { mode: Mode::Lenient, ..*config })
            })?;
            Ok(match value {
                Value::String(text) => text,
                Value::Null => String::new(),
                other => other.to_string(),
            })
        }))
    }

    pub(crate) fn select(&self, call: &Call) -> Result<String, BoxError> {
        (self.0)(call)
    }
}

impl fmt::Debug for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Predicate")
    }
}

impl fmt::Debug for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Selector")
    }
}
