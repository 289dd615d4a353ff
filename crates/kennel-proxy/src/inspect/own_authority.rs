//! A certificate authority of the user's own, from files in PEM: what of its certificate the certificates that it signs repeat.

use rcgen::{
    CertificateParams, DistinguishedName, DnType, DnValue, Issuer, KeyIdMethod, KeyPair, PublicKeyData,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use zeroize::Zeroizing;

use super::authority::AuthorityError;

/// OBJECT IDENTIFIER 2.5.29.14.
const KEY_IDENTIFIER: &[u8] = &[0x55, 0x1d, 0x0e];

/// The certificate and the key that belongs to it.
pub(super) fn from_pem(
    certificate: &[u8],
    key: &[u8],
) -> Result<(CertificateDer<'static>, Issuer<'static, KeyPair>), AuthorityError> {
    let der = CertificateDer::from_pem_slice(certificate).map_err(|_| AuthorityError::NoCertificate)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| AuthorityError::NoKey)?;
    let key = key_pair(&key)?;
    let found = Certificate::read(&der).ok_or(AuthorityError::NoCertificate)?;
    if found.public_key != key.subject_public_key_info() {
        return Err(AuthorityError::OtherKey);
    }
    let mut params = CertificateParams::default();
    params.distinguished_name = name(found.subject).ok_or(AuthorityError::Name)?;
    if let Some(identifier) = found.key_identifier {
        params.key_identifier_method = KeyIdMethod::PreSpecified(identifier.to_vec());
    }
    let issuer = Issuer::new(params, key);
    // A certificate whose issuer is spelled in another way than its issuer's name has none.
    let sample = CertificateParams::default().signed_by(&KeyPair::generate()?, &issuer)?;
    match Certificate::read(sample.der()).is_some_and(|sample| sample.issuer == found.subject) {
        true => Ok((der, issuer)),
        false => Err(AuthorityError::Name),
    }
}

/// ring reads PKCS#8 alone, and `openssl` has long written RSA keys without that wrapping.
fn key_pair(key: &PrivateKeyDer<'_>) -> Result<KeyPair, AuthorityError> {
    let wrapped;
    let pkcs8 = match key {
        PrivateKeyDer::Pkcs8(key) => key.secret_pkcs8_der(),
        PrivateKeyDer::Pkcs1(key) => {
            const RSA: &[u8] = &[2, 1, 0, 0x30, 13, 6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 13, 1, 1, 1, 5, 0];
            let inner = Zeroizing::new(element(4, &[key.secret_pkcs1_der()]));
            wrapped = Zeroizing::new(element(0x30, &[RSA, &inner]));
            wrapped.as_slice()
        }
        _ => return Err(AuthorityError::NoKey),
    };
    let pair = KeyPair::try_from(&PrivatePkcs8KeyDer::from(pkcs8));
    pair.map_err(|_| AuthorityError::NoKey)
}

fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = Vec::with_capacity(length + 6);
    out.push(tag);
    match length {
        0..0x80 => out.push(length as u8),
        _ => {
            let bytes: Vec<u8> = length.to_be_bytes().into_iter().skip_while(|byte| *byte == 0).collect();
            out.push(0x80 | bytes.len() as u8);
            out.extend(bytes);
        }
    }
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out
}

/// Parts of a certificate (RFC 5280 §4.1), as they are written.
struct Certificate<'d> {
    issuer: &'d [u8],
    subject: &'d [u8],
    public_key: Vec<u8>,
    key_identifier: Option<&'d [u8]>,
}

impl<'d> Certificate<'d> {
    fn read(der: &'d [u8]) -> Option<Certificate<'d>> {
        let mut whole = Der(Der(der).take(0x30)?);
        let mut fields = Der(whole.take(0x30)?);
        if fields.tag() == Some(0xa0) {
            fields.take(0xa0)?;
        }
        fields.take(2)?;
        fields.take(0x30)?;
        let issuer = fields.take(0x30)?;
        fields.take(0x30)?;
        let subject = fields.take(0x30)?;
        let public_key = element(0x30, &[fields.take(0x30)?]);
        let mut key_identifier = None;
        while let Some(tag) = fields.tag() {
            let contents = fields.take(tag)?;
            if tag == 0xa3 {
                let mut all = Der(Der(contents).take(0x30)?);
                while all.tag().is_some() {
                    let mut one = Der(all.take(0x30)?);
                    let name = one.take(6)?;
                    if one.tag() == Some(1) {
                        one.take(1)?;
                    }
                    let value = one.take(4)?;
                    if name == KEY_IDENTIFIER {
                        key_identifier = Some(Der(value).take(4)?);
                    }
                }
            }
        }
        Some(Certificate { issuer, subject, public_key, key_identifier })
    }
}

/// A name, part by part.
fn name(der: &[u8]) -> Option<DistinguishedName> {
    let mut name = DistinguishedName::new();
    let mut parts = Der(der);
    while parts.tag().is_some() {
        let mut one = Der(Der(parts.take(0x31)?).take(0x30)?);
        let kind = DnType::CustomDnType(numbers(one.take(6)?));
        let tag = one.tag()?;
        let text = std::str::from_utf8(one.take(tag)?).ok()?;
        name.push(
            kind,
            match tag {
                12 => DnValue::Utf8String(text.to_owned()),
                19 => DnValue::PrintableString(text.try_into().ok()?),
                20 => DnValue::TeletexString(text.try_into().ok()?),
                22 => DnValue::Ia5String(text.try_into().ok()?),
                _ => return None,
            },
        );
    }
    Some(name)
}

/// The numbers of an object identifier.
fn numbers(der: &[u8]) -> Vec<u64> {
    let mut all: Vec<u64> = Vec::new();
    let mut number = 0u64;
    for byte in der {
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            if all.is_empty() {
                let first = (number / 40).min(2);
                all.push(first);
                number -= first * 40;
            }
            all.push(number);
            number = 0;
        }
    }
    all
}

/// Elements of DER, one after the other.
struct Der<'d>(&'d [u8]);

impl<'d> Der<'d> {
    fn tag(&self) -> Option<u8> {
        self.0.first().copied()
    }

    /// The contents of the next element, which has this tag.
    fn take(&mut self, tag: u8) -> Option<&'d [u8]> {
        let (found, rest) = self.0.split_first()?;
        let (first, mut rest) = rest.split_first()?;
        let mut length = usize::from(*first);
        if length >= 0x80 {
            let (digits, after) = rest.split_at_checked(length & 0x7f)?;
            if digits.is_empty() || digits.len() > 4 {
                return None;
            }
            length = digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit));
            rest = after;
        }
        let (contents, after) = rest.split_at_checked(length)?;
        self.0 = after;
        (*found == tag).then_some(contents)
    }
}
