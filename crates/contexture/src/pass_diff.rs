//! The differences between two passes: parts, fields of the request, and texts line by line.

use std::time::Duration;

use contexture_compose::{Explanation, ExplanationDiff, Part, Pass};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use similar::{ChangeTag, TextDiff};

/// Fields of a request that are not parts.
const FIELDS: [&str; 4] = ["model", "settings", "tool_choice", "output"];

/// The maximum time for comparing one text; after that the rest counts as changed.
const DIFF_TIME: Duration = Duration::from_secs(2);

/// A pass in a form that can be stored and compared.
#[derive(Clone, Debug)]
pub struct PassDocument {
    /// Why the request looks the way it does.
    pub explanation: Explanation,
    /// The request, if it is known.
    pub request: Option<Value>,
}

/// The differences between two passes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PassDiff {
    /// The parts that were added, removed, moved or changed.
    #[serde(flatten)]
    pub parts: ExplanationDiff,
    /// Whether both passes send the same.
    pub equal: bool,
    /// The fields of the request that differ.
    #[serde(rename = "request")]
    pub fields: Vec<FieldChange>,
    /// The texts that differ.
    pub texts: Vec<TextChange>,
}

/// A field of the request that differs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FieldChange {
    /// The name of the field.
    pub field: &'static str,
    /// The earlier value.
    pub before: Value,
    /// The current value.
    pub now: Value,
}

/// A text that differs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TextChange {
    /// The source of the part that it belongs to.
    pub source: String,
    /// Its place in the request.
    pub slot: String,
    /// The lines of the unified diff; one text in JSON.
    #[serde(rename = "diff", serialize_with = "write_lines")]
    #[schemars(with = "String")]
    pub lines: Vec<DiffLine>,
}

/// A line of a unified diff.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiffLine {
    /// A hunk header, which gives the position of the next lines.
    Place(String),
    /// An unchanged line.
    Same(String),
    /// An added line.
    Added(String),
    /// A removed line.
    Removed(String),
}

impl From<&Pass> for PassDocument {
    fn from(pass: &Pass) -> Self {
        Self { explanation: pass.explain(), request: serde_json::to_value(pass.request()).ok() }
    }
}

impl PassDiff {
    /// Compares two passes.
    ///
    /// ```
    /// use contexture::PassDiff;
    /// use contexture::prelude::*;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let prompt = Prompt::builder("p").system(Text::template("Say {{ input.word }}.")?).build()?;
    /// let pass = async |word: &str| prompt.resolve(ResolveOptions::new(serde_json::json!({"word": word}))).await;
    /// let diff = PassDiff::of(&(&pass("a").await?).into(), &(&pass("b").await?).into());
    /// assert_eq!(diff.document()["texts"][0]["diff"], "@@ -1 +1 @@\n-Say a.\n+Say b.");
    /// # Ok(())
    /// # }
    /// ```
    pub fn of(before: &PassDocument, now: &PassDocument) -> Self {
        let parts = Explanation::diff(&before.explanation, &now.explanation);
        let equal = parts.is_empty() && before.explanation.fingerprint == now.explanation.fingerprint;
        let fields = field_changes(before, now);
        Self { equal, parts, fields, texts: text_changes(&before.explanation, &now.explanation) }
    }

    /// Returns the difference as a JSON document.
    pub fn document(&self) -> Value {
        json!(self)
    }
}

impl std::fmt::Display for DiffLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DiffLine::Place(text) => f.write_str(text),
            DiffLine::Same(text) => write!(f, " {text}"),
            DiffLine::Added(text) => write!(f, "+{text}"),
            DiffLine::Removed(text) => write!(f, "-{text}"),
        }
    }
}

fn write_lines<S: Serializer>(lines: &[DiffLine], serializer: S) -> Result<S::Ok, S::Error> {
    let lines: Vec<String> = lines.iter().map(DiffLine::to_string).collect();
    serializer.serialize_str(&lines.join("\n"))
}

fn field_changes(before: &PassDocument, now: &PassDocument) -> Vec<FieldChange> {
    let (Some(before), Some(now)) = (&before.request, &now.request) else { return Vec::new() };
    let change =
        |field: &'static str| FieldChange { field, before: before[field].clone(), now: now[field].clone() };
    FIELDS.into_iter().map(change).filter(|it| it.before != it.now).collect()
}

/// Pairs the texts that were sent in both passes and differ.
fn text_changes(before: &Explanation, now: &Explanation) -> Vec<TextChange> {
    let mut used = vec![false; before.parts.len()];
    let old: Vec<&Part> = sent(before).collect();
    let mut changes = Vec::new();
    for part in sent(now) {
        let same =
            |(idx, it): &(usize, &&Part)| !used[*idx] && it.source == part.source && it.slot == part.slot;
        let Some((idx, was)) = old.iter().enumerate().find(same) else { continue };
        used[idx] = true;
        if let (Some(before), Some(now)) = (&was.text, &part.text)
            && before != now
        {
            let (source, slot) = (part.source.clone(), part.slot.to_string());
            changes.push(TextChange { source, slot, lines: lines(before, now) });
        }
    }
    changes
}

fn sent(explanation: &Explanation) -> impl Iterator<Item = &Part> {
    explanation.parts.iter().filter(|part| matches!(part.state.as_str(), "kept" | "shortened"))
}

fn lines(before: &str, now: &str) -> Vec<DiffLine> {
    let diff = TextDiff::configure().timeout(DIFF_TIME).diff_lines(before, now);
    let mut lines = Vec::new();
    for hunk in diff.unified_diff().context_radius(2).iter_hunks() {
        lines.push(DiffLine::Place(hunk.header().to_string().trim_end().to_owned()));
        lines.extend(hunk.iter_changes().map(|change| {
            let text = change.value().trim_end_matches('\n').to_owned();
            match change.tag() {
                ChangeTag::Equal => DiffLine::Same(text),
                ChangeTag::Insert => DiffLine::Added(text),
                ChangeTag::Delete => DiffLine::Removed(text),
            }
        }));
    }
    lines
}
