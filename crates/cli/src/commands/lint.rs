//! `lint`: reports the faults of a project and warnings about it.

use std::path::Path;

use contexture_project::{Level, Lint};
use serde_json::json;

use super::resolve::counted;
use crate::args::{Globals, LintArgs};
use crate::error::{Exit, Failure};
use crate::output::Reply;
use crate::setup::root;
use crate::terminal::Screen;
use crate::terminal::paint::{BOLD, CYAN, DIM, GREEN, RED, YELLOW, one_line, paint, wrapped};
use crate::terminal::snippet::{self, Spot};

pub(super) fn run(args: &LintArgs, globals: &Globals, screen: Screen) -> Result<Reply, Failure> {
    let (project, dir) = root::open_with_dir(globals)?;
    let findings = project.lint();
    let failed = |it: &Lint| it.level == Level::Error || args.strict;
    let exit = if findings.iter().any(failed) { Exit::CheckFailed } else { Exit::Done };
    let reply = match globals.json {
        true => Reply::json(json!(findings)),
        false => Reply::styled(page(&findings, &dir, screen)),
    };
    Ok(reply.exit(exit))
}

/// Formats the findings, grouped by file.
pub(super) fn page(findings: &[Lint], dir: &Path, screen: Screen) -> String {
    let mut blocks = Vec::new();
    for of_file in findings.chunk_by(|one, other| one.file == other.file) {
        let places: Vec<String> = of_file.iter().map(|it| format!("{}:{}", it.line, it.column)).collect();
        let columns = places.iter().map(String::len).max().unwrap_or_default();
        let mut lines: Vec<String> =
            of_file.iter().take(1).map(|it| paint(BOLD, &one_line(&it.file))).collect();
        for (finding, place) in of_file.iter().zip(&places) {
            lines.extend(finding_lines(finding, &format!("{place:>columns$}"), dir, screen));
        }
        blocks.push(lines.join("\n"));
    }
    blocks.push(summary(findings));
    blocks.join("\n\n")
}

fn finding_lines(finding: &Lint, place: &str, dir: &Path, screen: Screen) -> Vec<String> {
    let (level, style) = match finding.level {
        Level::Error => ("error  ", RED),
        Level::Warning => ("warning", YELLOW),
    };
    let indent = 2 + place.len() + 2 + level.len() + 2;
    let columns = screen.width.saturating_sub(indent);
    let text = format!("{} ({})", one_line(&finding.message), finding.code);
    let mut lines: Vec<String> = wrapped(&text, columns)
        .into_iter()
        .enumerate()
        .map(|(idx, line)| match idx {
            0 => format!("  {}  {}  {line}", paint(DIM, place), paint(style, level)),
            _ => format!("{:indent$}{line}", ""),
        })
        .collect();
    if finding.level == Level::Error {
        let Lint { file, line, column, .. } = finding;
        let spot = Spot { file: file.clone(), line: *line, column: *column };
        let drawn = snippet::line_of(&spot, Some(dir)).map(|it| snippet::draw(&it, *line, *column));
        lines.extend(drawn.iter().flat_map(|it| it.lines()).map(|line| format!("{:indent$}{line}", "")));
    }
    if let Some(hint) = &finding.hint {
        let hint = wrapped(&format!("hint: {}", one_line(hint)), columns);
        lines.extend(hint.iter().map(|line| format!("{:indent$}{}", "", paint(CYAN, line))));
    }
    lines
}

fn summary(findings: &[Lint]) -> String {
    let n_errors = findings.iter().filter(|it| it.level == Level::Error).count();
    let n_warnings = findings.len() - n_errors;
    let style = match (n_errors, n_warnings) {
        (0, 0) => return paint(GREEN, "No problems found."),
        (0, _) => YELLOW,
        _ => RED,
    };
    paint(style, &format!("{}, {}", counted(n_errors, "error"), counted(n_warnings, "warning")))
}
