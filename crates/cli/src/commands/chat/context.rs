//! `/context`: shows what fills the model's context window.
//!
//! The prompt is resolved as for the next call, without the next user message, and its parts are grouped. The items of
//! the thread show how much of a history turn is hidden context or summaries.

use contexture_compose::{Explanation, Forecast, Part, Pass, ShortenedResult};
use contexture_history::{Body, Item};
use contexture_message::{Tokens, Usage};
use serde_json::{Value, json};

use crate::terminal::Screen;
use crate::terminal::bar::{bar, percent};
use crate::terminal::paint::{
    BLUE, BOLD, CYAN, DIM, GREEN, MAGENTA, PLAIN, YELLOW, behind, joined, one_line, paint, width,
};

/// Further lines of a kind are only counted.
const MAX_SHOWN: usize = 12;
const BAR: usize = 30;
/// The width of a label with the blanks around it.
const LABEL: usize = 18;

/// A category of content in the context window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    System,
    Tools,
    Messages,
    Summaries,
    History,
    Hidden,
    Turn,
    Framing,
}

const GROUPS: [(Group, &str); 8] = [
    (Group::System, "system"),
    (Group::Tools, "tools"),
    (Group::Messages, "messages"),
    (Group::Summaries, "summaries"),
    (Group::History, "history"),
    (Group::Hidden, "hidden context"),
    (Group::Turn, "this turn"),
    (Group::Framing, "framing"),
];

/// The cost of the calls of the last turn.
#[derive(Clone, Debug)]
pub(super) struct LastTurn {
    pub(super) pass: Pass,
    pub(super) usage: Usage,
    pub(super) steps: u32,
}

/// The content of a context window.
pub(super) struct Filling<'a> {
    pub(super) explanation: Explanation,
    pub(super) model: Option<&'a str>,
    /// The token limit of a request, if known.
    pub(super) usable: Option<Tokens>,
    /// The items of the thread that the model reads.
    pub(super) items: &'a [Item],
    /// The newest turn, such as `t7`.
    pub(super) newest: String,
    pub(super) last: Option<&'a LastTurn>,
}

impl Filling<'_> {
    fn used(&self) -> u32 {
        self.explanation.total_tokens.0
    }

    /// Returns the tokens of each group, in the order of [`GROUPS`].
    fn groups(&self) -> [u32; GROUPS.len()] {
        let mut sums = [0_u32; GROUPS.len()];
        let mut add = |group: Group, tokens: u32| {
            let sum = &mut sums[group as usize];
            *sum = sum.saturating_add(tokens);
        };
        let sent = |it: &&Part| matches!(it.state.as_str(), "kept" | "shortened");
        let mut rest = self.used();
        for part in self.explanation.parts.iter().filter(sent) {
            rest = rest.saturating_sub(part.tokens.0);
            let group = match part.slot.as_str() {
                "tools" => Group::Tools,
                "system" | "tags" => Group::System,
                "history" => {
                    self.split(&part.source, part.tokens.0)
                        .into_iter()
                        .for_each(|(group, tokens)| add(group, tokens));
                    continue;
                }
                "envelope" | "reminders" => Group::Hidden,
                "user" | "in_flight" => Group::Turn,
                _ => Group::Messages,
            };
            add(group, part.tokens.0);
        }
        add(Group::Framing, rest);
        sums
    }

    /// Splits the tokens of a history turn by group.
    fn split(&self, source: &str, tokens: u32) -> [(Group, u32); 3] {
        let id = source.strip_prefix("history:").unwrap_or(source);
        let is_summary =
            |it: &Item| matches!(&it.body, Body::Summary(summary) if format!("a{}", summary.number) == id);
        if self.items.iter().any(is_summary) {
            return [(Group::Summaries, tokens), (Group::Hidden, 0), (Group::History, 0)];
        }
        let of_turn = || self.items.iter().filter(|it| it.visibility.history && it.turn.to_string() == id);
        let sum = |items: &mut dyn Iterator<Item = &Item>| {
            items.map(|it| it.cost.tokens.0).fold(0, u32::saturating_add)
        };
        let hidden = sum(&mut of_turn().filter(|it| matches!(it.body, Body::Envelope(_)))).min(tokens);
        // A summary inside a turn counts as part of it, unless it has its own part.
        let stands_alone = |it: &Item| match &it.body {
            Body::Summary(summary) => self.has_part(&format!("history:a{}", summary.number)),
            _ => true,
        };
        let summaries = sum(&mut of_turn().filter(|it| !stands_alone(it))).min(tokens - hidden);
        let group = if id == self.newest { Group::Turn } else { Group::History };
        [(Group::Summaries, summaries), (Group::Hidden, hidden), (group, tokens - hidden - summaries)]
    }

    fn has_part(&self, source: &str) -> bool {
        self.explanation.parts.iter().any(|it| it.source == source)
    }

    /// Lists the parts of the conversation that the model does not read, and everything that did not fit.
    fn absent(&self) -> Vec<(&str, &str)> {
        let excluded = self.explanation.excluded.iter().filter(|it| it.source.starts_with("history"));
        let excluded = excluded.map(|it| (it.source.as_str(), it.reason.as_str()));
        let dropped = self.explanation.dropped.iter().map(|it| (it.source.as_str(), it.reason.as_str()));
        excluded.chain(dropped).collect()
    }

    pub(super) fn document(&self) -> Value {
        let whole = self.usable.map(|it| it.0);
        let share = |tokens: u32| whole.map(|it| (f64::from(tokens) * 1000.0 / f64::from(it)).round() / 10.0);
        let groups = GROUPS.iter().zip(self.groups());
        let groups = groups
            .map(|((_, name), tokens)| json!({"name": name, "tokens": tokens, "percent": share(tokens)}));
        let free = whole.map(|it| it.saturating_sub(self.used()));
        let absent = self.absent();
        let absent = absent.iter().map(|(source, reason)| json!({"source": source, "reason": reason}));
        let last = self.last.map(|it| {
            let reconciliation = it.pass.explain().cache.reconciliation;
            json!({"calls": it.steps, "usage": it.usage, "reconciliation": reconciliation})
        });
        json!({
            "model": self.model, "counter": self.explanation.counter, "used": self.used(), "usable": whole, "free": free,
            "groups": groups.collect::<Vec<_>>(), "absent": absent.collect::<Vec<_>>(),
            "shortened_results": self.explanation.shortened_results, "cache": self.explanation.cache, "last_turn": last,
        })
    }

    pub(super) fn page(&self, screen: Screen) -> String {
        let sections = [
            self.header(screen),
            self.bars(screen),
            self.left_out(screen),
            self.shortened(screen),
            self.cache(screen),
        ];
        let sections = sections.iter().filter(|it| !it.is_empty()).map(|it| it.join("\n"));
        sections.collect::<Vec<_>>().join("\n\n")
    }

    fn header(&self, screen: Screen) -> Vec<String> {
        let about = if self.explanation.counter.exact { "" } else { "about " };
        let used = self.used();
        let facts = match self.usable {
            Some(usable) => format!("{about}{used} of {usable} tokens, {}", percent(used, usable.0)),
            None => format!("{about}{used} tokens; how many the model takes is not known"),
        };
        joined(&[(BOLD, one_line(self.model.unwrap_or("no model"))), (PLAIN, facts)], "  ", screen.width)
    }

    fn bars(&self, screen: Screen) -> Vec<String> {
        let mut rows: Vec<(&str, u32, anstyle::Style)> = GROUPS
            .iter()
            .zip(self.groups())
            // These groups are rare, so they are hidden when empty.
            .filter(|((group, _), tokens)| *tokens > 0 || !matches!(group, Group::Messages | Group::Framing))
            .map(|((group, name), tokens)| (*name, tokens, style(*group)))
            .collect();
        let whole = self.usable.map_or(self.used(), |it| it.0.max(self.used()));
        rows.extend(self.usable.map(|it| ("free", it.0.saturating_sub(self.used()), DIM)));
        let digits = width(&whole.to_string());
        let columns = screen.width.saturating_sub(LABEL + digits + 10).min(BAR);
        let line = |(name, tokens, style): (&str, u32, anstyle::Style)| {
            let drawn = bar(screen, tokens, whole, columns.max(1));
            let share = percent(tokens, whole);
            let front = format!("  {name:<14}  {tokens:>digits$}  {share:>6}  ");
            format!("{front}{}", paint(style, &drawn)).trim_end().to_owned()
        };
        rows.into_iter().map(line).collect()
    }

    fn left_out(&self, screen: Screen) -> Vec<String> {
        let lines = self.absent().iter().map(|(source, reason)| format!("{source}: {reason}")).collect();
        listed("Not in it", lines, screen)
    }

    fn shortened(&self, screen: Screen) -> Vec<String> {
        let results = &self.explanation.shortened_results;
        let line = |it: &ShortenedResult| {
            format!("{} {} of {}: {} instead of {} tokens", it.name, it.call_id, it.turn, it.after, it.before)
        };
        listed("Results shown as previews", results.iter().map(line).collect(), screen)
    }

    fn cache(&self, screen: Screen) -> Vec<String> {
        let cache = &self.explanation.cache;
        let share = percent(cache.prefix_tokens.0, self.used());
        let prefix = format!("{} tokens ({share}) stay the same from turn to turn", cache.prefix_tokens);
        let facts = [
            Some(("prefix", prefix)),
            cache.forecast.as_ref().map(|it| ("forecast", forecast(it))),
            self.last.map(|it| ("last turn", it.read())),
        ];
        let line = |(name, text): &(&str, String)| {
            behind(&format!("  {name:<14}  "), LABEL, &one_line(text), screen.width)
        };
        let mut lines = vec![paint(BOLD, "Cache")];
        lines.extend(facts.iter().flatten().flat_map(line));
        lines
    }
}

impl LastTurn {
    /// Describes how many tokens its calls read, and how many of them came from the provider's cache.
    fn read(&self) -> String {
        let Usage { input_tokens, cache_read_tokens, .. } = self.usage;
        if input_tokens == 0 {
            return "the provider did not say what was read".to_owned();
        }
        let calls = if self.steps == 1 { "its call".to_owned() } else { format!("its {} calls", self.steps) };
        let cached = match cache_read_tokens {
            Some(cached) => format!("{cached} of them from the cache"),
            None => "the provider does not say how many from its cache".to_owned(),
        };
        let mut text = format!("{calls} read {input_tokens} tokens, {cached}");
        if let Some(it) = self.pass.explain().cache.reconciliation {
            text.push_str(&format!("; of the last one {} were expected, {} read", it.expected, it.reported));
        }
        text
    }
}

fn forecast(it: &Forecast) -> String {
    let mut text = format!("the next call should read {} tokens from the cache", it.read_tokens);
    if let Some(change) = &it.changed {
        text.push_str(&format!("; {} changed, which loses {} tokens", change.source, change.lost_tokens));
    }
    let reasons =
        [(it.expired, "; the cache has expired"), (it.below_minimum, "; it is too short for the cache")];
    reasons.iter().filter(|(holds, _)| *holds).for_each(|(_, why)| text.push_str(why));
    text
}

fn listed(title: &str, all: Vec<String>, screen: Screen) -> Vec<String> {
    if all.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![paint(BOLD, title)];
    lines.extend(all.iter().take(MAX_SHOWN).flat_map(|it| behind("  ", 2, &one_line(it), screen.width)));
    if let Some(more) = all.len().checked_sub(MAX_SHOWN).filter(|it| *it > 0) {
        lines.push(paint(DIM, &format!("  {more} more; `/context all` shows everything")));
    }
    lines
}

fn style(group: Group) -> anstyle::Style {
    match group {
        Group::System => GREEN,
        Group::Tools => MAGENTA,
        Group::Summaries | Group::Messages => CYAN,
        Group::History => BLUE,
        Group::Hidden | Group::Turn => YELLOW,
        Group::Framing => DIM,
    }
}

#[cfg(test)]
mod tests {
    use contexture_message::{Tokens, Usage};

    use super::{Filling, LastTurn};
    use crate::commands::inspect::tests::pass;
    use crate::terminal::Screen;
    use crate::terminal::paint::width;

    #[test]
    fn no_line_is_wider_than_the_screen() {
        let pass = pass();
        let last = LastTurn { pass: pass.clone(), usage: Usage::default(), steps: 3 };
        for columns in [60, 80, 100] {
            for usable in [None, Some(Tokens(1)), Some(Tokens(2_000_000))] {
                let screen = Screen { width: columns, terminal: true };
                let explanation = pass.explain();
                let model = pass.request().model.as_deref();
                let last = Some(&last);
                let filling = Filling { explanation, model, usable, items: &[], newest: String::new(), last };
                let page = anstream::adapter::strip_str(&filling.page(screen)).to_string();
                assert!(page.contains("Not in it"), "{page}");
                for line in page.lines() {
                    assert!(width(line) <= columns, "{columns}: {line}\n{page}");
                }
            }
        }
    }
}
