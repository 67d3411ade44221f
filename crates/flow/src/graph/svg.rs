//! A flow as a drawing.

use std::fmt::Write as _;

use indexmap::IndexMap;

use super::labels::Labels;
use super::layout::{Layout, Point, Size, layout};
use super::picture::{Node, Picture, picture};
use super::shape::{STYLE, class, outline};
use crate::FlowDefinition;

/// The width of a character in names and in smaller text, and the padding of a box.
const NAME_LETTER: f64 = 8.0;
const SMALL_LETTER: f64 = 6.8;
const PADDING: f64 = 40.0;
const MIN_WIDTH: f64 = 96.0;
const HEIGHT: f64 = 48.0;
/// The height of a label line, and the gap between two layers besides labels.
const LINE: f64 = 14.0;
const BETWEEN: f64 = 64.0;
/// How far an arrow from a box to itself goes out.
const LOOP: f64 = 20.0;

/// Draws a flow as an SVG document: self-contained, without scripts, for light and dark screens.
///
/// ```
/// use contexture_flow::{Flow, NodeKind, UserInputConfig, graph};
///
/// let flow = Flow::builder("chat").node("ask", NodeKind::UserInput(UserInputConfig::default())).edge("start -> ask");
/// let drawing = graph::svg(flow.definition());
/// assert!(drawing.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
/// assert!(drawing.contains(">ask</text>"));
/// ```
pub fn svg(flow: &FlowDefinition) -> String {
    let picture = picture(flow);
    let ways = ways(&picture);
    let sizes: Vec<Size> = picture.boxes.iter().map(size).collect();
    let edges: Vec<(usize, usize)> = ways.keys().map(|(from, to, _)| (*from, *to)).collect();
    let n_lines = ways.values().map(Vec::len).max().unwrap_or_default();
    let layout = layout(&sizes, &edges, BETWEEN + LINE * n_lines.max(1) as f64);
    let mut out = String::new();
    head(&mut out, flow, &layout);
    let drawn = ways.iter().zip(&layout.routes);
    for (((from, _, is_portal), _), route) in drawn.clone() {
        let at = (layout.boxes[*from], sizes[*from]);
        arrow(&mut out, route, at, *is_portal);
    }
    for ((node, middle), size) in picture.boxes.iter().zip(&layout.boxes).zip(&sizes) {
        draw(&mut out, node, *middle, *size);
    }
    // Labels come last: nothing may cover them.
    let mut places = Labels::default();
    for (((from, _, _), labels), route) in drawn.filter(|((_, labels), _)| !labels.is_empty()) {
        let middle = match route.as_slice() {
            [first, second, ..] => places.place(*first, *second, extent(labels)),
            _ => Point { y: layout.boxes[*from].y + (HEIGHT + LINE) / 2.0, ..layout.boxes[*from] },
        };
        label(&mut out, labels, middle);
    }
    out.push_str("</svg>\n");
    out
}

/// The ways from box to box with their labels: edges between the same boxes are drawn as one.
type Ways<'a> = IndexMap<(usize, usize, bool), Vec<&'a str>>;

fn ways(picture: &Picture) -> Ways<'_> {
    let mut ways = Ways::new();
    for arrow in &picture.arrows {
        let labels = ways.entry((arrow.from, arrow.to, arrow.is_portal)).or_default();
        labels.extend(arrow.label.as_deref());
    }
    ways
}

fn size(node: &Node) -> Size {
    let text = (columns(&node.name) * NAME_LETTER).max(columns(&node.about) * SMALL_LETTER);
    Size { width: (text + PADDING).max(MIN_WIDTH), height: HEIGHT }
}

/// Returns how many columns a text takes: letters of East Asia take two.
fn columns(text: &str) -> f64 {
    text.chars().map(|it| if u32::from(it) < 0x1100 { 1.0 } else { 2.0 }).sum()
}

fn head(out: &mut String, flow: &FlowDefinition, layout: &Layout) {
    let Size { width, height } = layout.size;
    let title = escaped(&flow.id);
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\">\n\
         <title>{title}</title>\n\
         <style>{STYLE}</style>\n\
         <defs><marker id=\"head\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\">\
         <path class=\"head\" d=\"M0,0L10,5L0,10Z\"/></marker></defs>\n\
         <rect class=\"page\" width=\"{width:.0}\" height=\"{height:.0}\"/>",
    );
}

fn arrow(out: &mut String, route: &[Point], at: (Point, Size), is_portal: bool) {
    let class = if is_portal { "arrow portal-way" } else { "arrow" };
    let _ = writeln!(out, "<path class=\"{class}\" marker-end=\"url(#head)\" d=\"{}\"/>", way(route, at));
}

/// Returns the curve through the points of a route: it leaves and enters layers straight.
fn way(route: &[Point], (middle, size): (Point, Size)) -> String {
    let [first, rest @ ..] = route else {
        let side = middle.x + size.width / 2.0;
        let (top, bottom) = (middle.y - HEIGHT / 4.0, middle.y + HEIGHT / 4.0);
        let out = side + LOOP;
        return format!("M{side:.0},{top:.0}C{out:.0},{top:.0} {out:.0},{bottom:.0} {side:.0},{bottom:.0}");
    };
    let mut way = format!("M{:.0},{:.0}", first.x, first.y);
    for (from, to) in route.iter().zip(rest) {
        let half = (from.y + to.y) / 2.0;
        let _ = match (from.x - to.x).abs() < 0.5 {
            true => write!(way, "L{:.0},{:.0}", to.x, to.y),
            false => {
                write!(way, "C{:.0},{half:.0} {:.0},{half:.0} {:.0},{:.0}", from.x, to.x, to.x, to.y)
            }
        };
    }
    way
}

fn draw(out: &mut String, node: &Node, middle: Point, size: Size) {
    let outline = outline(node.family, middle, size);
    let class = class(node.family);
    let (name, about) = (escaped(&node.name), escaped(&node.about));
    let (x, y) = (middle.x, middle.y);
    let _ = writeln!(out, "<path class=\"{class}\" d=\"{outline}\"/>");
    let mut text = |class: &str, y: f64, text: &str| {
        let _ = writeln!(out, "<text class=\"{class}\" x=\"{x:.0}\" y=\"{y:.0}\">{text}</text>");
    };
    if name == about {
        return text("name", y + 5.0, &name);
    }
    text("name", y - 3.0, &name);
    text("about", y + 13.0, &about);
}

/// Returns how large the labels of a way are together.
fn extent(labels: &[&str]) -> Size {
    let width = labels.iter().map(|it| columns(it) * SMALL_LETTER).fold(0.0, f64::max);
    Size { width, height: LINE * labels.len() as f64 }
}

fn label(out: &mut String, labels: &[&str], middle: Point) {
    let x = middle.x;
    let top = middle.y + 4.0 - LINE * (labels.len().saturating_sub(1)) as f64 / 2.0;
    for (idx, label) in labels.iter().enumerate() {
        let y = top + LINE * idx as f64;
        let _ = writeln!(out, "<text class=\"label\" x=\"{x:.0}\" y=\"{y:.0}\">{}</text>", escaped(label));
    }
}

/// Writes what means something to XML as an entity, and leaves out what XML can't carry.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => {}
            it if it.is_control() => {}
            it => out.push(it),
        }
    }
    out
}
