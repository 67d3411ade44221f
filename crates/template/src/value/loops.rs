//! Loop items, and the loop state that templates can read.

use std::{cell::Cell, rc::Rc, sync::Arc};

use serde_json::Value as Json;

use crate::{
    error::Fault,
    limits::Meter,
    value::{self, Value},
};

/// The state behind `forloop` and `tablerowloop`.
#[derive(Debug)]
pub(crate) struct LoopState {
    name: Arc<str>,
    length: u128,
    index: Cell<u128>,
    parent: Option<Rc<LoopState>>,
    table: Option<Table>,
}

#[derive(Debug)]
struct Table {
    columns: i128,
    row: Cell<u128>,
    column: Cell<i128>,
}

impl LoopState {
    /// Creates the state of a `for` loop.
    pub(crate) fn new(name: Arc<str>, length: u128, parent: Option<Rc<LoopState>>) -> Self {
        Self { name, length, index: Cell::new(0), parent, table: None }
    }

    /// Creates the state of a `tablerow` loop.
    pub(crate) fn table(length: u128, columns: i128) -> Self {
        let table = Table { columns, row: Cell::new(1), column: Cell::new(1) };
        Self { name: "".into(), length, index: Cell::new(0), parent: None, table: Some(table) }
    }

    /// Advances to the next iteration.
    pub(crate) fn advance(&self) {
        self.index.set(self.index.get() + 1);
        if let Some(table) = &self.table {
            if table.column.get() == table.columns {
                table.column.set(1);
                table.row.set(table.row.get() + 1);
            } else {
                table.column.set(table.column.get() + 1);
            }
        }
    }

    pub(crate) fn is_last(&self) -> bool {
        self.index.get() + 1 == self.length
    }

    /// Returns the row, the column, and whether the column is the last one of its row.
    pub(crate) fn cell(&self) -> (u128, i128, bool) {
        self.table
            .as_ref()
            .map_or((1, 1, false), |it| (it.row.get(), it.column.get(), it.column.get() == it.columns))
    }

    pub(crate) fn type_name(&self) -> &'static str {
        if self.table.is_some() { "Liquid::TablerowloopDrop" } else { "Liquid::ForloopDrop" }
    }

    /// Returns a field such as `index` or `parentloop`, or `None` if there is no such field.
    pub(crate) fn field<'a>(&self, name: &str) -> Option<Value<'a>> {
        let index = self.index.get();
        let int = |it: u128| Value::Int(it as i128);
        Some(match name {
            "length" => int(self.length),
            "index" => int(index + 1),
            "index0" => int(index),
            "rindex" => int(self.length.saturating_sub(index)),
            "rindex0" => int(self.length.saturating_sub(index + 1)),
            "first" => Value::Bool(index == 0),
            "last" => Value::Bool(self.is_last()),
            _ => return self.kind_field(name),
        })
    }

    fn kind_field<'a>(&self, name: &str) -> Option<Value<'a>> {
        let Some(table) = &self.table else {
            return match name {
                "name" => Some(Value::Text(self.name.clone())),
                "parentloop" => Some(self.parent.clone().map_or(Value::Nil, Value::Loop)),
                _ => None,
            };
        };
        let column = table.column.get();
        Some(match name {
            "row" => Value::Int(table.row.get() as i128),
            "col" => Value::Int(column),
            "col0" => Value::Int(column - 1),
            "col_first" => Value::Bool(column == 1),
            "col_last" => Value::Bool(column == table.columns),
            _ => return None,
        })
    }
}

/// The items of a collection, read lazily.
#[derive(Debug)]
pub(crate) enum Items<'a> {
    None,
    Array(&'a [Json]),
    List(Rc<Vec<Value<'a>>>),
    Range(i64, i64),
    Entries(Vec<(&'a str, &'a Json)>),
    /// A string is a single item, regardless of `limit` and `offset`.
    One(Value<'a>),
}

impl<'a> Items<'a> {
    /// Returns the items of `value`; nil, numbers and booleans have none.
    pub(crate) fn of(value: &Value<'a>, meter: &mut Meter) -> Result<Self, Fault> {
        Ok(match value {
            Value::Array(items) => Items::Array(items),
            Value::List(items) => Items::List(items.clone()),
            Value::Range(start, end) => Items::Range(*start, *end),
            Value::Object(map) => {
                meter.list(map.len())?;
                Items::Entries(map.iter().map(|(key, value)| (key.as_str(), value)).collect())
            }
            Value::Str(_) | Value::Text(_) if !value.is_empty() => Items::One(value.clone()),
            _ => Items::None,
        })
    }

    pub(crate) fn length(&self) -> u128 {
        match self {
            Items::None => 0,
            Items::Array(items) => items.len() as u128,
            Items::List(items) => items.len() as u128,
            Items::Range(start, end) => value::range_length(*start, *end),
            Items::Entries(entries) => entries.len() as u128,
            Items::One(_) => 1,
        }
    }

    pub(crate) fn get(&self, idx: u128) -> Value<'a> {
        let at = usize::try_from(idx).unwrap_or(usize::MAX);
        match self {
            Items::None => Value::Nil,
            Items::Array(items) => items.get(at).map_or(Value::Nil, Value::from),
            Items::List(items) => items.get(at).cloned().unwrap_or(Value::Nil),
            Items::Range(start, _) => Value::Int(i128::from(*start).saturating_add_unsigned(idx)),
            Items::Entries(entries) => {
                entries.get(at).map_or(Value::Nil, |(key, value)| value::pair(key, value))
            }
            Items::One(value) => value.clone(),
        }
    }

    /// Returns the items after `offset`, at most `limit` of them, as first index and length.
    pub(crate) fn window(&self, offset: i128, limit: Option<i128>) -> (u128, u128) {
        if let Items::One(_) = self {
            return (0, 1);
        }
        let length = self.length();
        let start = u128::try_from(offset).unwrap_or(0).min(length);
        let end = limit
            .map_or(length, |limit| u128::try_from(offset.saturating_add(limit)).unwrap_or(0).min(length));
        (start, end.saturating_sub(start))
    }
}
