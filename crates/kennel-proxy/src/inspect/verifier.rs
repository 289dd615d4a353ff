//! Whom the gate believes when it connects by TLS.

use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

use super::roots::Roots;

pub(crate) const H1: &[u8] = b"http/1.1";
pub(crate) const H2: &[u8] = b"h2";

/// Whom and how the gate verifies.
#[derive(Debug)]
pub(crate) struct Verifier {
    roots: Arc<Roots>,
    /// With HTTP/2, and without.
    configs: [OnceLock<Arc<ClientConfig>>; 2],
}

impl Verifier {
    pub(crate) fn new(roots: Arc<Roots>) -> Verifier {
        Verifier { roots, configs: Default::default() }
    }

    pub(crate) fn config(&self, both: bool) -> Arc<ClientConfig> {
        Arc::clone(self.configs[usize::from(both)].get_or_init(|| {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
                .with_protocol_versions(rustls::DEFAULT_VERSIONS)
                .expect("ring has suites for these versions");
            let mut config = match NamedOrRoots::new(&self.roots, provider) {
                Some(verifier) => {
                    builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
                }
                None => builder.with_root_certificates(self.roots.store()).with_no_client_auth(),
            };
            config.alpn_protocols = match both {
                true => vec![H2.to_vec(), H1.to_vec()],
                false => vec![H1.to_vec()],
            };
            Arc::new(config)
        }))
    }
}

/// Verifies as rustls does, and believes a server whose certificate is itself one that the policy names, although it also says that it is
/// an authority's: that is how `openssl req -x509` makes the certificates of servers at home and in tests. Its name and its dates count as
/// ever, and the handshake shows that the server has its key.
#[derive(Debug)]
struct NamedOrRoots {
    roots: Arc<WebPkiServerVerifier>,
    named: Vec<CertificateDer<'static>>,
}

impl NamedOrRoots {
    /// `None` where the policy names no certificate.
    fn new(roots: &Roots, provider: Arc<CryptoProvider>) -> Option<Arc<NamedOrRoots>> {
        if roots.named().is_empty() {
            return None;
        }
        let verifier = WebPkiServerVerifier::builder_with_provider(roots.store(), provider).build().ok()?;
        Some(Arc::new(NamedOrRoots { roots: verifier, named: roots.named().to_vec() }))
    }
}

impl ServerCertVerifier for NamedOrRoots {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let error = match self.roots.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            Ok(verified) => return Ok(verified),
            Err(error) => error,
        };
        // rustls has no name for "an authority's certificate in the place of a server's", which it finds when the dates are in order.
        let other = matches!(error, Error::InvalidCertificate(CertificateError::Other(_)));
        if !other || !self.named.iter().any(|named| named.as_ref() == certificate.as_ref()) {
            return Err(error);
        }
        verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.roots.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.roots.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.roots.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
    use rustls::pki_types::pem::PemObject;

    use super::*;
    use crate::inspect::authority::pem;

    /// A certificate as `openssl req -x509` makes it: its own authority.
    fn certificate(name: &str, change: impl FnOnce(&mut CertificateParams)) -> String {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        change(&mut params);
        pem(params.self_signed(&KeyPair::generate().unwrap()).unwrap().der())
    }

    fn verified(named: &[&str], shown: &str, name: &str) -> Result<(), Error> {
        let folder = std::env::temp_dir().join(format!("kennel-named-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join(format!("{:?}.pem", std::thread::current().id()));
        std::fs::write(&file, named.concat()).unwrap();
        let roots = Roots::load(std::slice::from_ref(&file), std::iter::empty()).unwrap();
        std::fs::remove_file(&file).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = NamedOrRoots::new(&roots, provider).unwrap();
        let shown = CertificateDer::from_pem_slice(shown.as_bytes()).unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        verifier.verify_server_cert(&shown, &[], &name, &[], UnixTime::now()).map(drop)
    }

    #[test]
    fn a_named_certificate_that_signed_itself_is_believed_for_its_own_name_and_time() {
        let (own, other) = (certificate("a.test", |_| {}), certificate("a.test", |_| {}));
        assert_eq!(verified(&[&own], &own, "a.test"), Ok(()));
        assert_eq!(verified(&[&other, &own], &own, "a.test"), Ok(()));
        let refused = |result: Result<(), Error>| match result {
            Err(Error::InvalidCertificate(error)) => error,
            other => panic!("{other:?}"),
        };
        let name = refused(verified(&[&own], &own, "b.test"));
        assert!(matches!(name, CertificateError::NotValidForNameContext { .. }), "{name:?}");
        refused(verified(&[&other], &own, "a.test"));
        let old = certificate("a.test", |params| params.not_after = rcgen::date_time_ymd(2020, 2, 29));
        let old = refused(verified(&[&old], &old, "a.test"));
        assert!(matches!(old, CertificateError::ExpiredContext { .. }), "{old:?}");
        let new = certificate("a.test", |params| params.not_before = rcgen::date_time_ymd(3020, 1, 1));
        let new = refused(verified(&[&new], &new, "a.test"));
        assert!(matches!(new, CertificateError::NotValidYetContext { .. }), "{new:?}");
    }
}
