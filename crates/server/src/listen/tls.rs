//! TLS, from two files.

use std::path::Path;
use std::sync::Arc;

use contexture_project::ServerConfig;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig as TlsConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::ListenError;

/// Returns the TLS acceptor, if the configuration names both files.
pub(super) fn acceptor(config: &ServerConfig, folder: &Path) -> Result<Option<TlsAcceptor>, ListenError> {
    let half = |given, missing| Err(ListenError::HalfTls { given, missing });
    let (certificates, key) = match (&config.tls_cert, &config.tls_key) {
        (None, None) => return Ok(None),
        (Some(_), None) => return half("tls_cert", "tls_key"),
        (None, Some(_)) => return half("tls_key", "tls_cert"),
        (Some(certificates), Some(key)) => (certificates, key),
    };
    let failed = |key, path: &str, why: String| ListenError::TlsFile { key, path: path.to_owned(), why };
    let of_certificates = |why: String| failed("tls_cert", certificates, why);
    let chain = CertificateDer::pem_file_iter(folder.join(certificates))
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|err| of_certificates(err.to_string()))?;
    if chain.is_empty() {
        return Err(of_certificates("it holds no certificate".to_owned()));
    }
    let secret = PrivateKeyDer::from_pem_file(folder.join(key))
        .map_err(|err| failed("tls_key", key, err.to_string()))?;
    let mut tls = TlsConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|err| of_certificates(err.to_string()))?
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(|err| of_certificates(err.to_string()))?;
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Some(TlsAcceptor::from(Arc::new(tls))))
}
