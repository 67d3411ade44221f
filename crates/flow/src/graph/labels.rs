//! The positions of arrow labels: on their arrow, and not overlapping if possible.

use std::collections::HashMap;

use super::layout::{Point, Size};

/// How far along the first segment of its arrow a label may be, best position first.
const PLACES: [f64; 3] = [0.5, 0.25, 0.75];
/// With how many others between the same layers a label is compared.
const MAX_COMPARED: usize = 200;

/// Places labels one after the other.
#[derive(Debug, Default)]
pub(super) struct Labels {
    /// The centre and size of placed labels, by the height at which their arrow starts.
    placed: HashMap<i64, Vec<(Point, Size)>>,
}

impl Labels {
    /// Returns the middle of a label on the way from one point to the next.
    pub(super) fn place(&mut self, from: Point, to: Point, size: Size) -> Point {
        let others = self.placed.entry(from.y.min(to.y) as i64).or_default();
        let is_free =
            |it: &Point| others.iter().rev().take(MAX_COMPARED).all(|other| !overlap((*it, size), *other));
        let middle = PLACES.iter().map(|part| point_along(from, to, *part)).find(is_free);
        let middle = middle.unwrap_or_else(|| point_along(from, to, PLACES[0]));
        others.push((middle, size));
        middle
    }
}

fn overlap((one, size): (Point, Size), (other, other_size): (Point, Size)) -> bool {
    (one.x - other.x).abs() < (size.width + other_size.width) / 2.0
        && (one.y - other.y).abs() < (size.height + other_size.height) / 2.0
}

/// Returns a point of the curve between two points, which begins and ends straight.
fn point_along(from: Point, to: Point, part: f64) -> Point {
    let rest = 1.0 - part;
    let sideways = part * part * (3.0 - 2.0 * part);
    let down = 1.5 * part * rest * (rest + part) + part.powi(3);
    Point { x: from.x + (to.x - from.x) * sideways, y: from.y + (to.y - from.y) * down }
}
