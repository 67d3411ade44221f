//! Parses expressions, filters and conditions from the tokens of one tag or output.

use std::sync::Arc;

use crate::{
    error::{Error, ErrorKind, Fault},
    filters,
    nearest::did_you_mean,
    parse::ast::{Condition, Expr, FilterCall, Filtered, Join, Literal, Path, Root, Segment, Term},
    parse::lexer::{self, Lexeme, Token},
    parse::scanner::Span,
    source::Source,
    value::compare::Operator,
};

/// A position in the tokens of a tag or output.
#[derive(Debug)]
pub(crate) struct Cursor<'s> {
    source: &'s Source,
    lexemes: Vec<Lexeme>,
    next: usize,
    /// The offset that errors about missing tokens point to.
    end: usize,
    depth: usize,
    max_depth: usize,
}

impl<'s> Cursor<'s> {
    pub(crate) fn new(source: &'s Source, span: Span, max_depth: usize) -> Result<Self, Error> {
        let lexemes = lexer::lex(&source.text, span).map_err(|(at, fault)| source.error(at, fault))?;
        let end = span.start + span.of(&source.text).trim_ascii_end().len();
        Ok(Self { source, lexemes, next: 0, end, depth: 0, max_depth })
    }

    fn error(&self, at: usize, fault: Fault) -> Error {
        self.source.error(at, fault)
    }

    fn peek(&self) -> Option<&Token> {
        self.peek_after(0)
    }

    fn peek_after(&self, count: usize) -> Option<&Token> {
        self.lexemes.get(self.next + count).map(|it| &it.token)
    }

    /// Returns the offset of the next token, or of the end of the markup.
    pub(crate) fn at(&self) -> usize {
        self.lexemes.get(self.next).map_or(self.end, |it| it.at)
    }

    pub(crate) fn at_end(&self) -> bool {
        self.next >= self.lexemes.len()
    }

    pub(crate) fn looks_at(&self, sign: &str) -> bool {
        matches!(self.peek(), Some(Token::Sign(it)) if *it == sign)
    }

    /// Consumes `sign` if it is next, and returns whether it was.
    pub(crate) fn eat(&mut self, sign: &str) -> bool {
        let found = self.looks_at(sign);
        self.next += usize::from(found);
        found
    }

    /// Consumes `word` if it is next, and returns whether it was.
    pub(crate) fn eat_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Name(it)) if **it == *word);
        self.next += usize::from(found);
        found
    }

    pub(crate) fn expect(&mut self, sign: &str) -> Result<(), Error> {
        if self.eat(sign) { Ok(()) } else { Err(self.unexpected(&format!("`{sign}`"))) }
    }

    pub(crate) fn expect_word(&mut self, word: &str) -> Result<(), Error> {
        if self.eat_word(word) { Ok(()) } else { Err(self.unexpected(&format!("`{word}`"))) }
    }

    pub(crate) fn expect_end(&self) -> Result<(), Error> {
        if self.at_end() { Ok(()) } else { Err(self.unexpected("the end")) }
    }

    /// Returns the error for finding something other than `wanted`.
    pub(crate) fn unexpected(&self, wanted: &str) -> Error {
        let found = self.peek().map_or("the end".into(), Token::describe);
        self.error(self.at(), Fault::syntax(format!("expected {wanted}, found {found}")))
    }

    /// Consumes a name such as a loop variable.
    pub(crate) fn name(&mut self) -> Result<Arc<str>, Error> {
        match self.peek() {
            Some(Token::Name(name)) => {
                let name = name.clone();
                self.next += 1;
                Ok(name)
            }
            _ => Err(self.unexpected("a name")),
        }
    }

    /// Consumes a name, quoted or not.
    pub(crate) fn name_or_text(&mut self) -> Result<Arc<str>, Error> {
        if let Some(Token::Text(text)) = self.peek() {
            let text = text.clone();
            self.next += 1;
            return Ok(text);
        }
        self.name()
    }

    /// Consumes `name:` if it is next.
    pub(crate) fn keyword(&mut self) -> Option<Arc<str>> {
        match (self.peek(), self.peek_after(1)) {
            (Some(Token::Name(name)), Some(Token::Sign(":"))) => {
                let name = name.clone();
                self.next += 2;
                Some(name)
            }
            _ => None,
        }
    }

    /// Parses an expression and its filters.
    pub(crate) fn filtered(&mut self) -> Result<Filtered, Error> {
        let base = self.expr()?;
        let mut filters = Vec::new();
        while self.eat("|") {
            filters.push(self.filter()?);
        }
        Ok(Filtered { base, filters })
    }

    fn filter(&mut self) -> Result<FilterCall, Error> {
        let at = self.at();
        let name = self.name()?;
        let Some(filter) = filters::find(&name) else {
            let fault = Fault::new(ErrorKind::UnknownFilter, format!("unknown filter `{name}`"));
            return Err(self.error(at, fault.hint(did_you_mean(&name, filters::names()))));
        };
        let (mut arguments, mut keywords) = (Vec::new(), Vec::new());
        if self.eat(":") {
            loop {
                match self.keyword() {
                    Some(keyword) => keywords.push((keyword, self.expr()?)),
                    None => arguments.push(self.expr()?),
                }
                if !self.eat(",") {
                    break;
                }
            }
        }
        filter
            .check(arguments.len(), keywords.iter().map(|(name, _)| &**name))
            .map_err(|fault| self.error(at, fault))?;
        Ok(FilterCall { at, filter, arguments, keywords })
    }

    /// Parses a literal, a variable or a range.
    pub(crate) fn expr(&mut self) -> Result<Expr, Error> {
        let at = self.at();
        if self.depth >= self.max_depth {
            return Err(self.error(at, Fault::limit("the nesting of expressions", self.max_depth)));
        }
        self.depth += 1;
        let expr = self.any_expr(at);
        self.depth -= 1;
        expr
    }

    fn any_expr(&mut self, at: usize) -> Result<Expr, Error> {
        let literal = match self.peek() {
            Some(Token::Name(name)) => {
                let name = name.clone();
                self.next += 1;
                return self.variable(at, name);
            }
            Some(Token::Sign("[")) => return self.path(at, None),
            Some(Token::Sign("(")) => return self.range(at),
            Some(Token::Text(text)) => Literal::Text(text.clone()),
            Some(Token::Int(int)) => Literal::Int(*int),
            Some(Token::Float(float)) => Literal::Float(*float),
            _ => return Err(self.unexpected("a value")),
        };
        self.next += 1;
        Ok(Expr::Literal(literal))
    }

    fn variable(&mut self, at: usize, name: Arc<str>) -> Result<Expr, Error> {
        if !self.looks_at(".") && !self.looks_at("[") {
            let literal = match &*name {
                "nil" | "null" => Some(Literal::Nil),
                "true" => Some(Literal::Bool(true)),
                "false" => Some(Literal::Bool(false)),
                "empty" => Some(Literal::Empty),
                "blank" => Some(Literal::Blank),
                _ => None,
            };
            if let Some(literal) = literal {
                return Ok(Expr::Literal(literal));
            }
        }
        self.path(at, Some(name))
    }

    fn path(&mut self, at: usize, name: Option<Arc<str>>) -> Result<Expr, Error> {
        let root = match name {
            Some(name) => Root::Name(name),
            None => Root::Index(Box::new(self.index()?)),
        };
        let mut segments = Vec::new();
        loop {
            if self.eat(".") {
                segments.push(Segment::Key(self.name()?));
            } else if self.looks_at("[") {
                segments.push(Segment::Index(self.index()?));
            } else {
                return Ok(Expr::Path(Path { at, root, segments }));
            }
        }
    }

    fn index(&mut self) -> Result<Expr, Error> {
        self.expect("[")?;
        let index = self.expr()?;
        self.expect("]")?;
        Ok(index)
    }

    fn range(&mut self, at: usize) -> Result<Expr, Error> {
        self.expect("(")?;
        let start = self.expr()?;
        self.expect("..")?;
        let end = self.expr()?;
        self.expect(")")?;
        Ok(Expr::Range(Box::new((start, end)), at))
    }

    /// Parses comparisons joined by `and` and `or`.
    pub(crate) fn condition(&mut self) -> Result<Condition, Error> {
        let mut terms = Vec::new();
        loop {
            let at = self.at();
            let left = self.expr()?;
            let test = match self.operator() {
                Some(operator) => Some((operator, self.expr()?)),
                None => None,
            };
            let join = if self.eat_word("and") {
                Join::And
            } else if self.eat_word("or") {
                Join::Or
            } else {
                Join::End
            };
            terms.push(Term { at, left, test, join });
            if join == Join::End {
                return Ok(Condition { terms });
            }
        }
    }

    fn operator(&mut self) -> Option<Operator> {
        let operator = match self.peek()? {
            Token::Sign("==") => Operator::Equal,
            Token::Sign("!=" | "<>") => Operator::NotEqual,
            Token::Sign("<") => Operator::Less,
            Token::Sign("<=") => Operator::LessOrEqual,
            Token::Sign(">") => Operator::Greater,
            Token::Sign(">=") => Operator::GreaterOrEqual,
            Token::Name(name) if **name == *"contains" => Operator::Contains,
            _ => return None,
        };
        self.next += 1;
        Some(operator)
    }
}
