//! The events of sessions: a view of their logs, and the text of answers while they grow.

pub(crate) mod cursor;
pub(crate) mod follower;
pub(crate) mod live;
