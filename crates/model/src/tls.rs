//! TLS configuration: which certificates to trust.
//!
//! The input is the system's certificates and those of a file; the output is a configuration with its own crypto
//! provider, so that nothing global is set. A system without certificates is not an error: servers without TLS still
//! work.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::ClientError;

/// Returns the TLS configuration.
pub(crate) fn encryption(roots: Option<&Path>) -> Result<ClientConfig, ClientError> {
    let mut trusted = RootCertStore::empty();
    trusted.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = roots {
        trusted.add_parsable_certificates(from_file(path)?);
    }
    with(trusted)
}

/// Returns a TLS configuration without certificates, for clients that make no TLS connections.
pub(crate) fn trusting_nobody() -> Result<ClientConfig, ClientError> {
    with(RootCertStore::empty())
}

fn with(trusted: RootCertStore) -> Result<ClientConfig, ClientError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
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
