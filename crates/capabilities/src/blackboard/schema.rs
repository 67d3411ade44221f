//! The schema of a board: what it may hold, what it holds at first, and how writes to a field are merged.

use std::fmt;
use std::sync::Arc;

use contexture_compose::SchemaValidator;
use serde_json::{Map, Value, json};

use super::pointer::{Pointer, index};

/// The keyword of a field's merge rule.
const MERGE: &str = "x-merge";
/// How many references are followed to find the rule of a field.
const MAX_REFERENCES: usize = 16;
/// Keywords that decide about further fields themselves.
const OPEN: [&str; 3] = ["additionalProperties", "patternProperties", "unevaluatedProperties"];
/// Keywords that apply further schemas to the same value.
const IN_PLACE: [&str; 8] = ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "$ref"];
/// Keywords with one schema for parts of the value.
const ONE_BELOW: [&str; 6] = [
    "additionalProperties",
    "unevaluatedProperties",
    "items",
    "contains",
    "propertyNames",
    "unevaluatedItems",
];
/// Keywords with schemas by name.
const NAMED_BELOW: [&str; 5] =
    ["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"];

/// How a write to a field is merged with what is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MergeRule {
    /// The value takes the place of the old one, whose version the writer names.
    #[default]
    Replace,
    /// The value goes to the end of an array; those of an array one after the other.
    Append,
    /// The same, except for values that the array has already.
    Union,
    /// The number is added to the one there.
    Counter,
    /// The greater of the two stays: numbers, or texts in the order of their characters.
    Max,
}

impl MergeRule {
    const ALL: [MergeRule; 5] =
        [MergeRule::Replace, MergeRule::Append, MergeRule::Union, MergeRule::Counter, MergeRule::Max];

    /// Returns its name in a schema.
    pub fn as_str(self) -> &'static str {
        match self {
            MergeRule::Replace => "replace",
            MergeRule::Append => "append",
            MergeRule::Union => "union",
            MergeRule::Counter => "counter",
            MergeRule::Max => "max",
        }
    }

    /// Returns whether values of a type can be merged by the rule. `kind` is the `type` of a schema.
    fn fits(self, kind: &Value) -> bool {
        let types: &[&str] = match self {
            MergeRule::Replace => return true,
            MergeRule::Append | MergeRule::Union => &["array"],
            MergeRule::Counter => &["integer", "number"],
            MergeRule::Max => &["integer", "number", "string"],
        };
        let is_one = |it: &Value| it.as_str().is_some_and(|it| types.contains(&it));
        match kind {
            Value::Array(kinds) => kinds.iter().any(is_one),
            kind => is_one(kind),
        }
    }

    fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == name)
    }
}

/// The compiled schema of a board.
#[derive(Clone)]
pub struct BoardSchema {
    schema: Arc<Value>,
    validator: SchemaValidator,
    initial: Arc<Value>,
}

impl BoardSchema {
    /// Compiles a schema, or returns why it can't be one of a board. Objects with `properties` take no other fields
    /// unless they say so themselves. The board begins with the defaults of its fields.
    pub fn new(schema: &Value) -> Result<Self, String> {
        let mut closed = schema.clone();
        let Value::Object(root) = &mut closed else { return Err("its schema is not an object".to_owned()) };
        match root.get("type") {
            None => drop(root.insert("type".to_owned(), json!("object"))),
            Some(it) if it == "object" => {}
            Some(other) => return Err(format!("its schema has the type {other}, a board is an `object`")),
        }
        root.entry("properties").or_insert_with(|| Value::Object(Map::new()));
        close(&mut closed)?;
        let validator = SchemaValidator::new(&closed).map_err(|err| format!("its schema: {err}"))?;
        let initial = initial(&closed);
        let made = Self { schema: Arc::new(closed), validator, initial: Arc::new(initial) };
        match made.faults(&made.initial).as_slice() {
            [] => Ok(made),
            faults => Err(format!(
                "a new board does not fit its schema: {}; give required fields a `default`",
                faults.join("; ")
            )),
        }
    }

    /// Returns what a board holds before its first write.
    pub fn initial(&self) -> &Value {
        &self.initial
    }

    /// Returns the schema with its objects closed.
    pub fn value(&self) -> &Value {
        &self.schema
    }

    /// Returns what is wrong with a value, each fault with its path.
    pub fn faults(&self, value: &Value) -> Vec<String> {
        let shown = |path: String, fault: String| match path.is_empty() {
            true => fault,
            false => format!("{path}: {fault}"),
        };
        self.validator.faults(value).into_iter().map(|it| shown(it.path, it.message)).collect()
    }

    /// Returns the rule of the field at a path.
    pub fn rule(&self, path: &Pointer) -> MergeRule {
        let field = path.names().iter().try_fold(self.resolved(&self.schema), |schema, name| {
            let below = field_schema(schema?, name)?;
            Some(self.resolved(below))
        });
        let rule = field.flatten().and_then(|it| it.get(MERGE)?.as_str()).and_then(MergeRule::parse);
        rule.unwrap_or_default()
    }

    /// Follows references within the schema. A rule beside a reference counts.
    fn resolved<'a>(&'a self, schema: &'a Value) -> Option<&'a Value> {
        let mut schema = schema;
        for _ in 0..MAX_REFERENCES {
            let reference = schema.get("$ref").and_then(Value::as_str);
            let Some(reference) = reference.filter(|_| schema.get(MERGE).is_none()) else {
                return Some(schema);
            };
            schema = self.schema.pointer(reference.strip_prefix('#')?)?;
        }
        None
    }
}

impl fmt::Debug for BoardSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BoardSchema").field(&self.schema).finish()
    }
}

fn field_schema<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    let named = schema.get("properties").and_then(|it| it.get(name));
    let item = || {
        let place = index(name)?;
        schema.get("prefixItems").and_then(|it| it.get(place)).or_else(|| schema.get("items"))
    };
    let further = || schema.get("additionalProperties");
    named.or_else(item).or_else(further).filter(|it| it.is_object())
}

/// Refuses further fields in all objects, and unknown merge rules.
fn close(schema: &mut Value) -> Result<(), String> {
    let Value::Object(keywords) = schema else { return Ok(()) };
    let is_unknown = |rule: &&Value| rule.as_str().and_then(MergeRule::parse).is_none();
    if let Some(rule) = keywords.get(MERGE).filter(is_unknown) {
        let known = MergeRule::ALL.map(MergeRule::as_str).join(", ");
        return Err(format!("its schema has the `{MERGE}` {rule}, known are {known}"));
    }
    let rule = keywords.get(MERGE).and_then(Value::as_str).and_then(MergeRule::parse).unwrap_or_default();
    if let Some(other) = keywords.get("type").filter(|it| !rule.fits(it)) {
        let rule = rule.as_str();
        return Err(format!("its schema has the `{MERGE}` \"{rule}\" on a field of type {other}"));
    }
    let is_open = OPEN.iter().any(|it| keywords.contains_key(*it));
    if keywords.contains_key("properties") && !is_open {
        let is_composed = IN_PLACE.iter().any(|it| keywords.contains_key(*it));
        let keyword = if is_composed { "unevaluatedProperties" } else { "additionalProperties" };
        keywords.insert(keyword.to_owned(), Value::Bool(false));
    }
    for (keyword, below) in keywords.iter_mut() {
        match below {
            below if ONE_BELOW.contains(&keyword.as_str()) => close(below)?,
            Value::Object(named) if NAMED_BELOW.contains(&keyword.as_str()) => {
                named.values_mut().try_for_each(close)?;
            }
            Value::Array(each) if keyword == "prefixItems" => each.iter_mut().try_for_each(close)?,
            _ => {}
        }
    }
    Ok(())
}

/// Returns the defaults of the fields.
fn initial(schema: &Value) -> Value {
    let fields = schema["properties"].as_object().into_iter().flatten();
    let defaults = fields.filter_map(|(name, it)| Some((name.clone(), it.get("default")?.clone())));
    Value::Object(defaults.collect())
}
