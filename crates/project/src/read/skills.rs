//! Reads the entry `skill`: a name, several, `"*"` for all, or a map with `name` and `inject`.

use contexture_agent::SkillInject;
use contexture_capabilities::Skills;
use contexture_compose::Entry;
use contexture_message::ErrorCode;
use contexture_template::did_you_mean;
use serde::Deserialize;

use crate::error::Problem;
use crate::read::reader::Reader;
use crate::skills::SKILLS;
use crate::source::decode::{Cursor, Field, Raw};
use crate::source::yaml::Data;

/// The name that stands for all skills.
const ALL: &str = "*";

#[derive(Default, Deserialize)]
#[serde(default)]
struct SkillEntry {
    skill: Option<Raw>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SkillFields {
    name: Option<Raw>,
    inject: Field<SkillInject>,
}

/// Notes that the file depends on the skills of the project.
pub(super) fn depends(reader: &mut Reader<'_>) {
    reader.reads.insert(SKILLS.to_owned());
}

/// Reads an entry. Problems are recorded and the entry becomes `Nothing`.
pub(super) fn skill<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>) -> Entry {
    depends(reader);
    let fields: SkillEntry = reader.decode(at.clone());
    let Some(inner) = reader.given(fields.skill) else { return Entry::Nothing };
    let Some((names, inject)) = selection(reader, &inner) else { return Entry::Nothing };
    let skills = reader.lookup.skills;
    match (&names[..], inject) {
        // The same entry everywhere, so that it is one in a prompt that reaches it twice.
        ([name], None) if name == ALL => skills.all(),
        ([name], None) => skills.one(name).unwrap_or(Entry::Nothing),
        _ => selected(reader, &names, inject).map_or(Entry::Nothing, Entry::from),
    }
}

/// Reads the same forms as the entry, and `true` for all skills. Nothing, if there is a problem or no skill.
pub(super) fn listed<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>) -> Option<Skills> {
    depends(reader);
    let (names, inject) = match &at.node.data {
        Data::Bool(false) => return None,
        Data::Bool(true) => (vec![ALL.to_owned()], None),
        _ => selection(reader, at)?,
    };
    reader.lookup.skills.names().next()?;
    selected(reader, &names, inject)
}

/// Reads the names and where loaded skills stand.
fn selection<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>) -> Option<(Vec<String>, Option<SkillInject>)> {
    if !matches!(at.node.data, Data::Map(_)) {
        return Some((names(reader, at)?, None));
    }
    let fields: SkillFields = reader.decode(at.clone());
    let Some(name) = reader.given(fields.name) else {
        reader.problem(at.invalid("`name` is missing".to_owned()));
        return None;
    };
    Some((names(reader, &name)?, fields.inject.value))
}

fn selected(reader: &Reader<'_>, names: &[String], inject: Option<SkillInject>) -> Option<Skills> {
    let entry = reader.lookup.skills.entry().clone();
    let entry = inject.into_iter().fold(entry, Skills::inject);
    match names.iter().any(|it| it == ALL) {
        true => Some(entry),
        // All names are known by now.
        false => entry.only(names.to_vec()).ok(),
    }
}

/// Reads one name or a list. Returns nothing if one of them is unknown.
fn names<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut is_known = true;
    for item in at.items() {
        let Data::Text(name) = &item.node.data else {
            reader.problem(item.wrong("the name of a skill, or `\"*\"` for all"));
            return None;
        };
        let skills = reader.lookup.skills;
        if name != ALL && skills.one(name).is_none() {
            let message = format!("there is no skill `{name}`");
            let hint = did_you_mean(name, skills.names()).unwrap_or_else(|| match skills.names().next() {
                Some(_) => format!("there are: {}", skills.names().collect::<Vec<_>>().join(", ")),
                None => format!("write `skills/{name}/SKILL.md`, with a `description`"),
            });
            reader
                .problem(Problem::new(ErrorCode::UnknownEntry, message).at(item.node.place).hint(Some(hint)));
            is_known = false;
        }
        names.push(name.clone());
    }
    is_known.then_some(names)
}
