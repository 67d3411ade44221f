//! Tag values that an author writes: JSON that may contain texts and functions.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use contexture_template::Variable;
use futures_util::future::{BoxFuture, FutureExt};
use indexmap::IndexMap;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{Call, Scope, Text};
use crate::BoxError;
use crate::segment::Volatility;

type ValueFn = dyn Fn(Call) -> BoxFuture<'static, Result<Value, BoxError>> + Send + Sync;

/// A value of the context slot: plain JSON, a text, a function of the input, or a tree of these.
///
/// ```
/// use contexture_compose::TagValue;
/// use serde_json::{Value, json};
///
/// let plain: TagValue = json!({"documents": ["a", "b"]}).into();
/// let computed = TagValue::of(|input: &Value| json!({"plan": input["plan"]}));
/// let tree = TagValue::object([("documents", plain), ("customer", computed)]);
/// ```
#[derive(Clone)]
pub enum TagValue {
    /// Plain JSON.
    Json(Value),
    /// One text, such as a template.
    Text(Text),
    /// A function of the call; its result is interpreted by the same rules.
    Function(TagFunction),
    /// Named values, in order.
    Object(IndexMap<String, TagValue>),
    /// A list of values.
    List(Vec<TagValue>),
}

/// An async function that returns a tag value.
#[derive(Clone)]
pub struct TagFunction(Arc<ValueFn>);

impl TagValue {
    /// Returns a value computed from the typed input.
    pub fn of<I>(function: impl Fn(&I) -> Value + Send + Sync + 'static) -> Self
    where
        I: DeserializeOwned + Send + Sync + 'static,
    {
        Self::Function(TagFunction(Arc::new(move |call| {
            let value = call.input.get::<I>().map(|input| function(&input));
            std::future::ready(value).boxed()
        })))
    }

    /// Returns a value computed from the typed input and the pass's scope.
    pub fn of_scoped<I>(function: impl Fn(&I, &Scope) -> Value + Send + Sync + 'static) -> Self
    where
        I: DeserializeOwned + Send + Sync + 'static,
    {
        Self::Function(TagFunction(Arc::new(move |call| {
            let value = call.input.get::<I>().map(|input| function(&input, &call.scope));
            std::future::ready(value).boxed()
        })))
    }

    /// Returns a value computed by an async function.
    pub fn later<I, F>(function: impl Fn(Arc<I>) -> F + Send + Sync + 'static) -> Self
    where
        I: DeserializeOwned + Send + Sync + 'static,
        F: Future<Output = Result<Value, BoxError>> + Send + 'static,
    {
        Self::Function(TagFunction(Arc::new(move |call| match call.input.get::<I>() {
            Ok(input) => function(input).boxed(),
            Err(err) => std::future::ready(Err(err)).boxed(),
        })))
    }

    /// Returns an object with these values, in order.
    pub fn object<K: Into<String>>(values: impl IntoIterator<Item = (K, TagValue)>) -> Self {
        Self::Object(values.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }

    /// Returns how often the value can change, derived from its contents.
    pub fn volatility(&self) -> Volatility {
        match self {
            TagValue::Json(_) => Volatility::Static,
            TagValue::Text(text) => text.volatility(),
            TagValue::Function(_) => Volatility::Turn,
            TagValue::Object(values) => values.values().map(TagValue::volatility).max().unwrap_or_default(),
            TagValue::List(values) => values.iter().map(TagValue::volatility).max().unwrap_or_default(),
        }
    }

    /// Returns the global variables that its templates read.
    pub fn variables(&self) -> Vec<Variable> {
        match self {
            TagValue::Json(_) | TagValue::Function(_) => Vec::new(),
            TagValue::Text(text) => text.variables(),
            TagValue::Object(values) => values.values().flat_map(TagValue::variables).collect(),
            TagValue::List(values) => values.iter().flat_map(TagValue::variables).collect(),
        }
    }

    /// Returns what is known of the value before anything runs. The result of a template or function is `null`, which
    /// has no shape yet. In a message, which can only hold text, a template becomes a placeholder text.
    pub(crate) fn sketch(&self) -> Value {
        match self {
            TagValue::Object(values) if values.contains_key("role") => self.message_sketch(values),
            _ => self.sketch_with(&Value::Null),
        }
    }

    fn message_sketch(&self, values: &IndexMap<String, TagValue>) -> Value {
        let has_role = values.get("role").is_some_and(|it| it.sketch() != Value::Null);
        match has_role && !self.has_function() {
            true => self.sketch_with(&Value::from("a text")),
            false => Value::Null,
        }
    }

    fn sketch_with(&self, unknown: &Value) -> Value {
        match self {
            TagValue::Json(value) => value.clone(),
            TagValue::Text(text) => text.as_original().map_or_else(|| unknown.clone(), Value::from),
            TagValue::Function(_) => Value::Null,
            TagValue::Object(values) => {
                let known = |it: &TagValue| match unknown {
                    Value::Null => it.sketch(),
                    unknown => it.sketch_with(unknown),
                };
                Value::Object(values.iter().map(|(key, it)| (key.clone(), known(it))).collect())
            }
            TagValue::List(values) => match unknown {
                Value::Null => values.iter().map(TagValue::sketch).collect(),
                unknown => values.iter().map(|it| it.sketch_with(unknown)).collect(),
            },
        }
    }

    fn has_function(&self) -> bool {
        match self {
            TagValue::Function(_) => true,
            TagValue::Json(_) | TagValue::Text(_) => false,
            TagValue::Object(values) => values.values().any(TagValue::has_function),
            TagValue::List(values) => values.iter().any(TagValue::has_function),
        }
    }

    /// Runs all functions and texts in the value concurrently and returns plain JSON.
    pub fn resolve<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Value, BoxError>> {
        match self {
            TagValue::Json(value) => std::future::ready(Ok(value.clone())).boxed(),
            TagValue::Text(text) => {
                text.evaluate(call).wait_original().map(|it| it.map(Value::String)).boxed()
            }
            TagValue::Function(function) => (function.0)(call.clone()),
            TagValue::Object(values) => async move {
                let each = values.values().map(|it| it.resolve(call));
                let done = futures_util::future::try_join_all(each).await?;
                Ok(Value::Object(values.keys().cloned().zip(done).collect::<Map<_, _>>()))
            }
            .boxed(),
            TagValue::List(values) => {
                futures_util::future::try_join_all(values.iter().map(|it| it.resolve(call)))
                    .map(|it| it.map(Value::Array))
                    .boxed()
            }
        }
    }
}

impl From<Value> for TagValue {
    fn from(value: Value) -> Self {
        TagValue::Json(value)
    }
}

impl From<&str> for TagValue {
    fn from(text: &str) -> Self {
        TagValue::Json(text.into())
    }
}

impl From<Text> for TagValue {
    fn from(text: Text) -> Self {
        TagValue::Text(text)
    }
}

impl fmt::Debug for TagValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TagValue::Json(value) => value.fmt(f),
            TagValue::Text(text) => text.fmt(f),
            TagValue::Function(_) => f.write_str("Function"),
            TagValue::Object(values) => values.fmt(f),
            TagValue::List(values) => values.fmt(f),
        }
    }
}
