//! The HTTP client for everything other than models, such as tools.

use std::path::PathBuf;

use reqwest::Proxy;

use crate::{ClientConfig, ClientError, client};

/// Returns an HTTP client with the same settings as for models: the same TLS and proxies, no redirects, no retries.
pub fn http_client(
    proxies: Vec<Proxy>,
    root_certificates: Option<PathBuf>,
) -> Result<reqwest::Client, ClientError> {
    client::http_client(&ClientConfig { proxies, root_certificates, ..ClientConfig::default() }, true)
}
