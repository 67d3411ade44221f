//! Finds the sections of a prompt's body.
//!
//! The full rule:
//!
//! 1. `<system>`, `<user>` or `<context>` at the start of a line opens a section, which runs to its closing tag.
//! 2. Sections are read in sequence: an opening tag inside `<system>` is prose. The exception is a complete
//!    `<context>` section, which puts the tag block exactly there.
//! 3. Each section may appear once. Newlines at both ends are stripped, and nothing else.
//! 4. A body without sections is the system text. Next to a `<system>` section, text outside of sections is ignored
//!    with a remark; without one it would become the system text, so it is a fault.
//!
//! Sections are found before templates are parsed, so rendered output cannot open one.

use crate::error::{Place, Problem};

/// The texts of a body, each with its start position.
#[derive(Debug, Default)]
pub(crate) struct Body {
    pub(crate) system: Option<Section>,
    pub(crate) user: Option<Section>,
    pub(crate) context: Option<Section>,
    /// Whether the system text contains a `<context>` section.
    pub(crate) context_in_system: bool,
    /// The first line of prose outside of all sections.
    pub(crate) outside: Option<Place>,
    /// Opening tags outside of any section that are not at the start of a line.
    pub(crate) overlooked: Vec<(&'static str, Place)>,
}

/// One text of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) text: String,
    /// The position where the text begins.
    pub(crate) place: Place,
    /// The position of the opening tag.
    pub(crate) tag: Place,
}

const NAMES: [&str; 3] = ["system", "user", "context"];

/// Parses a body whose first line is line `first_line` of its file.
pub(crate) fn sections(body: &str, first_line: usize) -> (Body, Vec<Problem>) {
    let mut reading = Reading { body, first_line, found: Body::default(), problems: Vec::new() };
    let found_any = reading.all();
    let Reading { mut found, problems, .. } = reading;
    let mut problems = problems;
    match found.outside {
        _ if !found_any => {
            found.outside = None;
            found.system = Some(stripped(body, Place { line: first_line, column: 1 }));
        }
        Some(place) if found.system.is_none() && problems.is_empty() => {
            let problem =
                Problem::invalid("text outside of all sections, and there is no `<system>` section");
            problems.push(
                problem.at(place).hint(Some("put the text between `<system>` and `</system>`".to_owned())),
            );
        }
        Some(_) | None => {}
    }
    found.context_in_system = found.system.as_ref().is_some_and(|it| holds_context(&it.text));
    if let (true, Some(context)) = (found.context_in_system, &found.context) {
        let message = "section `<context>` appears both inside and outside of `<system>`";
        problems.push(Problem::invalid(message).at(context.tag));
    }
    for section in [&mut found.system, &mut found.user, &mut found.context] {
        section.take_if(|it| it.text.is_empty());
    }
    (found, problems)
}

/// Strips newlines at both ends of a text that begins at `place`.
pub(crate) fn stripped(text: &str, place: Place) -> Section {
    let trimmed = text.trim_start_matches('\n');
    let n_lines = text.len() - trimmed.len();
    let begin = if n_lines == 0 { place } else { Place { line: place.line + n_lines, column: 1 } };
    Section { text: trimmed.trim_end_matches('\n').to_owned(), place: begin, tag: place }
}

struct Reading<'a> {
    body: &'a str,
    first_line: usize,
    found: Body,
    problems: Vec<Problem>,
}

impl Reading<'_> {
    /// Reads all sections; returns whether there were any.
    fn all(&mut self) -> bool {
        let mut found_any = false;
        let mut offset = 0;
        while let Some(line) = self.body.get(offset..).filter(|it| !it.is_empty()) {
            match NAMES.into_iter().find(|it| opens(line, it)) {
                Some(name) => {
                    found_any = true;
                    offset = self.section(name, offset);
                }
                None => {
                    let end = line.find('\n').map_or(line.len(), |it| it + 1);
                    if self.found.outside.is_none() && !line[..end].trim().is_empty() {
                        self.found.outside = Some(self.place(offset));
                    }
                    offset += end;
                }
            }
        }
        found_any
    }

    /// Reads the section that opens at `start` and returns the offset of the next line.
    fn section(&mut self, name: &'static str, start: usize) -> usize {
        let tag = self.place(start);
        let inner = start + name.len() + 2;
        let close = format!("</{name}>");
        let rest = self.body.get(inner..).unwrap_or_default();
        let Some(length) = rest.find(&close) else {
            let problem = Problem::invalid(format!("section `<{name}>` is not closed"));
            self.problems.push(problem.at(tag).hint(Some(format!("end it with `{close}`"))));
            return self.body.len();
        };
        let text = rest.get(..length).unwrap_or_default();
        let place = Place { column: tag.column + name.len() + 2, ..tag };
        self.keep(name, Section { tag, ..stripped(text, place) });
        let end = inner + length + close.len();
        let after = self.body.get(end..).unwrap_or_default();
        let tail = after.split('\n').next().unwrap_or_default();
        if let Some(name) = NAMES.into_iter().find(|it| tail.contains(&format!("<{it}>"))) {
            self.found.overlooked.push((name, self.place(end)));
        }
        end + after.find('\n').map_or(after.len(), |it| it + 1)
    }

    fn keep(&mut self, name: &str, section: Section) {
        let slot = match name {
            "system" => &mut self.found.system,
            "user" => &mut self.found.user,
            _ => &mut self.found.context,
        };
        match slot {
            Some(first) => {
                let (one, other) = (first.tag.line, section.tag.line);
                let message = format!("section `<{name}>` appears on line {one} and again on line {other}");
                self.problems.push(Problem::invalid(message).at(section.tag));
            }
            None => *slot = Some(section),
        }
    }

    fn place(&self, offset: usize) -> Place {
        let before = self.body.get(..offset).unwrap_or(self.body);
        let line = self.first_line + before.matches('\n').count();
        let start = before.rfind('\n').map_or(0, |it| it + 1);
        Place { line, column: before.get(start..).unwrap_or_default().chars().count() + 1 }
    }
}

/// Whether a text contains a complete `<context>` section, whose opening tag starts a line.
fn holds_context(text: &str) -> bool {
    let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(it, _)| it + 1));
    starts.filter_map(|it| text.get(it..)).any(|it| opens(it, "context") && it.contains("</context>"))
}

fn opens(line: &str, name: &str) -> bool {
    line.strip_prefix('<').and_then(|it| it.strip_prefix(name)).is_some_and(|it| it.starts_with('>'))
}
