//! Tags: merges the values of all sources into one block of tagged text.
//!
//! Turns the entries of the context slot, each with its source, into a [`TagTree`] and the messages that pass
//! through. The rules in full:
//!
//! 1. An entry that is text becomes a separate system message, unescaped; a message passes through. Neither can forge
//!    the engine's own tags. `null` and `false` are ignored; a list stands for its elements. Everything else is an
//!    object whose keys are tags.
//! 2. A key is converted to kebab-case from any spelling ([`validate_tag_name`]). Equal names of all sources share one
//!    tag, at the position where the name first occurs.
//! 3. Under a name, text is a line, a list of texts is several lines, an object is nested tags, and a list of objects
//!    is one `<item>` each. `null` reserves the position. `@key` is an attribute of the enclosing tag and `#text` its
//!    own text.
//! 4. A name holds either lines or nested tags. If a source contradicts the shape that another source determined, the
//!    error names both.
//! 5. A tag without content is left out. Text is escaped and otherwise verbatim.
//!
//! The files follow the data: names and escaping first, then how entries aggregate into a tree, how it is rendered
//! and what each entry costs. [`Tag`] is for code that builds a tree by hand, [`neutralise`] for text that is not
//! escaped but must not forge the engine's own tags.
//!
//! This module does not decide what is kept, and calls no functions: values are plain JSON.

mod admission;
mod aggregate;
mod error;
mod escape;
mod flat;
mod names;
mod render;
mod tag;
mod tree;

pub use admission::Admission;
pub use aggregate::{Aggregate, TagEntry, aggregate, render_tagged_context};
pub use contexture_history::neutral::{
    BODY_TAG_NAMES, ENGINE_TAG_NAMES, is_engine_tag_name, neutralise, neutralise_envelopes,
};
pub use error::{MAX_TAG_NAME_BYTES, NameFault, TagError, TagPlace, TagShape};
pub use escape::{escape_attribute, escape_text};
pub use names::{RESERVED_TAG_NAMES, block_tag_name, outside_block_name, validate_tag_name};
pub use render::TagStyle;
pub use tag::{Tag, xml_tag};
pub use tree::{MAX_TAG_DEPTH, TagTree};
