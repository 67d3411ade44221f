//! `diff`: shows what changed between two passes.

use contexture::{DiffLine, PassDiff, PassDocument, TextChange};
use contexture_compose::{Change, Explanation, ExplanationDiff, Pass};
use serde::Deserialize;
use serde_json::Value;

use super::inspect::slot_style;
use crate::args::{DiffArgs, Globals};
use crate::error::{Exit, Failure};
use crate::output::Reply;
use crate::pass::Passes;
use crate::read;
use crate::terminal::Screen;
use crate::terminal::paint::{BOLD, CYAN, DIM, GREEN, RED, YELLOW, one_line, paint, visible};
use crate::terminal::table::{Align, Cell, Table};

/// One of the two passes.
struct Side {
    name: String,
    pass: PassDocument,
}

pub(super) fn run(args: &DiffArgs, globals: &Globals, screen: Screen) -> Result<Reply, Failure> {
    let (before, now) = sides(args, globals)?;
    let diff = PassDiff::of(&before.pass, &now.pass);
    let exit = if args.exit_code && !diff.equal { Exit::CheckFailed } else { Exit::Done };
    let reply = match globals.json {
        true => Reply::json(diff.document()),
        false => Reply::styled(page((&before, &now), &diff, screen)),
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
        Self { name, pass: pass.into() }
    }

    /// Reads the output of `resolve --json` or `inspect --json`.
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
        Ok(Self { name: path.to_owned(), pass: PassDocument { explanation, request } })
    }
}

fn page((before, now): (&Side, &Side), whole: &PassDiff, screen: Screen) -> String {
    let PassDiff { equal, parts: diff, fields, texts } = whole;
    let arrow = if screen.terminal { "→" } else { "->" };
    let head = format!("{} {} {}", one_line(&before.name), paint(DIM, arrow), one_line(&now.name));
    let (was, is) = diff.total_tokens;
    let tokens = format!("{was} {arrow} {is} tokens ({})", signed(was, is));
    let mut blocks = vec![format!("{}\n{tokens}", paint(BOLD, &head))];
    if *equal {
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

fn text_block(change: &TextChange) -> String {
    let name = format!("{} ({})", one_line(&change.source), change.slot);
    let mut lines =
        vec![paint(BOLD, &format!("--- {name}, before")), paint(BOLD, &format!("+++ {name}, now"))];
    lines.extend(change.lines.iter().map(|it| {
        let line = visible(&it.to_string()).into_owned();
        match it {
            DiffLine::Place(_) => paint(CYAN, &line),
            DiffLine::Removed(_) => paint(RED, &line),
            DiffLine::Added(_) => paint(GREEN, &line),
            DiffLine::Same(_) => line,
        }
    }));
    lines.join("\n")
}

fn signed(was: u32, is: u32) -> String {
    match i64::from(is) - i64::from(was) {
        0 => "no change".to_owned(),
        by => format!("{by:+}"),
    }
}
