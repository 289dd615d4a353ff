//! Registries: the table of named sets of hosts that programs download from (`registries.toml`), and where users say that they
//! download from somewhere else.

use std::sync::LazyLock;

use crate::domain::{Host, HostRule, ListKind};
use crate::rows;

mod mirrors;

pub use mirrors::{Mirror, MirrorForm, NoMirrors, UserMirrors};

/// The word for all registries of packages.
pub const PACKAGES: &str = "packages";

/// A named set of hosts.
#[derive(Debug, PartialEq, Eq)]
pub struct Registry {
    /// The word for `--allow-registry`.
    pub name: &'static str,
    /// Whether it is one of [`PACKAGES`].
    pub is_packages: bool,
    /// Who downloads from it.
    pub tools: &'static str,
    /// Its hosts.
    pub hosts: Vec<RegistryHost>,
    /// Where users say that they download from somewhere else.
    pub mirrors: Vec<Mirror>,
}

/// A host of a registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegistryHost {
    /// As in an allow list; its port is 443 where it names none.
    pub host: &'static str,
    /// What it serves.
    pub serves: &'static str,
    /// Whether it also takes uploads, from who has a login.
    pub uploads: bool,
    /// Where that is written.
    pub source: &'static str,
}

impl RegistryHost {
    /// The rule that allows it.
    #[must_use]
    pub fn rule(&self) -> Option<HostRule> {
        let rule = HostRule::parse(self.host, ListKind::Allow).ok()?;
        Some(HostRule { port: rule.port.or(Some(443)), ..rule })
    }
}

static TABLE: LazyLock<Vec<Registry>> = LazyLock::new(|| read(include_str!("registries.toml")));

/// All registries.
#[must_use]
pub fn all() -> &'static [Registry] {
    &TABLE
}

/// The registries that a word means; none if it means nothing.
///
/// ```
/// use kennel_policy::registries::named;
/// assert_eq!(named("npm")[0].hosts[0].host, "registry.npmjs.org");
/// assert!(named("packages").len() > 10 && named("nmp").is_empty());
/// ```
#[must_use]
pub fn named(word: &str) -> Vec<&'static Registry> {
    let meant = |registry: &&Registry| registry.name == word || (word == PACKAGES && registry.is_packages);
    all().iter().filter(meant).collect()
}

/// The registry that has this host.
#[must_use]
pub fn with_host(host: &str) -> Option<&'static Registry> {
    let host = Host::parse(host).ok()?;
    let has = |own: &RegistryHost| own.rule().is_some_and(|rule| rule.host.matches(&host));
    all().iter().find(|registry| registry.hosts.iter().any(has))
}

/// All words that mean registries.
pub fn words() -> impl Iterator<Item = &'static str> {
    all().iter().map(|registry| registry.name).chain([PACKAGES])
}

/// Reads the table. A test compares with a parser of TOML.
fn read(text: &'static str) -> Vec<Registry> {
    let mut table: Vec<Registry> = Vec::new();
    for fields in text.lines().filter_map(rows::fields) {
        let of = |key: &str| fields.get(key);
        let name = of("name");
        if !name.is_empty() {
            let is_packages = of("group") == PACKAGES;
            table.push(Registry { name, is_packages, tools: of("tools"), hosts: vec![], mirrors: vec![] });
            continue;
        }
        let Some(registry) = table.iter_mut().find(|registry| registry.name == of("registry")) else {
            continue;
        };
        match of("host") {
            "" => registry.mirrors.push(Mirror {
                file: of("file"),
                form: if of("form") == "xml" { MirrorForm::Xml } else { MirrorForm::Lines },
                keys: of("keys"),
                variable: of("variable"),
                source: of("source"),
            }),
            host => registry.hosts.push(RegistryHost {
                host,
                serves: of("serves"),
                uploads: of("uploads") == "yes",
                source: of("source"),
            }),
        }
    }
    table
}

#[cfg(test)]
mod tests;
