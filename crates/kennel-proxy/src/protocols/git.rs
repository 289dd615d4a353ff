//! Git's own protocol: one packet says what is wanted, and of which host: `0032git-upload-pack /path\0host=example.com\0`.
//! A server can go by that host, so it is compared.

use kennel_policy::domain::Host;

use crate::parent::split_authority;
use crate::rules::DenyReason;

use super::{Seen, State};

const SERVICES: [&[u8]; 3] = [b"git-upload-pack ", b"git-receive-pack ", b"git-upload-archive "];

pub(super) fn first(bytes: &[u8], name: &str, port: u16) -> Seen {
    let digits = &bytes[..bytes.len().min(4)];
    // Nothing else is written by git.
    if !digits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return Seen::NotMine;
    }
    let length = std::str::from_utf8(digits).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
    let (4, Some(length)) = (digits.len(), length) else { return Seen::Perhaps };
    let rest = &bytes[4..];
    let fits = |service: &&&[u8]| rest.iter().zip(service.iter()).all(|(a, b)| a == b);
    let Some(service) = SERVICES.iter().find(fits) else { return Seen::NotMine };
    if length < 4 + service.len() {
        return Seen::NotMine;
    }
    let Some(packet) = bytes.get(4..length) else { return Seen::Perhaps };
    match host(&packet[service.len()..]) {
        Ok(None) => Seen::Mine(State::Open),
        Ok(Some(told)) => match split_authority(told, Some(port)) {
            Some((host, own)) if host == Host::Name(name.to_owned()) && own == port => {
                Seen::Mine(State::Open)
            }
            _ => Seen::Refused(DenyReason::NameMismatch(told.to_owned())),
        },
        Err(()) => Seen::Refused(DenyReason::Protocol("a git request that is none")),
    }
}

/// The host that a request names: `path\0host=name\0`, behind which a second NUL begins what later versions added.
fn host(request: &[u8]) -> Result<Option<&str>, ()> {
    let mut fields = request.split(|byte| *byte == 0);
    let (_path, mut found) = (fields.next(), None);
    for field in fields {
        if let Some(told) = field.strip_prefix(b"host=") {
            let told = std::str::from_utf8(told).map_err(drop)?;
            if found.replace(told).is_some() {
                return Err(());
            }
        } else if !field.is_empty() && !field.starts_with(b"version=") {
            return Err(());
        }
    }
    Ok(found)
}
