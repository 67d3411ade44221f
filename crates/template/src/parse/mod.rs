//! Builds the tree from the pieces of a template.
//!
//! Blocks are parsed by recursive calls of [`Parser::body`], which count the nesting. As in Liquid, a block that
//! cannot produce output drops its whitespace: `{% if x %} {% assign y = 1 %} {% endif %}` prints nothing.

pub(crate) mod ast;
mod cursor;
mod lexer;
pub(crate) mod scanner;
mod tags;

pub(crate) use cursor::Cursor;

use crate::{
    error::{Error, ErrorKind, Fault},
    filters::is_space,
    limits::Limits,
    parse::ast::{Node, NodeKind, Nodes},
    parse::scanner::{Piece, Scanner, Span, Tag, Trim},
    source::Source,
};

/// Parses a whole template.
pub(crate) fn template(source: &Source, limits: &Limits) -> Result<Nodes, Error> {
    let mut parser =
        Parser { source, text: &source.text, trim_next: false, depth: 0, max_depth: limits.depth() };
    let mut scanner = Scanner::document(&source.text);
    let (body, _) = parser.body(&mut scanner, &[])?;
    Ok(body.nodes)
}

/// The nodes of a block, and whether any of them can produce output.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) nodes: Nodes,
    pub(crate) blank: bool,
}

impl Body {
    fn new() -> Self {
        Self { nodes: Vec::new(), blank: true }
    }

    fn push(&mut self, node: Node, blank: bool) {
        self.nodes.push(node);
        self.blank &= blank;
    }

    fn push_tag(&mut self, tag: &Tag, kind: NodeKind, blank: bool) {
        self.push(Node { at: tag.whole.start, kind }, blank);
    }

    fn drop_text(&mut self) {
        self.nodes.retain(|it| !matches!(it.kind, NodeKind::Text(_)));
    }
}

struct Parser<'s> {
    source: &'s Source,
    text: &'s str,
    /// Whether to strip leading whitespace from the next text.
    trim_next: bool,
    depth: usize,
    max_depth: usize,
}

impl<'s> Parser<'s> {
    fn error(&self, at: usize, fault: Fault) -> Error {
        self.source.error(at, fault)
    }

    fn cursor(&self, span: Span) -> Result<Cursor<'s>, Error> {
        Cursor::new(self.source, span, self.max_depth)
    }

    /// Parses up to one of the tags in `ends`, which is returned, or up to the end of the template.
    fn body(&mut self, scanner: &mut Scanner<'s>, ends: &[&str]) -> Result<(Body, Option<Tag>), Error> {
        let mut body = Body::new();
        let end = self.fill(&mut body, scanner, ends)?;
        Ok((body, end))
    }

    fn fill(
        &mut self,
        body: &mut Body,
        scanner: &mut Scanner<'s>,
        ends: &[&str],
    ) -> Result<Option<Tag>, Error> {
        while let Some(piece) = scanner.next_piece() {
            match piece {
                Piece::Text(span) => self.push_text(body, span),
                Piece::Output { whole, markup, trim } => {
                    self.apply_trim(body, trim);
                    self.push_output(body, whole.start, markup)?;
                }
                Piece::Tag(tag) => {
                    if !scanner.is_lines() {
                        self.apply_trim(body, tag.trim);
                    }
                    if ends.contains(&tag.name.of(self.text)) {
                        return Ok(Some(tag));
                    }
                    self.tag(body, scanner, &tag, ends)?;
                }
                Piece::Unclosed(span) => {
                    return Err(self.error(span.start, scanner::unclosed(span.of(self.text))));
                }
            }
        }
        Ok(None)
    }

    fn apply_trim(&mut self, body: &mut Body, trim: Trim) {
        if trim.before
            && let Some(Node { kind: NodeKind::Text(span), .. }) = body.nodes.last_mut()
        {
            span.end = span.start + trim_end(span.of(self.text)).len();
        }
        self.trim_next = trim.after;
    }

    fn push_text(&mut self, body: &mut Body, mut span: Span) {
        if std::mem::take(&mut self.trim_next) {
            let text = span.of(self.text);
            span.start += text.len() - trim_start(text).len();
        }
        if span.start < span.end {
            let blank = span.of(self.text).trim_ascii().is_empty();
            body.push(Node { at: span.start, kind: NodeKind::Text(span) }, blank);
        }
    }

    fn push_output(&self, body: &mut Body, at: usize, markup: Span) -> Result<(), Error> {
        let mut cursor = self.cursor(markup)?;
        body.blank = false;
        if !cursor.at_end() {
            let value = cursor.filtered()?;
            cursor.expect_end()?;
            body.push(Node { at, kind: NodeKind::Output(value) }, false);
        }
        Ok(())
    }

    /// Parses a tag and, if it is a block, everything up to its end.
    ///
    /// Only blocks recurse. The other tags are parsed in separate functions, so that each level of nesting needs
    /// little stack.
    fn tag(
        &mut self,
        body: &mut Body,
        scanner: &mut Scanner<'s>,
        tag: &Tag,
        ends: &[&str],
    ) -> Result<(), Error> {
        if self.verbatim(body, scanner, tag)? || self.simple(body, tag)? {
            return Ok(());
        }
        if self.depth >= self.max_depth {
            return Err(self.error(tag.whole.start, Fault::limit("the nesting of blocks", self.max_depth)));
        }
        self.depth += 1;
        let found = self.nested(body, scanner, tag);
        self.depth -= 1;
        if found? { Ok(()) } else { Err(self.unknown_tag(tag, ends)) }
    }

    /// Parses `tag` if it is a block, and returns whether it is one.
    fn nested(&mut self, body: &mut Body, scanner: &mut Scanner<'s>, tag: &Tag) -> Result<bool, Error> {
        if tag.name.of(self.text) == "liquid" {
            let mut lines = Scanner::lines(self.text, tag.markup);
            self.fill(body, &mut lines, &[])?;
            return Ok(true);
        }
        self.block(body, scanner, tag)
    }

    /// Parses `tag` if its content is not parsed as Liquid, and returns whether it is such a tag.
    fn verbatim(&mut self, body: &mut Body, scanner: &mut Scanner<'s>, tag: &Tag) -> Result<bool, Error> {
        match tag.name.of(self.text) {
            "#" => self.inline_comment(tag)?,
            "comment" => {
                let end = scanner.comment().ok_or_else(|| self.not_closed(tag))?;
                self.after_verbatim(scanner, end);
            }
            "doc" => {
                let (text, end) = scanner.verbatim("enddoc").ok_or_else(|| self.not_closed(tag))?;
                self.after_verbatim(scanner, end);
                self.check_doc(tag, text)?;
            }
            "raw" => {
                let (text, end) = scanner.verbatim("endraw").ok_or_else(|| self.not_closed(tag))?;
                body.push(Node { at: text.start, kind: NodeKind::Raw(text) }, text.start == text.end);
                self.after_verbatim(scanner, end);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn after_verbatim(&mut self, scanner: &Scanner<'s>, end: Tag) {
        if !scanner.is_lines() {
            self.trim_next = end.trim.after;
        }
    }

    fn inline_comment(&self, tag: &Tag) -> Result<(), Error> {
        let mut at = tag.markup.start;
        for (idx, line) in tag.markup.of(self.text).split('\n').enumerate() {
            let content = line.trim_ascii();
            if idx > 0 && !content.is_empty() && !content.starts_with('#') {
                let start = at + (line.len() - line.trim_ascii_start().len());
                return Err(
                    self.error(start, Fault::syntax("each line of an inline comment begins with `#`"))
                );
            }
            at += line.len() + 1;
        }
        Ok(())
    }

    fn check_doc(&self, tag: &Tag, text: Span) -> Result<(), Error> {
        if !tag.markup.of(self.text).trim_ascii().is_empty() {
            return Err(self.error(tag.markup.start, Fault::syntax("tag `doc` takes no arguments")));
        }
        // A nested doc would make the outer one end at the first `enddoc`, so it is an error.
        let mut inner = Scanner::document(text.of(self.text));
        while let Some(piece) = inner.next_piece() {
            if let Piece::Tag(nested) = piece
                && nested.name.of(text.of(self.text)) == "doc"
            {
                let at = text.start + nested.whole.start;
                return Err(self.error(at, Fault::syntax("tag `doc` cannot stand inside `doc`")));
            }
        }
        Ok(())
    }

    fn not_closed(&self, tag: &Tag) -> Error {
        let name = tag.name.of(self.text);
        self.error(tag.whole.start, Fault::syntax(format!("tag `{name}` is not closed by `end{name}`")))
    }

    fn unknown_tag(&self, tag: &Tag, ends: &[&str]) -> Error {
        let name = tag.name.of(self.text);
        let at = if tag.name.start < tag.name.end { tag.name.start } else { tag.whole.start };
        let message = match (name.is_empty(), ends.last()) {
            (true, _) => "tag has no name".into(),
            (_, Some(end)) if name.starts_with("end") => {
                format!("tag `{name}` stands where `{end}` is expected")
            }
            _ if name.starts_with("end") || matches!(name, "else" | "elsif" | "when") => {
                format!("tag `{name}` does not belong to an open block")
            }
            _ => format!("unknown tag `{name}`"),
        };
        let kind = if name.is_empty() { ErrorKind::Syntax } else { ErrorKind::UnknownTag };
        self.error(at, Fault::new(kind, message))
    }
}

fn trim_start(text: &str) -> &str {
    text.trim_start_matches(is_space)
}

fn trim_end(text: &str) -> &str {
    text.trim_end_matches(is_space)
}
