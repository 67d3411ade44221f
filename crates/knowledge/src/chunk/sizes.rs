//! The number of tokens in parts of a text.
//!
//! A splitter asks for the sizes of hundreds of overlapping parts. Tokens do not reach over white space, so the text is
//! counted once, word by word, and a part is the difference of two sums. Words are remembered: most of a text consists
//! of few of them.

use std::collections::HashMap;

use contexture_message::TokenCounter;
use text_splitter::ChunkSizer;

/// So many words are remembered, up to so many bytes each.
const MAX_WORDS: usize = 100_000;
const MAX_WORD_BYTES: usize = 32;
/// Longer words are counted in pieces, which costs a token here and there: tokenizers are slow on words without end.
const PIECE_BYTES: usize = 256;

/// The sizes of words.
pub(super) struct TokenMap<'a> {
    counter: &'a dyn TokenCounter,
    words: HashMap<Box<str>, u32>,
}

impl<'a> TokenMap<'a> {
    pub(super) fn new(counter: &'a dyn TokenCounter) -> Self {
        Self { counter, words: HashMap::new() }
    }

    /// Counts a text word by word.
    pub(super) fn measure(&mut self, text: &str) -> Measured {
        let mut sums = Vec::with_capacity(text.len() / 5 + 2);
        let (mut start, mut sum) = (0, 0_u32);
        sums.push((0, 0));
        let mut was_space = true;
        for (at, character) in text.char_indices() {
            let is_space = character.is_whitespace();
            // A word goes with the white space before it, as tokens do.
            if (is_space && !was_space) || at - start >= PIECE_BYTES {
                sum = sum.saturating_add(self.size(&text[start..at]));
                sums.push((at, sum));
                start = at;
            }
            was_space = is_space;
        }
        sum = sum.saturating_add(self.size(&text[start..]));
        sums.push((text.len(), sum));
        Measured { start: text.as_ptr().addr(), sums }
    }

    fn size(&mut self, word: &str) -> u32 {
        if let Some(known) = self.words.get(word) {
            return *known;
        }
        let size = self.counter.count(word).0;
        if word.len() <= MAX_WORD_BYTES && self.words.len() < MAX_WORDS {
            self.words.insert(word.into(), size);
        }
        size
    }
}

/// The sizes of the parts of one text.
pub(super) struct Measured {
    /// The address of the text: a part is told by its own.
    start: usize,
    /// The number of tokens up to the end of each word.
    sums: Vec<(usize, u32)>,
}

impl Measured {
    /// Returns the number of tokens before a position. Within a word it is a share of the word's.
    fn before(&self, at: usize) -> f64 {
        let next = self.sums.partition_point(|(end, _)| *end < at);
        let (end, sum) = self.sums.get(next).or(self.sums.last()).copied().unwrap_or_default();
        let (start, before) =
            next.checked_sub(1).and_then(|it| self.sums.get(it)).copied().unwrap_or_default();
        if end <= start || at >= end {
            return f64::from(sum);
        }
        let share = (at.saturating_sub(start)) as f64 / (end - start) as f64;
        f64::from(before) + share * f64::from(sum - before)
    }
}

impl ChunkSizer for Measured {
    fn size(&self, chunk: &str) -> usize {
        // Parts are slices of the text that was measured.
        let start = chunk.as_ptr().addr().saturating_sub(self.start);
        let size = self.before(start + chunk.len()) - self.before(start);
        size.ceil() as usize
    }
}
