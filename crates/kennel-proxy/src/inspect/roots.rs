//! Whom the gate trusts when it talks to a server for the sandbox, and whom programs inside are told to trust.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use memchr::memmem;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::authority::Authority;

/// Where systems keep the certificates of authorities, in one file: Debian, Fedora, SUSE, Alpine and macOS, and others.
pub const BUNDLES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Variables of the caller's that name further certificates.
const VARIABLES: [&str; 2] = ["SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"];
/// The largest system's bundle has less than half a megabyte.
const MAX: u64 = 8 << 20;

/// The authorities of the host.
#[derive(Debug)]
pub struct Roots {
    pem: String,
    /// Those that the policy names: one of them may be a server's own certificate.
    named: Vec<CertificateDer<'static>>,
    store: OnceLock<Arc<RootCertStore>>,
}

/// Why certificates could not be read.
#[derive(Debug, thiserror::Error)]
pub enum RootsError {
    /// A file that was named could not be read.
    #[error("reading certificates from {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file that was named has none.
    #[error(
        "reading certificates from {0}: there is none in it\nhelp: certificates are in PEM, between `-----BEGIN CERTIFICATE-----` and `-----END CERTIFICATE-----`"
    )]
    Empty(PathBuf),
}

impl Roots {
    /// Reads the host's bundle, those that the caller's variables name, and `extra` ones. Only the last have to be there.
    pub fn load<'e>(
        extra: &[PathBuf],
        environment: impl Iterator<Item = (&'e OsStr, &'e OsStr)>,
    ) -> Result<Roots, RootsError> {
        let mut all = Certificates::default();
        let bundle = BUNDLES.iter().map(Path::new);
        let bundle = bundle.into_iter().find(|path| read(path).is_ok_and(|text| all.add(&text)));
        let bundle = bundle.and_then(identity);
        for (name, value) in environment {
            if VARIABLES.iter().any(|own| name == OsStr::new(own)) && !value.is_empty() {
                let path = Path::new(value);
                // Every start of a sandbox with a certificate of its own waits for this, and most name the same file.
                if bundle.is_none() || identity(path) != bundle {
                    all.add(&read(path).unwrap_or_default());
                }
            }
        }
        let mut named = Vec::new();
        for path in extra {
            let text = read(path).map_err(|source| RootsError::Read { path: path.clone(), source })?;
            if !all.add(&text) {
                return Err(RootsError::Empty(path.clone()));
            }
            named.extend(CertificateDer::pem_slice_iter(text.as_bytes()).flatten());
        }
        Ok(Roots { pem: all.pem, named, store: OnceLock::new() })
    }

    /// The bundle for programs inside: the sandbox's own authority and all of the host's.
    #[must_use]
    pub fn pem_with(&self, authority: &Authority) -> String {
        format!("{}{}", authority.certificate_pem(), self.pem)
    }

    /// The certificates that the policy names.
    pub(super) fn named(&self) -> &[CertificateDer<'static>] {
        &self.named
    }

    /// What servers are verified against. Certificates that cannot be read are left out.
    pub(super) fn store(&self) -> Arc<RootCertStore> {
        Arc::clone(self.store.get_or_init(|| {
            let mut store = RootCertStore::empty();
            store.add_parsable_certificates(CertificateDer::pem_slice_iter(self.pem.as_bytes()).flatten());
            Arc::new(store)
        }))
    }
}

/// Which file it is.
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// Certificates in PEM, those of later files each once: they mostly name what the system has anyway.
#[derive(Default)]
struct Certificates {
    pem: String,
}

impl Certificates {
    /// Adds the certificates of a text, and nothing else that is in it: a key beside them stays outside. Returns whether it has
    /// any.
    fn add(&mut self, text: &str) -> bool {
        const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
        const END: &str = "-----END CERTIFICATE-----";
        let (begin, end) = (memmem::Finder::new(BEGIN), memmem::Finder::new(END));
        let (mut rest, mut any, before) = (text, false, self.pem.len());
        self.pem.reserve(text.len());
        while let Some(start) = begin.find(rest.as_bytes()) {
            rest = &rest[start..];
            let Some(length) = end.find(rest.as_bytes()) else { break };
            let (one, after) = rest.split_at(length + END.len());
            any = true;
            let one = if one.contains('\r') { Cow::Owned(one.replace('\r', "")) } else { Cow::Borrowed(one) };
            if before == 0 || memmem::find(self.pem.as_bytes(), one.as_bytes()).is_none() {
                self.pem.push_str(&one);
                self.pem.push('\n');
            }
            rest = after;
        }
        any
    }
}

fn read(path: &Path) -> io::Result<String> {
    use io::Read;
    let file = fs::File::open(path)?;
    let size = file.metadata()?.len().min(MAX);
    let mut text = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 64);
    file.take(MAX).read_to_end(&mut text)?;
    Ok(String::from_utf8(text).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_certificates_are_taken_from_a_file() {
        let folder = std::env::temp_dir().join(format!("kennel-roots-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let authority = Authority::new().unwrap();
        let (both, none) = (folder.join("both.pem"), folder.join("none.pem"));
        let key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        fs::write(&both, format!("{key}text\n{}{key}", authority.certificate_pem())).unwrap();
        fs::write(&none, key).unwrap();
        let load = |path: &PathBuf| Roots::load(std::slice::from_ref(path), std::iter::empty());
        let roots = load(&both).unwrap();
        assert!(!roots.pem.contains("PRIVATE") && roots.pem.contains(&authority.certificate_pem()));
        assert!(!roots.store().is_empty());
        let twice = Roots::load(&[both.clone(), both.clone()], std::iter::empty()).unwrap();
        assert_eq!(twice.pem, roots.pem, "each once");
        assert!(matches!(load(&none), Err(RootsError::Empty(_))));
        assert!(matches!(load(&folder.join("missing")), Err(RootsError::Read { .. })));
        fs::remove_dir_all(&folder).unwrap();
    }
}
