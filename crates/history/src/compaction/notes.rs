//! The wording of extracts and of lists of facts, both ways.
//!
//! A list of facts is written in sections, each a heading and a line per fact. It is read back when a summary is itself
//! summarised, so that facts survive any number of summaries without growing.

use super::facts::{Fact, FactKind};
use super::phrases::clipped;

/// Returns a text of `templates/extract.txt`.
pub(super) fn wording(key: &str) -> &'static str {
    let lines = include_str!("../../templates/extract.txt").lines();
    let texts = lines.filter_map(|it| it.split_once(" = "));
    texts.into_iter().find(|(it, _)| *it == key).map(|(_, text)| text).unwrap_or_default()
}

/// Writes facts in sections.
pub(super) fn write_facts(facts: &[Fact]) -> String {
    let mut sections = Vec::new();
    for kind in FactKind::ALL {
        let of_kind = facts.iter().filter(|it| it.kind == kind);
        let lines: Vec<String> = of_kind.map(|it| format!("- {}", clipped(&it.text, usize::MAX))).collect();
        if !lines.is_empty() {
            sections.push(format!("{}\n{}", wording(kind.as_str()), lines.join("\n")));
        }
    }
    sections.join("\n")
}

/// Reads a text with facts: the lines besides them, as they are, and the facts.
pub(super) fn read_facts(text: &str) -> (Vec<&str>, Vec<Fact>) {
    let (mut lines, mut facts) = (Vec::new(), Vec::new());
    let mut section = None;
    for whole in text.lines() {
        let line = whole.trim();
        let heading = FactKind::ALL.into_iter().find(|it| wording(it.as_str()) == line);
        section = match (heading, section, line.strip_prefix("- ")) {
            (Some(kind), _, _) => Some(kind),
            (None, Some(kind), Some(text)) => {
                facts.push(Fact { kind, text: text.to_owned() });
                Some(kind)
            }
            (None, Some(kind), None) if line.is_empty() => Some(kind),
            _ => {
                lines.push(whole);
                None
            }
        };
    }
    (lines, facts)
}

/// Returns a text with exactly these facts in sections at its end, whatever sections it had.
pub(super) fn sealed(text: &str, facts: &[Fact]) -> String {
    let (lines, _) = read_facts(text);
    let words = lines.join("\n");
    [words.trim(), &write_facts(facts)].into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join("\n")
}
