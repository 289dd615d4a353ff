//! The sandbox's own certificate authority. Its key is made here and never leaves this process's memory, so that a certificate of
//! it proves one thing: the gate of this very sandbox is at the other end.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use kennel_policy::domain::Host;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SanType,
};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;

use super::own_authority;

/// Clocks differ.
const BACKDATED: Duration = Duration::from_secs(24 * 3600);
/// Longer than any command runs; shorter than what Apple's clients accept (825 days).
const VALID: Duration = Duration::from_secs(99 * 24 * 3600);
/// Certificates that are kept for the next connection. A command may ask for any number of names.
const MAX_LEAVES: usize = 256;

/// A certificate authority that signs for the hosts whose TLS ends at the gate.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    /// One key for all hosts.
    leaf_key: KeyPair,
    leaves: Mutex<HashMap<Host, Arc<CertifiedKey>>>,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authority(…)")
    }
}

/// Why there is no authority, or no certificate of it.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The key or the certificate could not be made.
    #[error("creating a certificate: {0}")]
    Create(#[from] rcgen::Error),
    /// The certificate could not be put to use.
    #[error("using a certificate: {0}")]
    Use(#[from] rustls::Error),
    /// The user's certificate is none.
    #[error("the certificate's file holds no certificate in PEM")]
    NoCertificate,
    /// The user's key is none.
    #[error("the key's file holds no private key in PEM that can sign (RSA of 2048 bits or more, or ECDSA)")]
    NoKey,
    /// The user's key is another one's.
    #[error("the key is not the certificate's")]
    OtherKey,
    /// The name cannot be repeated.
    #[error("the certificate's subject has a form that kennel cannot repeat; use a plain name, such as CN=…")]
    Name,
}

/// A certificate in PEM.
pub(super) fn pem(certificate: &[u8]) -> String {
    let mut text = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in crate::auth::encode(certificate).as_bytes().chunks(64) {
        text.extend(line.iter().map(|byte| char::from(*byte)));
        text.push('\n');
    }
    text.push_str("-----END CERTIFICATE-----\n");
    text
}

impl Authority {
    /// A new one, with a key that nobody has seen.
    pub fn new() -> Result<Authority, AuthorityError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = Default::default();
        params.distinguished_name.push(DnType::CommonName, "kennel: the gate of this sandbox");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        validity(&mut params);
        let certificate = params.self_signed(&key)?.der().clone();
        Ok(Authority {
            issuer: Issuer::new(params, key),
            certificate,
            leaf_key: KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?,
            leaves: Mutex::default(),
        })
    }

    /// One of the user's own: a certificate and its key, in PEM.
    ///
    /// # Errors
    /// Where they are none, or do not belong together.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Authority, AuthorityError> {
        let (certificate, issuer) = own_authority::from_pem(certificate, key)?;
        Ok(Authority {
            issuer,
            certificate,
            leaf_key: KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?,
            leaves: Mutex::default(),
        })
    }

    /// The certificate that clients inside are to trust, in DER.
    #[must_use]
    pub fn certificate_der(&self) -> &[u8] {
        &self.certificate
    }

    /// The same in PEM.
    #[must_use]
    pub fn certificate_pem(&self) -> String {
        pem(&self.certificate)
    }

    /// A certificate for a host, with its chain.
    pub(crate) fn leaf(&self, host: &Host) -> Result<Arc<CertifiedKey>, AuthorityError> {
        let mut leaves = self.leaves.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(leaf) = leaves.get(host) {
            return Ok(Arc::clone(leaf));
        }
        let mut params = CertificateParams::default();
        params.distinguished_name = Default::default();
        // Longer names fit no common name (X.520: 64), and nobody reads it beside the alternative name.
        let name = host.to_string();
        params.distinguished_name.push(DnType::CommonName, name.chars().take(64).collect::<String>());
        params.subject_alt_names = vec![match host {
            Host::Name(name) => SanType::DnsName(name.as_str().try_into()?),
            Host::Ip(address) => SanType::IpAddress(IpAddr::clone(address)),
        }];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        // Python from 3.13 on rejects a certificate without it.
        params.use_authority_key_identifier_extension = true;
        validity(&mut params);
        let leaf = params.signed_by(&self.leaf_key, &self.issuer)?;
        let key = PrivatePkcs8KeyDer::from(self.leaf_key.serialized_der()).into();
        let key = rustls::crypto::ring::sign::any_ecdsa_type(&key)?;
        let chain = vec![leaf.der().clone(), self.certificate.clone()];
        let leaf = Arc::new(CertifiedKey::new(chain, key));
        if leaves.len() >= MAX_LEAVES {
            leaves.clear();
        }
        leaves.insert(host.clone(), Arc::clone(&leaf));
        Ok(leaf)
    }
}

fn validity(params: &mut CertificateParams) {
    let now = SystemTime::now();
    params.not_before = (now - BACKDATED).into();
    params.not_after = (now + VALID).into();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_trusts_it_accepts_its_certificates_for_their_hosts_only() {
        use rustls::client::WebPkiServerVerifier;
        use rustls::client::danger::ServerCertVerifier;
        use rustls::pki_types::{ServerName, UnixTime};

        let authority = Authority::new().unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from(authority.certificate_der().to_vec())).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        let leaf = authority.leaf(&Host::parse("api.test").unwrap()).unwrap();
        let accepts = |name: &'static str| {
            let name = ServerName::try_from(name).unwrap();
            verifier.verify_server_cert(&leaf.cert[0], &leaf.cert[1..], &name, &[], UnixTime::now()).is_ok()
        };
        assert!(accepts("api.test") && !accepts("evil.test"));
        let other = Authority::new().unwrap();
        assert_ne!(other.certificate_der(), authority.certificate_der());
        assert!(format!("{authority:?}").len() < 20);
    }

    /// `openssl` writes what users have.
    #[test]
    fn an_authority_of_the_users_own_signs_too() {
        use rustls::client::WebPkiServerVerifier;
        use rustls::client::danger::ServerCertVerifier;
        use rustls::pki_types::{ServerName, UnixTime};

        let folder = std::env::temp_dir().join(format!("kennel-authority-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let subject = "/C=DE/O=Müller & Söhne/OU=it/CN=a test";
        let script = format!(
            "openssl req -utf8 -x509 -newkey rsa:2048 -nodes -keyout rsa.key -out rsa.pem -days 9 -subj '{subject}' &&
             openssl rsa -traditional -in rsa.key -out old.key && cp rsa.pem old.pem &&
             openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ec.key -out ec.pem -days 9 -subj '/CN=e'"
        );
        let made = std::process::Command::new("sh").args(["-c", &script]).current_dir(&folder).output();
        if !made.is_ok_and(|made| made.status.success()) {
            eprintln!("SKIPPED: openssl is not installed");
            return;
        }
        let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
        for kind in ["rsa", "old", "ec"] {
            let authority =
                Authority::from_pem(&read(&format!("{kind}.pem")), &read(&format!("{kind}.key"))).unwrap();
            let mut roots = rustls::RootCertStore::empty();
            roots.add(CertificateDer::from(authority.certificate_der().to_vec())).unwrap();
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let verifier =
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
            let leaf = authority.leaf(&Host::parse("api.test").unwrap()).unwrap();
            let name = ServerName::try_from("api.test").unwrap();
            let verified =
                verifier.verify_server_cert(&leaf.cert[0], &leaf.cert[1..], &name, &[], UnixTime::now());
            verified.unwrap_or_else(|error| panic!("{kind}: {error}"));
        }
        let wrong = |certificate: &[u8], key: &[u8]| Authority::from_pem(certificate, key).unwrap_err();
        assert!(matches!(wrong(&read("rsa.pem"), &read("ec.key")), AuthorityError::OtherKey));
        assert!(matches!(wrong(b"", &read("ec.key")), AuthorityError::NoCertificate));
        assert!(matches!(wrong(&read("rsa.pem"), b"x"), AuthorityError::NoKey));
        let _ = std::fs::remove_dir_all(folder);
    }

    #[test]
    fn addresses_and_long_names_get_certificates_too() {
        let authority = Authority::new().unwrap();
        let long = format!("{}.{}.test", "a".repeat(60), "b".repeat(60));
        for host in ["192.0.2.1", "2001:db8::1", &long] {
            authority.leaf(&Host::parse(host).unwrap()).unwrap();
        }
    }
}
