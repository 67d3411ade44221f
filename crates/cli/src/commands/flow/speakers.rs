//! Serializes the output of nodes that run in parallel, each under its name.
//!
//! Input is the events of nodes as they happen, output is what to print now. The first node to produce output is shown
//! live; the output of others is held back until it is done.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use contexture_agent::Event;

/// Something to print.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shown {
    /// The output of this node follows.
    Speaker(Arc<str>),
    /// An event of the current node.
    Event(Event),
    /// A node that called a model is done, at this cost.
    Spent(Arc<str>, Spent),
}

/// The tokens that a node read and wrote, and its duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spent {
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) took: Duration,
}

/// The output of a node that waits for another one to finish.
#[derive(Debug)]
struct Held {
    node: Arc<str>,
    shown: Vec<Shown>,
    is_over: bool,
}

/// The node that is shown now, and the held output of others.
#[derive(Debug, Default)]
pub(super) struct Speakers {
    current: Option<Arc<str>>,
    /// The node whose name was printed last.
    named: Option<Arc<str>>,
    held: Vec<Held>,
    spent: BTreeMap<Arc<str>, Spent>,
}

impl Speakers {
    /// Records that a node's name was printed when it started.
    pub(super) fn begin(&mut self, node: &Arc<str>) {
        self.named = Some(Arc::clone(node));
    }

    /// Processes an event of a node and returns what to print.
    pub(super) fn hear(&mut self, node: &Arc<str>, event: &Event) -> Vec<Shown> {
        if let Event::ContextUsage { input_tokens, output_tokens, .. } = event {
            let spent = self.spent.entry(Arc::clone(node)).or_default();
            spent.input = spent.input.saturating_add(*input_tokens);
            spent.output = spent.output.saturating_add(*output_tokens);
        }
        let current = self.current.get_or_insert_with(|| Arc::clone(node));
        if current != node {
            self.hold(node).shown.push(Shown::Event(event.clone()));
            return Vec::new();
        }
        self.said(node, vec![Shown::Event(event.clone())])
    }

    /// Records that a node is done and returns what to print: its cost, and the output held back meanwhile.
    pub(super) fn end(&mut self, node: &Arc<str>, took: Duration) -> Vec<Shown> {
        let spent = self.spent.remove(node);
        let spent = spent.map(|it| Shown::Spent(Arc::clone(node), Spent { took, ..it }));
        if self.current.as_ref().is_some_and(|it| it != node) {
            let held = self.hold(node);
            held.shown.extend(spent);
            held.is_over = true;
            return Vec::new();
        }
        self.current = None;
        let mut shown: Vec<Shown> = spent.into_iter().collect();
        while self.current.is_none() && !self.held.is_empty() {
            let next = self.held.remove(0);
            self.current = (!next.is_over).then(|| Arc::clone(&next.node));
            shown.extend(self.said(&next.node, next.shown));
        }
        shown
    }

    fn hold(&mut self, node: &Arc<str>) -> &mut Held {
        let known = self.held.iter().position(|it| it.node == *node && !it.is_over);
        let idx = known.unwrap_or_else(|| {
            self.held.push(Held { node: Arc::clone(node), shown: Vec::new(), is_over: false });
            self.held.len() - 1
        });
        &mut self.held[idx]
    }

    /// Adds the node's name before its output, if another name was printed last.
    fn said(&mut self, node: &Arc<str>, shown: Vec<Shown>) -> Vec<Shown> {
        let is_named = shown.is_empty() || self.named.as_ref() == Some(node);
        let name = (!is_named).then(|| Shown::Speaker(Arc::clone(node)));
        self.named = Some(Arc::clone(node));
        name.into_iter().chain(shown).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use contexture_agent::Event;

    use super::{Shown, Speakers};

    /// Plays `node:text` and `node.` (its end), and returns the printed output.
    fn printed(script: &str) -> String {
        let mut speakers = Speakers::default();
        let mut all = Vec::new();
        for step in script.split_whitespace() {
            let shown = match step.split_once(':') {
                Some((node, text)) => {
                    speakers.hear(&Arc::from(node), &Event::TextDelta { text: text.to_owned() })
                }
                None => speakers.end(&Arc::from(step.trim_end_matches('.')), Duration::ZERO),
            };
            all.extend(shown.into_iter().map(|it| match it {
                Shown::Speaker(node) => format!("[{node}]"),
                Shown::Event(Event::TextDelta { text }) => text,
                other => format!("{other:?}"),
            }));
        }
        all.join(" ")
    }

    #[test]
    fn nodes_that_speak_at_once_are_shown_one_after_the_other() {
        assert_eq!(printed("a:1 b:x a:2 b:y c:n a. b:z b. c."), "[a] 1 2 [b] x y z [c] n");
        assert_eq!(printed("a:1 b:x b. c:n a. c:m c."), "[a] 1 [b] x [c] n m");
        assert_eq!(printed("a:1 a. b. a:2 a."), "[a] 1 2");
    }
}
