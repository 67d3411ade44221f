//! Encryption, by the URL's `sslmode`.
//!
//! - `disable`: no encryption.
//! - `prefer`, the default: if the server offers it, without verifying the server, as PostgreSQL's own programs do. It
//!   protects against eavesdropping, not impersonation. With `root_certificates` the server is verified.
//! - `require`: always, and the server's certificate must be valid for its name. PostgreSQL's own programs call
//!   this `verify-full`, and so may the URL.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

/// Returns what encrypts connections, or what is wrong with the certificates.
pub(crate) fn connector(mode: SslMode, roots: Option<&Path>) -> Result<MakeRustlsConnect, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|err| format!("TLS: {err}"))?;
    let config = if mode == SslMode::Require || roots.is_some() {
        builder.with_root_certificates(trusted(roots)?)
    } else {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAnyServer(provider)))
    };
    Ok(MakeRustlsConnect::new(config.with_no_client_auth()))
}

fn trusted(roots: Option<&Path>) -> Result<RootCertStore, String> {
    let certificates = match roots {
        Some(path) => from_file(path)?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(certificates);
    if store.is_empty() { Err("there are no certificates to trust".to_owned()) } else { Ok(store) }
}

fn from_file(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let in_file = |err| format!("{}: {err}", path.display());
    CertificateDer::pem_file_iter(path).and_then(Iterator::collect).map_err(in_file)
}

/// Takes every server for the right one.
#[derive(Debug)]
struct AcceptAnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyServer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
