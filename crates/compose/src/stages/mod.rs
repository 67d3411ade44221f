//! The stages of a pass, each from the previous stage's type to its own. Only `engine` knows their order.

pub(crate) mod arrange;
pub(crate) mod draft;
pub(crate) mod explain;
pub(crate) mod fit;
pub(crate) mod gate;
pub(crate) mod gather;
pub(crate) mod merge;
pub(crate) mod record;
pub(crate) mod render;
pub(crate) mod rewrite;
pub(crate) mod setup;
