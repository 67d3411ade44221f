//! Streams and documents, next to the threads.

pub(crate) mod prune;
pub(crate) mod read;
pub(crate) mod write;

#[cfg(test)]
pub(crate) use {
    prune::QUERIES as PRUNE_QUERIES, read::QUERIES as READ_QUERIES, write::QUERIES as WRITE_QUERIES,
};

/// The session name for data that belongs to no session; real names are never empty.
pub(crate) fn session_name(session: Option<&contexture_session::SessionId>) -> &str {
    session.map_or("", contexture_session::SessionId::as_str)
}
