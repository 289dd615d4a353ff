//! What srt takes for an entry of a domain list. kennel's own lists know more spellings, which would be mistakes there:
//! `::1:443` could be an address or an address and a port, and nobody writes the port `080`.

use std::borrow::Cow;

use crate::domain::{HostRuleError, ListKind, Protocol};
use crate::printed::show;

/// An entry as kennel's own lists spell it, or why srt refuses it. What kennel alone knows, networks and protocols, goes
/// through as it is.
pub(super) fn spelled(text: &str, list: ListKind) -> Result<Cow<'_, str>, HostRuleError> {
    let shown = || show(text.as_bytes());
    if text.split_once("://").is_some_and(|(name, _)| Protocol::by_name(name).is_some()) || text.contains('/')
    {
        return Ok(text.into());
    }
    if let Some(inner) = text.strip_prefix('[') {
        let (address, after) = inner.split_once(']').ok_or_else(|| HostRuleError::Address6(shown()))?;
        match after.strip_prefix(':') {
            Some(port) => check_port(port)?,
            None if after.is_empty() => {}
            None => return Err(HostRuleError::Address6(shown())),
        }
        // Matching takes no notice of a zone.
        let address = address.split_once('%').map_or(address, |(address, _)| address);
        return match address.contains(':') {
            true => Ok(format!("[{address}]{after}").into()),
            false => {
                check_name(address, list)?;
                Ok(format!("{address}{after}").into())
            }
        };
    }
    let host = match text.split_once(':') {
        Some((_, after)) if after.contains(':') => return Err(HostRuleError::Unbracketed(shown())),
        Some((host, port)) => {
            check_port(port)?;
            host
        }
        None => text,
    };
    check_name(host, list)?;
    Ok(text.into())
}

fn check_port(port: &str) -> Result<(), HostRuleError> {
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse::<u16>() {
        Ok(_) if digits && !port.starts_with('0') => Ok(()),
        _ => Err(HostRuleError::Port(show(port.as_bytes()))),
    }
}

fn check_name(host: &str, list: ListKind) -> Result<(), HostRuleError> {
    if host == "localhost" || (host == "*" && list == ListKind::Deny) {
        return Ok(());
    }
    let name = host.strip_prefix("*.").unwrap_or(host);
    if name.is_empty() {
        return Err(HostRuleError::Empty);
    }
    if name.contains('*') {
        return Err(HostRuleError::Wildcard);
    }
    if name.starts_with('.') || name.ends_with('.') {
        return Err(HostRuleError::EmptyLabel);
    }
    match name.contains('.') {
        true => Ok(()),
        false if name.len() < host.len() => Err(HostRuleError::TooBroad(show(name.as_bytes()))),
        false => Err(HostRuleError::SingleLabel(show(name.as_bytes()))),
    }
}
