//! Compiles the files of a project to contexts and prompts.
//!
//! Input is [`Sources`], output is a [`Compiled`]: one unit per context and prompt file, each with its own faults and
//! the files it depends on. The full rule:
//!
//! 1. A context file, and each variant of a capability, is lowered once, after the contexts that it uses; clones of it are the same context everywhere.
//! 2. Contexts that use each other in a cycle are never lowered; the entry that closes the cycle is a fault.
//! 3. A unit whose files are all unchanged is reused from the previous compilation.
//! 4. Blocks are read first, because any entry may name one; the blocks that apply to a prompt join its entries.
//! 5. A prompt is built if nothing that it reaches has a fault. Definitions that the engine rejects are reported as
//!    `file_invalid`, with the file.

use contexture_message::ErrorCode;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use contexture_agent::ENGINE_TOOLS;
use contexture_compose::{Entry, Prompt, PromptBuilder, Volatility};

use crate::config::Config;
use crate::error::{Fault, Problem, ProjectError};
use crate::files::Sources;
use crate::files::{CONFIG, FileKind};
use crate::knowledge::Knowledge;
use crate::read::block_file::{BLOCKS, PROMPTS};
use crate::read::capability_file::{Variant, capability_file, variants};
use crate::read::context_file::context_file;
use crate::read::entries::{NamedUnit, names};
use crate::read::facts::{ChosenTool, Facts, Use};
use crate::read::index::{INDEX, Index, Located, capability_name, default_id, unit_key};
use crate::read::partials::Library;
use crate::read::places::{Places, located};
use crate::read::prompt_file::{prompt_file, prompt_name};
use crate::read::reader::{Contributors, Lookup, Reader};
use crate::read::unit::{BlockUnit, Blocks, ContextUnit};
use crate::skills::ProjectSkills;
use crate::source::front::{self, Document};
use crate::source::yaml::Node;
use contexture_template::did_you_mean;

mod blocks;
mod tools;

use blocks::{applying, blocks, names as block_names};
pub(crate) use tools::NamedTool;

/// A parsed prompt file.
#[derive(Debug)]
pub(crate) struct PromptUnit {
    /// The prompt's id: the declared one if it could be read, otherwise derived from the file name.
    pub(crate) id: String,
    pub(crate) prompt: Result<Prompt, ProjectError>,
    pub(crate) reads: BTreeSet<String>,
    pub(crate) facts: Facts,
    /// The blocks that apply to it.
    pub(crate) blocks: Vec<Arc<BlockUnit>>,
    /// Whether the file itself provides any text.
    pub(crate) has_text: bool,
    pub(crate) arranges_by_author: bool,
    /// Whether its own system text changes from turn to turn.
    pub(crate) own_text_changes: bool,
}

/// All units of a project, by file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Compiled {
    index: Arc<Index>,
    /// The ids of all prompts.
    ids: Arc<BTreeSet<String>>,
    pub(crate) blocks: Blocks,
    pub(crate) contexts: BTreeMap<String, Arc<ContextUnit>>,
    pub(crate) prompts: BTreeMap<String, Arc<PromptUnit>>,
}

/// The previous compilation, and the files that changed since.
pub(crate) struct Previous<'a> {
    pub(crate) compiled: &'a Compiled,
    pub(crate) changes: &'a BTreeSet<String>,
}

impl Previous<'_> {
    pub(crate) fn is_untouched(&self, reads: &BTreeSet<String>) -> bool {
        self.changes.is_disjoint(reads)
    }
}

/// What the entries of files may refer to besides other files.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a> {
    pub(crate) knowledge: &'a Knowledge,
    pub(crate) skills: &'a ProjectSkills,
    pub(crate) contributors: &'a Contributors,
}

/// Compiles all files, and reuses unchanged units from `previous`.
pub(crate) fn compile(
    sources: &Sources,
    config: &Config,
    parts: Parts<'_>,
    previous: Option<&Previous<'_>>,
) -> Compiled {
    let Parts { knowledge, skills, contributors } = parts;
    let library = Library::new(sources);
    let (index, documents) = index(sources, previous);
    let mut changes = previous.map(|it| it.changes.clone()).unwrap_or_default();
    if previous.is_some_and(|it| *it.compiled.index != index) {
        changes.insert(INDEX.to_owned());
    }
    let ids = prompt_ids(sources, previous);
    if previous.is_some_and(|it| *it.compiled.ids != ids) {
        changes.insert(PROMPTS.to_owned());
    }
    let (none, no_blocks) = (BTreeMap::new(), Blocks::new());
    let lookup = Lookup {
        sources,
        library: &library,
        index: &index,
        blocks: &no_blocks,
        knowledge,
        skills,
        contributors,
        contexts: &none,
        circles: &BTreeMap::new(),
    };
    let before = previous.map(|it| Previous { changes: &changes, ..*it });
    let blocks = blocks(lookup, &ids, before.as_ref());
    if previous.is_some_and(|it| block_names(&it.compiled.blocks) != block_names(&blocks)) {
        changes.insert(BLOCKS.to_owned());
    }
    let lookup = Lookup { blocks: &blocks, ..lookup };
    let previous = previous.map(|it| Previous { changes: &changes, ..*it });
    let previous = previous.as_ref();
    let contexts = contexts(lookup, documents, previous);
    let lookup = Lookup { contexts: &contexts, ..lookup };
    let mut prompts = BTreeMap::new();
    for file in sources.of_kind(FileKind::Prompt) {
        let before = previous.and_then(|it| Some((it, it.compiled.prompts.get(file)?)));
        let unit = match before {
            Some((previous, unit)) if previous.is_untouched(&unit.reads) && unit.has_same_blocks(&blocks) => {
                Arc::clone(unit)
            }
            _ => Arc::new(prompt(file, lookup, config)),
        };
        prompts.insert(file.to_owned(), unit);
    }
    Compiled { index: Arc::new(index), ids: Arc::new(ids), blocks, contexts, prompts }
}

impl PromptUnit {
    /// Whether the same blocks apply as before.
    fn has_same_blocks(&self, blocks: &Blocks) -> bool {
        let now = applying(blocks, &self.id);
        now.len() == self.blocks.len()
            && now.iter().zip(&self.blocks).all(|((_, now), before)| Arc::ptr_eq(now, before))
    }
}

/// Lists the ids of all prompts.
fn prompt_ids(sources: &Sources, previous: Option<&Previous<'_>>) -> BTreeSet<String> {
    let id = |file: &str| {
        let unchanged = previous.filter(|it| !it.changes.contains(file));
        if let Some(unit) = unchanged.and_then(|it| it.compiled.prompts.get(file)) {
            return unit.id.clone();
        }
        let document = sources.text(file).map(front::split).ok();
        let declared = document.as_ref().and_then(declared_id);
        declared.unwrap_or_else(|| prompt_name(file).unwrap_or(file).to_owned())
    };
    // Only blocks need the ids, so projects without blocks skip this.
    match sources.of_kind(FileKind::Block).next() {
        Some(_) => sources.of_kind(FileKind::Prompt).map(id).collect(),
        None => BTreeSet::new(),
    }
}

/// The context files that were parsed to find their ids.
type Documents<'a> = BTreeMap<&'a str, Result<Document, ProjectError>>;

/// Builds the index of context files and their ids.
fn index<'a>(sources: &'a Sources, previous: Option<&Previous<'_>>) -> (Index, Documents<'a>) {
    let mut documents = Documents::new();
    let mut ids = BTreeMap::new();
    for file in sources.of_kind(FileKind::Context) {
        let unchanged = previous.filter(|it| !it.changes.contains(file));
        let id = match unchanged.and_then(|it| it.compiled.index.id(file)) {
            Some(id) => id.to_owned(),
            None => {
                let document = sources.text(file).map(front::split);
                let declared = document.as_ref().ok().and_then(declared_id);
                documents.insert(file, document);
                declared.unwrap_or_else(|| default_id(file).to_owned())
            }
        };
        ids.insert(file.to_owned(), id);
    }
    (Index::new(ids), documents)
}

fn declared_id(document: &Document) -> Option<String> {
    document.front.get("id").and_then(|it| it.value.word())
}

fn contexts(
    lookup: Lookup<'_>,
    mut documents: Documents<'_>,
    previous: Option<&Previous<'_>>,
) -> BTreeMap<String, Arc<ContextUnit>> {
    let mut done: BTreeMap<String, Arc<ContextUnit>> = BTreeMap::new();
    let mut open: BTreeMap<String, Pending> = BTreeMap::new();
    for file in lookup.sources.of_kind(FileKind::Context) {
        let before = previous.and_then(|it| Some((it, it.compiled.contexts.get(file)?)));
        match before {
            Some((previous, unit)) if previous.is_untouched(&unit.reads) => {
                done.insert(file.to_owned(), Arc::clone(unit));
            }
            _ => {
                let document = documents.remove(file);
                let document = document.unwrap_or_else(|| lookup.sources.text(file).map(front::split));
                open.insert(file.to_owned(), Pending::context(file, document, lookup.index));
            }
        }
    }
    for pending in lookup.sources.of_kind(FileKind::Capability).flat_map(|it| Pending::variants(it, lookup)) {
        let before = previous.and_then(|it| Some((it, it.compiled.contexts.get(&pending.key)?)));
        match before {
            Some((previous, unit)) if previous.is_untouched(&unit.reads) => {
                done.insert(pending.key, Arc::clone(unit));
            }
            _ => {
                open.insert(pending.key.clone(), pending);
            }
        }
    }
    loop {
        let is_ready =
            |it: &Pending| it.uses.iter().all(|used| done.contains_key(used) || !open.contains_key(used));
        let ready: Vec<String> =
            open.iter().filter(|(_, it)| is_ready(it)).map(|(key, _)| key.clone()).collect();
        if ready.is_empty() {
            break;
        }
        for key in ready {
            let Some(pending) = open.remove(&key) else { continue };
            let unit = context(&pending, Lookup { contexts: &done, ..lookup });
            done.insert(key, Arc::new(unit));
        }
    }
    let circular = circular(open, Lookup { contexts: &done, ..lookup });
    done.extend(circular);
    done
}

/// A context file, or a variant of a capability, that waits for what it uses.
struct Pending {
    file: String,
    key: String,
    document: Result<Arc<Document>, ProjectError>,
    /// The variant to read, if it is a capability.
    variant: Option<Variant>,
    /// The keys of the units that it uses.
    uses: Vec<String>,
}

impl Pending {
    fn context(file: &str, document: Result<Document, ProjectError>, index: &Index) -> Self {
        let uses = document.as_ref().map(|it| uses(&it.front, index)).unwrap_or_default();
        let (file, key) = (file.to_owned(), file.to_owned());
        Self { file, key, document: document.map(Arc::new), variant: None, uses }
    }

    /// Returns all variants of a capability.
    fn variants(file: &str, lookup: Lookup<'_>) -> Vec<Self> {
        let name = capability_name(file).unwrap_or(file);
        let document = match lookup.sources.text(file).map(front::split) {
            Ok(document) => Arc::new(document),
            Err(error) => {
                let (file, key) = (file.to_owned(), unit_key(name, None));
                return vec![Self { file, key, document: Err(error), variant: None, uses: Vec::new() }];
            }
        };
        let pending = |variant: Variant| Self {
            file: file.to_owned(),
            key: unit_key(name, variant.preset.as_deref()),
            document: Ok(Arc::clone(&document)),
            uses: uses(&variant.front, lookup.index),
            variant: Some(variant),
        };
        variants(&document).into_iter().map(pending).collect()
    }
}

/// Returns the keys of the units that a front matter uses.
fn uses(front: &Node, index: &Index) -> Vec<String> {
    let mut found = Vec::new();
    front.get("use").into_iter().for_each(|it| names(&it.value, &mut found));
    let located = found.into_iter().filter_map(|it| match it {
        NamedUnit::Capability { name, preset } => Some(unit_key(name, preset)),
        NamedUnit::Context(name) => match index.locate(name) {
            Located::Path(path) | Located::Found(path) => Some(path.to_owned()),
            Located::Several(_) | Located::Nowhere => None,
        },
    });
    located.collect()
}

/// Reads the remaining contexts: those in a cycle, and those that use one in a cycle.
fn circular(open: BTreeMap<String, Pending>, lookup: Lookup<'_>) -> Vec<(String, Arc<ContextUnit>)> {
    let circles: BTreeMap<String, Vec<String>> =
        open.iter().map(|(key, it)| (key.clone(), it.uses.clone())).collect();
    let lookup = Lookup { circles: &circles, ..lookup };
    let units: Vec<(String, ContextUnit)> =
        open.into_iter().map(|(key, pending)| (key, context(&pending, lookup))).collect();
    // Each unit depends on the files of all others, since a change to any of them may break the cycle.
    let reads: BTreeSet<String> = units.iter().flat_map(|(_, it)| it.reads.iter().cloned()).collect();
    let unit = |(file, unit): (String, ContextUnit)| {
        (file, Arc::new(ContextUnit { entry: None, reads: reads.clone(), ..unit }))
    };
    units.into_iter().map(unit).collect()
}

fn context(pending: &Pending, lookup: Lookup<'_>) -> ContextUnit {
    let file = pending.file.as_str();
    let document = match &pending.document {
        Ok(document) => document,
        Err(error) => {
            return ContextUnit {
                file: file.to_owned(),
                entry: None,
                faults: error.faults.clone(),
                reads: BTreeSet::from([file.to_owned()]),
                height: 1,
                facts: Facts::default(),
                spot: None,
                places: Places::default(),
            };
        }
    };
    let mut reader = Reader::new(file, lookup);
    reader.key.clone_from(&pending.key);
    let (entry, spot) = match &pending.variant {
        None => {
            let (context, spot) = context_file(&mut reader, document);
            (Entry::Context(context), spot)
        }
        Some(variant) => {
            let (capability, spot) = capability_file(&mut reader, document, variant);
            (Entry::from(capability), spot)
        }
    };
    let faults = reader.faults();
    let Reader { reads, height, facts, places, .. } = reader;
    let entry = Some(entry).filter(|_| faults.is_empty());
    ContextUnit { file: file.to_owned(), entry, faults, reads, height, facts, spot: Some(spot), places }
}

fn prompt(file: &str, lookup: Lookup<'_>, config: &Config) -> PromptUnit {
    let document = match lookup.sources.text(file) {
        Ok(text) => front::split(text),
        Err(error) => return unreadable(file, error),
    };
    let mut reader = Reader::new(file, lookup);
    // Prompts inherit the defaults of the configuration, so every prompt depends on it.
    reader.reads.insert(CONFIG.to_owned());
    let mut definition = prompt_file(&mut reader, &document, config);
    let mut faults = reader.faults();
    let reached = reached(&reader.facts.uses, lookup.contexts);
    faults.extend(reached.values().flat_map(|unit| unit.faults.iter().cloned()));
    let named: BTreeSet<&str> = std::iter::once(&reader.facts)
        .chain(reached.values().map(|it| &it.facts))
        .flat_map(|it| it.blocks.iter().map(String::as_str))
        .collect();
    let applying = applying(lookup.blocks, &definition.id);
    let added = applying.iter().filter(|(file, _)| !named.contains(file)).map(|(_, unit)| *unit);
    let used: Vec<&Arc<BlockUnit>> =
        named.iter().filter_map(|it| lookup.blocks.get(*it)).chain(added.clone()).collect();
    faults.extend(used.iter().flat_map(|unit| unit.faults.iter().cloned()));
    faults.extend(unknown_choices(file, &reader.facts, reached.values().map(|it| &it.facts)));
    definition.entries.extend(added.filter_map(|it| it.block.clone()).map(Entry::Block));
    reader.reads.extend(used.iter().flat_map(|it| it.reads.iter().cloned()));
    let blocks = applying.iter().map(|(_, unit)| Arc::clone(unit)).collect();
    let has_text = definition.system.is_some()
        || definition.prompt.is_some()
        || !definition.user.is_empty()
        || !definition.messages.is_empty();
    let arranges_by_author = definition.cache.arrange == contexture_compose::Arrangement::Author;
    let own_text_changes = definition.system.as_ref().is_some_and(|it| it.volatility() == Volatility::Turn);
    let id = definition.id.clone();
    let prompt = match faults.is_empty() {
        true => PromptBuilder::from(definition).build().map_err(|err| {
            let of_contexts = reached.values().map(|it| (it.file.as_str(), &it.places));
            let of_blocks = applying.iter().map(|(file, it)| (*file, &it.places));
            let files: Vec<_> =
                std::iter::once((file, &reader.places)).chain(of_contexts).chain(of_blocks).collect();
            ProjectError::new(located(&err, &files))
        }),
        false => Err(ProjectError::new(faults)),
    };
    let Reader { reads, facts, .. } = reader;
    PromptUnit { id, prompt, reads, facts, blocks, has_text, arranges_by_author, own_text_changes }
}

/// Returns a fault for each tool that `tool_choice` names and no file provides.
fn unknown_choices<'a>(file: &str, own: &'a Facts, reached: impl Iterator<Item = &'a Facts>) -> Vec<Fault> {
    let mut known: BTreeSet<&str> = ENGINE_TOOLS.into();
    for facts in std::iter::once(own).chain(reached) {
        known.extend(facts.tools.iter().map(|(it, _)| it.tool.name.as_str()));
        known.extend(facts.plain_tools.iter().map(|(it, _)| it.name.as_str()));
    }
    let unknown = own.chosen_tools.iter().filter(|it| !known.contains(it.tool.as_str()));
    let fault = |it: &ChosenTool| {
        let problem =
            Problem::new(ErrorCode::ToolUnknown, format!("there is no tool `{}`", it.tool)).at(it.place);
        let hint = did_you_mean(&it.tool, known.iter().copied());
        let hint = hint.unwrap_or_else(|| {
            "declare it under `tools` of the prompt or of a context that it uses".to_owned()
        });
        problem.within(&it.field).hint(Some(hint)).into_fault(file)
    };
    unknown.map(fault).collect()
}

fn unreadable(file: &str, error: ProjectError) -> PromptUnit {
    PromptUnit {
        id: prompt_name(file).unwrap_or(file).to_owned(),
        prompt: Err(error),
        reads: BTreeSet::from([file.to_owned()]),
        facts: Facts::default(),
        blocks: Vec::new(),
        has_text: true,
        arranges_by_author: true,
        own_text_changes: false,
    }
}

/// Returns the context files that the entries reach, each once.
pub(crate) fn reached<'a>(
    uses: &[Use],
    contexts: &'a BTreeMap<String, Arc<ContextUnit>>,
) -> BTreeMap<String, &'a Arc<ContextUnit>> {
    let mut found = BTreeMap::new();
    let mut open: Vec<&Use> = uses.iter().collect();
    while let Some(used) = open.pop() {
        match used {
            Use::Inline(spot) => open.extend(&spot.uses),
            Use::File { path, .. } => {
                let Some(unit) = contexts.get(path) else { continue };
                if found.insert(path.clone(), unit).is_none() {
                    open.extend(unit.spot.iter().flat_map(|it| &it.uses));
                }
            }
        }
    }
    found
}
