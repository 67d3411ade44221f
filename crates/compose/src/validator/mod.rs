//! JSON Schemas that are ready to validate: the one place that compiles them.
//!
//! A schema, or the value it is held against, may come from a client or a model that means harm. So both are bounded before any
//! work is done: [`graph`] bounds what a schema says (bytes, nesting, subschemas, references, patterns), [`expansion`] how
//! often it can be applied to one value, and [`meter`] how much work one value is. What passes all three is validated in
//! a time that is bounded too. Nothing outside of the schema is ever read: no file, no network.

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

/// How often a pattern with lookarounds or back references may be tried again.
const MAX_BACKTRACKS: usize = 10_000;
/// How large a compiled pattern may be, in bytes.
const MAX_PATTERN_SIZE: usize = 1024 * 1024;
/// How many faults of a value are told.
const MAX_FAULTS: usize = 20;
/// How long the text of a fault may be: it may quote the whole value.
const MAX_FAULT_CHARS: usize = 500;
/// Up to this much work all faults of a value are looked for; beyond it is only said whether it fits.
const MAX_LISTED: u64 = 2_000_000;
/// Up to this much work a validation is over so soon that no other thread is worth it.
const MAX_BRIEF: u64 = 10_000;

/// A JSON Schema, compiled, whose validations are bounded in time and memory. Cheap to clone.
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

/// A schema that is not used, because it is none or because it could cost too much.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaRefused {
    /// It is not a JSON Schema.
    #[error("invalid JSON Schema: {0}")]
    Invalid(String),
    /// It has more of something than is allowed.
    #[error("the schema has {found} {what}, the limit is {limit}")]
    TooMuch {
        /// What it has too much of, such as `subschemas`.
        what: &'static str,
        /// How much it has, as far as it was counted.
        found: u64,
        /// How much is allowed.
        limit: u64,
    },
    /// It applies to a value again and again.
    #[error("the schema `{at}` refers to itself without looking into the value")]
    Circular {
        /// The subschema, as a reference to it.
        at: String,
    },
    /// It refers to something that is not in it.
    #[error("`$ref` `{reference}` leads nowhere: a schema refers to itself only, as in `#/$defs/name`")]
    Reference {
        /// The reference.
        reference: String,
    },
    /// It uses a keyword that is not followed.
    #[error("the keyword `{keyword}` is not supported")]
    Keyword {
        /// The keyword.
        keyword: &'static str,
    },
}

/// What is wrong with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaFault {
    /// Where in the value, as a JSON Pointer.
    pub path: String,
    /// The keyword of the schema that the value does not fit.
    pub keyword: String,
    /// The property that is missing, where one is.
    pub missing: Option<String>,
    /// What is wrong. It may quote the beginning of the value.
    pub message: String,
    /// The same without a word of the value, which may be secret.
    pub masked: String,
}

impl SchemaValidator {
    /// Compiles a schema, or says why it is not used.
    pub fn new(schema: &Value) -> Result<Self, SchemaRefused> {
        let graph = Graph::read(schema)?;
        let patterns = PatternOptions::fancy_regex()
            .backtrack_limit(MAX_BACKTRACKS)
            .size_limit(MAX_PATTERN_SIZE)
            .dfa_size_limit(MAX_PATTERN_SIZE);
        let validator = jsonschema::options().with_pattern_options(patterns).offline().build(schema);
        let validator = validator.map_err(|err| SchemaRefused::Invalid(shortened(&err.to_string())))?;
        Ok(Self(Arc::new(Compiled { graph, validator })))
    }

    /// Says what is wrong with a schema that is only passed on: that it is too large, or no JSON Schema. Keywords and
    /// references that are not followed here may mean something to the one who gets it.
    pub fn check(schema: &Value) -> Result<(), SchemaRefused> {
        match Graph::read(schema) {
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

    /// Lists what is wrong with a value: the first faults, and that it is too much work to look at, if so.
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

    /// Whether a value fits.
    pub fn is_valid(&self, value: &Value) -> bool {
        meter::measure(&self.0.graph, value).is_ok() && self.0.validator.is_valid(value)
    }

    /// Whether looking at a value takes so little that it can be done at once, in the middle of other work.
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
    SchemaFault {
        path: err.instance_path().as_str().to_owned(),
        keyword: err.kind().keyword().to_owned(),
        missing,
        message: shortened(&err.to_string()),
        masked: shortened(&err.masked_with("the value").to_string()),
    }
}

/// Returns the beginning of what is wrong with a value: the whole of it may be quoted there.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_FAULT_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
