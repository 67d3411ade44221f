//! The tools `LoadSkill`, `LoadReference` and `UnloadSkill`.

use contexture_agent::{Invocation, SkillInject, SkillLoad, Tool};
use contexture_compose::BoxError;
use contexture_message::ToolDefinition;
use serde_json::{Value, json};

use super::filled::filled;
use super::set::SkillSet;

/// The names of the tools.
pub const SKILL_TOOLS: [&str; 3] = [LOAD, REFERENCE, UNLOAD];

const LOAD: &str = "LoadSkill";
const REFERENCE: &str = "LoadReference";
const UNLOAD: &str = "UnloadSkill";

/// The file that has the instructions of a skill.
const INSTRUCTIONS: &str = "SKILL.md";
/// How many characters of a file are read, unless the model asks for another number.
const DEFAULT_CHARS: usize = 8_000;
/// How many characters are read at most.
const MAX_CHARS: usize = 20_000;

/// Returns the tools for a set of skills. A tool whose definition is refused is left out, which never happens: the
/// definitions are ours.
pub(super) fn tools(set: &SkillSet, inject: SkillInject) -> Vec<Tool> {
    let all = [load(set, inject), reference(set), unload(set)];
    all.into_iter().flatten().map(|it| it.alone().only_reads()).collect()
}

fn load(set: &SkillSet, inject: SkillInject) -> Option<Tool> {
    let names = include_str!("templates/names.txt").trim_end();
    let about = filled(include_str!("templates/load_skill.txt"), &[("names", names)]);
    let name = json!({"type": "string", "enum": set.names(), "description": "The name of the skill."});
    let definition = definition(LOAD, &about, json!({"name": name}), &["name"]);
    let set = set.clone();
    let load = move |invocation: Invocation| {
        let set = set.clone();
        async move {
            let name = text(&invocation, "name");
            let version = set.load(&name).await?.ok_or_else(|| no_skill(&set, &name))?;
            let is = |template: &str| filled(template, &[("name", &name)]);
            Ok(Value::String(match invocation.load_skill(version, inject) {
                SkillLoad::Loaded(text) => text,
                SkillLoad::InSystem => is(include_str!("templates/in_system.txt")),
                SkillLoad::ActiveAgain => is(include_str!("templates/active_again.txt")),
                SkillLoad::ActiveSince { turn, is_outdated } => {
                    let template = match is_outdated {
                        true => include_str!("templates/outdated.txt"),
                        false => include_str!("templates/active_since.txt"),
                    };
                    filled(template, &[("name", &name), ("turn", &turn.to_string())])
                }
            }))
        }
    };
    Tool::new(definition, load).ok()
}

fn reference(set: &SkillSet) -> Option<Tool> {
    let properties = json!({
        "skill": {"type": "string", "enum": set.names(), "description": "The name of the skill."},
        "reference": {"type": "string", "description": "The path of the file in the folder of the skill."},
        "from": {"type": "integer", "minimum": 0, "description": "The first character to read; 0 if absent."},
        "max": {"type": "integer", "minimum": 1, "description": "How many characters to read; 8000 if absent."},
    });
    let about = include_str!("templates/load_reference.txt").trim_end();
    let definition = definition(REFERENCE, about, properties, &["skill", "reference"]);
    let set = set.clone();
    let read = move |invocation: Invocation| {
        let set = set.clone();
        async move {
            let (skill, file) = (text(&invocation, "skill"), text(&invocation, "reference"));
            let whole = contents(&set, &invocation, &skill, &file).await?;
            let from = number(&invocation, "from").unwrap_or(0);
            let max = number(&invocation, "max").unwrap_or(DEFAULT_CHARS).clamp(1, MAX_CHARS);
            Ok(Value::String(range(&whole, from, max)))
        }
    };
    Tool::new(definition, read).ok()
}

fn unload(set: &SkillSet) -> Option<Tool> {
    let name = json!({"type": "string", "enum": set.names(), "description": "The name of the skill."});
    let about = include_str!("templates/unload_skill.txt").trim_end();
    let definition = definition(UNLOAD, about, json!({"name": name}), &["name"]);
    Tool::new(definition, |invocation: Invocation| async move {
        let name = text(&invocation, "name");
        let template = match invocation.unload_skill(&name) {
            true => include_str!("templates/unloaded.txt"),
            false => include_str!("templates/not_active.txt"),
        };
        Ok(Value::String(filled(template, &[("name", &name)])))
    })
    .ok()
}

/// Returns the text of a file. The instructions of a loaded skill are those that were loaded, whatever the file has now.
async fn contents(
    set: &SkillSet,
    invocation: &Invocation,
    skill: &str,
    file: &str,
) -> Result<String, BoxError> {
    if file == INSTRUCTIONS
        && let Some(loaded) = invocation.skill(skill).filter(|it| it.is_active)
    {
        return Ok(loaded.instructions.to_string());
    }
    let version = set.load(skill).await?.ok_or_else(|| no_skill(set, skill))?;
    if file == INSTRUCTIONS {
        return Ok(version.instructions.to_string());
    }
    // Only files that are listed are read, so no path leaves the folder.
    let is_listed = version.files.iter().any(|it| it == file);
    let found = if is_listed { set.read(skill, file).await? } else { None };
    found.map(|it| it.to_string()).ok_or_else(|| {
        let files = [vec![INSTRUCTIONS.to_owned()], version.files].concat().join(", ");
        let values = [("name", skill), ("file", file), ("files", files.as_str())];
        filled(include_str!("templates/no_file.txt"), &values).into()
    })
}

/// Returns a range of characters, and how to read on.
fn range(text: &str, from: usize, max: usize) -> String {
    let shown: String = text.chars().skip(from).take(max).collect();
    let next = from.saturating_add(shown.chars().count());
    let rest = text.chars().count().saturating_sub(next);
    if rest == 0 {
        return shown;
    }
    let (rest, next) = (rest.to_string(), next.to_string());
    shown + &filled(include_str!("templates/more.txt"), &[("rest", &rest), ("next", &next)])
}

fn definition(name: &str, about: &str, properties: Value, required: &[&str]) -> ToolDefinition {
    ToolDefinition::new(name, about).parameters(json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    }))
}

fn no_skill(set: &SkillSet, name: &str) -> BoxError {
    let names = set.names().join(", ");
    filled(include_str!("templates/no_skill.txt"), &[("name", name), ("names", &names)]).into()
}

fn text(invocation: &Invocation, name: &str) -> String {
    invocation.call.arguments.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Returns a number. Models also write integers as `5.0`, which the schema accepts.
fn number(invocation: &Invocation, name: &str) -> Option<usize> {
    let value = invocation.call.arguments.get(name)?;
    let float = || value.as_f64().filter(|it| *it >= 0.0).map(|it| it as u64);
    usize::try_from(value.as_u64().or_else(float)?).ok()
}
