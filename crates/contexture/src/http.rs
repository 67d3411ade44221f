//! The HTTP calls of tools.
//!
//! Sends a call that names its secrets, and returns the server's response. A function passed in by the caller looks
//! up the secrets. They are sent as headers to the named host only (redirects are not followed), and appear in no
//! error.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use contexture_agent::{HttpCaller, HttpReply, HttpRequest};
use contexture_compose::{BoxError, BoxFuture};
use contexture_model::{ClientError, Proxy, Secret, http_client};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, Response};

type Lookup = dyn Fn(&str) -> Option<String> + Send + Sync;

/// Makes HTTP calls for tools, encrypted in the same way as model calls. Clones share the connections.
#[derive(Clone)]
pub struct SystemHttp {
    client: Client,
    secrets: Arc<Lookup>,
}

impl SystemHttp {
    /// Returns a client. `secrets` returns secrets by name; nothing is read from the environment here.
    ///
    /// ```
    /// use contexture::SystemHttp;
    ///
    /// let http = SystemHttp::new(Vec::new(), None, |name| (name == "SHOP_KEY").then(|| "s3cret".to_owned()))?;
    /// # Ok::<(), contexture::model::ClientError>(())
    /// ```
    pub fn new(
        proxies: Vec<Proxy>,
        root_certificates: Option<PathBuf>,
        secrets: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Result<Self, ClientError> {
        Ok(Self { client: http_client(proxies, root_certificates)?, secrets: Arc::new(secrets) })
    }

    fn headers(&self, request: &HttpRequest) -> Result<HeaderMap, BoxError> {
        let mut headers = HeaderMap::new();
        if request.body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let secret = |(header, name): (&String, &String)| match (self.secrets)(name) {
            Some(value) => Ok((header.clone(), Secret::new(value))),
            None => Err(format!("the secret `{name}` of header `{header}` is not set")),
        };
        let plain = request.headers.iter().map(|(header, value)| (header.clone(), Secret::new(value)));
        let secrets = request.secret_headers.iter().map(secret).collect::<Result<Vec<_>, _>>()?;
        for (header, value) in plain.chain(secrets) {
            let wrong = || format!("header `{header}` has characters that can't be sent");
            let mut value = HeaderValue::from_str(value.expose()).map_err(|_| wrong())?;
            value.set_sensitive(true);
            headers.insert(header.parse::<HeaderName>().map_err(|_| wrong())?, value);
        }
        Ok(headers)
    }

    async fn send(self, request: HttpRequest) -> Result<HttpReply, BoxError> {
        let headers = self.headers(&request)?;
        let method: Method = request.method.parse()?;
        let call = self.client.request(method, &request.url).headers(headers);
        let call = match &request.body {
            Some(body) => call.body(body.to_string()),
            None => call,
        };
        // The URL may contain private arguments, so errors do not show it.
        let answer = call.send().await.map_err(without_address)?;
        let status = answer.status().as_u16();
        let content_type = answer.headers().get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
        let content_type = content_type.map(str::to_owned);
        Ok(HttpReply { status, content_type, body: body(answer, request.max_bytes).await? })
    }
}

impl HttpCaller for SystemHttp {
    fn call(&self, request: HttpRequest) -> BoxFuture<'static, Result<HttpReply, BoxError>> {
        Box::pin(self.clone().send(request))
    }
}

impl fmt::Debug for SystemHttp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemHttp").finish_non_exhaustive()
    }
}

async fn body(mut answer: Response, max_bytes: usize) -> Result<Vec<u8>, BoxError> {
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(without_address)? {
        if body.len() + chunk.len() > max_bytes {
            return Err(format!("the answer is larger than {max_bytes} bytes").into());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Describes an error down to its root cause; the outermost error says only that a request failed.
fn without_address(err: reqwest::Error) -> BoxError {
    let err = err.without_url();
    let causes = std::iter::successors(Some(&err as &dyn std::error::Error), |it| it.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ").into()
}
