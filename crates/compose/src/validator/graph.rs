//! A schema as a graph: one node for each subschema, with edges to those that it applies. A schema that exceeds a
//! limit is refused here, before anything is compiled.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{SchemaRefused, pattern};

/// The approximate maximum size of a schema in bytes.
const MAX_BYTES: u64 = 256 * 1024;
/// The maximum nesting depth of its JSON.
const MAX_DEPTH: u64 = 100;
/// The maximum number of subschemas.
const MAX_NODES: u64 = 10_000;
/// The maximum number of references.
const MAX_REFERENCES: u64 = 5_000;
/// The maximum number of patterns.
const MAX_PATTERNS: u64 = 1_000;
/// How many bytes of text count as one unit of work, if only its length matters.
const BYTES_A_STEP: u64 = 64;
/// The cost of a text that is itself compiled as a regular expression.
const COMPILING: u64 = 50_000;

/// A schema as a graph; the first node is the root.
#[derive(Debug, Default)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
}

/// A subschema, with the subschemas that it applies to the same value and to its contents.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// Its location in the schema, as a JSON Pointer.
    pub(super) at: String,
    /// Subschemas that apply to the same value.
    pub(super) same: Vec<usize>,
    pub(super) properties: BTreeMap<String, usize>,
    /// The weights of property name patterns, and their subschemas.
    pub(super) patterns: Vec<(u64, usize)>,
    /// Subschemas for properties that are not listed by name.
    pub(super) other_properties: Vec<usize>,
    /// The subschema for property names.
    pub(super) names: Option<usize>,
    pub(super) first_items: Vec<usize>,
    pub(super) other_items: Vec<usize>,
    /// The subschema that `contains` applies to every item.
    pub(super) contains: Option<usize>,
    /// How often the node is applied to one value, over all paths.
    pub(super) paths: u64,
    /// The work that is the same for every value.
    pub(super) fixed: u64,
    /// The work for each 64 bytes of a text.
    pub(super) of_text: u64,
    /// Whether items are compared with each other.
    pub(super) unique: bool,
    /// Whether properties or items that other subschemas evaluated must be tracked.
    pub(super) unevaluated: bool,
}

impl Graph {
    /// Reads a schema, or refuses it if it exceeds a limit. Paths are not counted yet.
    pub(super) fn read(schema: &Value) -> Result<Self, SchemaRefused> {
        limited("levels of nesting", depth(schema, MAX_DEPTH + 1), MAX_DEPTH)?;
        limited("bytes", bytes(schema), MAX_BYTES)?;
        let mut reader = Reader::new(schema);
        reader.anchors(schema, true)?;
        reader.node(schema, String::new())?;
        while let Some((idx, schema)) = reader.open.pop() {
            reader.fill(idx, schema)?;
        }
        Ok(Self { nodes: reader.nodes })
    }
}

fn limited(what: &'static str, found: u64, limit: u64) -> Result<(), SchemaRefused> {
    if found > limit { Err(SchemaRefused::TooMuch { what, found, limit }) } else { Ok(()) }
}

/// Returns the nesting depth of a value, or `most` if it is deeper.
fn depth(value: &Value, most: u64) -> u64 {
    if most == 0 {
        return 0;
    }
    let deepest = match value {
        Value::Array(items) => items.iter().map(|it| depth(it, most - 1)).max(),
        Value::Object(map) => map.values().map(|it| depth(it, most - 1)).max(),
        _ => return 0,
    };
    1 + deepest.unwrap_or_default()
}

/// Returns the approximate size of a value as text, in bytes.
fn bytes(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 5,
        Value::String(text) => text.len() as u64 + 2,
        Value::Array(items) => 2 + items.iter().map(|it| bytes(it) + 1).sum::<u64>(),
        Value::Object(map) => 2 + map.iter().map(|(key, it)| key.len() as u64 + 4 + bytes(it)).sum::<u64>(),
    }
}

/// Returns the number of values in a value, including itself.
pub(super) fn size(value: &Value) -> u64 {
    match value {
        Value::Array(items) => 1 + items.iter().map(size).sum::<u64>(),
        Value::Object(map) => 1 + map.values().map(size).sum::<u64>(),
        Value::String(text) => 1 + text.len() as u64 / BYTES_A_STEP,
        _ => 1,
    }
}

struct Reader<'a> {
    root: &'a Value,
    nodes: Vec<Node>,
    /// Nodes by the address of their schema: a schema that is referenced several times is one node.
    known: BTreeMap<usize, usize>,
    /// The schemas that are still to be read.
    open: Vec<(usize, &'a Value)>,
    anchors: BTreeMap<&'a str, &'a Value>,
    n_references: u64,
    n_patterns: u64,
}

impl<'a> Reader<'a> {
    fn new(root: &'a Value) -> Self {
        Self {
            root,
            nodes: Vec::new(),
            known: BTreeMap::new(),
            open: Vec::new(),
            anchors: BTreeMap::new(),
            n_references: 0,
            n_patterns: 0,
        }
    }

    /// Finds the anchors that references can use, anywhere in the schema.
    fn anchors(&mut self, value: &'a Value, is_root: bool) -> Result<(), SchemaRefused> {
        let Value::Object(map) = value else {
            let items = value.as_array().into_iter().flatten();
            return items.into_iter().try_for_each(|it| self.anchors(it, false));
        };
        // A nested schema with an id changes the base of its references, so they would resolve differently.
        if !is_root && map.get("$id").or_else(|| self.old_id(map)).is_some_and(Value::is_string) {
            return Err(SchemaRefused::Keyword { keyword: "$id" });
        }
        if let Some(Value::String(name)) = map.get("$anchor")
            && self.anchors.insert(name, value).is_some()
        {
            return Err(SchemaRefused::Invalid(format!("there are two anchors `{name}`")));
        }
        let schemas = map.iter().filter(|(key, _)| !DATA.contains(&key.as_str()));
        schemas.into_iter().try_for_each(|(_, it)| self.anchors(it, false))
    }

    /// Returns the value of `id`, Draft 4's name for `$id`.
    fn old_id(&self, map: &'a Map<String, Value>) -> Option<&'a Value> {
        let is_old =
            self.root.get("$schema").and_then(Value::as_str).is_some_and(|it| it.contains("draft-04"));
        map.get("id").filter(|_| is_old)
    }

    /// Returns the node of a schema, which is read later.
    fn node(&mut self, schema: &'a Value, at: String) -> Result<usize, SchemaRefused> {
        let place = std::ptr::from_ref(schema).addr();
        if let Some(idx) = self.known.get(&place) {
            return Ok(*idx);
        }
        let idx = self.nodes.len();
        limited("subschemas", idx as u64 + 1, MAX_NODES)?;
        self.nodes.push(Node { at, ..Node::default() });
        self.known.insert(place, idx);
        self.open.push((idx, schema));
        Ok(idx)
    }

    fn fill(&mut self, idx: usize, schema: &'a Value) -> Result<(), SchemaRefused> {
        let Value::Object(keywords) = schema else { return Ok(()) };
        for (keyword, value) in keywords {
            let at = format!("{}/{keyword}", self.nodes[idx].at);
            self.keyword(idx, keyword, value, at)?;
        }
        Ok(())
    }

    fn keyword(
        &mut self,
        idx: usize,
        keyword: &str,
        value: &'a Value,
        at: String,
    ) -> Result<(), SchemaRefused> {
        match (keyword, value) {
            ("$ref", Value::String(reference)) => {
                self.n_references += 1;
                limited("references", self.n_references, MAX_REFERENCES)?;
                let target = self.resolve(reference)?;
                let at = reference.trim_start_matches('#').to_owned();
                let target = self.node(target, at)?;
                self.nodes[idx].same.push(target);
            }
            ("$dynamicRef", _) => return Err(SchemaRefused::Keyword { keyword: "$dynamicRef" }),
            ("$recursiveRef", _) => return Err(SchemaRefused::Keyword { keyword: "$recursiveRef" }),
            ("allOf" | "anyOf" | "oneOf", Value::Array(all)) => {
                let each = self.each(all.iter(), &at)?;
                self.nodes[idx].same.extend(each);
            }
            ("not" | "if" | "then" | "else", _) => {
                let node = self.node(value, at)?;
                self.nodes[idx].same.push(node);
            }
            ("dependentSchemas" | "dependencies", Value::Object(map)) => {
                let each = self.each(map.values().filter(|it| !it.is_array()), &at)?;
                self.nodes[idx].same.extend(each);
            }
            ("$defs" | "definitions", Value::Object(map)) => drop(self.each(map.values(), &at)?),
            ("contentSchema", _) => drop(self.node(value, at)?),
            _ => return self.inner(idx, keyword, value, at),
        }
        Ok(())
    }

    /// Reads a keyword that applies to the contents of a value.
    fn inner(
        &mut self,
        idx: usize,
        keyword: &str,
        value: &'a Value,
        at: String,
    ) -> Result<(), SchemaRefused> {
        match (keyword, value) {
            ("properties", Value::Object(map)) => {
                let each = self.each(map.values(), &at)?;
                let node = &mut self.nodes[idx];
                node.properties = map.keys().cloned().zip(each).collect();
                node.fixed += map.len() as u64 / 8;
            }
            ("patternProperties", Value::Object(map)) => {
                let weights = map.keys().map(|it| self.pattern(it)).collect::<Result<Vec<_>, _>>()?;
                let each = self.each(map.values(), &at)?;
                self.nodes[idx].patterns = weights.into_iter().zip(each).collect();
            }
            ("additionalProperties" | "unevaluatedProperties", _) => {
                let node = self.node(value, at)?;
                self.nodes[idx].other_properties.push(node);
                self.nodes[idx].unevaluated |= keyword.starts_with('u');
            }
            ("propertyNames", _) => self.nodes[idx].names = Some(self.node(value, at)?),
            ("items" | "prefixItems", Value::Array(all)) => {
                self.nodes[idx].first_items = self.each(all.iter(), &at)?;
            }
            ("items" | "additionalItems" | "unevaluatedItems", _) => {
                let node = self.node(value, at)?;
                self.nodes[idx].other_items.push(node);
                self.nodes[idx].unevaluated |= keyword.starts_with('u');
            }
            ("contains", _) => self.nodes[idx].contains = Some(self.node(value, at)?),
            _ => return self.leaf(idx, keyword, value),
        }
        Ok(())
    }

    /// Reads a keyword without subschemas.
    fn leaf(&mut self, idx: usize, keyword: &str, value: &'a Value) -> Result<(), SchemaRefused> {
        let pattern = match (keyword, value) {
            ("pattern", Value::String(pattern)) => self.pattern(pattern)?.saturating_mul(2),
            _ => 0,
        };
        let node = &mut self.nodes[idx];
        match (keyword, value) {
            ("enum" | "const" | "required" | "dependentRequired" | "dependencies", _) => {
                node.fixed += size(value);
            }
            ("uniqueItems", Value::Bool(true)) => node.unique = true,
            ("format", Value::String(name)) if name == "regex" => node.fixed += COMPILING,
            ("minLength" | "maxLength" | "format" | "contentEncoding" | "contentMediaType", _) => {
                node.of_text += 2;
            }
            _ => node.of_text = node.of_text.saturating_add(pattern),
        }
        Ok(())
    }

    fn each(
        &mut self,
        schemas: impl Iterator<Item = &'a Value>,
        at: &str,
    ) -> Result<Vec<usize>, SchemaRefused> {
        schemas.enumerate().map(|(idx, it)| self.node(it, format!("{at}/{idx}"))).collect()
    }

    fn pattern(&mut self, pattern: &str) -> Result<u64, SchemaRefused> {
        self.n_patterns += 1;
        limited("patterns", self.n_patterns, MAX_PATTERNS)?;
        let shown: String = pattern.chars().take(60).collect();
        pattern::weight(pattern)
            .ok_or_else(|| SchemaRefused::Invalid(format!("the pattern `{shown}` is too large")))
    }

    /// Returns the schema that a reference points to.
    fn resolve(&self, reference: &str) -> Result<&'a Value, SchemaRefused> {
        let nowhere = || SchemaRefused::Reference { reference: reference.chars().take(200).collect() };
        let own = self.root.get("$id").and_then(Value::as_str).unwrap_or_default().trim_end_matches('#');
        let (base, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        if !base.is_empty() && base != own {
            return Err(nowhere());
        }
        let fragment = decoded(fragment).ok_or_else(nowhere)?;
        let found = match fragment.is_empty() || fragment.starts_with('/') {
            true => self.root.pointer(&fragment),
            false => self.anchors.get(fragment.as_str()).copied(),
        };
        found.ok_or_else(nowhere)
    }
}

/// Keywords whose values are data, even if they look like schemas.
const DATA: [&str; 4] = ["enum", "const", "default", "examples"];

/// Decodes percent-encoding; `None` if the result is not text.
fn decoded(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let hex = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&hex).ok()?, 16).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}
