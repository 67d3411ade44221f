//! Renders a tree: `<tag>`, its lines, its nested tags, `</tag>`, each on separate lines.

use std::fmt;

use super::tree::{NodeIdx, ROOT, TagTree};

/// The maximum number of spaces per level; more would only waste tokens.
const MAX_INDENT: usize = 16;

/// Rendering options.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TagStyle {
    /// Spaces per level before each line that is not empty, at most 16. With 0 the author's text is verbatim.
    pub indent: usize,
}

impl TagTree {
    /// Returns the tagged text of all entries, without a final newline.
    pub fn render(&self, style: TagStyle) -> String {
        self.render_kept(style, &|_| true)
    }

    /// Returns the tagged text of those entries for whose index `kept` returns true.
    ///
    /// Lines and attributes of other entries are left out, and so are tags whose content comes only from them.
    pub fn render_kept(&self, style: TagStyle, kept: &dyn Fn(usize) -> bool) -> String {
        let mut writer = Writer::new(self, style, kept);
        writer.out.reserve(self.capacity());
        writer.inside(ROOT, 0);
        writer.finish()
    }

    /// Returns the name of each top-level tag that has content, with the text between its opening and closing tag:
    /// escaped, without the newlines around it.
    pub fn texts(&self) -> Vec<(&str, String)> {
        self.texts_kept(&|_| true)
    }

    /// Returns the same for only those entries for whose index `kept` returns true.
    pub fn texts_kept(&self, kept: &dyn Fn(usize) -> bool) -> Vec<(&str, String)> {
        let mut writer = Writer::new(self, TagStyle::default(), kept);
        let mut texts = Vec::new();
        for &child in &self.node(ROOT).children {
            if writer.shown[child.0] {
                writer.inside(child, 0);
                texts.push((&*self.node(child).name, writer.finish()));
            }
        }
        texts
    }

    /// Appends the opening tag of `node` with those attributes for whose index `set` returns true.
    pub(super) fn push_open(&self, out: &mut String, node: NodeIdx, set: impl Fn(usize) -> bool) {
        let node = self.node(node);
        out.push('<');
        out.push_str(&node.name);
        for &idx in &node.attributes {
            if set(idx) {
                self.push_attribute(out, idx);
            }
        }
        out.push('>');
    }

    pub(super) fn push_attribute(&self, out: &mut String, idx: usize) {
        let attribute = &self.attributes[idx];
        out.push(' ');
        out.push_str(&attribute.name);
        out.push_str("=\"");
        out.push_str(self.text(&attribute.value));
        out.push('"');
    }

    pub(super) fn push_close(&self, out: &mut String, node: NodeIdx) {
        out.push_str("</");
        out.push_str(&self.node(node).name);
        out.push('>');
    }

    fn capacity(&self) -> usize {
        let tags: usize = self.nodes.iter().map(|it| 2 * it.name.len() + 7).sum();
        let attributes: usize = self.attributes.iter().map(|it| it.name.len() + 4).sum();
        self.text_len() + self.lines.len() + tags + attributes
    }
}

/// Text under construction: every line ends with a newline, until the last one is removed.
struct Writer<'a> {
    tree: &'a TagTree,
    indent: usize,
    kept: &'a dyn Fn(usize) -> bool,
    shown: Vec<bool>,
    out: String,
}

impl<'a> Writer<'a> {
    fn new(tree: &'a TagTree, style: TagStyle, kept: &'a dyn Fn(usize) -> bool) -> Self {
        let indent = style.indent.min(MAX_INDENT);
        Self { tree, indent, kept, shown: tree.shown(kept), out: String::new() }
    }

    /// Writes the contents of `node`. The recursion is bounded by the maximum depth of a tree.
    fn inside(&mut self, node: NodeIdx, level: usize) {
        let tree = self.tree;
        for &idx in &tree.node(node).lines {
            let line = &tree.lines[idx];
            if (self.kept)(line.entry) {
                self.line(tree.text(&line.text), level);
            }
        }
        for &child in &tree.node(node).children {
            if self.shown[child.0] {
                self.tag(child, level);
            }
        }
    }

    fn tag(&mut self, node: NodeIdx, level: usize) {
        let (tree, kept) = (self.tree, self.kept);
        self.spaces(level);
        tree.push_open(&mut self.out, node, |idx| tree.attributes[idx].entries.iter().any(|&it| kept(it)));
        self.out.push('\n');
        self.inside(node, level + 1);
        self.spaces(level);
        tree.push_close(&mut self.out, node);
        self.out.push('\n');
    }

    fn line(&mut self, text: &str, level: usize) {
        if self.indent == 0 || level == 0 {
            self.out.push_str(text);
            self.out.push('\n');
            return;
        }
        for line in text.split('\n') {
            if !line.is_empty() {
                self.spaces(level);
            }
            self.out.push_str(line);
            self.out.push('\n');
        }
    }

    fn spaces(&mut self, level: usize) {
        self.out.extend(std::iter::repeat_n(' ', level * self.indent));
    }

    fn finish(&mut self) -> String {
        self.out.pop();
        std::mem::take(&mut self.out)
    }
}

impl fmt::Display for TagTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(TagStyle::default()))
    }
}
