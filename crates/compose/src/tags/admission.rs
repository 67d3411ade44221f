//! Counts the tokens of each entry: those that it adds to the block of the entries admitted before it.
//!
//! An entry pays for its own lines, for the tags around them that no earlier entry opened, and for its attributes on
//! open tags. An attribute on a tag without content costs nothing yet; the entry that opens the tag pays for it. What
//! an entry adds is counted as one text in block order, so the sum differs from the count of the block only at the
//! newlines where texts of different entries meet.

use contexture_message::{TokenCounter, Tokens};

use super::tree::{NodeIdx, ROOT, TagTree};

/// Distributes the tokens of a tree over its entries, one after the other in any order.
#[derive(Clone, Debug)]
pub struct Admission<'a> {
    tree: &'a TagTree,
    entries: Vec<Share>,
    /// For each node its position in the block and the position after its last descendant.
    spans: Vec<(usize, usize)>,
    /// Whether each node contains an admitted line.
    open: Vec<bool>,
    /// Whether an admitted entry set each attribute.
    set: Vec<bool>,
    /// Whether anything was admitted; the first text has no newline before it.
    started: bool,
}

/// The content of one entry in the tree, in block order.
#[derive(Clone, Debug, Default)]
struct Share {
    lines: Vec<usize>,
    attributes: Vec<usize>,
}

impl TagTree {
    /// Starts distributing tokens over entries.
    ///
    /// ```
    /// use contexture_compose::tags::{TagEntry, aggregate};
    /// use contexture_message::Tokens;
    /// use serde_json::json;
    ///
    /// let (first, second) = (json!({"docs": "a"}), json!({"docs": "b"}));
    /// let aggregate = aggregate(&[
    ///     TagEntry { source: "first", value: &first },
    ///     TagEntry { source: "second", value: &second },
    /// ])?;
    ///
    /// let bytes = |text: &str| Tokens(text.len() as u32);
    /// let mut admission = aggregate.tree.admission();
    /// assert_eq!(admission.admit(1, &bytes), Tokens(16)); // "<docs>\nb\n</docs>"
    /// assert_eq!(admission.admit(0, &bytes), Tokens(2)); // "a\n"
    /// # Ok::<(), contexture_compose::tags::TagError>(())
    /// ```
    pub fn admission(&self) -> Admission<'_> {
        let mut admission = Admission {
            tree: self,
            entries: Vec::new(),
            spans: vec![(0, 0); self.nodes.len()],
            open: vec![false; self.nodes.len()],
            set: vec![false; self.attributes.len()],
            started: false,
        };
        admission.open[ROOT.0] = true;
        admission.visit(ROOT, &mut 0);
        admission
    }
}

impl TagTree {
    /// Returns the text that each entry would produce alone, by the entry's position.
    pub fn shares(&self) -> Vec<String> {
        let mut admission = self.admission();
        (0..admission.entries.len()).map(|entry| admission.alone(entry)).collect()
    }
}

impl Admission<'_> {
    /// Returns the text of one entry as if it were the only one, and restores the state.
    fn alone(&mut self, entry: usize) -> String {
        let share = std::mem::take(&mut self.entries[entry]);
        share.attributes.iter().for_each(|&it| self.set[it] = true);
        let text = self.add_lines(&share);
        share.attributes.iter().for_each(|&it| self.set[it] = false);
        for line in &share.lines {
            let mut node = self.tree.lines[*line].node;
            while node != ROOT && std::mem::replace(&mut self.open[node.0], false) {
                node = self.tree.node(node).parent;
            }
        }
        self.started = false;
        text
    }

    /// Returns whether `entry` has anything in the tree that is not admitted yet.
    pub fn has_share(&self, entry: usize) -> bool {
        self.entries.get(entry).is_some_and(|it| !it.lines.is_empty() || !it.attributes.is_empty())
    }

    /// Admits `entry` and returns the tokens that it adds. An entry that has no tags or was admitted before adds
    /// none.
    pub fn admit(&mut self, entry: usize, counter: &dyn TokenCounter) -> Tokens {
        let Some(share) = self.entries.get_mut(entry).map(std::mem::take) else { return Tokens(0) };
        let attributes = self.add_attributes(&share);
        let text = self.add_lines(&share);
        let cost: Tokens = attributes.iter().map(|it| counter.count(it)).sum();
        if text.is_empty() { cost } else { cost + counter.count(&text) }
    }

    /// Sets the attributes of `share` and returns the text of those that appear on open tags.
    fn add_attributes(&mut self, share: &Share) -> Vec<String> {
        let mut added = Vec::new();
        for &idx in &share.attributes {
            let was_set = std::mem::replace(&mut self.set[idx], true);
            if !was_set && self.open[self.tree.attributes[idx].node.0] {
                let mut text = String::new();
                self.tree.push_attribute(&mut text, idx);
                added.push(text);
            }
        }
        added
    }

    /// Returns the lines of `share` with the tags that they open.
    fn add_lines(&mut self, share: &Share) -> String {
        let tree = self.tree;
        let mut text = String::new();
        let mut opened: Vec<NodeIdx> = Vec::new();
        let mut opening: Vec<NodeIdx> = Vec::new();
        for line in share.lines.iter().map(|&idx| &tree.lines[idx]) {
            while let Some(last) = opened.pop_if(|it| !self.contains(*it, line.node)) {
                self.close(&mut text, last);
            }
            let mut node = line.node;
            while !self.open[node.0] {
                self.open[node.0] = true;
                opening.push(node);
                node = tree.node(node).parent;
            }
            while let Some(node) = opening.pop() {
                tree.push_open(&mut text, node, |idx| self.set[idx]);
                text.push('\n');
                opened.push(node);
            }
            text.push_str(tree.text(&line.text));
            text.push('\n');
        }
        while let Some(last) = opened.pop() {
            self.close(&mut text, last);
        }
        if !self.started && !text.is_empty() {
            self.started = true;
            text.pop();
        }
        text
    }

    fn close(&self, text: &mut String, node: NodeIdx) {
        self.tree.push_close(text, node);
        text.push('\n');
    }

    fn contains(&self, outer: NodeIdx, inner: NodeIdx) -> bool {
        let ((start, end), (position, _)) = (self.spans[outer.0], self.spans[inner.0]);
        start <= position && position < end
    }

    /// Assigns positions to `node` and its descendants, and shares to the entries. The recursion is bounded by the
    /// maximum depth of a tree.
    fn visit(&mut self, node: NodeIdx, position: &mut usize) {
        let tree = self.tree;
        let start = *position;
        *position += 1;
        for &idx in &tree.node(node).attributes {
            for &entry in &tree.attributes[idx].entries {
                self.share(entry).attributes.push(idx);
            }
        }
        for &idx in &tree.node(node).lines {
            self.share(tree.lines[idx].entry).lines.push(idx);
        }
        for &child in &tree.node(node).children {
            self.visit(child, position);
        }
        self.spans[node.0] = (start, *position);
    }

    fn share(&mut self, entry: usize) -> &mut Share {
        if self.entries.len() <= entry {
            self.entries.resize_with(entry + 1, Share::default);
        }
        &mut self.entries[entry]
    }
}
