//! The body of an answer: pieces as they arrive, within limits of time and size.
//!
//! The input is a response; the output is its bytes, whole or as server-sent events. A piece that does not arrive in
//! time, and a body or an event that grows too large, is an error.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use contexture_wire::Frame;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use reqwest::Response;
use sse_stream::SseByteStream;
use tokio::time::Instant;

use crate::{Limits, ModelError, ModelErrorKind, Timeouts};

/// The deadlines of an attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    timeouts: Timeouts,
    /// The deadline for the first byte.
    first: Instant,
    /// The deadline for the whole call.
    end: Option<Instant>,
}

impl Patience {
    /// Starts the deadlines for one attempt of a call that must be over at `end`.
    pub(crate) fn begin(timeouts: Timeouts, end: Option<Instant>) -> Self {
        Self { timeouts, first: from_now(timeouts.first_byte), end }
    }

    /// Waits for `work` until the deadline for the first byte.
    pub(crate) async fn first<T>(&self, work: impl Future<Output = T>) -> Result<T, ModelError> {
        self.until(self.first, self.timeouts.first_byte, work).await
    }

    /// Waits for the next piece. Until the answer has begun, the model is thinking, so the longer timeout applies.
    async fn next<T>(&self, has_begun: bool, work: impl Future<Output = T>) -> Result<T, ModelError> {
        let Timeouts { idle, first_byte, .. } = self.timeouts;
        let allowed = if has_begun { idle } else { idle.max(first_byte) };
        self.until(from_now(allowed), allowed, work).await
    }

    async fn until<T>(
        &self,
        at: Instant,
        allowed: Duration,
        work: impl Future<Output = T>,
    ) -> Result<T, ModelError> {
        let total = self.end.filter(|end| *end < at).zip(self.timeouts.total);
        let in_time = tokio::time::timeout_at(total.map_or(at, |(end, _)| end), work).await;
        in_time.map_err(|_| {
            let what = match total {
                Some((_, total)) => format!("the call took longer than {total:?}"),
                None => format!("nothing came within {allowed:?}"),
            };
            ModelError::new(ModelErrorKind::TimedOut, what)
        })
    }
}

/// Returns the instant after `wait`. A wait too long to represent becomes a year.
pub(crate) fn from_now(wait: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(wait).unwrap_or(now + Duration::from_secs(365 * 24 * 60 * 60))
}

type Chunks = BoxStream<'static, Result<Bytes, ModelError>>;

/// Returns the pieces of a body, checked against the limits of time and size.
fn chunks(response: Response, patience: Patience, limit: usize, progress: Arc<Progress>) -> Chunks {
    let next = move |(mut response, n_bytes, progress): (Response, usize, Arc<Progress>)| async move {
        let has_begun = progress.has_begun.load(Ordering::Relaxed);
        let piece = match n_bytes {
            0 => patience.first(response.chunk()).await?,
            _ => patience.next(has_begun, response.chunk()).await?,
        };
        let Some(piece) = piece.map_err(|err| disconnected(&err))? else { return Ok(None) };
        let n_bytes = n_bytes.saturating_add(piece.len());
        match n_bytes > limit {
            true => Err(too_large("the answer", limit)),
            false => Ok(Some((piece, (response, n_bytes, progress)))),
        }
    };
    stream::try_unfold((response, 0, progress), next).boxed()
}

/// The body of an answer.
pub(crate) enum Body {
    /// The body arrived in one piece.
    Whole(Vec<u8>),
    /// The body arrives event by event.
    Events(Events),
}

/// Opens a body. Servers mislabel their bodies in both directions, but the first byte is reliable: JSON begins with a
/// bracket, and events never do. Asking again instead would cost another answer.
pub(crate) async fn open(
    response: Response,
    patience: Patience,
    limits: Limits,
    is_named_json: bool,
) -> Result<Body, ModelError> {
    let progress = Arc::new(Progress::default());
    let mut pieces = chunks(response, patience, limits.answer, Arc::clone(&progress));
    let mut body = Vec::new();
    while body.trim_ascii().is_empty()
        && let Some(piece) = pieces.try_next().await?
    {
        body.extend_from_slice(&piece);
    }
    let start = body.trim_ascii_start();
    let is_json = start.starts_with(b"{") || start.starts_with(b"[");
    let is_event = [&b"data:"[..], b"event:", b"id:", b":"].iter().any(|it| start.starts_with(it));
    if !is_json && (is_event || !is_named_json) {
        let pieces = stream::once(std::future::ready(Ok(Bytes::from(body)))).chain(pieces).boxed();
        return Ok(Body::Events(Events::new(pieces, progress, limits)));
    }
    while let Some(piece) = pieces.try_next().await? {
        body.extend_from_slice(&piece);
    }
    Ok(Body::Whole(body))
}

/// Reads the start of a body, up to `limit` bytes or until no more arrives.
pub(crate) async fn beginning(response: Response, patience: Patience, limit: usize) -> Vec<u8> {
    let mut body = Vec::new();
    let mut pieces = chunks(response, patience, usize::MAX, Arc::default());
    while body.len() < limit
        && let Some(Ok(piece)) = pieces.next().await
    {
        body.extend_from_slice(&piece);
    }
    body.truncate(limit);
    body
}

/// A body of server-sent events.
pub(crate) struct Events {
    frames: Pin<Box<SseByteStream<Chunks>>>,
    progress: Arc<Progress>,
}

/// The state of a body while it is read.
#[derive(Debug, Default)]
struct Progress {
    /// Bytes received since the last event.
    pending: AtomicUsize,
    /// Whether the answer has begun.
    has_begun: AtomicBool,
    /// Whether the body has ended.
    has_ended: AtomicBool,
}

impl Events {
    fn new(pieces: Chunks, progress: Arc<Progress>, limits: Limits) -> Self {
        let frames = Box::pin(SseByteStream::new(watched(pieces, Arc::clone(&progress), limits.frame)));
        Self { frames, progress }
    }

    /// Returns the next event with data, or `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Frame>, ModelError> {
        loop {
            let Some(event) = self.frames.next().await else { return Ok(None) };
            let event = event.map_err(|err| self.failure(err))?;
            self.progress.pending.store(0, Ordering::Relaxed);
            // Events without data are not dispatched: comments, retry times, ids.
            if let Some(data) = event.data {
                return Ok(Some(Frame { event: event.event, data }));
            }
        }
    }

    /// Marks the answer as begun: from now on the idle timeout applies.
    pub(crate) fn begin(&self) {
        self.progress.has_begun.store(true, Ordering::Relaxed);
    }

    /// Whether the body has ended, so that its last event may be cut off.
    pub(crate) fn has_ended(&self) -> bool {
        self.progress.has_ended.load(Ordering::Relaxed)
    }

    fn failure(&self, err: sse_stream::Error) -> ModelError {
        match err {
            sse_stream::Error::Body(err) => match err.downcast::<ModelError>() {
                Ok(own) => *own,
                Err(other) => ModelError::new(ModelErrorKind::Disconnected, other.to_string()),
            },
            // A character that was cut in two means that the answer was cut off, not that it is malformed.
            _ if self.has_ended() => cut(),
            other => ModelError::new(ModelErrorKind::Malformed, format!("the event stream: {other}")),
        }
    }
}

/// Counts the bytes that pass, and ends the last event if the server left out its blank line.
fn watched(pieces: Chunks, progress: Arc<Progress>, limit: usize) -> Chunks {
    let at_end = Arc::clone(&progress);
    let counted = pieces.and_then(move |piece| {
        // This piece may end the event, so only the bytes before it are checked.
        let pending = progress.pending.fetch_add(piece.len(), Ordering::Relaxed);
        let checked = if pending > limit { Err(too_large("one event", limit)) } else { Ok(piece) };
        std::future::ready(checked)
    });
    let end = stream::once(async move {
        at_end.has_ended.store(true, Ordering::Relaxed);
        Ok(Bytes::from_static(b"\n\n"))
    });
    counted.chain(end).boxed()
}

/// Returns the error for a lost connection.
pub(crate) fn disconnected(err: &reqwest::Error) -> ModelError {
    if err.is_timeout() {
        return ModelError::new(ModelErrorKind::TimedOut, "no connection came in time");
    }
    // The innermost cause describes what happened; the outer errors only report that something did. The message must
    // not name a URL, which may hold a password.
    let mut cause: &dyn std::error::Error = err;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    let what = if err.is_connect() { "no connection" } else { "the connection was cut" };
    let message = match cause.downcast_ref::<reqwest::Error>() {
        Some(_) => what.to_owned(),
        None => format!("{what}: {cause}"),
    };
    ModelError::new(ModelErrorKind::Disconnected, message)
}

/// Returns the error for an answer that was cut off.
pub(crate) fn cut() -> ModelError {
    ModelError::new(ModelErrorKind::Disconnected, "the answer ended before it was whole")
}

fn too_large(what: &str, limit: usize) -> ModelError {
    ModelError::new(ModelErrorKind::TooLarge, format!("{what} is larger than {limit} bytes"))
}
