//! `skills`: lists and checks the skills of the project, and shows which of them a sentence finds.

use contexture::capabilities::{SkillIndex, SkillIndexForm, SkillMatch};
use contexture_project::{Lint, Project, SkillFolder};
use serde_json::{Value, json};

use super::lint;
use crate::args::{Globals, SkillsArgs, SkillsCommand};
use crate::error::{Exit, Failure};
use crate::output::Reply;
use crate::setup::root;
use crate::terminal::Screen;
use crate::terminal::paint::{BOLD, DIM, YELLOW, one_line, paint, wrapped};
use crate::terminal::table::{Align, Cell, Table};

pub(super) fn run(args: &SkillsArgs, globals: &Globals, screen: Screen) -> Result<Reply, Failure> {
    let (project, dir) = root::open_with_dir(globals)?;
    Ok(match &args.command {
        SkillsCommand::List => list(&project, globals.json, screen),
        SkillsCommand::Check => {
            let findings = findings(&project);
            let exit = if findings.is_empty() { Exit::Done } else { Exit::CheckFailed };
            let reply = match globals.json {
                true => Reply::json(json!(findings)),
                false => Reply::styled(lint::page(&findings, &dir, screen)),
            };
            reply.exit(exit)
        }
        SkillsCommand::Route { sentence } => route(&project, sentence, globals.json, screen),
    })
}

fn list(project: &Project, as_json: bool, screen: Screen) -> Reply {
    let folders = project.skill_folders();
    if as_json {
        return Reply::json(folders.iter().map(document).collect());
    }
    if folders.is_empty() {
        return Reply::styled("The project has no skills; they go to skills/NAME/SKILL.md.");
    }
    let blocks = folders.iter().map(|skill| {
        let mut lines = vec![format!(
            "{}  {}",
            paint(BOLD, &one_line(&skill.name)),
            paint(DIM, &one_line(&skill.folder))
        )];
        let text = skill.description.clone().unwrap_or_else(|| "can't be loaded".to_owned());
        let text = wrapped(&one_line(&text), screen.width.saturating_sub(2));
        lines.extend(text.iter().map(|it| format!("  {it}")));
        let faults = skill
            .findings
            .iter()
            .flat_map(|it| wrapped(&one_line(&it.to_string()), screen.width.saturating_sub(2)));
        lines.extend(faults.map(|it| format!("  {}", paint(YELLOW, &it))));
        lines.join("\n")
    });
    Reply::styled(blocks.collect::<Vec<_>>().join("\n\n"))
}

fn document(skill: &SkillFolder) -> Value {
    let version = skill.version.as_ref();
    json!({
        "name": skill.name, "folder": skill.folder, "description": skill.description,
        "hash": version.map(|it| &it.hash), "files": version.map(|it| &it.files),
        "allowed_tools": version.map(|it| &it.allowed_tools),
        "findings": skill.findings.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

/// Returns what `lint` finds in the folders of skills.
fn findings(project: &Project) -> Vec<Lint> {
    let files: Vec<String> =
        project.skill_folders().iter().map(|it| format!("{}/SKILL.md", it.folder)).collect();
    project.lint().into_iter().filter(|it| files.contains(&it.file)).collect()
}

fn route(project: &Project, sentence: &str, as_json: bool, screen: Screen) -> Reply {
    let index = SkillIndex::new(project.skills().list());
    let found = index.search(sentence, project.config().skills.max_hints);
    let is_full = project.skill_index_form() == SkillIndexForm::Full;
    if as_json {
        let hint =
            |it: &SkillMatch| json!({"name": it.name, "description": it.description, "score": it.score});
        let form = if is_full { "full" } else { "names" };
        return Reply::json(json!({"index": form, "hints": found.iter().map(hint).collect::<Vec<_>>()}));
    }
    let reply = match found.is_empty() {
        true => Reply::styled("No skill matches."),
        false => {
            let mut table =
                Table::new(&[("score", Align::Right), ("skill", Align::Left), ("description", Align::Left)]);
            for it in &found {
                table.row(vec![
                    Cell::new(format!("{:.3}", it.score)),
                    Cell::new(one_line(&it.name)).style(BOLD),
                    Cell::new(one_line(&it.description)),
                ]);
            }
            Reply::styled(table.lines(0, screen.width).join("\n"))
        }
    };
    match is_full {
        true => {
            reply.note("the frozen prefix lists all skills with their descriptions, so turns get no hints")
        }
        false => reply,
    }
}
