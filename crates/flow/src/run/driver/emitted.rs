//! Events that nodes emit while they run, buffered briefly so that many small text deltas become one record.

use std::sync::Arc;
use std::time::Duration;

use contexture_agent::Event;
use contexture_compose::BoxFuture;
use contexture_session::Time;

use crate::node::EmittedEvent;
use crate::{Flow, RunEvent};

/// How long an emitted event may wait for more.
const FLUSH_DELAY: Duration = Duration::from_millis(50);
/// How long a merged delta may become.
const MAX_DELTA_BYTES: usize = 16 * 1024;

/// Emitted events that are not recorded yet.
#[derive(Default)]
pub(crate) struct EmittedEvents {
    events: Vec<EmittedEvent>,
    timer: Option<BoxFuture<'static, ()>>,
    /// Whether it has waited long enough.
    pub(crate) is_due: bool,
}

impl EmittedEvents {
    /// Adds an event; a delta is merged into the one before it.
    pub(crate) fn add(&mut self, next: EmittedEvent) {
        if let (Some(last), true) = (self.events.last_mut(), is_delta(&next.event))
            && (last.node, &last.turn) == (next.node, &next.turn)
            && join(&mut last.event, &next.event)
        {
            return;
        }
        self.events.push(next);
    }

    /// Returns a timer for the next flush, if there is anything to flush.
    pub(crate) fn due(&mut self, time: &Arc<dyn Time>) -> Option<&mut BoxFuture<'static, ()>> {
        if self.events.is_empty() {
            return None;
        }
        Some(self.timer.get_or_insert_with(|| time.sleep(FLUSH_DELAY)))
    }

    /// Takes all emitted events.
    pub(crate) fn take(&mut self, flow: &Flow) -> Vec<RunEvent> {
        (self.timer, self.is_due) = (None, false);
        let named = |EmittedEvent { node, turn, event }: EmittedEvent| {
            Some(RunEvent::NodeEvent { node: Arc::clone(&flow.node(node)?.id), turn, event })
        };
        std::mem::take(&mut self.events).into_iter().filter_map(named).collect()
    }
}

fn is_delta(event: &Event) -> bool {
    matches!(event, Event::TextDelta { .. } | Event::ThinkingDelta { .. })
}

/// Merges a delta into the one before it, if they are of the same kind.
fn join(before: &mut Event, next: &Event) -> bool {
    match (before, next) {
        (Event::TextDelta { text }, Event::TextDelta { text: more })
        | (Event::ThinkingDelta { text }, Event::ThinkingDelta { text: more })
            if text.len() + more.len() <= MAX_DELTA_BYTES =>
        {
            text.push_str(more);
            true
        }
        _ => false,
    }
}
