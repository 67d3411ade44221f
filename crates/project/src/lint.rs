//! Reports the faults of a project, and warnings about likely mistakes.
//!
//! Input is the compiled units with the facts recorded while they were read, output is [`Lint`]s sorted by file and
//! line. Errors are the faults of all files, used or not. Only files that no unit reads are parsed again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use contexture_compose::Volatility;
use contexture_compose::tags::validate_tag_name;
use contexture_message::ErrorCode;
use contexture_template::did_you_mean;
use serde::Serialize;
use serde_json::Value;

use crate::compile::{Compiled, PromptUnit, reached};
use crate::error::{Fault, Place, Problem, ProjectError};
use crate::files::FileKind;
use crate::files::Sources;
use crate::read::facts::{DefinedBoard, Facts, Read, Spot, Use};
use crate::read::index::{capability_name, context_name};
use crate::read::partials::Library;
use crate::skills::SkillFolder;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The file can't be used.
    Error,
    /// The file works, but probably not as intended.
    Warning,
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lint {
    /// The severity.
    pub level: Level,
    /// A stable code.
    pub code: String,
    /// A description of the finding.
    pub message: String,
    /// The file, relative to the project.
    pub file: String,
    /// The line, starting at 1.
    pub line: usize,
    /// The column in characters, starting at 1.
    pub column: usize,
    /// How to fix it.
    pub hint: Option<String>,
}

impl fmt::Display for Lint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Error => "error",
            Level::Warning => "warning",
        };
        let Lint { code, message, file, line, column, .. } = self;
        write!(f, "{file}:{line}:{column}: {level}[{code}]: {message}")
    }
}

/// The variables available to templates, and the keys of `ctx`.
const GLOBALS: [&str; 3] = ["input", "ctx", "config"];
const OF_CTX: [&str; 5] = ["session", "tenant", "user", "now", "cap"];

/// Checks all files; `faults` are those of the prompts, `of_flows` the faults and warnings of the flows.
pub(crate) fn lint(
    sources: &Sources,
    compiled: &Compiled,
    skills: &[SkillFolder],
    mut faults: Vec<Fault>,
    of_flows: (Vec<Fault>, Vec<Fault>),
) -> Vec<Lint> {
    let is_broken = !faults.is_empty();
    let (of_flows, flow_warnings) = of_flows;
    faults.extend(of_flows);
    // What loading tolerates other tools may refuse, so it is an error here.
    faults.extend(skills.iter().flat_map(|it| it.findings.clone()));
    faults.extend(compiled.contexts.values().flat_map(|it| it.faults.clone()));
    faults.extend(compiled.blocks.values().flat_map(|it| it.faults.clone()));
    let mut findings = Findings { compiled, found: Vec::new() };
    findings.other_files(sources, &mut faults);
    for unit in compiled.contexts.values() {
        findings.file_alone(&unit.file, &unit.facts);
    }
    for (file, unit) in &compiled.blocks {
        findings.file_alone(file, &unit.facts);
    }
    for (file, unit) in &compiled.prompts {
        findings.file_alone(file, &unit.facts);
        findings.prompt(file, unit);
    }
    findings.boards();
    // The uses of a broken prompt are not fully known.
    if !is_broken {
        findings.unused_contexts();
    }
    let mut found = findings.found;
    found.extend(flow_warnings.into_iter().map(|it| Lint { level: Level::Warning, ..error(it) }));
    found.extend(ProjectError::new(faults).faults.into_iter().map(error));
    found.sort_by(|one, other| order(one).cmp(&order(other)));
    found.dedup();
    found
}

fn order(lint: &Lint) -> (&str, usize, usize, Level, &str) {
    (&lint.file, lint.line, lint.column, lint.level, &lint.message)
}

fn error(fault: Fault) -> Lint {
    Lint {
        level: Level::Error,
        code: fault.code.into(),
        message: fault.message,
        file: fault.file.unwrap_or_default(),
        line: fault.line.unwrap_or(1),
        column: fault.column.unwrap_or(1),
        hint: fault.hint,
    }
}

fn board_conflict((file, board): (&str, &DefinedBoard), (other_file, other): (&str, &DefinedBoard)) -> Lint {
    let Place { line, column } = other.place;
    let (id, place) = (&board.id, format!("{other_file}:{line}:{column}"));
    Lint {
        level: Level::Error,
        code: ErrorCode::SchemaConflict.into(),
        message: format!("blackboard `{id}` has another schema than at {place}"),
        file: file.to_owned(),
        line: board.place.line,
        column: board.place.column,
        hint: Some(
            "entries with one id are one board: give both the same schema, or one another id".to_owned(),
        ),
    }
}

struct Findings<'a> {
    compiled: &'a Compiled,
    found: Vec<Lint>,
}

impl Findings<'_> {
    fn warn(&mut self, code: &str, message: String, file: &str, place: Place, hint: Option<&str>) {
        self.found.push(Lint {
            level: Level::Warning,
            code: code.to_owned(),
            message,
            file: file.to_owned(),
            line: place.line,
            column: place.column,
            hint: hint.map(str::to_owned),
        });
    }

    /// Parses the files that no unit reads: partials.
    fn other_files(&mut self, sources: &Sources, faults: &mut Vec<Fault>) {
        let library = Library::new(sources);
        let mut note = |file: &str, problems: Vec<Problem>| {
            faults.extend(problems.into_iter().map(|it| it.into_fault(file)));
        };
        for file in sources.of_kind(FileKind::Partial) {
            note(file, library.template(file).err().unwrap_or_default());
        }
    }

    /// Adds the warnings that depend on this file alone.
    fn file_alone(&mut self, file: &str, facts: &Facts) {
        for remark in &facts.remarks {
            self.warn(remark.code, remark.message.clone(), file, remark.place, remark.hint);
        }
        for (tool, place) in &facts.silent_tools {
            let hint = "a model decides by the description whether to call a tool";
            self.warn(
                "tool_undescribed",
                format!("tool `{tool}` has no description"),
                file,
                *place,
                Some(hint),
            );
        }
    }

    /// Reports blackboards whose schema differs from the one that another place gives the same id: they are one board,
    /// and which schema checks it would depend on the order of loading.
    fn boards(&mut self) {
        let contexts = self.compiled.contexts.values().map(|it| (it.file.as_str(), &it.facts));
        let prompts = self.compiled.prompts.iter().map(|(file, it)| (file.as_str(), &it.facts));
        let mut first: BTreeMap<&str, (&str, &DefinedBoard)> = BTreeMap::new();
        for (file, facts) in contexts.chain(prompts) {
            for board in &facts.boards {
                let (other_file, other) = *first.entry(&board.id).or_insert((file, board));
                if other.schema != board.schema {
                    self.found.push(board_conflict((file, board), (other_file, other)));
                }
            }
        }
    }

    /// Reports boards of a prompt whose tools have the same names.
    fn board_tools(&mut self, boards: &[(&str, &DefinedBoard)]) {
        let mut first: BTreeMap<&str, (&str, &DefinedBoard)> = BTreeMap::new();
        for &(file, board) in boards {
            let Some(prefix) = board.prefix.as_deref() else { continue };
            let (other_file, other) = *first.entry(prefix).or_insert((file, board));
            if other.id != board.id {
                let Place { line, column } = other.place;
                let (id, other) = (&board.id, &other.id);
                self.found.push(Lint {
                    level: Level::Error,
                    code: ErrorCode::ToolCollision.into(),
                    message: format!(
                        "the tools of blackboards `{other}` ({other_file}:{line}:{column}) and `{id}` both begin with `{prefix}`"
                    ),
                    file: file.to_owned(),
                    line: board.place.line,
                    column: board.place.column,
                    hint: Some("give one of them another `prefix`, or `tools: false`".to_owned()),
                });
            }
        }
    }

    fn prompt(&mut self, file: &str, unit: &PromptUnit) {
        let units = reached(&unit.facts.uses, &self.compiled.contexts);
        let of_units =
            units.values().flat_map(|it| it.facts.boards.iter().map(|board| (it.file.as_str(), board)));
        let boards: Vec<_> = of_units.chain(unit.facts.boards.iter().map(|it| (file, it))).collect();
        self.board_tools(&boards);
        let mut schemas: Vec<&Value> = unit.facts.schemas.iter().collect();
        let mut reads: Vec<&Read> = unit.facts.variables.iter().collect();
        let mut keys: Vec<(&str, &(String, Place))> = unit.facts.slot.iter().map(|it| (file, it)).collect();
        let mut values: BTreeMap<&str, &[String]> = BTreeMap::new();
        for context in units.values() {
            schemas.extend(&context.facts.schemas);
            reads.extend(&context.facts.variables);
            keys.extend(context.facts.slot.iter().map(|it| (context.file.as_str(), it)));
            values
                .extend(context.facts.capability.iter().map(|(name, keys)| (name.as_str(), keys.as_slice())));
        }
        reads.extend(unit.blocks.iter().flat_map(|it| &it.facts.variables));
        self.user_defaults(&unit.facts.user, &schemas);
        reads.iter().for_each(|it| self.unknown_variable(it));
        reads.iter().for_each(|it| self.unknown_value(it, &values));
        if !schemas.is_empty() {
            reads.into_iter().for_each(|it| self.undeclared(it, &schemas));
        }
        if let Some(section) = &unit.facts.section {
            keys.into_iter().for_each(|(file, (key, place))| self.unread_key(file, key, *place, section));
        }
        if !unit.has_text && unit.facts.uses.is_empty() && unit.facts.slot.is_empty() && unit.prompt.is_ok() {
            self.warn("empty_prompt", "the prompt has no text".to_owned(), file, Place::START, None);
        }
        if unit.arranges_by_author {
            self.cache_order(file, unit);
        }
    }

    fn undeclared(&mut self, read: &Read, schemas: &[&Value]) {
        let [root, path @ ..] = read.path.as_slice() else { return };
        if root == "input" && !path.is_empty() && !schemas.iter().any(|it| declares(it, path)) {
            let message = format!("`{}` is read, but no `input` schema declares it", read.path.join("."));
            let hint = "declare it, so that a missing value is found before the template runs";
            self.warn("input_undeclared", message, &read.file, read.place, Some(hint));
        }
    }

    /// Warns about a variable that does not exist for a prompt. Variables of partials may be arguments.
    fn unknown_variable(&mut self, read: &Read) {
        let known: &[&str] = match read.path.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["ctx", key, ..] if !OF_CTX.contains(&key) => &OF_CTX,
            [root, ..] if !GLOBALS.contains(&root) => &GLOBALS,
            _ => return,
        };
        if FileKind::of(&read.file) == Some(FileKind::Partial) {
            return;
        }
        let key = if known == GLOBALS { &read.path[0] } else { &read.path[1] };
        let hint = did_you_mean(key, known.iter().copied());
        let hint = hint.unwrap_or_else(|| format!("there are: {}", known.join(", ")));
        let message = format!("there is no variable `{}`", read.path.join("."));
        self.warn("variable_unknown", message, &read.file, read.place, Some(&hint));
    }

    /// Warns about a value that no capability of the prompt has.
    fn unknown_value(&mut self, read: &Read, values: &BTreeMap<&str, &[String]>) {
        let path: Vec<&str> = read.path.iter().map(String::as_str).collect();
        let ["ctx", "cap", name, rest @ ..] = path.as_slice() else { return };
        let hint = match (values.get(name), rest) {
            (None, _) => did_you_mean(name, values.keys().copied())
                .unwrap_or_else(|| format!("include it: `use: [{{capability: {name}}}]`")),
            (Some(keys), [key, ..]) if !keys.iter().any(|it| it == key) => {
                let known = || keys.iter().map(String::as_str);
                did_you_mean(key, known())
                    .unwrap_or_else(|| format!("there are: {}", known().collect::<Vec<_>>().join(", ")))
            }
            _ => return,
        };
        let message = format!("there is no variable `{}`", read.path.join("."));
        self.warn("variable_unknown", message, &read.file, read.place, Some(&hint));
    }

    /// Warns if defaults fill the user text: it is sent with every call, even next to what a chat user types.
    fn user_defaults(&mut self, user: &[Read], schemas: &[&Value]) {
        let mut reads = user.iter().filter(|it| it.path.first().is_some_and(|it| it == "input"));
        let Some(first) = reads.next() else { return };
        let is_filled = |it: &Read| schemas.iter().any(|schema| has_default(schema, &it.path[1..]));
        if is_filled(first) && reads.all(is_filled) {
            let message = format!(
                "the user text is filled from defaults (`{}`): `chat` and the server may send it beside the user's message",
                first.path.join(".")
            );
            let hint =
                "remove the user text and pass `--user`, or remove the default so that callers must say it";
            self.warn("user_text_default", message, &first.file, first.place, Some(hint));
        }
    }

    fn unread_key(&mut self, file: &str, key: &str, place: Place, section: &[Read]) {
        let Ok(name) = validate_tag_name(key) else { return };
        let is_read =
            section.iter().any(|it| match it.path.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                // Without a key, the template iterates over all of them.
                ["config"] | ["config", "context"] => true,
                ["config", "context", key, ..] => validate_tag_name(key).is_ok_and(|it| it == name),
                _ => false,
            });
        if !is_read {
            let message =
                format!("the `<context>` section does not read `{key}`, so it is not in the prompt");
            let hint = format!("add `{{{{ config.context.{name} }}}}` to the section");
            self.warn("context_unread", message, file, place, Some(&hint));
        }
    }

    /// Warns if stable text follows text that changes: a provider's cache cannot serve it.
    fn cache_order(&mut self, file: &str, unit: &PromptUnit) {
        let mut flat = Vec::new();
        self.flatten(file, &unit.facts.uses, &mut BTreeSet::new(), &mut flat);
        flat.retain(|it| it.in_system);
        // The engine's order: the prompt's own text, `cached` contexts, the rest. The sort is stable.
        flat.sort_by_key(|it| !it.cached);
        let own = "the prompt's own text";
        let mut changing = unit.own_text_changes.then(|| own.to_owned());
        for placed in &flat {
            match (&changing, placed.volatility) {
                (None, Volatility::Turn) => changing = Some(placed.name.clone()),
                (Some(first), Volatility::Static) => {
                    let message = format!(
                        "{} never changes but follows {first}, which changes each turn: caches cannot keep it",
                        placed.name
                    );
                    let hint = match first == own {
                        true => {
                            "move what changes out of the prompt's own text, such as to a context behind the others"
                        }
                        false => "set `cached: true`, or move it to the front of `use`",
                    };
                    self.warn("cache_order", message, &placed.file, placed.place, Some(hint));
                }
                _ => {}
            }
        }
    }

    /// Lists the contexts in resolved order: nested ones before their owners, each once.
    fn flatten(&self, file: &str, uses: &[Use], seen: &mut BTreeSet<String>, flat: &mut Vec<PlacedContext>) {
        for used in uses {
            match used {
                Use::Inline(spot) => {
                    self.flatten(file, &spot.uses, seen, flat);
                    flat.push(PlacedContext::new(file, spot.place, spot));
                }
                Use::File { path, place } => {
                    let spot = self.compiled.contexts.get(path).and_then(|it| it.spot.as_ref());
                    let Some(spot) = spot.filter(|_| seen.insert(path.clone())) else { continue };
                    let own = self.compiled.contexts.get(path).map_or(path.as_str(), |it| &it.file);
                    self.flatten(own, &spot.uses, seen, flat);
                    flat.push(PlacedContext::new(file, *place, spot));
                }
            }
        }
    }

    fn unused_contexts(&mut self) {
        let used: BTreeSet<String> = self
            .compiled
            .prompts
            .values()
            .flat_map(|it| reached(&it.facts.uses, &self.compiled.contexts).into_keys())
            .collect();
        let used: BTreeSet<String> =
            used.iter().filter_map(|it| self.compiled.contexts.get(it)).map(|it| it.file.clone()).collect();
        let files: BTreeSet<String> = self.compiled.contexts.values().map(|it| it.file.clone()).collect();
        for file in files.difference(&used) {
            let (code, message) = match capability_name(file) {
                Some(name) => ("capability_unused", format!("no prompt uses the capability `{name}`")),
                None => {
                    let name = context_name(file).unwrap_or(file);
                    ("context_unused", format!("no prompt uses the context `{name}`"))
                }
            };
            self.warn(code, message, file, Place::START, None);
        }
    }
}

/// A context at its position in a prompt.
struct PlacedContext {
    name: String,
    file: String,
    /// The position of the entry that uses it.
    place: Place,
    volatility: Volatility,
    cached: bool,
    in_system: bool,
}

impl PlacedContext {
    fn new(file: &str, place: Place, spot: &Spot) -> Self {
        let Spot { name, volatility, cached, in_system, .. } = spot.clone();
        Self { name, file: file.to_owned(), place, volatility, cached, in_system }
    }
}

/// Whether a schema declares a path, as far as the schema can be followed.
fn declares(schema: &Value, path: &[String]) -> bool {
    let [key, rest @ ..] = path else { return true };
    let is_open = ["$ref", "anyOf", "oneOf", "allOf", "if", "patternProperties"]
        .iter()
        .any(|it| schema.get(it).is_some())
        || schema.get("additionalProperties").is_some_and(|it| it != &Value::Bool(false));
    match schema.get("properties").and_then(Value::as_object) {
        Some(properties) => properties.get(key).map_or(is_open, |it| declares_below(it, rest)),
        None => is_open,
    }
}

/// Whether a schema has a default for a path, at the path or above it.
fn has_default(schema: &Value, path: &[String]) -> bool {
    if schema.get("default").is_some() {
        return true;
    }
    let [key, rest @ ..] = path else { return false };
    schema.get("properties").and_then(|it| it.get(key)).is_some_and(|it| has_default(it, rest))
}

/// Below the top level, a schema without properties allows any key.
fn declares_below(schema: &Value, path: &[String]) -> bool {
    match path {
        [] => true,
        [last] if matches!(last.as_str(), "size" | "first" | "last") => true,
        _ if schema.get("properties").is_none() => true,
        _ => declares(schema, path),
    }
}
