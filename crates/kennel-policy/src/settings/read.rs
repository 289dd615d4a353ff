//! From the tree of a settings file to [`Settings`], by the table of keys.

use std::ffi::{OsStr, OsString};

use super::keys::{self, Field, FieldKind, Key, Kind, SECTIONS, Section, Shape, Zero};
use super::text::{self, UNLIMITED, ValueError};
use super::tree::{self, Entry, Fault, Node, Value};
use super::{
    Base, Format, KeySource, PathEntry, Problem, ProviderEntry, SecretEntry, Sense, Settings, SettingsError,
    Stated, provider, secret,
};
use crate::domain::ListKind;
use crate::gateway::{Api, Budget, Price};
use crate::http_rule::HttpRule;
use crate::nearest::nearest;
use crate::pattern::PathPattern;
use crate::policy::{Missing, MountAccess, MountPoint, Origin, TmpfsMount};
use crate::printed::show;
use crate::secrets::{SecretMode, SecretSource, SwapIn};
use crate::traffic::{Measure, TrafficLimit};
use crate::users::UserEntry;

/// Far above any real settings file, far below what could hurt.
const MAX_SIZE: usize = 1 << 20;

/// The one list whose missing entries can be created.
const CREATES: &str = "files.allow_write";

const TRAFFIC: &str = "a size such as \"50M\", or a list of sizes and \"HOST=SIZE\"";

const NUMBER: &str = "a number, or \"unlimited\"";

/// How the rules of a text name where they came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provenance<'a> {
    /// A file, as the user would name it; rules add their line.
    File(&'a str),
    /// A built-in profile.
    Profile(&'a str),
    /// A profile of the user's own, by its file; rules add their line.
    OwnProfile(&'a str),
}

/// Reads the settings in a text.
///
/// ```
/// use kennel_policy::settings::{Base, Format, Provenance, parse};
///
/// let base = Base::new("/work", None);
/// let text = "[files]\nallow_write = [\"out\"]\n";
/// let settings = parse(text.as_bytes(), Format::Toml, Provenance::File("kennel.toml"), &base)?;
/// assert_eq!(settings.files.allow_write[0].pattern.as_path().to_str(), Some("/work/out"));
/// assert_eq!(settings.files.allow_write[0].origin.to_string(), "kennel.toml:2");
///
/// let text = "{\n  \"files\": { \"alow_write\": [] }\n}";
/// let error = parse(text.as_bytes(), Format::Json, Provenance::File("kennel.json"), &base).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "kennel.json:2: unknown key `alow_write` in `files`; did you mean `allow_write`?"
/// );
/// # Ok::<(), kennel_policy::settings::SettingsError>(())
/// ```
pub fn parse(
    bytes: &[u8],
    format: Format,
    provenance: Provenance<'_>,
    base: &Base,
) -> Result<Settings, SettingsError> {
    let name = match provenance {
        Provenance::File(name) | Provenance::OwnProfile(name) => name.to_owned(),
        Provenance::Profile(name) => format!("profile {name}"),
    };
    let whole = |problem| SettingsError { file: name.clone(), line: None, problem: Box::new(problem) };
    if bytes.len() > MAX_SIZE {
        return Err(whole(Problem::TooLarge));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| whole(Problem::NotText))?;

    let mut reader =
        Reader { text, name: &name, provenance, base, settings: Settings::default(), seen: (0, 1) };
    let read = tree::read(text, format).and_then(|root| reader.document(&root));
    match read {
        Ok(()) => {
            let mut settings = reader.settings;
            settings.file = matches!(provenance, Provenance::File(_)).then_some(name);
            Ok(settings)
        }
        Err(fault) => {
            let line = Some(tree::line_of(text, fault.at));
            Err(SettingsError { file: name, line, problem: Box::new(fault.problem) })
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    name: &'a str,
    provenance: Provenance<'a>,
    base: &'a Base,
    settings: Settings,
    /// The last place whose line was asked for, and that line: places come in order, so counting goes on from there
    /// and thousands of rules cost one pass over the text.
    seen: (usize, usize),
}

impl Reader<'_> {
    fn document(&mut self, root: &Node<'_>) -> Result<(), Fault> {
        let Some((top, sections)) = SECTIONS.split_first() else { return Ok(()) };
        for entry in table(root, "the file")? {
            if let Some(section) = sections.iter().find(|section| section.name == entry.key) {
                for entry in table(&entry.node, section.name)? {
                    self.entry(section, entry)?;
                }
            } else {
                self.entry(top, entry)?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, section: &Section, entry: &Entry<'_>) -> Result<(), Fault> {
        // Editors look for the schema under this name.
        if section.name.is_empty() && entry.key == "$schema" && matches!(entry.node.value, Value::Text(_)) {
            return Ok(());
        }
        let is_named = |key: &&Key| key.name == entry.key && !key.kind.has_own_names();
        if let Some(key) = section.keys.iter().find(is_named) {
            return self.setting(key, &full_name(section, key.name), &entry.node);
        }
        // Everything else in such a section is a table that the user named.
        match section.keys.iter().find(|key| key.kind.has_own_names()) {
            Some(Key { kind: Kind::Providers(list), .. }) if matches!(entry.node.value, Value::Table(_)) => {
                let provider = self.provider(section.name, entry)?;
                list(&mut self.settings).push(provider);
                Ok(())
            }
            _ => Err(unknown_key(section, entry)),
        }
    }

    fn setting(&mut self, key: &Key, name: &str, node: &Node<'_>) -> Result<(), Fault> {
        match &key.kind {
            Kind::Bool(slot) => {
                let value = boolean(name, node)?;
                *slot(&mut self.settings) = Some(Stated { value, origin: self.origin(node) });
            }
            Kind::Switch(switch) => {
                let value = boolean(name, node)?;
                let origin = self.origin(node);
                switch.state(&mut self.settings, Stated { value, origin });
            }
            Kind::Profiles(_) | Kind::Lists(_) => {
                let names = match &node.value {
                    Value::List(names) => names.as_slice(),
                    _ => std::slice::from_ref(node),
                };
                for item in names {
                    let Value::Text(text) = &item.value else {
                        return Err(wrong_type(name, "a name or a list of names", item));
                    };
                    self.state(key, name, text, item)?;
                }
            }
            Kind::Hostname(_)
            | Kind::Folder(_)
            | Kind::File(_)
            | Kind::Choice(_)
            | Kind::Text(_)
            | Kind::Proxy(_) => {
                let Value::Text(text) = &node.value else { return Err(wrong_type(name, "a string", node)) };
                self.state(key, name, text, node)?;
            }
            Kind::Size(..) => self.limit(key, name, node, "a size such as \"512M\", or a number of bytes")?,
            Kind::Time(_) => {
                self.limit(key, name, node, "a duration such as \"30s\", or a number of seconds")?;
            }
            Kind::Cpus(_) | Kind::Count(_) => match &node.value {
                // These have no unit, so a text would be a number in disguise.
                Value::Text(text) if text != UNLIMITED => return Err(wrong_type(name, NUMBER, node)),
                _ => self.limit(key, name, node, NUMBER)?,
            },
            Kind::Paths(list, sense) => {
                for item in items(name, node)? {
                    let entries = self.paths(name, item, *sense)?;
                    // Nothing else can be an empty folder and mean something.
                    if name != CREATES
                        && entries.iter().any(|entry| entry.missing.is_some_and(Missing::creates))
                    {
                        return Err(value(name, item, ValueError::NotCreated));
                    }
                    list(&mut self.settings).extend(entries);
                }
            }
            Kind::Hosts(list, kind) => {
                for item in items(name, node)? {
                    let [host, reason] = fields(name, item, &keys::HOST)?;
                    let mut rule = text::host(text_of(host), *kind, self.origin(item))
                        .map_err(|error| value(name, item, error))?;
                    rule.reason = reason.map(|reason| text_of(Some(reason)).to_owned());
                    list(&mut self.settings).push(rule);
                }
            }
            Kind::Gpus(list) => {
                for item in items(name, node)? {
                    let (Value::Text(text) | Value::Number(text)) = &item.value else {
                        return Err(wrong_type(name, "a list of graphics cards", item));
                    };
                    let choice = text::gpu(text).map_err(|error| value(name, item, error))?;
                    let stated = Stated { value: choice, origin: self.origin(item) };
                    list(&mut self.settings).push(stated);
                }
            }
            Kind::Registries(list) => {
                for item in items(name, node)? {
                    let Value::Text(text) = &item.value else {
                        return Err(wrong_type(name, "a list of registries", item));
                    };
                    let found = text::registry(text).map_err(|error| value(name, item, error))?;
                    let origin = self.origin(item);
                    let stated = |value| Stated { value, origin: origin.clone() };
                    list(&mut self.settings).extend(found.into_iter().map(stated));
                }
            }
            Kind::HostsAndRequests(hosts, requests) => {
                for item in items(name, node)? {
                    let [host, reason] = fields(name, item, &keys::HOST)?;
                    let (text, origin) = (text_of(host), self.origin(item));
                    let reason = reason.map(|reason| text_of(Some(reason)).to_owned());
                    let wrong = |error| value(name, item, error);
                    if HttpRule::is_one(text) {
                        let mut rule = text::request(text, origin).map_err(wrong)?;
                        rule.host.reason = reason;
                        requests(&mut self.settings).push(rule);
                    } else {
                        let mut rule = text::host(text, ListKind::Allow, origin).map_err(wrong)?;
                        rule.reason = reason;
                        hosts(&mut self.settings).push(rule);
                    }
                }
            }
            Kind::Files(list) => {
                for item in items(name, node)? {
                    let Value::Text(text) = &item.value else {
                        return Err(wrong_type(name, "a list of strings", item));
                    };
                    let file =
                        self.base.path(OsStr::new(&**text)).map_err(|error| value(name, item, error))?;
                    let origin = self.origin(item);
                    list(&mut self.settings).push(Stated { value: file, origin });
                }
            }
            // Their names are keys: `entry` reads them.
            Kind::Providers(_) => {}
            Kind::Budget(slot) => {
                let value = budget(name, node)?;
                *slot(&mut self.settings) = Some(Stated { value, origin: self.origin(node) });
            }
            Kind::Traffic(list) => {
                table(node, name)?;
                let limits: [Option<&Node<'_>>; Measure::ALL.len()] = fields(name, node, &keys::TRAFFIC)?;
                for (measure, node) in Measure::ALL.into_iter().zip(limits) {
                    let Some(node) = node else { continue };
                    let name = format!("{name}.{}", measure.key());
                    let items = match &node.value {
                        Value::List(items) => items.as_slice(),
                        _ => std::slice::from_ref(node),
                    };
                    for item in items {
                        let limit = TrafficLimit::parse(measure, text_of(Some(item)));
                        let limit = limit.map_err(|error| value(&name, item, error.into()))?;
                        let origin = self.origin(item);
                        let limit = TrafficLimit { origin, ..limit };
                        TrafficLimit::add(list(&mut self.settings), limit)
                            .map_err(|error| value(&name, item, error.into()))?;
                    }
                }
            }
            Kind::Prices(list) => {
                for Entry { key, node, at } in table(node, name)? {
                    let model = provider::model(key);
                    let model = model.map_err(|error| Fault { at: *at, problem: problem(name, error) })?;
                    let price = price(&format!("{name}.{}", show(key.as_bytes())), node)?;
                    let origin = self.origin(node);
                    list(&mut self.settings).push(Stated { value: (model, price), origin });
                }
            }
            Kind::Secrets(list) => {
                for entry in table(node, name)? {
                    let secret = self.secret(name, entry)?;
                    list(&mut self.settings).push(secret);
                }
            }
            Kind::Mounts(list) => {
                for item in items(name, node)? {
                    let mount = self.mount(name, item)?;
                    list(&mut self.settings).push(mount);
                }
            }
            Kind::Tmpfs(list) => {
                for item in items(name, node)? {
                    let mount = self.tmpfs(name, item)?;
                    list(&mut self.settings).push(mount);
                }
            }
            Kind::Names(list) => {
                for item in items(name, node)? {
                    let Value::Text(text) = &item.value else {
                        return Err(wrong_type(name, "a list of strings", item));
                    };
                    let entry = text::name(OsStr::new(&**text)).map_err(|error| value(name, item, error))?;
                    let origin = self.origin(item);
                    list(&mut self.settings).push(Stated { value: entry, origin });
                }
            }
            Kind::Port(_) => {
                let Value::Number(text) = &node.value else { return Err(wrong_type(name, "a port", node)) };
                self.state(key, name, text, node)?;
            }
            Kind::Ports(list) => {
                for item in items(name, node)? {
                    let (Value::Text(text) | Value::Number(text)) = &item.value else {
                        return Err(wrong_type(name, "a list of ports, or of \"HOST:INSIDE\"", item));
                    };
                    let port = text::published(text, self.origin(item));
                    list(&mut self.settings).push(port.map_err(|error| value(name, item, error))?);
                }
            }
            Kind::Users(list) => {
                for item in items(name, node)? {
                    let Value::Text(text) = &item.value else {
                        return Err(wrong_type(name, "a list of users", item));
                    };
                    let user = UserEntry::parse(text, self.origin(item));
                    list(&mut self.settings).push(user.map_err(|error| value(name, item, error.into()))?);
                }
            }
            Kind::Variables(list) => {
                for Entry { key, node, at } in table(node, name)? {
                    let full = || format!("{name}.{}", show(key.as_bytes()));
                    let text = match &node.value {
                        Value::Text(text) => OsString::from(&**text),
                        Value::Table(_) => {
                            let [path] = fields(&full(), node, &keys::VARIABLE)?;
                            let path = self.base.path(OsStr::new(text_of(path)));
                            path.map_err(|error| value(&full(), node, error))?.into_os_string()
                        }
                        _ => return Err(wrong_type(&full(), "a string, or a table with `path`", node)),
                    };
                    let pair = text::variable(OsStr::new(&**key), &text);
                    let pair = pair.map_err(|error| Fault { at: *at, problem: problem(name, error) })?;
                    let origin = self.origin(node);
                    list(&mut self.settings).push(Stated { value: pair, origin });
                }
            }
        }
        Ok(())
    }

    /// A limit: numbers and texts go the same way, so `memory = 1024` and `memory = "1K"` are the same.
    fn limit(&mut self, key: &Key, name: &str, node: &Node<'_>, expected: &str) -> Result<(), Fault> {
        match &node.value {
            Value::Text(text) | Value::Number(text) => self.state(key, name, text, node),
            _ => Err(wrong_type(name, expected, node)),
        }
    }

    fn state(&mut self, key: &Key, name: &str, text: &str, node: &Node<'_>) -> Result<(), Fault> {
        let origin = self.origin(node);
        key.kind
            .state(&mut self.settings, OsStr::new(text), self.base, origin)
            .map_err(|error| value(name, node, error))
    }

    fn paths(&mut self, name: &str, item: &Node<'_>, sense: Sense) -> Result<Vec<PathEntry>, Fault> {
        let [path, literal, missing] = fields(name, item, &keys::PATH)?;
        let is_literal = is_true(literal);
        let missing = match text_of(missing) {
            "skip" => Some(Missing::Skip),
            "error" => Some(Missing::Error),
            "create" => Some(Missing::Create),
            "create-file" => Some(Missing::CreateFile),
            _ => None,
        };
        let text = OsStr::new(text_of(path));
        let patterns =
            if is_literal { self.base.literals(text, sense) } else { self.base.patterns(text, sense) };
        let patterns = patterns.map_err(|error| value(name, item, error))?;
        if missing.is_some_and(Missing::creates) && patterns.iter().any(PathPattern::is_glob) {
            return Err(value(name, item, ValueError::NotCreated));
        }
        let origin = self.origin(item);
        let entry = |pattern| PathEntry { pattern, missing, origin: origin.clone() };
        Ok(patterns.into_iter().map(entry).collect())
    }

    fn mount(&mut self, name: &str, item: &Node<'_>) -> Result<MountPoint, Fault> {
        let [source, target, access, missing] = fields(name, item, &keys::MOUNT)?;
        let read = || {
            let source = self.base.path(OsStr::new(text_of(source)))?;
            let target = text::target(OsStr::new(text_of(target)), self.base)?;
            Ok((source, target))
        };
        let (source, target) = read().map_err(|error| value(name, item, error))?;
        let access = match text_of(access) {
            "read-write" => MountAccess::ReadWrite,
            _ => MountAccess::ReadOnly,
        };
        let missing = match text_of(missing) {
            "skip" => Missing::Skip,
            "create" => Missing::Create,
            _ => Missing::Error,
        };
        Ok(MountPoint { source, target, access, missing, origin: self.origin(item) })
    }

    fn secret(&mut self, name: &str, entry: &Entry<'_>) -> Result<SecretEntry, Fault> {
        let Entry { at, key, node } = entry;
        let wrong_name = |error| Fault { at: *at, problem: problem(name, error) };
        let mut secret = SecretEntry::named(key, self.origin(node)).map_err(wrong_name)?;
        let name = &format!("{name}.{key}");
        table(node, name)?;
        let [from, mode, hosts, variable, files, whole_files, query, body, plaintext, others] =
            fields(name, node, &keys::SECRET)?;
        secret.from = from.map(|from| self.source(&format!("{name}.from"), from)).transpose()?;
        if text_of(mode) == "inject" {
            secret.mode = SecretMode::Inject;
        }
        for (host, item) in texts_of(hosts) {
            let rule = secret::host(host, self.origin(item));
            secret.hosts.push(rule.map_err(|error| value(&format!("{name}.hosts"), item, error))?);
        }
        if let Some(node) = variable {
            let variable = text::name(OsStr::new(text_of(variable)));
            let variable = variable.map_err(|error| value(&format!("{name}.variable"), node, error))?;
            secret.variable = Some(variable);
        }
        for (file, item) in texts_of(files) {
            let file = self.base.path(OsStr::new(file));
            secret.files.push(file.map_err(|error| value(&format!("{name}.files"), item, error))?);
        }
        secret.whole_files = is_true(whole_files);
        secret.swap_in = SwapIn {
            query: is_true(query),
            body: is_true(body),
            plaintext: is_true(plaintext),
            pass_encoded: false,
            others: is_true(others),
        };
        Ok(secret)
    }

    fn provider(&mut self, name: &str, entry: &Entry<'_>) -> Result<ProviderEntry, Fault> {
        let Entry { at, key, node } = entry;
        let wrong_name = |error| Fault { at: *at, problem: problem(name, error) };
        let mut provider = ProviderEntry::named(key, self.origin(node)).map_err(wrong_name)?;
        let name = &format!("{name}.{key}");
        let [api, key, upstream, models, members, limits, variables] = fields(name, node, &keys::PROVIDER)?;
        provider.api = Api::of_word(text_of(api));
        provider.key = match key {
            None => None,
            Some(_) if text_of(key) == "none" => Some(KeySource::None),
            Some(key) => Some(KeySource::From(self.source(&format!("{name}.key"), key)?)),
        };
        if let Some(node) = upstream {
            let upstream = provider::upstream(text_of(upstream));
            let upstream = upstream.map_err(|error| value(&format!("{name}.upstream"), node, error))?;
            provider.upstream = Some(upstream);
        }
        for (model, item) in texts_of(models) {
            let model = provider::model(model);
            provider.models.push(model.map_err(|error| value(&format!("{name}.models"), item, error))?);
        }
        for (member, item) in texts_of(members) {
            let member = provider::member(member);
            provider.members.push(member.map_err(|error| value(&format!("{name}.members"), item, error))?);
        }
        if let Some(limits) = limits {
            provider.budget = budget(&format!("{name}.budget"), limits)?;
        }
        for (variable, item) in texts_of(variables) {
            let checked = text::name(OsStr::new(variable));
            checked.map_err(|error| value(&format!("{name}.variables"), item, error))?;
            provider.variables.push(variable.to_owned());
        }
        Ok(provider)
    }

    /// Where a value comes from.
    fn source(&self, name: &str, node: &Node<'_>) -> Result<SecretSource, Fault> {
        let read = match &node.value {
            Value::Table(_) => {
                let [words] = fields(name, node, &keys::COMMAND)?;
                let words: Vec<&str> = texts_of(words).map(|(word, _)| word).collect();
                secret::command(&words, self.base)
            }
            _ => secret::source(text_of(Some(node)), self.base),
        };
        read.map_err(|error| value(name, node, error))
    }

    fn tmpfs(&mut self, name: &str, item: &Node<'_>) -> Result<TmpfsMount, Fault> {
        let [target, size, missing] = fields(name, item, &keys::TMPFS)?;
        let create = text_of(missing) == "create";
        let read = || {
            let target = text::target(OsStr::new(text_of(target)), self.base)?;
            let size = size.map(|size| text::size(text_of(Some(size)), Zero::Refused)).transpose()?;
            Ok((target, size))
        };
        let (target, size) = read().map_err(|error| value(name, item, error))?;
        Ok(TmpfsMount { target, size, create, origin: self.origin(item) })
    }

    fn origin(&mut self, node: &Node<'_>) -> Origin {
        match self.provenance {
            Provenance::Profile(_) => Origin(self.name.to_owned()),
            Provenance::File(_) | Provenance::OwnProfile(_) => {
                let (from, line) = if node.at >= self.seen.0 { self.seen } else { (0, 1) };
                let between = self.text.as_bytes().get(from..node.at).unwrap_or_default();
                let line = line + between.iter().filter(|byte| **byte == b'\n').count();
                self.seen = (node.at, line);
                Origin(format!("{}:{line}", self.name))
            }
        }
    }
}

fn budget(name: &str, node: &Node<'_>) -> Result<Budget, Fault> {
    table(node, name)?;
    let limits: [Option<&Node<'_>>; provider::LIMITS.len()] = fields(name, node, &keys::BUDGET)?;
    let mut budget = Budget::default();
    for (limit, field) in limits.into_iter().zip(keys::BUDGET.fields) {
        if let Some(node) = limit {
            provider::limit(&mut budget, field.name, text_of(Some(node)))
                .map_err(|error| value(&format!("{name}.{}", field.name), node, error))?;
        }
    }
    Ok(budget)
}

fn price(name: &str, node: &Node<'_>) -> Result<Price, Fault> {
    table(node, name)?;
    let [input, output, cache_read, cache_write] = fields(name, node, &keys::PRICE)?;
    let amount = |field: Option<&Node<'_>>| {
        let read = |field: &Node<'_>| {
            provider::amount(text_of(Some(field))).map_err(|error| value(name, field, error))
        };
        field.map(read).transpose()
    };
    Ok(Price {
        input: amount(input)?.unwrap_or_default(),
        output: amount(output)?.unwrap_or_default(),
        cache_read: amount(cache_read)?,
        cache_write: amount(cache_write)?,
    })
}

fn full_name(section: &Section, key: &str) -> String {
    if section.name.is_empty() { key.to_owned() } else { format!("{}.{key}", section.name) }
}

fn unknown_key(section: &Section, entry: &Entry<'_>) -> Fault {
    let key = entry.key.as_ref();
    let elsewhere = SECTIONS.iter().find(|other| other.keys.iter().any(|own| own.name == key));
    let named = section.keys.iter().filter(|own| !own.kind.has_own_names());
    let mut candidates: Vec<&str> = named.map(|own| own.name).collect();
    if section.name.is_empty() {
        candidates.extend(SECTIONS.iter().map(|own| own.name).filter(|name| !name.is_empty()));
    }
    let hint = match elsewhere {
        Some(other) if other.name.is_empty() => Some(format!("`{key}` belongs at the top")),
        Some(other) => Some(format!("`{key}` belongs in `{}`", other.name)),
        None => nearest(key, candidates).map(|near| format!("did you mean `{near}`?")).or_else(|| {
            let others = SECTIONS.iter().filter(|other| other.name != section.name && !other.name.is_empty());
            let (near, other) = others
                .filter_map(|other| nearest(key, other.keys.iter().map(|own| own.name)).zip(Some(other)))
                .next()?;
            Some(format!("did you mean `{near}` in `{}`?", other.name))
        }),
    };
    let problem = Problem::UnknownKey { key: show(key.as_bytes()), inside: section.name.to_owned(), hint };
    Fault { at: entry.at, problem }
}

/// The fields of an entry, in the order of its shape; every one that is there has the type that the shape says.
fn fields<'n, 'i, const N: usize>(
    name: &str,
    item: &'n Node<'i>,
    shape: &'static Shape,
) -> Result<[Option<&'n Node<'i>>; N], Fault> {
    let mut found = [None; N];
    match (&item.value, shape.short) {
        (Value::Text(_), Some(short)) => {
            for (slot, field) in found.iter_mut().zip(shape.fields) {
                *slot = (field.name == short).then_some(item);
            }
        }
        (Value::Table(entries), _) => {
            for entry in entries {
                let key = entry.key.as_ref();
                let Some(index) = shape.fields.iter().position(|field| field.name == key) else {
                    let near = nearest(key, shape.fields.iter().map(|field| field.name));
                    let problem = Problem::UnknownKey {
                        key: show(key.as_bytes()),
                        inside: name.to_owned(),
                        hint: near.map(|near| format!("did you mean `{near}`?")),
                    };
                    return Err(Fault { at: entry.at, problem });
                };
                check_field(name, &shape.fields[index], &entry.node)?;
                found[index] = Some(&entry.node);
            }
        }
        (_, Some(_)) => return Err(wrong_type(name, "a list of strings or tables", item)),
        (_, None) => return Err(wrong_type(name, "a list of tables", item)),
    }
    for (slot, field) in found.iter().zip(shape.fields) {
        if field.required && slot.is_none() {
            let problem = Problem::MissingKey { key: field.name, inside: name.to_owned() };
            return Err(Fault { at: item.at, problem });
        }
    }
    Ok(found)
}

fn check_field(name: &str, field: &Field, node: &Node<'_>) -> Result<(), Fault> {
    let name = format!("{name}.{}", field.name);
    match (field.kind, &node.value) {
        (FieldKind::Text, Value::Text(_))
        | (FieldKind::Bool, Value::Bool(_))
        | (FieldKind::Size, Value::Text(_) | Value::Number(_))
        | (FieldKind::Count | FieldKind::Amount, Value::Number(_))
        | (FieldKind::Table(_), Value::Table(_)) => Ok(()),
        (FieldKind::Words(words), Value::Text(text)) => {
            text::word(text, words).map(|_| ()).map_err(|error| value(&name, node, error))
        }
        (FieldKind::Source, Value::Text(_) | Value::Table(_)) => Ok(()),
        (FieldKind::Traffic, Value::Text(_) | Value::Number(_)) => Ok(()),
        (FieldKind::Traffic, Value::List(items)) => {
            match items.iter().find(|item| !matches!(item.value, Value::Text(_) | Value::Number(_))) {
                None => Ok(()),
                Some(item) => Err(wrong_type(&name, TRAFFIC, item)),
            }
        }
        (FieldKind::Traffic, _) => Err(wrong_type(&name, TRAFFIC, node)),
        (FieldKind::Texts, Value::List(items)) => {
            match items.iter().find(|item| !matches!(item.value, Value::Text(_))) {
                None => Ok(()),
                Some(item) => Err(wrong_type(&name, "a list of strings", item)),
            }
        }
        (FieldKind::Texts, _) => Err(wrong_type(&name, "a list of strings", node)),
        (FieldKind::Source, _) => Err(wrong_type(&name, "a string, or a table with `command`", node)),
        (FieldKind::Text | FieldKind::Words(_), _) => Err(wrong_type(&name, "a string", node)),
        (FieldKind::Bool, _) => Err(wrong_type(&name, "true or false", node)),
        (FieldKind::Count | FieldKind::Amount, _) => Err(wrong_type(&name, "a number", node)),
        (FieldKind::Table(_), _) => Err(wrong_type(&name, "a table", node)),
        (FieldKind::Size, _) => Err(wrong_type(&name, "a size such as \"512M\", or a number of bytes", node)),
    }
}

/// The text of a field whose type was checked; empty when it is not there.
fn text_of<'n>(node: Option<&'n Node<'_>>) -> &'n str {
    match node.map(|node| &node.value) {
        Some(Value::Text(text) | Value::Number(text)) => text,
        _ => "",
    }
}

/// The texts of a field that is a list; none when it is not there.
fn texts_of<'n, 'i>(node: Option<&'n Node<'i>>) -> impl Iterator<Item = (&'n str, &'n Node<'i>)> {
    let items = match node.map(|node| &node.value) {
        Some(Value::List(items)) => items.as_slice(),
        _ => &[],
    };
    items.iter().map(|item| (text_of(Some(item)), item))
}

fn is_true(node: Option<&Node<'_>>) -> bool {
    matches!(node, Some(Node { value: Value::Bool(true), .. }))
}

fn table<'n, 'i>(node: &'n Node<'i>, name: &str) -> Result<&'n [Entry<'i>], Fault> {
    match &node.value {
        Value::Table(entries) => Ok(entries),
        _ => Err(wrong_type(name, "a table", node)),
    }
}

fn items<'n, 'i>(name: &str, node: &'n Node<'i>) -> Result<&'n [Node<'i>], Fault> {
    match &node.value {
        Value::List(items) => Ok(items),
        _ => Err(wrong_type(name, "a list", node)),
    }
}

fn boolean(name: &str, node: &Node<'_>) -> Result<bool, Fault> {
    match node.value {
        Value::Bool(value) => Ok(value),
        _ => Err(wrong_type(name, "true or false", node)),
    }
}

fn wrong_type(name: &str, expected: &str, node: &Node<'_>) -> Fault {
    let problem =
        Problem::Type { key: name.to_owned(), expected: expected.to_owned(), found: node.value.kind() };
    Fault { at: node.at, problem }
}

fn value(name: &str, node: &Node<'_>, error: ValueError) -> Fault {
    Fault { at: node.at, problem: problem(name, error) }
}

fn problem(name: &str, error: ValueError) -> Problem {
    Problem::Value { key: name.to_owned(), error }
}
