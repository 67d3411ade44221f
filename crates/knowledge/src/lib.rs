//! Documents, chunks, search, retrieval pipelines and checks of citations.
//!
//! ```text
//! bytes ─▶ document ─▶ chunk ─▶ index ─▶ (store) ─▶ retrieve ─▶ pipeline
//! ```
//!
//! * [`document`] makes a text of a file's bytes, or says why it can't.
//! * [`chunk`] cuts it into chunks with their headings.
//! * [`Indexer`] keeps a base in a store up to date: incremental by hash, atomic per document.
//! * [`embed`] adds vectors, if there is an embedder.
//! * [`retrieve`] finds chunks: the port [`Retriever`], with [`LocalRetriever`] over a store and [`HttpRetriever`] over
//!   any search engine.
//! * [`grounding`] checks the citations of an answer against the evidence that was sent.
//! * [`pipeline`] rewrites queries, and filters, reranks, expands and compresses hits.
//!
//! The index and the ranking are part of the store's contract, `contexture_session::{sources, rank}`. Nothing here does
//! I/O except [`folder`], which reads files and runs a converter.

pub mod chunk;
pub mod document;
pub mod embed;
pub mod folder;
pub mod grounding;
mod index;
pub mod pipeline;
pub mod retrieve;

pub use chunk::ChunkConfig;
pub use document::{Document, Media, Refusal};
pub use embed::{Embedder, EmbedderError};
pub use index::{
    FileContent, FileError, Files, IndexError, IndexPorts, IndexProgress, IndexReport, Indexer, OnProgress,
    SkipReason, SkippedFile,
};
pub use pipeline::{Pipeline, PipelineTrace};
pub use retrieve::{
    Hit, HttpRetriever, LocalRetriever, Query, RetrievalNote, RetrieveError, Retrieved, Retriever,
};
