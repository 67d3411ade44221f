//! Splits a template into text, outputs and tags.
//!
//! The scanner turns the source into [`Piece`]s with byte offsets. It ignores quotes: an output ends at the first
//! `}}` and a tag at the first `%}`, as in Liquid. Inside a `{% liquid %}` tag, each line is a tag.

use crate::error::Fault;

/// A byte range of the source.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Span {
    pub(crate) fn of<'s>(&self, source: &'s str) -> &'s str {
        source.get(self.start..self.end).unwrap_or("")
    }
}

/// The content between `{%` and `%}`, or a line of a `liquid` tag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tag {
    /// The whole tag including its delimiters.
    pub(crate) whole: Span,
    /// The name; empty if there is none.
    pub(crate) name: Span,
    /// The text after the name.
    pub(crate) markup: Span,
    pub(crate) trim: Trim,
}

/// On which sides of a tag or output adjacent whitespace is removed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trim {
    pub(crate) before: bool,
    pub(crate) after: bool,
}

/// A text, an output or a tag.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Piece {
    Text(Span),
    Output {
        whole: Span,
        markup: Span,
        trim: Trim,
    },
    Tag(Tag),
    /// A `{{` or `{%` without its closing delimiter.
    Unclosed(Span),
}

/// Iterates over the pieces of a template or over the lines of a `liquid` tag.
#[derive(Clone, Debug)]
pub(crate) struct Scanner<'s> {
    source: &'s str,
    pos: usize,
    end: usize,
    lines: bool,
}

impl<'s> Scanner<'s> {
    /// Scans a whole template.
    pub(crate) fn document(source: &'s str) -> Self {
        Self { source, pos: 0, end: source.len(), lines: false }
    }

    /// Scans the lines of a `liquid` tag.
    pub(crate) fn lines(source: &'s str, markup: Span) -> Self {
        Self { source, pos: markup.start, end: markup.end, lines: true }
    }

    /// Returns whether this scans the lines of a `liquid` tag.
    pub(crate) fn is_lines(&self) -> bool {
        self.lines
    }

    /// Returns the next piece, or `None` at the end.
    pub(crate) fn next_piece(&mut self) -> Option<Piece> {
        if self.lines { self.next_line().map(Piece::Tag) } else { self.next_part() }
    }

    fn rest(&self) -> &'s str {
        self.source.get(self.pos..self.end).unwrap_or("")
    }

    fn next_line(&mut self) -> Option<Tag> {
        while self.pos < self.end {
            let line = self.rest().split('\n').next().unwrap_or("");
            let start = self.pos;
            self.pos += line.len() + 1;
            if !line.trim_ascii().is_empty() {
                let whole = Span { start, end: start + line.len() };
                return Some(tag(self.source, whole, whole, Trim::default()));
            }
        }
        None
    }

    fn next_part(&mut self) -> Option<Piece> {
        let rest = self.rest();
        if rest.is_empty() {
            return None;
        }
        let start = self.pos;
        let piece = if rest.starts_with("{%") {
            self.tag_from(start, start + 2)
        } else if rest.starts_with("{{") {
            self.output_from(start)
        } else {
            Piece::Text(Span { start, end: start + opening(rest) })
        };
        self.pos = match piece {
            Piece::Text(span) | Piece::Unclosed(span) => span.end,
            Piece::Output { whole, .. } => whole.end,
            Piece::Tag(tag) => tag.whole.end,
        };
        Some(piece)
    }

    fn tag_from(&self, start: usize, inside: usize) -> Piece {
        let body = self.source.get(inside..self.end).unwrap_or("");
        let Some(length) = body.find("%}") else {
            return Piece::Unclosed(Span { start, end: self.end });
        };
        let whole = Span { start, end: inside + length + 2 };
        let (inner, trim) = trimmed(self.source, Span { start: inside, end: inside + length });
        Piece::Tag(tag(self.source, whole, inner, trim))
    }

    fn output_from(&self, start: usize) -> Piece {
        let inside = start + 2;
        let body = self.source.get(inside..self.end).unwrap_or("");
        let length = match first_pair(body, |pair| matches!(pair, b"}}" | b"{%")) {
            Some(at) if body.get(at..).is_some_and(|it| it.starts_with('}')) => at,
            // A tag that starts inside an output swallows it: `{{ a {% b %}` is a single broken piece.
            Some(at) => {
                return match self.tag_from(start, inside + at + 2) {
                    Piece::Tag(tag) => Piece::Unclosed(tag.whole),
                    other => other,
                };
            }
            None => return Piece::Unclosed(Span { start, end: self.end }),
        };
        // In `{{ x }}}` the last brace belongs to the text.
        let whole = Span { start, end: inside + length + 2 };
        let (markup, trim) = trimmed(self.source, Span { start: inside, end: inside + length });
        Piece::Output { whole, markup, trim }
    }

    /// Skips to the tag called `end` and returns the text before it, without interpreting that text.
    pub(crate) fn verbatim(&mut self, end: &str) -> Option<(Span, Tag)> {
        let start = self.pos;
        if self.lines {
            while let Some(tag) = self.next_line() {
                if tag.name.of(self.source) == end {
                    return Some((Span { start, end: tag.whole.start }, tag));
                }
            }
            return None;
        }
        let mut from = start;
        while let Some(found) = self.source.get(from..self.end).and_then(|it| it.find("{%")) {
            let open = from + found;
            // Compare the name first: searching for the end of every tag would take quadratic time.
            if !self.is_named(open + 2, end) {
                from = open + 2;
                continue;
            }
            let Piece::Tag(tag) = self.tag_from(open, open + 2) else { return None };
            if tag.name.of(self.source) == end {
                self.pos = tag.whole.end;
                return Some((Span { start, end: open }, tag));
            }
            from = open + 2;
        }
        None
    }

    fn is_named(&self, inside: usize, name: &str) -> bool {
        let body = self.source.get(inside..self.end).unwrap_or("");
        body.strip_prefix('-').unwrap_or(body).trim_ascii_start().starts_with(name)
    }

    /// Skips a comment, including nested comments and raw blocks, and returns the tag that ends it.
    pub(crate) fn comment(&mut self) -> Option<Tag> {
        let mut depth = 1_usize;
        while let Some(piece) = self.next_piece() {
            let Piece::Tag(tag) = piece else { continue };
            match tag.name.of(self.source) {
                "comment" => depth += 1,
                "endcomment" => depth -= 1,
                "raw" => drop(self.verbatim("endraw")?),
                _ => {}
            }
            if depth == 0 {
                return Some(tag);
            }
        }
        None
    }
}

/// Returns the length of the text before the next `{{` or `{%`.
fn opening(text: &str) -> usize {
    first_pair(text, |pair| matches!(pair, b"{{" | b"{%")).unwrap_or(text.len())
}

/// Returns the position of the first two bytes that `wanted` accepts.
fn first_pair(text: &str, wanted: fn(&[u8]) -> bool) -> Option<usize> {
    text.as_bytes().windows(2).position(wanted)
}

/// Strips the dashes of whitespace control.
fn trimmed(source: &str, span: Span) -> (Span, Trim) {
    let Span { mut start, mut end } = span;
    let mut trim = Trim::default();
    if span.of(source).starts_with('-') {
        (start, trim.before) = (start + 1, true);
    }
    let inner = Span { start, end };
    if inner.of(source).ends_with('-') {
        (end, trim.after) = (end - 1, true);
    } else if inner.of(source).is_empty() {
        trim.after = trim.before; // `{{-}}` trims both sides.
    }
    (Span { start, end }, trim)
}

/// Splits off the name of a tag; `#` counts as a name.
fn tag(source: &str, whole: Span, inner: Span, trim: Trim) -> Tag {
    let text = inner.of(source);
    let start = inner.start + (text.len() - text.trim_ascii_start().len());
    let rest = Span { start, end: inner.end }.of(source);
    let length = if rest.starts_with('#') {
        1
    } else {
        rest.bytes().take_while(|it| it.is_ascii_alphanumeric() || *it == b'_').count()
    };
    let name = Span { start, end: start + length };
    Tag { whole, name, markup: Span { start: name.end, end: inner.end }, trim }
}

/// Returns the fault for a piece without a closing delimiter.
pub(crate) fn unclosed(text: &str) -> Fault {
    let what = if text.starts_with("{{") {
        "output `{{` is not closed by `}}`"
    } else {
        "tag `{%` is not closed by `%}`"
    };
    Fault::syntax(what)
}
