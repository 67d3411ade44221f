//! What the specification of Agent Skills asks of a `SKILL.md`.
//!
//! Folders that pass here also pass the public validator, which reads a small part of YAML: no flow style, no anchors,
//! no tags, and no `---` between the two that enclose the front matter.

use contexture_message::ErrorCode;
use contexture_template::did_you_mean;

use crate::error::{Place, Problem};
use crate::source::front::Document;
use crate::source::yaml::{Data, Pair};

const FIELDS: [&str; 6] = ["name", "description", "license", "compatibility", "metadata", "allowed-tools"];

const MAX_NAME: usize = 64;
const MAX_DESCRIPTION: usize = 1_024;
const MAX_COMPATIBILITY: usize = 500;

/// Whether a skill can have that name: 1 to 64 of `a` to `z`, digits and single hyphens inside.
pub(super) fn is_name(name: &str) -> bool {
    name_fault(name).is_none()
}

/// Returns all problems of a `SKILL.md` in a folder of that name.
pub(super) fn check(text: &str, document: &Document, folder: &str) -> Vec<Problem> {
    if !text.starts_with("---") {
        let problem = invalid("a SKILL.md begins with front matter").at(Place::START);
        return vec![problem.hint(Some("write a first line `---`, without anything before it".to_owned()))];
    }
    let mut problems: Vec<Problem> = document.problems.clone();
    problems.extend(raw_problems(text));
    if !document.problems.is_empty() {
        return problems;
    }
    let front = &document.front;
    for field in ["name", "description"] {
        if front.get(field).is_none() {
            problems.push(invalid(format!("`{field}` is missing")).at(front.place));
        }
    }
    for pair in front.pairs() {
        problems.extend(field_problem(pair, folder).map(|it| it.at(pair.value.place)));
        if !FIELDS.contains(&pair.key.as_str()) {
            let problem = Problem::new(ErrorCode::UnknownField, format!("unknown field `{}`", pair.key));
            let hint = did_you_mean(&pair.key, FIELDS);
            let hint = hint.unwrap_or_else(|| "put what is your own under `metadata`".to_owned());
            problems.push(problem.at(pair.place).hint(Some(hint)));
        }
    }
    problems
}

fn field_problem(pair: &Pair, folder: &str) -> Option<Problem> {
    let key = pair.key.as_str();
    if key == "metadata" {
        return metadata_problem(pair);
    }
    if !FIELDS.contains(&key) {
        return None;
    }
    let Data::Text(text) = &pair.value.data else {
        let hint = match key {
            "allowed-tools" => "write the tools in one line, with spaces between them",
            _ => "put quotes around it",
        };
        let problem = invalid(format!("`{key}` must be a text, found {}", pair.value.describe()));
        return Some(problem.hint(Some(hint.to_owned())));
    };
    let n_chars = text.chars().count();
    let too_long = |max: usize| {
        (n_chars > max).then(|| invalid(format!("`{key}` has {n_chars} characters, {max} are allowed")))
    };
    match key {
        "name" => name_problem(text.trim(), folder),
        "description" if text.trim().is_empty() => Some(invalid("`description` is empty")),
        "description" => too_long(MAX_DESCRIPTION),
        "compatibility" => too_long(MAX_COMPATIBILITY),
        _ => None,
    }
}

fn name_problem(name: &str, folder: &str) -> Option<Problem> {
    if let Some(fault) = name_fault(name) {
        return Some(invalid(format!("`name` {fault}")));
    }
    let is_other = name != folder;
    is_other.then(|| invalid(format!("`name` is `{name}`, the folder is `{folder}`: both must be the same")))
}

fn name_fault(name: &str) -> Option<String> {
    let is_fine = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-';
    match name {
        "" => Some("is empty".to_owned()),
        _ if name.chars().count() > MAX_NAME => {
            Some(format!("has {} characters, {MAX_NAME} are allowed", name.chars().count()))
        }
        _ if !name.chars().all(is_fine) => Some("may have `a` to `z`, digits and `-` only".to_owned()),
        _ if name.starts_with('-') || name.ends_with('-') => Some("begins or ends with a hyphen".to_owned()),
        _ if name.contains("--") => Some("has two hyphens in a row".to_owned()),
        _ => None,
    }
}

fn metadata_problem(pair: &Pair) -> Option<Problem> {
    let Data::Map(pairs) = &pair.value.data else {
        return Some(invalid(format!("`metadata` must be a map, found {}", pair.value.describe())));
    };
    let nested = pairs.iter().find(|it| matches!(it.value.data, Data::List(_) | Data::Map(_)));
    nested.map(|it| invalid(format!("`metadata.{}` must be a text", it.key)))
}

/// Returns the problems that only the text of the front matter shows.
fn raw_problems(text: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut is_in_block = false;
    for (idx, line) in text.lines().enumerate().skip(1) {
        if line.trim_end() == "---" {
            break;
        }
        let at = |message: &str| invalid(message).at(Place { line: idx + 1, column: 1 });
        let is_odd = |it: char| it.is_control() && it != '\t' || it == '\u{feff}';
        if line.contains("---") {
            problems.push(at("front matter can't have `---` in it"));
        } else if line.chars().any(is_odd) {
            problems.push(at("front matter can't have control characters"));
        }
        let is_indented = line.starts_with([' ', '\t']);
        if line.trim().is_empty() || line.trim_start().starts_with('#') && !is_in_block {
            continue;
        }
        // The lines of a `|` or `>` text are text, whatever they look like.
        if is_indented && is_in_block {
            continue;
        }
        let value = line.split_once(':').map_or("", |(_, it)| it).trim();
        is_in_block = !is_indented && value.starts_with(['|', '>']);
        if !is_indented && !is_field(line) {
            problems.push(at("a line of front matter is `field: value`"));
        } else if value.starts_with(['{', '[', '&', '*', '!', '%', '@', '`']) {
            problems.push(at("lists, maps, anchors and tags of YAML can't be used here"));
        }
    }
    problems
}

/// Whether a line begins with the name of a field.
fn is_field(line: &str) -> bool {
    let is_fine = |it: char| it.is_ascii_alphanumeric() || it == '-' || it == '_';
    line.split_once(':').is_some_and(|(key, rest)| {
        !key.is_empty() && key.chars().all(is_fine) && (rest.is_empty() || rest.starts_with([' ', '\t']))
    })
}

fn invalid(message: impl Into<String>) -> Problem {
    Problem::invalid(message)
}
