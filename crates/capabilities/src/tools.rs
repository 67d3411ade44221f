//! The tools of a base: `<base>Search` and `<base>GetSource`. What they return is evidence, which answers can cite.

use contexture_agent::{Tool, tool};
use contexture_compose::{BoxError, Scope, SharedTool};
use contexture_knowledge::retrieve::{ReadRange, ReadTarget};
use contexture_knowledge::{Hit, Query};
use contexture_message::{Evidence, Part, ToolOutput};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::KnowledgeBase;
use crate::pieces::evidence;
use crate::search::DEFAULT_TOP_K;

/// How many hits a call returns at most.
const MAX_TOP_K: usize = 20;
/// How many characters of a document are read, unless the model asks for another number.
const DEFAULT_CHARS: u64 = 4_000;
/// How many characters are read at most.
const MAX_CHARS: u64 = 20_000;
/// What providers accept as the name of a tool.
const MAX_NAME: usize = 64;

const SEARCH: &str = include_str!("templates/search_tool.txt");
const SOURCE: &str = include_str!("templates/source_tool.txt");
const NOTHING: &str = include_str!("templates/nothing_found.txt");
const NO_SOURCE: &str = include_str!("templates/no_source.txt");
const MORE: &str = include_str!("templates/more.txt");

/// The arguments of `<base>Search`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchArguments {
    /// Words or a question.
    query: String,
    /// How many results, from 1 to 20; 5 if absent.
    top_k: Option<usize>,
}

/// The arguments of `<base>GetSource`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SourceArguments {
    /// The id of a document, as search results name their source.
    source: Option<String>,
    /// The id of a search result: reads its document from there.
    chunk: Option<String>,
    /// The first character to read; by default the start of the chunk or of the document.
    from: Option<u64>,
    /// How many characters to read, in whole passages; 4000 if absent.
    max: Option<u64>,
}

/// What a tool returns to the application.
#[derive(Debug, Serialize, Deserialize)]
struct Results {
    evidence: Vec<Evidence>,
    /// Further lines for the model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

impl KnowledgeBase {
    /// Returns the tools for a caller: `<base>Search` and `<base>GetSource`. Callers of one tenant get the very same.
    pub fn tools(&self, scope: &Scope) -> Vec<SharedTool> {
        self.kept_tools(scope, || tools(self, scope).into_iter().map(SharedTool::from).collect())
    }
}

/// Returns the tools of a base for a caller.
pub(crate) fn tools(base: &KnowledgeBase, scope: &Scope) -> Vec<Tool> {
    vec![search_tool(base, scope), source_tool(base, scope)]
}

fn search_tool(base: &KnowledgeBase, scope: &Scope) -> Tool {
    let (searched, scope) = (base.clone(), scope.clone());
    let search = move |arguments: SearchArguments| {
        let (base, scope) = (searched.clone(), scope.clone());
        async move {
            let top_k = arguments.top_k.unwrap_or(DEFAULT_TOP_K).clamp(1, MAX_TOP_K);
            let found = base.retriever(&scope).await?.retrieve(Query::new(&arguments.query, top_k)).await?;
            let mut notes: Vec<String> = found.notes.iter().map(ToString::to_string).collect();
            if found.hits.is_empty() {
                notes.push(filled(NOTHING, "{query}", &arguments.query));
            }
            Ok::<_, BoxError>(results(&found.hits, notes))
        }
    };
    tool(search_name(base), described(SEARCH, base), search).to_model_output(output)
}

fn source_tool(base: &KnowledgeBase, scope: &Scope) -> Tool {
    let (searched, scope) = (base.clone(), scope.clone());
    let read = move |arguments: SourceArguments| {
        let (base, scope) = (searched.clone(), scope.clone());
        async move {
            let target = target(&base, &arguments)?;
            let max = arguments.max.unwrap_or(DEFAULT_CHARS).min(MAX_CHARS);
            let range = ReadRange { from: arguments.from, max };
            let passage = base.retriever(&scope).await?.read(target, range).await?;
            let mut notes = Vec::new();
            if passage.hits.is_empty() {
                notes.push(NO_SOURCE.trim_end().to_owned());
            }
            notes.extend(passage.next.map(|it| filled(MORE, "{next}", &it.to_string())));
            Ok::<_, BoxError>(results(&passage.hits, notes))
        }
    };
    tool(name(base, "GetSource"), described(SOURCE, base), read).to_model_output(output)
}

/// Returns what to read. Models name a chunk as results do, `[handbook:12]`.
fn target(base: &KnowledgeBase, arguments: &SourceArguments) -> Result<ReadTarget, BoxError> {
    let bare = |id: &str| {
        let id = id.trim().trim_start_matches('[').trim_end_matches(']');
        let own = id.strip_prefix(base.name()).and_then(|it| it.strip_prefix([':', '#']));
        own.unwrap_or(id).to_owned()
    };
    match (&arguments.chunk, &arguments.source) {
        (Some(chunk), _) => Ok(ReadTarget::Chunk(bare(chunk))),
        // Files are shown with their origin, `file:refunds.md`.
        (None, Some(source)) => {
            Ok(ReadTarget::Document(source.strip_prefix("file:").unwrap_or(source).to_owned()))
        }
        (None, None) => Err("`source` or `chunk` is needed".into()),
    }
}

fn results(hits: &[Hit], notes: Vec<String>) -> Results {
    Results { evidence: hits.iter().map(evidence).collect(), notes }
}

/// Returns what the model reads: the evidence, then the notes.
fn output(value: &Value) -> ToolOutput {
    let Ok(Results { evidence, notes }) = Results::deserialize(value) else {
        return ToolOutput::from_value(value.clone());
    };
    let notes = notes.into_iter().map(Part::text);
    ToolOutput::Content(evidence.into_iter().map(Part::Evidence).chain(notes).collect())
}

/// Returns the name of the tool that searches a base.
pub(crate) fn search_name(base: &KnowledgeBase) -> String {
    name(base, "Search")
}

/// Returns the name of a tool. A base may have characters that no tool can have, and a longer name.
fn name(base: &KnowledgeBase, what: &str) -> String {
    let is_fine = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
    let plain = base.name().chars().map(|it| if is_fine(it) { it } else { '_' });
    plain.take(MAX_NAME - what.len()).chain(what.chars()).collect()
}

fn described(template: &str, base: &KnowledgeBase) -> String {
    let about = base.description().map(|it| format!(": {}", it.trim())).unwrap_or_default();
    filled(&filled(template, "{base}", base.name()), "{about}", &about)
}

fn filled(template: &str, name: &str, value: &str) -> String {
    template.trim_end().replacen(name, value, 1)
}
