//! Certificates for tests: a certificate authority that no system trusts, and a server certificate
//! from it.
//!
//! The server's names are `localhost`, `127.0.0.1` and `{registry,cdn,auth,inner}.test`. Both
//! certificates expire in 2126; the authority's key has been deleted.

use std::sync::{Arc, OnceLock};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Returns the authority's certificate (DER), for a client that should trust it.
pub fn authority_der() -> Vec<u8> {
    certificate(include_bytes!("tls/authority.pem")).to_vec()
}

fn certificate(pem: &[u8]) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem).expect("the certificate is PEM")
}

pub(crate) fn server_config() -> Arc<ServerConfig> {
    static CONFIG: OnceLock<Arc<ServerConfig>> = OnceLock::new();
    let make = || {
        let key = PrivateKeyDer::from_pem_slice(include_bytes!("tls/server.key.pem"));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the default versions are known")
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate(include_bytes!("tls/server.pem"))],
                key.expect("the key is PEM"),
            );
        Arc::new(config.expect("key and certificate belong together"))
    };
    Arc::clone(CONFIG.get_or_init(make))
}
