//! Encryption does what `sslmode` says.

use contexture_pgtest::Postgres;
use contexture_store_postgres::{PostgresConfig, PostgresStore};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::support::{admin, config, url};

/// Makes a server speak TLS, and returns the certificate that signed its own.
async fn certify(server: &Postgres) -> String {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    let admin = admin(&server.url()).await;
    for (file, text) in [("server.key", key.serialize_pem()), ("server.crt", certificate.pem())] {
        let copy =
            format!("COPY (SELECT '{text}') TO PROGRAM 'umask 077; sed \"s/\\\\\\\\n/\\n/g\" > {file}'");
        admin.batch_execute(&copy).await.unwrap();
    }
    admin.batch_execute("ALTER SYSTEM SET ssl = on").await.unwrap();
    admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    authority.pem()
}

/// Connects, and says whether the connections are encrypted.
async fn connected(server: &Postgres, mode: &str, roots: Option<&str>) -> Result<bool, String> {
    let file = std::env::temp_dir().join(format!("contexture-roots-{}-{mode}.pem", std::process::id()));
    if let Some(roots) = roots {
        std::fs::write(&file, roots).unwrap();
    }
    let config = PostgresConfig { root_certificates: roots.map(|_| file.clone()), ..config("tls") };
    let name = format!("tls_{mode}_{}", roots.is_some());
    let url = format!("{}?sslmode={mode}&application_name={name}", server.url());
    let store = PostgresStore::connect(&url, config).await;
    let _ = std::fs::remove_file(&file);
    let _store = store.map_err(|err| err.to_string())?;
    let sql =
        "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = $1";
    Ok(admin(&server.url()).await.query_one(sql, &[&name]).await.unwrap().get(0))
}

#[tokio::test]
async fn the_mode_decides() {
    let server = Postgres::start().unwrap();
    let roots = certify(&server).await;
    // The server takes a moment to read its settings again.
    let mut encrypted = Ok(false);
    for _ in 0..3000 {
        encrypted = connected(&server, "require", Some(&roots)).await;
        if encrypted.is_ok() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(encrypted, Ok(true));
    assert_eq!(connected(&server, "verify-full", Some(&roots)).await, Ok(true));
    assert_eq!(connected(&server, "prefer", None).await, Ok(true));
    assert_eq!(connected(&server, "disable", None).await, Ok(false));
    let stranger = connected(&server, "require", None).await.unwrap_err();
    assert!(stranger.contains("certificate"), "{stranger}");
}

#[tokio::test]
async fn a_server_without_tls_is_refused_if_it_is_required() {
    let refused =
        PostgresStore::connect(&format!("{}?sslmode=require", url()), config("tls")).await.unwrap_err();
    assert!(refused.to_string().contains("TLS"), "{refused}");
}
