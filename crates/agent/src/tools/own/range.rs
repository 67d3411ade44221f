//! A range of a text, no larger than what a request shows in full.

use contexture_message::{TokenCounter, Tokens};

use crate::compaction::CompactionConfig;
use crate::text::fill;

/// How much a tool may return without being shown as a preview itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    tokens: Tokens,
    bytes: usize,
}

/// What the template around a text costs.
const FRAME_TOKENS: u32 = 100;
const FRAME_BYTES: usize = 600;
/// The minimum size of a range, however little room there is.
const SMALLEST_RANGE: Tokens = Tokens(100);

impl Room {
    pub(super) fn of(config: &CompactionConfig, max_bytes: usize) -> Self {
        let results = config.results(None);
        let tokens = results.max_tokens_per_recent_tool_result.max(results.preview_tokens);
        // The thread and the request may count tokens differently: an estimate can be higher by a third.
        let tokens = Tokens(tokens.0 / 3 * 2);
        Self {
            tokens: tokens.saturating_sub(Tokens(FRAME_TOKENS)),
            bytes: max_bytes.saturating_sub(FRAME_BYTES),
        }
    }

    /// Returns this room, reduced to what a result may have for a model with a small window.
    pub(super) fn within(self, result_tokens: Tokens) -> Self {
        let tokens = Tokens(result_tokens.0 / 3 * 2).saturating_sub(Tokens(FRAME_TOKENS));
        Self { tokens: self.tokens.min(tokens.max(SMALLEST_RANGE)), ..self }
    }

    /// Whether a text fits.
    pub(super) fn fits(&self, text: &str, counter: &dyn TokenCounter) -> bool {
        text.len() <= self.bytes && counter.count(text) <= self.tokens
    }

    /// Returns the beginning of a text that fits: at least one character, so that the reader makes progress.
    fn cut<'a>(&self, text: &'a str, counter: &dyn TokenCounter) -> &'a str {
        let mut cut = &text[..text.floor_char_boundary(self.bytes)];
        loop {
            let tokens = counter.count(cut);
            if tokens <= self.tokens {
                break;
            }
            let fits = cut.len() as u64 * u64::from(self.tokens.0) / u64::from(tokens.0.max(1));
            let fits = usize::try_from(fits).unwrap_or(0).min(cut.len().saturating_sub(1));
            cut = &cut[..cut.floor_char_boundary(fits)];
        }
        match cut.is_empty() {
            true => text.chars().next().map_or("", |it| &text[..it.len_utf8()]),
            false => cut,
        }
    }
}

/// A range of a text. Positions are in characters.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Range<'a> {
    pub(super) text: &'a str,
    pub(super) offset: usize,
    pub(super) end: usize,
    pub(super) total: usize,
}

impl<'a> Range<'a> {
    /// Returns the range of `text` that starts at `offset`: `limit` characters, or fewer if they do not fit.
    pub(super) fn of(
        text: &'a str,
        offset: usize,
        limit: usize,
        room: &Room,
        counter: &dyn TokenCounter,
    ) -> Self {
        let from = byte_at(text, offset);
        let until = from + byte_at(&text[from..], limit);
        let part = room.cut(&text[from..until], counter);
        let total = text.chars().count();
        let offset = offset.min(total);
        Self { text: part, offset, end: offset + part.chars().count(), total }
    }

    /// Renders the range with its position and its source.
    pub(super) fn render(&self, what: &str) -> String {
        let next = if self.end < self.total { self.end.to_string() } else { "none".to_owned() };
        let values = [
            ("offset", self.offset.to_string()),
            ("end", self.end.to_string()),
            ("total", self.total.to_string()),
            ("what", what.to_owned()),
            ("next", next),
            ("text", self.text.to_owned()),
        ];
        fill(include_str!("templates/range.txt"), &values.each_ref().map(|(key, it)| (*key, it.as_str())))
    }
}

/// Returns the byte position of a character, or the end if the text is shorter.
pub(super) fn byte_at(text: &str, n_chars: usize) -> usize {
    let mut chars = text.chars();
    if n_chars > 0 {
        chars.nth(n_chars - 1);
    }
    text.len() - chars.as_str().len()
}

#[cfg(test)]
mod tests {
    use contexture_message::{Encoding, Tokens};
    use proptest::prelude::*;

    use super::{Range, Room};

    const ROOM: Room = Room { tokens: Tokens(40), bytes: 100 };

    fn read(text: &str, limit: usize, room: &Room, counter: &dyn contexture_message::TokenCounter) -> String {
        let (mut all, mut offset) = (String::new(), 0);
        loop {
            let range = Range::of(text, offset, limit, room, counter);
            assert!(room.fits(range.text, counter) || range.text.chars().count() == 1);
            all.push_str(range.text);
            if range.end == range.total {
                return all;
            }
            assert!(range.end > offset, "it gets on");
            offset = range.end;
        }
    }

    proptest! {
        #[test]
        fn ranges_join_to_the_text(text in "(\\PC|[äあ🦀\n]){0,300}", limit in 1_usize..200) {
            prop_assert_eq!(read(&text, limit, &ROOM, &Encoding::O200kBase), text);
        }
    }

    #[test]
    fn fifty_megabytes_are_read_to_the_end() {
        let text = "0123456789 ä あ 🦀\n".repeat(2_300_000);
        assert!(text.len() > 50_000_000);
        let room = Room { tokens: Tokens(u32::MAX), bytes: 30_000_001 };
        let counter = |_: &str| Tokens(1);
        assert!(read(&text, 30_000_000, &room, &counter) == text);
    }

    #[test]
    fn beyond_the_end_there_is_nothing() {
        let range = Range::of("äb", 7, 5, &ROOM, &Encoding::O200kBase);
        assert_eq!(range, Range { text: "", offset: 2, end: 2, total: 2 });
    }
}
