//! Selects the messages of a conversation for a request: turns, views, windows, repair and transforms. Pure functions.
//!
//! ```text
//! Items ──▶ turns ──▶ transforms ──▶ window ──▶ repair ──▶ messages
//!   │
//!   └──▶ client, all
//! ```
//!
//! An [`Item`] is an entry of a thread's log; a [`Turn`] is what the model sees of one request. A [`window`()] chooses
//! turns under a [`Limit`], and [`repair`()] ensures that every tool call has its result directly after it. [`client`]
//! and [`all`] are the other views of a log. [`compaction`] decides what is shortened and summarised when a
//! conversation outgrows its model, and [`search`] defines the words by which the rest can be found.
//!
//! Nothing here stores anything, reads a clock or calls a model. Equal logs give equal bytes.

pub mod compaction;
mod item;
pub mod neutral;
mod redact;
mod repair;
pub mod search;
mod transform;
mod turn;
mod views;
mod window;

pub use item::cost::item_cost;
pub use item::event::{EventInvalid, SystemEvent};
pub use item::fact::{Fact, FactKind};
pub use item::wording::{envelope_parts, interrupted};
pub use item::{
    Application, Archived, Body, Change, Cost, Envelope, EnvelopeTag, Item, ItemDocument, Seq, Strategy,
    Summary, Timestamp, TurnNo, TurnStatus, Visibility,
};
pub use redact::{Redact, RedactError, RedactRule, redact};
pub use repair::{Repair, RepairKind, Repaired, repair};
pub use transform::{
    Transform, TransformChange, TransformPanic, Transformed, Transforms, last_turns, panic_message,
    transform, without_media, without_thinking,
};
pub use turn::transcript::{Transcript, group_turns};
pub use turn::{Turn, turns};
pub use views::{all, client, view};
pub use window::limit::Limit;
pub use window::newest::newest_messages;
pub use window::{RepairedTurn, Window, window};
