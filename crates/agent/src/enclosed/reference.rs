//! References of a request: each names a thing of the application, and a resolver returns its text.
//!
//! The rules in full:
//!
//! 1. References are resolved concurrently with all other entries, each within the deadline of its type.
//! 2. The text goes into the hidden envelope of the user's message. It is escaped, so it can't leave its tag.
//! 3. A reference of an unknown type, or one that can't be resolved, is left out with a warning in the Explanation, or
//!    fails the turn before anything is written, as its type says. The warning is repeated in every pass of the run.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use contexture_compose::{
    BoxError, BoxFuture, Call, Contribution, Contributor, Declaration, Entry, OnError, Piece, Placement,
    Profile, Scope, Source, Trust,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::tagged;
use crate::spec::ContextRef;
use crate::tools::{HttpCaller, HttpTool, HttpToolInvalid};

/// How long a resolver may take, unless its type says otherwise.
const DEADLINE: Duration = Duration::from_secs(10);
/// The longest text of a reference, in bytes.
const MAX_TEXT: usize = 256 * 1024;

/// Returns the text of the things that references of one type name.
///
/// Any async function of a reference and the scope of its run is one.
pub trait ReferenceResolver: Send + Sync {
    /// Returns the text of the thing. The caller ends a call that takes too long.
    fn resolve(&self, reference: ContextRef, scope: Scope) -> BoxFuture<'static, Result<String, BoxError>>;
}

impl<R, F> ReferenceResolver for R
where
    R: Fn(ContextRef, Scope) -> F + Send + Sync,
    F: Future<Output = Result<String, BoxError>> + Send + 'static,
{
    fn resolve(&self, reference: ContextRef, scope: Scope) -> BoxFuture<'static, Result<String, BoxError>> {
        Box::pin(self(reference, scope))
    }
}

/// The types of references that runs can use.
///
/// ```
/// use contexture_agent::{ContextRef, References};
/// use contexture_compose::{BoxError, Scope};
///
/// let references = References::default().with("ticket", |reference: ContextRef, _: Scope| async move {
///     Ok::<_, BoxError>(format!("The text of ticket {}", reference.id)) // Await a service here.
/// });
/// assert!(references.has("ticket") && !references.has("order"));
/// ```
#[derive(Clone)]
pub struct References {
    types: BTreeMap<String, ReferenceType>,
    unknown: OnError,
}

/// How references of a type are resolved.
#[derive(Clone)]
struct ReferenceType {
    resolver: Arc<dyn ReferenceResolver>,
    deadline: Duration,
    on_error: OnError,
}

impl Default for References {
    fn default() -> Self {
        Self { types: BTreeMap::new(), unknown: OnError::Warn }
    }
}

impl std::fmt::Debug for References {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("References").field(&self.types.keys()).finish()
    }
}

impl References {
    /// Adds a type, with a deadline of ten seconds. One that can't be resolved is left out with a warning.
    #[must_use]
    pub fn with(self, kind: impl Into<String>, resolver: impl ReferenceResolver + 'static) -> Self {
        self.with_rules(kind, resolver, DEADLINE, OnError::Warn)
    }

    /// Adds a type, with a deadline and what happens to the turn if a reference can't be resolved.
    #[must_use]
    pub fn with_rules(
        mut self,
        kind: impl Into<String>,
        resolver: impl ReferenceResolver + 'static,
        deadline: Duration,
        on_error: OnError,
    ) -> Self {
        self.types.insert(kind.into(), ReferenceType { resolver: Arc::new(resolver), deadline, on_error });
        self
    }

    /// Sets what happens to a turn with a reference of an unknown type; by default it is left out with a warning.
    #[must_use]
    pub fn on_unknown(self, unknown: OnError) -> Self {
        Self { unknown, ..self }
    }

    /// Whether there is a type of that name.
    pub fn has(&self, kind: &str) -> bool {
        self.types.contains_key(kind)
    }

    /// Returns the entries that resolve references, in their order.
    pub fn entries(&self, references: &[ContextRef]) -> Vec<Entry> {
        let entry = |it: &ContextRef| {
            let id = format!("reference:{}/{}", it.kind, it.id);
            let resolved_by = self.types.get(&it.kind).cloned();
            let unknown = self.unknown;
            let (reference, failure) = (it.clone(), Mutex::default());
            Entry::Contributor(Arc::new(ReferenceEntry { id, reference, resolved_by, unknown, failure }))
        };
        references.iter().map(entry).collect()
    }
}

/// A reference as an entry of its request.
struct ReferenceEntry {
    id: String,
    reference: ContextRef,
    resolved_by: Option<ReferenceType>,
    unknown: OnError,
    /// Why it was left out of the turn's envelope.
    failure: Mutex<Option<String>>,
}

impl ReferenceEntry {
    fn note(&self, failure: Option<String>) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }

    /// Returns what a pass shows of a recorded turn: nothing but the reason why its text is missing.
    fn missing(&self) -> Result<Contribution, BoxError> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
        failure.map_or_else(|| Ok(Contribution::default()), |it| Err(it.into()))
    }

    async fn piece(&self, scope: Scope) -> Result<Piece, BoxError> {
        let ContextRef { kind, id, label } = &self.reference;
        let Some(resolved_by) = &self.resolved_by else {
            return Err(format!("there is no resolver for references of the type `{kind}`").into());
        };
        let text = resolved_by.resolver.resolve(self.reference.clone(), scope).await?;
        if text.len() > MAX_TEXT {
            return Err(format!("its text has {} bytes; it has at most {MAX_TEXT}", text.len()).into());
        }
        if text.trim().is_empty() {
            return Err("its text is blank".into());
        }
        let attributes =
            [("type", Some(kind.as_str())), ("id", Some(id.as_str())), ("label", label.as_deref())];
        Ok(Piece::new(tagged("reference", &attributes, &text)))
    }
}

impl Contributor for ReferenceEntry {
    fn id(&self) -> &str {
        &self.id
    }

    fn contribute(&self, call: Call) -> BoxFuture<'_, Result<Contribution, BoxError>> {
        Box::pin(async move {
            if call.has_envelope() {
                return self.missing();
            }
            // A deadline drops this future, so the reason is noted before.
            self.note(Some("it did not answer in time".to_owned()));
            let piece = self.piece((*call.scope).clone()).await;
            self.note(piece.as_ref().err().map(ToString::to_string));
            Ok(Contribution { pieces: vec![piece?], ..Contribution::default() })
        })
    }

    fn has_gate(&self) -> bool {
        false
    }

    fn declare(&self) -> Declaration {
        let resolved_by = self.resolved_by.as_ref();
        let profile = Profile {
            placement: Placement::User,
            trust: Trust::External,
            deadline: resolved_by.map(|it| it.deadline),
            on_error: resolved_by.map_or(self.unknown, |it| it.on_error),
            ..Profile::default()
        };
        let source = Some(Source::Noted(self.id.as_str().into()));
        Declaration { profile, source, family: Some("reference".to_owned()), ..Declaration::default() }
    }
}

/// References that an HTTP service resolves, as a project declares them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpReference {
    /// The URL, with `{id}` for the id of the reference, percent-encoded. Without it the id is in the query.
    pub url: String,
    /// Headers that are sent unchanged.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Headers whose values are secrets, by the name of the environment variable that holds them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub header_env: BTreeMap<String, String>,
    /// The part of a JSON response that is the text: a JSON Pointer such as `/data/text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// How long a call may take, in milliseconds.
    #[serde(default = "ten_seconds")]
    pub timeout_ms: u64,
    /// What happens to a turn if a reference can't be resolved.
    #[serde(default)]
    pub on_error: ReferencePolicy,
    /// The largest response to read, in bytes.
    #[serde(default = "quarter_mebibyte")]
    pub max_bytes: usize,
}

/// What happens to a turn with a reference that can't be resolved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReferencePolicy {
    /// It runs without the reference, and the Explanation warns.
    #[default]
    Warn,
    /// It fails before anything is written.
    Fail,
}

impl From<ReferencePolicy> for OnError {
    fn from(policy: ReferencePolicy) -> OnError {
        match policy {
            ReferencePolicy::Warn => OnError::Warn,
            ReferencePolicy::Fail => OnError::Fail,
        }
    }
}

fn ten_seconds() -> u64 {
    10_000
}

fn quarter_mebibyte() -> usize {
    MAX_TEXT
}

impl HttpReference {
    fn tool(&self) -> HttpTool {
        HttpTool {
            method: "GET".to_owned(),
            url: self.url.clone(),
            headers: self.headers.clone(),
            header_env: self.header_env.clone(),
            result: self.pointer.clone(),
            max_bytes: self.max_bytes,
        }
    }

    /// Checks the declaration. Like the URL of a tool, it has the id after its host only.
    pub fn check(&self) -> Result<(), HttpToolInvalid> {
        self.tool().check(&parameters())
    }

    /// Adds the type to others.
    pub fn add_to(
        &self,
        references: References,
        kind: &str,
        http: Arc<dyn HttpCaller>,
    ) -> Result<References, HttpToolInvalid> {
        self.check()?;
        let tool = Arc::new(self.tool());
        let resolver = move |reference: ContextRef, _: Scope| {
            let (tool, http) = (Arc::clone(&tool), Arc::clone(&http));
            async move {
                let request = tool.request(&parameters(), &json!({"id": reference.id}))?;
                Ok::<_, BoxError>(match tool.value(&http.call(request).await?)? {
                    Value::String(text) => text,
                    value => serde_json::to_string_pretty(&value)?,
                })
            }
        };
        let deadline = Duration::from_millis(self.timeout_ms);
        Ok(references.with_rules(kind, resolver, deadline, self.on_error.into()))
    }
}

/// Returns the parameters of the call that resolves a reference.
fn parameters() -> Value {
    json!({"type": "object", "properties": {"id": {"type": "string"}}})
}
