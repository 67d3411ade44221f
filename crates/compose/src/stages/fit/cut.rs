//! Cuts a text at a line or a sentence.

use std::sync::Arc;

use contexture_message::{TokenCounter, Tokens};

use crate::segment::SharedText;

/// The marker that replaces the text that was cut off.
const MARKER: &str = include_str!("../../templates/shortened.txt");

/// Returns the longest prefix of `text` that, with a marker, takes at most `limit` tokens: whole lines if possible,
/// else whole sentences, else whole words. Returns `None` if not even that fits.
pub(crate) fn cut(text: &str, limit: Tokens, counter: &Arc<dyn TokenCounter>) -> Option<SharedText> {
    let cuts = [lines(text), sentences(text), words(text)];
    cuts.into_iter().find_map(|ends| longest(text, &ends, limit, counter))
}

fn longest(text: &str, ends: &[usize], limit: Tokens, counter: &Arc<dyn TokenCounter>) -> Option<SharedText> {
    let form = |end: usize| format!("{}\n{MARKER}", text[..end].trim_end());
    // A longer text never has fewer tokens, so the ends that fit come first.
    let n_fitting = ends.partition_point(|&end| counter.count(&form(end)) <= limit);
    let end = *ends.get(n_fitting.checked_sub(1)?)?;
    Some(SharedText::composed(&form(end)))
}

fn lines(text: &str) -> Vec<usize> {
    ends_at(text, '\n')
}

fn sentences(text: &str) -> Vec<usize> {
    let ends = text.char_indices().filter(|(_, c)| matches!(c, '.' | '!' | '?' | '。' | '！' | '？'));
    ends.map(|(at, c)| at + c.len_utf8())
        .filter(|&end| text[end..].chars().next().is_none_or(|c| c.is_whitespace() || !c.is_ascii()))
        .collect()
}

fn words(text: &str) -> Vec<usize> {
    ends_at(text, ' ')
}

/// Lists the positions of a separator that have visible text before them.
fn ends_at(text: &str, separator: char) -> Vec<usize> {
    let first = text.find(|it: char| !it.is_whitespace()).unwrap_or(text.len());
    text.match_indices(separator).map(|(at, _)| at).filter(|&at| at > first).collect()
}
