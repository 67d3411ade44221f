//! Memory: what stays from one conversation to the next.
//!
//! ```text
//! log of a thread ─▶ capture ─▶ records, episodes (a base of each namespace) ─▶ core block · recall · tools · files
//!                                       ▲
//!                     tools, application ┘      forget ─▶ tombstones ─▶ capture
//! ```
//!
//! The log is the memory; everything here is derived from it, points back to it, and can be built again. A namespace is
//! a base of the store's [`SourceIndex`](contexture_session::SourceIndex) that no list of knowledge bases shows. Its
//! writes are compared and set in the store's transaction, so writers of all processes lose nothing.

mod audit;
mod blocks;
mod capture;
mod core;
mod entry;
mod episodes;
mod erase;
mod error;
mod extractor;
mod files;
mod forget;
mod namespace;
mod record;
mod scrub;
mod sources;
mod space;
mod tombstones;
mod tools;
mod transfer;
mod turn_reader;
mod words;
mod working;

pub use audit::{Concern, Finding};
pub use blocks::{CORE, MEMORY_CATALOGUE};
pub use capture::{Accept, CaptureMode, Captured, ExtractCall, ExtractedFact, Extractor};
pub use entry::{
    ArchivalMode, CaptureOptions, MemoryEntry, MemoryOptions, MemoryPolicy, MemoryTools, Spawn, memory,
};
pub use error::MemoryError;
pub use extractor::ModelExtractor;
pub use files::FileAnswer;
pub use forget::{Forget, ForgetOptions, Receipt};
pub use namespace::{Namespace, NamespaceRule};
pub use record::{Author, Layer, NewRecord, Provenance, Record, RecordEdit, Status, Trust};
pub use scrub::FORGOTTEN;
pub use space::{Memories, MemoryHit, MemoryPorts, MemorySpace, RecordFilter, SearchRequest};
pub use transfer::MemoryImported;
pub use working::{WORKING, WorkingOptions};
