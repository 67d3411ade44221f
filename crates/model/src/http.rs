//! HTTP clients: TLS, proxies, timeouts.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::Proxy;
use reqwest::redirect::Policy;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::runtime::{Handle, Id};

use crate::{ClientConfig, ClientError};

/// Returns an HTTP client for other uses, such as tools, with the same settings as for models: the same TLS and proxies, no redirects, no retries.
pub fn http_client(
    proxies: Vec<Proxy>,
    root_certificates: Option<PathBuf>,
) -> Result<reqwest::Client, ClientError> {
    let config = ClientConfig { proxies, root_certificates, ..ClientConfig::default() };
    HttpSettings::new(&config, true)?.client()
}

/// How many runtimes are remembered. Those that have ended are not told apart.
const MAX_RUNTIMES: usize = 1024;

/// HTTP clients with the same settings, one for each runtime.
///
/// A task of the runtime that opened a connection reads it. Another runtime would have to wake that one's thread for
/// every piece of an answer, and would lose the connection when that one ends.
#[derive(Debug)]
pub(crate) struct HttpClients {
    settings: HttpSettings,
    first: reqwest::Client,
    by_runtime: Mutex<HashMap<Id, reqwest::Client>>,
}

impl HttpClients {
    pub(crate) fn new(config: &ClientConfig, is_encrypted: bool) -> Result<Self, ClientError> {
        let settings = HttpSettings::new(config, is_encrypted)?;
        Ok(Self { first: settings.client()?, settings, by_runtime: Mutex::default() })
    }

    /// Returns the client of the current runtime.
    pub(crate) fn current(&self) -> reqwest::Client {
        let Ok(runtime) = Handle::try_current() else { return self.first.clone() };
        let mut clients = self.by_runtime.lock().unwrap_or_else(PoisonError::into_inner);
        if clients.len() >= MAX_RUNTIMES && !clients.contains_key(&runtime.id()) {
            clients.clear();
        }
        // The first one works everywhere, only slower.
        let new = || self.settings.client().unwrap_or_else(|_| self.first.clone());
        clients.entry(runtime.id()).or_insert_with(new).clone()
    }
}

/// What clients are made from.
#[derive(Debug)]
struct HttpSettings {
    encryption: rustls::ClientConfig,
    proxies: Vec<Proxy>,
    connect_timeout: Duration,
}

impl HttpSettings {
    fn new(config: &ClientConfig, is_encrypted: bool) -> Result<Self, ClientError> {
        // Certificates take milliseconds to load, and a local server without encryption does not need them.
        let encryption = match is_encrypted || !config.proxies.is_empty() {
            true => encryption(config.root_certificates.as_deref())?,
            false => with_roots(RootCertStore::empty())?,
        };
        let (proxies, connect_timeout) = (config.proxies.clone(), config.timeouts.connect);
        Ok(Self { encryption, proxies, connect_timeout })
    }

    fn client(&self) -> Result<reqwest::Client, ClientError> {
        let builder = reqwest::Client::builder()
            .tls_backend_preconfigured(self.encryption.clone())
            .connect_timeout(self.connect_timeout)
            // A redirect would send the key to another address.
            .redirect(Policy::none())
            // The retry policy is in `retry`.
            .retry(reqwest::retry::never())
            .no_proxy();
        let builder = self.proxies.iter().cloned().fold(builder, reqwest::ClientBuilder::proxy);
        builder.build().map_err(|err| ClientError::Http(err.without_url().to_string()))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_runtime_has_a_client_and_old_ones_are_forgotten() {
        let clients = HttpClients::new(&ClientConfig::default(), false).unwrap();
        let n_clients = || clients.by_runtime.lock().unwrap().len();
        clients.current();
        assert_eq!(n_clients(), 0, "there is no runtime");
        let use_twice = || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async { drop((clients.current(), clients.current())) });
        };
        use_twice();
        use_twice();
        assert_eq!(n_clients(), 2);
        (2..=MAX_RUNTIMES).for_each(|_| use_twice());
        assert_eq!(n_clients(), 1);
    }
}
