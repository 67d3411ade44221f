//! A store in which somebody else does something at the worst moment: just before a certain call arrives.

use std::fmt;
use std::sync::{Arc, Mutex};

use contexture_compose::BoxFuture;
use contexture_session::StoreFuture;
use contexture_session::conformance::{Interference, Operation};

/// What is done before the n-th call with that name, once.
type Deed = (&'static str, usize, BoxFuture<'static, ()>);

/// Somebody else in a store. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Meddler(Arc<Mutex<Option<Deed>>>);

impl fmt::Debug for Meddler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Meddler")
    }
}

impl Meddler {
    /// Has something done before the next such call.
    pub(crate) fn before(&self, call: &'static str, deed: impl Future<Output = ()> + Send + 'static) {
        self.before_nth(call, 1, deed);
    }

    /// Has something done before the n-th such call from now.
    pub(crate) fn before_nth(
        &self,
        call: &'static str,
        n: usize,
        deed: impl Future<Output = ()> + Send + 'static,
    ) {
        *self.0.lock().unwrap() = Some((call, n, Box::pin(deed)));
    }

    /// Whether it was done.
    pub(crate) fn is_done(&self) -> bool {
        self.0.lock().unwrap().is_none()
    }
}

impl Interference for Meddler {
    fn around<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        does: StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            let deed = self.0.lock().unwrap().take_if(|(call, left, _)| {
                *left -= usize::from(*call == operation.name);
                *left == 0
            });
            if let Some((_, _, deed)) = deed {
                deed.await;
            }
            does.await
        })
    }
}
