//! Finds the global variables and partials that a template uses, without rendering it.

use std::{collections::HashSet, sync::Arc};

use crate::{
    error::Place,
    parse::ast::{
        Condition, Cycle, Expr, Filtered, Group, Literal, Loop, Node, NodeKind, Offset, Partial, Path, Root,
        Segment,
    },
    source::Source,
};

/// A global variable that a template reads.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Variable {
    /// The static part of the path: `input.items[i].name` is `["input", "items"]`.
    pub path: Vec<String>,
    /// The first place where the path is read.
    pub place: Place,
}

/// Collects variables and partials in source order.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    found: Vec<(Vec<String>, usize)>,
    seen: HashSet<Vec<String>>,
    /// Variables set so far by `assign`, `capture` and counters.
    assigned: HashSet<Arc<str>>,
    /// The variables of open loops.
    bound: Vec<Arc<str>>,
    partials: Vec<(String, usize)>,
    /// Whether the output shows the time of rendering.
    time: bool,
}

impl Reads {
    pub(crate) fn variables(self, source: &Source) -> Vec<Variable> {
        let (paths, offsets): (Vec<_>, Vec<_>) = self.found.into_iter().unzip();
        let places = source.places(&offsets);
        paths.into_iter().zip(places).map(|(path, place)| Variable { path, place }).collect()
    }

    pub(crate) fn time(&self) -> bool {
        self.time
    }

    /// Whether `date` may read this as the time of rendering. A variable set by the template may hold any text.
    fn may_be_now(&self, base: &Expr) -> bool {
        match base {
            Expr::Literal(Literal::Text(text)) => {
                text.eq_ignore_ascii_case("now") || text.eq_ignore_ascii_case("today")
            }
            Expr::Path(Path { root: Root::Name(name), .. }) => self.assigned.contains(name),
            Expr::Literal(_) | Expr::Range(..) | Expr::Path(_) => false,
        }
    }

    pub(crate) fn partials(self, source: &Source) -> Vec<(String, Place)> {
        let (names, offsets): (Vec<_>, Vec<_>) = self.partials.into_iter().unzip();
        names.into_iter().zip(source.places(&offsets)).collect()
    }

    pub(crate) fn nodes(&mut self, nodes: &[Node]) {
        for node in nodes {
            self.node(node);
        }
    }

    fn node(&mut self, node: &Node) {
        match &node.kind {
            NodeKind::Text(_) | NodeKind::Raw(_) | NodeKind::Break | NodeKind::Continue => {}
            NodeKind::Output(value) => self.filtered(value),
            NodeKind::Assign { name, value } => {
                self.filtered(value);
                self.assigned.insert(name.clone());
            }
            NodeKind::Capture { name, body } => {
                self.nodes(body);
                self.assigned.insert(name.clone());
            }
            NodeKind::If(branches) => {
                for branch in branches {
                    branch.condition.iter().for_each(|it| self.condition(it));
                    self.nodes(&branch.body);
                }
            }
            NodeKind::Case(case) => {
                self.expr(&case.subject);
                for arm in &case.arms {
                    arm.values.iter().flatten().for_each(|it| self.expr(it));
                    self.nodes(&arm.body);
                }
            }
            NodeKind::For(head) => self.each(head, "forloop"),
            NodeKind::TableRow(head) => self.each(head, "tablerowloop"),
            NodeKind::Cycle(cycle) => self.cycle(cycle),
            NodeKind::Counter { name, .. } => drop(self.assigned.insert(name.clone())),
            NodeKind::IfChanged(body) => self.nodes(body),
            NodeKind::Partial(partial) => self.partial(node.at, partial),
        }
    }

    fn each(&mut self, head: &Loop, state: &str) {
        self.expr(&head.items);
        head.limit.iter().chain(&head.columns).for_each(|it| self.expr(it));
        if let Some(Offset::At(offset)) = &head.offset {
            self.expr(offset);
        }
        self.bound.push(state.into());
        self.bound.push(head.variable.clone());
        self.nodes(&head.body);
        self.bound.truncate(self.bound.len() - 2);
        self.nodes(&head.otherwise);
    }

    fn cycle(&mut self, cycle: &Cycle) {
        if let Group::Named(name) = &cycle.group {
            self.expr(name);
        }
        cycle.values.iter().for_each(|it| self.expr(it));
    }

    fn partial(&mut self, at: usize, partial: &Partial) {
        match &partial.name {
            Expr::Literal(Literal::Text(name)) => self.partials.push((name.to_string(), at)),
            name => self.expr(name),
        }
        partial.bound.iter().for_each(|it| self.expr(&it.value));
        partial.arguments.iter().for_each(|(_, it)| self.expr(it));
    }

    pub(crate) fn filtered(&mut self, filtered: &Filtered) {
        self.expr(&filtered.base);
        self.time |=
            filtered.filters.iter().any(|it| it.filter.name == "date") && self.may_be_now(&filtered.base);
        for call in &filtered.filters {
            call.arguments.iter().for_each(|it| self.expr(it));
            call.keywords.iter().for_each(|(_, it)| self.expr(it));
        }
    }

    pub(crate) fn condition(&mut self, condition: &Condition) {
        for term in &condition.terms {
            self.expr(&term.left);
            term.test.iter().for_each(|(_, right)| self.expr(right));
        }
    }

    fn expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Literal(_) => {}
            Expr::Range(bounds, _) => {
                self.expr(&bounds.0);
                self.expr(&bounds.1);
            }
            Expr::Path(path) => self.path(path),
        }
    }

    fn path(&mut self, path: &Path) {
        let root = match &path.root {
            Root::Name(name) => Some(name),
            Root::Index(index) => text(index),
        };
        if let Some(root) = root.filter(|it| !self.assigned.contains(*it) && !self.bound.contains(it)) {
            let fixed = path.segments.iter().map_while(|segment| match segment {
                Segment::Key(key) => Some(key.to_string()),
                Segment::Index(index) => text(index).map(|it| it.to_string()),
            });
            let found: Vec<String> = std::iter::once(root.to_string()).chain(fixed).collect();
            if self.seen.insert(found.clone()) {
                self.found.push((found, path.at));
            }
        }
        if let Root::Index(index) = &path.root {
            self.expr(index);
        }
        for segment in &path.segments {
            if let Segment::Index(index) = segment {
                self.expr(index);
            }
        }
    }
}

fn text(expr: &Expr) -> Option<&Arc<str>> {
    match expr {
        Expr::Literal(Literal::Text(text)) => Some(text),
        _ => None,
    }
}
