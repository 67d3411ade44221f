//! Prevents text from forging the engine's tags.
//!
//! The engine marks its own text with tags ([`ENGINE_TAG_NAMES`], [`BODY_TAG_NAMES`]). In all other text the `<` of such
//! a tag becomes `&lt;`, in every spelling that a model might take for the tag; every other `<` stays.

mod message;
mod text;

pub use message::{neutral_message, neutral_tool};
pub(crate) use message::{neutral_part, neutral_unless};
pub use text::{
    BOARD_TAG_START, BODY_TAG_NAMES, ENGINE_TAG_NAMES, is_engine_tag_name, is_invisible, neutralise,
    neutralise_envelopes,
};
