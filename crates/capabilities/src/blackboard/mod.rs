//! Blackboards: JSON state under a schema that models, applications and flows share.
//!
//! ```text
//! edit + state ─▶ changes (pure) ─▶ record ─▶ log ─▶ replay ─▶ state ─▶ snapshot in the prefix · changes in the turn
//!   ▲ tools, HTTP, Rust                         └▶ subscribe, wait
//! ```
//!
//! The log is the board: every write is a record with author, turn, reason, and the values before and after. Versions
//! are numbers of records, kept per path, so writers of different paths never conflict.

mod board;
mod definition;
mod edit;
mod entry;
mod error;
mod pointer;
mod render;
mod schema;
mod scope;
mod state;
mod tools;

pub use board::{Board, BoardPorts, BoardWrite, Boards};
pub use definition::{BoardDefinition, BoardOptions};
pub use edit::{Edit, Expected, MAX_BOARD_BYTES, PatchOperation};
pub use entry::{BlackboardEntry, blackboard};
pub use error::BoardError;
pub use pointer::Pointer;
pub use schema::{BoardSchema, MergeRule};
pub use scope::{BoardOwner, BoardScope};
pub use state::{BoardAuthor, BoardEvent, BoardRecord, BoardState, PathChange};
