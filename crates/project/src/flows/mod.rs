//! Compiles all flow files of a project together.
//!
//! Input is the sources and the names of prompts and tools, output is a [`FlowUnit`] per file. The full rule:
//!
//! 1. Each file is parsed separately; the ones without faults can use each other as sub-flows.
//! 2. If several files declare the same id, the first in file order owns it. The others have a fault, and looking up
//!    the id returns an error.
//! 3. A flow is lowered if its file and those of its sub-flows could be read. The prompts and tools that its nodes
//!    name are checked in any case.
//! 4. A flow that is now broken keeps its last good version.
//! 5. If no flow file and no name has changed, everything is reused. A flow whose meaning is unchanged stays the same
//!    flow.

use contexture_message::ErrorCode;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use contexture_flow::{CompileInputs, Flow, FlowFault, Nodes, lower};

use crate::compile::{Compiled, NamedTool};
use crate::error::{Fault, ProjectError, unknown};
use crate::files::FileKind;
use crate::files::Sources;
use crate::read::prompt_file::prompt_name;
mod file;

use file::{FlowFile, flow_file};

/// Nodes and tools that the application provides to the flows of its project. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct FlowParts {
    /// The application's implementations for `custom` nodes.
    pub nodes: Nodes,
    /// The names of the tools that the application gives its agent.
    pub tools: Arc<BTreeSet<String>>,
}

/// The flows of a project. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flows {
    /// Keyed by file.
    units: Arc<BTreeMap<String, FlowUnit>>,
    names: Arc<Names>,
    pub(crate) parts: FlowParts,
}

/// A flow as [`Project::flow`] returns it.
#[derive(Clone, Debug)]
pub(crate) struct FlowUnit {
    pub(crate) id: String,
    /// The last version without faults, or the faults of the flow if no version was ever valid.
    pub(crate) flow: Result<Flow, ProjectError>,
    /// The faults of the newest version.
    pub(crate) faults: Vec<Fault>,
    /// Warnings about the newest version: it works, but probably not as intended.
    pub(crate) warnings: Vec<Fault>,
    /// The id of the newest version, if another file declares it too.
    clash: Option<String>,
}

/// The names that nodes may refer to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Names {
    prompts: BTreeSet<String>,
    tools: BTreeSet<String>,
    /// The names of different tools, with two files that declare them.
    several: BTreeMap<String, (String, String)>,
    boards: BTreeSet<String>,
}

impl Names {
    fn of(compiled: &Compiled, parts: &FlowParts) -> Self {
        let paths = compiled.prompts.keys().filter_map(|it| prompt_name(it)).map(str::to_owned);
        let ids = compiled.prompts.values().map(|it| it.id.clone());
        let (mut tools, mut several) = (BTreeSet::new(), BTreeMap::new());
        for (name, tool) in compiled.named_tools() {
            if let NamedTool::Several(first, second) = tool {
                several.insert(name.clone(), (first, second));
            }
            tools.insert(name);
        }
        tools.extend(parts.tools.iter().cloned());
        let boards = compiled.facts().flat_map(|(_, it)| &it.boards).map(|it| it.id.clone()).collect();
        Self { prompts: paths.chain(ids).collect(), tools, several, boards }
    }
}

/// The previous flows, and the files that changed since.
pub(crate) struct Before<'a> {
    pub(crate) flows: &'a Flows,
    pub(crate) changes: &'a BTreeSet<String>,
}

impl Flows {
    /// Parses and checks all flows.
    pub(crate) fn compile(
        sources: &Sources,
        compiled: &Compiled,
        parts: FlowParts,
        before: Option<&Before<'_>>,
    ) -> Self {
        let names = match sources.of_kind(FileKind::Flow).next() {
            Some(_) => Names::of(compiled, &parts),
            None => Names::default(),
        };
        let untouched = before.filter(|it| {
            it.changes.iter().all(|file| FileKind::of(file) != Some(FileKind::Flow))
                && *it.flows.names == names
        });
        if let Some(before) = untouched {
            return before.flows.clone();
        }
        let files: Vec<FlowFile> =
            sources.of_kind(FileKind::Flow).map(|file| flow_file(file, sources.text(file))).collect();
        let compiler = FlowCompiler::new(&files, &names, parts.nodes.clone());
        let before = before.map(|it| &*it.flows.units);
        let units = files.iter().map(|it| (it.file.clone(), compiler.unit(it, before))).collect();
        Self { units: Arc::new(units), names: Arc::new(names), parts }
    }

    /// Iterates over all flows with their files, sorted by file.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &FlowUnit)> {
        self.units.iter().map(|(file, unit)| (file.as_str(), unit))
    }

    /// Returns the flow with that id and its file.
    pub(crate) fn get(&self, id: &str) -> Option<(&str, &FlowUnit)> {
        let is_good = |it: &(&str, &FlowUnit)| it.1.id == id && it.1.flow.is_ok();
        self.iter().find(is_good).or_else(|| self.iter().find(|(_, it)| it.id == id))
    }

    /// Returns the faults of an id that several files declare.
    pub(crate) fn clashes(&self, id: &str) -> Vec<Fault> {
        let units = self.units.values().filter(|it| it.clash.as_deref() == Some(id));
        units.flat_map(|it| it.faults.iter().filter(|it| it.code == DUPLICATE).cloned()).collect()
    }

    /// Returns all faults of the newest versions.
    pub(crate) fn faults(&self) -> Vec<Fault> {
        self.units.values().flat_map(|it| it.faults.clone()).collect()
    }

    /// Returns all warnings about the newest versions.
    pub(crate) fn warnings(&self) -> Vec<Fault> {
        self.units.values().flat_map(|it| it.warnings.clone()).collect()
    }

    /// Returns the ids of changed flows, including new ones.
    pub(crate) fn changed(&self, before: &Flows) -> Vec<String> {
        let is_same = |file: &str, now: &FlowUnit| {
            before.units.get(file).is_some_and(|it| it.id == now.id && is_same(&it.flow, &now.flow))
        };
        self.iter().filter(|(file, it)| !is_same(file, it)).map(|(_, it)| it.id.clone()).collect()
    }

    /// Returns the ids of flows that were removed since `before`.
    pub(crate) fn removed(&self, before: &Flows) -> Vec<String> {
        let ids: BTreeSet<&str> = self.units.values().map(|it| it.id.as_str()).collect();
        let gone = before.units.values().filter(|it| !ids.contains(it.id.as_str()));
        gone.map(|it| it.id.clone()).collect()
    }
}

const DUPLICATE: ErrorCode = ErrorCode::DuplicateId;

fn is_same(one: &Result<Flow, ProjectError>, other: &Result<Flow, ProjectError>) -> bool {
    match (one, other) {
        (Ok(one), Ok(other)) => one.fingerprint() == other.fingerprint(),
        (Err(one), Err(other)) => one == other,
        _ => false,
    }
}

/// The inputs for checking a flow.
struct FlowCompiler<'a> {
    names: &'a Names,
    inputs: CompileInputs,
    /// The owner of each id: the first file that declares it.
    owners: BTreeMap<&'a str, &'a FlowFile>,
}

impl<'a> FlowCompiler<'a> {
    fn new(files: &'a [FlowFile], names: &'a Names, nodes: Nodes) -> Self {
        let mut owners = BTreeMap::new();
        for file in files {
            owners.entry(file.id.as_str()).or_insert(file);
        }
        let read = owners.iter().filter_map(|(id, it)| Some(((*id).to_owned(), it.definition.clone()?)));
        let inputs = CompileInputs { flows: read.collect(), nodes };
        Self { names, inputs, owners }
    }

    fn unit(&self, file: &FlowFile, before: Option<&BTreeMap<String, FlowUnit>>) -> FlowUnit {
        let (mut faults, mut flow) = (file.faults.clone(), None);
        let clash = self.clash(file);
        faults.extend(clash.clone());
        if let Some(definition) = &file.definition {
            let broken = self.broken_parts(file);
            match broken.is_empty().then(|| lower(definition, &self.inputs)) {
                Some(Ok(lowered)) => flow = Some(lowered),
                Some(Err(invalid)) => faults.extend(invalid.faults.into_iter().map(|it| file.fault(it))),
                None => faults.extend(broken),
            }
            faults.extend(self.unknown_names(file));
        }
        let warnings = flow.iter().flat_map(Flow::warnings).map(|it| file.fault(it.clone())).collect();
        let clash = clash.map(|_| file.id.clone());
        let faults = ProjectError::new(faults).faults;
        let good = before.and_then(|it| it.get(&file.file)).filter(|it| it.flow.is_ok());
        match (flow.filter(|_| faults.is_empty()), good) {
            (Some(flow), Some(good)) if is_same(&good.flow, &Ok(flow.clone())) => {
                FlowUnit { id: file.id.clone(), flow: good.flow.clone(), faults, warnings, clash }
            }
            (Some(flow), _) => FlowUnit { id: file.id.clone(), flow: Ok(flow), faults, warnings, clash },
            (None, Some(good)) => FlowUnit { faults, warnings, clash, ..good.clone() },
            (None, None) => FlowUnit {
                id: file.id.clone(),
                flow: Err(ProjectError { faults: faults.clone() }),
                faults,
                warnings,
                clash,
            },
        }
    }

    fn clash(&self, file: &FlowFile) -> Option<Fault> {
        let first = self.owners.get(file.id.as_str()).filter(|it| it.file != file.file)?;
        let message = format!("two flows have the id `{}`: {} and {}", file.id, first.file, file.file);
        let fault = Fault::new(DUPLICATE, message).in_file(&file.file).at_place(file.id_place());
        let sources = vec![first.file.clone(), file.file.clone()];
        Some(Fault { sources, hint: Some("give one of them another `id`".to_owned()), ..fault })
    }

    /// Returns a fault for each sub-flow that could not be read, without repeating that sub-flow's own faults.
    fn broken_parts(&self, file: &FlowFile) -> Vec<Fault> {
        let Some(definition) = &file.definition else { return Vec::new() };
        let fault = |(flow, node): (&str, &str)| {
            let broken = self.owners.get(flow).filter(|it| it.definition.is_none())?;
            let message = format!("flow `{flow}` has a fault: see {}", broken.file);
            Some(file.fault(at_node(ErrorCode::FlowInvalid, message, node, "flow")))
        };
        definition.flows().into_iter().filter_map(fault).collect()
    }

    fn unknown_names(&self, file: &FlowFile) -> Vec<Fault> {
        let Some(definition) = &file.definition else { return Vec::new() };
        let Names { prompts, tools, several, boards } = self.names;
        let of_prompts = definition.prompts().into_iter().filter(|(name, _)| !prompts.contains(*name));
        let of_prompts = of_prompts.map(|(name, node)| {
            let (message, hint) = unknown("prompt", name, prompts.iter().map(String::as_str));
            FlowFault { hint, ..at_node(ErrorCode::UnknownPrompt, message, node, "prompt") }
        });
        let of_tools = definition.tools().into_iter().filter_map(|(name, node)| {
            let mut fault = match several.get(name) {
                Some((first, second)) => {
                    let message = format!("tool `{name}` is declared differently in {first} and {second}");
                    let hint = Some("give one of them another name".to_owned());
                    FlowFault { hint, ..at_node(ErrorCode::ToolCollision, message, node, "tool") }
                }
                None if tools.contains(name) => return None,
                None => {
                    let (message, hint) = unknown("tool", name, tools.iter().map(String::as_str));
                    FlowFault { hint, ..at_node(ErrorCode::UnknownTool, message, node, "tool") }
                }
            };
            if let Some(idx) = file.position(&["nodes", node, "names"], name) {
                fault.at = vec!["nodes".to_owned(), node.to_owned(), "names".to_owned(), idx];
            }
            Some(fault)
        });
        let of_boards = definition.boards().into_iter().filter(|(name, _)| !boards.contains(*name));
        let of_boards = of_boards.map(|(name, node)| {
            let (message, hint) = unknown("blackboard", name, boards.iter().map(String::as_str));
            FlowFault { hint, ..at_node(ErrorCode::UnknownEntry, message, node, "board") }
        });
        of_prompts.chain(of_tools).chain(of_boards).map(|it| file.fault(it)).collect()
    }
}

fn at_node(code: ErrorCode, message: String, node: &str, field: &str) -> FlowFault {
    let at = ["nodes", node, field].map(str::to_owned).to_vec();
    FlowFault { code, message, at, hint: None }
}
