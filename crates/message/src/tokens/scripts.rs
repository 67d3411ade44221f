//! Counts words of scripts that the library leaves to a pattern engine.
//!
//! The library finds the runs of a text (a word with the space before it, up to three digits, …) with its own code
//! for characters that it knows, and with a regular expression for others. That engine builds its automaton lazily
//! and discards it when it grows too large, which happens constantly in a text with letters of many scripts: it is a
//! thousand times slower than usual, on texts that anyone can send. Here the same patterns are written out over a
//! table of character classes, and the runs are merged with the library's own vocabulary.
//!
//! Merging follows byte pair encoding: of all adjacent pairs that form a token, the one with the
//! lowest rank is merged, the leftmost first, until none are left.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::OnceLock;

use regex_syntax::hir::{Class, HirKind};
use tiktoken::CoreBpe;

/// The tokens of one vocabulary, by their bytes.
pub(super) struct Ranks {
    ranks: HashMap<Vec<u8>, u32, BuildHasherDefault<ByteHasher>>,
    /// The tokens of two bytes again, because merging looks them up most.
    pairs: Vec<u32>,
    longest: usize,
}

/// The patterns by which our encodings split a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// Of `cl100k_base` and `llama3`:
    /// `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
    Cl100k,
    /// Of `o200k_base`, where `U` is `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]` and `L` is `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`:
    /// `[^\r\n\p{L}\p{N}]?U*L+(?i:'s|…)?|[^\r\n\p{L}\p{N}]?U+L*(?i:'s|…)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|` and the
    /// same white space.
    O200k,
}

/// The character classes that the patterns distinguish.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    /// `[^\s\p{L}\p{N}\p{M}]`
    #[default]
    Sign,
    /// `\s`
    Space,
    /// `\p{Lu}\p{Lt}`
    Upper,
    /// `\p{Ll}`
    Lower,
    /// `\p{Lm}\p{Lo}`
    Caseless,
    /// `\p{M}`
    Mark,
    /// `\p{N}`
    Number,
}

/// The rank of a byte string that is not a token.
const NONE: u32 = u32::MAX;
/// Up to this length, scanning all pairs for each merge is faster than keeping them sorted.
const SHORT: usize = 64;

/// Returns the position of the first character that the library leaves to its pattern engine.
pub(super) fn find(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut from = 0;
    for chunk in bytes.chunks(64) {
        let end = from + chunk.len();
        if !chunk.is_ascii() && may_be_foreign(&bytes[from..bytes.len().min(end + 1)]) {
            // A character may have begun in the previous chunk, which has been checked already.
            let start = (from..text.len()).find(|it| text.is_char_boundary(*it))?;
            let end = (end..=text.len()).find(|it| text.is_char_boundary(*it))?;
            let found = text[start..end].char_indices().find(|(_, it)| !is_known_to_library(*it));
            if let Some((at, _)) = found {
                return Some(start + at);
            }
        }
        from = end;
    }
    None
}

/// Whether single characters need checking: a fast test by their first two bytes only.
fn may_be_foreign(bytes: &[u8]) -> bool {
    let foreign = |first: u8, second: u8| {
        let by_first = (first.wrapping_sub(0xC2) <= 0xE2 - 0xC2) | (first == 0xEE) | (first >= 0xF0);
        // U+3100 to U+33FF, U+A000 to U+ABFF, U+D780 and up, and what is not full-width of U+F000 to U+FFFF.
        let by_second = ((first == 0xE3) & (second.wrapping_sub(0x84) < 0x90 - 0x84))
            | ((first == 0xEA) & (second < 0xB0))
            | ((first == 0xED) & (second >= 0x9E))
            | ((first == 0xEF) & (second.wrapping_sub(0xBC) > 0xBE - 0xBC));
        by_first | by_second
    };
    // No early exit, so that the loop can be vectorised.
    bytes.iter().zip(bytes.iter().skip(1)).fold(false, |any, (first, second)| any | foreign(*first, *second))
}

/// Whether the library knows the character: ASCII, and Chinese, Japanese and Korean letters and signs. A wrong answer
/// here would only cost speed.
fn is_known_to_library(it: char) -> bool {
    matches!(it, '\0'..='\x7F' | '—' | '‘'..='”' | '‥' | '…' | '\u{3000}'..='\u{3029}' | '\u{3041}'..='\u{3096}'
        | '\u{309D}'..='\u{30FF}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7A3}'
        | '\u{FF01}'..='\u{FF9F}')
}

impl Ranks {
    pub(super) fn of(library: &CoreBpe) -> Self {
        let size = u32::try_from(library.vocab_size()).unwrap_or(u32::MAX);
        let ranks = HashMap::with_capacity_and_hasher(library.vocab_size(), BuildHasherDefault::default());
        let mut this = Self { ranks, pairs: vec![NONE; 1 << 16], longest: 0 };
        for rank in 0..size {
            let bytes = library.decode(&[rank]);
            this.longest = this.longest.max(bytes.len());
            if let [first, second] = bytes[..] {
                this.pairs[pair(first, second)] = rank;
            }
            this.ranks.insert(bytes, rank);
        }
        this
    }

    /// Returns the number of tokens in `text`.
    pub(super) fn count(&self, pattern: Pattern, text: &str) -> usize {
        let mut rest = Rest(text);
        let mut count = 0;
        while !rest.0.is_empty() {
            let (run, tail) = rest.0.split_at(rest.run(pattern));
            count += self.count_run(run.as_bytes());
            rest = Rest(tail);
        }
        count
    }

    fn get(&self, bytes: &[u8]) -> u32 {
        match *bytes {
            [first, second] => self.pairs[pair(first, second)],
            _ if bytes.len() > self.longest => NONE,
            _ => self.ranks.get(bytes).copied().unwrap_or(NONE),
        }
    }

    fn count_run(&self, run: &[u8]) -> usize {
        match run.len() {
            1 => 1,
            _ if self.get(run) != NONE => 1,
            length if length <= SHORT => self.merge_short(run),
            _ => self.merge_long(run),
        }
    }

    /// Merges a short run: each step scans all pairs for the lowest rank.
    fn merge_short(&self, run: &[u8]) -> usize {
        // The start of each token, and the rank of the pair that it begins.
        let mut starts = [0_usize; SHORT + 1];
        let mut ranks = [NONE; SHORT + 1];
        for (start, it) in starts.iter_mut().enumerate() {
            *it = start;
        }
        for (rank, two) in ranks.iter_mut().zip(run.windows(2)) {
            *rank = self.pairs[pair(two[0], two[1])];
        }
        let mut count = run.len();
        loop {
            let mut lowest = (NONE, 0);
            for (at, &rank) in ranks[..count].iter().enumerate() {
                if rank < lowest.0 {
                    lowest = (rank, at);
                }
            }
            let (rank, at) = lowest;
            if rank == NONE {
                return count;
            }
            starts.copy_within(at + 2..=count, at + 1);
            ranks.copy_within(at + 2..=count, at + 1);
            count -= 1;
            let rank_at =
                |at: usize| if at + 2 <= count { self.get(&run[starts[at]..starts[at + 2]]) } else { NONE };
            ranks[at] = rank_at(at);
            if at > 0 {
                ranks[at - 1] = rank_at(at - 1);
            }
        }
    }

    /// Merges a long run: pairs are kept sorted by rank, so that the work is not quadratic in the length of the run.
    fn merge_long(&self, run: &[u8]) -> usize {
        // A token is identified by its start; `ends[start]` is zero once it was merged into the one before it.
        let mut ends: Vec<usize> = (1..=run.len()).collect();
        let mut before: Vec<usize> = (0..run.len()).map(|it| it.saturating_sub(1)).collect();
        let mut pairs: BinaryHeap<Reverse<(u32, usize, usize)>> = BinaryHeap::new();
        let pair_of = |start: usize, end: usize| {
            let rank = self.get(&run[start..end]);
            (rank != NONE).then_some(Reverse((rank, start, end)))
        };
        pairs.extend((2..=run.len()).filter_map(|end| pair_of(end - 2, end)));
        let mut count = run.len();
        while let Some(Reverse((_, start, end))) = pairs.pop() {
            let middle = ends[start];
            // A pair whose halves have changed since is stale.
            if middle == 0 || middle >= run.len() || ends[middle] != end {
                continue;
            }
            ends[start] = end;
            ends[middle] = 0;
            count -= 1;
            if end < run.len() {
                before[end] = start;
                pairs.extend(pair_of(start, ends[end]));
            }
            if start > 0 {
                pairs.extend(pair_of(before[start], end));
            }
        }
        count
    }
}

fn pair(first: u8, second: u8) -> usize {
    usize::from(first) << 8 | usize::from(second)
}

/// A fast hasher for short byte strings. The vocabulary is fixed, so collisions cannot be provoked.
#[derive(Default)]
struct ByteHasher(u64);

impl Hasher for ByteHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.write_u64(u64::from_le_bytes(*word));
        }
        // Two overlapping reads are faster than a copy of unknown length.
        match (rest.first_chunk::<4>(), rest.last_chunk::<4>()) {
            (Some(first), Some(last)) => {
                self.write_u64(
                    u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last)),
                );
            }
            _ => self.write_u64(rest.iter().fold(0, |word, it| word << 8 | u64::from(*it))),
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn write_usize(&mut self, length: usize) {
        self.write_u64(length as u64);
    }
}

/// The rest of a text. Positions are byte offsets from its start.
#[derive(Clone, Copy)]
struct Rest<'a>(&'a str);

impl Rest<'_> {
    /// Returns the length of the run at the start of a non-empty text.
    fn run(self, pattern: Pattern) -> usize {
        let word = match pattern {
            Pattern::Cl100k => self.contraction(0).or_else(|| self.led(|from| self.letters(from))),
            Pattern::O200k => self
                .led(|from| self.upper_lower(from))
                .or_else(|| self.led(|from| self.upper(from)))
                .map(|end| self.contraction(end).unwrap_or(end)),
        };
        word.or_else(|| self.digits()).or_else(|| self.signs(pattern)).unwrap_or_else(|| self.space())
    }

    fn at(self, from: usize) -> Option<(char, Kind)> {
        self.0.get(from..)?.chars().next().map(|it| (it, kind(it)))
    }

    /// Returns the end of the longest run of matching characters.
    fn while_at(self, from: usize, fits: impl Fn(char, Kind) -> bool) -> usize {
        let rest = self.0.get(from..).unwrap_or_default();
        rest.find(|it| !fits(it, kind(it))).map_or(self.0.len(), |length| from + length)
    }

    /// `[^\r\n\p{L}\p{N}]?` and then a word: with the optional character first, as a greedy `?` does.
    fn led(self, word: impl Fn(usize) -> Option<usize>) -> Option<usize> {
        let (first, kind) = self.at(0)?;
        let leads = matches!(kind, Kind::Sign | Kind::Space | Kind::Mark) && !is_newline(first);
        leads.then(|| word(first.len_utf8())).flatten().or_else(|| word(0))
    }

    /// `\p{L}+`
    fn letters(self, from: usize) -> Option<usize> {
        let end = self.while_at(from, |_, it| matches!(it, Kind::Upper | Kind::Lower | Kind::Caseless));
        (end > from).then_some(end)
    }

    /// `U*L+`
    fn upper_lower(self, from: usize) -> Option<usize> {
        let upper = self.while_at(from, |_, it| is_upper(it));
        let lower = self.while_at(upper, |_, it| is_lower(it));
        if lower > upper {
            return Some(lower);
        }
        // `U*` backtracks until `L+` matches: the run ends after the last character that is in both.
        let run = &self.0[from..upper];
        let (last, it) = run.char_indices().rev().find(|(_, it)| is_lower(kind(*it)))?;
        Some(from + last + it.len_utf8())
    }

    /// `U+L*`, after `U*L+` did not match: no character of `L` follows.
    fn upper(self, from: usize) -> Option<usize> {
        let end = self.while_at(from, |_, it| is_upper(it));
        (end > from).then_some(end)
    }

    /// `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
    fn contraction(self, from: usize) -> Option<usize> {
        let mut rest = self.0.get(from..)?.strip_prefix('\'')?.chars();
        let (first, second) = (rest.next()?, rest.next());
        let is = |it: Option<char>, letter: char| it.is_some_and(|it| it.eq_ignore_ascii_case(&letter));
        match first.to_ascii_lowercase() {
            's' | 't' | 'm' | 'd' => Some(from + 2),
            // The long s matches an s, regardless of case.
            '\u{17F}' => Some(from + 3),
            'r' | 'v' if is(second, 'e') => Some(from + 3),
            'l' if is(second, 'l') => Some(from + 3),
            _ => None,
        }
    }

    /// `\p{N}{1,3}`
    fn digits(self) -> Option<usize> {
        let mut end = 0;
        for it in self.0.chars().take(3).take_while(|it| kind(*it) == Kind::Number) {
            end += it.len_utf8();
        }
        (end > 0).then_some(end)
    }

    /// ` ?[^\s\p{L}\p{N}]+` and the newlines, or slashes, after it.
    fn signs(self, pattern: Pattern) -> Option<usize> {
        let from = usize::from(self.0.starts_with(' '));
        let end = self.while_at(from, |_, it| matches!(it, Kind::Sign | Kind::Mark));
        let slash = pattern == Pattern::O200k;
        (end > from).then(|| self.while_at(end, |it, _| is_newline(it) || (slash && it == '/')))
    }

    /// `\s*[\r\n]+|\s+(?!\S)|\s+`
    fn space(self) -> usize {
        let end = self.while_at(0, |_, it| it == Kind::Space);
        let run = &self.0[..end];
        if let Some(newline) = run.rfind(is_newline) {
            return newline + 1;
        }
        match run.char_indices().next_back() {
            // The last space belongs to the word after it, unless it is the only one.
            Some((last, _)) if end < self.0.len() && last > 0 => last,
            _ => end,
        }
    }
}

fn is_newline(it: char) -> bool {
    matches!(it, '\r' | '\n')
}

/// `U`
fn is_upper(it: Kind) -> bool {
    matches!(it, Kind::Upper | Kind::Caseless | Kind::Mark)
}

/// `L`
fn is_lower(it: Kind) -> bool {
    matches!(it, Kind::Lower | Kind::Caseless | Kind::Mark)
}

/// Returns the class of a character, by the tables that the library's patterns use.
fn kind(it: char) -> Kind {
    static KINDS: OnceLock<Vec<Kind>> = OnceLock::new();
    KINDS.get_or_init(kinds).get(it as usize).copied().unwrap_or_default()
}

fn kinds() -> Vec<Kind> {
    let classes = [
        (r"\s", Kind::Space),
        (r"[\p{Lu}\p{Lt}]", Kind::Upper),
        (r"\p{Ll}", Kind::Lower),
        (r"[\p{Lm}\p{Lo}]", Kind::Caseless),
        (r"\p{M}", Kind::Mark),
        (r"\p{N}", Kind::Number),
    ];
    let mut kinds = vec![Kind::Sign; 0x11_0000];
    for (pattern, kind) in classes {
        // The patterns are constants, so each is a class; the tests compare every character's runs.
        let Ok(hir) = regex_syntax::parse(pattern) else { continue };
        let HirKind::Class(Class::Unicode(class)) = hir.kind() else { continue };
        for range in class.ranges() {
            kinds[range.start() as usize..=range.end() as usize].fill(kind);
        }
    }
    kinds
}
