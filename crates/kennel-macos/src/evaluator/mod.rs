//! What a profile's text says, by the rules that Seatbelt decides by: for tests, where there is no Seatbelt.
//!
//! It reads the text and knows nothing of how it was made. Three rules decide, in this order:
//!
//! 1. a rule on a specific operation (`file-write-unlink`) beats one on its group (`file-write*`), whichever comes first;
//! 2. of the same operation, a rule with a filter beats one without;
//! 3. else the last that matches wins.
//!
//! Filters are taken as they are written: `//x`, `/x/` and `/./x` match nothing. `subpath` does not match the making of a folder
//! at its very path. Names of operations and filters that Seatbelt does not know are errors, as they are there.

mod parse;
mod regex;

use std::collections::HashMap;
use std::fmt;

use parse::{Form, forms};
use regex::Regex;

/// Why a text is no profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadProfile(pub String);

impl fmt::Display for BadProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What something on disk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vnode {
    /// A folder.
    Directory,
    /// A file.
    Regular,
    /// A link.
    Symlink,
}

/// What an operation is tried on.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// A path that has no links, as the kernel found it.
    Path {
        /// The path.
        path: &'a str,
        /// What stands there, or would.
        vnode: Vnode,
        /// Whether something stands there.
        exists: bool,
    },
    /// An address at the other end.
    Address {
        /// The address.
        host: &'a str,
        /// The port.
        port: u16,
    },
    /// Something else: a name.
    Name(&'a str),
}

/// A profile that was read.
#[derive(Debug)]
pub struct Profile {
    /// The rules on each operation, in their order.
    rules: HashMap<String, Vec<(usize, bool)>>,
    bodies: Vec<Vec<Filter>>,
    messages: Vec<Option<String>>,
}

#[derive(Debug)]
enum Filter {
    Literal(String),
    Subpath(String),
    Regex(Regex),
    Vnode(Vnode),
    Ip {
        remote: bool,
        host: String,
        port: String,
    },
    Global(String),
    GlobalPrefix(String),
    All(Vec<Filter>),
    Any(Vec<Filter>),
    Not(Box<Filter>),
    /// What none of the questions here is about.
    Other,
}

/// Operations that Seatbelt knows, as far as anybody here uses them.
const OPERATIONS: &[&str] = &[
    "default",
    "file*",
    "file-clone",
    "file-ioctl",
    "file-link",
    "file-map-executable",
    "file-read*",
    "file-read-data",
    "file-read-metadata",
    "file-read-xattr",
    "file-write*",
    "file-write-create",
    "file-write-data",
    "file-write-flags",
    "file-write-mode",
    "file-write-owner",
    "file-write-times",
    "file-write-unlink",
    "file-write-xattr",
    "iokit-open",
    "ipc-posix-sem",
    "ipc-posix-shm*",
    "mach-host*",
    "mach-lookup",
    "network*",
    "network-bind",
    "network-inbound",
    "network-outbound",
    "nvram*",
    "process-exec",
    "process-fork",
    "process-info*",
    "pseudo-tty",
    "signal",
    "sysctl-read",
    "sysctl-write",
    "system-socket",
    "user-preference-read",
];

impl Profile {
    /// Reads a text.
    ///
    /// # Errors
    /// When Seatbelt would not take it.
    pub fn parse(text: &str) -> Result<Profile, BadProfile> {
        let mut profile = Profile { rules: HashMap::new(), bodies: Vec::new(), messages: Vec::new() };
        let forms = forms(text)?;
        let mut forms = forms.iter();
        match forms.next() {
            Some(Form::List(version)) if *version == [Form::word("version"), Form::word("1")] => {}
            _ => return Err(BadProfile("it does not begin with (version 1)".to_owned())),
        }
        for form in forms {
            profile.rule(form)?;
        }
        Ok(profile)
    }

    fn rule(&mut self, form: &Form) -> Result<(), BadProfile> {
        let bad = |what: &str| Err(BadProfile(format!("{what}: {form:?}")));
        let Form::List(parts) = form else { return bad("a rule is a list") };
        let allow = match parts.first() {
            Some(Form::Word(word)) if word == "allow" => true,
            Some(Form::Word(word)) if word == "deny" => false,
            _ => return bad("a rule allows or denies"),
        };
        let number = self.bodies.len();
        let (mut filters, mut message, mut operations) = (Vec::new(), None, Vec::new());
        for part in &parts[1..] {
            match part {
                Form::Word(word) if filters.is_empty() && OPERATIONS.contains(&word.as_str()) => {
                    operations.push(word.clone());
                }
                Form::List(list) => match list.as_slice() {
                    [Form::Word(with), Form::Word(kind), Form::Text(text)]
                        if with == "with" && kind == "message" =>
                    {
                        message = Some(text.clone());
                    }
                    _ => filters.push(filter(part)?),
                },
                _ => return bad("an operation that Seatbelt does not know"),
            }
        }
        if operations.is_empty() {
            return bad("a rule without an operation");
        }
        for operation in operations {
            self.rules.entry(operation).or_default().push((number, allow));
        }
        self.bodies.push(filters);
        self.messages.push(message);
        Ok(())
    }

    /// Whether an operation is allowed.
    #[must_use]
    pub fn allows(&self, operation: &str, target: Target<'_>) -> bool {
        for level in levels(operation) {
            let rules = self.rules.get(level).map(Vec::as_slice).unwrap_or_default();
            let matches = |(number, _): &&(usize, bool)| {
                self.bodies[*number].iter().any(|filter| filter.matches(target))
            };
            let unfiltered = |(number, _): &&(usize, bool)| self.bodies[*number].is_empty();
            let decided = rules.iter().rev().find(matches).or_else(|| rules.iter().rev().find(unfiltered));
            if let Some((_, allow)) = decided {
                return *allow;
            }
        }
        false
    }

    fn path(&self, operation: &str, path: &str, vnode: Vnode) -> bool {
        self.allows(operation, Target::Path { path, vnode, exists: true })
    }

    /// Whether a file can be read, or a folder listed.
    #[must_use]
    pub fn may_read(&self, path: &str, vnode: Vnode) -> bool {
        self.path("file-read-data", path, vnode)
    }

    /// Whether it can be asked about.
    #[must_use]
    pub fn may_stat(&self, path: &str, vnode: Vnode) -> bool {
        self.path("file-read-metadata", path, vnode)
    }

    /// Whether it can be changed where it is.
    #[must_use]
    pub fn may_write(&self, path: &str, vnode: Vnode) -> bool {
        self.path("file-write-data", path, vnode)
    }

    /// Whether its mode, owner, times, flags and attributes can be changed: all of them, or none.
    #[must_use]
    pub fn may_change_metadata(&self, path: &str, vnode: Vnode) -> bool {
        ["mode", "owner", "times", "flags", "xattr"]
            .iter()
            .any(|what| self.path(&format!("file-write-{what}"), path, vnode))
    }

    /// Whether it can be made, where nothing stands.
    #[must_use]
    pub fn may_create(&self, path: &str, vnode: Vnode) -> bool {
        self.allows("file-write-create", Target::Path { path, vnode, exists: false })
    }

    /// Whether it can be removed.
    #[must_use]
    pub fn may_unlink(&self, path: &str, vnode: Vnode) -> bool {
        self.path("file-write-unlink", path, vnode)
    }

    /// Whether it can be moved: one name is removed, the other made, and what stood there removed.
    #[must_use]
    pub fn may_rename(&self, from: &str, to: &str, vnode: Vnode, replaces: bool) -> bool {
        self.may_unlink(from, vnode)
            && self.may_create(to, vnode)
            && (!replaces || self.may_unlink(to, vnode))
    }

    /// Whether a second name can be made. Sources differ on which end is judged, so both have to allow it.
    #[must_use]
    pub fn may_link(&self, from: &str, to: &str) -> bool {
        let link =
            |path, exists| self.allows("file-link", Target::Path { path, vnode: Vnode::Regular, exists });
        link(from, true) && link(to, false) && self.may_create(to, Vnode::Regular)
    }

    /// Whether a connection can be made.
    #[must_use]
    pub fn may_connect(&self, host: &str, port: u16) -> bool {
        self.allows("network-outbound", Target::Address { host, port })
    }

    /// Whether a server can listen there: it binds, and hears.
    #[must_use]
    pub fn may_listen(&self, host: &str, port: u16) -> bool {
        ["network-bind", "network-inbound"].iter().all(|it| self.allows(it, Target::Address { host, port }))
    }

    /// Whether a unix socket can be connected to.
    #[must_use]
    pub fn may_connect_unix(&self, path: &str) -> bool {
        self.path("network-outbound", path, Vnode::Regular)
    }

    /// Whether one can be made.
    #[must_use]
    pub fn may_bind_unix(&self, path: &str) -> bool {
        self.path("network-bind", path, Vnode::Regular)
    }

    /// Whether a mach service can be looked up.
    #[must_use]
    pub fn may_look_up(&self, service: &str) -> bool {
        self.allows("mach-lookup", Target::Name(service))
    }

    /// The messages of all rules that deny; `None` where one has none.
    pub fn messages(&self) -> impl Iterator<Item = Option<&str>> {
        let denies = self.rules.values().flatten().filter(|(_, allow)| !allow);
        denies.map(|(number, _)| self.messages[*number].as_deref())
    }
}

/// An operation and the groups that it belongs to, the most specific first.
fn levels(operation: &str) -> impl Iterator<Item = &str> {
    let groups = OPERATIONS.iter().copied().filter(move |group| {
        group.strip_suffix('*').is_some_and(|start| {
            operation != *group && operation.strip_prefix(start).is_some_and(|rest| rest.starts_with('-'))
        })
    });
    // Longer names come later in the table.
    let mut groups: Vec<&str> = groups.collect();
    groups.reverse();
    std::iter::once(operation).chain(groups).chain(["default"])
}

fn filter(form: &Form) -> Result<Filter, BadProfile> {
    let bad = || BadProfile(format!("a filter that Seatbelt does not know: {form:?}"));
    let Form::List(parts) = form else { return Err(bad()) };
    let text = |what: fn(String) -> Filter| match &parts[1..] {
        [Form::Text(text)] => Ok(what(text.clone())),
        _ => Err(bad()),
    };
    let inner = || parts[1..].iter().map(filter).collect::<Result<Vec<_>, _>>();
    let Some(Form::Word(name)) = parts.first() else { return Err(bad()) };
    match (name.as_str(), &parts[1..]) {
        ("literal" | "path", _) => text(Filter::Literal),
        ("subpath", _) => text(Filter::Subpath),
        ("regex", [Form::Text(text)]) => Ok(Filter::Regex(Regex::new(text).map_err(BadProfile)?)),
        ("global-name", _) => text(Filter::Global),
        ("global-name-prefix", _) => text(Filter::GlobalPrefix),
        ("vnode-type", [Form::Word(kind)]) => match kind.as_str() {
            "DIRECTORY" => Ok(Filter::Vnode(Vnode::Directory)),
            "REGULAR-FILE" => Ok(Filter::Vnode(Vnode::Regular)),
            "SYMLINK" => Ok(Filter::Vnode(Vnode::Symlink)),
            _ => Err(bad()),
        },
        (end @ ("remote" | "local"), [Form::Word(ip), Form::Text(address)]) if ip == "ip" => {
            let (host, port) = address.rsplit_once(':').ok_or_else(bad)?;
            let sound = port == "*" || port.parse::<u16>().is_ok_and(|port| port > 0);
            if !matches!(host, "localhost" | "*") || !sound {
                return Err(bad());
            }
            Ok(Filter::Ip { remote: end == "remote", host: host.to_owned(), port: port.to_owned() })
        }
        ("require-all", _) => Ok(Filter::All(inner()?)),
        ("require-any", _) => Ok(Filter::Any(inner()?)),
        ("require-not", [one]) => Ok(Filter::Not(Box::new(filter(one)?))),
        (
            "target"
            | "sysctl-name"
            | "sysctl-name-prefix"
            | "socket-domain"
            | "extension"
            | "iokit-registry-entry-class",
            [_],
        ) => Ok(Filter::Other),
        _ => Err(bad()),
    }
}

impl Filter {
    fn matches(&self, target: Target<'_>) -> bool {
        match (self, target) {
            (Filter::All(all), _) => all.iter().all(|filter| filter.matches(target)),
            (Filter::Any(any), _) => any.iter().any(|filter| filter.matches(target)),
            (Filter::Not(not), _) => !not.matches(target),
            (Filter::Literal(own), Target::Path { path, .. }) => own == path,
            (Filter::Subpath(own), Target::Path { path, exists, .. }) => {
                match path.strip_prefix(own.as_str()) {
                    _ if own == "/" => true,
                    _ if own.ends_with('/') => false,
                    Some("") => exists,
                    Some(rest) => rest.starts_with('/'),
                    None => false,
                }
            }
            (Filter::Regex(regex), Target::Path { path, .. }) => regex.matches(path),
            (Filter::Vnode(own), Target::Path { vnode, .. }) => *own == vnode,
            (Filter::Ip { remote, host, port }, Target::Address { host: to, port: at }) => {
                // A socket that has no address yet counts as localhost at its own end.
                if !remote && host == "*" {
                    return port == "*" || *port == at.to_string();
                }
                let host = host == "*" || matches!(to, "127.0.0.1" | "::1");
                host && (port == "*" || *port == at.to_string())
            }
            (Filter::Global(own), Target::Name(name)) => own == name,
            (Filter::GlobalPrefix(own), Target::Name(name)) => name.starts_with(own.as_str()),
            _ => false,
        }
    }
}
