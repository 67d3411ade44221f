//! The state of reading one file: its fields, texts, problems and dependencies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use contexture_capabilities::{QUERY_VARIABLES, QueryTemplate};
use contexture_compose::{Contributor, Schema, SharedTool, TagValue, Text};
use contexture_message::ErrorCode;
use contexture_template::{Condition, Expression, ParseConfig, Template, Variable};
use serde::de::DeserializeOwned;

use crate::error::{Fault, Place, Problem};
use crate::files::Sources;
use crate::knowledge::Knowledge;
use crate::read::facts::{Facts, Read, Remark};
use crate::read::index::Index;
use crate::read::partials::Library;
use crate::read::places::Places;
use crate::read::tools::DeclaredTool;
use crate::read::unit::{Blocks, ContextUnit};
use crate::skills::ProjectSkills;
use crate::source::decode::{Advice, Collected, Cursor, Each, Field, Raw, Word};
use crate::source::spread::{Spread, Written};
use crate::source::yaml::{Data, Node};

/// Contributors that an application registered, by id.
pub(crate) type Contributors = BTreeMap<String, Arc<dyn Contributor>>;

/// The definitions that a file may refer to.
#[derive(Clone, Copy)]
pub(crate) struct Lookup<'a> {
    pub(crate) sources: &'a Sources,
    pub(crate) library: &'a Library<'a>,
    pub(crate) index: &'a Index,
    /// Blocks, which are read before prompts and contexts.
    pub(crate) blocks: &'a Blocks,
    /// The knowledge bases.
    pub(crate) knowledge: &'a Knowledge,
    /// The skills.
    pub(crate) skills: &'a ProjectSkills,
    /// Contributors that the application registered, by id.
    pub(crate) contributors: &'a Contributors,
    /// Contexts and variants of capabilities that were already read.
    pub(crate) contexts: &'a BTreeMap<String, Arc<ContextUnit>>,
    /// For contexts in a cycle: the files that each file uses.
    pub(crate) circles: &'a BTreeMap<String, Vec<String>>,
}

/// Reads one file and collects its problems, dependencies and facts.
pub(crate) struct Reader<'a> {
    pub(crate) file: &'a str,
    /// Identifies what is read among the units: the file, or a variant of it.
    pub(crate) key: String,
    pub(crate) lookup: Lookup<'a>,
    collected: Collected<'a>,
    /// Files that were read or looked up.
    pub(crate) reads: BTreeSet<String>,
    pub(crate) facts: Facts,
    /// Positions of definitions that the engine validates later.
    pub(crate) places: Places,
    /// The nesting depth of the files that it uses.
    pub(crate) height: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(file: &'a str, lookup: Lookup<'a>) -> Self {
        Self {
            file,
            key: file.to_owned(),
            lookup,
            collected: Collected::default(),
            reads: BTreeSet::from([file.to_owned()]),
            facts: Facts::default(),
            places: Places::default(),
            height: 1,
        }
    }

    pub(crate) fn problem(&mut self, problem: Problem) {
        self.collected.problems.push(problem);
    }

    pub(crate) fn problems(&mut self, problems: Vec<Problem>) {
        self.collected.problems.extend(problems);
    }

    pub(crate) fn remark(&mut self, remark: Remark) {
        self.facts.remarks.push(remark);
    }

    /// Takes the collected problems as faults of this file.
    pub(crate) fn faults(&mut self) -> Vec<Fault> {
        let file = self.file;
        std::mem::take(&mut self.collected.problems).into_iter().map(|it| it.into_fault(file)).collect()
    }

    /// Decodes a map to its fields. Every fault is recorded; a map with a fault may still have fields to read.
    pub(crate) fn decode<T: DeserializeOwned + Default>(&mut self, at: Cursor<'a>) -> T {
        self.decode_with(at, |_| None)
    }

    /// Like `decode`, with hints for unknown keys.
    pub(crate) fn decode_with<T: DeserializeOwned + Default>(&mut self, at: Cursor<'a>, advice: Advice) -> T {
        self.collected.decode(at, advice).unwrap_or_default()
    }

    /// Returns the value that was decoded to `raw`.
    pub(crate) fn cursor(&self, raw: Raw) -> Cursor<'a> {
        self.collected.cursor(raw).clone()
    }

    /// Returns the value of a field that is given.
    pub(crate) fn given(&self, raw: Option<Raw>) -> Option<Cursor<'a>> {
        raw.map(|it| self.cursor(it))
    }

    /// Returns the value, or records the problem.
    pub(crate) fn take<T>(&mut self, result: Result<T, Problem>) -> Option<T> {
        result.map_err(|it| self.problem(it)).ok()
    }

    /// Reads a text, which is a template.
    pub(crate) fn text(&mut self, at: &Cursor<'a>) -> Option<Text> {
        let text = self.take(at.word())?;
        self.template(at.node.spread(&text))
    }

    /// Reads a text that is a template, or a Liquid expression if it has no tag.
    pub(crate) fn stated(&mut self, at: &Cursor<'a>) -> Option<Text> {
        let text = self.take(at.word())?;
        match text.contains("{{") || text.contains("{%") {
            true => self.text(at),
            false => self.section(&format!("{{{{ {text} }}}}"), at.node.place),
        }
    }

    /// Reads an optional field that is a template.
    pub(crate) fn text_of(&mut self, raw: Option<Raw>) -> Option<Text> {
        self.given(raw).and_then(|it| self.text(&it))
    }

    /// Reads an id, which must not be blank.
    pub(crate) fn id(&mut self, id: &Field<Word>) -> Option<(String, Place)> {
        let (word, at) = id.value.as_ref().zip(self.given(id.raw))?;
        if word.0.trim().is_empty() {
            self.problem(at.wrong("a name"));
        }
        Some((word.0.clone(), at.node.place))
    }

    /// Parses a template that appears verbatim in the file, starting at a position.
    pub(crate) fn section(&mut self, text: &str, place: Place) -> Option<Text> {
        self.template(Spread::new(text, place, Written::Verbatim))
    }

    fn template(&mut self, spread: Spread) -> Option<Text> {
        let template = self.parsed(spread, Template::parse_with)?;
        let spread = self.facts.texts.last()?;
        let reached = self.lookup.library.reach(&template, self.file, spread);
        self.reads.extend(reached.files.iter().cloned());
        self.note_own(template.variables());
        for (file, partial) in reached.templates() {
            self.note(file, partial.variables(), |it| it);
        }
        let partials = reached.partials();
        self.problems(reached.problems);
        Some(Text::from_template(template, partials))
    }

    /// Parses a text of this file and records its position.
    fn parsed<T>(
        &mut self,
        spread: Spread,
        parse: impl FnOnce(&str, &ParseConfig) -> Result<T, contexture_template::Error>,
    ) -> Option<T> {
        let config = ParseConfig {
            name: Some(self.file.to_owned()),
            first_line: spread.start.line,
            first_column: spread.start.column,
            ..ParseConfig::default()
        };
        let parsed = parse(spread.text(), &config);
        let parsed = parsed.map_err(|err| self.problem(Problem::of_template(&err, |it| spread.in_file(it))));
        self.facts.texts.push(spread);
        parsed.ok()
    }

    /// Reads a Liquid condition.
    pub(crate) fn condition(&mut self, at: &Cursor<'a>) -> Option<Condition> {
        let text = self.take(at.word())?;
        let condition = self.parsed(at.node.spread(&text), Condition::parse_with)?;
        self.note_own(condition.variables());
        Some(condition)
    }

    /// Reads a Liquid expression.
    pub(crate) fn expression(&mut self, at: &Cursor<'a>) -> Option<Expression> {
        let text = self.take(at.word())?;
        let expression = self.parsed(at.node.spread(&text), Expression::parse_with)?;
        self.note_own(expression.variables());
        Some(expression)
    }

    /// Reads the template of a query. Besides the input it has the variables of the conversation.
    pub(crate) fn query(&mut self, at: &Cursor<'a>) -> Option<QueryTemplate> {
        self.query_template(at, &QUERY_VARIABLES).map(QueryTemplate::from)
    }

    /// Reads the template of a step that rewrites a query: it also has the query so far.
    pub(crate) fn step_query(&mut self, at: &Cursor<'a>) -> Option<Template> {
        let known: Vec<&str> = ["query"].into_iter().chain(QUERY_VARIABLES).collect();
        self.query_template(at, &known)
    }

    fn query_template(&mut self, at: &Cursor<'a>, known: &[&str]) -> Option<Template> {
        let text = self.take(at.word())?;
        let template = self.parsed(at.node.spread(&text), Template::parse_with)?;
        let is_shared = |it: &Variable| it.path.first().is_some_and(|it| it == "input" || it == "ctx");
        let (shared, own): (Vec<_>, Vec<_>) = template.variables().into_iter().partition(is_shared);
        for variable in own {
            let name = variable.path.first().map(String::as_str).unwrap_or_default();
            if known.contains(&name) {
                continue;
            }
            let names: Vec<String> = known.iter().map(|it| format!("`{it}`")).collect();
            let place = self.facts.texts.last().map(|it| it.in_file(variable.place.into()));
            let message = format!("unknown variable `{name}` in a query");
            let problem = Problem::new(ErrorCode::TemplateError, message).at(place.unwrap_or(at.node.place));
            let hint = format!("a query can read {}", names.join(", "));
            self.problem(problem.within(&at.path).hint(Some(hint)));
        }
        self.note_own(shared);
        Some(template)
    }

    /// Reads a value of the tag tree, in which every text is a template.
    pub(crate) fn tag_value(&mut self, node: &Node) -> Option<TagValue> {
        Some(match &node.data {
            Data::Text(text) => TagValue::Text(self.template(node.spread(text))?),
            Data::List(items) => {
                let values: Vec<_> = items.iter().map(|it| self.tag_value(it)).collect();
                TagValue::List(values.into_iter().collect::<Option<_>>()?)
            }
            Data::Map(pairs) => {
                let values: Vec<_> =
                    pairs.iter().map(|it| Some((it.key.clone(), self.tag_value(&it.value)?))).collect();
                TagValue::object(values.into_iter().collect::<Option<Vec<_>>>()?)
            }
            Data::Null | Data::Bool(_) | Data::Number(_) => TagValue::Json(node.to_json()),
        })
    }

    /// Records the top-level keys of a value of the tag tree, unless it is a message.
    pub(crate) fn slot_keys(&mut self, node: &Node) {
        if node.get("role").is_none() {
            self.facts.slot.extend(node.pairs().iter().map(|it| (it.key.clone(), it.place)));
        }
    }

    /// Reads a JSON Schema, and records the keys that it declares for `owner`.
    pub(crate) fn schema(&mut self, owner: &str, at: &Cursor<'a>) -> Option<Schema> {
        self.take(at.pairs())?;
        self.places.schema(owner, at.node);
        Some(Schema::from_json(at.node.to_json()))
    }

    /// Reads a list of tools.
    pub(crate) fn tools(&mut self, tools: Each<DeclaredTool>) -> Vec<SharedTool> {
        let read = tools.items().filter_map(|(declared, raw)| {
            let at = self.cursor(raw);
            let (tool, runs) = self.take(declared.check(&at))?;
            self.places.tool(&tool.name, at.node.place);
            if tool.description.trim().is_empty() {
                self.facts.silent_tools.push((tool.name.clone(), at.node.place));
            }
            let Some(runs) = runs else {
                self.facts.plain_tools.push((tool.clone(), at.node.place));
                return Some(SharedTool::new(tool));
            };
            let shared = runs.shared(self.lookup.knowledge.http());
            self.facts.tools.push((runs, at.node.place));
            self.take(shared.map_err(|err| at.invalid(err.to_string())))
        });
        read.collect()
    }

    /// Returns the items of a list that pass a check, and records the problems of the others.
    pub(crate) fn checked<T>(&mut self, list: Each<T>, check: impl Fn(&T) -> Result<(), String>) -> Vec<T> {
        let each = list.items().filter_map(|(item, raw)| match check(&item) {
            Ok(()) => Some(item),
            Err(reason) => {
                self.problem(self.cursor(raw).invalid(reason));
                None
            }
        });
        each.collect()
    }

    /// Records the variables that the most recently parsed text reads.
    fn note_own(&mut self, variables: Vec<Variable>) {
        let spread = self.facts.texts.last().cloned();
        self.note(self.file, variables, |it| spread.as_ref().map_or(it, |spread| spread.in_file(it)));
    }

    fn note(&mut self, file: &str, variables: Vec<Variable>, in_file: impl Fn(Place) -> Place) {
        let reads = variables.into_iter().map(|it| Read {
            path: it.path,
            file: file.to_owned(),
            place: in_file(it.place.into()),
        });
        self.facts.variables.extend(reads);
    }
}

/// Whether the value of a variable may change between turns.
pub(crate) fn changes_each_turn(path: &[String]) -> bool {
    match path.first().map(String::as_str) {
        Some("input") => true,
        Some("ctx") => path.get(1).is_none_or(|it| it == "now"),
        _ => false,
    }
}
