//! `inspect`: shows the source of every token on one page.

use std::fmt::Write;

use anstyle::Style;
use contexture_compose::{Explanation, Part};
use contexture_message::Breakpoint;
use serde_json::json;

use super::resolve::counted;
use crate::args::{Globals, ResolveArgs};
use crate::error::Failure;
use crate::output::Reply;
use crate::stage;
use crate::terminal::Screen;
use crate::terminal::bar::{bar, gauge, percent};
use crate::terminal::paint::{
    BLUE, BOLD, CYAN, DIM, GREEN, MAGENTA, PLAIN, RED, YELLOW, behind, cut, joined, one_line, paint, width,
};
use crate::terminal::table::{Align, Cell, Table};

/// Faster contributors are not listed one by one.
const SLOW_MS: f64 = 1.0;
const MAX_TIMINGS: usize = 12;
/// The widths of bars and gauges in columns.
const MIN_BAR: usize = 10;
const MAX_GAUGE: usize = 40;

pub(super) fn run(args: &ResolveArgs, globals: &Globals, screen: Screen) -> Result<Reply, Failure> {
    let (pass, _) = stage::resolve(args, globals)?;
    let explanation = pass.explain();
    Ok(match globals.json {
        true => Reply::json(json!(explanation)),
        false => Reply::styled(page(pass.prompt(), pass.request().model.as_deref(), &explanation, screen)),
    })
}

/// Returns the page.
pub(super) fn page(prompt: &str, model: Option<&str>, it: &Explanation, screen: Screen) -> String {
    let sections = [
        header(prompt, model, it, screen),
        sources(it, screen),
        parts("Parts", it, screen, |state| !is_left_out(state)),
        parts("Left out", it, screen, is_left_out),
        budget(it, screen),
        cache(it, screen),
        warnings(it, screen),
        timings(it),
    ];
    sections.into_iter().filter(|it| !it.is_empty()).map(|it| it.join("\n")).collect::<Vec<_>>().join("\n\n")
}

fn header(prompt: &str, model: Option<&str>, it: &Explanation, screen: Screen) -> Vec<String> {
    let (arrow, dot) = if screen.terminal { ("→", "·") } else { ("->", "|") };
    let model = match model {
        Some(model) => one_line(model),
        None => "no model".to_owned(),
    };
    let (exactness, style) = match it.counter.exact {
        true => ("exact", GREEN),
        false => ("an estimate", YELLOW),
    };
    let facts = [
        (BOLD, format!("{} tokens", it.total_tokens)),
        (PLAIN, counted(it.messages, "message")),
        (PLAIN, counted(it.tools.len(), "tool")),
        (style, format!("counted by {}, {exactness}", it.counter.name)),
    ];
    let mut lines = joined(&[(BOLD, one_line(prompt)), (CYAN, model)], &format!(" {arrow} "), screen.width);
    lines.extend(joined(&facts, &format!(" {dot} "), screen.width));
    lines.push(paint(DIM, &format!("fingerprint {}", it.fingerprint)));
    lines
}

/// Returns one bar per source, in request order, and one for the framing between parts.
fn sources(it: &Explanation, screen: Screen) -> Vec<String> {
    let mut rows: Vec<(String, u32, Style)> = Vec::new();
    for part in it.parts.iter().filter(|part| is_sent(&part.state)) {
        let source = one_line(&part.source);
        match rows.iter_mut().find(|(known, ..)| *known == source) {
            Some((_, tokens, _)) => *tokens = tokens.saturating_add(part.tokens.0),
            None => rows.push((source, part.tokens.0, slot_style(&part.slot))),
        }
    }
    let total = it.total_tokens.0;
    let rest = rows.iter().fold(total, |rest, (_, tokens, _)| rest.saturating_sub(*tokens));
    if rest > 0 {
        rows.push(("framing".to_owned(), rest, DIM));
    }
    let digits = width(&total.to_string()).max(5);
    // Two blanks on the left, two on each side of the bar, and a share such as ` 100.0%`.
    let room = screen.width.saturating_sub(2 + 2 + 2 + digits + 8);
    let widest = rows.iter().map(|(name, ..)| width(name)).max().unwrap_or_default();
    let names = widest.min(32).min(room.saturating_sub(MIN_BAR));
    let columns = room.saturating_sub(names).max(MIN_BAR);
    let largest = rows.iter().map(|(_, tokens, _)| *tokens).max().unwrap_or_default();
    let mut lines = vec![paint(BOLD, "Tokens by source")];
    for (name, tokens, style) in &rows {
        let name = cut(name, names);
        let bar = bar(screen, *tokens, largest, columns);
        let (name_pad, bar_pad) = (names - width(&name), columns - width(&bar));
        lines.push(format!(
            "  {name}{:name_pad$}  {}{:bar_pad$}  {tokens:>digits$} {:>7}",
            "",
            paint(*style, &bar),
            "",
            percent(*tokens, total),
        ));
    }
    lines
}

fn parts(title: &str, it: &Explanation, screen: Screen, shown: impl Fn(&str) -> bool) -> Vec<String> {
    let shown: Vec<&Part> = it.parts.iter().filter(|part| shown(&part.state)).collect();
    if shown.is_empty() {
        return Vec::new();
    }
    let mut table = Table::new(&[
        ("slot", Align::Left),
        ("source", Align::Left),
        ("tokens", Align::Right),
        ("priority", Align::Right),
        ("state", Align::Left),
        ("reason", Align::Left),
    ]);
    for part in shown {
        // An excluded part was never evaluated: it has no tokens, and its priority is meaningless.
        let (tokens, priority) = match part.state.as_str() {
            "excluded" => ("-".to_owned(), "-".to_owned()),
            _ if part.pinned => (part.tokens.to_string(), "pinned".to_owned()),
            _ => (part.tokens.to_string(), json!(part.priority).to_string()),
        };
        table.row(vec![
            Cell::new(&part.slot).style(slot_style(&part.slot)),
            Cell::new(&part.source),
            Cell::new(tokens),
            Cell::new(priority).style(DIM),
            Cell::new(&part.state).style(state_style(&part.state)),
            Cell::new(part.reason.as_deref().unwrap_or_default()),
        ]);
    }
    let mut lines = vec![paint(BOLD, title)];
    lines.extend(table.lines(2, screen.width));
    lines
}

fn budget(it: &Explanation, screen: Screen) -> Vec<String> {
    let budget = &it.budget;
    let mut lines = vec![paint(BOLD, "Budget")];
    let limits = [
        ("system text", budget.used.0, budget.token_budget),
        ("whole request", it.total_tokens.0, budget.input_budget),
    ];
    let text = |used: u32, limit: u32| format!("{used} of {limit} tokens, {}", percent(used, limit));
    let texts = limits.iter().filter_map(|(_, used, limit)| Some(width(&text(*used, (*limit)?.0))));
    // After the name: a gauge in brackets, a blank and the text. All gauges have the same width.
    let room = screen.width.saturating_sub(LABEL + 3 + texts.max().unwrap_or_default());
    for (name, used, limit) in limits {
        let Some(limit) = limit else {
            lines.extend(labelled(name, &format!("{used} tokens, no limit"), screen));
            continue;
        };
        let style = match u64::from(used) * 100 / u64::from(limit.0.max(1)) {
            0..75 => GREEN,
            75..95 => YELLOW,
            _ => RED,
        };
        let text = text(used, limit.0);
        if room < MIN_BAR {
            lines.extend(labelled(name, &text, screen));
            continue;
        }
        let (full, empty) = gauge(screen, used, limit.0, room.min(MAX_GAUGE));
        lines.push(format!("{}[{}{}] {text}", label(name), paint(style, &full), paint(DIM, &empty)));
    }
    lines
}

fn cache(it: &Explanation, screen: Screen) -> Vec<String> {
    let cache = &it.cache;
    let share = percent(cache.prefix_tokens.0, it.total_tokens.0);
    let mut lines = vec![paint(BOLD, "Cache")];
    let prefix = format!("{} tokens ({share}) stay the same from turn to turn", cache.prefix_tokens);
    lines.extend(labelled("prefix", &prefix, screen));
    let marks: Vec<String> = cache.breakpoints.iter().map(breakpoint).collect();
    let marks = if marks.is_empty() { "none".to_owned() } else { marks.join(", ") };
    lines.extend(labelled("breakpoints", &marks, screen));
    if let Some(forecast) = &cache.forecast {
        let mut text = format!("{} tokens should be read from the cache", forecast.read_tokens);
        if let Some(change) = &forecast.changed {
            let _ = write!(text, "; {} changed byte {}", change.source, change.byte);
            let _ = write!(text, ", which costs {} tokens", change.lost_tokens);
        }
        if forecast.expired {
            text.push_str("; the cache has expired");
        }
        if forecast.assumed {
            text.push_str("; the earlier messages are assumed to be unchanged");
        }
        lines.extend(labelled("forecast", &text, screen));
    }
    if let Some(told) = &cache.reconciliation {
        let text = format!("{} tokens were read, {} were expected", told.reported, told.expected);
        lines.extend(labelled("read", &text, screen));
    }
    for edit in &cache.edits {
        let decided = if edit.chosen { "done" } else { "not done" };
        lines.extend(labelled("edit", &format!("{}: {decided}, {}", edit.edit, edit.reason), screen));
    }
    lines
}

/// The width of a label with the blanks around it.
const LABEL: usize = 17;

fn label(name: &str) -> String {
    format!("  {name:<13}  ")
}

fn labelled(name: &str, text: &str, screen: Screen) -> Vec<String> {
    behind(&label(name), LABEL, text, screen.width)
}

fn breakpoint(it: &Breakpoint) -> String {
    match it {
        Breakpoint::Tools => "after the tools".to_owned(),
        Breakpoint::Text { message, byte } => format!("in message {message} after byte {byte}"),
        Breakpoint::Message { message } => format!("after message {message}"),
    }
}

fn warnings(it: &Explanation, screen: Screen) -> Vec<String> {
    if it.warnings.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![paint(YELLOW.bold(), "Warnings")];
    lines.extend(it.warnings.iter().flat_map(|it| behind("  ! ", 4, &one_line(it), screen.width)));
    lines
}

/// Returns the slowest contributors; most take almost no time.
fn timings(it: &Explanation) -> Vec<String> {
    if it.timings.is_empty() {
        return Vec::new();
    }
    let mut slow: Vec<_> = it.timings.iter().filter(|it| it.ms >= SLOW_MS).collect();
    slow.sort_by(|one, other| other.ms.total_cmp(&one.ms));
    let names = slow.iter().map(|it| width(&one_line(&it.source))).max().unwrap_or_default().min(40);
    let mut lines = vec![paint(BOLD, "Timings")];
    lines.extend(slow.iter().take(MAX_TIMINGS).map(|it| {
        let name = cut(&one_line(&it.source), names);
        let pad = names - width(&name);
        format!("  {name}{:pad$}  {:>7.1} ms", "", it.ms)
    }));
    let n_quick = it.timings.len() - slow.len().min(MAX_TIMINGS);
    if n_quick > 0 {
        let least = slow.get(MAX_TIMINGS).map_or(SLOW_MS, |it| it.ms);
        let others = if slow.is_empty() { "" } else { "others " };
        lines.push(paint(DIM, &format!("  {n_quick} {others}below {:.0} ms", least.ceil())));
    }
    lines
}

fn is_sent(state: &str) -> bool {
    matches!(state, "kept" | "shortened")
}

fn is_left_out(state: &str) -> bool {
    matches!(state, "dropped" | "excluded")
}

pub(super) fn slot_style(slot: &str) -> Style {
    match slot {
        "tools" => MAGENTA,
        "system" => GREEN,
        "tags" => CYAN,
        "history" | "provider" => BLUE,
        "user" | "envelope" | "reminders" | "in_flight" => YELLOW,
        _ => PLAIN,
    }
}

fn state_style(state: &str) -> Style {
    match state {
        "kept" => GREEN,
        "shortened" => YELLOW,
        "dropped" => RED,
        _ => DIM,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use contexture_compose::Pass;
    use contexture_message::Tokens;
    use contexture_project::{InMemory, Project};

    use super::{page, width};
    use crate::terminal::Screen;

    /// A pass with long names, many tokens, reasons and warnings.
    pub(crate) fn pass() -> Pass {
        let long =
            format!("---\nid: a-context-with-a-rather-long-name\npriority: 10\n---\n{}", "word ".repeat(400));
        let files = InMemory::new([
            (
                "prompts/p.md",
                "---\nuse: [long, b, {when: input.on, use: b2}]\nbudget: {token_budget: 300}\n---\nIt is {{ ctx.now }}.",
            ),
            ("contexts/long.md", &long),
            ("contexts/b.md", "Be kind."),
            ("contexts/b2.md", "Never."),
        ]);
        let project = Project::from_files(Arc::new(files)).expect("it is a project");
        let prompt = project.prompt("p").expect("it is fine");
        let mut options =
            project.options(prompt, None, Some("some-provider/a-model-with-a-very-long-name-2026-07-01"));
        options.input = serde_json::json!({"on": false});
        options.scope.now = Some("2026-07-01T09:30:00Z".to_owned());
        options.overrides.budget.input_budget = Some(Tokens(1_000_000));
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("it starts");
        runtime.block_on(prompt.resolve(options)).expect("it resolves")
    }

    #[test]
    fn no_line_is_wider_than_the_screen() {
        let pass = pass();
        let explanation = pass.explain();
        assert!(!explanation.warnings.is_empty() && !explanation.dropped.is_empty());
        for columns in [60, 80, 100] {
            for terminal in [true, false] {
                let screen = Screen { width: columns, terminal };
                let page = page(pass.prompt(), pass.request().model.as_deref(), &explanation, screen);
                let page = anstream::adapter::strip_str(&page).to_string();
                for line in page.lines() {
                    assert!(width(line) <= columns, "{columns}: {line}\n{page}");
                }
            }
        }
    }
}
