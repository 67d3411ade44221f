//! Pictures of flows.
//!
//! ```text
//! FlowDefinition ─▶ picture (what is shown) ─┬─▶ mermaid
//!                                            └─▶ layout, labels (where) ─▶ svg
//! ```
//!
//! A picture is made of what the author has written, with sub-flows and portals as they stand there. A definition with
//! faults has one too: what can't be understood is left out. Equal definitions have equal pictures, to the byte.

mod labels;
mod layout;
mod mermaid;
mod picture;
mod shape;
mod svg;

pub use mermaid::mermaid;
pub use svg::svg;

#[cfg(test)]
mod tests;
