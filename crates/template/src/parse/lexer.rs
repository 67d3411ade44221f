//! Splits the markup of a tag or output into tokens.

use std::sync::Arc;

use crate::{error::Fault, parse::scanner::Span, value::number};

/// A token of Liquid markup.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    /// A name such as `input`, `first-name` or `open?`.
    Name(Arc<str>),
    Text(Arc<str>),
    Int(i128),
    Float(f64),
    /// Any of `. .. , : | [ ] ( ) =` and the comparison operators.
    Sign(&'static str),
}

impl Token {
    /// Formats the token for error messages.
    pub(crate) fn describe(&self) -> String {
        match self {
            Token::Name(name) => format!("`{name}`"),
            Token::Text(text) => format!("`\"{text}\"`"),
            Token::Int(int) => format!("`{int}`"),
            Token::Float(float) => format!("`{}`", number::format_float(*float)),
            Token::Sign(sign) => format!("`{sign}`"),
        }
    }
}

/// A token and its byte offset.
#[derive(Clone, Debug)]
pub(crate) struct Lexeme {
    pub(crate) token: Token,
    pub(crate) at: usize,
}

/// Longer signs come first, so that `..` is not read as two dots.
const SIGNS: [&str; 17] =
    ["..", "==", "!=", "<>", "<=", ">=", "<", ">", ".", ",", ":", "|", "[", "]", "(", ")", "="];

/// Returns the tokens in a span of the source, or the fault and its offset.
pub(crate) fn lex(source: &str, span: Span) -> Result<Vec<Lexeme>, (usize, Fault)> {
    let mut lexemes = Vec::new();
    let mut at = span.start;
    loop {
        let rest = Span { start: at, end: span.end }.of(source);
        let trimmed = rest.trim_ascii_start();
        at += rest.len() - trimmed.len();
        if trimmed.is_empty() {
            return Ok(lexemes);
        }
        let (token, length) = next(trimmed).map_err(|fault| (at, fault))?;
        lexemes.push(Lexeme { token, at });
        at += length;
    }
}

fn next(text: &str) -> Result<(Token, usize), Fault> {
    let first = text.chars().next().unwrap_or(' ');
    if first.is_ascii_alphabetic() || first == '_' {
        return Ok(name(text));
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.starts_with(|it: char| it.is_ascii_digit()) {
        return Ok(number(text));
    }
    if first == '"' || first == '\'' {
        return string(text, first);
    }
    match SIGNS.iter().find(|it| text.starts_with(**it)) {
        Some(sign) => Ok((Token::Sign(sign), sign.len())),
        None => Err(Fault::syntax(format!("unexpected character `{first}`"))),
    }
}

fn name(text: &str) -> (Token, usize) {
    let mut length =
        text.bytes().take_while(|it| it.is_ascii_alphanumeric() || matches!(it, b'_' | b'-')).count();
    if text.as_bytes().get(length) == Some(&b'?') {
        length += 1;
    }
    (Token::Name(text.get(..length).unwrap_or("").into()), length)
}

fn number(text: &str) -> (Token, usize) {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes.iter().skip(from).take_while(|it| it.is_ascii_digit()).count();
    let sign = usize::from(bytes.first() == Some(&b'-'));
    let whole = sign + digits(sign);
    let fraction = if bytes.get(whole) == Some(&b'.') { digits(whole + 1) } else { 0 };
    if fraction > 0 {
        let length = whole + 1 + fraction;
        let value = text.get(..length).and_then(|it| it.parse().ok()).unwrap_or(0.0);
        return (Token::Float(value), length);
    }
    let digits = text.get(..whole).unwrap_or("");
    let token = match digits.parse() {
        Ok(int) => Token::Int(int),
        Err(_) => Token::Float(digits.parse().unwrap_or(0.0)),
    };
    (token, whole)
}

fn string(text: &str, quote: char) -> Result<(Token, usize), Fault> {
    let inside = text.get(1..).unwrap_or("");
    match inside.find(quote) {
        Some(length) => Ok((Token::Text(inside.get(..length).unwrap_or("").into()), length + 2)),
        None => Err(Fault::syntax(format!("string is not closed by `{quote}`"))),
    }
}
