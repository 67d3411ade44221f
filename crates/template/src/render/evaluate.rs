//! Evaluates expressions, filters and conditions.

use super::Renderer;
use crate::{
    error::{Error, ErrorKind, Fault},
    filters::{self, Args, Tools},
    nearest::nearest,
    parse::ast::{self, Expr, FilterCall, Filtered, Join, Literal, Path, Root, Segment, Term},
    render::config::Mode,
    value::Value,
    value::compare,
};

/// The number of map keys that are considered for a suggestion.
const MAX_GUESSED: usize = 1_000;

/// How an absent variable is treated in strict mode.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Absent {
    /// It is nil, as in conditions.
    Nil,
    /// It is an error.
    Error,
}

impl<'r> Renderer<'r> {
    /// Evaluates an expression and its filters. An absent variable is nil if the first filter is `default`.
    pub(crate) fn filtered(&mut self, filtered: &Filtered) -> Result<Value<'r>, Error> {
        let guarded = filtered.filters.first().is_some_and(|it| it.filter.name == "default");
        let mut value = self.expr(&filtered.base, if guarded { Absent::Nil } else { Absent::Error })?;
        for call in &filtered.filters {
            value = self.filter(value, call)?;
        }
        Ok(value)
    }

    fn filter(&mut self, input: Value<'r>, call: &FilterCall) -> Result<Value<'r>, Error> {
        let mut args = Args::default();
        if let Some(first) = call.arguments.first() {
            args.first = Some(self.expr(first, Absent::Error)?);
        }
        if let Some(second) = call.arguments.get(1) {
            args.second = Some(self.expr(second, Absent::Error)?);
        }
        for (_, value) in &call.keywords {
            args.allow_false = self.expr(value, Absent::Error)?.is_true();
        }
        let mut tools = Tools { meter: &mut self.meter, now: self.config.now };
        let result = filters::apply(call.filter, input, &args, &mut tools);
        self.located(call.at, result)
    }

    /// Evaluates a literal, a variable or a range.
    pub(crate) fn expr(&mut self, expr: &Expr, absent: Absent) -> Result<Value<'r>, Error> {
        match expr {
            Expr::Literal(literal) => Ok(literal.into()),
            Expr::Path(path) => self.variable(path, absent),
            Expr::Range(bounds, at) => self.range(&bounds.0, &bounds.1, *at, absent),
        }
    }

    fn range(&mut self, start: &Expr, end: &Expr, at: usize, absent: Absent) -> Result<Value<'r>, Error> {
        let start = self.expr(start, absent)?.loose_integer();
        let start = self.located(at, start)?;
        let end = self.expr(end, absent)?.loose_integer();
        let end = self.located(at, end)?;
        Ok(Value::Range(clamp(start), clamp(end)))
    }

    fn variable(&mut self, path: &Path, absent: Absent) -> Result<Value<'r>, Error> {
        match self.lookup(path, absent)? {
            Some(value) => Ok(value),
            None if self.config.mode == Mode::Lenient || absent == Absent::Nil => Ok(Value::Nil),
            None => {
                let message = format!("undefined variable `{path}`");
                let fault = Fault::new(ErrorKind::UndefinedVariable, message).hint(self.guess(path));
                Err(self.fail(path.at, fault))
            }
        }
    }

    /// Suggests a variable, assuming that the first missing name in the path is a typo.
    fn guess(&self, path: &Path) -> Option<String> {
        let Root::Name(root) = &path.root else { return None };
        let Some(mut value) = self.named(root) else {
            let meant = nearest(root, self.globals.names())?;
            return Some(format!("did you mean `{}`?", path.to_string().replacen(&**root, meant, 1)));
        };
        let mut known = root.to_string();
        for segment in &path.segments {
            let Segment::Key(key) = segment else { return None };
            match member(&value, key) {
                Some(inner) => value = inner,
                None => {
                    let Value::Object(map) = value else { return None };
                    let meant = nearest(key, map.keys().take(MAX_GUESSED).map(String::as_str))?;
                    return Some(format!("did you mean `{known}.{meant}`?"));
                }
            }
            known = format!("{known}.{key}");
        }
        None
    }

    fn lookup(&mut self, path: &Path, absent: Absent) -> Result<Option<Value<'r>>, Error> {
        self.step(path.at)?;
        let root = match &path.root {
            Root::Name(name) => self.named(name),
            Root::Index(index) => {
                let name = self.index(path, index, absent)?;
                name.as_str().and_then(|name| self.named(name))
            }
        };
        let Some(mut value) = root else { return Ok(None) };
        for segment in &path.segments {
            let next = match segment {
                Segment::Key(key) => {
                    let read = self.meter.read(value.as_str().unwrap_or(""));
                    self.located(path.at, read)?;
                    member(&value, key)
                }
                Segment::Index(index) => {
                    let index = self.index(path, index, absent)?;
                    item(&value, &index)
                }
            };
            match next {
                Some(next) => value = next,
                None => return Ok(None),
            }
        }
        Ok(Some(value))
    }

    /// Evaluates an index. Looking up a long key takes longer, so its length is counted.
    fn index(&mut self, path: &Path, index: &Expr, absent: Absent) -> Result<Value<'r>, Error> {
        let index = self.expr(index, absent)?;
        let read = self.meter.read(index.as_str().unwrap_or(""));
        self.located(path.at, read)?;
        Ok(index)
    }

    /// Looks up a name, first among the template's variables, then among the globals.
    pub(super) fn named(&self, name: &str) -> Option<Value<'r>> {
        self.scope.get(name).or_else(|| self.globals.get(name).map(Value::from))
    }

    /// Evaluates a condition. `and` and `or` group from the right and short-circuit.
    pub(crate) fn condition(&mut self, condition: &ast::Condition) -> Result<bool, Error> {
        let mut result = false;
        for term in &condition.terms {
            result = self.term(term)?;
            match term.join {
                Join::And if !result => return Ok(false),
                Join::Or if result => return Ok(true),
                _ => {}
            }
        }
        Ok(result)
    }

    fn term(&mut self, term: &Term) -> Result<bool, Error> {
        self.step(term.at)?;
        let left = self.expr(&term.left, Absent::Nil)?;
        let Some((operator, right)) = &term.test else { return Ok(left.is_true()) };
        let right = self.expr(right, Absent::Nil)?;
        let result = compare::test(&left, *operator, &right, &mut self.meter);
        self.located(term.at, result)
    }

    /// Converts a value to JSON.
    pub(crate) fn json(&mut self, value: &Value<'_>) -> Result<serde_json::Value, Error> {
        let json = crate::value::to_json(value, &mut self.meter, 0);
        self.located(0, json)
    }
}

fn clamp(int: i128) -> i64 {
    i64::try_from(int).unwrap_or(if int < 0 { i64::MIN } else { i64::MAX })
}

/// Returns `value.key`: a map entry, or else `size`, `first` or `last`.
fn member<'r>(value: &Value<'r>, key: &str) -> Option<Value<'r>> {
    match value {
        Value::Object(map) => {
            if let Some(value) = map.get(key) {
                return Some(value.into());
            }
        }
        Value::Loop(state) => return state.field(key),
        _ => {}
    }
    match key {
        "size" => value.size().map(|size| Value::Int(size as i128)),
        "first" => value.first(),
        "last" => value.last(),
        _ => None,
    }
}

/// Returns `value[index]`; a negative index counts from the end of a list.
fn item<'r>(value: &Value<'r>, index: &Value<'_>) -> Option<Value<'r>> {
    match (value, index) {
        (Value::Array(items), Value::Int(idx)) => items.get(position(items.len(), *idx)?).map(Value::from),
        (Value::List(items), Value::Int(idx)) => items.get(position(items.len(), *idx)?).cloned(),
        (Value::Object(map), _) => map.get(index.as_str()?).map(Value::from),
        (Value::Loop(state), _) => state.field(index.as_str()?),
        _ => None,
    }
}

fn position(length: usize, idx: i128) -> Option<usize> {
    let idx = if idx < 0 { idx.checked_add(length as i128)? } else { idx };
    usize::try_from(idx).ok()
}

impl From<&Literal> for Value<'_> {
    fn from(literal: &Literal) -> Self {
        match literal {
            Literal::Nil => Value::Nil,
            Literal::Bool(value) => Value::Bool(*value),
            Literal::Int(value) => Value::Int(*value),
            Literal::Float(value) => Value::Float(*value),
            Literal::Text(text) => Value::Text(text.clone()),
            Literal::Empty => Value::Empty,
            Literal::Blank => Value::Blank,
        }
    }
}
