//! The names of the blocks and events that show a memory.

/// The name of the core block.
pub const CORE: &str = "core-memory";
/// The name of the catalogue of what is remembered.
pub const MEMORY_CATALOGUE: &str = "available_memory";
/// The name of the event that tells a thread that its rules changed.
pub(crate) const UPDATED: &str = "memory.updated";
