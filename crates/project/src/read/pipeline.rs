//! Reads `transforms` and `providers`, which change the conversation of a request, and the entry `provider`.

use std::collections::BTreeMap;

use contexture_agent::HttpTool;
use contexture_capabilities::{HttpProvider, http_provider};
use contexture_compose::{
    BlockMode, ContextProvider, Entry, OnError, Priority, TagValue, Transforms, identity_and_date,
    text_provider,
};
use contexture_history::compaction::bounded_results;
use contexture_history::{RedactError, RedactRule, last_turns, redact, without_media, without_thinking};

use contexture_message::Role;
use serde::Deserialize;

use crate::error::Problem;
use crate::read::context::{ErrorPolicy, priority as priority_of};
use crate::read::reader::Reader;
use crate::source::decode::{Cursor, Field, Raw, TimeSpan, Word};
use crate::source::yaml::Data;
use crate::workspace::WorkspaceSnapshot;
use contexture_template::did_you_mean;

const TRANSFORMS: [&str; 5] =
    ["without_thinking", "without_media", "bounded_results", "last_turns", "redact"];
const PROVIDERS: [&str; 5] = ["identity", "date", "workspace", "text", "http"];

/// The largest answer of a server that is read, unless the provider says otherwise.
const MAX_ANSWER_BYTES: usize = 256 * 1024;

/// An entry of one of the lists: a name, or a map from a name to its value.
struct Named<'a> {
    name: &'a str,
    value: Option<Cursor<'a>>,
}

/// Reads a list of transforms, in execution order.
pub(crate) fn transforms(reader: &mut Reader<'_>, list: Field<Vec<Raw>>) -> Transforms {
    list.value.into_iter().flatten().fold(Transforms::default(), |all, raw| {
        let at = reader.cursor(raw);
        let read = named(&at).and_then(|it| transform(it, &at, all.clone()));
        reader.take(read).unwrap_or(all)
    })
}

fn transform(entry: Named<'_>, at: &Cursor<'_>, all: Transforms) -> Result<Transforms, Problem> {
    match (entry.name, entry.value) {
        ("without_thinking", None) => Ok(all.then(without_thinking())),
        ("without_media", None) => Ok(all.then(without_media())),
        ("bounded_results", None) => Ok(all.then(bounded_results())),
        ("last_turns", Some(count)) => Ok(all.then(last_turns(count.value()?))),
        ("redact", Some(rules)) => {
            let rules = rules.items().iter().map(rule).collect::<Result<Vec<_>, _>>()?;
            Ok(all.then(redact(rules)))
        }
        ("last_turns", None) => Err(form(at, "last_turns: 20")),
        ("redact", None) => Err(form(at, "redact: [email, api_key]")),
        (name @ ("without_thinking" | "without_media" | "bounded_results"), Some(_)) => Err(form(at, name)),
        (name, _) => Err(at.locate(unknown("transform", name, &TRANSFORMS))),
    }
}

fn rule(at: &Cursor<'_>) -> Result<RedactRule, Problem> {
    let refused = |err: RedactError| at.invalid(err.to_string());
    match &at.node.data {
        Data::Text(name) => RedactRule::built_in(name).map_err(|err| match err {
            RedactError::UnknownRule { name } => {
                at.locate(unknown("redaction rule", &name, &RedactRule::BUILT_IN))
            }
            other => refused(other),
        }),
        Data::Map(_) => {
            known_keys(at, &["name", "pattern"])?;
            let Some((name, pattern)) = at.get("name").zip(at.get("pattern")) else {
                return Err(at.invalid("a custom redaction rule needs `name` and `pattern`"));
            };
            RedactRule::pattern(name.word()?, &pattern.value::<String>()?).map_err(refused)
        }
        _ => Err(at.wrong("the name of a redaction rule, or `{name: …, pattern: …}`")),
    }
}

/// Reads a list of context providers, in the order of their messages.
///
/// A `date` next to an `identity` is left out: the identity already includes the date.
pub(crate) fn providers(reader: &mut Reader<'_>, list: Field<Vec<Raw>>) -> Vec<ContextProvider> {
    let items: Vec<Cursor<'_>> = list.value.into_iter().flatten().map(|it| reader.cursor(it)).collect();
    let has_identity = items.iter().any(|it| named(it).is_ok_and(|it| it.name == "identity"));
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let read = items.iter().filter_map(|at| {
        let entry = reader.take(named(at))?;
        if entry.name == "date" && entry.value.is_none() && has_identity {
            return None;
        }
        let n_before = *seen.entry(entry.name).and_modify(|it| *it += 1).or_default();
        provider(reader, entry, at, n_before)
    });
    read.collect()
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ProviderEntry {
    provider: Option<Raw>,
}

/// Reads `provider: …`, with the same forms as an item of `providers`.
pub(crate) fn provider_entry<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>) -> Entry {
    let fields: ProviderEntry = reader.decode(at.clone());
    let Some(inner) = reader.given(fields.provider) else { return Entry::Nothing };
    let entry = reader.take(named(&inner));
    entry.and_then(|it| provider(reader, it, &inner, 0)).map_or(Entry::Nothing, Entry::from)
}

/// Reads a folder to list.
pub(crate) fn workspace_provider<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>) -> Option<ContextProvider> {
    let read = workspace(reader, at);
    let Workspace { snapshot, real_time, .. } = reader.take(read)?;
    Some(snapshot.provider_as("workspace".to_owned(), real_time, None))
}

/// Reads one provider, after `n_before` of the same kind. Workspaces after the first have the folder in their names, texts
/// and calls without a name their number.
fn provider<'a>(
    reader: &mut Reader<'a>,
    entry: Named<'a>,
    at: &Cursor<'a>,
    n_before: usize,
) -> Option<ContextProvider> {
    let is_further = n_before > 0;
    let numbered = |kind: &str| if is_further { format!("{kind}_{}", n_before + 1) } else { kind.to_owned() };
    let problem = match (entry.name, entry.value) {
        ("date", None) => return Some(identity_and_date("")),
        ("identity", Some(text)) => return reader.text(&text).map(identity_and_date),
        ("workspace", Some(folder)) => {
            let read = workspace(reader, &folder);
            let Workspace { path, snapshot, real_time } = reader.take(read)?;
            let name = if is_further { format!("workspace:{path}") } else { "workspace".to_owned() };
            return Some(snapshot.provider_as(name, real_time, is_further.then_some(path)));
        }
        ("text", Some(text)) => return text_provider_of(reader, &text, numbered("text")),
        ("http", Some(call)) => return http_provider_of(reader, &call, numbered("http")),
        ("text", None) => form(at, "text: …"),
        ("http", None) => form(at, "http: {url: https://…}"),
        ("date", Some(_)) => form(at, "date"),
        ("identity", None) => form(at, "identity: You act for …"),
        ("workspace", None) => form(at, "workspace: src"),
        (name, _) => at.locate(unknown("provider", name, &PROVIDERS)),
    };
    reader.problem(problem);
    None
}

/// The options that texts and calls share.
#[derive(Default, Deserialize)]
#[serde(default)]
struct TextFields {
    name: Field<Word>,
    text: Option<Raw>,
    role: Field<Role>,
    priority: Field<f64>,
    mode: Field<BlockMode>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct HttpFields {
    name: Field<Word>,
    url: Field<String>,
    method: Field<String>,
    headers: Field<BTreeMap<String, String>>,
    header_env: Field<BTreeMap<String, String>>,
    request: Option<Raw>,
    result: Field<String>,
    max_bytes: Field<usize>,
    role: Field<Role>,
    priority: Field<f64>,
    mode: Field<BlockMode>,
    deadline: Field<TimeSpan>,
    on_error: Field<ErrorPolicy>,
}

/// Reads a text: a template, or a map with its options.
fn text_provider_of<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>, name: String) -> Option<ContextProvider> {
    if !matches!(at.node.data, Data::Map(_)) {
        return reader.text(at).map(|it| text_provider(name, Role::System, it));
    }
    let fields: TextFields = reader.decode(at.clone());
    let name = reader.id(&fields.name).map_or(name, |(name, _)| name);
    let role = role(reader, &fields.role);
    if fields.text.is_none() {
        reader.problem(at.invalid("`text` is missing"));
    }
    let text = reader.text_of(fields.text)?;
    let provider = text_provider(name, role, text);
    Some(with_options(reader, provider, &fields.priority, fields.mode.value))
}

/// Reads an HTTP call. Its secrets are names that the program looks up, as those of HTTP tools are.
fn http_provider_of<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>, name: String) -> Option<ContextProvider> {
    reader.facts.asks_servers = true;
    let fields: HttpFields = reader.decode(at.clone());
    let name = reader.id(&fields.name).map_or(name, |(name, _)| name);
    let role = role(reader, &fields.role);
    let Some(url) = fields.url.value else {
        if fields.url.raw.is_none() {
            reader.problem(at.invalid("`url` is missing"));
        }
        return None;
    };
    let request = reader.given(fields.request).and_then(|it| reader.take(it.pairs())).unwrap_or_default();
    let request: Vec<(String, TagValue)> = request
        .into_iter()
        .filter_map(|(key, it)| Some((key.to_owned(), reader.tag_value(it.node)?)))
        .collect();
    let http = HttpTool {
        method: fields.method.value.unwrap_or_else(|| "GET".to_owned()),
        url,
        headers: fields.headers.value.unwrap_or_default(),
        header_env: fields.header_env.value.unwrap_or_default(),
        result: fields.result.value,
        max_bytes: fields.max_bytes.value.unwrap_or(MAX_ANSWER_BYTES),
    };
    let made = http_provider(HttpProvider { name, http, request, role }, reader.lookup.knowledge.http());
    let provider = reader.take(made.map_err(|err| at.invalid(err.to_string())))?;
    let provider = fields.deadline.value.into_iter().fold(provider, |it, after| it.deadline(after.0));
    let provider = fields.on_error.value.into_iter().fold(provider, |it, policy| match policy {
        ErrorPolicy::Fail => it.on_error(OnError::Fail),
        ErrorPolicy::Skip => it.on_error(OnError::Skip),
    });
    Some(with_options(reader, provider, &fields.priority, fields.mode.value))
}

fn role(reader: &mut Reader<'_>, field: &Field<Role>) -> Role {
    match field.value {
        Some(Role::Tool) => {
            if let Some(at) = reader.given(field.raw) {
                reader.problem(at.wrong("`system`, `user` or `assistant`"));
            }
            Role::System
        }
        Some(role) => role,
        None => Role::System,
    }
}

fn with_options(
    reader: &mut Reader<'_>,
    provider: ContextProvider,
    priority: &Field<f64>,
    mode: Option<BlockMode>,
) -> ContextProvider {
    let provider = match mode {
        Some(BlockMode::Cached) => provider.cached(),
        Some(BlockMode::RealTime) => provider.real_time(),
        None => provider,
    };
    match priority_of(reader, priority).map(Priority::new) {
        Some(Ok(priority)) => provider.priority(priority),
        Some(Err(_)) | None => provider,
    }
}

/// A folder to list, and whether to list it again in every turn.
struct Workspace {
    path: String,
    snapshot: WorkspaceSnapshot,
    real_time: bool,
}

/// Reads a workspace: a folder of the project or its root, as a path or as `{path, mode}`.
fn workspace(reader: &Reader<'_>, at: &Cursor<'_>) -> Result<Workspace, Problem> {
    if !matches!(at.node.data, Data::Map(_)) {
        return listed(reader, at, false);
    }
    known_keys(at, &["path", "mode"])?;
    let Some(path) = at.get("path") else { return Err(at.invalid("a workspace needs `path`")) };
    let mode = at.get("mode").map(|it| it.value::<BlockMode>()).transpose()?;
    listed(reader, &path, mode == Some(BlockMode::RealTime))
}

fn listed(reader: &Reader<'_>, at: &Cursor<'_>, real_time: bool) -> Result<Workspace, Problem> {
    let path = at.word()?;
    let is_inside = |it: &str| !it.is_empty() && it != ".." && !it.contains(['\\', ':']);
    if path != "." && !path.trim_end_matches('/').split('/').all(is_inside) {
        let message = format!("`{path}` is not a folder of the project: use a relative path with `/`");
        return Err(at.invalid(message));
    }
    let Some(root) = reader.lookup.sources.root() else {
        return Err(at.invalid("this project is not in a folder, so it has no workspace"));
    };
    let snapshot =
        WorkspaceSnapshot { within: Some(root.to_owned()), ..WorkspaceSnapshot::new(root.join(&path)) };
    Ok(Workspace { path, snapshot, real_time })
}

fn named<'a>(at: &Cursor<'a>) -> Result<Named<'a>, Problem> {
    match &at.node.data {
        Data::Text(name) => Ok(Named { name, value: None }),
        Data::Map(pairs) if pairs.len() == 1 => {
            Ok(Named { name: &pairs[0].key, value: Some(at.child(&pairs[0])) })
        }
        _ => Err(at.wrong("a name, or a map of one name")),
    }
}

fn known_keys(at: &Cursor<'_>, known: &[&str]) -> Result<(), Problem> {
    match at.node.pairs().iter().find(|it| !known.contains(&it.key.as_str())) {
        Some(pair) => Err(unknown("field", &pair.key, known).at(pair.place).within(&at.path)),
        None => Ok(()),
    }
}

fn unknown(what: &str, name: &str, known: &[&str]) -> Problem {
    let list = || format!("known: {}", known.join(", "));
    let hint = match did_you_mean(name, known.iter().copied()) {
        Some(guess) => format!("{guess} {}", list()),
        None => list(),
    };
    Problem::invalid(format!("unknown {what} `{name}`")).hint(Some(hint))
}

fn form(at: &Cursor<'_>, form: &str) -> Problem {
    at.invalid(format!("write this as `- {form}`"))
}
