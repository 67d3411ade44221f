//! Tools that make HTTP calls, declared in a project.
//!
//! `{name}` in the URL is an argument of the call, percent-encoded. It may appear anywhere after the host, never in
//! it, and no argument can produce a path segment such as `..`. Arguments that the URL does not use go into the query
//! of GET, HEAD and DELETE, and into a JSON body otherwise. Only arguments that the tool declares (`declared.rs`) are
//! sent, and none that repeats a query key of the URL. A response is a JSON value if the server says so, otherwise
//! text; any status outside 200 to 299 is a failure, including a redirect that was not followed.
//!
//! The calls are made by an [`HttpCaller`]: nothing here opens a socket or knows a secret.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use contexture_compose::BoxError;
pub use contexture_compose::ports::{HttpCaller, HttpReply, HttpRequest};
use contexture_message::ToolDefinition;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::declared::declared;
use super::tool::{Tool, ToolRefused};

/// An HTTP call, as a project declares it for a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpTool {
    /// `GET` (the default), `POST`, `PUT`, `PATCH`, `DELETE` or `HEAD`.
    #[serde(default = "get")]
    pub method: String,
    /// The URL, with `{name}` for arguments.
    pub url: String,
    /// Headers that are sent unchanged.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Headers whose values are secrets, by the name of the environment variable that holds them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub header_env: BTreeMap<String, String>,
    /// The part of a JSON response that is the tool's value: a JSON Pointer such as `/data/items`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// The largest response to read, in bytes; 1 MiB by default.
    #[serde(default = "one_mebibyte")]
    pub max_bytes: usize,
}

fn get() -> String {
    "GET".to_owned()
}

fn one_mebibyte() -> usize {
    1024 * 1024
}

/// An invalid declaration.
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
            // Otherwise an argument could choose the host that receives a secret.
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

    /// Whether arguments go into the query rather than the body.
    fn is_in_query(&self) -> bool {
        ["GET", "HEAD", "DELETE"].contains(&self.method.as_str())
    }

    /// Returns the call for a tool's arguments. Arguments that the parameters do not declare are left out.
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
        // Checks the whole URL: several arguments together can form a segment that none of them is.
        if has_dots(&url) {
            return Err(format!("the arguments make a step of `.` or `..` in the address: `{url}`").into());
        }
        let in_query = self.is_in_query();
        if in_query {
            // The URL takes precedence over arguments, even where the schema allows any argument.
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

    /// Extracts the tool's value from a response.
    pub fn value(&self, reply: &HttpReply) -> Result<Value, BoxError> {
        let text = String::from_utf8_lossy(&reply.body);
        if !(200..300).contains(&reply.status) {
            let shown: String = text.chars().take(2000).collect();
            return Err(format!("status {}: {shown}", reply.status).into());
        }
        let is_json = reply.content_type.as_deref().is_some_and(|it| it.contains("json"));
        // A tool with `result` expects JSON, whatever content type the server sends.
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

/// Whether the query of a URL has a key. The comparison ignores case, because some servers do.
fn said_by(url: &str, key: &str) -> bool {
    let query = url.split_once('?').map_or("", |(_, it)| it);
    let keys = query.split('&').map(|it| it.split('=').next().unwrap_or_default());
    keys.into_iter().any(|it| decoded(it).eq_ignore_ascii_case(key))
}

/// Decodes percent-encoding and `+`, where present.
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

/// Whether a header can be sent unchanged: the name is an RFC 9110 token, the value has no control characters.
fn is_header(name: &str, value: &str) -> bool {
    let of_name = |it: char| it.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(it);
    !name.is_empty() && name.chars().all(of_name) && !value.chars().any(|it| it.is_control() && it != '\t')
}

/// Whether the path has a `.` or `..` segment, which clients resolve to a different path.
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

/// Percent-encodes everything but RFC 3986's unreserved characters, so that no argument can escape its place.
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
