//! A small, bounded Liquid engine: parse once, render many, no I/O.
//!
//! In comes the text of a template, out comes a [`Template`] that renders over borrowed [`Globals`]. The language is
//! Shopify's Liquid with all its standard tags and filters, plus `json`. What differs is for safety and for authors:
//!
//! * Every parse and render is bounded by [`Limits`]; no template and no data make it panic, hang or use up memory.
//! * In [`Mode::Strict`] an absent variable is an error that names file, line and column.
//! * Unknown filters and wrong numbers of arguments do not parse.
//! * A map is printed as JSON.
//!
//! There is no clock, no file and no environment in here: partials, the time and everything else are handed in.
//!
//! The way of the data: `scanner` splits a template into text, outputs and tags, `lexer` splits their markup into
//! tokens, `parse` makes the tree in `ast`, and `render` walks it with `value`, `compare` and `filters`.

mod ast;
mod compare;
mod config;
mod error;
mod filters;
mod lexer;
mod limits;
mod loops;
mod nearest;
mod number;
mod parse;
mod render;
mod scanner;
mod scope;
mod source;
mod template;
mod value;
mod variables;

pub use config::{Globals, Mode, ParseConfig, Partials, RenderConfig};
pub use error::{Error, ErrorKind, Place};
pub use limits::Limits;
pub use nearest::{did_you_mean, nearest};
pub use template::{Condition, Expression, Template};
pub use variables::Variable;
