//! The hosts that users download from instead: read out of the settings of their package managers, names and ports and nothing else.
//!
//! These files are the user's own and not the sandbox's. Even so only what can be a mirror is taken: `http` and `https` addresses,
//! by a full name. An address in numbers, `localhost` or a name of one label could be something of this host or of its network
//! that nobody meant to open.

use std::collections::HashSet;
use std::ffi::OsString;

use crate::domain::{Host, HostPattern, HostRule, ListKind};
use crate::wildcard::fits;

use super::Registry;

/// The most mirrors of one registry.
const MAX_MIRRORS: usize = 32;

/// A place where users name a mirror: a file, or a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// The file, below `~`; empty where it is a variable.
    pub file: &'static str,
    /// How the file is written.
    pub form: MirrorForm,
    /// The keys, with blanks between them.
    pub keys: &'static str,
    /// The variable; empty where it is a file.
    pub variable: &'static str,
    /// Where that is written.
    pub source: &'static str,
}

/// How a file with mirrors is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MirrorForm {
    /// `KEY=ADDRESS` or `KEY: ADDRESS`; several addresses may follow.
    Lines,
    /// `<KEY>ADDRESS</KEY>`
    Xml,
}

/// Reads what the user has: this crate opens no file.
pub trait UserMirrors {
    /// The bytes of a file below the home, if it is there, is a file and lies in the home.
    fn file(&self, below_home: &str) -> Option<Vec<u8>>;

    /// A variable of the caller's.
    fn variable(&self, name: &str) -> Option<OsString>;
}

/// There are none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMirrors;

impl UserMirrors for NoMirrors {
    fn file(&self, _: &str) -> Option<Vec<u8>> {
        None
    }

    fn variable(&self, _: &str) -> Option<OsString> {
        None
    }
}

impl Registry {
    /// The mirrors of this registry that the user has, and where each is named.
    #[must_use]
    pub fn mirrors_of(&self, user: &dyn UserMirrors) -> Vec<(HostRule, &'static str)> {
        let mut found: Vec<(HostRule, &'static str)> = Vec::new();
        for mirror in &self.mirrors {
            let (rules, place) = if mirror.file.is_empty() {
                let value = user.variable(mirror.variable).unwrap_or_default();
                (rules(MirrorForm::Lines, &["*"], &format!("={}", value.to_string_lossy())), mirror.variable)
            } else {
                let text = mirror.file.strip_prefix("~/").and_then(|below| user.file(below));
                let keys: Vec<&str> = mirror.keys.split(' ').collect();
                let text = text.unwrap_or_default();
                (rules(mirror.form, &keys, &String::from_utf8_lossy(&text)), mirror.file)
            };
            for rule in rules {
                let is_new =
                    found.iter().all(|(other, _)| (&other.host, other.port) != (&rule.host, rule.port));
                if is_new && found.len() < MAX_MIRRORS {
                    found.push((rule, place));
                }
            }
        }
        found
    }
}

/// The hosts of the addresses that stand behind one of these keys.
fn rules(form: MirrorForm, keys: &[&str], text: &str) -> Vec<HostRule> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let text = if form == MirrorForm::Xml { without_comments(text) } else { text.to_owned() };
    let mut key = String::new();
    for line in text.lines() {
        if form == MirrorForm::Lines && line.trim_start().starts_with(['#', ';']) {
            continue;
        }
        let mut rest = line;
        while let Some((before, scheme, address)) = next_address(rest) {
            // `sparse+https://…`, and whatever quotes it.
            let before = before.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '+');
            let before = before.trim_end_matches(|c: char| c.is_whitespace() || "\"'[{".contains(c));
            if let Some(named) = key_before(form, before) {
                named.clone_into(&mut key);
            } else if !before.trim_matches([',', '|', '"', '\'', ' ', '\t']).is_empty() {
                key.clear();
            }
            let end = address.find(|c: char| c.is_whitespace() || "\"'<>,|;]}".contains(c));
            let (address, after) = address.split_at(end.unwrap_or(address.len()));
            rest = after;
            if keys.iter().any(|pattern| fits(pattern, &key))
                && found.len() < MAX_MIRRORS
                && let Some(rule) = rule(scheme, address)
                && seen.insert(rule.to_string())
            {
                found.push(rule);
            }
        }
        // A line with another key, and no address: what follows is not the earlier key's.
        if rest.len() == line.len() && line.contains(['=', ':']) {
            key = line.split(['=', ':']).next().unwrap_or_default().trim().to_owned();
        }
    }
    found
}

/// The key that an address stands behind.
fn key_before(form: MirrorForm, before: &str) -> Option<&str> {
    match form {
        MirrorForm::Xml => before.strip_suffix('>')?.rsplit('<').next(),
        MirrorForm::Lines => {
            let before = before.strip_suffix(['=', ':'])?.trim_end();
            before.rsplit(|c: char| c.is_whitespace() || "{,".contains(c)).next()
        }
    }
}

/// What stands before the first address, whether that is encrypted, and what follows its scheme.
fn next_address(text: &str) -> Option<(&str, u16, &str)> {
    text.match_indices("://").find_map(|(at, scheme)| {
        let (before, rest) = (&text[..at], &text[at + scheme.len()..]);
        match (before.strip_suffix("https"), before.strip_suffix("http")) {
            (Some(before), _) => Some((before, 443, rest)),
            (None, Some(before)) => Some((before, 80, rest)),
            (None, None) => None,
        }
    })
}

/// The rule for an address behind its scheme: without who logs in, and without the path.
fn rule(port: u16, address: &str) -> Option<HostRule> {
    let authority = address.split(['/', '?', '#']).next()?;
    let place = authority.rsplit('@').next()?;
    let rule = HostRule::parse(place, ListKind::Allow).ok()?;
    let HostPattern::Exact(name) = &rule.host else { return None };
    let is_full = name.contains('.') && !name.ends_with(".localhost") && !name.ends_with(".internal");
    (is_full && Host::parse(name).is_ok()).then(|| HostRule { port: rule.port.or(Some(port)), ..rule })
}

fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("<!--") {
        kept.push_str(before);
        rest = after.split_once("-->").map_or("", |(_, after)| after);
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hosts(form: MirrorForm, keys: &str, text: &str) -> Vec<String> {
        let keys: Vec<&str> = keys.split(' ').collect();
        rules(form, &keys, text).iter().map(ToString::to_string).collect()
    }

    fn of_registry(name: &str, file: &str, text: &str) -> Vec<String> {
        let registry = super::super::named(name)[0];
        let mirror = registry.mirrors.iter().find(|mirror| mirror.file == file).expect("a row");
        hosts(mirror.form, mirror.keys, text)
    }

    /// A sandbox may have written the file.
    #[test]
    fn a_file_of_nothing_but_beginnings_ends() {
        assert_eq!(of_registry("npm", "~/.npmrc", &"foo://".repeat(170_000)), [""; 0]);
    }

    #[test]
    fn each_file_is_read_as_its_program_writes_it() {
        let npm = "# registry=https://no.example.com\n//npm.example.com/:_authToken=secret\n\
                   registry = https://npm.example.com/path/\n@team:registry=http://team.example.com:8081\n\
                   proxy=http://proxy.example.com:3128\n";
        assert_eq!(of_registry("npm", "~/.npmrc", npm), ["npm.example.com:443", "team.example.com:8081"]);
        let yarn =
            "npmRegistryServer: \"https://yarn.example.com\"\nhttpProxy: \"http://proxy.example.com\"\n";
        assert_eq!(of_registry("npm", "~/.yarnrc.yml", yarn), ["yarn.example.com:443"]);
        let pip = "[global]\nindex-url = https://user:pass@pip.example.com/simple\nextra-index-url =\n    \
                   https://one.example.com/simple\n    https://two.example.com/simple\nproxy = http://p.example.com\n";
        let found = of_registry("pypi", "~/.config/pip/pip.conf", pip);
        assert_eq!(found, ["pip.example.com:443", "one.example.com:443", "two.example.com:443"]);
        let cargo = "[source.crates-io]\nreplace-with = \"corp\"\n[source.corp]\nregistry = \"sparse+https://a.example.com/\"\n\
                     [registries]\nother = { index = \"sparse+https://b.example.com:8443/i/\" }\n\
                     [http]\nproxy = \"http://p.example.com\"\n";
        let found = of_registry("crates", "~/.cargo/config.toml", cargo);
        assert_eq!(found, ["a.example.com:443", "b.example.com:8443"]);
        let go = "GOPROXY=https://go.example.com,https://second.example.com|direct\nGOFLAGS=-x=https://no.example.com\n";
        assert_eq!(
            of_registry("go", "~/.config/go/env", go),
            ["go.example.com:443", "second.example.com:443"]
        );
        let maven = "<settings><!-- <mirror><url>https://no.example.com</url></mirror> -->\n<mirrors><mirror>\n\
                     <url>https://maven.example.com/repo</url></mirror></mirrors>\n\
                     <proxy><host>https://p.example.com</host></proxy></settings>";
        assert_eq!(of_registry("maven", "~/.m2/settings.xml", maven), ["maven.example.com:443"]);
        let bundler = "---\nBUNDLE_MIRROR__HTTPS://RUBYGEMS__ORG/: \"https://gems.example.com/\"\n\
                       BUNDLE_GEMS__EXAMPLE__COM: \"user:https://no.example.com\"\n";
        assert_eq!(of_registry("rubygems", "~/.bundle/config", bundler), ["gems.example.com:443"]);
    }

    #[test]
    #[kennel_claim::claim("network/mirrors-are-names")]
    fn only_full_names_are_mirrors_and_no_login_is_kept() {
        for none in [
            "http://localhost:4873",
            "https://127.0.0.1",
            "https://[::1]:1",
            "https://169.254.169.254/",
            "https://2130706433/",
            "https://registry",
            "https://*.example.com",
            "https://host.kennel.internal",
            "https://x.localhost",
            "ftp://a.example.com",
            "https://",
            "https://a.example.com:0",
            "https://exa mple",
        ] {
            assert_eq!(hosts(MirrorForm::Lines, "k", &format!("k={none}")), [""; 0], "{none}");
        }
        let found = hosts(MirrorForm::Lines, "k", "k=https://me:hunter2@A.Example.com:8443/x?y#z");
        assert_eq!(found, ["a.example.com:8443"]);
        let many: String = (0..100).map(|n| format!("k=https://m{n}.example.com\n")).collect();
        assert_eq!(hosts(MirrorForm::Lines, "k", &many).len(), MAX_MIRRORS);
    }

    proptest! {
        #[test]
        fn files_of_any_content_are_read_without_panic(text in "(?s).{0,200}", keyed in "k[=:] ?[a-z+]{0,7}https?://.{0,40}") {
            let all = text + &keyed;
            for form in [MirrorForm::Lines, MirrorForm::Xml] {
                for host in hosts(form, "*", &all) {
                    prop_assert!(!host.contains('@'));
                }
            }
        }
    }
}
