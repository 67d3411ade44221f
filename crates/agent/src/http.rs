//! Tools that are HTTP calls, declared in a project.
//!
//! `{name}` in the address is an argument of the call, percent-encoded; it can stand anywhere behind the host, never in
//! it, and no argument makes a step such as `..` in the path. Arguments that the address does not use go into the query of
//! GET, HEAD and DELETE, and into a JSON body otherwise; those only that the tool declares (`declared.rs`), and none of the
//! name of something that the address says itself. What comes back is a JSON value if the server says so, or else
//! text; any status besides 200 to 299 is a failure, a redirect that was not followed included.
//! Who makes the call is handed in as an [`HttpCaller`]: nothing here opens a socket or knows a secret.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use contexture_compose::{BoxError, BoxFuture};
use contexture_message::ToolDefinition;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::declared::declared;
use crate::tool::{Tool, ToolRefused};

/// An HTTP call, as a project declares it beside a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpTool {
    /// `GET` (the default), `POST`, `PUT`, `PATCH`, `DELETE` or `HEAD`.
    #[serde(default = "get")]
    pub method: String,
    /// The address, with `{name}` for arguments.
    pub url: String,
    /// Headers that are sent as they are.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Headers whose values are secrets, by the name of the environment variable that holds them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub header_env: BTreeMap<String, String>,
    /// Which part of a JSON answer is the tool's value: a JSON Pointer such as `/data/items`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// The largest answer that is read, in bytes; by default 1 MiB.
    #[serde(default = "one_mebibyte")]
    pub max_bytes: usize,
}

fn get() -> String {
    "GET".to_owned()
}

fn one_mebibyte() -> usize {
    1024 * 1024
}

/// A call that is ready to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRequest {
    /// The method.
    pub method: String,
    /// The whole address.
    pub url: String,
    /// Headers that are sent as they are.
    pub headers: BTreeMap<String, String>,
    /// Headers whose values are secrets, by the name under which the caller knows them.
    pub secret_headers: BTreeMap<String, String>,
    /// The JSON body, if there is one.
    pub body: Option<Value>,
    /// The largest answer that may be read; a larger one is a failure.
    pub max_bytes: usize,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpReply {
    /// The status.
    pub status: u16,
    /// The media type, where the server named one.
    pub content_type: Option<String>,
    /// The body.
    pub body: Vec<u8>,
}

/// Makes HTTP calls.
///
/// Implementors promise to look up secrets by name, to send them to the named host only (no redirects to others), to
/// read no more than `max_bytes`, and never to put a secret into an error.
pub trait HttpCaller: Send + Sync {
    /// Makes a call.
    fn call(&self, request: HttpRequest) -> BoxFuture<'static, Result<HttpReply, BoxError>>;
}

/// A declaration that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct HttpToolInvalid(String);

impl HttpTool {
    /// Checks the declaration against the tool's parameters.
    pub fn check(&self, parameters: &Value) -> Result<(), HttpToolInvalid> {
        let invalid = |reason: String| Err(HttpToolInvalid(reason));
        if !["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"].contains(&self.method.as_str()) {
            return invalid(format!("`{}` is no method: GET, POST, PUT, PATCH, DELETE or HEAD", self.method));
        }
        let pieces = pieces(&self.url)?;
        let Some(Piece::Text(start)) = pieces.first() else {
            return invalid("the address needs a host".to_owned());
        };
        let host = start.strip_prefix("https://").or_else(|| start.strip_prefix("http://"));
        match host {
            None => return invalid(format!("`{}` does not begin with http:// or https://", self.url)),
            // Otherwise an argument would choose whom a secret is sent to.
            Some(host) if pieces.len() > 1 && !host.contains(['/', '?']) => {
                return invalid("arguments can stand behind the host, not in it".to_owned());
            }
            Some(_) => {}
        }
        if self.url.contains('#') || has_dots(&self.url) {
            return invalid(format!("`{}` has a `#`, or a `.` or `..` as a step of its path", self.url));
        }
        if let Some(name) =
            self.headers.iter().find_map(|(name, value)| (!is_header(name, value)).then_some(name))
        {
            return invalid(format!(
                "header `{}` can't be sent: it has characters that no header has",
                name.escape_debug()
            ));
        }
        if let Some(pointer) = self.result.as_deref().filter(|it| !it.is_empty() && !it.starts_with('/')) {
            return invalid(format!("`{pointer}` is no JSON Pointer: it begins with `/`"));
        }
        let known = parameters.get("properties").and_then(Value::as_object);
        let unknown = pieces.iter().find_map(|it| match it {
            Piece::Argument(name) if !known.is_some_and(|it| it.contains_key(*name)) => Some(*name),
            Piece::Argument(_) | Piece::Text(_) => None,
        });
        if let Some(name) = unknown {
            return invalid(format!(
                "the address reads `{name}`, which the tool's parameters do not declare"
            ));
        }
        let in_address =
            |name: &str| pieces.iter().any(|it| matches!(it, Piece::Argument(it) if *it == name));
        let mut queried =
            known.into_iter().flat_map(Map::keys).filter(|it| self.is_in_query() && !in_address(it));
        match queried.find(|it| said_by(&self.url, it)) {
            Some(name) => {
                invalid(format!("the query of the address says `{name}`, and so would the argument"))
            }
            None => Ok(()),
        }
    }

    /// Whether arguments go into the query.
    fn is_in_query(&self) -> bool {
        ["GET", "HEAD", "DELETE"].contains(&self.method.as_str())
    }

    /// Returns the call for a tool's arguments, as far as its parameters declare them.
    pub fn request(&self, parameters: &Value, arguments: &Value) -> Result<HttpRequest, BoxError> {
        let mut rest = declared(parameters, arguments);
        let mut url = String::new();
        for piece in pieces(&self.url)? {
            match piece {
                Piece::Text(text) => url.push_str(text),
                Piece::Argument(name) => {
                    let value = arguments.get(name).map(plain).unwrap_or_default();
                    if value.is_empty() {
                        return Err(format!("argument `{name}` is empty, and the address needs it").into());
                    }
                    url.push_str(&encoded(&value));
                    rest.shift_remove(name);
                }
            }
        }
        // The whole is looked at: several arguments together can make what none of them is.
        if has_dots(&url) {
            return Err(format!("the arguments make a step of `.` or `..` in the address: `{url}`").into());
        }
        let in_query = self.is_in_query();
        if in_query {
            // Also where any argument is declared: what the address says is not said twice.
            rest.retain(|key, _| !said_by(&self.url, key));
        }
        if in_query && !rest.is_empty() {
            let pairs =
                rest.iter().map(|(key, value)| format!("{}={}", encoded(key), encoded(&plain(value))));
            let joined = pairs.collect::<Vec<_>>().join("&");
            url.push(if url.contains('?') { '&' } else { '?' });
            url.push_str(&joined);
        }
        Ok(HttpRequest {
            method: self.method.clone(),
            url,
            headers: self.headers.clone(),
            secret_headers: self.header_env.clone(),
            body: (!in_query).then_some(Value::Object(rest)),
            max_bytes: self.max_bytes,
        })
    }

    /// Returns the tool's value in what came back.
    pub fn value(&self, reply: &HttpReply) -> Result<Value, BoxError> {
        let text = String::from_utf8_lossy(&reply.body);
        if !(200..300).contains(&reply.status) {
            let shown: String = text.chars().take(2000).collect();
            return Err(format!("status {}: {shown}", reply.status).into());
        }
        let is_json = reply.content_type.as_deref().is_some_and(|it| it.contains("json"));
        // Whoever picks a part of the answer relies on its being JSON, whatever the server calls it.
        if (!is_json && self.result.is_none()) || text.is_empty() {
            return Ok(Value::String(text.into_owned()));
        }
        let value: Value =
            serde_json::from_str(&text).map_err(|err| format!("the answer is not JSON: {err}"))?;
        match &self.result {
            None => Ok(value),
            Some(pointer) => {
                let missing = || format!("the answer has nothing at `{pointer}`").into();
                value.pointer(pointer).cloned().ok_or_else(missing)
            }
        }
    }

    /// Returns the tool that makes this call.
    pub fn into_tool(
        self,
        tool: ToolDefinition,
        timeout: Option<Duration>,
        caller: Arc<dyn HttpCaller>,
    ) -> Result<Tool, ToolRefused> {
        let name = tool.name.clone();
        self.check(&tool.parameters).map_err(|err| ToolRefused { name, reason: err.to_string() })?;
        let (http, parameters) = (Arc::new(self), Arc::new(tool.parameters.clone()));
        let tool = Tool::new(tool, move |invocation| {
            let (http, caller, parameters) =
                (Arc::clone(&http), Arc::clone(&caller), Arc::clone(&parameters));
            async move {
                let request = http.request(&parameters, &invocation.call.arguments)?;
                http.value(&caller.call(request).await?)
            }
        })?;
        Ok(match timeout {
            Some(timeout) => tool.timeout(timeout),
            None => tool,
        })
    }
}

enum Piece<'a> {
    Text(&'a str),
    Argument(&'a str),
}

fn pieces(url: &str) -> Result<Vec<Piece<'_>>, HttpToolInvalid> {
    let mut pieces = Vec::new();
    let mut rest = url;
    while let Some((before, behind)) = rest.split_once('{') {
        let Some((name, behind)) = behind.split_once('}') else {
            return Err(HttpToolInvalid(format!("`{url}` has a `{{` without its `}}`")));
        };
        if !before.is_empty() {
            pieces.push(Piece::Text(before));
        }
        pieces.push(Piece::Argument(name));
        rest = behind;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    Ok(pieces)
}

/// Whether the query of an address has a key. Servers differ in whether they tell `a` and `A` apart, so they are the same.
fn said_by(url: &str, key: &str) -> bool {
    let query = url.split_once('?').map_or("", |(_, it)| it);
    let keys = query.split('&').map(|it| it.split('=').next().unwrap_or_default());
    keys.into_iter().any(|it| decoded(it).eq_ignore_ascii_case(key))
}

/// Undoes percent-encoding, as far as there is any.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        let hex = behind.get(..2).and_then(|it| std::str::from_utf8(it).ok());
        let hex = hex.and_then(|it| u8::from_str_radix(it, 16).ok()).filter(|_| *byte == b'%');
        bytes.push(hex.unwrap_or(if *byte == b'+' { b' ' } else { *byte }));
        rest = if hex.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether a header can be sent as it is: RFC 9110's token, and a value without control characters.
fn is_header(name: &str, value: &str) -> bool {
    let of_name = |it: char| it.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(it);
    !name.is_empty() && name.chars().all(of_name) && !value.chars().any(|it| it.is_control() && it != '\t')
}

/// Whether a path has a step that leads elsewhere; clients take `..` out together with the step before it.
fn has_dots(url: &str) -> bool {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    path.split(['/', '\\']).any(|it| it == "." || it == "..")
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Percent-encodes everything but RFC 3986's unreserved characters, so that no argument can end its place.
fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}
