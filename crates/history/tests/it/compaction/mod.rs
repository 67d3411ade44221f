//! Compaction: what is shortened, which range is summarised, what a summary must hold.

mod plan;
mod properties;
mod results;
mod rounds;
mod summary;
