//! A small, bounded Liquid engine: parse once, render many, no I/O.
//!
//! [`Template::parse`] turns text into a [`Template`], which renders over borrowed [`Globals`]. The language is
//! Shopify's Liquid with all its standard tags and filters, plus `json`. It differs from Liquid in these points:
//!
//! * [`Limits`] bound every parse and render; no template and no data can make it panic, hang or exhaust memory.
//! * In [`Mode::Strict`] an absent variable is an error with file, line and column.
//! * Unknown filters and wrong numbers of arguments are parse errors.
//! * A map is printed as JSON.
//!
//! The engine uses no clock, files or environment: the caller passes in partials, the time and everything else.
//!
//! The data flow: `parse` splits the `source` into pieces and tokens and builds a tree, `template` holds it, and `render`
//! walks it with `value` and `filters`.

mod error;
mod filters;
mod limits;
mod nearest;
mod parse;
mod render;
mod source;
mod template;
mod value;
mod variables;

pub use error::{Error, ErrorKind, Place};
pub use limits::Limits;
pub use nearest::{did_you_mean, nearest};
pub use render::{Globals, Mode, Partials, RenderConfig};
pub use source::ParseConfig;
pub use template::{Condition, Expression, Template};
pub use variables::Variable;
