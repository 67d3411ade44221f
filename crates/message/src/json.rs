//! Detects ambiguous JSON: duplicate keys, and integers that would be rounded.
//!
//! The input is a JSON text; the output is a fault that a parser silently accepts: of two equal keys the last wins,
//! and an integer beyond 64 bits is rounded to 53. Whether the text is valid JSON is up to the parser; invalid text
//! has no faults here. The text is read once, and only the keys of open objects are kept.

use std::collections::HashSet;
use std::fmt;

/// A fault in a JSON text and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonFault {
    /// The kind of fault.
    pub kind: JsonFaultKind,
    /// The path to the value, such as `input.items[2]`; empty at the top level.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

/// The kinds of faults that a parser silently accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonFaultKind {
    /// An object has the same key twice.
    DuplicateKey(String),
    /// An integer is too large for any number type and would be rounded.
    NumberRounded(String),
}

impl fmt::Display for JsonFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            JsonFaultKind::DuplicateKey(key) => write!(f, "duplicate key `{}`", shown(key)),
            JsonFaultKind::NumberRounded(number) => {
                write!(f, "the number {} has too many digits to be kept exactly", shown(number))
            }
        }
    }
}

impl std::error::Error for JsonFault {}

/// The maximum number of characters of a key or number in a message.
const SHOWN: usize = 60;

fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns the first fault in a JSON text that a parser would silently accept.
///
/// ```
/// use contexture_message::json_fault;
///
/// assert_eq!(json_fault(r#"{"plan": "pro", "n": 12345678901234567890}"#), None);
/// let fault = json_fault("{\"a\": {\"b\": 1,\n \"b\": 2}}").unwrap();
/// assert_eq!((fault.path.as_str(), fault.line, fault.column), ("a", 2, 2));
/// assert_eq!(fault.to_string(), "duplicate key `b`");
/// ```
pub fn json_fault(text: &str) -> Option<JsonFault> {
    let mut reader = Reader { text, at: 0, open: Vec::new() };
    loop {
        match reader.step() {
            Step::Next => {}
            Step::End => return None,
            Step::Fault(at, kind) => return Some(reader.fault(at, kind)),
        }
    }
}

enum Step {
    Next,
    End,
    Fault(usize, JsonFaultKind),
}

/// A list or object that is not closed yet.
enum Open {
    List { idx: usize },
    Object { keys: HashSet<String>, key: String, wants_key: bool },
}

struct Reader<'a> {
    text: &'a str,
    /// The offset of the next byte.
    at: usize,
    open: Vec<Open>,
}

impl Reader<'_> {
    /// Reads one token.
    fn step(&mut self) -> Step {
        let start = self.at;
        let Some(byte) = self.text.as_bytes().get(start) else { return Step::End };
        self.at += 1;
        match byte {
            b'{' => {
                self.open.push(Open::Object { keys: HashSet::new(), key: String::new(), wants_key: true })
            }
            b'[' => self.open.push(Open::List { idx: 0 }),
            b'}' | b']' => drop(self.open.pop()),
            b',' => match self.open.last_mut() {
                Some(Open::List { idx }) => *idx += 1,
                Some(Open::Object { wants_key, .. }) => *wants_key = true,
                None => {}
            },
            b'"' => return self.string(start),
            b'-' | b'0'..=b'9' => return self.number(start),
            _ => {}
        }
        Step::Next
    }

    fn string(&mut self, start: usize) -> Step {
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'"' => break,
                b'\\' => self.at += 1,
                _ => {}
            }
        }
        let Some(Open::Object { keys, key, wants_key: wants_key @ true }) = self.open.last_mut() else {
            return Step::Next;
        };
        *wants_key = false;
        // Keys are compared unescaped: `"a"` and `"\u0061"` are equal.
        let read = self.text.get(start..self.at).and_then(|it| serde_json::from_str::<String>(it).ok());
        let Some(read) = read else { return Step::End };
        key.clone_from(&read);
        match keys.insert(read.clone()) {
            true => Step::Next,
            false => Step::Fault(start, JsonFaultKind::DuplicateKey(read)),
        }
    }

    fn number(&mut self, start: usize) -> Step {
        let rest = self.text.get(start..).unwrap_or_default();
        let is_number = |it: u8| it.is_ascii_digit() || b"+-.eE".contains(&it);
        let length = rest.bytes().position(|it| !is_number(it)).unwrap_or(rest.len());
        self.at = start + length;
        let number = rest.get(..length).unwrap_or_default();
        let is_whole = !number.contains(['.', 'e', 'E']);
        match is_whole && number.parse::<i64>().is_err() && number.parse::<u64>().is_err() {
            true => Step::Fault(start, JsonFaultKind::NumberRounded(number.to_owned())),
            false => Step::Next,
        }
    }

    fn fault(&self, at: usize, kind: JsonFaultKind) -> JsonFault {
        let before = self.text.get(..at).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |it| it + 1);
        let line = 1 + before.matches('\n').count();
        let column = 1 + before.get(line_start..).unwrap_or_default().chars().count();
        JsonFault { path: self.path(&kind), kind, line, column }
    }

    /// Returns the path to the value; a duplicate key is named by the fault itself.
    fn path(&self, kind: &JsonFaultKind) -> String {
        let whole = match kind {
            JsonFaultKind::DuplicateKey(_) => self.open.len().saturating_sub(1),
            JsonFaultKind::NumberRounded(_) => self.open.len(),
        };
        let mut path = String::new();
        for open in self.open.iter().take(whole) {
            match open {
                Open::List { idx } => path.push_str(&format!("[{idx}]")),
                Open::Object { key, .. } => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(&shown(key));
                }
            }
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use super::json_fault;

    fn found(text: &str) -> String {
        match json_fault(text) {
            None => "fine".to_owned(),
            Some(it) => format!("{}:{} {}: {it}", it.line, it.column, it.path),
        }
    }

    #[test]
    fn a_duplicate_key_is_found_anywhere() {
        assert_eq!(found(r#"{"a": 1, "a": 2}"#), "1:10 : duplicate key `a`");
        assert_eq!(found(r#"{"a": [{}, {"b": {"c": 1, "\u0063": 2}}]}"#), "1:27 a[1].b: duplicate key `c`");
        assert_eq!(found("{\"é\": \"x\",\n\t\"é\": 2}"), "2:2 : duplicate key `é`");
        assert_eq!(found(r#"{"a": {"a": "a"}, "b": ["a", "a", {"a": "{\"a\": 1, \"a\": 2}"}]}"#), "fine");
    }

    #[test]
    fn a_whole_number_that_would_be_rounded_is_found() {
        assert_eq!(
            found(r#"{"id": [1, 12345678901234567890123]}"#),
            "1:12 id[1]: the number 12345678901234567890123 has too many digits to be kept exactly"
        );
        assert!(found("-9223372036854775809").starts_with("1:1 : the number"));
        for fine in [
            "18446744073709551615",
            "-9223372036854775808",
            "1e30",
            "0.1",
            "\"12345678901234567890123\"",
            "-0",
        ] {
            assert_eq!(found(fine), "fine", "{fine}");
        }
    }

    #[test]
    fn invalid_json_is_not_judged() {
        for text in [
            "",
            "{",
            "}",
            "]]",
            "{\"a",
            "{\"a\\",
            "\"\\",
            "é",
            "{\"\\ud800\": 1, \"\\ud800\": 2}",
            "- -",
            "--1e",
        ] {
            let _ = found(text);
        }
    }
}
