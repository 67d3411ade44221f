//! One call: attempts until one of them answers, and the answer as it arrives.
//!
//! The input is a [`ModelCall`]; [`Call::next`] returns the pieces one by one. An attempt that fails before a piece
//! was returned may be followed by another one. After that, the error is returned with what had arrived, and nothing
//! is sent again. Nothing is sent before the first piece is requested, and dropping the call closes its connection.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use contexture_message::{Delta, Message};
use contexture_wire::{
    Dialect, ProviderError, ProviderErrorKind, StreamDecoder, StreamError, Target, classify, decode_answer,
    failure,
};
use futures::FutureExt as _;
use futures::future::{Either, select};
use reqwest::header::{CONTENT_TYPE, LOCATION};
use reqwest::{Response, StatusCode, Url};
use serde_json::Value;
use tokio::time::Instant;
use tracing::Instrument;

use crate::body::{self, Body, Events, Patience};
use crate::endpoint::{Endpoints, Prepared};
use crate::retry::{self, Hint};
use crate::trace::Trace;
use crate::{ModelCall, ModelError, ModelErrorKind};

/// One call of a model.
pub(crate) struct Call {
    client: Arc<Endpoints>,
    call: ModelCall,
    state: State,
}

enum State {
    /// Nothing has been sent.
    New,
    /// An answer is arriving.
    Open(Box<Open>),
    /// The call is over; no pieces follow.
    Over,
}

/// A call that has been sent.
struct Open {
    prepared: Prepared,
    trace: Trace,
    number: u64,
    end: Option<Instant>,
    n_retries: u32,
    attempt: Attempt,
    /// Pieces that have arrived but were not returned yet.
    ready: VecDeque<Delta>,
    /// Why none follow those.
    failed: Option<Failure>,
    /// Until when pieces are collected.
    collects_until: Instant,
    has_handed_on: bool,
}

/// The state of the current attempt.
enum Attempt {
    Due,
    Streaming {
        events: Events,
        decoder: Box<StreamDecoder>,
    },
    /// The answer was not streamed: everything is in `ready`.
    Whole,
}

/// Why an attempt failed, and the provider's hint about retrying.
struct Failure {
    error: ModelError,
    hint: Hint,
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        Self { error, hint: Hint::default() }
    }
}

/// How many events are collected at most. A model that is faster than we are must not keep its answer from clients, nor
/// other work from this thread.
const MAX_TOGETHER: usize = 64;
/// How long the pieces of a fast model are collected after the first: no longer than a display shows a frame.
pub const COLLECT: Duration = Duration::from_millis(16);
/// How long to wait for the last bytes of a body: they mostly arrive with the last event.
const REST: Duration = Duration::from_millis(10);

impl Call {
    pub(crate) fn new(client: Arc<Endpoints>, call: ModelCall) -> Self {
        Self { client, call, state: State::New }
    }

    /// Returns the next piece, or `None` after the last one.
    pub(crate) async fn next(&mut self) -> Option<Result<Delta, ModelError>> {
        if let State::New = self.state {
            match self.open() {
                Ok(open) => self.state = State::Open(Box::new(open)),
                Err(err) => {
                    self.state = State::Over;
                    return Some(Err(err));
                }
            }
        }
        match &mut self.state {
            State::Open(open) => {
                let span = open.trace.span();
                let piece = open.next(&self.client).instrument(span).await;
                if matches!(piece, Ok(Delta::Done(_)) | Err(_)) {
                    open.close(&piece).await;
                    self.state = State::Over;
                }
                Some(piece)
            }
            State::New | State::Over => None,
        }
    }

    fn open(&self) -> Result<Open, ModelError> {
        let prepared = self.client.prepare(&self.call)?;
        let trace = Trace::begin(&prepared, &self.call.request, self.client.record_content);
        Ok(Open {
            prepared,
            trace,
            number: self.client.number_call(),
            end: self.client.timeouts.total.map(body::from_now),
            n_retries: 0,
            attempt: Attempt::Due,
            ready: VecDeque::new(),
            failed: None,
            collects_until: Instant::now(),
            has_handed_on: false,
        })
    }
}

impl Open {
    async fn next(&mut self, client: &Endpoints) -> Result<Delta, ModelError> {
        loop {
            if let Some(delta) = self.ready.pop_front() {
                self.has_handed_on = true;
                return Ok(delta);
            }
            let advanced = match self.failed.take() {
                Some(failure) => Err(failure),
                None => self.advance(client).await,
            };
            if let Err(failure) = advanced {
                self.recover(client, failure).await?;
            }
        }
    }

    /// Performs the next step that may yield pieces.
    async fn advance(&mut self, client: &Endpoints) -> Result<(), Failure> {
        match &mut self.attempt {
            Attempt::Due => self.send(client).await,
            Attempt::Streaming { events, decoder } => {
                self.ready.extend(read(events, decoder).await?);
                if self.has_handed_on {
                    self.collect().await;
                }
                self.collects_until = Instant::now() + COLLECT;
                Ok(())
            }
            Attempt::Whole => Err(body::cut().into()),
        }
    }

    /// Waits for more pieces if the last ones were returned less than [`COLLECT`] ago, so that callers handle them in one
    /// go. The first piece, the last one and those of a slow model do not wait.
    async fn collect(&mut self) {
        let Attempt::Streaming { events, decoder } = &mut self.attempt else { return };
        let mut until = std::pin::pin!(tokio::time::sleep_until(self.collects_until));
        let mut n_read = 1;
        while n_read < MAX_TOGETHER && !matches!(self.ready.back(), Some(Delta::Done(_))) {
            let in_time = match select(std::pin::pin!(read(events, decoder)), until.as_mut()).await {
                Either::Left((more, _)) => Some(more),
                Either::Right(_) => None,
            };
            match if in_time.is_some() { in_time } else { read_if_ready(events, decoder).await } {
                Some(Ok(more)) => join(&mut self.ready, more),
                Some(Err(err)) => {
                    self.failed = Some(err.into());
                    break;
                }
                None => break,
            }
            n_read += 1;
        }
        if n_read >= MAX_TOGETHER {
            tokio::task::yield_now().await;
        }
    }

    /// Sends the request and opens the answer.
    async fn send(&mut self, client: &Endpoints) -> Result<(), Failure> {
        let Prepared { target, url, headers, body, .. } = &self.prepared;
        let patience = Patience::begin(client.timeouts, self.end);
        let request = client.http.current().post(url.clone()).headers(headers.clone()).body(body.clone());
        let response = patience.first(request.send()).await?.map_err(|err| body::disconnected(&err))?;
        if !response.status().is_success() {
            return Err(refusal(target.dialect, response, patience, client.limits.error).await);
        }
        let kind = content_type(&response);
        if kind == "text/html" {
            let message = "the server answered with a web page; is the base address right?";
            let status = response.status().as_u16();
            return Err(ModelError::new(ModelErrorKind::Malformed, message).with_status(status).into());
        }
        match body::open(response, patience, client.limits, kind.ends_with("json")).await? {
            Body::Whole(body) => {
                self.ready.extend(self.whole(&body)?);
                self.attempt = Attempt::Whole;
            }
            Body::Events(events) => {
                let decoder = Box::new(StreamDecoder::new(target));
                self.attempt = Attempt::Streaming { events, decoder };
            }
        }
        Ok(())
    }

    /// Reads an answer that was not streamed.
    fn whole(&self, body: &[u8]) -> Result<Vec<Delta>, ModelError> {
        let malformed = |reason: String| ModelError::new(ModelErrorKind::Malformed, reason);
        let body: Value = serde_json::from_slice(body).map_err(|err| malformed(err.to_string()))?;
        let dialect = self.prepared.target.dialect;
        // Some gateways send an error with status 200 and the real status in the body.
        if let Some(error) = failure(dialect, &body) {
            return Err(provider_error(error));
        }
        let decoded =
            decode_answer(&self.prepared.target, &body).map_err(|err| malformed(err.to_string()))?;
        Ok(decoded.value.deltas())
    }

    /// Waits before another attempt, or returns the error if there should be none.
    async fn recover(&mut self, client: &Endpoints, failure: Failure) -> Result<(), ModelError> {
        let Failure { error, hint } = failure;
        let waited = match self.has_handed_on {
            true => None,
            false => retry::wait(&client.retries, self.n_retries, self.number, &error, hint),
        };
        let in_time = |wait: &Duration| self.end.is_none_or(|end| body::from_now(*wait) < end);
        let Some(wait) = waited.filter(in_time) else { return Err(self.named(error)) };
        self.n_retries += 1;
        let Target { provider, model, .. } = &self.prepared.target;
        // Logged outside the call's span, whose two dozen fields would make the line unreadable.
        tracing::warn!(
            parent: self.trace.outer(),
            status = error.status(),
            attempt = self.n_retries,
            "model {provider}/{model}: {}, again in {:.1} s",
            error.kind().code(),
            wait.as_secs_f64(),
        );
        self.attempt = Attempt::Due; // Closes the connection, if there is one.
        tokio::time::sleep(wait).await;
        Ok(())
    }

    /// Adds details of the call to its error; keys that the provider echoed are masked.
    fn named(&self, error: ModelError) -> ModelError {
        let target = &self.prepared.target;
        let error = error
            .of_model(format!("{}/{}", target.provider, target.model))
            .map_words(|words| self.prepared.secrets.iter().fold(words, |words, it| it.mask(&words)));
        match self.partial() {
            Some(partial) => error.with_partial(partial),
            None => error,
        }
    }

    /// Records the outcome. After a whole answer it reads the last bytes of the body: only then can the connection be
    /// reused for another call.
    async fn close(&mut self, last: &Result<Delta, ModelError>) {
        match last {
            Ok(Delta::Done(answer)) => self.trace.answered(answer),
            Ok(_) => {}
            Err(err) => self.trace.failed(err),
        }
        if let (Ok(_), Attempt::Streaming { events, .. }) = (last, &mut self.attempt) {
            let rest = async { while let Ok(Some(_)) = events.next().await {} };
            // The outcome does not matter, and neither does a timeout.
            let _ = tokio::time::timeout(REST, rest).await;
        }
    }

    fn partial(&self) -> Option<Message> {
        match &self.attempt {
            Attempt::Streaming { decoder, .. } if self.has_handed_on => Some(decoder.partial()),
            Attempt::Streaming { .. } | Attempt::Due | Attempt::Whole => None,
        }
    }
}

/// Reads until there are pieces; a body that ends without any was cut off.
async fn read(events: &mut Events, decoder: &mut StreamDecoder) -> Result<Vec<Delta>, ModelError> {
    loop {
        let deltas = match events.next().await? {
            Some(frame) => decoder.push(&frame).map_err(|err| stream_error(err, events.has_ended()))?,
            None => {
                let last = decoder.finish().map_err(|err| stream_error(err, true))?;
                if last.is_empty() {
                    return Err(body::cut());
                }
                last
            }
        };
        if !deltas.is_empty() {
            events.begin();
            return Ok(deltas);
        }
    }
}

/// Adds pieces to those that were collected. Text and thinking that continue the last piece become a part of it:
/// whatever is done for each piece is then done once.
fn join(collected: &mut VecDeque<Delta>, more: Vec<Delta>) {
    for piece in more {
        match (collected.back_mut(), piece) {
            // An empty piece starts a new part.
            (Some(Delta::Text(text)), Delta::Text(more))
            | (Some(Delta::Thinking(text)), Delta::Thinking(more))
                if !text.is_empty() && !more.is_empty() =>
            {
                text.push_str(&more);
            }
            (_, piece) => collected.push_back(piece),
        }
    }
}

/// Reads what has arrived already. It waits for nothing but the task that reads the connection.
async fn read_if_ready(
    events: &mut Events,
    decoder: &mut StreamDecoder,
) -> Option<Result<Vec<Delta>, ModelError>> {
    tokio::task::yield_now().await;
    read(events, decoder).now_or_never()
}

/// Maps a stream error: half an event at the end of the body was cut off; anywhere else it is malformed.
fn stream_error(err: StreamError, has_ended: bool) -> ModelError {
    match err {
        StreamError::Provider(err) => provider_error(err),
        StreamError::Malformed(_) if has_ended => body::cut(),
        StreamError::Malformed(err) => ModelError::new(ModelErrorKind::Malformed, err.to_string()),
    }
}

/// Returns the content type of a response.
fn content_type(response: &Response) -> String {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Reads a provider's error response.
async fn refusal(dialect: Dialect, response: Response, patience: Patience, limit: usize) -> Failure {
    let status = response.status();
    let mut hint = Hint::read(response.headers());
    if status.is_redirection() {
        let to = response.headers().get(LOCATION).and_then(|it| it.to_str().ok()).unwrap_or("elsewhere");
        let to = to.split('?').next().unwrap_or_default();
        let message = format!("the address has moved to `{to}`; redirects are not followed");
        return ModelError::new(ModelErrorKind::Invalid, message).with_status(status.as_u16()).into();
    }
    let address = shown_address(response.url());
    let body = body::beginning(response, patience, limit).await;
    let body = serde_json::from_slice(&body)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&body).trim().to_owned()));
    if status == StatusCode::NOT_FOUND && !speaks_of_a_model(dialect, &body) {
        let message = format!("there is no API of models at `{address}`; is the path of `base_url` right?");
        return ModelError::new(ModelErrorKind::Address, message).with_status(status.as_u16()).into();
    }
    hint.after = hint.after.or_else(|| retry::delay(&body));
    let error = provider_error(classify(dialect, status.as_u16(), &body)).with_status(status.as_u16());
    Failure { error: error.with_retry_after(hint.after), hint }
}

/// Whether the body of a 404 comes from a model API: it has the shape of an error, or mentions the model.
fn speaks_of_a_model(dialect: Dialect, body: &Value) -> bool {
    failure(dialect, body).is_some() || body.to_string().to_lowercase().contains("model")
}

/// Returns a URL without any secrets in it.
fn shown_address(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    // An HTTP URL has a host, so neither call can fail.
    let _ = url.set_username("").and_then(|()| url.set_password(None));
    url.to_string()
}

/// The maximum length of a provider's message in an error.
const LONGEST_MESSAGE: usize = 2000;

fn provider_error(err: ProviderError) -> ModelError {
    let kind = match err.kind {
        ProviderErrorKind::Auth => ModelErrorKind::Auth,
        ProviderErrorKind::RateLimited => ModelErrorKind::RateLimited,
        ProviderErrorKind::PromptTooLong => ModelErrorKind::PromptTooLong,
        ProviderErrorKind::Refused => ModelErrorKind::Refused,
        ProviderErrorKind::Overloaded => ModelErrorKind::Overloaded,
        ProviderErrorKind::NotFound => ModelErrorKind::NotFound,
        ProviderErrorKind::Invalid => ModelErrorKind::Invalid,
    };
    let message = match err.message.char_indices().nth(LONGEST_MESSAGE) {
        Some((end, _)) => format!("{}…", &err.message[..end]),
        None => err.message,
    };
    ModelError::new(kind, message).with_code(err.code)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use contexture_message::Delta;

    use super::join;

    #[test]
    fn an_empty_piece_keeps_parts_apart() {
        let (text, thinking) =
            (|it: &str| Delta::Text(it.to_owned()), |it: &str| Delta::Thinking(it.to_owned()));
        let mut collected = VecDeque::from([thinking("a")]);
        join(&mut collected, vec![thinking("b"), thinking(""), thinking("c"), thinking("d")]);
        join(&mut collected, vec![text("e"), text("f"), text(""), text("g")]);
        let expected = [thinking("ab"), thinking(""), thinking("cd"), text("ef"), text(""), text("g")];
        assert_eq!(collected, expected);
    }
}
