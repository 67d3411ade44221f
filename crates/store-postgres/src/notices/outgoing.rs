//! Announcements that are to be sent, until they are known to have been.

use std::collections::BTreeSet;

use crate::waiters::Topic;

/// How many topics may wait for their announcement. It is only a help: beyond that, readers find out by themselves.
const MOST: usize = 10_000;

/// Topics to announce. One that was being sent when a connection broke is sent again on the next.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    waiting: BTreeSet<Topic>,
    /// On its way. A topic may be in both: it has changed again since.
    sent: BTreeSet<Topic>,
}

impl Outgoing {
    pub(crate) fn add(&mut self, topic: Topic) {
        if self.waiting.len() + self.sent.len() < MOST {
            self.waiting.insert(topic);
        }
    }

    /// Returns what is to be sent now, along with what was sent before and never [arrived](Self::arrived).
    pub(crate) fn send(&mut self) -> Vec<String> {
        self.sent.append(&mut self.waiting);
        self.sent.iter().map(|it| it.0.clone()).collect()
    }

    /// Marks everything that was sent as delivered.
    pub(crate) fn arrived(&mut self) {
        self.sent.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST, Outgoing, Topic};

    fn topic(name: &str) -> Topic {
        Topic(name.to_owned())
    }

    #[test]
    fn what_was_on_its_way_when_the_connection_broke_is_sent_again() {
        let mut outgoing = Outgoing::default();
        outgoing.add(topic("a"));
        assert_eq!(outgoing.send(), ["a"]);
        outgoing.add(topic("b"));
        assert_eq!(outgoing.send(), ["a", "b"]);
        outgoing.arrived();
        assert!(outgoing.send().is_empty());
    }

    #[test]
    fn what_changes_while_it_is_announced_is_announced_again() {
        let mut outgoing = Outgoing::default();
        outgoing.add(topic("a"));
        outgoing.send();
        outgoing.add(topic("a"));
        outgoing.arrived();
        assert_eq!(outgoing.send(), ["a"]);
    }

    #[test]
    fn what_never_arrives_does_not_pile_up() {
        let mut outgoing = Outgoing::default();
        for n in 0..3 * MOST {
            outgoing.add(topic(&n.to_string()));
            if n % 1000 == 0 {
                outgoing.send();
            }
        }
        assert_eq!(outgoing.send().len(), MOST);
        outgoing.arrived();
        outgoing.add(topic("a"));
        assert_eq!(outgoing.send(), ["a"]);
    }
}
