//! The newest events of sessions, kept in memory for subscribers; older ones are read from the store.

use std::collections::{BTreeMap, VecDeque};

use contexture_session::SessionKey;

use crate::events::log::StoredEvent;

/// How many events of a session are kept.
const EVENTS: usize = 256;
/// How many bytes of all sessions together.
const BYTES: usize = 16 * 1024 * 1024;

/// The newest events of sessions.
#[derive(Debug, Default)]
pub(crate) struct RecentEvents {
    sessions: BTreeMap<SessionKey, VecDeque<StoredEvent>>,
    /// The total size of the events.
    bytes: usize,
}

impl RecentEvents {
    /// Adds an event.
    pub(crate) fn add(&mut self, session: SessionKey, event: StoredEvent) {
        if self.bytes > BYTES {
            // Subscribers that still need one of them read it from the store.
            *self = Self::default();
        }
        self.bytes += event.data.len();
        let events = self.sessions.entry(session).or_default();
        // Another instance may have written events in between.
        let is_next = events.back().is_none_or(|it| it.number + 1 == event.number);
        let n_gone = if is_next { (events.len() + 1).saturating_sub(EVENTS) } else { events.len() };
        self.bytes -= events.drain(..n_gone).map(|it| it.data.len()).sum::<usize>();
        events.push_back(event);
    }

    /// Returns the events of a session after a number, if they are in memory.
    pub(crate) fn after(&self, session: &SessionKey, number: u64, max: usize) -> Option<Vec<StoredEvent>> {
        let events = self.sessions.get(session)?;
        let first = events.front()?.number;
        let skip = usize::try_from(number.checked_add(1)?.checked_sub(first)?).ok()?;
        (skip < events.len()).then(|| events.iter().skip(skip).take(max).cloned().collect())
    }

    /// Removes the events of a session.
    pub(crate) fn forget(&mut self, session: &SessionKey) {
        let gone = self.sessions.remove(session).unwrap_or_default();
        self.bytes -= gone.iter().map(|it| it.data.len()).sum::<usize>();
    }
}

#[cfg(test)]
mod tests {
    use contexture_session::{SessionId, SessionKey, Tenant};

    use super::{BYTES, EVENTS, RecentEvents};
    use crate::events::log::StoredEvent;

    fn session(id: &str) -> SessionKey {
        SessionKey { tenant: Tenant::default(), session: SessionId::parse(id).unwrap() }
    }

    fn event(number: u64, data: &str) -> StoredEvent {
        StoredEvent { number, data: data.into() }
    }

    fn numbers(recent_events: &RecentEvents, after: u64) -> Option<Vec<u64>> {
        recent_events.after(&session("a"), after, 9).map(|it| it.iter().map(|it| it.number).collect())
    }

    #[test]
    fn what_is_here_has_no_gap() {
        let mut recent_events = RecentEvents::default();
        (3..=6).for_each(|it| recent_events.add(session("a"), event(it, "x")));
        assert_eq!(numbers(&recent_events, 2), Some(vec![3, 4, 5, 6]));
        assert_eq!(numbers(&recent_events, 5), Some(vec![6]));
        assert_eq!(numbers(&recent_events, 1), None, "the store has it");
        assert_eq!(numbers(&recent_events, 6), None);
        recent_events.add(session("a"), event(9, "x"));
        assert_eq!(numbers(&recent_events, 5), None, "another instance wrote 7 and 8");
        assert_eq!((numbers(&recent_events, 8), recent_events.bytes), (Some(vec![9]), 1));
        recent_events.forget(&session("a"));
        assert_eq!((numbers(&recent_events, 8), recent_events.bytes), (None, 0));
    }

    #[test]
    fn it_does_not_grow_for_ever() {
        let mut recent_events = RecentEvents::default();
        (1..=1000).for_each(|it| recent_events.add(session("a"), event(it, "xy")));
        assert_eq!(recent_events.bytes, 2 * EVENTS);
        let large = "x".repeat(BYTES / 4);
        (1..=40).for_each(|it| recent_events.add(session(&format!("s{it}")), event(1, &large)));
        assert!(recent_events.bytes <= BYTES + large.len() && recent_events.sessions.len() <= 6);
    }
}
