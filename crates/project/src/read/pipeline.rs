//! Reads `transforms` and `providers`, which change the conversation of a request.

use contexture_compose::{BlockMode, ContextProvider, Transforms, identity_and_date};
use contexture_history::{RedactError, RedactRule, last_turns, redact, without_media, without_thinking};

use crate::error::Problem;
use crate::read::reader::Reader;
use crate::source::decode::{Cursor, Field, Raw};
use crate::source::yaml::Data;
use crate::workspace::WorkspaceSnapshot;
use contexture_template::did_you_mean;

const TRANSFORMS: [&str; 4] = ["without_thinking", "without_media", "last_turns", "redact"];
const PROVIDERS: [&str; 3] = ["identity", "date", "workspace"];

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
        ("last_turns", Some(count)) => Ok(all.then(last_turns(count.value()?))),
        ("redact", Some(rules)) => {
            let rules = rules.items().iter().map(rule).collect::<Result<Vec<_>, _>>()?;
            Ok(all.then(redact(rules)))
        }
        ("last_turns", None) => Err(form(at, "last_turns: 20")),
        ("redact", None) => Err(form(at, "redact: [email, api_key]")),
        (name @ ("without_thinking" | "without_media"), Some(_)) => Err(form(at, name)),
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
    let mut n_workspaces = 0;
    let read = items.iter().filter_map(|at| {
        let entry = reader.take(named(at))?;
        if entry.name == "date" && entry.value.is_none() && has_identity {
            return None;
        }
        n_workspaces += usize::from(entry.name == "workspace");
        provider(reader, entry, at, n_workspaces > 1)
    });
    read.collect()
}

/// Reads one provider. Workspaces after the first have the folder in their names.
fn provider<'a>(
    reader: &mut Reader<'a>,
    entry: Named<'a>,
    at: &Cursor<'a>,
    is_further: bool,
) -> Option<ContextProvider> {
    let problem = match (entry.name, entry.value) {
        ("date", None) => return Some(identity_and_date("")),
        ("identity", Some(text)) => return reader.text(&text).map(identity_and_date),
        ("workspace", Some(folder)) => {
            let read = workspace(reader, &folder);
            let Workspace { path, snapshot, real_time } = reader.take(read)?;
            let name = if is_further { format!("workspace:{path}") } else { "workspace".to_owned() };
            return Some(snapshot.provider_as(name, real_time, is_further.then_some(path)));
        }
        ("date", Some(_)) => form(at, "date"),
        ("identity", None) => form(at, "identity: You act for …"),
        ("workspace", None) => form(at, "workspace: src"),
        (name, _) => at.locate(unknown("provider", name, &PROVIDERS)),
    };
    reader.problem(problem);
    None
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
