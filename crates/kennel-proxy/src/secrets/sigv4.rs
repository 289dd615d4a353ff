//! Requests that are signed for AWS (Signature Version 4).
//!
//! A signature is made with the secret key, so that no exchange of texts mends one that was made with a stand-in. The gate
//! signs such a request again: the key's id, which stands in the signature's field, says which key; date, region, service and the
//! fields that are signed stay those of the client. What is signed is what goes to the server.

use std::fmt;

use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use kennel_policy::domain::{Host, HostRule};
use kennel_policy::secrets::CannotSign;
use ring::{digest, hmac};
use zeroize::Zeroizing;

use super::locked::SecretValue;
use crate::route::Target;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const ASYMMETRIC: &str = "AWS4-ECDSA-P256-SHA256";
const UNSIGNED: &str = "UNSIGNED-PAYLOAD";
const TOKEN: &str = "x-amz-security-token";
const DATE: &str = "x-amz-date";
const HASH: &str = "x-amz-content-sha256";

/// Fields that the gate takes out of requests, so that they cannot be signed.
const DROPPED: [&str; 5] = ["expect", "if-range", "range", "te", "connection"];

/// How much of a body is kept in memory to be signed.
pub(crate) const MAX_BODY: usize = 64 << 20;

/// A key of AWS that stays outside.
#[derive(Clone, Debug)]
pub struct AwsKey {
    /// What the sandbox has for its id.
    pub id_stand_in: String,
    /// Its id.
    pub id: SecretValue,
    /// The secret.
    pub secret: SecretValue,
    /// The session's token.
    pub session_token: Option<SecretValue>,
    /// The hosts that requests are signed for.
    pub hosts: Vec<HostRule>,
}

/// All keys of a sandbox, and what becomes of requests that cannot be signed again.
#[derive(Clone, Debug, Default)]
pub struct AwsKeys {
    /// The keys.
    pub keys: Vec<AwsKey>,
    /// Uploads whose chunks are signed one by one.
    pub streaming: CannotSign,
    /// Addresses that hold a signature.
    pub presigned: CannotSign,
    /// Signatures by ECDSA.
    pub sigv4a: CannotSign,
}

/// Why a request is not signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AwsRefusal {
    Streaming,
    Presigned,
    Asymmetric,
    Malformed,
    NoDate,
    MissingField(String),
    TooLarge,
}

impl fmt::Display for AwsRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a request to AWS that is signed with a stand-in cannot be signed again: ")?;
        match self {
            AwsRefusal::Streaming => f.write_str("its chunks are signed one by one"),
            AwsRefusal::Presigned => f.write_str("the signature is part of the address"),
            AwsRefusal::Asymmetric => f.write_str("it is signed by ECDSA (SigV4A)"),
            AwsRefusal::Malformed => f.write_str("its Authorization field cannot be read"),
            AwsRefusal::NoDate => write!(f, "it has no field {DATE}"),
            AwsRefusal::MissingField(name) => write!(f, "the signed field {name} is missing"),
            AwsRefusal::TooLarge => write!(f, "its body has more than {} MiB", MAX_BODY >> 20),
        }
    }
}

impl AwsRefusal {
    /// How to have it otherwise.
    pub(crate) fn help(&self) -> &'static str {
        match self {
            AwsRefusal::Streaming => "turn off chunked uploads (aws-chunked) in the client",
            AwsRefusal::Presigned => "send the signature in the Authorization field",
            AwsRefusal::Asymmetric => "use an endpoint of one region, which takes SigV4",
            AwsRefusal::TooLarge => "sign the body as UNSIGNED-PAYLOAD, or upload it in parts",
            AwsRefusal::Malformed | AwsRefusal::NoDate | AwsRefusal::MissingField(_) => {
                "sign the request as AWS's own clients do"
            }
        }
    }
}

/// A signature that is to be made.
#[derive(Debug)]
pub(crate) struct Signing {
    key: AwsKey,
    scope: Scope,
    date: String,
    /// In lower case, sorted.
    signed: Vec<String>,
    /// Whether the path is folded and escaped before it is signed. Only S3 signs it as it is sent.
    folds_path: bool,
    /// Whether the body is not part of it.
    pub(crate) unsigned_body: bool,
}

/// What a signature is for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Scope {
    date: String,
    region: String,
    service: String,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}/aws4_request", self.date, self.region, self.service)
    }
}

impl AwsKeys {
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// What is to be done with a request, before anything in it is exchanged; `None` for nothing. Requests that are signed with
    /// another key are nobody's business.
    pub(crate) fn plan(
        &self,
        target: &Target,
        fields: &HeaderMap,
        line: &str,
    ) -> Result<Option<Signing>, AwsRefusal> {
        let bound: Vec<&AwsKey> = self.keys.iter().filter(|key| key.is_bound_to(target)).collect();
        if bound.is_empty() {
            return Ok(None);
        }
        let stands_in = |text: &str| bound.iter().find(|key| key.id_stand_in == text).copied();
        let values: Vec<&[u8]> = fields.get_all(AUTHORIZATION).iter().map(HeaderValue::as_bytes).collect();
        for value in &values {
            let Ok(text) = std::str::from_utf8(value) else { continue };
            let Some(key) = id_of(text).and_then(stands_in) else { continue };
            if values.len() > 1 {
                return Err(AwsRefusal::Malformed);
            }
            if is_algorithm(text, ASYMMETRIC) {
                return refuse_or(self.sigv4a, AwsRefusal::Asymmetric);
            }
            if !is_algorithm(text, ALGORITHM) {
                return Err(AwsRefusal::Malformed);
            }
            let hash = fields.get(HASH).map(HeaderValue::as_bytes);
            if hash.is_some_and(|hash| hash.starts_with(b"STREAMING-")) {
                return refuse_or(self.streaming, AwsRefusal::Streaming);
            }
            return Signing::new(key.clone(), text, fields).map(Some);
        }
        let query = line.split_once('?').map_or("", |(_, query)| query);
        let in_address = parameters(query).any(|(name, value)| {
            name.eq_ignore_ascii_case(b"X-Amz-Credential")
                && value
                    .split(|byte| *byte == b'/')
                    .next()
                    .is_some_and(|id| std::str::from_utf8(id).is_ok_and(|id| stands_in(id).is_some()))
        });
        match in_address {
            true => refuse_or(self.presigned, AwsRefusal::Presigned),
            false => Ok(None),
        }
    }
}

fn refuse_or(policy: CannotSign, refusal: AwsRefusal) -> Result<Option<Signing>, AwsRefusal> {
    match policy {
        CannotSign::Refuse => Err(refusal),
        CannotSign::Pass => Ok(None),
    }
}

impl AwsKey {
    fn is_bound_to(&self, target: &Target) -> bool {
        matches!(target.host, Host::Name(_))
            && self.hosts.iter().any(|rule| rule.matches(&target.host, target.port))
    }
}

fn is_algorithm(text: &str, name: &str) -> bool {
    text.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '\t']))
}

/// A part of the field: `Credential=…`.
fn part<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let mut found =
        text.split([',', ' ', '\t']).filter_map(|part| part.strip_prefix(name)?.strip_prefix('='));
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// The id of the key that a field names, however wrong the rest of it is.
fn id_of(text: &str) -> Option<&str> {
    text.starts_with("AWS4-").then_some(())?;
    let at = text.find("Credential=")? + "Credential=".len();
    text[at..].split(['/', ',', ' ', '\t']).next()
}

impl Signing {
    fn new(key: AwsKey, text: &str, fields: &HeaderMap) -> Result<Signing, AwsRefusal> {
        let malformed = || AwsRefusal::Malformed;
        let credential = part(text, "Credential").ok_or_else(malformed)?;
        let signed = part(text, "SignedHeaders").ok_or_else(malformed)?;
        part(text, "Signature").filter(|text| !text.is_empty()).ok_or_else(malformed)?;
        let parts: Vec<&str> = credential.split('/').collect();
        let [_, date, region, service, "aws4_request"] = parts.as_slice() else { return Err(malformed()) };
        if [date, region, service].iter().any(|part| part.is_empty()) {
            return Err(malformed());
        }
        let mut signed: Vec<String> = signed.split(';').map(str::to_ascii_lowercase).collect();
        if key.session_token.is_some() {
            signed.push(TOKEN.to_owned());
        }
        signed.retain(|name| !DROPPED.contains(&name.as_str()));
        signed.sort();
        signed.dedup();
        let when = fields.get(DATE).and_then(|value| value.to_str().ok()).ok_or(AwsRefusal::NoDate)?;
        Ok(Signing {
            scope: Scope {
                date: (*date).to_owned(),
                region: (*region).to_owned(),
                service: (*service).to_owned(),
            },
            date: when.to_owned(),
            signed,
            folds_path: *service != "s3",
            unsigned_body: fields.get(HASH).is_some_and(|hash| hash == UNSIGNED),
            key,
        })
    }

    /// Signs a request as it goes to the server. `body` is the digest of its body, where that is signed.
    pub(crate) fn sign(
        &self,
        method: &str,
        line: &str,
        authority: &str,
        fields: &mut HeaderMap,
        body: Option<&digest::Digest>,
    ) -> Result<(), AwsRefusal> {
        let malformed = |_| AwsRefusal::Malformed;
        if let Some(token) = &self.key.session_token {
            let mut value = HeaderValue::from_bytes(token.expose()).map_err(malformed)?;
            value.set_sensitive(true);
            fields.insert(HeaderName::from_static(TOKEN), value);
        }
        let hash = body.map_or_else(|| UNSIGNED.to_owned(), |digest| hex(digest.as_ref()));
        if fields.contains_key(HASH) {
            let value = HeaderValue::from_str(&hash).map_err(malformed)?;
            fields.insert(HeaderName::from_static(HASH), value);
        }
        let canonical = self.canonical(method, line, authority, fields, &hash)?;
        let id = std::str::from_utf8(self.key.id.expose()).map_err(|_| AwsRefusal::Malformed)?;
        let text = Zeroizing::new(format!(
            "{ALGORITHM} Credential={id}/{}, SignedHeaders={}, Signature={}",
            self.scope,
            self.signed.join(";"),
            self.signature(&canonical)
        ));
        let mut value = HeaderValue::from_str(&text).map_err(malformed)?;
        value.set_sensitive(true);
        fields.insert(AUTHORIZATION, value);
        Ok(())
    }

    /// The request in the form that is signed. It may hold the session's token.
    fn canonical(
        &self,
        method: &str,
        line: &str,
        authority: &str,
        fields: &HeaderMap,
        hash: &str,
    ) -> Result<Zeroizing<Vec<u8>>, AwsRefusal> {
        let (path, query) = line.split_once('?').unwrap_or((line, ""));
        // Room for all of it: a vector that grows leaves copies behind.
        let room: usize = fields.iter().map(|(name, value)| name.as_str().len() + value.len() + 2).sum();
        let names: usize = self.signed.iter().map(|name| name.len() + 1).sum();
        let mut out =
            Zeroizing::new(Vec::with_capacity(room + names + line.len() * 9 + authority.len() + 256));
        out.extend_from_slice(method.as_bytes());
        out.push(b'\n');
        out.extend_from_slice(canonical_path(path, self.folds_path).as_bytes());
        out.push(b'\n');
        out.extend_from_slice(canonical_query(query).as_bytes());
        out.push(b'\n');
        for name in &self.signed {
            out.extend_from_slice(name.as_bytes());
            out.push(b':');
            if name == "host" {
                out.extend_from_slice(authority.as_bytes());
            } else {
                let mut values = fields.get_all(name.as_str()).iter().peekable();
                if values.peek().is_none() {
                    return Err(AwsRefusal::MissingField(name.clone()));
                }
                for (number, value) in values.enumerate() {
                    if number > 0 {
                        out.push(b',');
                    }
                    trimmed(value.as_bytes(), &mut out);
                }
            }
            out.push(b'\n');
        }
        out.push(b'\n');
        out.extend_from_slice(self.signed.join(";").as_bytes());
        out.push(b'\n');
        out.extend_from_slice(hash.as_bytes());
        Ok(out)
    }

    fn signature(&self, canonical: &[u8]) -> String {
        let hash = hex(digest::digest(&digest::SHA256, canonical).as_ref());
        let text = format!("{ALGORITHM}\n{}\n{}\n{hash}", self.date, self.scope);
        let secret = Zeroizing::new([b"AWS4", self.key.secret.expose()].concat());
        let mut key = hmac::Key::new(hmac::HMAC_SHA256, &secret);
        for part in [&self.scope.date, &self.scope.region, &self.scope.service, "aws4_request"] {
            key = hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&key, part.as_bytes()).as_ref());
        }
        hex(hmac::sign(&key, text.as_bytes()).as_ref())
    }
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value & 15)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

/// Without spaces at the ends, and one for several in between.
fn trimmed(value: &[u8], out: &mut Vec<u8>) {
    let mut space = false;
    for byte in value.trim_ascii() {
        let is_space = matches!(byte, b' ' | b'\t');
        if !is_space {
            out.push(*byte);
        } else if !space {
            out.push(b' ');
        }
        space = is_space;
    }
}

fn canonical_path(path: &str, folds: bool) -> String {
    if !folds && !path.is_empty() {
        return path.to_owned();
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let mut out = String::with_capacity(path.len());
    for part in &parts {
        out.push('/');
        escape(part.as_bytes(), &mut out);
    }
    if parts.is_empty() || path.ends_with('/') {
        out.push('/');
    }
    out
}

/// Names and values escaped in one way, and sorted.
fn canonical_query(query: &str) -> String {
    let escaped = |bytes: Vec<u8>| {
        let mut out = String::with_capacity(bytes.len());
        escape(&bytes, &mut out);
        out
    };
    let mut pairs: Vec<(String, String)> =
        parameters(query).map(|(name, value)| (escaped(name), escaped(value))).collect();
    pairs.sort();
    let mut out = String::with_capacity(query.len());
    for (number, (name, value)) in pairs.iter().enumerate() {
        if number > 0 {
            out.push('&');
        }
        out.push_str(name);
        out.push('=');
        out.push_str(value);
    }
    out
}

/// The names and values of a query, without their escapes. A `+` is a plus.
fn parameters(query: &str) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (unescaped(name), unescaped(value))
    })
}

fn unescaped(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        match digits.and_then(|digits| std::str::from_utf8(digits).ok()) {
            Some(digits) if *first == b'%' => {
                out.push(u8::from_str_radix(digits, 16).unwrap_or_default());
                rest = &after[2..];
            }
            _ => {
                out.push(*first);
                rest = after;
            }
        }
    }
    out
}

/// All but letters, digits and `-._~` (RFC 3986 §2.3).
fn escape(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(*byte));
            }
            _ => {
                out.push('%');
                out.push_str(&hex(&[*byte]).to_ascii_uppercase());
            }
        }
    }
}

#[cfg(test)]
#[path = "sigv4_tests.rs"]
mod tests;
