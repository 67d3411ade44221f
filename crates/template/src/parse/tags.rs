//! Parses the tags that become nodes.

use std::sync::Arc;

use super::{Body, Cursor, Parser};
use crate::{
    error::{Error, Fault},
    parse::ast::{
        Arm, Bound, Branch, Case, Condition, CounterStep, Cycle, Expr, Group, Literal, Loop, NodeKind, Nodes,
        Offset, Partial,
    },
    parse::scanner::{Scanner, Span, Tag},
};

/// The kind of loop: they take different arguments.
#[derive(Clone, Copy, Eq, PartialEq)]
enum LoopKind {
    For,
    TableRow,
}

impl<'s> Parser<'s> {
    /// Parses `tag` if it is a tag without a body, and returns whether it is one.
    pub(super) fn simple(&self, body: &mut Body, tag: &Tag) -> Result<bool, Error> {
        let (node, blank) = match tag.name.of(self.text) {
            "assign" => (self.assign(tag)?, true),
            "echo" => (self.echo(tag)?, false),
            "increment" => (self.counter(tag, CounterStep::Up)?, false),
            "decrement" => (self.counter(tag, CounterStep::Down)?, false),
            "cycle" => (self.cycle(tag)?, false),
            "render" => (self.partial(tag, true)?, false),
            "include" => (self.partial(tag, false)?, false),
            "break" => (NodeKind::Break, false),
            "continue" => (NodeKind::Continue, false),
            _ => return Ok(false),
        };
        body.push_tag(tag, node, blank);
        Ok(true)
    }

    /// Parses `tag` if it is a tag with a body, and returns whether it is one.
    pub(super) fn block(
        &mut self,
        body: &mut Body,
        scanner: &mut Scanner<'s>,
        tag: &Tag,
    ) -> Result<bool, Error> {
        match tag.name.of(self.text) {
            "capture" => self.capture(body, scanner, tag)?,
            "if" => self.branches(body, scanner, tag, false)?,
            "unless" => self.branches(body, scanner, tag, true)?,
            "case" => self.case(body, scanner, tag)?,
            "for" => self.for_loop(body, scanner, tag)?,
            "tablerow" => self.table_row(body, scanner, tag)?,
            "ifchanged" => self.if_changed(body, scanner, tag)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn if_changed(&mut self, body: &mut Body, scanner: &mut Scanner<'s>, tag: &Tag) -> Result<(), Error> {
        let inner = self.closed_body(scanner, tag, "endifchanged")?;
        body.push_tag(tag, NodeKind::IfChanged(inner.nodes), inner.blank);
        Ok(())
    }

    fn closed_body(&mut self, scanner: &mut Scanner<'s>, tag: &Tag, end: &str) -> Result<Body, Error> {
        match self.body(scanner, &[end])? {
            (body, Some(_)) => Ok(body),
            (_, None) => Err(self.not_closed(tag)),
        }
    }

    fn assign(&self, tag: &Tag) -> Result<NodeKind, Error> {
        let mut cursor = self.cursor(tag.markup)?;
        let name = cursor.name()?;
        cursor.expect("=")?;
        let value = cursor.filtered()?;
        cursor.expect_end()?;
        Ok(NodeKind::Assign { name, value })
    }

    fn echo(&self, tag: &Tag) -> Result<NodeKind, Error> {
        let mut cursor = self.cursor(tag.markup)?;
        if cursor.at_end() {
            let span = Span { start: tag.markup.start, end: tag.markup.start };
            return Ok(NodeKind::Raw(span));
        }
        let value = cursor.filtered()?;
        cursor.expect_end()?;
        Ok(NodeKind::Output(value))
    }

    fn counter(&self, tag: &Tag, step: CounterStep) -> Result<NodeKind, Error> {
        let mut cursor = self.cursor(tag.markup)?;
        let name = cursor.name()?;
        cursor.expect_end()?;
        Ok(NodeKind::Counter { name, step })
    }

    fn cycle(&self, tag: &Tag) -> Result<NodeKind, Error> {
        let mut cursor = self.cursor(tag.markup)?;
        let first = cursor.expr()?;
        let (name, mut values) =
            if cursor.eat(":") { (Some(first), Vec::new()) } else { (None, vec![first]) };
        if name.is_some() {
            values.push(cursor.expr()?);
        }
        while cursor.eat(",") && !cursor.at_end() {
            values.push(cursor.expr()?);
        }
        cursor.expect_end()?;
        let group = match name {
            Some(name) => Group::Named(name),
            None => Group::Values(values.iter().map(Expr::to_string).collect::<Vec<_>>().join(",").into()),
        };
        Ok(NodeKind::Cycle(Box::new(Cycle { group, values })))
    }

    fn partial(&self, tag: &Tag, isolated: bool) -> Result<NodeKind, Error> {
        let mut cursor = self.cursor(tag.markup)?;
        let at = cursor.at();
        let name = cursor.expr()?;
        if isolated && !matches!(name, Expr::Literal(Literal::Text(_))) {
            return Err(self.error(at, Fault::syntax("the name of a partial stands in quotes")));
        }
        let bound = if cursor.eat_word("with") {
            Some(Bound { value: cursor.expr()?, each: false })
        } else if cursor.eat_word("for") {
            Some(Bound { value: cursor.expr()?, each: true })
        } else {
            None
        };
        let alias = if cursor.eat_word("as") { Some(cursor.name()?) } else { None };
        let arguments = partial_arguments(&mut cursor)?;
        Ok(NodeKind::Partial(Box::new(Partial { name, isolated, bound, alias, arguments })))
    }

    fn capture(&mut self, body: &mut Body, scanner: &mut Scanner<'s>, tag: &Tag) -> Result<(), Error> {
        let name = self.capture_name(tag)?;
        let inner = self.closed_body(scanner, tag, "endcapture")?;
        body.push_tag(tag, NodeKind::Capture { name, body: inner.nodes }, true);
        Ok(())
    }

    fn capture_name(&self, tag: &Tag) -> Result<Arc<str>, Error> {
        let mut cursor = self.cursor(tag.markup)?;
        let name = cursor.name_or_text()?;
        cursor.expect_end()?;
        Ok(name)
    }

    fn condition(&self, tag: &Tag) -> Result<Condition, Error> {
        let mut cursor = self.cursor(tag.markup)?;
        let condition = cursor.condition()?;
        cursor.expect_end()?;
        Ok(condition)
    }

    fn branches(
        &mut self,
        body: &mut Body,
        scanner: &mut Scanner<'s>,
        tag: &Tag,
        negated: bool,
    ) -> Result<(), Error> {
        let ends: &[&str] =
            if negated { &["elsif", "else", "endunless"] } else { &["elsif", "else", "endif"] };
        let mut condition = Some(self.condition(tag)?);
        let mut negated = negated;
        let mut branches = Vec::new();
        let mut bodies = Vec::new();
        loop {
            let (inner, end) = self.body(scanner, ends)?;
            let end = end.ok_or_else(|| self.not_closed(tag))?;
            branches.push((condition, negated));
            bodies.push(inner);
            (condition, negated) = match end.name.of(self.text) {
                "elsif" => (Some(self.condition(&end)?), false),
                "else" => (None, false),
                _ => break,
            };
        }
        let (bodies, blank) = finish(bodies);
        let branches = branches
            .into_iter()
            .zip(bodies)
            .map(|((condition, negated), body)| Branch { condition, negated, body })
            .collect();
        body.push_tag(tag, NodeKind::If(branches), blank);
        Ok(())
    }

    fn case(&mut self, body: &mut Body, scanner: &mut Scanner<'s>, tag: &Tag) -> Result<(), Error> {
        const ENDS: [&str; 3] = ["when", "else", "endcase"];
        let mut case = self.case_head(tag)?;
        // Content before the first `when` belongs to no arm and is never rendered.
        let (_, mut end) = self.body(scanner, &ENDS)?;
        let (mut arms, mut bodies) = (Vec::new(), Vec::new());
        loop {
            let start = end.ok_or_else(|| self.not_closed(tag))?;
            match start.name.of(self.text) {
                "when" => arms.push((start.whole.start, Some(self.when_values(&start)?))),
                "else" => arms.push((start.whole.start, None)),
                _ => break,
            }
            let (inner, next) = self.body(scanner, &ENDS)?;
            bodies.push(inner);
            end = next;
        }
        let (bodies, blank) = finish(bodies);
        let arms = arms.into_iter().zip(bodies);
        case.arms = arms.map(|((at, values), body)| Arm { at, values, body }).collect();
        body.push_tag(tag, NodeKind::Case(case), blank);
        Ok(())
    }

    fn case_head(&self, tag: &Tag) -> Result<Box<Case>, Error> {
        let mut cursor = self.cursor(tag.markup)?;
        let subject = cursor.expr()?;
        cursor.expect_end()?;
        Ok(Box::new(Case { subject, arms: Vec::new() }))
    }

    fn when_values(&self, tag: &Tag) -> Result<Vec<Expr>, Error> {
        let mut cursor = self.cursor(tag.markup)?;
        let mut values = vec![cursor.expr()?];
        while cursor.eat(",") || cursor.eat_word("or") {
            values.push(cursor.expr()?);
        }
        // Liquid ignores everything after the last value, and templates rely on it.
        Ok(values)
    }

    fn for_loop(&mut self, body: &mut Body, scanner: &mut Scanner<'s>, tag: &Tag) -> Result<(), Error> {
        let mut head = self.loop_head(tag, LoopKind::For)?;
        let mut bodies = Vec::new();
        loop {
            let (inner, end) = self.body(scanner, &["else", "endfor"])?;
            let end = end.ok_or_else(|| self.not_closed(tag))?;
            bodies.push(inner);
            if end.name.of(self.text) == "endfor" {
                break;
            }
        }
        let (bodies, blank) = finish(bodies);
        let mut bodies = bodies.into_iter();
        head.body = bodies.next().unwrap_or_default();
        head.otherwise = bodies.next().unwrap_or_default();
        body.push_tag(tag, NodeKind::For(head), blank);
        Ok(())
    }

    fn table_row(&mut self, body: &mut Body, scanner: &mut Scanner<'s>, tag: &Tag) -> Result<(), Error> {
        let mut head = self.loop_head(tag, LoopKind::TableRow)?;
        let inner = self.closed_body(scanner, tag, "endtablerow")?;
        head.body = inner.nodes;
        body.push_tag(tag, NodeKind::TableRow(head), inner.blank);
        Ok(())
    }

    fn loop_head(&self, tag: &Tag, kind: LoopKind) -> Result<Box<Loop>, Error> {
        let mut cursor = self.cursor(tag.markup)?;
        let variable = cursor.name()?;
        cursor.expect_word("in")?;
        let items = cursor.expr()?;
        let name: Arc<str> = format!("{variable}-{items}").into();
        let mut head = Box::new(Loop {
            variable,
            name,
            items,
            reversed: false,
            limit: None,
            offset: None,
            columns: None,
            body: Nodes::new(),
            otherwise: Nodes::new(),
        });
        while !cursor.at_end() {
            if !cursor.eat(",") {
                self.loop_argument(&mut cursor, kind, &mut head)?;
            }
        }
        Ok(head)
    }

    fn loop_argument(&self, cursor: &mut Cursor<'s>, kind: LoopKind, head: &mut Loop) -> Result<(), Error> {
        let at = cursor.at();
        if kind == LoopKind::For && cursor.eat_word("reversed") {
            head.reversed = true;
            return Ok(());
        }
        let Some(name) = cursor.keyword() else {
            return Err(cursor.unexpected("a loop argument"));
        };
        match &*name {
            "limit" => head.limit = Some(cursor.expr()?),
            "offset" if kind == LoopKind::For && cursor.eat_word("continue") => {
                head.offset = Some(Offset::Continue);
            }
            "offset" => head.offset = Some(Offset::At(cursor.expr()?)),
            "cols" if kind == LoopKind::TableRow => head.columns = Some(cursor.expr()?),
            _ => return Err(self.error(at, Fault::syntax(format!("unknown loop argument `{name}`")))),
        }
        Ok(())
    }
}

fn partial_arguments(cursor: &mut Cursor<'_>) -> Result<Vec<(Arc<str>, Expr)>, Error> {
    let mut arguments = Vec::new();
    loop {
        let comma = cursor.eat(",");
        if let Some(name) = cursor.keyword() {
            arguments.push((name, cursor.expr()?));
        } else if cursor.at_end() {
            return Ok(arguments);
        } else if !comma {
            return Err(cursor.unexpected("an argument"));
        } else {
            return Err(cursor.unexpected("`name: value`"));
        }
    }
}

/// Drops the text of the bodies if all of them are blank.
fn finish(mut bodies: Vec<Body>) -> (Vec<Nodes>, bool) {
    let blank = bodies.iter().all(|it| it.blank);
    if blank {
        bodies.iter_mut().for_each(Body::drop_text);
    }
    (bodies.into_iter().map(|it| it.nodes).collect(), blank)
}
