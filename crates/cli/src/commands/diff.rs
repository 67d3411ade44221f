//! `diff`: what changed from one pass to another.

use std::time::Duration;

use contexture_compose::{Change, Explanation, ExplanationDiff, Part, Pass};
use serde::Deserialize;
use serde_json::{Value, json};
use similar::{ChangeTag, TextDiff};

use super::inspect::slot_style;
use crate::args::{DiffArgs, Globals};
use crate::error::{Exit, Failure};
use crate::output::{Reply, Screen};
use crate::paint::{BOLD, CYAN, DIM, GREEN, RED, YELLOW, one_line, paint, visible};
use crate::pass::Passes;
use crate::read;
use crate::table::{Align, Cell, Table};

/// Fields of a request that are not parts.
const FIELDS: [&str; 4] = ["model", "settings", "tool_choice", "output"];

/// How long one text is compared; then the rest counts as changed.
const DIFF_TIME: Duration = Duration::from_secs(2);

/// One of the two passes.
struct Side {
    name: String,
    explanation: Explanation,
    /// Where it is known.
    request: Option<Value>,
}

/// A field of the request that is not the same.
struct FieldChange {
    field: &'static str,
    before: Value,
    now: Value,
}

/// A text that is not the same, as a unified diff.
struct TextChange<'a> {
    part: &'a Part,
    before: &'a str,
    now: &'a str,
}

pub(super) fn run(args: &DiffArgs, globals: &Globals, screen: Screen) -> Result<Reply, Failure> {
    let (before, now) = sides(args, globals)?;
    let diff = Explanation::diff(&before.explanation, &now.explanation);
    let fields = field_changes(&before, &now);
    let texts = text_changes(&before.explanation, &now.explanation);
    let equal = diff.is_empty() && before.explanation.fingerprint == now.explanation.fingerprint;
    let exit = if args.exit_code && !equal { Exit::CheckFailed } else { Exit::Done };
    let reply = match globals.json {
        true => Reply::json(document(&diff, &fields, &texts, equal)),
        false => Reply::styled(page((&before, &now), &diff, &fields, &texts, equal, screen)),
    };
    Ok(reply.exit(exit))
}

fn sides(args: &DiffArgs, globals: &Globals) -> Result<(Side, Side), Failure> {
    if let (Some(a), Some(b)) = (&args.a, &args.b) {
        if a == "-" && b == "-" {
            return Err(Failure::usage("standard input can be read only once"));
        }
        let passes = Passes::of(&args.before, &args.call, globals)?;
        let side = |option: &str, value: &str| {
            let pass = passes.resolve(read::json_option(option, value)?)?;
            Ok::<Side, Failure>(Side::of_pass(format!("{} {option}", args.before), &pass))
        };
        return Ok((side("--a", a)?, side("--b", b)?));
    }
    let Some(now) = &args.now_file else {
        return Err(Failure::usage("give two files, or a prompt with --a and --b"));
    };
    if args.before == "-" && now == "-" {
        return Err(Failure::usage("standard input can be read only once"));
    }
    Ok((Side::of_file(&args.before)?, Side::of_file(now)?))
}

impl Side {
    fn of_pass(name: String, pass: &Pass) -> Self {
        Self { name, explanation: pass.explain(), request: serde_json::to_value(pass.request()).ok() }
    }

    /// Reads what `resolve --json` or `inspect --json` printed.
    fn of_file(path: &str) -> Result<Self, Failure> {
        let mut document = read::json_file(path)?;
        let request = document.get_mut("request").map(Value::take);
        let explanation = match document.get_mut("explanation") {
            Some(explanation) => explanation.take(),
            None => document,
        };
        let explanation = Explanation::deserialize(&explanation).map_err(|err| {
            let failure = Failure::input(format!("`{path}` does not hold a pass: {err}")).at(path);
            failure.hint("write one with `contexture resolve PROMPT --json`")
        })?;
        Ok(Self { name: path.to_owned(), explanation, request })
    }
}

fn field_changes(before: &Side, now: &Side) -> Vec<FieldChange> {
    let (Some(before), Some(now)) = (&before.request, &now.request) else { return Vec::new() };
    let change =
        |field: &'static str| FieldChange { field, before: before[field].clone(), now: now[field].clone() };
    FIELDS.into_iter().map(change).filter(|it| it.before != it.now).collect()
}

/// Pairs the texts that were sent in both passes and are not the same.
fn text_changes<'a>(before: &'a Explanation, now: &'a Explanation) -> Vec<TextChange<'a>> {
    let sent = |it: &'a Explanation| {
        it.parts.iter().filter(|part| matches!(part.state.as_str(), "kept" | "shortened"))
    };
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
            changes.push(TextChange { part, before, now });
        }
    }
    changes
}

impl TextChange<'_> {
    /// The lines of the unified diff, each with its tag.
    fn lines(&self) -> Vec<(Option<ChangeTag>, String)> {
        let diff = TextDiff::configure().timeout(DIFF_TIME).diff_lines(self.before, self.now);
        let mut lines = Vec::new();
        for hunk in diff.unified_diff().context_radius(2).iter_hunks() {
            lines.push((None, hunk.header().to_string().trim_end().to_owned()));
            lines.extend(hunk.iter_changes().map(|change| {
                let text = visible(change.value().trim_end_matches('\n')).into_owned();
                (Some(change.tag()), format!("{}{text}", change.tag()))
            }));
        }
        lines
    }
}

fn document(diff: &ExplanationDiff, fields: &[FieldChange], texts: &[TextChange<'_>], equal: bool) -> Value {
    let mut document = json!(diff);
    document["equal"] = json!(equal);
    document["request"] =
        fields.iter().map(|it| json!({"field": it.field, "before": it.before, "now": it.now})).collect();
    document["texts"] = texts
        .iter()
        .map(|it| {
            let lines: Vec<String> = it.lines().into_iter().map(|(_, line)| line).collect();
            json!({"source": it.part.source, "slot": it.part.slot, "diff": lines.join("\n")})
        })
        .collect();
    document
}

fn page(
    (before, now): (&Side, &Side),
    diff: &ExplanationDiff,
    fields: &[FieldChange],
    texts: &[TextChange<'_>],
    equal: bool,
    screen: Screen,
) -> String {
    let arrow = if screen.terminal { "→" } else { "->" };
    let head = format!("{} {} {}", one_line(&before.name), paint(DIM, arrow), one_line(&now.name));
    let (was, is) = diff.total_tokens;
    let tokens = format!("{was} {arrow} {is} tokens ({})", signed(was, is));
    let mut blocks = vec![format!("{}\n{tokens}", paint(BOLD, &head))];
    if equal {
        blocks.push(paint(GREEN, "The two passes send the same."));
        return blocks.join("\n\n");
    }
    let table = changes(diff, arrow, screen);
    if !table.is_empty() {
        blocks.push(table.join("\n"));
    }
    if !fields.is_empty() {
        let lines = fields.iter().map(|it| {
            let (before, now) = (it.before.to_string(), it.now.to_string());
            format!("{} {}: {} {arrow} {}", paint(YELLOW, "~"), it.field, one_line(&before), one_line(&now))
        });
        blocks.push(lines.collect::<Vec<_>>().join("\n"));
    } else if diff.is_empty() {
        blocks
            .push("The parts are the same; the model, the settings or the output schema differ.".to_owned());
    }
    if let Some(first) = &diff.first_difference {
        let place = match first.byte {
            Some(byte) => format!("byte {byte} of the system message"),
            None => format!("slot {}", first.slot),
        };
        blocks.push(format!("First difference: {place}, in {}", paint(BOLD, &first.source)));
    }
    blocks.extend(texts.iter().map(text_block));
    blocks.join("\n\n")
}

fn changes(diff: &ExplanationDiff, arrow: &str, screen: Screen) -> Vec<String> {
    let mut table = Table::new(&[
        ("", Align::Left),
        ("source", Align::Left),
        ("slot", Align::Left),
        ("tokens", Align::Right),
        ("why", Align::Left),
    ]);
    let groups = [
        (&diff.added, "+ added", GREEN, "before"),
        (&diff.removed, "- removed", RED, "now"),
        (&diff.changed, "~ changed", YELLOW, ""),
        (&diff.moved, "> moved", CYAN, ""),
    ];
    let mut empty = true;
    for (group, mark, style, when) in groups {
        for Change { source, slot, tokens: (was, is), reason } in group {
            empty = false;
            let why = reason.as_ref().map(|it| format!("{when}: {it}"));
            table.row(vec![
                Cell::new(mark).style(style),
                Cell::new(source),
                Cell::new(slot).style(slot_style(slot)),
                Cell::new(format!("{was} {arrow} {is}")),
                Cell::new(why.unwrap_or_default()),
            ]);
        }
    }
    if empty { Vec::new() } else { table.lines(0, screen.width) }
}

fn text_block(change: &TextChange<'_>) -> String {
    let name = format!("{} ({})", one_line(&change.part.source), change.part.slot);
    let mut lines =
        vec![paint(BOLD, &format!("--- {name}, before")), paint(BOLD, &format!("+++ {name}, now"))];
    lines.extend(change.lines().into_iter().map(|(tag, line)| match tag {
        None => paint(CYAN, &line),
        Some(ChangeTag::Delete) => paint(RED, &line),
        Some(ChangeTag::Insert) => paint(GREEN, &line),
        Some(ChangeTag::Equal) => line,
    }));
    lines.join("\n")
}

fn signed(was: u32, is: u32) -> String {
    match i64::from(is) - i64::from(was) {
        0 => "no change".to_owned(),
        by => format!("{by:+}"),
    }
}
