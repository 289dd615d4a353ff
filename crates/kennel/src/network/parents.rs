//! The proxy between this host and the world: what the policy says of it, or the caller's own variables.

use std::ffi::OsStr;

pub(crate) use kennel_policy::merge::Contradiction as ParentError;
use kennel_policy::policy::{NetworkPolicy, ProxyAddress};
use kennel_proxy::{Bypass, ParentProxies, ParentProxy};

/// The proxies that the gate goes out by. A variable that names a proxy which the gate cannot speak to is passed over,
/// as programs do with it; a setting that does is an error.
pub(crate) fn parents<'e>(
    policy: &NetworkPolicy,
    environment: impl Iterator<Item = (&'e OsStr, &'e OsStr)>,
) -> Result<ParentProxies, ParentError> {
    let mut parents = ParentProxies::default();
    let (mut http, mut https) = ([None, None], [None, None]);
    for (name, value) in environment {
        let (Some(name), Some(value)) = (name.to_str(), value.to_str()) else { continue };
        // Lower case wins, as with curl: in a CGI program HTTP_PROXY is the client's to set.
        let place = usize::from(!name.starts_with(|first: char| first.is_ascii_lowercase()));
        match name.to_ascii_lowercase().as_str() {
            _ if value.is_empty() => {}
            "http_proxy" => http[place] = ParentProxy::parse(value).ok(),
            "https_proxy" => https[place] = ParentProxy::parse(value).ok(),
            "no_proxy" => parents.bypass = Bypass::parse(value),
            _ => {}
        }
    }
    parents.http = http.into_iter().flatten().next();
    parents.https = https.into_iter().flatten().next();
    match policy.parent_proxy.as_ref().map(ProxyAddress::expose) {
        None => {}
        Some("none") => (parents.http, parents.https) = (None, None),
        Some(text) => {
            let parent = ParentProxy::parse(text)?;
            (parents.http, parents.https) = (Some(parent.clone()), Some(parent));
        }
    }
    if let Some(kinds) = &policy.parent_proxy_by_kind {
        let parse = |address: &ProxyAddress| ParentProxy::parse(address.expose());
        if let Some(http) = &kinds.http {
            parents.http = Some(parse(http)?);
        }
        match &kinds.https {
            Some(https) => parents.https = Some(parse(https)?),
            None => parents.https = parents.https.or_else(|| parents.http.clone()),
        }
    }
    if let Some(text) = &policy.no_proxy {
        parents.bypass = Bypass::parse(text);
    }
    Ok(parents)
}

#[cfg(test)]
mod tests {
    use kennel_policy::policy::ProxyByKind;

    use super::*;

    fn parents_of(policy: &NetworkPolicy, variables: &[(&str, &str)]) -> Result<ParentProxies, ParentError> {
        parents(policy, variables.iter().map(|(name, value)| (OsStr::new(*name), OsStr::new(*value))))
    }

    fn port(parent: Option<&ParentProxy>) -> u16 {
        parent.map_or(0, |parent| parent.port)
    }

    #[test]
    fn the_callers_variables_say_it_and_the_policy_says_it_better() {
        let variables = [
            ("HTTP_PROXY", "http://p.test:1"),
            ("http_proxy", "http://p.test:2"),
            ("HTTPS_PROXY", "p.test:3"),
        ];
        let found = parents_of(&NetworkPolicy::default(), &variables).unwrap();
        assert_eq!((port(found.http.as_ref()), port(found.https.as_ref())), (2, 3));
        let says = |text: &str| NetworkPolicy { parent_proxy: Some(text.into()), ..NetworkPolicy::default() };
        let found = parents_of(&says("http://q.test:4"), &variables).unwrap();
        assert_eq!((port(found.http.as_ref()), port(found.https.as_ref())), (4, 4));
        let found = parents_of(&says("none"), &variables).unwrap();
        assert!(found.http.is_none() && found.https.is_none());
        let kinds = |http: Option<&str>, https: Option<&str>| NetworkPolicy {
            parent_proxy_by_kind: Some(ProxyByKind {
                http: http.map(Into::into),
                https: https.map(Into::into),
            }),
            ..NetworkPolicy::default()
        };
        for (http, https, variables, expected) in [
            (Some("h.test:5"), Some("s.test:6"), &variables[..], (5, 6)),
            (Some("h.test:5"), None, &variables, (5, 3)),
            (Some("h.test:5"), None, &[], (5, 5)),
            (None, Some("s.test:6"), &variables, (2, 6)),
            (None, Some("s.test:6"), &[], (0, 6)),
        ] {
            let found = parents_of(&kinds(http, https), variables).unwrap();
            assert_eq!((port(found.http.as_ref()), port(found.https.as_ref())), expected);
        }
        let error = parents_of(&says("socks5://q.test"), &[]).unwrap_err().to_string();
        assert!(error.starts_with("network.parent_proxy: ") && error.contains("help: "), "{error}");
    }
}
