//! The requests of a run: how a prompt is resolved on a thread, and what the thread remembers about them.

mod frozen;
mod reminders;
mod resolver;
mod sent;
mod skills;

pub use frozen::{is_frozen_record, with_frozen_texts};
pub(crate) use frozen::{is_thawed, thawed};
pub use reminders::resolve_reminded;
pub(crate) use reminders::{envelope as reminders_envelope, recorded as recorded_with_reminders};
pub(crate) use resolver::{CacheState, Resolver};
pub(crate) use sent::record as sent_record;
