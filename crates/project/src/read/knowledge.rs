//! Reads the entries that search knowledge bases: `retriever`, `pipeline` and `grounding`.

use std::num::NonZeroUsize;

use contexture_capabilities as capabilities;
use contexture_capabilities::{Grounding, Inject, KnowledgeBase, Retrieval};
use contexture_compose::{Entry, OnError, Priority};
use contexture_knowledge::grounding::{CitationRule, QuoteRule};
use contexture_knowledge::pipeline::{Filter, ListwiseReranker, Rewriting, Step};
use contexture_knowledge::retrieve::Around;
use contexture_message::ErrorCode;
use contexture_template::{Template, did_you_mean};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::sync::Arc;

use crate::error::Problem;
use crate::files::CONFIG;
use crate::knowledge::BASES;
use crate::read::reader::Reader;
use crate::source::decode::{Cursor, Field, Raw, Word};
use crate::source::yaml::Data;

/// The steps of a pipeline.
const STEPS: [&str; 7] = ["rewrite", "fan_out", "retrieve", "filter", "rerank", "expand", "compress"];

/// How many hits a step retrieves, unless it says otherwise: more than what remains in the end.
const STEP_TOP_K: usize = 20;
/// How many hits a model is asked to order, unless the step says otherwise.
const RERANK_TOP: usize = 20;
/// How many tokens hits may have together after they were expanded, unless the step says otherwise.
const EXPAND_TOKENS: u32 = 4_000;
/// How many tokens a hit may have after it was compressed, unless the step says otherwise.
const COMPRESS_TOKENS: u32 = 200;

#[derive(Default, Deserialize)]
#[serde(default)]
struct RetrieverEntry {
    retriever: Option<Raw>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PipelineEntry {
    pipeline: Option<Raw>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GroundingEntry {
    grounding: Option<Raw>,
}

/// Declares the fields of an entry: its own, and those that every search has.
macro_rules! search_fields {
    ($name:ident { $($field:ident: $type:ty),* $(,)? }) => {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct $name {
            $($field: $type,)*
            id: Field<Word>,
            query: Option<Raw>,
            top_k: Field<NonZeroUsize>,
            min_score: Field<f64>,
            inject: Field<Inject>,
            priority: Field<Priority>,
            on_error: Field<ErrorPolicy>,
        }

        impl $name {
            fn search(&mut self, reader: &mut Reader<'_>) -> SearchFields {
                SearchFields {
                    id: reader.id(&self.id).map(|(id, _)| id),
                    query: self.query.take(),
                    top_k: self.top_k.value.take().map(NonZeroUsize::get),
                    min_score: self.min_score.value.take(),
                    inject: self.inject.value.take(),
                    priority: self.priority.value.take(),
                    on_error: self.on_error.value.take(),
                }
            }
        }
    };
}

search_fields!(RetrieverFields { base: Option<Raw> });
search_fields!(PipelineFields { steps: Option<Raw> });
search_fields!(GroundingFields {
    bases: Option<Raw>,
    retriever: Option<Raw>,
    citations: Field<CitationRule>,
    quotes: Field<QuoteRule>,
    min_coverage: Field<Share>,
});

/// A number from 0 to 1.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "f64")]
struct Share(f64);

impl TryFrom<f64> for Share {
    type Error = String;

    fn try_from(value: f64) -> Result<Self, String> {
        match (0.0..=1.0).contains(&value) {
            true => Ok(Self(value)),
            false => Err(format!("{value} is not from 0 to 1")),
        }
    }
}

/// What every entry can say about its search.
#[derive(Default)]
struct SearchFields {
    id: Option<String>,
    query: Option<Raw>,
    top_k: Option<usize>,
    min_score: Option<f64>,
    inject: Option<Inject>,
    priority: Option<Priority>,
    on_error: Option<ErrorPolicy>,
}

/// Sets what is given on either kind of entry.
macro_rules! configured {
    ($reader:expr, $entry:expr, $search:expr) => {{
        let (reader, search, mut entry) = (&mut *$reader, $search, $entry);
        if let Some(query) = reader.given(search.query).and_then(|it| reader.query(&it)) {
            entry = entry.query(query);
        }
        entry = search.id.into_iter().fold(entry, |entry, it| entry.id(it));
        entry = search.top_k.into_iter().fold(entry, |entry, it| entry.top_k(it));
        entry = search.min_score.into_iter().fold(entry, |entry, it| entry.min_score(it));
        entry = search.inject.into_iter().fold(entry, |entry, it| entry.inject(it));
        entry = search.priority.into_iter().fold(entry, |entry, it| entry.priority(it));
        search.on_error.into_iter().fold(entry, |entry, it| entry.on_error(it.into()))
    }};
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ErrorPolicy {
    Skip,
    Fail,
}

impl From<ErrorPolicy> for OnError {
    fn from(policy: ErrorPolicy) -> Self {
        match policy {
            ErrorPolicy::Skip => OnError::Skip,
            ErrorPolicy::Fail => OnError::Fail,
        }
    }
}

/// Notes that a file depends on the bases of the project.
pub(crate) fn depends(reader: &mut Reader<'_>) {
    reader.reads.extend([BASES.to_owned(), CONFIG.to_owned()]);
}

/// Reads a `retriever`: the name of a base, or its fields.
pub(crate) fn retriever<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>) -> Entry {
    let entry: RetrieverEntry = reader.decode(at.clone());
    let found = reader.given(entry.retriever).and_then(|it| retrieval(reader, &it));
    found.map_or(Entry::Nothing, |(base, search)| {
        let entry: Retrieval = configured!(reader, capabilities::retriever(base), search);
        entry.into()
    })
}

/// Reads the base of a retriever and what it says about its search.
fn retrieval<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>) -> Option<(KnowledgeBase, SearchFields)> {
    if let Data::Text(_) = &at.node.data {
        return Some((base(reader, at)?, SearchFields::default()));
    }
    let mut fields: RetrieverFields = reader.decode(at.clone());
    let search = fields.search(reader);
    match reader.given(fields.base) {
        Some(name) => Some((base(reader, &name)?, search)),
        None => {
            reader.problem(at.invalid("`base` is missing"));
            None
        }
    }
}

/// Reads a `pipeline`: a list of steps, or its fields with `steps`.
pub(crate) fn pipeline<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>) -> Entry {
    let entry: PipelineEntry = reader.decode(at.clone());
    let Some(inner) = reader.given(entry.pipeline) else { return Entry::Nothing };
    let (listed, search) = match &inner.node.data {
        Data::Map(_) => {
            let mut fields: PipelineFields = reader.decode(inner.clone());
            let search = fields.search(reader);
            (reader.given(fields.steps), search)
        }
        _ => (Some(inner.clone()), SearchFields::default()),
    };
    let Some(listed) = listed else {
        reader.problem(inner.invalid("`steps` is missing"));
        return Entry::Nothing;
    };
    let mut bases = Vec::new();
    let steps: Vec<Step> = listed.items().iter().filter_map(|it| step(reader, it, &mut bases)).collect();
    let is_read = steps.len() == listed.items().len();
    if bases.is_empty() {
        if !is_read {
            return Entry::Nothing;
        }
        reader.problem(inner.invalid("no step names a base: write `retrieve: {base: NAME}`"));
        return Entry::Nothing;
    }
    let entry: Retrieval = configured!(reader, capabilities::pipeline(bases, steps), search);
    entry.into()
}

/// Reads a `grounding`.
pub(crate) fn grounding<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>) -> Entry {
    let entry: GroundingEntry = reader.decode(at.clone());
    let Some(inner) = reader.given(entry.grounding) else { return Entry::Nothing };
    let mut fields: GroundingFields = reader.decode(inner.clone());
    let search = fields.search(reader);
    let of_retriever = reader.given(fields.retriever).map(|it| retrieval(reader, &it));
    let named = reader.given(fields.bases).map(|it| bases(reader, &it));
    let (bases, inherited) = match (named, of_retriever) {
        (Some(bases), None) => (bases, SearchFields::default()),
        (None, Some(found)) => found.map(|(base, search)| (vec![base], search)).unwrap_or_default(),
        (Some(_), Some(_)) => {
            reader.problem(inner.invalid("`bases` and `retriever` exclude each other"));
            return Entry::Nothing;
        }
        (None, None) => {
            reader.problem(inner.invalid("`bases` or `retriever` is missing"));
            return Entry::Nothing;
        }
    };
    if bases.is_empty() {
        return Entry::Nothing;
    }
    let entry: Grounding = configured!(reader, capabilities::grounding(bases), inherited);
    let mut entry: Grounding = configured!(reader, entry, search);
    entry = fields.citations.value.into_iter().fold(entry, |entry, it| entry.citations(it));
    entry = fields.quotes.value.into_iter().fold(entry, |entry, it| entry.quotes(it));
    entry = fields.min_coverage.value.into_iter().fold(entry, |entry, it| entry.min_coverage(it.0));
    entry.into()
}

fn bases<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>) -> Vec<KnowledgeBase> {
    if at.items().is_empty() {
        reader.problem(at.invalid("no base is named"));
    }
    let mut bases: Vec<KnowledgeBase> = Vec::new();
    for item in at.items() {
        let Some(base) = base(reader, &item) else { continue };
        match bases.iter().any(|it| it.name() == base.name()) {
            true => reader.problem(item.invalid(format!("`{}` is named twice", base.name()))),
            false => bases.push(base),
        }
    }
    bases
}

/// Finds a base by its name.
fn base<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>) -> Option<KnowledgeBase> {
    depends(reader);
    let name = reader.take(at.word())?;
    let known = reader.lookup.knowledge.bases();
    if let Some(base) = known.get(&name) {
        return Some(base.clone());
    }
    let hint = did_you_mean(&name, known.iter().map(KnowledgeBase::name));
    let write =
        || format!("put documents into `knowledge/{name}/`, or add `[knowledge.{name}]` to `{CONFIG}`");
    let problem = Problem::new(ErrorCode::UnknownEntry, format!("there is no knowledge base `{name}`"));
    reader.problem(at.locate(problem).hint(Some(hint.unwrap_or_else(write))));
    None
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RewriteFields {
    template: Option<Raw>,
    model: Field<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FanOutFields {
    templates: Option<Raw>,
    model: Field<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RetrieveFields {
    base: Option<Raw>,
    bases: Option<Raw>,
    top_k: Field<usize>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FilterFields {
    min_score: Field<f64>,
    per_document: Field<usize>,
    metadata: Field<Map<String, Value>>,
    top_k: Field<usize>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RerankFields {
    top: Field<usize>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ExpandFields {
    neighbours: Field<u32>,
    parent: Field<bool>,
    tokens: Field<u32>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CompressFields {
    tokens: Field<u32>,
}

/// Reads a step: its name, or a map from its name to its fields. Bases that it names are added to `found`.
fn step<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>, found: &mut Vec<KnowledgeBase>) -> Option<Step> {
    let (name, value) = match (&at.node.data, at.node.pairs()) {
        (Data::Text(name), _) => (name.as_str(), None),
        (Data::Map(_), [pair]) => (pair.key.as_str(), Some(at.child(pair)).filter(|it| !it.node.is_null())),
        _ => {
            reader.problem(at.wrong("a step, such as `retrieve: {base: handbook, top_k: 20}`"));
            return None;
        }
    };
    let model = || reader.lookup.knowledge.model();
    match name {
        "rewrite" => rewrite(reader, value.as_ref()).map(Step::Rewrite),
        "fan_out" => fan_out(reader, value.as_ref()).map(Step::FanOut),
        "retrieve" => {
            let fields: RetrieveFields = value.map(|it| reader.decode(it)).unwrap_or_default();
            let named = [fields.base, fields.bases].into_iter().flatten().map(|it| reader.cursor(it));
            for name in named.collect::<Vec<_>>() {
                for base in bases(reader, &name) {
                    if !found.iter().any(|it| it.name() == base.name()) {
                        found.push(base);
                    }
                }
            }
            Some(Step::Retrieve { top_k: fields.top_k.value.unwrap_or(STEP_TOP_K) })
        }
        "filter" => {
            let fields: FilterFields = value.map(|it| reader.decode(it)).unwrap_or_default();
            Some(Step::Filter(Filter {
                min_score: fields.min_score.value.unwrap_or(0.0),
                per_document: fields.per_document.value,
                metadata: fields.metadata.value.into_iter().flatten().collect(),
                top_k: fields.top_k.value,
            }))
        }
        "rerank" => {
            let by = Arc::new(ListwiseReranker::new(model()));
            let fields: RerankFields = value.map(|it| reader.decode(it)).unwrap_or_default();
            Some(Step::Rerank { by, top: fields.top.value.unwrap_or(RERANK_TOP) })
        }
        "expand" => {
            let fields: ExpandFields = value.map(|it| reader.decode(it)).unwrap_or_default();
            let around = match fields.parent.value {
                Some(true) => Around::Section,
                _ => Around::Neighbours(fields.neighbours.value.unwrap_or(1)),
            };
            Some(Step::Expand { around, tokens: fields.tokens.value.unwrap_or(EXPAND_TOKENS) })
        }
        "compress" => {
            let fields: CompressFields = value.map(|it| reader.decode(it)).unwrap_or_default();
            Some(Step::Compress { tokens: fields.tokens.value.unwrap_or(COMPRESS_TOKENS) })
        }
        other => {
            let problem = Problem::new(ErrorCode::UnknownField, format!("there is no step `{other}`"));
            let hint =
                did_you_mean(other, STEPS).or_else(|| Some(format!("the steps are {}", STEPS.join(", "))));
            reader.problem(at.locate(problem).hint(hint));
            None
        }
    }
}

/// Reads how a query is rewritten: `model`, a template, or a map with one of them.
fn rewrite<'a>(reader: &mut Reader<'a>, at: Option<&Cursor<'a>>) -> Option<Rewriting> {
    let by_model = Rewriting::Model(reader.lookup.knowledge.model());
    let Some(at) = at else { return Some(by_model) };
    match &at.node.data {
        Data::Text(word) if word == "model" => Some(by_model),
        Data::Text(_) => step_template(reader, at),
        _ => {
            let fields: RewriteFields = reader.decode(at.clone());
            match reader.given(fields.template) {
                Some(template) => step_template(reader, &template),
                None => Some(by_model),
            }
        }
    }
}

/// Reads what a query is fanned out to: `model`, a list of templates, or a map with one of them.
fn fan_out<'a>(reader: &mut Reader<'a>, at: Option<&Cursor<'a>>) -> Option<Vec<Rewriting>> {
    let by_model = || vec![Rewriting::Model(reader.lookup.knowledge.model())];
    let Some(at) = at else { return Some(by_model()) };
    let listed = match &at.node.data {
        Data::Text(word) if word == "model" => return Some(by_model()),
        Data::Map(_) => {
            let by_model = by_model();
            let fields: FanOutFields = reader.decode(at.clone());
            match reader.given(fields.templates) {
                Some(listed) => listed,
                None => return Some(by_model),
            }
        }
        _ => at.clone(),
    };
    listed.items().iter().map(|it| step_template(reader, it)).collect()
}

/// Reads a template of a step, which can read `query` besides the variables of queries.
fn step_template<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>) -> Option<Rewriting> {
    let template: Template = reader.step_query(at)?;
    Some(Rewriting::Template(template))
}
