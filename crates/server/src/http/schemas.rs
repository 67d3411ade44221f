//! Schemas of bodies and events, derived from the types that are read and written.
//!
//! The types derive [`JsonSchema`]; [`accepts!`] and [`returns!`] hand their schemas to utoipa. Generators of clients
//! are picky, so schemas are tidied: no boolean schemas, no `default` (generators make such fields required), enums
//! instead of lists of constants, and a component of its own for each variant of a union.
//!
//! A type that is accepted and returned has one schema, that of what is accepted: fields with a default are optional.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::marker::PhantomData;

use schemars::generate::{Contract, SchemaSettings};
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};
use utoipa::openapi::schema::{ObjectBuilder, SchemaType};
use utoipa::openapi::{Ref, RefOr};

/// The path of the schemas in the document.
const PATH: &str = "/components/schemas";
/// Marks schemas by contract until [`merge_contracts`] merges them.
const ACCEPTED: &str = "accepted:";
const RETURNED: &str = "returned:";

/// Describes types as request bodies.
macro_rules! accepts {
    ($($body:ident),+ $(,)?) => {$(
        $crate::http::schemas::body!($body, $body, schemars::generate::Contract::Deserialize);
    )+};
}

/// Describes types as response bodies or events. `Name = path::Type` names a type of another crate.
macro_rules! returns {
    (@one $body:ident) => {
        $crate::http::schemas::body!($body, $body, schemars::generate::Contract::Serialize);
    };
    (@one $body:ident $of:ty) => {
        pub(crate) enum $body {}
        $crate::http::schemas::body!($body, $of, schemars::generate::Contract::Serialize);
    };
    ($($body:ident $(= $of:ty)?),+ $(,)?) => {$(
        $crate::http::schemas::returns!(@one $body $($of)?);
    )+};
}

macro_rules! body {
    ($body:ident, $of:ty, $contract:expr) => {
        impl utoipa::PartialSchema for $body {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                $crate::http::schemas::reference::<$of>()
            }
        }

        impl utoipa::ToSchema for $body {
            fn name() -> std::borrow::Cow<'static, str> {
                <$of as schemars::JsonSchema>::schema_name()
            }

            fn schemas(list: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::schema::Schema>)>) {
                list.extend($crate::http::schemas::definitions::<$of>($contract));
            }
        }
    };
}

pub(crate) use {accepts, body, returns};

type UtoipaSchema = RefOr<utoipa::openapi::schema::Schema>;

/// A server-sent event whose `data` is a value as JSON, for the document.
pub(crate) struct Frame<T>(PhantomData<T>);

impl<T: JsonSchema> JsonSchema for Frame<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("{}Frame", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let event = generator.subschema_for::<T>();
        json_schema!({
            "description": format!("A frame of an event stream with a `{}`.", T::schema_name()),
            "type": "object",
            "properties": {
                "id": {
                    "description": "The id of the event, for `Last-Event-ID`; treat it as opaque.",
                    "type": "string",
                    "pattern": r"^[0-9]+(\+[0-9]+)?(~[0-9.,]+)?$",
                },
                "event": {"description": "The `type` of the event.", "type": "string"},
                "data": {
                    "description": "The event as JSON, on one line.",
                    "type": "string",
                    "contentMediaType": "application/json",
                    "contentSchema": event,
                },
            },
            "required": ["event", "data"],
        })
    }
}

/// Returns a reference to the schema of a type.
pub(crate) fn reference<T: JsonSchema>() -> UtoipaSchema {
    Ref::from_schema_name(T::schema_name()).into()
}

/// Returns the schema of a type and of all types in it, by name.
pub(crate) fn definitions<T: JsonSchema>(contract: Contract) -> Vec<(String, UtoipaSchema)> {
    let prefix = if contract == Contract::Deserialize { ACCEPTED } else { RETURNED };
    let settings = SchemaSettings::draft2020_12().with_transform(RecursiveTransform(tidy)).with(|it| {
        it.definitions_path = PATH.into();
        it.contract = contract;
    });
    let mut generator = settings.into_generator();
    generator.subschema_for::<T>();
    let mut variants = BTreeMap::new();
    let mut definitions = generator.take_definitions(true);
    place_events(&mut definitions);
    for (name, schema) in &mut definitions {
        split_union(name, schema, &mut variants);
    }
    definitions
        .into_iter()
        .chain(variants)
        .map(|(name, schema)| (format!("{prefix}{name}"), verbatim(schema)))
        .collect()
}

/// Returns a schema for utoipa, whose own types do not hold every keyword. It writes extensions as they are.
fn verbatim(schema: Value) -> UtoipaSchema {
    let Value::Object(fields) = schema else { return RefOr::default() };
    let object = ObjectBuilder::new().schema_type(SchemaType::AnyValue);
    object.extensions(Some(fields.into_iter().collect())).build().into()
}

/// Describes events as sent: most name their thread and turn, and only the client of a turn gets the tokens of its
/// approvals.
fn place_events(definitions: &mut Map<String, Value>) {
    let mut approval = definitions.get("ApprovalRequest").cloned().unwrap_or_default();
    let Some(Value::Array(variants)) = definitions.get_mut("TurnEvent").and_then(|it| it.get_mut("oneOf"))
    else {
        return;
    };
    for variant in variants.iter_mut() {
        for (name, text) in [("thread", "The id of the thread."), ("turn", "The turn, such as `t7`.")] {
            if variant["properties"][name].is_null() {
                variant["properties"][name] = json!({"description": text, "type": "string"});
            }
        }
        if let Some(reference) = variant.pointer_mut("/properties/approval/$ref") {
            *reference = format!("#{PATH}/PublishedApproval").into();
        }
    }
    if let Some(Value::Array(required)) = approval.get_mut("required") {
        required.retain(|it| it != "token");
    }
    definitions.insert("PublishedApproval".to_owned(), approval);
}

/// Gives each type of a finished document one schema.
pub(crate) fn merge_contracts(components: &mut Map<String, Value>) {
    for prefix in [RETURNED, ACCEPTED] {
        let names: Vec<String> = components.keys().filter(|it| it.starts_with(prefix)).cloned().collect();
        for name in names {
            if let Some(schema) = components.remove(&name) {
                components.insert(name.trim_start_matches(prefix).to_owned(), schema);
            }
        }
    }
    // utoipa keeps extensions in random order.
    components.values_mut().filter_map(Value::as_object_mut).for_each(Map::sort_keys);
    components.sort_keys();
}

/// Rewrites a schema so that generators understand it.
fn tidy(schema: &mut Schema) {
    if schema.as_bool() == Some(true) {
        *schema = Schema::default();
    }
    let Some(fields) = schema.as_object_mut() else { return };
    fields.shift_remove("default");
    if fields.get("additionalProperties") == Some(&Value::Bool(true)) {
        fields.insert("additionalProperties".to_owned(), json!({}));
    }
    if let Some(Value::String(text)) = fields.get_mut("description") {
        *text = plain(text);
    }
    let range = match fields.get("format").and_then(Value::as_str) {
        Some("uint8") => Some((0, i64::from(u8::MAX))),
        Some("uint16") => Some((0, i64::from(u16::MAX))),
        Some("uint32") => Some((0, i64::from(u32::MAX))),
        Some("int32") => Some((i64::from(i32::MIN), i64::from(i32::MAX))),
        _ => None,
    };
    if let Some((least, most)) = range {
        fields.entry("minimum").or_insert(least.into());
        fields.entry("maximum").or_insert(most.into());
    }
    join_constants(fields);
}

/// Returns a doc comment without code blocks and links.
fn plain(text: &str) -> String {
    let prose: Vec<&str> = text.split("```").step_by(2).map(str::trim).filter(|it| !it.is_empty()).collect();
    prose.join("\n\n").replace("[`", "`").replace("`]", "`")
}

/// Replaces the constants of a union by one enum.
fn join_constants(fields: &mut Map<String, Value>) {
    let Some(Value::Array(variants)) = fields.get_mut("oneOf") else { return };
    let is_name = |it: &Value| it["const"].is_string() || it["enum"].is_array();
    let (names, others): (Vec<Value>, Vec<Value>) = variants.drain(..).partition(is_name);
    let values: Vec<&Value> = names
        .iter()
        .flat_map(|it| it["enum"].as_array().map_or_else(|| vec![&it["const"]], |it| it.iter().collect()))
        .collect();
    let texts = names.iter().filter_map(|it| Some((it["const"].as_str()?, it["description"].as_str()?)));
    let texts: Vec<String> = texts.map(|(name, text)| format!("- `{name}`: {text}")).collect();
    let mut joined = Map::new();
    joined.insert("type".to_owned(), "string".into());
    joined.insert("enum".to_owned(), json!(values));
    if others.is_empty() {
        let text = [fields.get("description").and_then(Value::as_str).unwrap_or_default(), &texts.join("\n")];
        joined.insert("description".to_owned(), text.join("\n\n").trim().into());
        fields.shift_remove("oneOf");
        fields.append(&mut joined);
    } else {
        if !texts.is_empty() {
            joined.insert("description".to_owned(), texts.join("\n").into());
        }
        variants.extend((!values.is_empty()).then_some(Value::Object(joined)));
        variants.extend(others);
    }
}

/// Moves the variants of a union to components of their own, and names the field that tells them apart.
fn split_union(union: &str, schema: &mut Value, components: &mut BTreeMap<String, Value>) {
    let Some(Value::Array(variants)) = schema.get_mut("oneOf") else { return };
    let mut mapping = Map::new();
    for variant in variants.iter_mut() {
        let tag = variant["properties"]["type"]["const"].as_str().map(str::to_owned);
        let name = match (&tag, variant["required"].as_array().map(Vec::as_slice)) {
            (Some(tag), _) => variant_name(union, tag),
            (None, Some([Value::String(key)])) => variant_name(union, key),
            (None, _) if variant["enum"].is_array() => format!("{union}Name"),
            (None, _) => continue,
        };
        let reference = format!("#{PATH}/{name}");
        components.insert(name, std::mem::replace(variant, json!({"$ref": reference})));
        mapping.extend(tag.map(|tag| (tag, reference.into())));
    }
    if !mapping.is_empty() {
        schema["discriminator"] = json!({"propertyName": "type", "mapping": mapping});
    }
}

/// Names a variant by its tag and the last word of the union: `text` of `Part` is a `TextPart`.
fn variant_name(union: &str, tag: &str) -> String {
    let capitalized = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|it| it.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
    };
    let tag: String = tag.split(['.', '_', '-']).map(capitalized).collect();
    let last_word = union.rfind(|it: char| it.is_ascii_uppercase()).map_or("", |at| &union[at..]);
    let name = format!("{tag}{last_word}");
    if name == union { format!("{union}{tag}") } else { name }
}
