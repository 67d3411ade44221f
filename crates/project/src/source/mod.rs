//! The text of a file as data with positions: front matter, YAML trees, decoding, body sections.

pub(crate) mod decode;
pub(crate) mod front;
pub(crate) mod sections;
pub(crate) mod spread;
pub(crate) mod toml;
pub(crate) mod yaml;
