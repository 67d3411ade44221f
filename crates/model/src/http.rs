//! The HTTP client for everything that is not a model, such as tools.

use std::path::PathBuf;

use reqwest::Proxy;

use crate::{ClientConfig, ClientError, client};

/// Returns an HTTP client as models are called with: the same encryption and proxies, no redirects, no retries.
pub fn http_client(
    proxies: Vec<Proxy>,
    root_certificates: Option<PathBuf>,
) -> Result<reqwest::Client, ClientError> {
    client::http_client(&ClientConfig { proxies, root_certificates, ..ClientConfig::default() }, true)
}
