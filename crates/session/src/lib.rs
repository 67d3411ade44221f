//! Durable threads with one writer each.
//!
//! A [`Session`] has one main [`Thread`] and any number of isolated ones. A thread is an append-only log of
//! [`Item`](contexture_history::Item)s; its [`State`] is what a replay of the log gives. Threads live in a
//! [`Store`], whose contract is in [`store`]; [`MemoryStore`] is the one in memory, and
#![cfg_attr(feature = "conformance", doc = "[`conformance`] the suite that every store passes.")]
#![cfg_attr(
    not(feature = "conformance"),
    doc = "`conformance` (a feature) the suite that every store passes."
)]
//!
//! A write returns once it is durable. Within a process writers queue; across processes a turn's writer holds a lease,
//! and every append states where it expects the log to end, so two writers never both succeed.
//!
//! After a crash the same calls can be repeated: a turn with a key is resumed ([`TurnConfig::resume`]), and items that
//! are added ([`Thread::add_once`]), prepended ([`Thread::prepend_once`]) or created under a name
//! ([`IsolatedStart::name`]) exist once.
//!
//! Nothing here reads a clock, makes up a name or counts tokens by itself: see [`Ports`].

mod config;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod ids;
mod journal;
mod live;
mod log;
mod memory;
pub mod rank;
mod sessions;
pub mod store;
mod thread;
mod view;

pub use config::{Names, Policy, Ports, SessionConfig, Time};
pub use error::{ArtifactError, SessionError};
pub use ids::{
    BaseId, BaseKey, DocumentKey, IdInvalid, MAX_ID_BYTES, SessionId, SessionKey, SourceId, Tenant, ThreadId,
    ThreadKey,
};
pub use journal::{Journal, JournalRecord, record_item};
pub use log::new_item::NewItem;
pub use log::state::{ModelChoice, OpenTurn, State};
pub use memory::MemoryStore;
pub use sessions::rewrite::rewrite_thread;
pub use sessions::transfer::{Imported, export, fork_session, import, list_all};
pub use sessions::{IsolatedStart, Session, SessionStart, Sessions};
pub use store::documents::{Document, Documents};
pub use store::error::StoreError;
pub use store::guard::LeaseRow;
pub use store::search::{Search, SearchHit};
pub use store::sources::{
    BaseHits, BaseInfo, BaseSettings, ChunkHit, ChunkNo, ChunkSelection, ChunkVector, ExpectedVersion,
    NewChunk, NewSource, SourceChange, SourceIndex, SourceInfo, SourcesChanged, StoredChunk,
};
pub use store::span::BackwardScan;
pub use store::surely::append_surely;
pub use store::{
    Append, Appended, DueKind, FeedItem, Fence, ForkPoint, Guard, Head, KeyedTurn, Lease, Log, LogHead,
    LogKind, LogList, LogState, NewLog, NewSession, NewestTurns, SessionInfo, Span, Store, StoreFuture,
    ThreadInfo, UnfinishedText, Usage, check_rewrite, rewritten,
};
pub use store::{codec, documents, pages, search, sources};
pub use thread::Thread;
pub use thread::archives::ArchiveInfo;
pub use thread::artifacts::{
    Artifact, ArtifactInfo, MAX_ARTIFACT_BYTES, MAX_ARTIFACTS, MAX_VERSIONS, NewArtifact, is_artifact_record,
};
pub use thread::outcome::TurnOutcome;
pub use thread::turn::{Begun, RunningTurn, TurnConfig, TurnEnd, Unfinished};
pub use view::omitted::OmittedTurns;
pub use view::snapshot::Snapshot;
pub use view::{NewArchive, View};
