//! Renders `render` and `include`.
//!
//! A `render`ed partial sees only its arguments and the globals. An `include`d partial shares the variables of its
//! caller. Both count as nesting, so recursive partials terminate.

use std::{rc::Rc, sync::Arc};

use super::{Absent, Flow, Renderer};
use crate::{
    error::{Error, ErrorKind, Fault},
    parse::ast::Partial,
    render::scope::Scope,
    template::Template,
    value::Value,
    value::loops::{Items, LoopState},
};

impl<'r> Renderer<'r> {
    pub(super) fn partial(&mut self, at: usize, partial: &Partial) -> Result<Flow, Error> {
        if partial.isolated {
            self.render(at, partial).map(|()| Flow::Next)
        } else {
            self.include(at, partial)
        }
    }

    fn load(&mut self, at: usize, partial: &Partial) -> Result<(Arc<str>, Template), Error> {
        let value = self.expr(&partial.name, Absent::Error)?;
        let Some(name) = value.as_str() else {
            let fault = Fault::argument(format!("{} is not the name of a partial", value.describe()));
            return Err(self.fail(at, fault));
        };
        let read = self.meter.read(name);
        self.located(at, read)?;
        match self.config.partials.and_then(|it| it.partial(name)) {
            Some(template) => Ok((name.into(), template)),
            None => Err(self.fail(at, Fault::new(ErrorKind::MissingPartial, format!("no partial `{name}`")))),
        }
    }

    fn arguments(&mut self, partial: &Partial) -> Result<Vec<(Arc<str>, Value<'r>)>, Error> {
        let mut arguments = Vec::with_capacity(partial.arguments.len());
        for (name, value) in &partial.arguments {
            arguments.push((name.clone(), self.expr(value, Absent::Error)?));
        }
        Ok(arguments)
    }

    fn render(&mut self, at: usize, partial: &Partial) -> Result<(), Error> {
        let (name, template) = self.load(at, partial)?;
        let bound = match &partial.bound {
            Some(bound) => Some((self.expr(&bound.value, Absent::Error)?, bound.each)),
            None => None,
        };
        let variable = partial.alias.clone().unwrap_or_else(|| variable_name(&name));
        let arguments = self.arguments(partial)?;
        let each = match &bound {
            Some((
                value @ (Value::Array(_) | Value::List(_) | Value::Range(..) | Value::Object(_)),
                true,
            )) => value,
            _ => {
                let value = bound.map(|(value, _)| value).filter(|it| !it.is_nil());
                let bindings = arguments.into_iter().chain(value.map(|value| (variable, value)));
                return self.isolated(at, &name, &template, bindings);
            }
        };
        let items = Items::of(each, &mut self.meter);
        let items = self.located(at, items)?;
        let state = Rc::new(LoopState::new(name.clone(), items.length(), None));
        for idx in 0..items.length() {
            self.step(at)?;
            let own = [("forloop".into(), Value::Loop(state.clone())), (variable.clone(), items.get(idx))];
            self.isolated(at, &name, &template, arguments.iter().cloned().chain(own))?;
            state.advance();
        }
        Ok(())
    }

    /// Renders a partial that sees only `bindings` and the globals.
    fn isolated(
        &mut self,
        at: usize,
        name: &Arc<str>,
        template: &Template,
        bindings: impl Iterator<Item = (Arc<str>, Value<'r>)>,
    ) -> Result<(), Error> {
        let mut scope = Scope::default();
        bindings.for_each(|(name, value)| scope.assign(&name, value));
        let outside = std::mem::replace(&mut self.scope, scope);
        let was_isolated = std::mem::replace(&mut self.isolated, true);
        let flow = self.inside(at, name, template);
        self.isolated = was_isolated;
        self.scope = outside;
        flow.map(drop)
    }

    fn include(&mut self, at: usize, partial: &Partial) -> Result<Flow, Error> {
        if self.isolated {
            let fault = Fault::new(ErrorKind::UnknownTag, "tag `include` is not allowed inside `render`");
            return Err(self.fail(at, fault));
        }
        let (name, template) = self.load(at, partial)?;
        let variable = partial.alias.clone().unwrap_or_else(|| variable_name(&name));
        let bound = match &partial.bound {
            Some(bound) => Some(self.expr(&bound.value, Absent::Error)?),
            None => self.named(&name),
        };
        let arguments = self.arguments(partial)?;
        let mark = self.scope.mark();
        arguments.iter().for_each(|(name, value)| self.scope.bind(name, value.clone()));
        let flow = self.included(at, &name, &template, &variable, bound);
        self.scope.unbind(mark);
        flow
    }

    fn included(
        &mut self,
        at: usize,
        name: &Arc<str>,
        template: &Template,
        variable: &Arc<str>,
        bound: Option<Value<'r>>,
    ) -> Result<Flow, Error> {
        let Some(value) = bound else { return self.inside(at, name, template) };
        self.scope.bind(variable, value.clone());
        if !matches!(value, Value::Array(_) | Value::List(_)) {
            return self.inside(at, name, template);
        }
        let items = Items::of(&value, &mut self.meter);
        let items = self.located(at, items)?;
        for idx in 0..items.length() {
            self.step(at)?;
            self.scope.rebind(items.get(idx));
            let flow = self.inside(at, name, template)?;
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    /// Renders a partial in the current scope.
    fn inside(&mut self, at: usize, name: &Arc<str>, template: &Template) -> Result<Flow, Error> {
        self.enter(at)?;
        let source = std::mem::replace(&mut self.source, template.parsed.source.clone());
        self.partials.push(name.clone());
        let flow = self.nodes(&template.parsed.tree);
        self.partials.pop();
        self.source = source;
        self.depth -= 1;
        flow
    }
}

/// Returns the first cycle of partials, such as `a -> b -> a`.
pub(super) fn circle(partials: &[Arc<str>]) -> Option<String> {
    partials.iter().enumerate().find_map(|(start, name)| {
        let length = partials.iter().skip(start + 1).position(|it| it == name)? + 2;
        let names: Vec<&str> = partials.iter().skip(start).take(length).map(|it| &**it).collect();
        Some(names.join(" -> "))
    })
}

/// Returns the variable for a partial's value: `product` for the partial `cards/product`.
fn variable_name(name: &str) -> Arc<str> {
    name.rsplit('/').next().unwrap_or(name).into()
}
