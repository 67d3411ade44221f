//! The knowledge bases that need work in the background.

use std::collections::BTreeSet;
use std::sync::Mutex;

use contexture_session::BaseKey;
use tokio::sync::Notify;

use crate::lock::lock;

/// The bases whose chunks may lack vectors. Each is listed once, however many documents were added meanwhile.
#[derive(Debug, Default)]
pub(crate) struct BasesToDo {
    unembedded: Mutex<BTreeSet<BaseKey>>,
    wake: Notify,
}

impl BasesToDo {
    /// Asks for the missing vectors of a base.
    pub(crate) fn want_vectors(&self, key: BaseKey) {
        self.put(BTreeSet::from([key]));
        self.wake();
    }

    /// Starts the work, also on folders that changed.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Waits for [`wake`](Self::wake). One call that came before counts.
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Takes the list, which is empty afterwards.
    pub(crate) fn take(&self) -> BTreeSet<BaseKey> {
        std::mem::take(&mut *lock(&self.unembedded))
    }

    /// Puts bases on the list without starting the work.
    pub(crate) fn put(&self, keys: BTreeSet<BaseKey>) {
        lock(&self.unembedded).extend(keys);
    }
}
