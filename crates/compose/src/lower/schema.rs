//! Input schemas, merged from all owners and checked owner by owner.
//!
//! The rules in full:
//!
//! 1. Top-level properties merge. If two owners declare the same key differently, the error names the key and both
//!    owners, unless the prompt lists the key under `override`: then its own declaration wins.
//! 2. Each owner's schema is validated separately, so that a fault names its owner. Owners that are always included
//!    are validated before any gate; others as soon as their branch is active.
//! 3. Every reader can see unknown keys, unless the prompt's own schema closes the object.

use std::collections::BTreeSet;
use std::sync::Arc;

use contexture_template::did_you_mean;
use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use crate::{Error, ErrorKind, InputFault, Schema, SchemaFault, SchemaRefused, SchemaValidator, Source};

/// The schema of one owner, ready to validate.
#[derive(Debug)]
pub(crate) struct OwnedSchema {
    pub(crate) owner: Source,
    pub(crate) schema: Schema,
    validator: SchemaValidator,
}

impl OwnedSchema {
    /// Compiles the schema of `owner`, without the keys that another owner overrides.
    pub(crate) fn new(owner: Source, schema: &Schema, without: &[String]) -> Result<Self, Error> {
        let mut value = (**schema.value()).clone();
        if let Some(object) = value.as_object_mut() {
            // Whether further keys are allowed depends on all owners together: see `unknown_keys`.
            object.shift_remove("additionalProperties");
            if !without.is_empty() {
                remove_keys(object, without);
            }
        }
        let validator = SchemaValidator::new(&value).map_err(|refused| {
            let fault = match refused {
                // The error itself already says that the schema is invalid.
                SchemaRefused::Invalid(fault) => fault,
                other => other.to_string(),
            };
            Error::from(ErrorKind::SchemaInvalid { owner: owner.clone(), fault })
        })?;
        Ok(Self { owner, schema: Schema::from_json(value), validator })
    }

    /// Adds defaults for missing keys to `input`.
    pub(crate) fn apply_defaults(&self, input: &mut Value) {
        apply_defaults(self.schema.value(), input);
    }

    /// Lists the faults of `input`.
    pub(crate) fn faults(&self, input: &Value) -> Vec<InputFault> {
        self.validator.faults(input).into_iter().map(|it| self.fault(it)).collect()
    }

    /// Lists the faults of those keys that are present in `input`.
    pub(crate) fn faults_of_present(&self, input: &Value) -> Vec<InputFault> {
        let is_about_absence = |it: &InputFault| it.rule == "required" && it.path.matches('.').count() == 1;
        self.faults(input).into_iter().filter(|it| !is_about_absence(it)).collect()
    }

    fn fault(&self, fault: SchemaFault) -> InputFault {
        let SchemaFault { path, keyword: rule, missing, message, .. } = fault;
        let path = dotted(&path);
        let (path, message) = match missing {
            Some(property) => (format!("{path}.{property}"), "is required".to_owned()),
            None => (path, message),
        };
        InputFault { path, rule, owner: self.owner.clone(), message }
    }
}

/// The merged schema of all owners.
#[derive(Debug, Default)]
pub(crate) struct InputSchema {
    /// Owners that are always included.
    pub(crate) base: Vec<Arc<OwnedSchema>>,
    /// Every declared key with its schema, in resolved order.
    pub(crate) properties: IndexMap<String, Value>,
    /// The keys that every input needs.
    pub(crate) required: Vec<String>,
    closed: bool,
    /// The schema for undeclared keys.
    others: Option<OwnedSchema>,
}

/// Keywords that let a schema accept keys that it does not list.
const OPEN: [&str; 7] =
    ["$ref", "allOf", "anyOf", "if", "oneOf", "patternProperties", "unevaluatedProperties"];

impl InputSchema {
    /// Lists the undeclared keys of `input`, each with the key that may be meant. Empty if no key is declared at all
    /// or if further keys are expected.
    pub(crate) fn undeclared(&self, input: &Value) -> Vec<String> {
        let is_open = |it: &Arc<OwnedSchema>| OPEN.iter().any(|word| it.schema.value().get(word).is_some());
        let Some(input) = input.as_object() else { return Vec::new() };
        if self.properties.is_empty() || self.others.is_some() || self.base.iter().any(is_open) {
            return Vec::new();
        }
        let unknown = input.keys().filter(|it| !self.properties.contains_key(*it));
        unknown
            .map(|key| {
                let hint = did_you_mean(key, self.properties.keys().map(String::as_str));
                let hint = hint.map(|it| format!("; {it}")).unwrap_or_default();
                format!("no schema declares the input key `{}`{hint}", short_key(key))
            })
            .collect()
    }

    /// Merges the schemas of all owners; the flag says which are always included.
    pub(crate) fn merge(owners: Vec<(Arc<OwnedSchema>, bool)>, own: Option<&Schema>) -> Result<Self, Error> {
        let others = own.and_then(Schema::additional).map(Schema::from_json);
        let others = others.map(|it| OwnedSchema::new(Source::Prompt, &it, &[])).transpose()?;
        let mut merged = Self { closed: own.is_some_and(Schema::is_closed), others, ..Self::default() };
        let mut declared: IndexMap<String, (&Arc<OwnedSchema>, Value)> = IndexMap::new();
        let mut errors = Vec::new();
        for (owned, is_base) in &owners {
            for (key, schema) in owned.schema.properties() {
                match declared.get(&key) {
                    Some((first, known)) if !same(first, known, owned, &schema) => {
                        let difference = difference(known, &schema, &key);
                        let (first, second) = (first.owner.clone(), owned.owner.clone());
                        errors.push(ErrorKind::SchemaConflict { key, first, second, difference }.into());
                    }
                    Some(_) => {}
                    None => {
                        declared.insert(key, (owned, schema));
                    }
                }
            }
            if *is_base {
                merged.require(&owned.schema);
            }
        }
        Error::all(errors)?;
        merged.properties = declared.into_iter().map(|(key, (_, schema))| (key, schema)).collect();
        merged.base = owners.into_iter().filter(|(_, is_base)| *is_base).map(|(owned, _)| owned).collect();
        Ok(merged)
    }

    fn require(&mut self, schema: &Schema) {
        for key in schema.required() {
            if !self.required.contains(&key) {
                self.required.push(key);
            }
        }
    }

    /// Lists the faults of undeclared keys: that they are present, if the prompt closes its input, or that they do
    /// not match the schema for additional keys.
    pub(crate) fn unknown_keys(&self, input: &Value) -> Vec<InputFault> {
        let keys = input.as_object().into_iter().flat_map(Map::iter);
        let unknown = keys.filter(|(key, _)| !self.properties.contains_key(*key));
        unknown.flat_map(|(key, value)| self.unknown_key(key, value)).collect()
    }

    fn unknown_key(&self, key: &str, value: &Value) -> Vec<InputFault> {
        let path = format!("input.{key}");
        if self.closed {
            let rule = "additionalProperties".to_owned();
            let message = "is not a key of the input".to_owned();
            return vec![InputFault { path, rule, owner: Source::Prompt, message }];
        }
        let faults = self.others.iter().flat_map(|it| it.faults(value));
        faults.map(|it| InputFault { path: it.path.replacen("input", &path, 1), ..it }).collect()
    }

    /// Returns the merged JSON Schema.
    pub(crate) fn to_json(&self) -> Value {
        let mut schema = json!({"type": "object", "properties": self.properties});
        if !self.required.is_empty() {
            schema["required"] = json!(self.required);
        }
        if self.closed {
            schema["additionalProperties"] = Value::Bool(false);
        }
        schema
    }
}

/// Returns whether two declarations, and the definitions that they refer to, have the same constraints. Annotations
/// do not matter.
fn same(first: &OwnedSchema, known: &Value, second: &OwnedSchema, schema: &Value) -> bool {
    let definitions = |it: &OwnedSchema| it.schema.definitions().map(without_annotations);
    without_annotations(known) == without_annotations(schema)
        && (!has_reference(schema) || definitions(first) == definitions(second))
}

/// Keywords that do not constrain values.
const ANNOTATIONS: [&str; 6] = ["title", "description", "examples", "$comment", "deprecated", "readOnly"];

/// Returns a schema without annotations. Properties keep their names, even if those look like annotations.
fn without_annotations(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let kept =
                fields.iter().filter(|(key, it)| !ANNOTATIONS.contains(&key.as_str()) || it.is_object());
            let bare = |(key, it): (&String, &Value)| match (key.as_str(), it) {
                ("const" | "enum" | "default", it) => (key.clone(), it.clone()),
                (_, it) => (key.clone(), without_annotations(it)),
            };
            Value::Object(kept.map(bare).collect())
        }
        Value::Array(items) => items.iter().map(without_annotations).collect(),
        _ => schema.clone(),
    }
}

/// Describes the first difference between two declarations: the keyword and both values.
fn difference(first: &Value, second: &Value, at: &str) -> String {
    match (first, second) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            let differing = keys.into_iter().find(|key| {
                let bare = |it: Option<&Value>| it.map(without_annotations);
                let is_word =
                    ANNOTATIONS.contains(&key.as_str()) && !a.get(*key).is_some_and(Value::is_object);
                !is_word && bare(a.get(*key)) != bare(b.get(*key))
            });
            match differing {
                Some(key) => {
                    let absent = Value::String("nothing".to_owned());
                    let (a, b) = (a.get(key).unwrap_or(&absent), b.get(key).unwrap_or(&absent));
                    difference(a, b, &format!("{at}.{key}"))
                }
                None => format!("what `{at}` refers to"),
            }
        }
        (first, second) => format!("`{at}` is {} and {}", short(first), short(second)),
    }
}

fn short(value: &Value) -> String {
    const MOST: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn short_key(key: &str) -> String {
    key.chars().take(100).collect()
}

fn has_reference(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => fields.contains_key("$ref") || fields.values().any(has_reference),
        Value::Array(items) => items.iter().any(has_reference),
        _ => false,
    }
}

fn remove_keys(schema: &mut Map<String, Value>, keys: &[String]) {
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        keys.iter().for_each(|key| {
            properties.shift_remove(key);
        });
    }
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|it| !keys.iter().any(|key| it == key));
    }
}

fn apply_defaults(schema: &Value, input: &mut Value) {
    let (Some(properties), Some(input)) =
        (schema.get("properties").and_then(Value::as_object), input.as_object_mut())
    else {
        return;
    };
    for (key, property) in properties {
        match (input.get_mut(key), property.get("default")) {
            (Some(present), _) => apply_defaults(property, present),
            (None, Some(default)) => {
                let mut value = default.clone();
                apply_defaults(property, &mut value);
                input.insert(key.clone(), value);
            }
            (None, None) => {}
        }
    }
}

/// Turns a JSON pointer into the notation of templates: `/items/2/price` becomes `input.items[2].price`.
fn dotted(pointer: &str) -> String {
    pointer.split('/').skip(1).fold("input".to_owned(), |path, step| {
        let step = step.replace("~1", "/").replace("~0", "~");
        match step.parse::<usize>() {
            Ok(position) => format!("{path}[{position}]"),
            Err(_) => format!("{path}.{step}"),
        }
    })
}
