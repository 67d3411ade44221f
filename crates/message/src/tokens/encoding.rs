//! Counters that return the provider's exact count.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;

use tiktoken::CoreBpe;

use super::cut::{next_cut, pieces, previous_cut};
use super::scripts::{self, Pattern, Ranks};
use super::{CounterProfile, Framing, TokenCounter, Tokens};

/// A published encoding. Its counts are exact for a text.
///
/// Names of special tokens, such as `<|endoftext|>`, count as plain text, as they do in a message.
///
/// ```
/// use contexture_message::tokens::{Encoding, TokenCounter, Tokens};
///
/// assert_eq!(Encoding::O200kBase.count("The quick brown fox."), Tokens(5));
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Encoding {
    /// GPT-4o, GPT-4.1, GPT-5 and OpenAI's reasoning models.
    O200kBase,
    /// GPT-4, GPT-3.5 and OpenAI's embedding models.
    Cl100kBase,
    /// Llama 3.
    Llama3,
}

/// Short enough to stay in the processor's cache, long enough that cutting costs nothing.
const PIECE: usize = 8 * 1024;

/// Building our own vocabulary takes some ten milliseconds, so a few foreign words are left to the library.
const FEW: usize = 8;

impl Encoding {
    /// Returns the encoding's published name.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::O200kBase => "o200k_base",
            Encoding::Cl100kBase => "cl100k_base",
            Encoding::Llama3 => "llama3",
        }
    }

    fn framing(self) -> Framing {
        match self {
            // OpenAI's cookbook ("How to count tokens with tiktoken") has three tokens around a message and three to
            // begin the answer, and 7 or 10 for a function besides its texts, depending on the model. 765 is an image
            // of 1024 × 1024 pixels in high detail: 85 + 4 × 170.
            Encoding::O200kBase | Encoding::Cl100kBase => {
                Framing { request: 3, message: 3, tool: 8, image: 765 }
            }
            // `<|start_header_id|>role<|end_header_id|>\n\n…<|eot_id|>` is five tokens, and `<|begin_of_text|>` with
            // the header of the answer five more; an image of Llama 3.2 is 1,601 patches of one tile.
            Encoding::Llama3 => Framing { request: 5, message: 5, tool: 8, image: 1601 },
        }
    }

    fn library(self) -> Option<&'static CoreBpe> {
        tiktoken::get_encoding(self.name())
    }

    fn pattern(self) -> Pattern {
        match self {
            Encoding::O200kBase => Pattern::O200k,
            Encoding::Cl100kBase | Encoding::Llama3 => Pattern::Cl100k,
        }
    }

    /// A copy of the vocabulary, for words that the library counts slowly.
    fn ranks(self) -> &'static OnceLock<Ranks> {
        static O200K_BASE: OnceLock<Ranks> = OnceLock::new();
        static CL100K_BASE: OnceLock<Ranks> = OnceLock::new();
        static LLAMA3: OnceLock<Ranks> = OnceLock::new();
        match self {
            Encoding::O200kBase => &O200K_BASE,
            Encoding::Cl100kBase => &CL100K_BASE,
            Encoding::Llama3 => &LLAMA3,
        }
    }

    /// Counts a piece made by [`pieces`]. Both ways of counting give the same number,
    /// so the choice affects only the speed.
    pub(super) fn count_piece(self, piece: &str) -> u64 {
        let Some(library) = self.library() else {
            // Without the compiled-in vocabulary, over-count: no token is shorter than a byte.
            return piece.len() as u64;
        };
        if piece.is_ascii() {
            return library.count(piece) as u64;
        }
        let ranks = self.ranks();
        // In `it'ſ` the library does not take the long s for an s, but the case-insensitive pattern does.
        let few = |n_parts: usize| n_parts == 0 || (n_parts < FEW && !piece.contains("'\u{17F}"));
        if ranks.get().is_none() && few(foreign(piece).take(FEW).count()) {
            return library.count(piece) as u64;
        }
        let (mut at, mut count) = (0, 0);
        for part in foreign(piece) {
            count += library.count(&piece[at..part.start]);
            let ranks = ranks.get_or_init(|| Ranks::of(library));
            count += ranks.count(self.pattern(), &piece[part.clone()]);
            at = part.end;
        }
        (count + library.count(&piece[at..])) as u64
    }
}

/// Returns the ranges of a piece, between safe cuts, that the library would leave to its pattern engine.
fn foreign(piece: &str) -> impl Iterator<Item = Range<usize>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let rest = &piece[from..];
        let at = scripts::find(rest)?;
        let start = previous_cut(rest, at).unwrap_or(0);
        // Slightly more than the word: the next one is probably of the same script.
        let end = next_cut(rest, at + 48).unwrap_or(rest.len());
        let part = from + start..from + end;
        from = part.end;
        Some(part)
    })
}

impl TokenCounter for Encoding {
    fn count(&self, text: &str) -> Tokens {
        let count: u64 = pieces(text, PIECE).map(|it| self.count_piece(it)).sum();
        Tokens(u32::try_from(count).unwrap_or(u32::MAX))
    }

    fn profile(&self) -> CounterProfile {
        CounterProfile { name: Cow::Borrowed(self.name()), exact: true, framing: self.framing() }
    }
}
