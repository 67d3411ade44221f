//! The state of reading one file: its fields, texts, problems and dependencies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use contexture_compose::{Schema, TagValue, Text};
use contexture_message::{ErrorCode, ToolDefinition};
use contexture_template::{Condition, Expression, ParseConfig, Template, Variable};

use crate::blocks::Blocks;
use crate::compile::ContextUnit;
use crate::decode;
use crate::error::{Fault, Place, Problem};
use crate::facts::{Facts, Read, Remark};
use crate::index::Index;
use crate::partials::Library;
use crate::places::Places;
use crate::sources::Sources;
use crate::spread::{Spread, Written};
use crate::tools::{ProjectTool, tool};
use crate::yaml::{Data, Node, Pair};
use contexture_template::did_you_mean;
use contexture_template::nearest;

/// The definitions that a file may refer to.
#[derive(Clone, Copy)]
pub(crate) struct Shelf<'a> {
    pub(crate) sources: &'a Sources,
    pub(crate) library: &'a Library<'a>,
    pub(crate) index: &'a Index,
    /// Blocks, which are read before prompts and contexts.
    pub(crate) blocks: &'a Blocks,
    /// Contexts that were already read.
    pub(crate) contexts: &'a BTreeMap<String, Arc<ContextUnit>>,
    /// For contexts in a cycle: the files that each file uses.
    pub(crate) circles: &'a BTreeMap<String, Vec<String>>,
}

/// Reads one file and collects its problems, dependencies and facts.
pub(crate) struct Reader<'a> {
    pub(crate) file: &'a str,
    pub(crate) shelf: Shelf<'a>,
    problems: Vec<Problem>,
    /// Files that were read or looked up.
    pub(crate) reads: BTreeSet<String>,
    pub(crate) facts: Facts,
    /// Positions of definitions that the engine validates later.
    pub(crate) places: Places,
    /// The nesting depth of the files that it uses.
    pub(crate) height: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(file: &'a str, shelf: Shelf<'a>) -> Self {
        Self {
            file,
            shelf,
            problems: Vec::new(),
            reads: BTreeSet::from([file.to_owned()]),
            facts: Facts::default(),
            places: Places::default(),
            height: 1,
        }
    }

    pub(crate) fn problem(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    pub(crate) fn problems(&mut self, problems: Vec<Problem>) {
        self.problems.extend(problems);
    }

    pub(crate) fn remark(&mut self, remark: Remark) {
        self.facts.remarks.push(remark);
    }

    /// Takes the collected problems as faults of this file.
    pub(crate) fn faults(&mut self) -> Vec<Fault> {
        let file = self.file;
        std::mem::take(&mut self.problems).into_iter().map(|it| it.into_fault(file)).collect()
    }

    /// Returns the value, or records the problem with the field.
    pub(crate) fn take<T>(&mut self, field: &str, result: Result<T, Problem>) -> Option<T> {
        result.map_err(|it| self.problem(it.under(field))).ok()
    }

    /// Returns the value, or records all problems with the field.
    pub(crate) fn take_all<T>(&mut self, field: &str, result: Result<T, Vec<Problem>>) -> Option<T> {
        result.map_err(|problems| problems.into_iter().for_each(|it| self.problem(it.under(field)))).ok()
    }

    /// Opens a map of fields and records unknown keys.
    pub(crate) fn fields<'n>(&mut self, node: &'n Node, known: &'static [&'static str]) -> Fields<'n> {
        self.fields_but(node, known, |_| None)
    }

    /// Opens a map of fields and records unknown keys; `special` may supply its own problem for some of them.
    pub(crate) fn fields_but<'n>(
        &mut self,
        node: &'n Node,
        known: &'static [&'static str],
        special: impl Fn(&Pair) -> Option<Problem>,
    ) -> Fields<'n> {
        let pairs = match decode::map(node) {
            Ok(pairs) => pairs,
            Err(problem) => {
                self.problem(problem);
                &[]
            }
        };
        for pair in pairs.iter().filter(|it| !known.contains(&it.key.as_str())) {
            self.problem(special(pair).unwrap_or_else(|| unknown_field(pair, known)));
        }
        Fields { pairs }
    }

    /// Reads a text, which is a template.
    pub(crate) fn text(&mut self, field: &str, node: &Node) -> Option<Text> {
        let text = self.take(field, decode::word(node))?;
        self.template(node.spread(&text))
    }

    /// Parses a template that appears verbatim in the file, starting at a position.
    pub(crate) fn section(&mut self, text: &str, place: Place) -> Option<Text> {
        self.template(Spread::new(text, place, Written::Verbatim))
    }

    fn template(&mut self, spread: Spread) -> Option<Text> {
        let template = self.parsed(spread, Template::parse_with)?;
        let spread = self.facts.texts.last()?;
        let reached = self.shelf.library.reach(&template, self.file, spread);
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
    pub(crate) fn condition(&mut self, field: &str, node: &Node) -> Option<Condition> {
        let text = self.take(field, decode::word(node))?;
        let condition = self.parsed(node.spread(&text), Condition::parse_with)?;
        self.note_own(condition.variables());
        Some(condition)
    }

    /// Reads a Liquid expression.
    pub(crate) fn expression(&mut self, field: &str, node: &Node) -> Option<Expression> {
        let text = self.take(field, decode::word(node))?;
        let expression = self.parsed(node.spread(&text), Expression::parse_with)?;
        self.note_own(expression.variables());
        Some(expression)
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
        if let Data::Map(pairs) = &node.data
            && !pairs.iter().any(|it| it.key == "role")
        {
            self.facts.slot.extend(pairs.iter().map(|it| (it.key.clone(), it.place)));
        }
    }

    /// Reads a JSON Schema.
    pub(crate) fn schema(&mut self, field: &str, node: &Node) -> Option<Schema> {
        self.take(field, decode::map(node))?;
        Some(Schema::from_json(node.to_json()))
    }

    /// Reads a list of tools.
    pub(crate) fn tools(&mut self, node: &Node) -> Vec<ToolDefinition> {
        let items = self.take("tools", decode::list(node)).unwrap_or_default();
        let tools = items.iter().enumerate().filter_map(|(idx, item)| {
            let read = tool(item);
            let read = read.map_err(|them| them.into_iter().map(|it| it.under(format!("[{idx}]"))).collect());
            let (tool, runs): (ToolDefinition, Option<ProjectTool>) = self.take_all("tools", read)?;
            match runs {
                Some(runs) => self.facts.tools.push((runs, item.place)),
                None => self.facts.plain_tools.push((tool.clone(), item.place)),
            }
            if tool.description.trim().is_empty() {
                self.facts.silent_tools.push((tool.name.clone(), item.place));
            }
            Some(tool)
        });
        tools.collect()
    }

    /// Reads a list of definitions, such as constraints.
    pub(crate) fn list<T: serde::de::DeserializeOwned>(&mut self, field: &str, node: &Node) -> Vec<T> {
        self.checked_list(field, node, |_| Ok(()))
    }

    /// Reads a list of definitions; `check` validates each one, and its error becomes a problem at that item.
    pub(crate) fn checked_list<T: serde::de::DeserializeOwned>(
        &mut self,
        field: &str,
        node: &Node,
        check: impl Fn(&T) -> Result<(), String>,
    ) -> Vec<T> {
        let items = self.take(field, decode::list(node)).unwrap_or_default();
        let each = items.iter().enumerate().filter_map(|(idx, item)| {
            let read = decode::value::<T>(item).and_then(|it| match check(&it) {
                Ok(()) => Ok(it),
                Err(reason) => Err(Problem::invalid(reason).at(item.place)),
            });
            self.take(field, read.map_err(|it| it.under(format!("[{idx}]"))))
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

/// The fields of a map.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'n> {
    pairs: &'n [Pair],
}

impl<'n> Fields<'n> {
    /// Returns the value of a field; `null` counts as absent.
    pub(crate) fn get(&self, name: &str) -> Option<&'n Node> {
        self.pair(name).map(|it| &it.value)
    }

    /// Returns the value of a field, `null` included.
    pub(crate) fn given(&self, name: &str) -> Option<&'n Node> {
        self.pairs.iter().find(|it| it.key == name).map(|it| &it.value)
    }

    /// Returns a field with the position of its name; `null` counts as absent.
    pub(crate) fn pair(&self, name: &str) -> Option<&'n Pair> {
        self.pairs.iter().find(|it| it.key == name && !it.value.is_null())
    }
}

/// Fields that authors often put next to `settings` instead of below it.
const SETTINGS: [&str; 6] = ["temperature", "max_tokens", "top_p", "top_k", "stop", "seed"];

/// Returns the problem for an unknown field.
pub(crate) fn unknown_field(pair: &Pair, known: &[&str]) -> Problem {
    if pair.key == "hooks" {
        let problem = Problem::invalid("`hooks` are functions: a file can't hold them");
        return problem.at(pair.place).hint(Some("add them to the prompt's definition in Rust".to_owned()));
    }
    let setting = || known.contains(&"settings").then(|| nearest(&pair.key, SETTINGS)).flatten();
    // Prompts and contexts use different names for the same field.
    let other = [("context", "values"), ("values", "context")]
        .into_iter()
        .find(|(one, other)| pair.key == *one && known.contains(other) && known.contains(&"use"))
        .map(|(_, other)| format!("did you mean `{other}`?"));
    let hint = other
        .or_else(|| did_you_mean(&pair.key, known.iter().copied()))
        .or_else(|| setting().map(|it| format!("did you mean `{it}` under `settings`?")))
        .or_else(|| decode::known_fields(known));
    Problem::new(ErrorCode::UnknownField, format!("unknown field `{}`", pair.key)).at(pair.place).hint(hint)
}
