//! Renders `for` and `tablerow`.

use std::{rc::Rc, sync::Arc};

use super::{Absent, Flow, Renderer};
use crate::{
    error::Error,
    parse::ast::{Expr, Loop, Offset},
    value::Value,
    value::loops::{Items, LoopState},
};

impl<'r> Renderer<'r> {
    pub(super) fn for_loop(&mut self, at: usize, head: &Loop) -> Result<Flow, Error> {
        let value = self.expr(&head.items, Absent::Error)?;
        let items = Items::of(&value, &mut self.meter);
        let items = self.located(at, items)?;
        let (start, length) = self.window(at, head, &items)?;
        if length == 0 {
            return self.block(at, &head.otherwise);
        }
        let state = Rc::new(LoopState::new(head.name.clone(), length, self.scope.loops.last().cloned()));
        let mark = self.scope.mark();
        self.scope.bind(&Arc::from("forloop"), Value::Loop(state.clone()));
        self.scope.bind(&head.variable, Value::Nil);
        self.scope.loops.push(state.clone());
        let rounds = self.rounds(at, head, &items, (start, length), &state);
        self.scope.loops.pop();
        self.scope.unbind(mark);
        rounds?;
        Ok(Flow::Next)
    }

    fn rounds(
        &mut self,
        at: usize,
        head: &Loop,
        items: &Items<'r>,
        (start, length): (u128, u128),
        state: &LoopState,
    ) -> Result<(), Error> {
        for round in 0..length {
            self.step(at)?;
            let idx = if head.reversed { start + length - 1 - round } else { start + round };
            self.scope.rebind(items.get(idx));
            if self.block(at, &head.body)? == Flow::Break {
                return Ok(());
            }
            state.advance();
        }
        Ok(())
    }

    /// Returns the window of items that a `for` iterates over, and stores its end for `offset: continue`.
    fn window(&mut self, at: usize, head: &Loop, items: &Items<'r>) -> Result<(u128, u128), Error> {
        let offset = match &head.offset {
            None => 0,
            Some(Offset::Continue) => self.scope.offsets.get(&head.name).copied().unwrap_or(0),
            Some(Offset::At(offset)) => self.bound(at, offset)?.unwrap_or(0),
        };
        let limit = match &head.limit {
            Some(limit) => self.bound(at, limit)?,
            None => None,
        };
        let (start, length) = items.window(offset, limit);
        self.scope.offsets.insert(head.name.clone(), offset.saturating_add_unsigned(length));
        Ok((start, length))
    }

    /// Evaluates a limit or offset; nil counts as absent.
    fn bound(&mut self, at: usize, expr: &Expr) -> Result<Option<i128>, Error> {
        let value = self.expr(expr, Absent::Error)?;
        if value.is_nil() {
            return Ok(None);
        }
        let int = value.integer();
        self.located(at, int).map(Some)
    }

    pub(super) fn table_row(&mut self, at: usize, head: &Loop) -> Result<(), Error> {
        let value = self.expr(&head.items, Absent::Error)?;
        if !value.is_true() {
            return Ok(());
        }
        let items = Items::of(&value, &mut self.meter);
        let items = self.located(at, items)?;
        let offset = match &head.offset {
            Some(Offset::At(offset)) => self.loose_bound(at, offset)?,
            _ => 0,
        };
        let limit = match &head.limit {
            Some(limit) => Some(self.loose_bound(at, limit)?),
            None => None,
        };
        let (start, length) = items.window(offset, limit);
        let columns = match &head.columns {
            Some(columns) => self.loose_bound(at, columns)?,
            None => i128::try_from(length).unwrap_or(i128::MAX),
        };
        let state = Rc::new(LoopState::table(length, columns));
        let mark = self.scope.mark();
        self.scope.bind(&Arc::from("tablerowloop"), Value::Loop(state.clone()));
        self.scope.bind(&head.variable, Value::Nil);
        let cells = self.cells(at, head, &items, (start, length), &state);
        self.scope.unbind(mark);
        cells
    }

    fn cells(
        &mut self,
        at: usize,
        head: &Loop,
        items: &Items<'r>,
        (start, length): (u128, u128),
        state: &LoopState,
    ) -> Result<(), Error> {
        self.push(at, "<tr class=\"row1\">\n")?;
        for round in 0..length {
            self.step(at)?;
            self.scope.rebind(items.get(start + round));
            let (row, column, last_column) = state.cell();
            self.push(at, &format!("<td class=\"col{column}\">"))?;
            let flow = self.block(at, &head.body)?;
            self.push(at, "</td>")?;
            if flow == Flow::Break {
                break;
            }
            if last_column && !state.is_last() {
                self.push(at, &format!("</tr>\n<tr class=\"row{}\">", row + 1))?;
            }
            state.advance();
        }
        self.push(at, "</tr>\n")
    }

    fn loose_bound(&mut self, at: usize, expr: &Expr) -> Result<i128, Error> {
        let int = self.expr(expr, Absent::Error)?.loose_integer();
        self.located(at, int)
    }
}
