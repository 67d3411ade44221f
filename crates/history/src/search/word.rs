//! Splits text into words for an index. The rules:
//!
//! 1. A word is a run of letters and digits; everything else separates words.
//! 2. Case is ignored, and so are diacritics on Latin letters (`É`, `é` and `e` are the same), composed or not.
//!    Letters of other scripts are not changed.
//! 3. Scripts without spaces between words (Chinese, Japanese, Korean, Thai, …) are indexed by single characters and
//!    by pairs. A query of two or more characters searches for the pairs.
//! 4. A word is cut after [`MAX_CHARS`] characters. Only the first [`MAX_BYTES`] of distinct words in a text are
//!    indexed.

use std::collections::BTreeSet;

/// The maximum number of words in a query; further words are ignored.
pub const MAX_QUERY_WORDS: usize = 32;
/// The maximum length of a word; longer words are cut.
const MAX_CHARS: usize = 64;
/// The maximum total bytes of the distinct words of one text: half of what PostgreSQL accepts.
const MAX_BYTES: usize = 512 * 1024;

/// Returns the distinct words under which a text is indexed.
///
/// ```
/// let words: Vec<String> = contexture_history::search::words("Résumé of ORDER-17, 東京").into_iter().collect();
/// assert_eq!(words, ["17", "of", "order", "resume", "京", "東", "東京"]);
/// ```
pub fn words(text: &str) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    let mut bytes = 0;
    each_word(text, Side::Text, |_, word| {
        if !words.contains(word) {
            bytes += word.len();
            if bytes > MAX_BYTES {
                return false;
            }
            words.insert(word.to_owned());
        }
        true
    });
    words
}

/// Returns the distinct words of a query in order, at most [`MAX_QUERY_WORDS`].
///
/// ```
/// use contexture_history::search::query_words;
///
/// assert_eq!(query_words("NEAR(\"Port\" -port*)"), ["near", "port"]);
/// assert_eq!(query_words("東京都"), ["東京", "京都"]);
/// assert!(query_words("\" * ) :").is_empty());
/// ```
pub fn query_words(query: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    each_word(query, Side::Query, |_, word| {
        if !words.iter().any(|it| it == word) {
            words.push(word.to_owned());
        }
        words.len() < MAX_QUERY_WORDS
    });
    words
}

/// Whether a text is indexed or is a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The text is indexed.
    Text,
    /// The text is a query.
    Query,
}

/// Calls `take` with each word and the index of its first character, until `take` returns `false`. Words come in the
/// order of the text, and as often as they occur.
///
/// ```
/// use contexture_history::search::{Side, each_word};
///
/// let mut words = Vec::new();
/// each_word("Port 80, PORT 81", Side::Text, |_, word| {
///     words.push(word.to_owned());
///     true
/// });
/// assert_eq!(words, ["port", "80", "port", "81"]);
/// ```
pub fn each_word(text: &str, side: Side, mut take: impl FnMut(usize, &str) -> bool) {
    let mut reader = Reader { side, ..Reader::new() };
    for (at, character) in text.chars().enumerate() {
        if !reader.read(at, character, &mut take) {
            return;
        }
    }
    reader.end(&mut take);
}

/// The word being read, and the character before it in a script without spaces.
struct Reader {
    side: Side,
    start: usize,
    word: String,
    chars: usize,
    /// The last character of a script without spaces, and whether it is already part of a pair.
    before: Option<(char, bool)>,
}

impl Reader {
    fn new() -> Self {
        Reader { side: Side::Text, start: 0, word: String::new(), chars: 0, before: None }
    }

    fn read(&mut self, at: usize, character: char, take: &mut impl FnMut(usize, &str) -> bool) -> bool {
        // Most letters: nothing about them depends on tables.
        if character.is_ascii_alphanumeric() && self.before.is_none() {
            if self.word.is_empty() {
                self.start = at;
            }
            self.chars += 1;
            if self.chars <= MAX_CHARS {
                self.word.push(character.to_ascii_lowercase());
            }
            return true;
        }
        if is_mark(character) {
            return true; // It belongs to the letter before it.
        }
        if !character.is_alphanumeric() {
            return self.end(take);
        }
        if is_unspaced(character) {
            return self.end_word(take) && self.unspaced(at, character, take);
        }
        if !self.end_run(take) {
            return false;
        }
        if self.word.is_empty() {
            self.start = at;
        }
        self.chars += 1;
        if self.chars <= MAX_CHARS {
            let folded = character.to_lowercase().filter(|it| !is_mark(*it)).map(without_diacritics);
            self.word.extend(folded);
        }
        true
    }

    /// Ends the current word or run.
    fn end(&mut self, take: &mut impl FnMut(usize, &str) -> bool) -> bool {
        self.end_word(take) && self.end_run(take)
    }

    fn end_word(&mut self, take: &mut impl FnMut(usize, &str) -> bool) -> bool {
        if self.word.is_empty() {
            return true;
        }
        let goes_on = take(self.start, &self.word);
        self.word.clear();
        self.chars = 0;
        goes_on
    }

    /// Ends a run of a script without spaces. A single character in a query is searched for by itself.
    fn end_run(&mut self, take: &mut impl FnMut(usize, &str) -> bool) -> bool {
        match self.before.take() {
            Some((alone, false)) if self.side == Side::Query => {
                take(self.start, alone.encode_utf8(&mut [0; 4]))
            }
            _ => true,
        }
    }

    fn unspaced(&mut self, at: usize, character: char, take: &mut impl FnMut(usize, &str) -> bool) -> bool {
        let before = self.before.replace((character, self.before.is_some()));
        self.start = at;
        if self.side == Side::Text && !take(at, character.encode_utf8(&mut [0; 4])) {
            return false;
        }
        let pair = before.map(|(it, _)| String::from_iter([it, character]));
        pair.is_none_or(|it| take(at.saturating_sub(1), &it))
    }
}

fn is_mark(character: char) -> bool {
    matches!(character, '\u{300}'..='\u{36f}')
}

/// Whether a character belongs to a script with few or no spaces between words.
fn is_unspaced(character: char) -> bool {
    matches!(character,
        '\u{e00}'..='\u{eff}' // Thai, Lao.
        | '\u{1000}'..='\u{109f}' // Burmese.
        | '\u{1780}'..='\u{17ff}' // Khmer.
        | '\u{3005}'..='\u{3007}'
        | '\u{3040}'..='\u{30ff}' // Hiragana, Katakana.
        | '\u{31f0}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7a3}' // Hangul.
        | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}')
}

/// Returns a lowercase Latin letter without its diacritics.
fn without_diacritics(letter: char) -> char {
    match letter {
        ..'\u{e0}' => letter,
        'à'..='å' | 'ā' | 'ă' | 'ą' | 'ǎ' => 'a',
        'ç' | 'ć' | 'ĉ' | 'ċ' | 'č' => 'c',
        'ď' | 'đ' => 'd',
        'è'..='ë' | 'ē' | 'ĕ' | 'ė' | 'ę' | 'ě' => 'e',
        'ĝ' | 'ğ' | 'ġ' | 'ģ' => 'g',
        'ĥ' | 'ħ' => 'h',
        'ì'..='ï' | 'ĩ' | 'ī' | 'ĭ' | 'į' | 'ı' | 'ǐ' => 'i',
        'ĵ' => 'j',
        'ķ' => 'k',
        'ĺ' | 'ļ' | 'ľ' | 'ŀ' | 'ł' => 'l',
        'ñ' | 'ń' | 'ņ' | 'ň' => 'n',
        'ò'..='ö' | 'ø' | 'ō' | 'ŏ' | 'ő' | 'ơ' | 'ǒ' => 'o',
        'ŕ' | 'ŗ' | 'ř' => 'r',
        'ś' | 'ŝ' | 'ş' | 'š' | 'ș' => 's',
        'ţ' | 'ť' | 'ŧ' | 'ț' => 't',
        'ù'..='ü' | 'ũ' | 'ū' | 'ŭ' | 'ů' | 'ű' | 'ų' | 'ư' | 'ǔ' => 'u',
        'ŵ' => 'w',
        'ý' | 'ÿ' | 'ŷ' => 'y',
        'ź' | 'ż' | 'ž' => 'z',
        'ạ' | 'ả' | 'ấ' | 'ầ' | 'ẩ' | 'ẫ' | 'ậ' | 'ắ' | 'ằ' | 'ẳ' | 'ẵ' | 'ặ' => 'a',
        'ẹ' | 'ẻ' | 'ẽ' | 'ế' | 'ề' | 'ể' | 'ễ' | 'ệ' => 'e',
        'ỉ' | 'ị' => 'i',
        'ọ' | 'ỏ' | 'ố' | 'ồ' | 'ổ' | 'ỗ' | 'ộ' | 'ớ' | 'ờ' | 'ở' | 'ỡ' | 'ợ' => 'o',
        'ụ' | 'ủ' | 'ứ' | 'ừ' | 'ử' | 'ữ' | 'ự' => 'u',
        'ỳ' | 'ỵ' | 'ỷ' | 'ỹ' => 'y',
        other => other,
    }
}
