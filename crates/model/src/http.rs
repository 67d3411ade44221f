//! HTTP clients: TLS, proxies, timeouts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use reqwest::Proxy;
use reqwest::redirect::Policy;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::{ClientConfig, ClientError};

/// Returns an HTTP client for other uses, such as tools, with the same settings as for models: the same TLS and proxies, no redirects, no retries.
pub fn http_client(
    proxies: Vec<Proxy>,
    root_certificates: Option<PathBuf>,
) -> Result<reqwest::Client, ClientError> {
    build(&ClientConfig { proxies, root_certificates, ..ClientConfig::default() }, true)
}

/// Returns the HTTP client of a configuration.
pub(crate) fn build(config: &ClientConfig, is_encrypted: bool) -> Result<reqwest::Client, ClientError> {
    // Certificates take milliseconds to load, and a local server without encryption does not need them.
    let encryption = match is_encrypted || !config.proxies.is_empty() {
        true => encryption(config.root_certificates.as_deref())?,
        false => with_roots(RootCertStore::empty())?,
    };
    let builder = reqwest::Client::builder()
        .tls_backend_preconfigured(encryption)
        .connect_timeout(config.timeouts.connect)
        // A redirect would send the key to another address.
        .redirect(Policy::none())
        // The retry policy is in `retry`.
        .retry(reqwest::retry::never())
        .no_proxy();
    let builder = config.proxies.iter().cloned().fold(builder, reqwest::ClientBuilder::proxy);
    builder.build().map_err(|err| ClientError::Http(err.without_url().to_string()))
}

/// Returns the TLS configuration: it trusts the certificates of the system and those of a file.
///
/// It has its own crypto provider, so that nothing global is set. A system without certificates is not an error:
/// servers without TLS still work.
fn encryption(roots: Option<&Path>) -> Result<rustls::ClientConfig, ClientError> {
    let mut trusted = RootCertStore::empty();
    trusted.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = roots {
        trusted.add_parsable_certificates(from_file(path)?);
    }
    with_roots(trusted)
}

fn with_roots(trusted: RootCertStore) -> Result<rustls::ClientConfig, ClientError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|err| ClientError::Http(err.to_string()))?;
    Ok(builder.with_root_certificates(trusted).with_no_client_auth())
}

fn from_file(path: &Path) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let failed = |reason: String| ClientError::Certificates { path: path.to_owned(), reason };
    let found = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match found {
        Ok(found) if found.is_empty() => Err(failed("there are none".to_owned())),
        Ok(found) => Ok(found),
        Err(err) => Err(failed(err.to_string())),
    }
}
