//! Finds texts with any search engine that speaks HTTP and JSON.
//!
//! The request is a JSON document with Liquid in its strings. Rendering happens in each string by itself, so a query
//! can't change the structure of the request; and the address is not a template at all, so it can't change where the
//! request goes. Redirects are failures.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use contexture_compose::BoxFuture;
use contexture_compose::ports::{Clock, HttpCaller, HttpReply, HttpRequest};
use contexture_template::{Globals, RenderConfig, Template};
use futures::future::{Either, select};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Hit, HitDocument, Query, RetrieveError, Retrieved, Retriever, above};
use crate::embed::{Embedder, embed};

/// How an engine is asked, and where its answer has what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct HttpRetrieverConfig {
    /// The address. It is used as it is.
    pub url: String,
    /// The body of the request. In its strings `{{ query }}` and `{{ top_k }}` can be used; a string that is nothing
    /// but `{{ top_k }}` or `{{ vector }}` becomes a number or a list of numbers.
    pub request: Value,
    /// Headers that are sent unchanged.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Headers whose values are secrets, by the name under which the caller looks them up.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub header_env: BTreeMap<String, String>,
    /// Where the list of hits is in the answer: a JSON Pointer such as `/hits/hits`.
    pub hits: String,
    /// Where a hit has its id.
    pub id: String,
    /// Where a hit has its text.
    pub text: String,
    /// Where a hit has its score. Without it hits count by their order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<String>,
    /// Where a hit has the title of its document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Where a hit has the path or URL of its document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// How long a call may take, in milliseconds.
    #[serde(default = "ten_seconds")]
    pub timeout_ms: u64,
    /// How often a call is repeated that failed for a reason that may pass.
    #[serde(default = "two")]
    pub retries: u32,
    /// The largest answer to read, in bytes.
    #[serde(default = "four_mebibytes")]
    pub max_bytes: usize,
}

fn ten_seconds() -> u64 {
    10_000
}

fn two() -> u32 {
    2
}

fn four_mebibytes() -> usize {
    4 * 1024 * 1024
}

/// How long to wait before the first repetition; then twice as long each time.
const FIRST_WAIT: Duration = Duration::from_millis(200);
/// Ids, titles and origins are cut after so many characters.
const MAX_NAME_CHARS: usize = 500;

/// What an [`HttpRetriever`] needs.
#[derive(Clone)]
pub struct HttpRetrieverPorts {
    /// Makes the calls.
    pub http: Arc<dyn HttpCaller>,
    /// Ends calls that take too long.
    pub clock: Arc<dyn Clock>,
    /// Makes `{{ vector }}`, if the request has one.
    pub embedder: Option<Arc<dyn Embedder>>,
}

/// Finds texts with any search engine that speaks HTTP and JSON.
#[derive(Clone)]
pub struct HttpRetriever {
    base: String,
    config: HttpRetrieverConfig,
    request: RequestTemplate,
    ports: HttpRetrieverPorts,
}

impl std::fmt::Debug for HttpRetriever {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpRetriever")
            .field("base", &self.base)
            .field("url", &self.config.url)
            .finish_non_exhaustive()
    }
}

/// The body of a request, parsed.
#[derive(Clone, Debug)]
enum RequestTemplate {
    Fixed(Value),
    Text(Template),
    TopK,
    Vector,
    List(Vec<RequestTemplate>),
    Fields(Vec<(String, RequestTemplate)>),
}

impl RequestTemplate {
    fn parse(value: &Value) -> Result<Self, contexture_template::Error> {
        Ok(match value {
            Value::String(text) => {
                let whole: String = text.split_whitespace().collect();
                match whole.as_str() {
                    "{{top_k}}" => RequestTemplate::TopK,
                    "{{vector}}" => RequestTemplate::Vector,
                    _ => RequestTemplate::Text(Template::parse(text)?),
                }
            }
            Value::Array(values) => {
                RequestTemplate::List(values.iter().map(Self::parse).collect::<Result<_, _>>()?)
            }
            Value::Object(fields) => {
                let field = |(name, value): (&String, &Value)| Ok((name.clone(), Self::parse(value)?));
                RequestTemplate::Fields(fields.iter().map(field).collect::<Result<_, _>>()?)
            }
            other => RequestTemplate::Fixed(other.clone()),
        })
    }

    fn has_vector(&self) -> bool {
        match self {
            RequestTemplate::Vector => true,
            RequestTemplate::List(values) => values.iter().any(Self::has_vector),
            RequestTemplate::Fields(fields) => fields.iter().any(|(_, it)| it.has_vector()),
            RequestTemplate::Fixed(_) | RequestTemplate::Text(_) | RequestTemplate::TopK => false,
        }
    }

    fn render(&self, query: &Query, vector: &[f32]) -> Result<Value, contexture_template::Error> {
        Ok(match self {
            RequestTemplate::Fixed(value) => value.clone(),
            RequestTemplate::Text(template) => {
                let (text, top_k) = (json!(query.text), json!(query.top_k));
                let globals = [("query", &text), ("top_k", &top_k)];
                Value::String(template.render(&Globals::new(&globals), &RenderConfig::strict())?)
            }
            RequestTemplate::TopK => json!(query.top_k),
            RequestTemplate::Vector => json!(vector),
            RequestTemplate::List(values) => {
                let values: Result<Vec<Value>, _> =
                    values.iter().map(|it| it.render(query, vector)).collect();
                Value::Array(values?)
            }
            RequestTemplate::Fields(fields) => {
                let field = |(name, value): &(String, RequestTemplate)| {
                    Ok((name.clone(), value.render(query, vector)?))
                };
                Value::Object(fields.iter().map(field).collect::<Result<_, contexture_template::Error>>()?)
            }
        })
    }
}

impl HttpRetriever {
    /// Returns a retriever for an engine, under the name of a base.
    pub fn new(
        base: impl Into<String>,
        config: HttpRetrieverConfig,
        ports: HttpRetrieverPorts,
    ) -> Result<Self, RetrieveError> {
        let base = base.into();
        let invalid = |detail: String| RetrieveError::Template { base: base.clone(), detail };
        if !(config.url.starts_with("https://") || config.url.starts_with("http://")) {
            return Err(invalid(format!("`{}` does not begin with http:// or https://", config.url)));
        }
        let pointers = [Some(&config.hits), Some(&config.id), Some(&config.text), config.score.as_ref()];
        let pointers = pointers.into_iter().flatten().chain(&config.title).chain(&config.origin);
        if let Some(pointer) = pointers.into_iter().find(|it| !it.is_empty() && !it.starts_with('/')) {
            return Err(invalid(format!("`{pointer}` is not a JSON Pointer: it must begin with `/`")));
        }
        let request = RequestTemplate::parse(&config.request).map_err(|err| invalid(err.to_string()))?;
        if request.has_vector() && ports.embedder.is_none() {
            return Err(invalid("it has `{{ vector }}`, and there is no embedder".to_owned()));
        }
        Ok(Self { base, config, request, ports })
    }

    async fn find(&self, query: Query) -> Result<Retrieved, RetrieveError> {
        let vector = self.vector(&query.text).await?;
        let body = self
            .request
            .render(&query, &vector)
            .map_err(|err| RetrieveError::Template { base: self.base.clone(), detail: err.to_string() })?;
        let reply = self.call(body).await?;
        let mut hits = self.hits(&reply)?;
        hits.sort_by(|one, other| other.score.total_cmp(&one.score));
        hits.truncate(query.top_k);
        let mut notes = Vec::new();
        Ok(Retrieved { hits: above(hits, &query, &mut notes), notes })
    }

    async fn vector(&self, text: &str) -> Result<Vec<f32>, RetrieveError> {
        let Some(embedder) = self.ports.embedder.as_ref().filter(|_| self.request.has_vector()) else {
            return Ok(Vec::new());
        };
        let vectors = embed(&**embedder, vec![text.to_owned()]).await;
        let vectors = vectors.map_err(|err| self.unreachable(err))?;
        Ok(vectors.into_iter().next().unwrap_or_default())
    }

    fn unreachable(&self, err: impl ToString) -> RetrieveError {
        RetrieveError::Unreachable { base: self.base.clone(), detail: err.to_string() }
    }

    /// Calls the engine, again if the failure may pass. The time limit is for all attempts together.
    async fn call(&self, body: Value) -> Result<HttpReply, RetrieveError> {
        let after = Duration::from_millis(self.config.timeout_ms);
        let attempts = Box::pin(self.attempts(body));
        match select(attempts, self.ports.clock.sleep(after)).await {
            Either::Left((reply, _)) => reply,
            Either::Right(((), _)) => Err(RetrieveError::TimedOut { base: self.base.clone(), after }),
        }
    }

    async fn attempts(&self, body: Value) -> Result<HttpReply, RetrieveError> {
        let mut wait = FIRST_WAIT;
        let mut left = self.config.retries;
        loop {
            let failure = match self.attempt(&body).await {
                Ok(reply) => return Ok(reply),
                Err(failure) => failure,
            };
            if left == 0 || !may_pass(&failure) {
                return Err(failure);
            }
            left -= 1;
            // A clock that stands still would wait forever.
            if self.ports.clock.runs() {
                self.ports.clock.sleep(wait).await;
            }
            wait *= 2;
        }
    }

    async fn attempt(&self, body: &Value) -> Result<HttpReply, RetrieveError> {
        let request = HttpRequest {
            method: "POST".to_owned(),
            url: self.config.url.clone(),
            headers: self.config.headers.clone(),
            secret_headers: self.config.header_env.clone(),
            body: Some(body.clone()),
            max_bytes: self.config.max_bytes,
        };
        let reply = self.ports.http.call(request).await.map_err(|err| self.unreachable(err))?;
        let base = self.base.clone();
        match reply.status {
            200..=299 => Ok(reply),
            status @ 300..=399 => Err(RetrieveError::Redirected { base, status }),
            status => Err(RetrieveError::Status { base, status }),
        }
    }

    fn hits(&self, reply: &HttpReply) -> Result<Vec<Hit>, RetrieveError> {
        let malformed = |detail: String| RetrieveError::Malformed { base: self.base.clone(), detail };
        let answer: Value = serde_json::from_slice(&reply.body).map_err(|err| malformed(err.to_string()))?;
        let hits = answer.pointer(&self.config.hits).and_then(Value::as_array);
        let hits = hits.ok_or_else(|| malformed(format!("there is no list at `{}`", self.config.hits)))?;
        let count = hits.len();
        let hit = |(idx, hit): (usize, &Value)| {
            self.hit(idx, count, hit)
                .map_err(|pointer| malformed(format!("hit {idx} has nothing at `{pointer}`")))
        };
        hits.iter().enumerate().map(hit).collect()
    }

    /// Reads a hit. An error is the pointer that leads nowhere.
    fn hit<'a>(&'a self, idx: usize, count: usize, hit: &Value) -> Result<Hit, &'a str> {
        let text = |pointer: &str| match hit.pointer(pointer)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let name = |pointer: &Option<String>| {
            let name = pointer.as_deref().and_then(text)?;
            Some(name.chars().take(MAX_NAME_CHARS).collect::<String>())
        };
        let score = match &self.config.score {
            Some(pointer) => hit.pointer(pointer).and_then(Value::as_f64).ok_or(pointer.as_str())?,
            None => (count - idx) as f64 / count as f64,
        };
        let id = text(&self.config.id).ok_or(self.config.id.as_str())?;
        let document = HitDocument {
            title: name(&self.config.title),
            origin: name(&self.config.origin),
            ..HitDocument::default()
        };
        Ok(Hit {
            base: self.base.clone(),
            chunk: id.chars().take(MAX_NAME_CHARS).collect(),
            text: text(&self.config.text).ok_or(self.config.text.as_str())?,
            score,
            shares: BTreeMap::new(),
            document,
        })
    }
}

/// Whether the same call may succeed later.
fn may_pass(failure: &RetrieveError) -> bool {
    match failure {
        RetrieveError::Unreachable { .. } => true,
        RetrieveError::Status { status, .. } => matches!(status, 408 | 429 | 500..=599),
        _ => false,
    }
}

impl Retriever for HttpRetriever {
    fn base(&self) -> &str {
        &self.base
    }

    fn retrieve(&self, query: Query) -> BoxFuture<'_, Result<Retrieved, RetrieveError>> {
        Box::pin(self.find(query))
    }
}
