//! `[gateway]`: providers of models, budgets and prices, as they were written.

use std::ffi::OsStr;
use std::net::IpAddr;

use super::text::{self, ValueError};
use crate::domain::Host;
use crate::gateway::{Api, Budget, Price};
use crate::policy::Origin;
use crate::printed::show;
use crate::quantity;
use crate::secret_variables;
use crate::secrets::SecretSource;

/// A provider of models, as one source of settings has it. A stronger source that names it too replaces all of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderEntry {
    /// What it is called.
    pub name: String,
    /// Which protocol it speaks; by default that of a provider that kennel knows by this name, as with the next two.
    pub api: Option<Api>,
    /// Where its real key comes from.
    pub key: Option<KeySource>,
    /// Where requests go.
    pub upstream: Option<String>,
    /// The models that can be used; all where the list is empty.
    pub models: Vec<String>,
    /// Members of a body that pass beside those of its protocol.
    pub members: Vec<String>,
    /// What it may use.
    pub budget: Budget,
    /// Variables that lead clients there, beside those of its protocol.
    pub variables: Vec<String>,
    /// Where it was set.
    pub origin: Origin,
}

/// Where a provider's key comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// It wants none.
    None,
    /// From here.
    From(SecretSource),
}

impl ProviderEntry {
    /// A provider of which nothing but the name was said.
    ///
    /// # Errors
    /// When it is no name.
    pub fn named(name: &str, origin: Origin) -> Result<ProviderEntry, ValueError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        // A key in the place of a name is not shown.
        let shown = || match secret_variables::has_form(name.as_bytes()) {
            true => "…".to_owned(),
            false => show(name.as_bytes()),
        };
        if !(1..=64).contains(&name.len())
            || !name.bytes().all(plain)
            || secret_variables::has_form(name.as_bytes())
        {
            return Err(ValueError::Provider(shown()));
        }
        Ok(ProviderEntry {
            name: name.to_owned(),
            api: None,
            key: None,
            upstream: None,
            models: Vec::new(),
            members: Vec::new(),
            budget: Budget::default(),
            variables: Vec::new(),
            origin,
        })
    }

    /// Adds it to others, in the place of one with its name.
    pub(crate) fn put(list: &mut Vec<ProviderEntry>, entry: ProviderEntry) {
        list.retain(|other| other.name != entry.name);
        list.push(entry);
    }
}

/// An address that requests go to: `https://HOST[:PORT][/PATH]`, or `http://`.
pub(super) fn upstream(text: &str) -> Result<String, ValueError> {
    match host_of(text) {
        Some(_) if !text.contains(['?', '#', '@', '\\', ' ']) => Ok(text.trim_end_matches('/').to_owned()),
        // It may hold a password.
        _ if text.contains('@') => Err(ValueError::Upstream("…".to_owned())),
        _ => Err(ValueError::Upstream(show(text.as_bytes()))),
    }
}

fn host_of(text: &str) -> Option<Host> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"))?;
    let authority = rest.split('/').next().unwrap_or_default();
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => text::port(port).ok().map(|_| host)?,
        _ => authority,
    };
    Host::parse(host).ok()
}

/// Whether a key would be sent to such an address for others to read.
pub(crate) fn is_in_the_clear(upstream: &str) -> bool {
    let loopback = match host_of(upstream) {
        Some(Host::Ip(IpAddr::V4(address))) => address.is_loopback(),
        Some(Host::Ip(IpAddr::V6(address))) => address.is_loopback(),
        Some(Host::Name(name)) => name == "localhost" || name.ends_with(".localhost"),
        None => false,
    };
    upstream.starts_with("http://") && !loopback
}

/// The limits of a budget, by their names.
pub(super) const LIMITS: [&str; 6] = ["requests", "input_tokens", "output_tokens", "tokens", "bytes", "cost"];

/// Sets one limit of a budget.
pub(super) fn limit(budget: &mut Budget, name: &str, text: &str) -> Result<(), ValueError> {
    match name {
        "bytes" => budget.bytes = Some(quantity::size(text)?),
        "cost" => budget.cost = Some(amount(text)?),
        name => {
            let slot = match text::word(name, &LIMITS)? {
                0 => &mut budget.requests,
                1 => &mut budget.input_tokens,
                2 => &mut budget.output_tokens,
                _ => &mut budget.tokens,
            };
            *slot = Some(number(text)?);
        }
    }
    Ok(())
}

/// Reads `requests=10,cost=2.5`.
pub(super) fn budget(text: &OsStr) -> Result<Budget, ValueError> {
    let mut budget = Budget::default();
    for part in text::utf8(text)?.split(',') {
        let bad = || ValueError::Budget(show(part.as_bytes()));
        let (name, value) = part.split_once('=').ok_or_else(bad)?;
        limit(&mut budget, name.trim(), value.trim())?;
    }
    Ok(budget)
}

/// Reads `MODEL=INPUT/OUTPUT[/CACHE_READ[/CACHE_WRITE]]`.
pub(super) fn price(text: &OsStr) -> Result<(String, Price), ValueError> {
    let text = text::utf8(text)?;
    let bad = || ValueError::Price(show(text.as_bytes()));
    let (model, prices) = text.rsplit_once('=').ok_or_else(bad)?;
    let prices: Vec<f64> = prices.split('/').map(amount).collect::<Result<_, _>>()?;
    let (input, output, cache) = match prices[..] {
        [input, output, ref cache @ ..] if cache.len() <= 2 => (input, output, cache),
        _ => return Err(bad()),
    };
    let price =
        Price { input, output, cache_read: cache.first().copied(), cache_write: cache.get(1).copied() };
    Ok((self::model(model)?, price))
}

/// A model's name, perhaps with a `*` at its end.
pub(super) fn model(text: &str) -> Result<String, ValueError> {
    let name = text.strip_suffix('*').unwrap_or(text);
    let valid = !text.is_empty()
        && text.len() <= 256
        && !name.contains('*')
        && text.bytes().all(|b| b.is_ascii_graphic());
    if valid { Ok(text.to_owned()) } else { Err(ValueError::Model(show(text.as_bytes()))) }
}

/// A member of a body.
pub(super) fn member(text: &str) -> Result<String, ValueError> {
    let valid = (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    if valid { Ok(text.to_owned()) } else { Err(ValueError::Member(show(text.as_bytes()))) }
}

fn number(text: &str) -> Result<u64, ValueError> {
    let bad = || ValueError::Unfit { text: show(text.as_bytes()), expected: "a whole number".to_owned() };
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(bad());
    }
    text.parse().map_err(|_| bad())
}

/// An amount of money, in whatever unit.
pub(super) fn amount(text: &str) -> Result<f64, ValueError> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let value = text.parse().ok().filter(|value: &f64| plain && value.is_finite());
    value.ok_or_else(|| ValueError::Unfit {
        text: show(text.as_bytes()),
        expected: "an amount such as 2.5".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_and_prices_are_read_from_flags() {
        let read = budget("requests=10,tokens=5000,bytes=1M,cost=2.5".as_ref()).unwrap();
        assert_eq!((read.requests, read.tokens, read.bytes), (Some(10), Some(5000), Some(1 << 20)));
        assert_eq!((read.cost, read.input_tokens), (Some(2.5), None));
        for (text, message) in [
            (
                "10",
                "`10` is not a limit; write requests=10, tokens=1000000 or cost=2.5, with commas between several",
            ),
            ("tokns=1", "did you mean `tokens`?"),
            ("cost=-1", "`-1` must be an amount such as 2.5"),
            ("cost=nan", "`nan` must be an amount such as 2.5"),
            ("requests=1.5", "`1.5` must be a whole number"),
        ] {
            let error = budget(text.as_ref()).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
        let (model, read) = price("anthropic/claude-*=3/15/0.3".as_ref()).unwrap();
        assert_eq!(model, "anthropic/claude-*");
        assert_eq!(
            (read.input, read.output, read.cache_read, read.cache_write),
            (3.0, 15.0, Some(0.3), None)
        );
        for text in ["x", "x=1", "x=1/2/3/4/5", "=1/2", "a*b=1/2", "x=1/y"] {
            assert!(price(text.as_ref()).is_err(), "{text}");
        }
    }

    #[test]
    fn an_upstream_is_an_address_without_a_password() {
        assert_eq!(upstream("https://a.test/api/v1/").unwrap(), "https://a.test/api/v1");
        assert_eq!(upstream("http://[::1]:80").unwrap(), "http://[::1]:80");
        for text in
            ["a.test", "ftp://a.test", "https://", "https://a.test:x", "https://a.test/?q", "https://a b/"]
        {
            assert!(upstream(text).is_err(), "{text}");
        }
        let error = upstream("https://me:hunter2@a.test").unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
        assert!(is_in_the_clear("http://a.test") && is_in_the_clear("http://10.0.0.1:80/x"));
        for kept in ["https://a.test", "http://127.0.0.1:11434", "http://[::1]:1", "http://localhost"] {
            assert!(!is_in_the_clear(kept), "{kept}");
        }
    }
}
