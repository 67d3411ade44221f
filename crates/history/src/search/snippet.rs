//! The excerpt of a text in which words were found.

use std::collections::VecDeque;

use super::word::{Side, each_word};

/// Returns the excerpt of at most `max` characters with the most of the words; the first one in a tie. `words` are as
/// returned by [`query_words`](super::query_words). A `…` marks where the text was cut, and counts toward `max`.
///
/// ```
/// use contexture_history::search::{query_words, snippet};
///
/// let text = "The server listens at first. Later on its port is 8443, as said. Much more follows.";
/// assert_eq!(snippet(text, &query_words("port 8443"), 30), "…on its port is 8443, as said…");
/// assert_eq!(snippet("short", &query_words("other"), 30), "short");
/// ```
pub fn snippet(text: &str, words: &[String], max: usize) -> String {
    let length = text.chars().count();
    if length <= max {
        return text.to_owned();
    }
    // Some context before the hit, and room for a mark at each end.
    let room = max.saturating_sub(2);
    let lead = room / 4;
    let hit = best_hit(text, words, room - lead).unwrap_or(0);
    let start = hit.saturating_sub(lead).min(length.saturating_sub(room));
    let mut piece = String::new();
    piece.extend((start > 0 && max > 1).then_some('…'));
    piece.extend(text.chars().skip(start).take(room));
    piece.extend((start.saturating_add(room) < length && max > 0).then_some('…'));
    piece
}

/// Returns the index of the character at which the excerpt of `width` with the most different words begins.
fn best_hit(text: &str, words: &[String], width: usize) -> Option<usize> {
    let mut near: VecDeque<(usize, usize)> = VecDeque::new();
    let mut counts = vec![0_usize; words.len()];
    let (mut different, mut best) = (0, None);
    each_word(text, Side::Text, |at, word| {
        let Some(idx) = words.iter().position(|it| it == word) else { return true };
        while let Some((_, old)) =
            near.front().copied().filter(|(start, _)| start.saturating_add(width) <= at)
        {
            near.pop_front();
            counts[old] -= 1;
            different -= usize::from(counts[old] == 0);
        }
        near.push_back((at, idx));
        different += usize::from(counts[idx] == 0);
        counts[idx] += 1;
        if best.is_none_or(|(most, _)| different > most) {
            best = Some((different, near.front().map_or(at, |it| it.0)));
        }
        different < words.len()
    });
    best.map(|(_, at)| at)
}
