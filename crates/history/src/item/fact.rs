//! Facts of a conversation that no summary may lose, and how they are written for the model.
//!
//! A [`Fact`] is a record, not prose: it is stored with the [`Summary`](crate::Summary) of the range it was found in,
//! and every later summary that covers that range carries it over word for word.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something said in a conversation that must stay readable however often it is compacted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fact {
    /// The kind of fact.
    pub kind: FactKind,
    /// The text, on one line.
    pub text: String,
}

/// The kinds of facts, in the order in which they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FactKind {
    /// A standing instruction of the user, or something they stated about themselves.
    Instruction,
    /// A tool call without a result.
    OpenCall,
    /// A name: a path, address, identifier or quoted name.
    Artifact,
    /// The user's last request.
    Request,
}

impl FactKind {
    pub(crate) const ALL: [FactKind; 4] =
        [FactKind::Instruction, FactKind::OpenCall, FactKind::Artifact, FactKind::Request];

    /// Returns the name, such as `open_call`.
    pub fn as_str(self) -> &'static str {
        match self {
            FactKind::Instruction => "instruction",
            FactKind::OpenCall => "open_call",
            FactKind::Artifact => "artifact",
            FactKind::Request => "request",
        }
    }

    /// Returns the heading above the facts of this kind.
    fn heading(self) -> &'static str {
        wording(self.as_str())
    }
}

/// Returns a text from `templates/extract.txt`.
pub(crate) fn wording(key: &str) -> &'static str {
    let mut texts = include_str!("../../templates/extract.txt").lines().filter_map(|it| it.split_once(" = "));
    texts.find(|(it, _)| *it == key).map(|(_, text)| text).unwrap_or_default()
}

/// Writes facts in sections: a heading, then one line for each fact.
pub(crate) fn write_facts(facts: &[Fact]) -> String {
    let mut sections = Vec::new();
    for kind in FactKind::ALL {
        let of_kind = facts.iter().filter(|it| it.kind == kind);
        let lines: Vec<String> = of_kind.map(|it| format!("- {}", on_one_line(&it.text))).collect();
        if !lines.is_empty() {
            sections.push(format!("{}\n{}", kind.heading(), lines.join("\n")));
        }
    }
    sections.join("\n")
}

/// Splits a text with fact sections into its other lines, unchanged, and the facts.
///
/// Summarisers write such sections, and so do summaries that were stored before facts became records.
pub(crate) fn read_facts(text: &str) -> (Vec<&str>, Vec<Fact>) {
    let (mut lines, mut facts) = (Vec::new(), Vec::new());
    let headings = FactKind::ALL.map(|it| (it.heading(), it));
    let mut section = None;
    for whole in text.lines() {
        let line = whole.trim();
        let heading = headings.iter().find(|(it, _)| *it == line).map(|(_, kind)| *kind);
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

fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
