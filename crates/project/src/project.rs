//! A project: its configuration, its prompts and its flows, compiled.

use contexture_message::ErrorCode;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use contexture_agent::{HttpCaller, References};
use contexture_capabilities::blackboard::Boards;
use contexture_capabilities::memory::Memories;
use contexture_capabilities::{Artifacts, Bases, SkillIndexForm};
use contexture_compose::ports::SkillSource;
use contexture_compose::tags::block_tag_name;
use contexture_compose::{Block, Contributor, ModelLimits, Prompt, ResolveOptions, TargetModel, full_name};
use contexture_flow::Flow;
use contexture_session::BaseId;
use contexture_wire::Catalogue;

use crate::compile::{Compiled, NamedTool, Parts, Previous, compile};
use crate::config::Config;
use crate::error::{Fault, Place, ProjectError, unknown};
use crate::files::Sources;
use crate::files::{CONFIG, Files, Folder};
use crate::flows::{Before, FlowParts, Flows};
use crate::knowledge::{BASES, Knowledge, KnowledgePorts, ProjectBase};
use crate::lint::{Lint, lint};
use crate::read::prompt_file::prompt_name;
use crate::read::reader::Contributors;
use crate::read::tools::ProjectTool;
use crate::skills::{ProjectSkills, SKILLS, SkillFolder};

/// A project folder, read and compiled.
///
/// ```
/// use std::sync::Arc;
/// use contexture_project::{InMemory, Project};
/// # use serde_json::json;
/// # futures::executor::block_on(async {
/// let files = InMemory::new([
///     ("prompts/support/refund.md", "---\nuse: [brand]\n---\nHelp {{ input.name }}."),
///     ("contexts/brand.md", "Be kind."),
/// ]);
/// let project = Project::from_files(Arc::new(files))?;
/// let prompt = project.prompt("support/refund")?;
///
/// let mut options = project.options(prompt, None, Some("openai/gpt-5-mini"));
/// options.input = json!({"name": "Ada"});
/// let pass = prompt.resolve(options).await?;
/// assert_eq!(pass.request().messages[0].as_text(), Some("Help Ada.\n\nBe kind."));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Project {
    files: Arc<dyn Files>,
    pub(crate) sources: Sources,
    config: Config,
    catalogue: Catalogue,
    /// Configuration keys replaced by the caller, with their values. They survive reloads.
    overrides: Vec<(String, String)>,
    pub(crate) compiled: Compiled,
    /// Keyed by path, such as `support/refund`.
    prompts: BTreeMap<String, ServedPrompt>,
    pub(crate) flows: Flows,
    knowledge: Knowledge,
    skills: ProjectSkills,
    contributors: Arc<Contributors>,
}

/// A prompt as [`Project::prompt`] returns it.
#[derive(Clone, Debug)]
struct ServedPrompt {
    id: String,
    /// The last version without faults, or the faults of the prompt if no version was ever valid.
    prompt: Result<Prompt, ProjectError>,
    /// The faults of the newest version.
    faults: Vec<Fault>,
    /// Set if the newest version declares an id that another prompt already has.
    clash: Option<Clash>,
}

/// An id that another prompt already has.
#[derive(Clone, Debug)]
struct Clash {
    id: String,
    fault: Fault,
}

/// The changes that [`Project::reload`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reload {
    /// The paths of recompiled prompts, including new ones.
    pub changed: Vec<String>,
    /// The paths of removed prompts.
    pub removed: Vec<String>,
    /// The ids of changed flows, including new ones.
    pub changed_flows: Vec<String>,
    /// The ids of removed flows.
    pub removed_flows: Vec<String>,
    /// Whether knowledge bases were added, removed or changed.
    pub changed_bases: bool,
    /// The current faults of prompts and flows. Broken ones keep their last good version.
    pub faults: Vec<Fault>,
}

impl Project {
    /// Opens the project in a folder.
    pub fn open(root: impl Into<PathBuf>) -> Result<Project, ProjectError> {
        Self::from_files(Arc::new(Folder::new(root)))
    }

    /// Reads a project. Fails only if the files cannot be listed or `contexture.toml` is invalid; [`Project::prompt`]
    /// reports the faults of a broken prompt.
    pub fn from_files(files: Arc<dyn Files>) -> Result<Project, ProjectError> {
        Self::load(files, |_| Ok(Vec::new()))
    }

    /// Reads a project with some configuration keys replaced, such as `("store.url", "memory:")`. `overrides` gets the
    /// configuration as written. The overrides survive reloads. See [`Config::with_overrides`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use contexture_project::{InMemory, Project, ProjectError};
    ///
    /// let overrides = vec![("store.url".to_owned(), "memory:".to_owned())];
    /// let project = Project::load(Arc::new(InMemory::default()), |_| Ok::<_, ProjectError>(overrides))?;
    /// assert_eq!(project.config().store.url, "memory:");
    /// # Ok::<(), ProjectError>(())
    /// ```
    pub fn load<E: From<ProjectError>>(
        files: Arc<dyn Files>,
        overrides: impl FnOnce(&Config) -> Result<Vec<(String, String)>, E>,
    ) -> Result<Project, E> {
        let (sources, config) = read(&*files)?;
        let overrides = overrides(&config)?;
        let config = overridden(&config, &overrides)?;
        let knowledge = Knowledge::new(&files, &sources, &config);
        let skills = ProjectSkills::new(&*files, &config);
        let contributors = Arc::new(Contributors::new());
        let parts = Parts { knowledge: &knowledge, skills: &skills, contributors: &contributors };
        let compiled = compile(&sources, &config, parts, None);
        let prompts = served(&compiled, &BTreeMap::new());
        let flows = Flows::compile(&sources, &compiled, FlowParts::default(), None);
        let catalogue = config.catalogue();
        Ok(Project {
            files,
            sources,
            config,
            catalogue,
            overrides,
            compiled,
            prompts,
            flows,
            knowledge,
            skills,
            contributors,
        })
    }

    /// Returns the nearest folder, starting at `start` and walking up, that has a `contexture.toml` or `prompts/`.
    pub fn find_root(start: &Path) -> Option<PathBuf> {
        start.ancestors().find(|it| Self::is_root(it)).map(Path::to_owned)
    }

    /// Whether a folder is the root of a project: it has a `contexture.toml` or a `prompts` folder.
    pub fn is_root(dir: &Path) -> bool {
        dir.join(CONFIG).is_file() || dir.join("prompts").is_dir()
    }

    /// Lists the faults of prompts, blocks and flows in the current files, even where a last good version is still
    /// used.
    pub fn faults(&self) -> Vec<Fault> {
        all_faults(&self.prompts, &self.compiled, &self.flows)
    }

    /// Returns the configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the model catalogue, including the configuration's additions and corrections.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// Returns the tools that can be called by name alone, as flows do: the HTTP calls that prompts and contexts
    /// declare. A prompt brings its own tools with it and needs none of these. A name that files declare differently
    /// is left out.
    pub fn tools(&self) -> Vec<ProjectTool> {
        let runs = self.compiled.named_tools().into_values().filter_map(|it| match it {
            NamedTool::Runs(tool) => Some(*tool),
            NamedTool::Declared | NamedTool::Several(..) => None,
        });
        runs.collect()
    }

    /// Returns whether any file declares a tool that is an HTTP call, so that the program should
    /// [give it](Self::provide_knowledge) what makes them.
    pub fn runs_tools(&self) -> bool {
        self.compiled.runs_tools()
    }

    /// Returns the memories of the project's prompts. They have no store until the program
    /// [provides](Memories::provide) one; without it, entries of the kind `memory` add nothing.
    pub fn memories(&self) -> &Memories {
        self.knowledge.memories()
    }

    /// Returns the blackboards of the project's prompts. They have no store until the program
    /// [provides](Boards::provide) one; without it, entries of the kind `blackboard` add nothing.
    pub fn boards(&self) -> &Boards {
        self.knowledge.boards()
    }

    /// Returns the artifacts that the project's prompts list. They have none until the program
    /// [provides](Artifacts::provide) its sessions.
    pub fn artifacts(&self) -> &Artifacts {
        self.knowledge.artifacts()
    }

    /// Returns the knowledge bases: the folders below `knowledge/`, and those that the configuration names. An agent takes
    /// them as the bases that runs can name.
    pub fn knowledge(&self) -> &Bases {
        self.knowledge.bases()
    }

    /// Returns the base with that name, to look after it. One that neither a folder nor the configuration names is the
    /// tenant's own: it can be filled and searched, but prompts and turns can't name it.
    pub fn base(&self, id: &BaseId) -> Arc<ProjectBase> {
        self.knowledge.base(id)
    }

    /// Returns the skills, to give to an agent. What a reload finds is in the source that it returns afterwards.
    pub fn skills(&self) -> Arc<dyn SkillSource> {
        self.skills.source()
    }

    /// Returns the folders of skills, sorted by name, with what is wrong with them. Those without a description can't be
    /// loaded.
    pub fn skill_folders(&self) -> &[SkillFolder] {
        self.skills.folders()
    }

    /// Returns the form in which prompts list all skills of the project.
    pub fn skill_index_form(&self) -> SkillIndexForm {
        self.skills.form()
    }

    /// Returns the names of the bases that are folders of the project, in order.
    pub fn folder_bases(&self) -> Vec<BaseId> {
        self.knowledge.folders()
    }

    /// Gives the bases what they need of the program: the store that keeps the index, HTTP, a model, an embedder. Without
    /// a store, folders are indexed in memory when they are first searched. Survives reloads.
    pub fn provide_knowledge(&self, ports: KnowledgePorts) {
        self.knowledge.provide(ports);
    }

    /// Returns what the program gave to the bases so far.
    pub fn knowledge_ports(&self) -> KnowledgePorts {
        self.knowledge.ports()
    }

    /// Returns the types of references that the configuration declares, to give to an agent.
    pub fn references(&self, http: &Arc<dyn HttpCaller>) -> References {
        let config = self.config();
        let none = References::default().on_unknown(config.references.on_unknown.into());
        // The configuration was checked when it was read.
        config
            .refs
            .iter()
            .fold(none, |all, (kind, it)| it.add_to(all.clone(), kind, Arc::clone(http)).unwrap_or(all))
    }

    /// Returns the prompt with that id or path. Fails with the faults of a broken prompt, or with an error that names
    /// the prompts if several share the id.
    pub fn prompt(&self, id: &str) -> Result<&Prompt, ProjectError> {
        let clashes = self.prompts.values().filter_map(|it| it.clash.as_ref()).filter(|it| it.id == id);
        let clashes: Vec<Fault> = clashes.map(|it| it.fault.clone()).collect();
        if !clashes.is_empty() {
            return Err(ProjectError::new(clashes));
        }
        let by_id = || self.prompts.values().find(|it| it.id == id && it.prompt.is_ok());
        let broken = || self.prompts.values().find(|it| it.id == id);
        match by_id().or_else(|| self.prompts.get(id)).or_else(broken) {
            Some(served) => served.prompt.as_ref().map_err(Clone::clone),
            None => {
                let (message, hint) = unknown("prompt", id, self.prompts.values().map(|it| it.id.as_str()));
                Err(Fault { hint, ..Fault::new(ErrorCode::UnknownPrompt, message) }.into())
            }
        }
    }

    /// Iterates over all prompts with their paths, such as `support/refund`, sorted by path.
    pub fn prompts(&self) -> impl Iterator<Item = (&str, Result<&Prompt, &ProjectError>)> {
        self.prompts.iter().map(|(path, served)| (path.as_str(), served.prompt.as_ref()))
    }

    /// Iterates over all blocks with their files, sorted by file; a broken block yields its faults.
    pub fn blocks(&self) -> impl Iterator<Item = (&str, Result<&Block, ProjectError>)> {
        self.compiled.blocks.iter().map(|(file, unit)| {
            let block = unit.block.as_ref().ok_or_else(|| ProjectError::new(unit.faults.clone()));
            (file.as_str(), block)
        })
    }

    /// Returns the block with that name; any spelling that gives the same tag name matches.
    pub fn block(&self, name: &str) -> Result<&Block, ProjectError> {
        let tag = block_tag_name(name).unwrap_or_else(|_| name.to_owned());
        match self.compiled.blocks.values().find(|it| it.name == tag) {
            Some(unit) => unit.block.as_ref().ok_or_else(|| ProjectError::new(unit.faults.clone())),
            None => {
                let known = self.compiled.blocks.values().map(|it| it.name.as_str());
                let (message, hint) = unknown("block", name, known);
                Err(Fault { hint, ..Fault::new(ErrorCode::UnknownEntry, message) }.into())
            }
        }
    }

    /// Returns the options for a pass. The model is that of the call, the prompt or the configuration, in this order;
    /// its limits come from the catalogue and the configuration.
    pub fn options(&self, prompt: &Prompt, provider: Option<&str>, model: Option<&str>) -> ResolveOptions {
        let own = prompt.definition().model.as_deref();
        let default = self.config.model.default.as_deref().filter(|it| serves(it, provider));
        let chosen = model.or(own).or(default);
        let full = match (model, chosen) {
            (None, Some(own)) if own.contains('/') => Some(own.to_owned()),
            (_, chosen) => chosen.map(|it| full_name(provider, it)),
        };
        let facts = full.as_deref().map(|it| self.catalogue.facts(it).with_window());
        let (facts, window_assumed) = facts.unwrap_or_default();
        let limits = ModelLimits {
            context_window: facts.context_window,
            output_reserve: facts.reserve(),
            window_assumed,
            ..ModelLimits::default()
        };
        let target = TargetModel {
            provider: provider.map(str::to_owned),
            // The engine reads the prompt's own model from its definition.
            model: model.or(default.filter(|_| own.is_none())).map(str::to_owned),
            limits,
            cache_rules: facts.cache,
            price: None,
        };
        ResolveOptions { target, ..ResolveOptions::default() }
    }

    /// Maps an error from one of the prompts to the project's files: template errors get their position in the file,
    /// even where the text is indented or folded.
    pub fn error(&self, err: &contexture_compose::Error) -> ProjectError {
        let mut error = ProjectError::from(err);
        for fault in &mut error.faults {
            let Some((file, line)) = fault.file.as_deref().zip(fault.line) else { continue };
            let of_prompt = || self.compiled.prompts.get(file).map(|it| &it.facts);
            let of_context =
                || self.compiled.contexts.values().find(|it| it.file == file).map(|it| &it.facts);
            let of_block = || self.compiled.blocks.get(file).map(|it| &it.facts);
            if let Some((facts, column)) = of_prompt().or_else(of_context).or_else(of_block).zip(fault.column)
            {
                let place = facts.in_file(Place { line, column });
                (fault.line, fault.column) = (Some(place.line), Some(place.column));
            }
        }
        error
    }

    /// Reads the files again and recompiles what depends on a changed file. A prompt or flow that is now broken keeps
    /// its last good version. On an error nothing changes.
    pub fn reload(&mut self) -> Result<Reload, ProjectError> {
        let (sources, config) = read(&*self.files)?;
        let config = overridden(&config, &self.overrides)?;
        let mut changes = sources.changes(&self.sources);
        let knowledge = self.knowledge.reloaded(&self.files, &sources, &config);
        let changed_bases = !knowledge.has_same_bases(&self.knowledge);
        if changed_bases {
            changes.insert(BASES.to_owned());
        }
        let skills = ProjectSkills::new(&*self.files, &config);
        // Entries of skills that did not change are the same as before.
        let is_same = skills.is_same(&self.skills);
        let skills = if is_same { self.skills.clone() } else { skills };
        changes.extend((!is_same).then(|| SKILLS.to_owned()));
        let previous = Previous { compiled: &self.compiled, changes: &changes };
        let parts = Parts { knowledge: &knowledge, skills: &skills, contributors: &self.contributors };
        let compiled = compile(&sources, &config, parts, Some(&previous));
        let prompts = served(&compiled, &self.prompts);
        let before = Before { flows: &self.flows, changes: &changes };
        let flows = Flows::compile(&sources, &compiled, self.flows.parts.clone(), Some(&before));
        let is_new = |file: &str| match (compiled.prompts.get(file), self.compiled.prompts.get(file)) {
            (Some(now), Some(before)) => !Arc::ptr_eq(now, before),
            _ => true,
        };
        let reload = Reload {
            changed: compiled.prompts.keys().filter(|it| is_new(it)).filter_map(|it| name(it)).collect(),
            removed: self.prompts.keys().filter(|it| !prompts.contains_key(*it)).cloned().collect(),
            changed_flows: flows.changed(&self.flows),
            removed_flows: flows.removed(&self.flows),
            changed_bases,
            faults: all_faults(&prompts, &compiled, &flows),
        };
        self.catalogue = config.catalogue();
        (self.sources, self.config, self.compiled, self.prompts) = (sources, config, compiled, prompts);
        (self.flows, self.knowledge, self.skills) = (flows, knowledge, skills);
        Ok(reload)
    }

    /// Lists the faults and warnings of all files.
    pub fn lint(&self) -> Vec<Lint> {
        let faults = self.prompts.values().flat_map(|it| it.faults.clone()).collect();
        let skills = self.skills.folders();
        lint(&self.sources, &self.compiled, skills, faults, (self.flows.faults(), self.flows.warnings()))
    }
}

impl fmt::Debug for Project {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Project").field("prompts", &self.prompts.keys()).finish_non_exhaustive()
    }
}

/// Whether a model named `provider/model` belongs to the requested provider, if one was requested.
fn serves(model: &str, provider: Option<&str>) -> bool {
    match (model.split_once('/'), provider) {
        (Some((own, _)), Some(provider)) => own == provider,
        _ => true,
    }
}

fn name(file: &str) -> Option<String> {
    prompt_name(file).map(str::to_owned)
}

fn read(files: &dyn Files) -> Result<(Sources, Config), ProjectError> {
    let unreadable = |err: crate::FilesError| Fault::new(ErrorCode::FileInvalid, err.to_string());
    let sources = Sources::read(files).map_err(unreadable)?;
    let config = match sources.contains(CONFIG) {
        true => Config::parse(sources.text(CONFIG)?)?,
        false => Config::default(),
    };
    Ok((sources, config))
}

fn overridden(config: &Config, overrides: &[(String, String)]) -> Result<Config, ProjectError> {
    let overrides: Vec<_> = overrides.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    config.with_overrides(&overrides)
}

impl Project {
    /// Returns the project with the application's nodes and tools available to its flows. They survive reloads.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use contexture_project::{FlowParts, InMemory, Project};
    ///
    /// let flow = "nodes:\n  look: {type: tool_call, tool: search}\nedges: [start -> look]\n";
    /// let project = Project::from_files(Arc::new(InMemory::new([("flows/look.yaml", flow)])))?;
    /// let error = project.flow("look").unwrap_err();
    /// let why = "flows/look.yaml:2:33: node `look`: there is no tool `search`; the project has none";
    /// assert_eq!(error.faults[0].to_string(), why);
    ///
    /// let tools = Arc::new(["search".to_owned()].into());
    /// let project = project.with_flow_parts(FlowParts { tools, ..FlowParts::default() });
    /// assert!(project.flow("look").is_ok());
    /// # Ok::<(), contexture_project::ProjectError>(())
    /// ```
    #[must_use]
    pub fn with_flow_parts(mut self, parts: FlowParts) -> Self {
        self.flows = Flows::compile(&self.sources, &self.compiled, parts, None);
        self
    }

    /// Returns the project with contributors that entries `contributor: ID` name. They survive reloads.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use contexture_compose::{Contribution, Contributor, contributor};
    /// use contexture_project::{InMemory, Project};
    ///
    /// let files = InMemory::new([("prompts/p.md", "---\nuse: [{contributor: weather}]\n---\nHi.")]);
    /// let project = Project::from_files(Arc::new(files))?;
    /// assert!(project.prompt("p").is_err());
    ///
    /// let weather = contributor("weather", |_| async { Ok(Contribution::text("It rains.")) });
    /// let project = project.with_contributors([Arc::new(weather) as Arc<dyn Contributor>]);
    /// assert!(project.prompt("p").is_ok());
    /// # Ok::<(), contexture_project::ProjectError>(())
    /// ```
    #[must_use]
    pub fn with_contributors(mut self, contributors: impl IntoIterator<Item = Arc<dyn Contributor>>) -> Self {
        let mut known = (*self.contributors).clone();
        known.extend(contributors.into_iter().map(|it| (it.id().to_owned(), it)));
        self.contributors = Arc::new(known);
        let (knowledge, skills) = (&self.knowledge, &self.skills);
        let parts = Parts { knowledge, skills, contributors: &self.contributors };
        self.compiled = compile(&self.sources, &self.config, parts, None);
        self.prompts = served(&self.compiled, &BTreeMap::new());
        self.flows = Flows::compile(&self.sources, &self.compiled, self.flows.parts.clone(), None);
        self
    }

    /// Returns whether a prompt has a context provider that makes HTTP calls, so that the program should
    /// [give it](Self::provide_knowledge) what makes them.
    pub fn asks_servers(&self) -> bool {
        let of_prompts = self.compiled.prompts.values().map(|it| &it.facts);
        let of_contexts = self.compiled.contexts.values().map(|it| &it.facts);
        of_prompts.chain(of_contexts).any(|it| it.asks_servers)
    }

    /// Returns the nodes and tools that the application provides to flows.
    pub fn flow_parts(&self) -> &FlowParts {
        &self.flows.parts
    }

    /// Returns the flow with that id. Fails with the faults of a broken flow, or with an error that names the files if
    /// several declare the id.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use contexture_project::{InMemory, Project};
    ///
    /// let flow = "nodes:\n  shout: {type: transform, template: HELLO}\nedges:\n  - start -> shot\n";
    /// let project = Project::from_files(Arc::new(InMemory::new([("flows/greet.yaml", flow)])))?;
    /// let error = project.flow("greet").unwrap_err();
    /// assert_eq!(error.faults[0].to_string(), "flows/greet.yaml:4:5: edge `start -> shot`: there is no node `shot`");
    /// # Ok::<(), contexture_project::ProjectError>(())
    /// ```
    pub fn flow(&self, id: &str) -> Result<&Flow, ProjectError> {
        let clashes = self.flows.clashes(id);
        if !clashes.is_empty() {
            return Err(ProjectError::new(clashes));
        }
        match self.flows.get(id) {
            Some((_, unit)) => unit.flow.as_ref().map_err(Clone::clone),
            None => {
                let (message, hint) = unknown("flow", id, self.flows.iter().map(|(_, it)| it.id.as_str()));
                Err(Fault { hint, ..Fault::new(ErrorCode::UnknownFlow, message) }.into())
            }
        }
    }

    /// Iterates over all flows with their ids, sorted by file.
    pub fn flows(&self) -> impl Iterator<Item = (&str, Result<&Flow, &ProjectError>)> {
        self.flows.iter().map(|(_, unit)| (unit.id.as_str(), unit.flow.as_ref()))
    }

    /// Returns the warnings about a flow: it works, but probably not as intended.
    pub fn flow_warnings(&self, id: &str) -> &[Fault] {
        self.flows.get(id).map_or(&[], |(_, unit)| &unit.warnings)
    }

    /// Returns the file of a flow, such as `flows/chat.yaml`.
    pub fn flow_file(&self, id: &str) -> Option<&str> {
        self.flows.get(id).map(|(file, _)| file)
    }
}

/// Lists the faults of prompts, blocks and flows. Faults in a context that no prompt uses are left out: they break
/// nothing.
fn all_faults(prompts: &BTreeMap<String, ServedPrompt>, compiled: &Compiled, flows: &Flows) -> Vec<Fault> {
    let of_prompts = prompts.values().flat_map(|it| it.faults.iter().cloned());
    let of_blocks = compiled.blocks.values().flat_map(|it| it.faults.iter().cloned());
    ProjectError::new(of_prompts.chain(of_blocks).chain(flows.faults()).collect()).faults
}

/// Selects the version of each prompt to serve: the new one, or the last good one.
fn served(compiled: &Compiled, before: &BTreeMap<String, ServedPrompt>) -> BTreeMap<String, ServedPrompt> {
    let mut served: BTreeMap<String, ServedPrompt> = BTreeMap::new();
    let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
    for (file, unit) in &compiled.prompts {
        let path = prompt_name(file).unwrap_or(file);
        let first = owners.insert(&unit.id, file);
        let clash = first.map(|it| {
            let fault = duplicate(&unit.id, it, file).at_place(unit.facts.id.unwrap_or(Place::START));
            Clash { id: unit.id.clone(), fault }
        });
        let newest = match &clash {
            Some(clash) => Err(clash.fault.clone().into()),
            None => unit.prompt.clone(),
        };
        let faults = newest.as_ref().err().map(|it| it.faults.clone()).unwrap_or_default();
        let good = before.get(path).filter(|it| it.prompt.is_ok() && newest.is_err());
        let entry = match good {
            Some(good) => ServedPrompt { faults, clash, ..good.clone() },
            None => ServedPrompt { id: unit.id.clone(), prompt: newest, faults, clash },
        };
        served.insert(path.to_owned(), entry);
    }
    served
}

fn duplicate(id: &str, first: &str, second: &str) -> Fault {
    let message = format!("two prompts have the id `{id}`: {first} and {second}");
    let hint = Some("give one of them another `id`".to_owned());
    let sources = vec![first.to_owned(), second.to_owned()];
    Fault { sources, hint, ..Fault::new(ErrorCode::DuplicateId, message).in_file(second) }
}
