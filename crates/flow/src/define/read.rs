//! Parses a definition from JSON. Every fault names its field, so callers can map it to a line of the file.

use contexture_message::ErrorCode;
use indexmap::IndexMap;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::kind::{NodeKind, typed};
use super::node::{NodeDefinition, OnError, Retry};
use super::{FlowDefinition, Limits};
use crate::port::type_of;
use crate::{FlowFault, FlowInvalid};

/// The fields that all nodes have.
const COMMON: [&str; 7] = ["type", "with", "keep", "timeout_seconds", "retry", "on_error", "repeat"];
const FIELDS: [&str; 7] = ["id", "description", "inputs", "nodes", "edges", "outputs", "limits"];

impl FlowDefinition {
    /// Reads a definition from a JSON document. `id` is its name where the document gives none.
    ///
    /// ```
    /// use contexture_flow::FlowDefinition;
    ///
    /// let document = serde_json::json!({
    ///     "nodes": {
    ///         "ask": {"type": "user_input", "message": "What is it?"},
    ///         "answer": {"type": "llm_request", "prompt": "chat"},
    ///     },
    ///     "edges": ["start -> ask", "ask.value -> answer.user", "answer -> ask"],
    /// });
    /// let flow = FlowDefinition::read("chat", &document)?;
    /// assert_eq!(flow.nodes.len(), 2);
    ///
    /// let wrong = serde_json::json!({"nodes": {"ask": {"type": "user_input", "mesage": "?"}}});
    /// let invalid = FlowDefinition::read("chat", &wrong).unwrap_err();
    /// assert_eq!(invalid.faults[0].at, ["nodes", "ask", "mesage"]);
    /// # Ok::<(), contexture_flow::FlowInvalid>(())
    /// ```
    pub fn read(id: &str, document: &Value) -> Result<Self, FlowInvalid> {
        let mut faults = Vec::new();
        let definition = read(id, document, &mut faults);
        match (faults.is_empty(), definition) {
            (true, Some(definition)) => Ok(definition),
            _ => Err(FlowInvalid { flow: id.to_owned(), faults }),
        }
    }
}

fn read(id: &str, document: &Value, faults: &mut Vec<FlowFault>) -> Option<FlowDefinition> {
    let Value::Object(map) = document else {
        faults.push(FlowFault::invalid(format!("a flow is a map of fields, not {}", type_of(document))));
        return None;
    };
    for name in map.keys().filter(|it| !FIELDS.contains(&it.as_str())) {
        faults.push(unknown(name, &FIELDS, &[name]));
    }
    let mut fields = Fields { of: String::new(), map, at: Vec::new(), faults };
    Some(FlowDefinition {
        id: fields.take("id").unwrap_or_else(|| id.to_owned()),
        description: fields.take("description").unwrap_or_default(),
        inputs: fields.each("inputs"),
        edges: fields.list("edges"),
        outputs: fields.each("outputs"),
        limits: fields.take::<Limits>("limits").unwrap_or_default(),
        nodes: nodes(map.get("nodes"), fields.faults),
    })
}

fn nodes(value: Option<&Value>, faults: &mut Vec<FlowFault>) -> IndexMap<String, NodeDefinition> {
    let none = Map::new();
    let map = match value {
        None | Some(Value::Null) => &none,
        Some(Value::Object(map)) => map,
        Some(other) => {
            let message = format!("`nodes` is a map of names and nodes, not {}", type_of(other));
            faults.push(FlowFault::invalid(message).at(["nodes"]));
            &none
        }
    };
    map.iter().filter_map(|(id, value)| Some((id.clone(), node(id, value, faults)?))).collect()
}

fn node(id: &str, value: &Value, faults: &mut Vec<FlowFault>) -> Option<NodeDefinition> {
    let at = vec!["nodes".to_owned(), id.to_owned()];
    let Value::Object(map) = value else {
        faults.push(
            FlowFault::invalid(format!("node `{id}` is a map of fields, not {}", type_of(value))).at(at),
        );
        return None;
    };
    let Some(Value::String(kind)) = map.get("type") else {
        faults.push(FlowFault::invalid(format!("node `{id}` has no `type`")).at(at).known(NodeKind::NAMES));
        return None;
    };
    let config = map.iter().filter(|(name, _)| !COMMON.contains(&name.as_str()));
    let config = Value::Object(config.map(|(name, value)| (name.clone(), value.clone())).collect());
    let before = faults.len();
    let kind = NodeKind::read(kind, &config);
    let kind = kind.map_err(|it| faults.push(it.within(&format!("node `{id}`"), &at))).ok();
    let mut fields = Fields { of: format!("node `{id}`: "), map, at, faults };
    let node = NodeDefinition {
        with: fields.each("with"),
        keep: fields.list("keep"),
        timeout_seconds: fields.seconds("timeout_seconds"),
        retry: fields.take::<Retry>("retry").unwrap_or_default(),
        on_error: fields.take::<OnError>("on_error").unwrap_or_default(),
        repeat: fields.take("repeat"),
        kind: kind?,
    };
    (faults.len() == before).then_some(node)
}

fn unknown(name: &str, known: &[&str], at: &[&str]) -> FlowFault {
    let fault = FlowFault::new(ErrorCode::UnknownField, format!("there is no field `{name}`"));
    fault.at(at).known(known)
}

/// Reads the fields of a map, and keeps what is wrong.
struct Fields<'a> {
    /// The owner of the fields, for messages.
    of: String,
    map: &'a Map<String, Value>,
    at: Vec<String>,
    faults: &'a mut Vec<FlowFault>,
}

impl Fields<'_> {
    fn take<T: DeserializeOwned>(&mut self, name: &str) -> Option<T> {
        let value = self.map.get(name).filter(|it| !it.is_null())?;
        self.value(vec![name.to_owned()], value)
    }

    fn each<T: DeserializeOwned>(&mut self, name: &str) -> IndexMap<String, T> {
        let Some(value) = self.map.get(name).filter(|it| !it.is_null()) else { return IndexMap::new() };
        let Value::Object(map) = value else {
            self.fault(vec![name.to_owned()], format!("`{name}` is a map, not {}", type_of(value)));
            return IndexMap::new();
        };
        let each = map.iter();
        each.filter_map(|(key, value)| {
            let path = vec![name.to_owned(), key.clone()];
            Some((key.clone(), self.value(path, value)?))
        })
        .collect()
    }

    fn list<T: DeserializeOwned>(&mut self, name: &str) -> Vec<T> {
        let Some(value) = self.map.get(name).filter(|it| !it.is_null()) else { return Vec::new() };
        let Value::Array(items) = value else {
            self.fault(vec![name.to_owned()], format!("`{name}` is a list, not {}", type_of(value)));
            return Vec::new();
        };
        let each = items.iter().enumerate();
        each.filter_map(|(idx, value)| self.value(vec![name.to_owned(), idx.to_string()], value)).collect()
    }

    fn seconds(&mut self, name: &str) -> Option<f64> {
        let seconds: f64 = self.take(name)?;
        if seconds > 0.0 && seconds <= MAX_SECONDS {
            return Some(seconds);
        }
        self.fault(vec![name.to_owned()], format!("`{name}` is a number above 0, at most {MAX_SECONDS}"));
        None
    }

    fn value<T: DeserializeOwned>(&mut self, path: Vec<String>, value: &Value) -> Option<T> {
        let (part, at) = (format!("{}`{}`", self.of, path.join(".")), [self.at.as_slice(), &path].concat());
        typed(value).map_err(|it| self.faults.push(it.within(&part, &at))).ok()
    }

    fn fault(&mut self, path: Vec<String>, message: String) {
        self.faults.push(FlowFault::invalid(format!("{}{message}", self.of)).at(self.at.iter().chain(&path)));
    }
}

/// A year: longer waits are slips of the pen, and the arithmetic of time has its limits.
const MAX_SECONDS: f64 = 31_536_000.0;
