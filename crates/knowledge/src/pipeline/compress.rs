//! Shortens a text to the sentences that have most in common with a query. Nothing is reworded.

use std::collections::BTreeSet;

use contexture_message::TokenCounter;
use contexture_session::rank::{Analyzer, Language};

/// Marks where sentences were left out.
const GAP: &str = " […] ";

/// Returns the sentences with the most terms of the query that fit, in the order of the text. A text that fits stays
/// as it is; of one without any sentence that fits, the first one is kept.
pub(super) fn compress(text: &str, query: &str, tokens: u32, counter: &dyn TokenCounter) -> String {
    if counter.count(text).0 <= tokens {
        return text.to_owned();
    }
    let mut analyzer = Analyzer::new(Language::default());
    let terms = |analyzer: &mut Analyzer, text: &str| -> BTreeSet<String> {
        analyzer.query(text).into_iter().map(|it| it.term.to_string()).collect()
    };
    let asked = terms(&mut analyzer, query);
    let sentences = sentences(text);
    let mut ranked: Vec<(usize, usize)> = sentences
        .iter()
        .map(|it| terms(&mut analyzer, it).intersection(&asked).count())
        .enumerate()
        .collect();
    // A stable sort: in a tie the earlier sentence is kept.
    ranked.sort_by_key(|it| std::cmp::Reverse(it.1));
    let mut left = tokens;
    let mut kept = BTreeSet::new();
    for (idx, common) in ranked {
        // The mark of a gap costs something, too.
        let cost = counter.count(sentences[idx]).0.saturating_add(counter.count(GAP).0);
        if cost <= left && (common > 0 || kept.is_empty()) {
            left -= cost;
            kept.insert(idx);
        }
    }
    if kept.is_empty() {
        kept.insert(0);
    }
    joined(&sentences, &kept)
}

fn joined(sentences: &[&str], kept: &BTreeSet<usize>) -> String {
    let mut text = String::new();
    let mut before = None;
    for idx in kept {
        if before.is_some_and(|it| it + 1 < *idx) {
            text.push_str(GAP);
        } else if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(sentences[*idx].trim());
        before = Some(*idx);
    }
    text
}

/// Splits a text at line ends, and after `.`, `!` and `?` before white space.
fn sentences(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut start = 0;
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        let is_end = match character {
            '\n' | '。' | '！' | '？' => true,
            '.' | '!' | '?' => characters.peek().is_none_or(|(_, it)| it.is_whitespace()),
            _ => false,
        };
        if is_end {
            let end = at + character.len_utf8();
            sentences.push(text[start..end].trim());
            start = end;
        }
    }
    sentences.push(text[start..].trim());
    sentences.retain(|it| !it.is_empty());
    if sentences.is_empty() { vec![""] } else { sentences }
}
