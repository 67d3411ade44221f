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

mod archives;
pub mod codec;
mod config;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod guard;
mod ids;
mod live;
mod load;
mod lost_turns;
mod memory;
mod new_item;
mod omitted;
mod once;
mod outcome;
mod prepend;
pub mod records;
mod scratch;
pub mod search;
mod session_error;
mod sessions;
mod snapshot;
mod span;
mod state;
pub mod store;
mod subscribe;
mod texts;
mod thread;
mod time;
mod transfer;
mod turn;
mod view;

pub use archives::ArchiveInfo;
pub use config::{Policy, Ports, SessionConfig};
pub use error::StoreError;
pub use guard::{LeaseRefusal, LeaseRow};
pub use ids::{IdInvalid, MAX_ID_BYTES, SessionId, SessionKey, Tenant, ThreadId, ThreadKey};
pub use lost_turns::LostTurnRecovery;
pub use memory::MemoryStore;
pub use new_item::NewItem;
pub use omitted::OmittedTurns;
pub use outcome::TurnOutcome;
pub use records::{
    Document, DocumentKey, DocumentList, Extent, NewRecord, Record, Records, StreamKey, Writes,
};
pub use search::{Search, SearchHit};
pub use session_error::SessionError;
pub use sessions::{IsolatedStart, Session, SessionStart, Sessions};
pub use snapshot::Snapshot;
pub use span::BackwardScan;
pub use state::{ModelChoice, OpenTurn, State};
pub use store::{
    Append, Appended, Fence, ForkPoint, Guard, Head, KeyedTurn, Lease, NewSession, NewThread, NewestTurns,
    SessionInfo, Span, Store, StoreFuture, ThreadInfo, ThreadKind, Usage,
};
pub use thread::Thread;
pub use time::{Names, Time};
pub use transfer::{Imported, export, fork_session, import, list_all};
pub use turn::{Begun, RunningTurn, TurnConfig};
pub use view::{NewArchive, View};
