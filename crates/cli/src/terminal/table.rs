//! Tables in columns, without borders.

use anstyle::Style;

use crate::terminal::paint::{DIM, PLAIN, cut, one_line, paint, width, wrapped};

/// The maximum width of a column before its text is cut; the last column is wrapped instead.
const MAX_COLUMN: usize = 40;
/// Columns are not shrunk below this width.
const MIN_COLUMN: usize = 8;
/// With less room than this, the last column moves below its row.
const MIN_LAST: usize = 24;
const GAP: usize = 2;
/// The indentation of a last column below its row.
const BELOW: usize = 4;

/// How a column is aligned.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A text with a style.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    pub(crate) fn new(text: impl AsRef<str>) -> Self {
        Self { text: one_line(text.as_ref()), style: PLAIN }
    }

    pub(crate) fn style(mut self, style: Style) -> Self {
        self.style = style;
        self
    }
}

/// The widths of the columns.
struct Layout {
    front: Vec<usize>,
    last: usize,
    /// Whether the last column is printed below its row.
    below: bool,
}

/// Rows under headings. Every row has as many cells as there are headings; the last column is wrapped.
pub(crate) struct Table {
    headings: Vec<(&'static str, Align)>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new(headings: &[(&'static str, Align)]) -> Self {
        Self { headings: headings.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// Returns the lines of the table, each indented by `indent` and at most `columns` wide.
    pub(crate) fn lines(&self, indent: usize, columns: usize) -> Vec<String> {
        let layout = self.layout(columns.saturating_sub(indent));
        let mut headings: Vec<Cell> =
            self.headings.iter().map(|(name, _)| Cell::new(name).style(DIM)).collect();
        // A text below its row needs no heading.
        if let Some(last) = headings.last_mut().filter(|_| layout.below) {
            last.text.clear();
        }
        let has_headings = self.headings.iter().any(|(name, _)| !name.is_empty());
        let all = has_headings.then_some(headings).into_iter().chain(self.rows.iter().cloned());
        all.flat_map(|row: Vec<Cell>| self.row_lines(&row, &layout, indent)).collect()
    }

    fn layout(&self, columns: usize) -> Layout {
        let widest = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|it| width(&it.text));
            cells.chain([width(self.headings[column].0)]).max().unwrap_or_default()
        };
        let last = self.headings.len().saturating_sub(1);
        let wanted = self.headings.get(last).map_or(0, |_| widest(last));
        let mut front: Vec<usize> = (0..last).map(|column| widest(column).min(MAX_COLUMN)).collect();
        let room = |front: &[usize]| columns.saturating_sub(front.iter().map(|it| it + GAP).sum());
        if room(&front) >= wanted.min(MIN_LAST) {
            return Layout { last: room(&front).max(MIN_COLUMN), front, below: false };
        }
        // The last column of the row needs no gap after it.
        while front.iter().map(|it| it + GAP).sum::<usize>() > columns + GAP {
            let Some(column) = front.iter_mut().max().filter(|it| **it > MIN_COLUMN) else { break };
            *column -= 1;
        }
        Layout { front, last: columns.saturating_sub(BELOW), below: true }
    }

    fn row_lines(&self, row: &[Cell], layout: &Layout, indent: usize) -> Vec<String> {
        let Some((last, front)) = row.split_last() else { return Vec::new() };
        let mut head = " ".repeat(indent);
        let mut taken = indent;
        for ((cell, (_, align)), columns) in front.iter().zip(&self.headings).zip(&layout.front) {
            let text = cut(&cell.text, *columns);
            let pad = " ".repeat(columns.saturating_sub(width(&text)));
            let text = paint(cell.style, &text);
            head.push_str(&match align {
                Align::Left => format!("{text}{pad}"),
                Align::Right => format!("{pad}{text}"),
            });
            head.push_str(&" ".repeat(GAP));
            taken += columns + GAP;
        }
        let wrapped = wrapped(&last.text, layout.last);
        let mut lines = Vec::with_capacity(wrapped.len() + 1);
        if layout.below {
            lines.push(head.trim_end().to_owned());
            let texts = wrapped.iter().filter(|it| !it.is_empty());
            lines.extend(texts.map(|it| format!("{:1$}{2}", "", indent + BELOW, paint(last.style, it))));
            return lines;
        }
        for (idx, text) in wrapped.iter().enumerate() {
            let front = if idx == 0 { head.clone() } else { " ".repeat(taken) };
            lines.push(format!("{front}{}", paint(last.style, text)).trim_end().to_owned());
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::{Align, Cell, Table};

    #[test]
    fn without_room_the_last_column_goes_below_and_names_are_cut() {
        let mut table = Table::new(&[("source", Align::Left), ("n", Align::Right), ("why", Align::Left)]);
        table.row(
            ["context:a-rather-long-name", "7", "it did not fit, and so it went"].map(Cell::new).to_vec(),
        );
        table.row(["x", "120", ""].map(Cell::new).to_vec());
        let lines: Vec<String> =
            table.lines(2, 24).iter().map(|it| anstream::adapter::strip_str(it).to_string()).collect();
        assert_eq!(
            lines,
            [
                "  source               n",
                "  context:a-rathe..    7",
                "      it did not fit,",
                "      and so it went",
                "  x                  120"
            ]
        );
    }

    #[test]
    fn columns_are_aligned_and_the_last_one_is_wrapped() {
        let mut table = Table::new(&[("a", Align::Left), ("n", Align::Right), ("why", Align::Left)]);
        table.row(["prompt", "7", "one two three four five six seven"].map(Cell::new).to_vec());
        table.row(["x", "120", ""].map(Cell::new).to_vec());
        let lines: Vec<String> =
            table.lines(2, 40).iter().map(|it| anstream::adapter::strip_str(it).to_string()).collect();
        assert_eq!(
            lines,
            [
                "  a         n  why",
                "  prompt    7  one two three four five",
                "               six seven",
                "  x       120"
            ]
        );
    }
}
