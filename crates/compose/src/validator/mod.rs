//! Compiles JSON Schemas and validates values. No other module compiles schemas.
//!
//! A schema or a value may come from a malicious client or model, so both are bounded before any work is done:
//! [`graph`] limits the contents of a schema (bytes, nesting, subschemas, references, patterns), [`expansion`] how
//! often it can be applied to one value, and [`meter`] the work that one value takes. Validating what passes all
//! three takes bounded time. Nothing outside the schema is ever read: no file, no network.

mod expansion;
mod graph;
mod meter;
mod pattern;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use graph::Graph;
use meter::Work;

/// The maximum number of backtracks in a pattern with lookarounds or back references.
const MAX_BACKTRACKS: usize = 10_000;
/// The maximum size of a compiled pattern in bytes.
const MAX_PATTERN_SIZE: usize = 1024 * 1024;
/// The maximum number of reported faults of a value.
const MAX_FAULTS: usize = 20;
/// The maximum length of a fault's text, which may quote the whole value.
const MAX_FAULT_CHARS: usize = 500;
/// The maximum work for listing all faults of a value; above it, only whether the value is valid is reported.
const MAX_LISTED: u64 = 2_000_000;
/// The maximum work for validating on the current thread; below it, switching threads is not worth it.
const MAX_BRIEF: u64 = 10_000;

/// A compiled JSON Schema whose validations are bounded in time and memory. Cheap to clone.
///
/// ```
/// use contexture_compose::SchemaValidator;
/// use serde_json::json;
///
/// let validator = SchemaValidator::new(&json!({"type": "object", "required": ["name"]}))?;
/// assert!(validator.faults(&json!({"name": "Ada"})).is_empty());
/// assert_eq!(validator.faults(&json!({}))[0].keyword, "required");
///
/// let bomb = json!({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}});
/// assert!(SchemaValidator::new(&bomb).is_err());
/// # Ok::<(), contexture_compose::SchemaRefused>(())
/// ```
#[derive(Clone, Debug)]
pub struct SchemaValidator(Arc<Compiled>);

#[derive(Debug)]
struct Compiled {
    graph: Graph,
    validator: Validator,
}

/// Why a schema is refused: it is invalid, or it could cost too much.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaRefused {
    /// It is not a JSON Schema.
    #[error("invalid JSON Schema: {0}")]
    Invalid(String),
    /// It exceeds a limit.
    #[error("the schema has {found} {what}, the limit is {limit}")]
    TooMuch {
        /// What exceeds the limit, such as `subschemas`.
        what: &'static str,
        /// The amount found, as far as it was counted.
        found: u64,
        /// The maximum that is allowed.
        limit: u64,
    },
    /// It applies itself to the same value without end.
    #[error("the schema `{at}` refers to itself without looking into the value")]
    Circular {
        /// The subschema, as a reference to it.
        at: String,
    },
    /// It contains a reference that cannot be resolved within it.
    #[error("`$ref` `{reference}` leads nowhere: a schema refers to itself only, as in `#/$defs/name`")]
    Reference {
        /// The unresolved reference.
        reference: String,
    },
    /// It uses an unsupported keyword.
    #[error("the keyword `{keyword}` is not supported")]
    Keyword {
        /// The unsupported keyword.
        keyword: &'static str,
    },
}

/// A fault in a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaFault {
    /// The location in the value, as a JSON Pointer.
    pub path: String,
    /// The keyword of the schema that the value violates.
    pub keyword: String,
    /// The missing property, if one is missing.
    pub missing: Option<String>,
    /// A description of the fault. It may quote the beginning of the value.
    pub message: String,
    /// The same description without quoting the value, which may be secret.
    pub masked: String,
}

/// Reads a schema, or refuses it if it or the work to apply it exceeds a limit.
fn bounded_graph(schema: &Value) -> Result<Graph, SchemaRefused> {
    let mut graph = Graph::read(schema)?;
    expansion::count(&mut graph)?;
    Ok(graph)
}

impl SchemaValidator {
    /// Compiles a schema, or returns why it is refused.
    pub fn new(schema: &Value) -> Result<Self, SchemaRefused> {
        let graph = bounded_graph(schema)?;
        let patterns = PatternOptions::fancy_regex()
            .backtrack_limit(MAX_BACKTRACKS)
            .size_limit(MAX_PATTERN_SIZE)
            .dfa_size_limit(MAX_PATTERN_SIZE);
        let validator = jsonschema::options().with_pattern_options(patterns).offline().build(schema);
        let validator = validator.map_err(|err| SchemaRefused::Invalid(shortened(&err.to_string())))?;
        Ok(Self(Arc::new(Compiled { graph, validator })))
    }

    /// Checks a schema that is only passed on: refuses it if it is too large or not a JSON Schema. Keywords and
    /// references that are unsupported here are allowed, since the recipient may support them.
    pub fn check(schema: &Value) -> Result<(), SchemaRefused> {
        match bounded_graph(schema) {
            Ok(_) | Err(SchemaRefused::Keyword { .. } | SchemaRefused::Reference { .. }) => {}
            Err(refused) => return Err(refused),
        }
        let dialect = schema.get("$schema").and_then(Value::as_str);
        if dialect.is_some_and(|it| !it.contains("json-schema.org")) {
            return Ok(());
        }
        let checked = jsonschema::meta::options().validate(schema);
        checked.map_err(|err| SchemaRefused::Invalid(shortened(&err.to_string())))
    }

    /// Lists the first faults of a value. A value that takes too much work to validate is reported as a fault.
    pub fn faults(&self, value: &Value) -> Vec<SchemaFault> {
        let work = match meter::measure(&self.0.graph, value) {
            Ok(work) => work,
            Err(excess) => return vec![SchemaFault::of_whole("the value", excess.to_string())],
        };
        if self.0.validator.is_valid(value) {
            return Vec::new();
        }
        match work.listed() <= MAX_LISTED {
            true => self.0.validator.iter_errors(value).take(MAX_FAULTS).map(|it| fault(&it)).collect(),
            false => vec![SchemaFault::of_whole("schema", "it does not fit the schema".to_owned())],
        }
    }

    /// Returns whether a value is valid.
    pub fn is_valid(&self, value: &Value) -> bool {
        meter::measure(&self.0.graph, value).is_ok() && self.0.validator.is_valid(value)
    }

    /// Returns whether validating a value is cheap enough to do on the current thread.
    pub fn is_brief(&self, value: &Value) -> bool {
        meter::measure(&self.0.graph, value).is_ok_and(|it: Work| it.listed() <= MAX_BRIEF)
    }
}

impl SchemaFault {
    fn of_whole(keyword: &str, message: String) -> Self {
        let masked = message.clone();
        Self { path: String::new(), keyword: keyword.to_owned(), missing: None, message, masked }
    }
}

fn fault(err: &jsonschema::ValidationError<'_>) -> SchemaFault {
    let missing = match err.kind() {
        ValidationErrorKind::Required { property } => property.as_str().map(str::to_owned),
        _ => None,
    };
    let (message, masked) = match options(err) {
        Some(options) => {
            let not_one_of = |value: &str| format!("{value} is not one of {options}");
            (not_one_of(&err.instance().to_string()), not_one_of("the value"))
        }
        None => (err.to_string(), err.masked_with("the value").to_string()),
    };
    SchemaFault {
        path: err.instance_path().as_str().to_owned(),
        keyword: err.kind().keyword().to_owned(),
        missing,
        message: shortened(&message),
        masked: shortened(&masked),
    }
}

/// Returns all options of an `enum`, of which the message names the first three only.
fn options(err: &jsonschema::ValidationError<'_>) -> Option<String> {
    let ValidationErrorKind::Enum { options } = err.kind() else { return None };
    let all: Vec<String> = options.as_array()?.iter().map(Value::to_string).collect();
    (all.len() > 3).then(|| all.join(", "))
}

/// Shortens the text of a fault, which may quote the whole value.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_FAULT_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
