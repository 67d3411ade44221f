//! What watches model calls: metrics, the recorder of passes, and the answers that are told while they grow.

use contexture_agent::{Called, Calling, Piece, Watcher};
use contexture_session::{Thread, UnfinishedText};

use super::metrics::Metrics;
use crate::events::live::LiveAnswers;
use crate::passes::PassRecorder;

/// Watches the model calls of a server. Clones share everything.
#[derive(Clone, Debug)]
pub(crate) struct CallWatcher {
    pub(crate) metrics: Metrics,
    pub(crate) recorder: PassRecorder,
    pub(crate) live: LiveAnswers,
}

impl Watcher for CallWatcher {
    fn calling(&self, call: &Calling<'_>) {
        self.metrics.calling(call);
        self.recorder.calling(call);
    }

    fn streamed(&self, thread: &Thread, answer: &UnfinishedText, piece: Piece<'_>) {
        self.live.streamed(thread, answer, piece);
    }

    fn settled(&self, thread: &Thread, answer: &UnfinishedText) {
        self.live.settled(thread, answer);
    }

    fn called(&self, call: &Calling<'_>, result: &Called) {
        self.metrics.called(call, result);
        self.recorder.called(call, result);
    }
}
