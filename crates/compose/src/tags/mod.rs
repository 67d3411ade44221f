//! Tags: what all sources say about a name, as one block of tagged text.
//!
//! In come the entries of the context slot, each with its source. Out come a [`TagTree`] and the messages
//! that pass through. The rule, in full:
//!
//! 1. An entry that is text becomes a system message of its own, raw; a message passes through; in neither can
//!    the engine's own tags be forged. `null` and `false` are nothing; a list is its elements. Everything else is
//!    an object whose keys are tags.
//! 2. A key is a name in kebab-case, whatever its spelling ([`validate_tag_name`]). Equal names of all
//!    sources meet in one tag, which stands where it was named first.
//! 3. Under a name: text is a line, a list of texts several lines, an object nested tags, a list of objects one
//!    `<item>` each. `null` reserves the place. `@key` is an attribute of the enclosing tag and `#text` its
//!    own text.
//! 4. A name holds lines or nested tags. Who breaks the shape that another source made gets an error that
//!    names both.
//! 5. A tag without content vanishes. Text is escaped and otherwise verbatim.
//!
//! The files follow the data: names and escaping first, then how entries aggregate to a tree, how it renders
//! and what each entry costs. [`Tag`] is for people who write a tree by hand, [`neutralise`] for text that is
//! not escaped but must not forge the engine's own tags.
//!
//! Nothing here decides what is kept, and no function is called: values are plain JSON.

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
pub use contexture_history::neutral::{ENGINE_TAG_NAMES, neutralise};
pub use error::{NameFault, TagError, TagPlace, TagShape};
pub use escape::{escape_attribute, escape_text};
pub use names::{MAX_TAG_NAME_BYTES, RESERVED_TAG_NAMES, block_tag_name, validate_tag_name};
pub use render::TagStyle;
pub use tag::{Tag, xml_tag};
pub use tree::{MAX_TAG_DEPTH, TagTree};
