//! Diagrams of flows.
//!
//! ```text
//! FlowDefinition ─▶ picture (what is shown) ─┬─▶ mermaid
//!                                            └─▶ layout, labels (where) ─▶ svg
//! ```
//!
//! A picture shows what the author wrote, with sub-flows and portals in place. An invalid definition has a picture
//! too: parts that can't be parsed are left out. Equal definitions give equal pictures, to the byte.

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
