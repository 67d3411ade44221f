//! What a log says: items to append, notes of the engine, and the state that a replay gives.

pub(crate) mod draft;
pub(crate) mod new_item;
pub(crate) mod notes;
pub(crate) mod state;
