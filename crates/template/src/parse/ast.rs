//! A parsed template.
//!
//! The tree holds no caller data and does not borrow from the source. Offsets into the source locate text and errors.
//! Literals are shared, so a value made from one can outlive its partial.

use std::{fmt, sync::Arc};

use crate::{filters::Filter, parse::scanner::Span, value::compare::Operator, value::number};

/// The nodes of a template or of a block's body.
pub(crate) type Nodes = Vec<Node>;

/// A node and the offset that its errors are reported at.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) at: usize,
    pub(crate) kind: NodeKind,
}

#[derive(Debug)]
pub(crate) enum NodeKind {
    Text(Span),
    /// The content of a raw block; whitespace control does not apply to it.
    Raw(Span),
    Output(Filtered),
    Assign {
        name: Arc<str>,
        value: Filtered,
    },
    Capture {
        name: Arc<str>,
        body: Nodes,
    },
    If(Vec<Branch>),
    Case(Box<Case>),
    For(Box<Loop>),
    TableRow(Box<Loop>),
    Cycle(Box<Cycle>),
    Counter {
        name: Arc<str>,
        step: CounterStep,
    },
    IfChanged(Nodes),
    Partial(Box<Partial>),
    Break,
    Continue,
}

/// `increment` or `decrement`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum CounterStep {
    Up,
    Down,
}

/// One branch of an `if` or `unless`; an `else` has no condition.
#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) condition: Option<Condition>,
    /// Whether to invert the condition: `unless` inverts its first one.
    pub(crate) negated: bool,
    pub(crate) body: Nodes,
}

#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) subject: Expr,
    pub(crate) arms: Vec<Arm>,
}

/// A `when` with its values, or an `else` without any.
#[derive(Debug)]
pub(crate) struct Arm {
    pub(crate) at: usize,
    pub(crate) values: Option<Vec<Expr>>,
    pub(crate) body: Nodes,
}

/// A `for` or `tablerow`.
#[derive(Debug)]
pub(crate) struct Loop {
    pub(crate) variable: Arc<str>,
    /// `variable-collection`: the key under which `offset: continue` finds the previous loop.
    pub(crate) name: Arc<str>,
    pub(crate) items: Expr,
    pub(crate) reversed: bool,
    pub(crate) limit: Option<Expr>,
    pub(crate) offset: Option<Offset>,
    pub(crate) columns: Option<Expr>,
    pub(crate) body: Nodes,
    pub(crate) otherwise: Nodes,
}

#[derive(Debug)]
pub(crate) enum Offset {
    Continue,
    At(Expr),
}

#[derive(Debug)]
pub(crate) struct Cycle {
    pub(crate) group: Group,
    pub(crate) values: Vec<Expr>,
}

/// Identifies a cycle: cycles of the same group share their position.
#[derive(Debug)]
pub(crate) enum Group {
    Named(Expr),
    /// A cycle without a name is identified by the text of its values.
    Values(Arc<str>),
}

/// A `render` or `include`.
#[derive(Debug)]
pub(crate) struct Partial {
    pub(crate) name: Expr,
    pub(crate) isolated: bool,
    pub(crate) bound: Option<Bound>,
    pub(crate) alias: Option<Arc<str>>,
    pub(crate) arguments: Vec<(Arc<str>, Expr)>,
}

/// The value after `with` or `for`.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) value: Expr,
    pub(crate) each: bool,
}

/// An expression and the filters applied to it.
#[derive(Debug)]
pub(crate) struct Filtered {
    pub(crate) base: Expr,
    pub(crate) filters: Vec<FilterCall>,
}

#[derive(Debug)]
pub(crate) struct FilterCall {
    pub(crate) at: usize,
    pub(crate) filter: &'static Filter,
    pub(crate) arguments: Vec<Expr>,
    pub(crate) keywords: Vec<(Arc<str>, Expr)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Nil,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(Arc<str>),
    Empty,
    Blank,
}

#[derive(Debug)]
pub(crate) enum Expr {
    Literal(Literal),
    Path(Path),
    Range(Box<(Expr, Expr)>, usize),
}

/// A variable such as `input.items[0].title`.
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) at: usize,
    pub(crate) root: Root,
    pub(crate) segments: Vec<Segment>,
}

#[derive(Debug)]
pub(crate) enum Root {
    Name(Arc<str>),
    /// `["first name"]` or `[key]`.
    Index(Box<Expr>),
}

#[derive(Debug)]
pub(crate) enum Segment {
    Key(Arc<str>),
    Index(Expr),
}

/// Comparisons joined by `and` and `or`, which group from the right.
#[derive(Debug)]
pub(crate) struct Condition {
    pub(crate) terms: Vec<Term>,
}

/// A comparison and the operator that joins it to the next one.
#[derive(Debug)]
pub(crate) struct Term {
    pub(crate) at: usize,
    pub(crate) left: Expr,
    pub(crate) test: Option<(Operator, Expr)>,
    pub(crate) join: Join,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Join {
    And,
    Or,
    End,
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expr::Literal(literal) => literal.fmt(f),
            Expr::Path(path) => path.fmt(f),
            Expr::Range(bounds, _) => write!(f, "({}..{})", bounds.0, bounds.1),
        }
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Literal::Nil => f.write_str("nil"),
            Literal::Bool(value) => value.fmt(f),
            Literal::Int(value) => value.fmt(f),
            Literal::Float(value) => f.write_str(&number::format_float(*value)),
            Literal::Text(value) => write!(f, "\"{value}\""),
            Literal::Empty => f.write_str("empty"),
            Literal::Blank => f.write_str("blank"),
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.root {
            Root::Name(name) => f.write_str(name)?,
            Root::Index(index) => write!(f, "[{index}]")?,
        }
        for segment in &self.segments {
            match segment {
                Segment::Key(key) => write!(f, ".{key}")?,
                Segment::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}
