//! The two parts of the catalogue: the list in the frozen prefix, and the hints of a turn.

use contexture_compose::ports::SkillSummary;
use contexture_compose::{Block, Priority, Text};
use contexture_message::{TokenCounter, Tokens};

use super::index::SkillMatch;
use crate::catalogue::line;

/// The name of the block that lists skills.
pub const SKILL_CATALOGUE: &str = "available_skills";

/// How the list of skills is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkillIndexForm {
    /// Names and descriptions: a turn needs no hints.
    Full,
    /// Names only, because everything would be too long.
    Names,
}

/// Returns the form of a list of which the whole may take `max` tokens.
pub(super) fn form(skills: &[SkillSummary], max: Tokens, counter: &dyn TokenCounter) -> SkillIndexForm {
    match counter.count(&list(skills, SkillIndexForm::Full)) <= max {
        true => SkillIndexForm::Full,
        false => SkillIndexForm::Names,
    }
}

/// Returns the block that lists skills, for the frozen prefix of a thread.
pub(super) fn block(skills: &[SkillSummary], form: SkillIndexForm) -> Block {
    Block::text(SKILL_CATALOGUE, Text::literal(list(skills, form)))
        .description("The skills that can be loaded")
        .priority(Priority::SKILL_INDEX)
}

/// Returns the reminder with the skills that match a turn.
pub(super) fn hints(found: &[SkillMatch]) -> String {
    let lines = found.iter().map(|it| line(&it.name, Some(&it.description)));
    let heading = include_str!("templates/hints.txt").trim_end().to_owned();
    std::iter::once(heading).chain(lines).collect::<Vec<_>>().join("\n")
}

fn list(skills: &[SkillSummary], form: SkillIndexForm) -> String {
    let line = |it: &SkillSummary| match form {
        SkillIndexForm::Full => line(&it.name, Some(&it.description)),
        SkillIndexForm::Names => line(&it.name, None),
    };
    skills.iter().map(line).collect::<Vec<_>>().join("\n")
}
