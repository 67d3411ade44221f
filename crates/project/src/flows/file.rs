//! Parses one flow file into its definition and a tree of source positions.
//!
//! Input is YAML, output is a [`FlowFile`]. Faults from the flow crate carry a path in the document; this module adds
//! the file, line and column. The position is that of the deepest value along the path, or of its key if the fault
//! concerns a whole list or map. Checks that need another file are made elsewhere.

use std::sync::Arc;

use contexture_flow::{FlowDefinition, FlowFault, NodeKind};
use contexture_template::{Condition, ParseConfig, Template};

use crate::error::{Fault, Place, Problem, ProjectError};
use crate::source::yaml::{self, Data, Node};
use contexture_template::did_you_mean;

/// The folder that holds the flows.
const FOLDER: &str = "flows/";

/// A parsed flow file.
#[derive(Debug)]
pub(crate) struct FlowFile {
    pub(crate) file: String,
    /// The flow's id: the declared one, otherwise derived from the file name.
    pub(crate) id: String,
    /// `None` if the file has a fault.
    pub(crate) definition: Option<Arc<FlowDefinition>>,
    /// Faults of this file alone.
    pub(crate) faults: Vec<Fault>,
    tree: Node,
}

/// Returns the id of a flow that declares none: its path below `flows/`, without the extension.
pub(crate) fn flow_name(file: &str) -> &str {
    let name = file.strip_prefix(FOLDER).unwrap_or(file);
    name.strip_suffix(".yaml").or_else(|| name.strip_suffix(".yml")).unwrap_or(name)
}

/// Reads a flow file. Faults are collected in the result.
pub(crate) fn flow_file(file: &str, text: Result<&str, ProjectError>) -> FlowFile {
    let text = match text {
        Ok(text) => text,
        Err(err) => return FlowFile { faults: err.faults, ..FlowFile::empty(file) },
    };
    // Windows editors may start a file with a byte-order mark.
    let (tree, problems) = yaml::parse(text.strip_prefix('\u{feff}').unwrap_or(text), 1);
    let faults = problems.into_iter().map(|it| it.into_fault(file)).collect();
    let Some(tree) = tree else { return FlowFile { faults, ..FlowFile::empty(file) } };
    let id = declared_id(&tree).unwrap_or_else(|| flow_name(file).to_owned());
    let mut read = FlowFile { id, faults, tree, ..FlowFile::empty(file) };
    match FlowDefinition::read(flow_name(file), &read.tree.to_json()) {
        Ok(definition) => read.definition = Some(Arc::new(definition)),
        Err(invalid) => {
            let faults: Vec<Fault> = invalid.faults.into_iter().map(|it| read.fault(it)).collect();
            read.faults.extend(faults);
        }
    }
    // A duplicate key is ambiguous, so a file with any fault has no definition.
    read.definition.take_if(|_| !read.faults.is_empty());
    read
}

fn declared_id(tree: &Node) -> Option<String> {
    match &child(tree, "id")?.0.data {
        Data::Text(id) => Some(id.clone()),
        _ => None,
    }
}

impl FlowFile {
    fn empty(file: &str) -> Self {
        Self {
            file: file.to_owned(),
            id: flow_name(file).to_owned(),
            definition: None,
            faults: Vec::new(),
            tree: Node::new(Data::Null, Place::START),
        }
    }

    /// Returns the position of the id, or the start of the file if the id comes from the file name.
    pub(crate) fn id_place(&self) -> Place {
        child(&self.tree, "id").map_or(Place::START, |(id, _)| id.place)
    }

    /// Returns the index of a text in the list at a path.
    pub(crate) fn position(&self, path: &[&str], text: &str) -> Option<String> {
        let path: Vec<String> = path.iter().map(|it| (*it).to_owned()).collect();
        let (node, _) = self.at(&path)?;
        let Data::List(items) = &node.data else { return None };
        let idx = items.iter().position(|it| matches!(&it.data, Data::Text(it) if it == text))?;
        Some(idx.to_string())
    }

    /// Adds the position in the file to a fault.
    pub(crate) fn fault(&self, fault: FlowFault) -> Fault {
        let problem = self.of_template(&fault).unwrap_or_else(|| {
            let problem = Problem::new(fault.code, self.with_owner(&fault.at, &fault.message));
            problem.at(self.place(&fault)).hint(self.hint(&fault))
        });
        problem.into_fault(&self.file)
    }

    /// Suggests a similar name where the flow crate can only list the valid ones.
    fn hint(&self, fault: &FlowFault) -> Option<String> {
        let value = self.at(&fault.at).map(|(node, _)| &node.data);
        match (fault.at.last().map(String::as_str), value) {
            (Some("type"), Some(Data::Text(kind))) => {
                did_you_mean(kind, NodeKind::NAMES.iter().copied()).or_else(|| fault.hint.clone())
            }
            _ => fault.hint.clone(),
        }
    }

    /// Returns the value at a path, with the position of its key.
    fn at(&self, path: &[String]) -> Option<(&Node, Place)> {
        path.iter().try_fold((&self.tree, self.tree.place), |(node, _), name| child(node, name))
    }

    /// Returns the position of the value that a fault is about.
    fn place(&self, fault: &FlowFault) -> Place {
        let mut found = (&self.tree, self.tree.place);
        for name in &fault.at {
            let Some(next) = child(found.0, name) else { break };
            found = next;
        }
        match found.0.data {
            // A fault in a list or map concerns all of it, so the position is that of its key.
            Data::List(_) | Data::Map(_) | Data::Null => found.1,
            _ if fault.code == "unknown_field" => found.1,
            _ => found.0.place,
        }
    }

    /// Converts a template fault, with the position inside the template's text.
    fn of_template(&self, fault: &FlowFault) -> Option<Problem> {
        if fault.code != "template_error" {
            return None;
        }
        let (node, _) = self.at(&fault.at)?;
        let Data::Text(text) = &node.data else { return None };
        let spread = node.spread(text);
        let config = ParseConfig {
            first_line: spread.start.line,
            first_column: spread.start.column,
            ..ParseConfig::default()
        };
        let is_condition = fault.at.iter().any(|it| it == "cases");
        let err = match is_condition {
            true => Condition::parse_with(text, &config).err()?,
            false => Template::parse_with(text, &config).err()?,
        };
        let place = spread.in_file(err.place().into());
        let message = self.with_owner(&fault.at, &err.to_string());
        Some(Problem::new(fault.code, message).at(place).hint(fault.hint.clone()))
    }

    /// Adds the node, edge or output that the message is about, if the message does not name it.
    fn with_owner(&self, at: &[String], message: &str) -> String {
        let [what, name, ..] = at else { return message.to_owned() };
        let owner = match (what.as_str(), self.at(at).map(|(node, _)| &node.data)) {
            ("nodes", _) => format!("node `{name}`"),
            ("outputs", _) => format!("output `{name}`"),
            ("edges", Some(Data::Text(edge))) => format!("edge `{}`", edge.trim()),
            _ => return message.to_owned(),
        };
        let named = owner.split_once(' ').map_or(owner.as_str(), |(_, name)| name);
        if message.contains(named) { message.to_owned() } else { format!("{owner}: {message}") }
    }
}

/// Returns the value under a key or index, with the position of the key.
fn child<'a>(node: &'a Node, name: &str) -> Option<(&'a Node, Place)> {
    match &node.data {
        Data::Map(pairs) => pairs.iter().find(|it| it.key == name).map(|it| (&it.value, it.place)),
        Data::List(items) => {
            let idx: usize = name.trim_start_matches('[').trim_end_matches(']').parse().ok()?;
            items.get(idx).map(|it| (it, it.place))
        }
        _ => None,
    }
}
