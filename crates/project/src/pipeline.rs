//! Reads `transforms` and `providers`, which change the conversation of a request.

use contexture_compose::{ContextProvider, Transforms, identity_and_date};
use contexture_history::{RedactError, RedactRule, last_turns, redact, without_media, without_thinking};

use crate::decode;
use crate::error::Problem;
use crate::reader::Reader;
use crate::workspace::WorkspaceSnapshot;
use crate::yaml::{Data, Node};
use contexture_template::did_you_mean;

const TRANSFORMS: [&str; 4] = ["without_thinking", "without_media", "last_turns", "redact"];
const PROVIDERS: [&str; 3] = ["identity", "date", "workspace"];

/// An entry of one of the lists: a name, or a map from a name to its value.
struct Named<'n> {
    name: &'n str,
    value: Option<&'n Node>,
}

/// Reads a list of transforms, in execution order.
pub(crate) fn transforms(reader: &mut Reader<'_>, node: &Node) -> Transforms {
    let items = reader.take("transforms", decode::list(node)).unwrap_or_default();
    items.iter().enumerate().fold(Transforms::default(), |all, (idx, item)| {
        let read = named(item).and_then(|it| transform(it, item, all.clone()));
        reader.take("transforms", read.map_err(|it| it.under(format!("[{idx}]")))).unwrap_or(all)
    })
}

fn transform(entry: Named<'_>, item: &Node, all: Transforms) -> Result<Transforms, Problem> {
    match (entry.name, entry.value) {
        ("without_thinking", None) => Ok(all.then(without_thinking())),
        ("without_media", None) => Ok(all.then(without_media())),
        ("last_turns", Some(count)) => {
            let count = decode::value::<usize>(count).map_err(|it| it.at(count.place).under("last_turns"))?;
            Ok(all.then(last_turns(count)))
        }
        ("redact", Some(rules)) => {
            let rules = decode::one_or_many(rules).iter().map(rule).collect::<Result<Vec<_>, _>>();
            Ok(all.then(redact(rules.map_err(|it| it.under("redact"))?)))
        }
        ("last_turns", None) => Err(wants(item, "last_turns: 20")),
        ("redact", None) => Err(wants(item, "redact: [email, api_key]")),
        (name @ ("without_thinking" | "without_media"), Some(_)) => Err(wants(item, name)),
        (name, _) => Err(unknown("transform", name, &TRANSFORMS).at(item.place)),
    }
}

fn rule(node: &Node) -> Result<RedactRule, Problem> {
    let refused = |err: RedactError| Problem::invalid(err.to_string()).at(node.place);
    match &node.data {
        Data::Text(name) => RedactRule::built_in(name).map_err(|err| match err {
            RedactError::UnknownRule { name } => {
                unknown("redaction rule", &name, &RedactRule::BUILT_IN).at(node.place)
            }
            other => refused(other),
        }),
        Data::Map(pairs) => {
            let known = ["name", "pattern"];
            if let Some(pair) = pairs.iter().find(|it| !known.contains(&it.key.as_str())) {
                return Err(unknown("field", &pair.key, &known).at(pair.place));
            }
            let field = |name: &str| pairs.iter().find(|it| it.key == name).map(|it| &it.value);
            let Some((name, pattern)) = field("name").zip(field("pattern")) else {
                let message = "a redaction rule of your own needs `name` and `pattern`";
                return Err(Problem::invalid(message).at(node.place));
            };
            RedactRule::pattern(decode::word(name)?, &decode::text(pattern)?).map_err(refused)
        }
        _ => Err(decode::wrong(node, "the name of a redaction rule, or `{name: …, pattern: …}`")),
    }
}

/// Reads a list of context providers, in the order of their messages.
pub(crate) fn providers(reader: &mut Reader<'_>, node: &Node) -> Vec<ContextProvider> {
    let items = reader.take("providers", decode::list(node)).unwrap_or_default();
    // The `identity` provider includes the date, so `date` next to it adds nothing.
    let has_identity = items.iter().any(|it| named(it).is_ok_and(|it| it.name == "identity"));
    let mut n_workspaces = 0;
    let read = items.iter().enumerate().filter_map(|(idx, item)| {
        let field = format!("providers[{idx}]");
        let entry = reader.take(&field, named(item))?;
        if entry.name == "date" && entry.value.is_none() && has_identity {
            return None;
        }
        n_workspaces += usize::from(entry.name == "workspace");
        provider(reader, &field, entry, item, n_workspaces > 1)
    });
    read.collect()
}

/// Reads one provider. Workspaces after the first have the folder in their names.
fn provider(
    reader: &mut Reader<'_>,
    field: &str,
    entry: Named<'_>,
    item: &Node,
    is_further: bool,
) -> Option<ContextProvider> {
    let problem = match (entry.name, entry.value) {
        ("date", None) => return Some(identity_and_date("")),
        ("identity", Some(node)) => return reader.text(field, node).map(identity_and_date),
        ("workspace", Some(node)) => {
            let read = workspace(reader, node);
            let Workspace { path, snapshot, real_time } = reader.take(field, read)?;
            let name = if is_further { format!("workspace:{path}") } else { "workspace".to_owned() };
            return Some(snapshot.provider_as(name, real_time, is_further.then_some(path)));
        }
        ("date", Some(_)) => wants(item, "date"),
        ("identity", None) => wants(item, "identity: You act for …"),
        ("workspace", None) => wants(item, "workspace: src"),
        (name, _) => unknown("provider", name, &PROVIDERS).at(item.place),
    };
    reader.problem(problem.under(field));
    None
}

/// A folder to list, and whether to list it again in every turn.
struct Workspace {
    path: String,
    snapshot: WorkspaceSnapshot,
    real_time: bool,
}

/// Reads a workspace: a folder of the project or its root, as a path or as `{path, mode}`.
fn workspace(reader: &Reader<'_>, node: &Node) -> Result<Workspace, Problem> {
    let Data::Map(pairs) = &node.data else { return listed(reader, node, false) };
    let known = ["path", "mode"];
    if let Some(pair) = pairs.iter().find(|it| !known.contains(&it.key.as_str())) {
        return Err(unknown("field", &pair.key, &known).at(pair.place));
    }
    let field = |name: &str| pairs.iter().find(|it| it.key == name).map(|it| &it.value);
    let Some(path) = field("path") else {
        return Err(Problem::invalid("a workspace needs `path`").at(node.place));
    };
    let real_time = match field("mode").map(|it| Ok((it, decode::word(it)?))).transpose()? {
        None => false,
        Some((_, word)) if word == "cached" => false,
        Some((_, word)) if word == "real_time" => true,
        Some((node, _)) => return Err(decode::wrong(node, "`cached` or `real_time`")),
    };
    listed(reader, path, real_time)
}

fn listed(reader: &Reader<'_>, node: &Node, real_time: bool) -> Result<Workspace, Problem> {
    let path = decode::word(node)?;
    let is_inside = |it: &str| !it.is_empty() && it != ".." && !it.contains(['\\', ':']);
    if path != "." && !path.trim_end_matches('/').split('/').all(is_inside) {
        let message = format!("`{path}` is no folder of the project: give a path below it, with `/`");
        return Err(Problem::invalid(message).at(node.place));
    }
    let Some(root) = reader.shelf.sources.root() else {
        let message = "this project is in no folder, so it has no workspace";
        return Err(Problem::invalid(message).at(node.place));
    };
    let snapshot =
        WorkspaceSnapshot { within: Some(root.to_owned()), ..WorkspaceSnapshot::new(root.join(&path)) };
    Ok(Workspace { path, snapshot, real_time })
}

fn named(node: &Node) -> Result<Named<'_>, Problem> {
    match &node.data {
        Data::Text(name) => Ok(Named { name, value: None }),
        Data::Map(pairs) if pairs.len() == 1 => {
            Ok(Named { name: &pairs[0].key, value: Some(&pairs[0].value) })
        }
        _ => Err(decode::wrong(node, "a name, or a map of one name")),
    }
}

fn unknown(what: &str, name: &str, known: &[&str]) -> Problem {
    let list = || format!("there are: {}", known.join(", "));
    let hint = match did_you_mean(name, known.iter().copied()) {
        Some(guess) => format!("{guess} {}", list()),
        None => list(),
    };
    Problem::invalid(format!("there is no {what} `{name}`")).hint(Some(hint))
}

fn wants(item: &Node, form: &str) -> Problem {
    Problem::invalid(format!("this is written `- {form}`")).at(item.place)
}
