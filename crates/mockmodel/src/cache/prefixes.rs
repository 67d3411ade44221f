//! Which prefixes of prompts are remembered, and until when.
//!
//! A tree of piece numbers: a node stands for the prompt that begins with the pieces on the way to it. Two prompts share
//! nodes exactly as far as their pieces are the same.

use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Prefixes {
    nodes: Vec<Node>,
}

#[derive(Debug, Default)]
struct Node {
    /// For how long the entry lives after it was used, and when that was.
    entry: Option<Entry>,
    children: BTreeMap<usize, usize>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    used: Duration,
    lifetime: Duration,
}

impl Default for Prefixes {
    fn default() -> Self {
        Self { nodes: vec![Node::default()] }
    }
}

impl Prefixes {
    /// The empty prompt.
    pub(super) const ROOT: usize = 0;

    /// Returns the prefix that is one piece longer.
    pub(super) fn next(&mut self, prefix: usize, piece: usize) -> usize {
        if let Some(next) = self.nodes[prefix].children.get(&piece) {
            return *next;
        }
        self.nodes.push(Node::default());
        let next = self.nodes.len() - 1;
        self.nodes[prefix].children.insert(piece, next);
        next
    }

    /// Returns the prefixes of a prompt, shortest first, one for each piece.
    pub(super) fn path(&mut self, root: usize, pieces: &[usize]) -> Vec<usize> {
        let mut at = root;
        let steps = pieces.iter().map(|piece| {
            at = self.next(at, *piece);
            at
        });
        steps.collect()
    }

    /// Whether the prefix is remembered. An entry lives exactly as long as its lifetime.
    pub(super) fn is_alive(&self, prefix: usize, now: Duration) -> bool {
        self.nodes[prefix].entry.is_some_and(|it| now.saturating_sub(it.used) <= it.lifetime)
    }

    /// Remembers a prefix from now on. One that lives longer keeps its time.
    pub(super) fn write(&mut self, prefix: usize, now: Duration, lifetime: Duration) {
        let before = self.nodes[prefix].entry.filter(|_| self.is_alive(prefix, now));
        let lifetime = before.map_or(lifetime, |it| it.lifetime.max(lifetime));
        self.nodes[prefix].entry = Some(Entry { used: now, lifetime });
    }

    /// Lets the time of an entry begin again, if it is alive.
    pub(super) fn refresh(&mut self, prefix: usize, now: Duration) {
        let is_alive = self.is_alive(prefix, now);
        if let Some(entry) = self.nodes[prefix].entry.as_mut().filter(|_| is_alive) {
            entry.used = now;
        }
    }

    /// Lists the pieces with which live prefixes continue after this one.
    pub(super) fn live_pieces(&self, prefix: usize, now: Duration) -> impl Iterator<Item = usize> {
        let children = self.nodes[prefix].children.iter();
        children.filter(move |(_, next)| self.is_alive(**next, now)).map(|(piece, _)| *piece)
    }
}
