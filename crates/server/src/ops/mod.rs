//! What operators look at: the audit log, metrics, readiness and traces.

pub(crate) mod audit;
pub(crate) mod metrics;
pub(crate) mod readiness;
pub(crate) mod trace;
pub(crate) mod watch;
