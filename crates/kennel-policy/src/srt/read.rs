//! From the text of a settings file to [`SrtSettings`].

use std::ffi::OsStr;
use std::net::IpAddr;
use std::path::{Component, Path, PathBuf};

use super::{Entry, SrtSettings, glob, hosts, schema};
use crate::domain::{HostPattern, HostRule, HostRuleError, ListKind};
use crate::pattern::PathPattern;
use crate::policy::{Origin, ProxyAddress, ProxyByKind};
use crate::printed::show;
use crate::settings::tree::{self, Fault, Node, Value};
use crate::settings::{Base, Problem, Sense, SettingsError, ValueError, below_home, json};

/// Far above any real settings file.
const MAX_SIZE: usize = 1 << 20;

/// Settings that would protect something in a way that kennel does not.
const NOT_SERVED: &[(&str, &str)] = &[
    ("mitmProxy", "kennel does not choose a proxy by the host"),
    ("filterRequest", "only a program that embeds srt can provide a function"),
];
/// Settings of other systems or of srt's own helper programs.
const NO_EFFECT_IN_NETWORK: &[&str] =
    &["strictAllowlist", "allowPlaintextHeaderSet", "ambiguousRequestTarget"];
const NO_EFFECT: &[&str] = &[
    "ignoreViolations",
    "allowAppleEvents",
    "allowPty",
    "ripgrep",
    "seccomp",
    "bwrapPath",
    "socatPath",
    "javaAgentJarPath",
    "windows",
];

/// Settings that are there for macOS.
const OF_MACOS_IN_NETWORK: &[&str] = &["allowLocalBinding", "allowMachLookup"];
const OF_MACOS: &[&str] = &["enableWeakerNetworkIsolation"];

/// Reads the settings in a text. Relative paths are relative to the base's folder, which for srt is the working
/// directory, wherever the file is. `name` is the file as the user would name it.
///
/// ```
/// use kennel_policy::settings::Base;
/// let base = Base::new("/work", Some("/home/me".into()));
/// let text = r#"{"network": {"allowedDomains": ["example.com"], "deniedDomains": []},
///                "filesystem": {"denyRead": ["~/.ssh"], "allowWrite": ["."], "denyWrite": []}}"#;
/// let settings = kennel_policy::srt::parse(text.as_bytes(), "srt.json", &base)?;
/// assert_eq!(settings.allow_write[0].path.to_str(), Some("/work"));
/// # Ok::<(), kennel_policy::settings::SettingsError>(())
/// ```
pub fn parse(bytes: &[u8], name: &str, base: &Base) -> Result<SrtSettings, SettingsError> {
    let whole = |problem| SettingsError { file: name.to_owned(), line: None, problem: Box::new(problem) };
    if bytes.len() > MAX_SIZE {
        return Err(whole(Problem::TooLarge));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| whole(Problem::NotText))?;
    let mut reader = Reader { text, name, base, settings: SrtSettings::default() };
    match json::read(text).and_then(|root| reader.document(&root)) {
        Ok(()) => Ok(reader.settings),
        Err(fault) => {
            let line = Some(tree::line_of(text, fault.at));
            Err(SettingsError { file: name.to_owned(), line, problem: Box::new(fault.problem) })
        }
    }
}

pub(super) struct Reader<'a> {
    text: &'a str,
    name: &'a str,
    pub(super) base: &'a Base,
    pub(super) settings: SrtSettings,
}

impl Reader<'_> {
    fn document(&mut self, root: &Node<'_>) -> Result<(), Fault> {
        schema::check(root)?;
        let root = SrtTable::of("the file", root)?;
        self.network(&SrtTable::of("network", root.required("network")?)?)?;
        self.filesystem(&SrtTable::of("filesystem", root.required("filesystem")?)?)?;
        if let Some(node) = root.get("credentials") {
            self.credentials(&SrtTable::of("credentials", node)?)?;
        }
        if let Some(node) = root.get("git") {
            let git = SrtTable::of("git", node)?;
            for item in git.list("safeDirectories")? {
                self.settings.safe_directories.push(text_of("git.safeDirectories", item)?.to_owned());
            }
        }
        self.settings.weaker = root.boolean("enableWeakerNestedSandbox")?;
        self.settings.nested_namespaces = root.boolean("allowNestedUserNamespaces")?;
        if let Some(depth) = root.number("mandatoryDenySearchDepth") {
            self.settings.search_depth = depth;
        }
        self.settings.trust_daemon = root.boolean("enableWeakerNetworkIsolation")?;
        self.no_effect(&root, NO_EFFECT);
        self.no_effect_but_on_macos(&root, OF_MACOS);
        Ok(())
    }

    fn network(&mut self, network: &SrtTable<'_, '_>) -> Result<(), Fault> {
        for item in network.required_list("allowedDomains")? {
            let rule = self.host(&network.name("allowedDomains"), item, ListKind::Allow)?;
            self.settings.allowed.push(rule);
        }
        let reasons = network.get("deniedDomainReasons");
        let reasons = reasons.map(|node| SrtTable::of("network.deniedDomainReasons", node)).transpose()?;
        for item in network.required_list("deniedDomains")? {
            let mut rule = self.host(&network.name("deniedDomains"), item, ListKind::Deny)?;
            if let (Some(reasons), Value::Text(entry)) = (&reasons, &item.value)
                && let Some(reason) = reasons.get(entry)
            {
                rule.reason = Some(text_of("network.deniedDomainReasons", reason)?.to_owned());
            }
            self.settings.denied.push(rule);
        }
        for item in network.list("deniedResolvedAddresses")? {
            let rule = self.address(&network.name("deniedResolvedAddresses"), item)?;
            self.settings.denied.push(rule);
        }
        self.settings.unix_sockets = self.entries(network, "allowUnixSockets", Required::No)?;
        self.settings.all_unix_sockets = network.boolean("allowAllUnixSockets")?;
        self.settings.http_proxy_port = network.port("httpProxyPort");
        self.settings.socks_proxy_port = network.port("socksProxyPort");
        if let Some(node) = network.get("parentProxy") {
            self.parent_proxy(&SrtTable::of("network.parentProxy", node)?)?;
        }
        not_served(network, NOT_SERVED)?;
        if let Some(node) = network.get("tlsTerminate") {
            self.tls_terminate(&SrtTable::of("network.tlsTerminate", node)?)?;
        }
        for item in network.list("stripResponseHeaders")? {
            let header = text_of("network.stripResponseHeaders", item)?;
            self.settings.strip_response_headers.push(header.to_owned());
        }
        self.settings.refuse_opaque = network.boolean("refuseOpaqueTunnels")?;
        self.settings.require_host_match = network.boolean("requireHostMatch")?;
        self.settings.local_binding = network.boolean("allowLocalBinding")?;
        for item in network.list("allowMachLookup")? {
            self.settings.mach_services.push(text_of("network.allowMachLookup", item)?.to_owned());
        }
        self.no_effect(network, NO_EFFECT_IN_NETWORK);
        self.no_effect_but_on_macos(network, OF_MACOS_IN_NETWORK);
        Ok(())
    }

    fn parent_proxy(&mut self, parent: &SrtTable<'_, '_>) -> Result<(), Fault> {
        let text = |key| parent.get(key).map(|node| text_of(&parent.name(key), node)).transpose();
        let (http, https) = (text("http")?, text("https")?);
        match (http, https) {
            (None, None) => {}
            (Some(http), Some(https)) if http == https => {
                self.settings.parent_proxy = Some(ProxyAddress::from(http));
            }
            (http, https) => {
                let (http, https) = (http.map(ProxyAddress::from), https.map(ProxyAddress::from));
                self.settings.parent_proxy_by_kind = Some(ProxyByKind { http, https });
            }
        }
        self.settings.no_proxy = text("noProxy")?.map(str::to_owned);
        Ok(())
    }

    fn filesystem(&mut self, files: &SrtTable<'_, '_>) -> Result<(), Fault> {
        self.settings.files_open = files.boolean("disabled")?;
        self.settings.deny_read = self.entries(files, "denyRead", Required::Yes)?;
        self.settings.allow_read = self.entries(files, "allowRead", Required::No)?;
        self.settings.allow_write = self.entries(files, "allowWrite", Required::Yes)?;
        self.settings.deny_write = self.entries(files, "denyWrite", Required::Yes)?;
        self.settings.allow_git_config = files.boolean("allowGitConfig")?;
        Ok(())
    }

    fn entries(
        &self,
        table: &SrtTable<'_, '_>,
        key: &'static str,
        required: Required,
    ) -> Result<Vec<Entry>, Fault> {
        let items = match required {
            Required::Yes => table.required_list(key)?,
            Required::No => table.list(key)?,
        };
        // Only the list of sockets can have one.
        let items = items.iter().filter(|item| !matches!(&item.value, Value::Text(text) if text.is_empty()));
        let name = table.name(key);
        let sense = if key.starts_with("deny") { Sense::Deny } else { Sense::Allow };
        let mut entries = Vec::new();
        for item in items {
            entries.extend(self.entry(&name, item, sense)?);
        }
        Ok(entries)
    }

    /// `"path"`, or `{"path": "path", "literal": true}` and nothing else. A deny below the home is one for each home.
    pub(super) fn entry(&self, name: &str, item: &Node<'_>, sense: Sense) -> Result<Vec<Entry>, Fault> {
        let expected = "a path, or { \"path\": \"…\", \"literal\": true }";
        let (text, literal) = match &item.value {
            Value::Text(text) => (text, false),
            Value::Table(entries) => {
                let get =
                    |key: &str| entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node.value);
                match (entries.len(), get("path"), get("literal")) {
                    (2, Some(Value::Text(text)), Some(Value::Bool(true))) => (text, true),
                    _ => return Err(wrong_type(name, expected, item)),
                }
            }
            _ => return Err(wrong_type(name, expected, item)),
        };
        self.entry_of(name, item, text, literal, sense)
    }

    /// The entry that a text stands for, which is a name and no pattern if it is `literal`.
    pub(super) fn entry_of(
        &self,
        name: &str,
        item: &Node<'_>,
        text: &str,
        literal: bool,
        sense: Sense,
    ) -> Result<Vec<Entry>, Fault> {
        let error = |error| value(name, item, error);
        if sense == Sense::Deny && !literal && !self.settings.files_open && is_inert(text) {
            return Err(error(ValueError::InertGlob(show(text.as_bytes()))));
        }
        // There a `$` means itself. Who denies `$HOME/…` means the home, though, and it costs nothing to deny both.
        let itself = format!("./{text}");
        let of_home = text.starts_with('$') && below_home(Path::new(text)).is_some();
        // And so does the `~` of `~name`.
        let other_home = text.starts_with('~') && !matches!(text.as_bytes(), [_] | [_, b'/', ..]);
        let texts = match (of_home, sense) {
            (true, Sense::Deny) => vec![text, &itself],
            (true, Sense::Allow) => vec![itself.as_str()],
            (false, _) if other_home => vec![itself.as_str()],
            (false, _) => vec![text],
        };
        let mut entries = Vec::new();
        for text in texts {
            entries.extend(self.meanings(text, literal, sense, &self.origin(item)).map_err(error)?);
        }
        Ok(entries)
    }

    /// What a text means, for each home.
    fn meanings(
        &self,
        text: &str,
        literal: bool,
        sense: Sense,
        origin: &Origin,
    ) -> Result<Vec<Entry>, ValueError> {
        // `dir/**` is `dir`: what is said of a folder is said of all that is in it. Only once: `dir/**/**` is a glob, for all
        // that is in it.
        let plain = if literal { text } else { text.strip_suffix("/**").unwrap_or(text) };
        let whole_folders = plain.len() < text.len() && !plain.ends_with("**");
        let plain = if plain.is_empty() && !text.is_empty() { "/" } else { plain };
        let is_glob = !literal && plain.contains(glob::SPECIAL);
        let path_error = |error| ValueError::Path { text: show(text.as_bytes()), error };
        let mut entries = Vec::new();
        for (folder, rest) in self.base.places(OsStr::new(plain), sense)? {
            let rest = rest.to_str().unwrap_or_default();
            let path = lexical(&folder.join(rest));
            if !is_glob {
                entries.push(Entry { path, globs: Vec::new(), is_glob, origin: origin.clone() });
                continue;
            }
            // A relative text is folded before it is looked at; in another one a `..` behind a star is a name that nothing has. What is
            // denied is folded all the same: that can only deny more.
            let relative = !plain.starts_with(['/', '~']);
            let mut from_first = rest.split('/').skip_while(|name| !name.contains(glob::SPECIAL));
            let goes_up = from_first.any(|name| name == "..");
            if goes_up && !relative && sense == Sense::Allow {
                continue;
            }
            let (folder, rest) = folded(&folder, rest);
            // A glob that ends in a slash matches nothing, unless the slash went with the folding.
            let inert = plain.ends_with('/') && !relative;
            // srt looks for nothing below the root itself. An allow is not to be wider than there.
            let from_root = sense == Sense::Allow && starts_at_root(&folder, &rest);
            let globs = match inert || from_root {
                true => Vec::new(),
                false => glob::patterns(&folder, &rest, sense).map_err(path_error)?,
            };
            let mut globs = globs;
            if whole_folders {
                globs = globs.into_iter().map(PathPattern::of_folders).collect();
                // What is in them is hidden with them; but where a link in them leads is denied as well.
                if sense == Sense::Deny && !inert {
                    let within = format!("{rest}/**/*");
                    globs.extend(glob::patterns(&folder, &within, sense).map_err(path_error)?);
                }
            }
            entries.push(Entry { path, globs, is_glob, origin: origin.clone() });
        }
        Ok(entries)
    }

    pub(super) fn host(&self, name: &str, item: &Node<'_>, list: ListKind) -> Result<HostRule, Fault> {
        let text = text_of(name, item)?;
        let rule = hosts::spelled(text, list).and_then(|text| HostRule::parse(&text, list));
        Ok(rule.map_err(|error| value(name, item, error.into()))?.from_origin(self.origin(item)))
    }

    /// An address or a network, of which any address can be given.
    fn address(&self, name: &str, item: &Node<'_>) -> Result<HostRule, Fault> {
        let text = text_of(name, item)?;
        let rule = match HostRule::parse(text, ListKind::Deny) {
            Err(HostRuleError::HostBits { network, .. }) => HostRule::parse(&network, ListKind::Deny),
            rule => rule,
        };
        let rule = rule.map_err(|error| value(name, item, error.into()))?;
        match (&rule.host, rule.port) {
            // `10.1` and its like are addresses to a resolver, and here a mistake.
            (HostPattern::Ip(_) | HostPattern::Net(..), None)
                if text.split('/').next().is_some_and(|address| address.parse::<IpAddr>().is_ok()) =>
            {
                Ok(rule.from_origin(self.origin(item)))
            }
            _ => Err(value(name, item, HostRuleError::Network(show(text.as_bytes())).into())),
        }
    }

    fn no_effect(&mut self, table: &SrtTable<'_, '_>, keys: &[&str]) {
        for key in keys.iter().filter(|key| table.get(key).is_some()) {
            self.settings.notes.push(format!("{}: {} has no effect here", self.name, table.name(key)));
        }
    }

    fn no_effect_but_on_macos(&mut self, table: &SrtTable<'_, '_>, keys: &[&str]) {
        if !cfg!(target_os = "macos") {
            self.no_effect(table, keys);
        }
    }

    pub(super) fn origin(&self, node: &Node<'_>) -> Origin {
        Origin(format!("{}:{}", self.name, tree::line_of(self.text, node.at)))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Required {
    Yes,
    No,
}

/// An object, and what it is called.
pub(super) struct SrtTable<'n, 'i> {
    pub(super) name: String,
    pub(super) node: &'n Node<'i>,
}

impl<'n, 'i> SrtTable<'n, 'i> {
    pub(super) fn of(name: &str, node: &'n Node<'i>) -> Result<Self, Fault> {
        match node.value {
            Value::Table(_) => Ok(SrtTable { name: name.to_owned(), node }),
            _ => Err(wrong_type(name, "an object", node)),
        }
    }

    pub(super) fn name(&self, key: &str) -> String {
        if self.name == "the file" { key.to_owned() } else { format!("{}.{key}", self.name) }
    }

    pub(super) fn get(&self, key: &str) -> Option<&'n Node<'i>> {
        let Value::Table(entries) = &self.node.value else { return None };
        entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }

    pub(super) fn required(&self, key: &'static str) -> Result<&'n Node<'i>, Fault> {
        self.get(key).ok_or_else(|| Fault {
            at: self.node.at,
            problem: Problem::MissingKey { key, inside: self.name.clone() },
        })
    }

    pub(super) fn boolean(&self, key: &str) -> Result<bool, Fault> {
        match self.get(key) {
            None => Ok(false),
            Some(Node { value: Value::Bool(value), .. }) => Ok(*value),
            Some(node) => Err(wrong_type(&self.name(key), "true or false", node)),
        }
    }

    /// A number that the schema has seen.
    pub(super) fn number(&self, key: &str) -> Option<u32> {
        match &self.get(key)?.value {
            Value::Number(text) => schema::whole(text),
            _ => None,
        }
    }

    fn port(&self, key: &str) -> Option<u16> {
        self.number(key).and_then(|port| port.try_into().ok())
    }

    pub(super) fn list(&self, key: &str) -> Result<&'n [Node<'i>], Fault> {
        match self.get(key) {
            None => Ok(&[]),
            Some(Node { value: Value::List(items), .. }) => Ok(items),
            Some(node) => Err(wrong_type(&self.name(key), "a list", node)),
        }
    }

    fn required_list(&self, key: &'static str) -> Result<&'n [Node<'i>], Fault> {
        self.required(key)?;
        self.list(key)
    }

    pub(super) fn word(&self, key: &'static str, words: &[&'static str]) -> Result<&'static str, Fault> {
        let node = self.required(key)?;
        let text = text_of(&self.name(key), node)?;
        words.iter().copied().find(|word| *word == text).ok_or_else(|| {
            wrong_type(
                &self.name(key),
                &words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" or "),
                node,
            )
        })
    }
}

pub(super) fn text_of<'n>(name: &str, node: &'n Node<'_>) -> Result<&'n str, Fault> {
    match &node.value {
        Value::Text(text) => Ok(text),
        _ => Err(wrong_type(name, "a string", node)),
    }
}

/// Refuses settings that say something. An empty list and `false` say nothing.
fn not_served(table: &SrtTable<'_, '_>, keys: &[(&str, &'static str)]) -> Result<(), Fault> {
    for (key, why) in keys {
        let Some(node) = table.get(key) else { continue };
        let says_nothing = match &node.value {
            Value::Bool(value) => !value,
            Value::List(items) => items.is_empty(),
            _ => false,
        };
        if !says_nothing {
            return Err(refused_value(&table.name(key), node, why));
        }
    }
    Ok(())
}

pub(super) fn refused_value(key: &str, node: &Node<'_>, why: &str) -> Fault {
    Fault { at: node.at, problem: Problem::NotServed { key: key.to_owned(), why: why.to_owned() } }
}

/// What contradicts itself or something else that the file says.
pub(super) fn inconsistent(key: &str, node: &Node<'_>, why: &str) -> Fault {
    Fault { at: node.at, problem: Problem::Inconsistent { key: key.to_owned(), why: why.to_owned() } }
}

pub(super) fn wrong_type(key: &str, expected: &str, node: &Node<'_>) -> Fault {
    let (key, expected) = (key.to_owned(), expected.to_owned());
    Fault { at: node.at, problem: Problem::Type { key, expected, found: node.value.kind() } }
}

pub(super) fn value(key: &str, node: &Node<'_>, error: ValueError) -> Fault {
    Fault { at: node.at, problem: Problem::Value { key: key.to_owned(), error } }
}

/// Whether a glob ends in a slash that stays there: no path has one.
fn is_inert(text: &str) -> bool {
    text.ends_with('/') && text.contains(glob::SPECIAL) && text.starts_with(['/', '~'])
}

/// A folder and a text below it, without `.`, `..` and repeated slashes in the text.
fn folded(folder: &Path, text: &str) -> (PathBuf, String) {
    let mut folder = lexical(folder);
    let mut names: Vec<&str> = Vec::new();
    for name in text.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                if names.pop().is_none() {
                    folder.pop();
                }
            }
            name => names.push(name),
        }
    }
    (folder, names.join("/"))
}

/// Whether no folder is named before the first special character.
fn starts_at_root(folder: &Path, text: &str) -> bool {
    let first = text.split('/').next().unwrap_or_default();
    folder == Path::new("/") && first.contains(glob::SPECIAL)
}

/// Without `..`, by the text alone: that is how srt reads a path.
fn lexical(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}
