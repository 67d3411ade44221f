//! The tree that entries aggregate into: flat lists that point into each other.
//!
//! Text is escaped once, when it is added to one shared string; lines and attributes are ranges in it. Every line and
//! attribute stores the entry that it came from, so that a subset of the entries can be rendered and counted. A node
//! is always listed after its parent.

use std::ops::Range;
use std::sync::Arc;

use super::escape::{escaped_capacity, push_attribute, push_text};

/// The maximum nesting depth of tags.
pub const MAX_TAG_DEPTH: usize = 64;

/// The tags of all entries, merged by name.
///
/// [`aggregate`](super::aggregate) makes one.
#[derive(Clone, Debug)]
pub struct TagTree {
    pub(super) nodes: Vec<Node>,
    pub(super) lines: Vec<Line>,
    pub(super) attributes: Vec<Attribute>,
    text: String,
}

/// The index of a node in its tree.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct NodeIdx(pub(super) usize);

/// The unnamed node that holds the top-level tags.
pub(super) const ROOT: NodeIdx = NodeIdx(0);

/// One tag.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) name: Arc<str>,
    pub(super) parent: NodeIdx,
    /// The depth of the tag; top-level tags have depth 1.
    pub(super) depth: usize,
    /// Indices into the attributes of the tree, in order.
    pub(super) attributes: Vec<usize>,
    /// Indices into the lines of the tree, in order.
    pub(super) lines: Vec<usize>,
    pub(super) children: Vec<NodeIdx>,
}

/// One value of an author, which may contain line breaks; never empty.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) node: NodeIdx,
    pub(super) entry: usize,
    pub(super) text: Range<usize>,
}

/// One attribute.
#[derive(Clone, Debug)]
pub(super) struct Attribute {
    pub(super) node: NodeIdx,
    pub(super) name: Box<str>,
    /// All entries that set it to this value; never empty.
    pub(super) entries: Vec<usize>,
    pub(super) value: Range<usize>,
}

impl TagTree {
    pub(super) fn new() -> Self {
        let root = Node {
            name: Arc::from(""),
            parent: ROOT,
            depth: 0,
            attributes: Vec::new(),
            lines: Vec::new(),
            children: Vec::new(),
        };
        Self { nodes: vec![root], lines: Vec::new(), attributes: Vec::new(), text: String::new() }
    }

    /// Returns whether the rendered text would be empty.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Returns the names of the top-level tags that are rendered, in order.
    pub fn order(&self) -> Vec<&str> {
        let shown = self.shown(&|_| true);
        self.node(ROOT).children.iter().filter(|it| shown[it.0]).map(|&it| &*self.node(it).name).collect()
    }

    /// Returns for each node whether it has content from the kept entries.
    pub(super) fn shown(&self, kept: &dyn Fn(usize) -> bool) -> Vec<bool> {
        let mut shown = vec![false; self.nodes.len()];
        for line in &self.lines {
            shown[line.node.0] = shown[line.node.0] || kept(line.entry);
        }
        // Runs backwards: each node comes after its parent, so it is complete when its parent is updated.
        for idx in (1..self.nodes.len()).rev() {
            shown[self.nodes[idx].parent.0] |= shown[idx];
        }
        shown
    }

    pub(super) fn node(&self, node: NodeIdx) -> &Node {
        &self.nodes[node.0]
    }

    /// Returns the escaped text at `place`.
    pub(super) fn text(&self, place: &Range<usize>) -> &str {
        &self.text[place.clone()]
    }

    /// Returns the total number of bytes of all lines and attributes.
    pub(super) fn text_len(&self) -> usize {
        self.text.len()
    }

    /// Returns the names from the top down to `node`, joined by dots.
    pub(super) fn path(&self, mut node: NodeIdx) -> String {
        let mut names = Vec::new();
        while node != ROOT {
            names.push(&*self.node(node).name);
            node = self.node(node).parent;
        }
        names.reverse();
        names.join(".")
    }

    /// Reserves capacity for `length` bytes of text, measured before escaping.
    pub(super) fn reserve(&mut self, length: usize) {
        self.text.reserve(escaped_capacity(length));
    }

    pub(super) fn add_node(&mut self, parent: NodeIdx, name: Arc<str>) -> NodeIdx {
        let node = NodeIdx(self.nodes.len());
        let depth = self.node(parent).depth + 1;
        let (attributes, lines, children) = (Vec::new(), Vec::new(), Vec::new());
        self.nodes.push(Node { name, parent, depth, attributes, lines, children });
        self.nodes[parent.0].children.push(node);
        node
    }

    pub(super) fn add_line(&mut self, node: NodeIdx, entry: usize, text: &str) {
        let start = self.text.len();
        push_text(&mut self.text, text);
        self.nodes[node.0].lines.push(self.lines.len());
        self.lines.push(Line { node, entry, text: start..self.text.len() });
    }

    pub(super) fn add_attribute(&mut self, node: NodeIdx, entry: usize, name: &str, value: &str) -> usize {
        let idx = self.attributes.len();
        let start = self.text.len();
        push_attribute(&mut self.text, value);
        self.nodes[node.0].attributes.push(idx);
        let value = start..self.text.len();
        self.attributes.push(Attribute { node, name: name.into(), entries: vec![entry], value });
        idx
    }
}
