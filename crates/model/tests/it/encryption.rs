//! Encrypted connections: only to a server that proves who it is.

use std::path::PathBuf;
use std::sync::Arc;

use contexture_mockmodel::MockModel;
use contexture_model::{Client, ClientConfig, ClientError, ModelErrorKind, ModelProvider};
use contexture_wire::Dialect;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::{Heard, call, client_with, config, good, hear};

/// Puts a server with a certificate of its own in front of `server`; returns its port and the certificate's file.
async fn encrypted(server: &MockModel, name: &str) -> (u16, PathBuf) {
    let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (acceptor, behind) = (TlsAcceptor::from(Arc::new(config)), server.url().replace("http://", ""));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut behind = TcpStream::connect(&behind).await.unwrap();
            tokio::spawn(async move { _ = tokio::io::copy_bidirectional(&mut stream, &mut behind).await });
        }
    });
    let file = std::env::temp_dir().join(format!("contexture-model-{}-{port}.pem", std::process::id()));
    std::fs::write(&file, made.cert.pem()).unwrap();
    (port, file)
}

/// Asks an encrypted server whose certificate is for `name`.
async fn asked(name: &str, trusts_it: bool) -> Heard {
    let server = MockModel::start([good(Dialect::Openai)]).await;
    let (port, file) = encrypted(&server, name).await;
    let root_certificates = trusts_it.then(|| file.clone());
    let provider = ModelProvider::new(Dialect::Openai).at(format!("https://localhost:{port}/v1"));
    let client = client_with(provider, ClientConfig { root_certificates, ..config() });
    let heard = hear(&client, call("hello")).await;
    std::fs::remove_file(file).unwrap();
    heard
}

#[tokio::test]
async fn a_server_of_a_trusted_certificate_is_asked() {
    assert_eq!(asked("localhost", true).await.text(), "The answer is 42.");
}

#[tokio::test]
async fn an_unknown_server_is_not_trusted() {
    for (name, trusts_it) in [("localhost", false), ("example.org", true)] {
        let heard = asked(name, trusts_it).await;
        assert_eq!(heard.error().kind(), ModelErrorKind::Disconnected);
        assert!(heard.error().to_string().contains("certificate"), "{}", heard.error());
    }
}

#[test]
fn certificates_must_be_there() {
    let providers = [("mock".to_owned(), ModelProvider::new(Dialect::Openai))].into();
    let root_certificates = Some(PathBuf::from("not/there.pem"));
    let refused = Client::new(ClientConfig { providers, root_certificates, ..config() }).unwrap_err();
    assert!(matches!(refused, ClientError::Certificates { .. }), "{refused}");
}
