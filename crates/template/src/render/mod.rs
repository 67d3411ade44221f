//! Renders a tree into text.
//!
//! One [`Renderer`] handles a template and the partials it calls. It writes to a single buffer and looks up values
//! without copying them. Blocks are rendered by recursive calls of [`Renderer::block`], which count the nesting,
//! including that of partials.

mod config;
mod evaluate;
mod loops;
mod partials;
mod scope;

use std::sync::Arc;

use crate::{
    error::{Error, ErrorKind, Fault},
    limits::Meter,
    parse::ast::{Branch, Case, CounterStep, Cycle, Filtered, Group, Node, NodeKind},
    render::scope::Scope,
    source::Source,
    template::{Condition, Expression, Template},
    value::{Value, write_text},
};

use partials::circle;

pub use config::{Globals, Mode, Partials, RenderConfig};
pub(crate) use evaluate::Absent;

/// How rendering continues after a node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Flow {
    Next,
    Break,
    Continue,
}

/// The output buffer.
#[derive(Debug)]
struct Sink {
    text: String,
    limit: usize,
    /// The number of open captures: text inside a capture counts as a built value.
    captures: usize,
}

impl Sink {
    fn push(&mut self, part: &str, meter: &mut Meter) -> Result<(), Fault> {
        if self.captures > 0 {
            meter.build(part.len())?;
        } else if self.text.len().saturating_add(part.len()) > self.limit {
            return Err(Fault::limit("the rendered text's size in bytes", self.limit));
        }
        self.text.push_str(part);
        Ok(())
    }
}

/// Renders templates, conditions and expressions over one set of globals.
#[derive(Debug)]
pub(crate) struct Renderer<'r> {
    globals: Globals<'r>,
    config: RenderConfig<'r>,
    meter: Meter,
    sink: Sink,
    scope: Scope<'r>,
    /// The template or partial that is being rendered.
    source: Arc<Source>,
    /// The names of the partials that are being rendered, innermost last.
    partials: Vec<Arc<str>>,
    depth: usize,
    /// Whether this is inside a `render`, where `include` is not allowed.
    isolated: bool,
}

impl<'r> Renderer<'r> {
    pub(crate) fn new(source: &Arc<Source>, globals: &Globals<'r>, config: &RenderConfig<'r>) -> Self {
        Self {
            globals: *globals,
            config: *config,
            meter: Meter::new(config.limits),
            sink: Sink { text: String::new(), limit: config.limits.output_bytes, captures: 0 },
            scope: Scope::default(),
            source: source.clone(),
            partials: Vec::new(),
            depth: 0,
            isolated: false,
        }
    }

    /// Renders a whole template.
    pub(crate) fn template(mut self, nodes: &[Node]) -> Result<String, Error> {
        self.nodes(nodes)?;
        Ok(self.sink.text)
    }

    fn fail(&self, at: usize, fault: Fault) -> Error {
        // A partial without a name is reported under the name it was called with.
        let name = self.source.name.clone().or_else(|| self.partials.last().map(|it| it.to_string()));
        Error::new(fault, self.source.place(at), name)
    }

    fn located<T>(&self, at: usize, result: Result<T, Fault>) -> Result<T, Error> {
        result.map_err(|fault| self.fail(at, fault))
    }

    fn step(&mut self, at: usize) -> Result<(), Error> {
        let counted = self.meter.steps(1);
        self.located(at, counted)
    }

    fn push(&mut self, at: usize, text: &str) -> Result<(), Error> {
        let pushed = self.sink.push(text, &mut self.meter);
        self.located(at, pushed)
    }

    fn enter(&mut self, at: usize) -> Result<(), Error> {
        let limit = self.config.limits.depth();
        if self.depth >= limit {
            let fault = match circle(&self.partials) {
                Some(names) => Fault::new(
                    ErrorKind::LimitExceeded,
                    format!("partials render each other more than {limit} deep: {names}"),
                ),
                None => Fault::limit("the nesting of blocks and partials", limit),
            };
            return Err(self.fail(at, fault));
        }
        self.depth += 1;
        Ok(())
    }

    /// Renders the body of a block.
    fn block(&mut self, at: usize, nodes: &[Node]) -> Result<Flow, Error> {
        self.enter(at)?;
        let flow = self.nodes(nodes);
        self.depth -= 1;
        flow
    }

    fn nodes(&mut self, nodes: &[Node]) -> Result<Flow, Error> {
        for node in nodes {
            self.step(node.at)?;
            let flow = self.node(node)?;
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn node(&mut self, node: &Node) -> Result<Flow, Error> {
        let at = node.at;
        match &node.kind {
            NodeKind::Text(span) | NodeKind::Raw(span) => {
                let pushed = self.sink.push(span.of(&self.source.text), &mut self.meter);
                self.located(at, pushed)?;
            }
            NodeKind::Output(value) => self.output(at, value)?,
            NodeKind::Assign { name, value } => {
                let value = self.filtered(value)?;
                self.scope.assign(name, value);
            }
            NodeKind::Capture { name, body } => return self.capture(at, name, body),
            NodeKind::If(branches) => return self.branches(at, branches),
            NodeKind::Case(case) => return self.case(at, case),
            NodeKind::For(head) => return self.for_loop(at, head),
            NodeKind::TableRow(head) => self.table_row(at, head)?,
            NodeKind::Cycle(cycle) => self.cycle(at, cycle)?,
            NodeKind::Counter { name, step } => self.counter(at, name, *step)?,
            NodeKind::IfChanged(body) => return self.if_changed(at, body),
            NodeKind::Partial(partial) => return self.partial(at, partial),
            NodeKind::Break => return Ok(Flow::Break),
            NodeKind::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    fn output(&mut self, at: usize, value: &Filtered) -> Result<(), Error> {
        let value = self.filtered(value)?;
        self.show(at, &value)
    }

    fn show(&mut self, at: usize, value: &Value<'_>) -> Result<(), Error> {
        let (sink, meter) = (&mut self.sink, &mut self.meter);
        let shown = match value.as_str() {
            Some(text) => sink.push(text, meter),
            None => write_text(value, &mut |part| {
                meter.steps(1)?;
                sink.push(part, meter)
            }),
        };
        self.located(at, shown)
    }

    /// Renders `body` into a separate string.
    fn apart(&mut self, at: usize, body: &[Node]) -> Result<(String, Flow), Error> {
        let outside = std::mem::take(&mut self.sink.text);
        self.sink.captures += 1;
        let flow = self.block(at, body);
        self.sink.captures -= 1;
        let inside = std::mem::replace(&mut self.sink.text, outside);
        Ok((inside, flow?))
    }

    fn capture(&mut self, at: usize, name: &Arc<str>, body: &[Node]) -> Result<Flow, Error> {
        let (text, flow) = self.apart(at, body)?;
        self.scope.assign(name, text.into());
        Ok(flow)
    }

    fn if_changed(&mut self, at: usize, body: &[Node]) -> Result<Flow, Error> {
        let (text, flow) = self.apart(at, body)?;
        if self.scope.shown.as_deref() != Some(&*text) {
            self.push(at, &text)?;
            self.scope.shown = Some(text);
        }
        Ok(flow)
    }

    fn branches(&mut self, at: usize, branches: &[Branch]) -> Result<Flow, Error> {
        for branch in branches {
            let taken = match &branch.condition {
                Some(condition) => self.condition(condition)? != branch.negated,
                None => true,
            };
            if taken {
                return self.block(at, &branch.body);
            }
        }
        Ok(Flow::Next)
    }

    /// Renders each matching arm, once per matching value, and an `else` if no arm before it matched.
    fn case(&mut self, at: usize, case: &Case) -> Result<Flow, Error> {
        let subject = self.expr(&case.subject, Absent::Nil)?;
        let mut matched = false;
        for arm in &case.arms {
            let Some(values) = &arm.values else {
                if !matched {
                    let flow = self.block(at, &arm.body)?;
                    if flow != Flow::Next {
                        return Ok(flow);
                    }
                }
                continue;
            };
            for value in values {
                let value = self.expr(value, Absent::Nil)?;
                let equal = crate::value::compare::equal(&subject, &value, &mut self.meter);
                if self.located(arm.at, equal)? {
                    matched = true;
                    let flow = self.block(at, &arm.body)?;
                    if flow != Flow::Next {
                        return Ok(flow);
                    }
                }
            }
        }
        Ok(Flow::Next)
    }

    fn cycle(&mut self, at: usize, cycle: &Cycle) -> Result<(), Error> {
        let key = match &cycle.group {
            // The colon keeps names distinct from the texts that identify unnamed cycles.
            Group::Named(name) => {
                let name = self.expr(name, Absent::Error)?;
                let text = name.text(&mut self.meter).map(|text| format!(":{text}"));
                let counted = text.and_then(|text| self.meter.build(text.len()).map(|()| text));
                self.located(at, counted)?
            }
            Group::Values(text) => text.to_string(),
        };
        let idx = self.scope.cycles.get(&key).copied().unwrap_or(0);
        let next = if idx + 1 >= cycle.values.len() { 0 } else { idx + 1 };
        self.scope.cycles.insert(key, next);
        match cycle.values.get(idx) {
            Some(value) => {
                let value = self.expr(value, Absent::Error)?;
                self.show(at, &value)
            }
            None => Ok(()),
        }
    }

    fn counter(&mut self, at: usize, name: &Arc<str>, step: CounterStep) -> Result<(), Error> {
        let count = match step {
            CounterStep::Up => self.scope.count(name, 1).0,
            CounterStep::Down => self.scope.count(name, -1).1,
        };
        self.push(at, &count.to_string())
    }
}

impl Template {
    /// Renders the template. Equal inputs give equal output.
    pub fn render(&self, globals: &Globals<'_>, config: &RenderConfig<'_>) -> Result<String, Error> {
        Renderer::new(&self.parsed.source, globals, config).template(&self.parsed.tree)
    }
}

impl Condition {
    /// Evaluates the condition.
    pub fn evaluate(&self, globals: &Globals<'_>, config: &RenderConfig<'_>) -> Result<bool, Error> {
        Renderer::new(&self.parsed.source, globals, config).condition(&self.parsed.tree)
    }
}

impl Expression {
    /// Evaluates the expression to a JSON value.
    pub fn evaluate(
        &self,
        globals: &Globals<'_>,
        config: &RenderConfig<'_>,
    ) -> Result<serde_json::Value, Error> {
        let mut renderer = Renderer::new(&self.parsed.source, globals, config);
        let value = renderer.filtered(&self.parsed.tree)?;
        renderer.json(&value)
    }
}
