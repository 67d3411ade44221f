//! Finds the names used in a conversation: paths, addresses, identifiers, quoted names.
//!
//! The rules: a word, without the punctuation around it, is an artifact if it is
//!
//! * an address: `scheme://…`;
//! * a path: it begins with `/`, `./`, `../` or `~/`, or with a drive letter, or it contains a `/` and its last
//!   segment has an extension; or it is a bare file name with a well-known extension;
//! * an identifier: a UUID, `ORDER-123`, `#42`.
//!
//! A text in double quotes or backticks is an artifact if it is short: at most 60 characters and six words, on one
//! line.

const ENDINGS: &[&str] = &[
    "rs", "py", "js", "ts", "tsx", "jsx", "go", "c", "h", "cpp", "java", "kt", "swift", "rb", "php", "sh",
    "sql", "md", "txt", "json", "toml", "yaml", "yml", "xml", "html", "css", "csv", "tsv", "pdf", "docx",
    "xlsx", "pptx", "png", "jpg", "jpeg", "gif", "svg", "zip", "gz", "log", "lock", "ini", "cfg", "conf",
    "env", "db", "ipynb",
];

/// Prefixes of common terms that look like identifiers.
const COMMON: &[&str] = &["UTF", "SHA", "ISO", "GPT", "RFC", "HTTP", "IPV", "COVID"];

/// Every artifact that is not quoted has one of these.
const MARKS: &[u8] = b"/\\.:#-_";

/// What ends a word besides white space.
const GAPS: [char; 18] =
    ['"', '`', '“', '”', '„', '«', '»', '<', '>', '(', ')', '[', ']', '{', '}', '|', ',', ';'];

/// What may surround a name without being a part of it.
const PUNCTUATION: [char; 7] = ['.', ':', '!', '?', '\'', '*', '…'];

const QUOTES: &[(char, char)] = &[('"', '"'), ('`', '`'), ('“', '”'), ('„', '“'), ('«', '»')];

/// Lists the artifacts of a text in order, with duplicates.
pub(super) fn artifacts(text: &str) -> Vec<&str> {
    let mut found: Vec<(usize, &str)> = Vec::new();
    let mut start = 0;
    for word in text.split_inclusive(is_gap) {
        found.extend(in_word(word, text[..start].ends_with('<')).map(|it| (start, it)));
        start += word.len();
    }
    for (open, close) in QUOTES {
        found.extend(quoted(text, *open, *close));
    }
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, it)| it).collect()
}

fn is_gap(it: char) -> bool {
    it.is_whitespace() || GAPS.contains(&it)
}

/// Returns the artifact that a word is, without the punctuation around it.
fn in_word(word: &str, is_behind_bracket: bool) -> Option<&str> {
    // Almost every word is plain, and is looked at once.
    if !word.bytes().any(|it| MARKS.contains(&it)) {
        return None;
    }
    // A leading `.` or `..` of a path is not punctuation.
    let whole = word.trim_end_matches(is_gap).trim_end_matches(PUNCTUATION);
    let bare = whole.trim_start_matches(PUNCTUATION);
    // A closing tag is not a path.
    let is_tag = is_behind_bracket && whole.starts_with('/');
    [whole, bare].into_iter().find(|it| !is_tag && is_artifact(it))
}

fn quoted(text: &str, open: char, close: char) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = text[at..].find(open).map(|it| at + it + open.len_utf8()) {
        let line_end = text[start..].find('\n').map_or(text.len(), |it| start + it);
        match text[start..line_end].find(close) {
            Some(len) => {
                let name = &text[start..start + len];
                let is_short = name.chars().count() <= 60 && name.split_whitespace().count() <= 6;
                let is_name = name.chars().filter(|it| it.is_alphanumeric()).count() >= 2;
                found.extend((is_short && is_name && name.trim() == name).then_some((start, name)));
                at = start + len + close.len_utf8();
            }
            None => at = line_end,
        }
    }
    found
}

fn is_artifact(word: &str) -> bool {
    word.len() >= 2
        && word.chars().any(char::is_alphanumeric)
        && (is_address(word) || is_path(word) || is_id(word))
}

fn is_address(word: &str) -> bool {
    word.split_once("://").is_some_and(|(scheme, rest)| {
        !scheme.is_empty() && !rest.is_empty() && scheme.chars().all(|it| it.is_ascii_alphanumeric())
    })
}

fn is_path(word: &str) -> bool {
    let begins = ["/", "./", "../", "~/"].iter().any(|it| word.starts_with(it));
    let drive = word.as_bytes().get(..3).is_some_and(|it| it[0].is_ascii_alphabetic() && &it[1..] == b":\\");
    let last = word.rsplit(['/', '\\']).next().unwrap_or(word);
    let ending = last.rsplit_once('.').filter(|(name, _)| !name.is_empty()).map(|(_, ending)| ending);
    let is_step = |it: &str| (1..=8).contains(&it.len()) && it.chars().all(|it| it.is_ascii_alphanumeric());
    let is_known = |it: &str| ENDINGS.contains(&it.to_ascii_lowercase().as_str());
    begins
        || drive
        || if word.contains('/') { ending.is_some_and(is_step) } else { ending.is_some_and(is_known) }
}

fn is_id(word: &str) -> bool {
    let digits = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit());
    if let Some(number) = word.strip_prefix('#') {
        return digits(number);
    }
    let groups: Vec<&str> = word.split('-').collect();
    let lengths: Vec<usize> = groups.iter().map(|it| it.len()).collect();
    if lengths == [8, 4, 4, 4, 12] {
        return word.bytes().all(|it| it == b'-' || it.is_ascii_hexdigit());
    }
    word.split_once(['-', '_']).is_some_and(|(name, number)| {
        let is_name = (2..=12).contains(&name.len()) && name.bytes().all(|it| it.is_ascii_uppercase());
        is_name && !COMMON.contains(&name) && number.split(['-', '_']).all(digits)
    })
}

#[cfg(test)]
mod tests {
    use super::artifacts;

    #[test]
    fn names_are_found() {
        let found = |text| artifacts(text).join(" | ");
        assert_eq!(
            found("See src/main.rs, ./run, ../up and ~/x (or /etc/hosts)."),
            "src/main.rs | ./run | ../up | ~/x | /etc/hosts"
        );
        assert_eq!(found("At https://a.example/b?c=1. Then main.rs!"), "https://a.example/b?c=1 | main.rs");
        assert_eq!(found("ORDER-123, INV_2024-07 and #42"), "ORDER-123 | INV_2024-07 | #42");
        assert_eq!(found("id 123e4567-e89b-12d3-a456-426614174000"), "123e4567-e89b-12d3-a456-426614174000");
        assert_eq!(found("the „Projekt Alpha“ and \"Beta\" and `run_all`"), "Projekt Alpha | Beta | run_all");
        assert_eq!(found(r"C:\temp\a.txt"), r"C:\temp\a.txt");
    }

    #[test]
    fn ordinary_words_are_not() {
        for text in [
            "and/or",
            "e.g. this",
            "UTF-8",
            "5 km/h",
            "end.Next",
            "# title",
            "\"\"",
            "a-b",
            "12/05/2024",
            "<b>x</b>",
        ] {
            assert!(artifacts(text).is_empty(), "{text}: {:?}", artifacts(text));
        }
    }
}
