//! Cuts a document into chunks: sections of Markdown, paragraphs and sentences of text, blocks of code, by
//! `text-splitter`. Chunks do not overlap: neighbours are known, and a search can add them.

mod headings;
mod sizes;

use std::ops::Range;

use contexture_message::TokenCounter;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use text_splitter::{MarkdownSplitter, TextSplitter};

use crate::Media;
use headings::Section;
use sizes::TokenMap;

/// Longer texts are cut first: splitting takes more than linear time.
const MAX_BLOCK_BYTES: usize = 128 * 1024;
/// So are longer lines, in which sentences and words are looked for again and again.
const MAX_LINE_BYTES: usize = 16 * 1024;

/// How documents are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct ChunkConfig {
    /// The size of a chunk, in tokens: what a chunk has at most.
    pub tokens: usize,
}

impl Default for ChunkConfig {
    fn default() -> Self {
        Self { tokens: 400 }
    }
}

/// A chunk of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// The text, without white space around it.
    pub text: &'a str,
    /// The headings above it, outermost first.
    pub headings: Vec<String>,
    /// The number of its section.
    pub section: u32,
    /// Where it is in the text, in bytes.
    pub bytes: Range<usize>,
    /// Where it is in the text, in characters.
    pub chars: Range<usize>,
}

/// Cuts texts into chunks. It remembers the sizes of words, so one chunker should serve many texts.
pub struct Chunker<'a> {
    config: ChunkConfig,
    sizes: TokenMap<'a>,
}

impl std::fmt::Debug for Chunker<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chunker").field("config", &self.config).finish_non_exhaustive()
    }
}

impl<'a> Chunker<'a> {
    /// Returns a chunker that measures in the tokens of a counter.
    pub fn new(config: ChunkConfig, counter: &'a dyn TokenCounter) -> Self {
        Self { config: ChunkConfig { tokens: config.tokens.max(16) }, sizes: TokenMap::new(counter) }
    }

    /// Cuts a text.
    ///
    /// ```
    /// use contexture_knowledge::chunk::{ChunkConfig, Chunker};
    /// use contexture_knowledge::Media;
    ///
    /// let counter = contexture_message::counter_for(None);
    /// let mut chunker = Chunker::new(ChunkConfig { tokens: 16 }, &*counter);
    /// let refunds = "# Refunds\n\nWithin 30 days of the purchase you get all of it back.";
    /// let text = format!("{refunds}\n\n## Exceptions\n\nGift cards and opened software can't be given back.");
    /// let chunks = chunker.chunks(&Media::Markdown, &text);
    /// assert_eq!(chunks.last().unwrap().headings, ["Refunds", "Exceptions"]);
    /// ```
    pub fn chunks<'t>(&mut self, media: &Media, text: &'t str) -> Vec<Chunk<'t>> {
        let sections = match media {
            Media::Markdown | Media::Html => headings::sections(text),
            Media::Text | Media::Code { .. } | Media::JsonLines => vec![Section::default()],
        };
        let mut chunks = Vec::new();
        let mut place = Place { text, byte: 0, char: 0 };
        let mut section = 0;
        for block in blocks(text) {
            for (offset, part) in self.split(media, &text[block.clone()]) {
                let start = block.start + offset;
                while sections.get(section + 1).is_some_and(|it| it.start <= start) {
                    section += 1;
                }
                let headings = sections.get(section).map(|it| it.headings.clone()).unwrap_or_default();
                let bytes = start..start + part.len();
                let chars = place.char_at(bytes.start)..place.char_at(bytes.end);
                let section = u32::try_from(section).unwrap_or(u32::MAX);
                chunks.push(Chunk { text: part, headings, section, bytes, chars });
            }
        }
        chunks
    }

    fn split<'t>(&mut self, media: &Media, text: &'t str) -> Vec<(usize, &'t str)> {
        let sizer = self.sizes.measure(text);
        let config = text_splitter::ChunkConfig::new(self.config.tokens).with_sizer(&sizer);
        match media {
            Media::Markdown | Media::Html => MarkdownSplitter::new(config).chunk_indices(text).collect(),
            Media::Text | Media::Code { .. } | Media::JsonLines => {
                TextSplitter::new(config).chunk_indices(text).collect()
            }
        }
    }
}

/// Counts characters from one position to the next.
struct Place<'a> {
    text: &'a str,
    byte: usize,
    char: usize,
}

impl Place<'_> {
    fn char_at(&mut self, byte: usize) -> usize {
        self.char += self.text.get(self.byte..byte).map_or(0, |it| it.chars().count());
        self.byte = byte;
        self.char
    }
}

/// Cuts a text into blocks that are split by themselves: lines that are too long in pieces, and what lies between them
/// where it is too long.
fn blocks(text: &str) -> Vec<Range<usize>> {
    let mut blocks = Vec::new();
    let (mut start, mut at) = (0, 0);
    for line in text.split_inclusive('\n') {
        let end = at + line.len();
        if line.len() > MAX_LINE_BYTES {
            cut(text, start..at, MAX_BLOCK_BYTES, &mut blocks);
            cut(text, at..end, MAX_LINE_BYTES, &mut blocks);
            start = end;
        }
        at = end;
    }
    cut(text, start..at, MAX_BLOCK_BYTES, &mut blocks);
    blocks
}

/// Cuts a part of a text: before a heading or after a paragraph, a line or a word if possible.
fn cut(text: &str, part: Range<usize>, max: usize, blocks: &mut Vec<Range<usize>>) {
    let Range { mut start, end } = part;
    while end - start > max {
        let window = &text[start..text.floor_char_boundary(start + max)];
        // The second half only, so that blocks do not become small.
        let from = window.floor_char_boundary(window.len() / 2);
        let after = |mark: &str, kept: usize| window[from..].rfind(mark).map(|it| from + it + kept);
        let length = after("\n# ", 1)
            .or_else(|| after("\n\n", 2))
            .or_else(|| after("\n", 1))
            .or_else(|| after(" ", 1))
            .unwrap_or(window.len());
        blocks.push(start..start + length);
        start += length;
    }
    if start < end {
        blocks.push(start..end);
    }
}
