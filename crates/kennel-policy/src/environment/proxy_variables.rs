//! Variables that lead to a proxy of the caller's, and the logins in them, stay out of a sandbox that has no use for them.
//!
//! In a sandbox with an allow list the gate is the only proxy, and kennel sets the variables that programs know; without a
//! network there is no proxy to reach. What is left of the caller's would be of no use but to tell its password. Programs
//! read more spellings than anybody lists, so it goes by the form of the name, and a login that was found in one variable is
//! looked for in the values of all.

use std::ffi::OsStr;

use crate::policy::{NetworkMode, Policy};

/// A password that is shorter could be part of any value.
const MIN_PASSWORD: usize = 8;

/// The logins of the caller's proxies.
#[derive(Debug)]
pub(super) struct ProxyLogins<'v, 'p> {
    mode: NetworkMode,
    /// Of variables: `user:password`, and passwords by themselves. They are not copied; see [`super::environment()`].
    inherited: Vec<&'v [u8]>,
    /// Of the policy.
    set: Vec<&'p [u8]>,
}

/// What becomes of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It passes as it is.
    Passes,
    /// Its name passes, with nothing in it: git fails over a variable that is announced and not there.
    Emptied,
    /// It does not pass.
    Withheld,
}

impl<'v, 'p> ProxyLogins<'v, 'p> {
    pub(super) fn find(
        policy: &'p Policy,
        variables: impl Iterator<Item = (&'v OsStr, &'v OsStr)>,
    ) -> ProxyLogins<'v, 'p> {
        let mode = policy.network.mode;
        if mode == NetworkMode::Host {
            return ProxyLogins { mode, inherited: Vec::new(), set: Vec::new() };
        }
        let named =
            variables.filter(|(name, _)| is_about_proxies(name)).map(|(_, value)| value.as_encoded_bytes());
        let set = policy.network.parent_proxy.iter().map(|proxy| proxy.expose().as_bytes());
        ProxyLogins { mode, inherited: named.flat_map(texts).collect(), set: set.flat_map(texts).collect() }
    }

    /// What becomes of a variable that would pass otherwise, and that nobody asked for by its name.
    pub(super) fn fate(&self, name: &OsStr, value: &OsStr) -> Fate {
        const ABOUT_A_LOGIN: [&str; 9] =
            ["pass", "password", "passwd", "pwd", "auth", "authorization", "user", "username", "login"];
        if self.mode == NetworkMode::Host {
            return Fate::Passes;
        }
        if is_about_proxies(name) {
            let leads = self.mode.is_gated() && ends_with(name, "proxy");
            if leads
                || value.as_encoded_bytes().contains(&b'@')
                || ABOUT_A_LOGIN.iter().any(|end| ends_with(name, end))
            {
                return Fate::Withheld;
            }
        }
        let holds = |text: &&[u8]| value.as_encoded_bytes().windows(text.len()).any(|part| part == *text);
        if self.inherited.iter().any(holds) || self.set.iter().any(holds) {
            Fate::Emptied
        } else {
            Fate::Passes
        }
    }
}

/// What of an address must not be shown: its login, and the password in it.
fn texts(address: &[u8]) -> impl Iterator<Item = &[u8]> {
    let login = login(address);
    let password = login.and_then(|login| login.splitn(2, |byte| *byte == b':').nth(1));
    login.into_iter().chain(password.filter(|password| password.len() >= MIN_PASSWORD))
}

/// The user and the password of `http://user:password@host:port`.
fn login(address: &[u8]) -> Option<&[u8]> {
    let rest = match address.windows(3).position(|part| part == b"://") {
        Some(scheme) => &address[scheme + 3..],
        None => address,
    };
    let end = rest.iter().rposition(|byte| *byte == b'@')?;
    Some(&rest[..end]).filter(|login| login.len() > 2 && login.contains(&b':'))
}

fn is_about_proxies(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    // Every start of a sandbox asks this of every variable, and few have this letter.
    name.iter().any(|byte| matches!(byte, b'x' | b'X'))
        && name.windows(5).any(|part| part.eq_ignore_ascii_case(b"proxy"))
}

fn ends_with(name: &OsStr, word: &str) -> bool {
    let name = name.as_encoded_bytes();
    name.len() >= word.len() && name[name.len() - word.len()..].eq_ignore_ascii_case(word.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fates(mode: NetworkMode, variables: &[(&str, &str)]) -> Vec<Fate> {
        let mut policy = Policy::default();
        policy.network.mode = mode;
        policy.network.parent_proxy = Some("http://me:from-the-settings@proxy.test".into());
        let pairs = || variables.iter().map(|(name, value)| (OsStr::new(*name), OsStr::new(*value)));
        let logins = ProxyLogins::find(&policy, pairs());
        pairs().map(|(name, value)| logins.fate(name, value)).collect()
    }

    #[test]
    fn every_spelling_of_a_proxy_variable_stays_out_of_a_filtered_sandbox() {
        let names = [
            "Http_Proxy",
            "WSS_PROXY",
            "ws_proxy",
            "npm_config_proxy",
            "NPM_CONFIG_HTTPS_PROXY",
            "yarn_http_proxy",
            "SOCKS5_PROXY",
            "GLOBAL_AGENT_HTTP_PROXY",
            "No_Proxy",
            "PROXY",
            "PROXY_PASSWORD",
            "CLOUDSDK_PROXY_USERNAME",
        ];
        let variables: Vec<_> = names.map(|name| (name, "http://proxy.test")).into();
        assert!(fates(NetworkMode::AllowList, &variables).iter().all(|fate| *fate == Fate::Withheld));
        assert!(fates(NetworkMode::Host, &variables).iter().all(|fate| *fate == Fate::Passes));
        // Without a network only what holds a login.
        let none = fates(
            NetworkMode::None,
            &[("HTTP_PROXY", "p.test:1"), ("Http_Proxy", "u:p@p.test:1"), ("KUBE_PROXY_PORT", "1")],
        );
        assert_eq!(none, [Fate::Passes, Fate::Withheld, Fate::Passes]);
    }

    #[test]
    fn a_login_is_found_in_the_values_of_other_variables() {
        let found = fates(
            NetworkMode::AllowList,
            &[
                ("HTTPS_PROXY", "http://someone:their-secret@proxy.test:3128"),
                ("JAVA_TOOL_OPTIONS", "-Dhttp.proxyPassword=their-secret"),
                ("GIT_CONFIG_VALUE_0", "http://someone:their-secret@proxy.test"),
                ("MAVEN_OPTS", "-Dhttps.proxyPassword=from-the-settings -Xmx1g"),
                ("EDITOR", "vim"),
                ("ENVOY_PROXY_VERSION", "1.2"),
                ("MAIL", "someone@proxy.test"),
            ],
        );
        use Fate::{Emptied, Passes, Withheld};
        assert_eq!(found, [Withheld, Emptied, Emptied, Emptied, Passes, Passes, Passes]);
    }
}
