//! No text can forge the engine's own tags.
//!
//! The engine speaks to the model in tags of its own ([`ENGINE_TAG_NAMES`]). In every other text the `<` of such a
//! tag becomes `&lt;`, in every spelling that a model might take for the tag; every other `<` stays.

mod message;
mod text;

pub use message::{neutral_message, neutral_tool};
pub(crate) use message::{neutral_part, neutral_unless};
pub use text::{ENGINE_TAG_NAMES, is_invisible, neutralise};
