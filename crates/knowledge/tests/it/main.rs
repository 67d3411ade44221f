//! Tests of knowledge bases.
#![allow(clippy::unwrap_used)]

mod chunking;
mod documents;
mod embedding;
mod engines;
mod indexing;
mod kills;
mod pipelines;
mod retrieving;
mod support;
