//! Request extractors: bodies, paths and queries, with a problem document for invalid input.

use std::borrow::Cow;
use std::fmt::Display;
use std::ops::RangeInclusive;

use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use contexture_message::{ErrorCode, JsonFault, json_fault};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::Problem;

/// A JSON body. Unknown fields are refused where the type says so; errors name the location.
#[derive(Clone, Debug)]
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let kind = request.headers().get(CONTENT_TYPE).map(|it| is_json(it.as_bytes()));
        if kind == Some(false) {
            return Err(not_json());
        }
        // The body was read already, within its limits.
        let unread = |_| Problem::new(ErrorCode::BodyInvalid, "the body could not be read to its end");
        let bytes = axum::body::Bytes::from_request(request, state).await.map_err(unread)?;
        // A body without a content type could come from any web page: browsers send a preflight only for JSON.
        if kind.is_none() && !bytes.is_empty() {
            return Err(not_json());
        }
        parse(&bytes).map(Self)
    }
}

fn not_json() -> Problem {
    Problem::new(ErrorCode::MediaTypeUnsupported, "the body must be `application/json`")
        .hint("send the header `content-type: application/json`; `curl --json` does")
}

fn is_json(content_type: &[u8]) -> bool {
    let kind = String::from_utf8_lossy(content_type).to_ascii_lowercase();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

/// Reads a JSON text; no text is an empty object.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let bytes = if bytes.is_empty() { b"{}" } else { bytes };
    // Serde would read a list as the fields of the object in order, which is never intended.
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        return Err(unreadable("it is a list, not an object"));
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|err| {
        let path = err.path().to_string();
        let problem = unreadable(err.inner());
        if path == "." { problem } else { problem.at(path) }
    })?;
    json.end().map_err(unreadable)?;
    match std::str::from_utf8(bytes).ok().and_then(json_fault) {
        Some(fault) => Err(ambiguous(&fault)),
        None => Ok(value),
    }
}

fn unreadable(why: impl Display) -> Problem {
    Problem::new(ErrorCode::BodyInvalid, format!("the body can't be read: {why}"))
}

/// A fault that a parser would silently ignore, with its location.
fn ambiguous(fault: &JsonFault) -> Problem {
    let JsonFault { path, line, column, .. } = fault;
    let problem = unreadable(format_args!("{fault} at line {line} column {column}"));
    if path.is_empty() { problem } else { problem.at(path.as_str()) }
}

/// Reads an object. Serde would take a list for its fields, one after the other.
pub(crate) fn object<'de, T: DeserializeOwned, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let value = Value::deserialize(deserializer)?;
    match value.is_object() {
        true => serde_json::from_value(value).map_err(D::Error::custom),
        false => Err(D::Error::custom("it must be an object")),
    }
}

/// Reads an object, or nothing.
pub(crate) fn optional_object<'de, T: DeserializeOwned, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        value => object(value).map(Some).map_err(D::Error::custom),
    }
}

/// Reads a list of objects.
pub(crate) fn objects<'de, T: DeserializeOwned, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let values = Vec::<Value>::deserialize(deserializer)?;
    let read = |it: Value| object(it).map_err(D::Error::custom);
    values.into_iter().map(read).collect()
}

/// Takes a field from an object whose other fields are read by another type, and reads it. One that is absent is null.
pub(crate) fn taken<T, E: serde::de::Error>(
    fields: &mut Map<String, Value>,
    name: &str,
    read: impl FnOnce(Value) -> serde_json::Result<T>,
) -> Result<T, E> {
    let value = fields.remove(name).unwrap_or_default();
    read(value).map_err(|err| E::custom(format_args!("`{name}`: {err}")))
}

/// The one variable part of a path.
#[derive(Clone, Debug)]
pub(crate) struct PathParam<T>(pub(crate) T);

impl<T: TryFrom<String, Error: Into<Problem>>, S: Send + Sync> FromRequestParts<S> for PathParam<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Path(text) = Path::<String>::from_request_parts(parts, state).await.map_err(no_path)?;
        T::try_from(text).map(Self).map_err(Into::into)
    }
}

/// Two variable parts of a path.
#[derive(Clone, Debug)]
pub(crate) struct PathParams<A, B>(pub(crate) A, pub(crate) B);

impl<A, B, S: Send + Sync> FromRequestParts<S> for PathParams<A, B>
where
    A: TryFrom<String, Error: Into<Problem>>,
    B: TryFrom<String, Error: Into<Problem>>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Path((a, b)) =
            Path::<(String, String)>::from_request_parts(parts, state).await.map_err(no_path)?;
        Ok(Self(A::try_from(a).map_err(Into::into)?, B::try_from(b).map_err(Into::into)?))
    }
}

fn no_path(err: impl std::fmt::Display) -> Problem {
    Problem::new(ErrorCode::PathInvalid, format!("the path can't be read: {err}"))
}

/// The query of a request.
#[derive(Clone, Debug)]
pub(crate) struct QueryParams<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for QueryParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let query = Query::<T>::from_request_parts(parts, state).await;
        let Query(value) = query.map_err(|err| {
            let text = err.body_text();
            let why = text.split_once(": ").map_or(text.as_str(), |(_, why)| why);
            Problem::new(ErrorCode::QueryInvalid, format!("the query can't be read: {why}"))
        })?;
        Ok(Self(value))
    }
}

/// Returns a name encoded as one path segment.
pub(crate) fn segment(name: &str) -> String {
    let is_plain = |it: u8| it.is_ascii_alphanumeric() || b"-._~:@".contains(&it);
    name.bytes()
        .map(|it| if is_plain(it) { char::from(it).to_string() } else { format!("%{it:02X}") })
        .collect()
}

/// Checks that a number of the body or of the query is in its range.
pub(crate) fn in_range<N: PartialOrd + Display>(
    code: ErrorCode,
    name: &str,
    number: N,
    range: RangeInclusive<N>,
) -> Result<N, Problem> {
    if range.contains(&number) {
        return Ok(number);
    }
    let text = format!("`{name}` is {number}; it goes from {} to {}", range.start(), range.end());
    Err(Problem::new(code, text).at(name))
}

/// Checks that a text of the body is not longer than it may be, in characters.
pub(crate) fn within(name: &str, text: Option<&str>, most: usize) -> Result<(), Problem> {
    let n = text.map_or(0, |it| it.chars().count());
    if n <= most {
        return Ok(());
    }
    Err(Problem::in_body(name, format!("`{name}` has {n} characters; it has at most {most}")))
}

/// Returns the beginning of a text from outside, to quote it.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(100).collect()
}

/// The largest integer that every JSON parser reads exactly.
const MAX_VERSION: u64 = 9_007_199_254_740_991;

/// The version of something that a writer has read. One that not every JSON parser reads exactly is refused.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "u64")]
pub(crate) struct Version(u64);

impl TryFrom<u64> for Version {
    type Error = String;

    fn try_from(version: u64) -> Result<Self, String> {
        match version {
            0..=MAX_VERSION => Ok(Self(version)),
            _ => Err(format!("{version} is no version: the largest is {MAX_VERSION}")),
        }
    }
}

impl From<Version> for u64 {
    fn from(version: Version) -> Self {
        version.0
    }
}

impl JsonSchema for Version {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Version".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "minimum": 0, "maximum": MAX_VERSION})
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::{parse, segment};

    #[derive(Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Outer {
        inner: Inner,
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Inner {
        n: u8,
    }

    fn read(text: &str) -> String {
        match parse::<Outer>(text.as_bytes()) {
            Ok(it) => it.inner.n.to_string(),
            Err(problem) => serde_json::to_string(&problem).unwrap_or_default(),
        }
    }

    #[test]
    fn a_name_is_one_segment_of_a_path() {
        assert_eq!(segment("demo-1.x"), "demo-1.x");
        assert_eq!(segment("a/b c?d#e%é"), "a%2Fb%20c%3Fd%23e%25%C3%A9");
    }

    #[test]
    fn what_is_wrong_with_a_body_is_told_with_its_place() {
        assert_eq!(read(""), "0");
        assert_eq!(read(r#"{"inner": {"n": 7}}"#), "7");
        assert!(read(r#"{"inner": {"n": 700}}"#).contains(r#""at":"inner.n""#));
        assert!(read(r#"{"innner": 1}"#).contains("unknown field `innner`"));
        assert!(
            read(r#"{"inner": {"n": 1, "n": 2}}"#).contains("the body can't be read: duplicate field `n`")
        );
        assert!(read("{} {}").contains("trailing characters"));
        assert!(read("[").contains("body_invalid") && read(" []").contains("a list, not an object"));
    }

    #[test]
    fn a_body_that_means_two_things_is_refused_with_the_place() {
        let read = |text: &str| match parse::<serde_json::Value>(text.as_bytes()) {
            Ok(value) => value.to_string(),
            Err(problem) => serde_json::to_string(&problem).unwrap_or_default(),
        };
        let twice = read(r#"{"input": {"plan": "free", "plan": "pro"}}"#);
        assert!(twice.contains("duplicate key `plan` at line 1 column 28"), "{twice}");
        assert!(twice.contains(r#""code":"body_invalid""#) && twice.contains(r#""at":"input""#), "{twice}");
        let rounded = read(r#"{"input": {"id": 12345678901234567890123}}"#);
        assert!(
            rounded.contains("12345678901234567890123") && rounded.contains(r#""at":"input.id""#),
            "{rounded}"
        );
    }
}
