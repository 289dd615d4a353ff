//! The table of keys: every setting's name, type, place, meaning, and how it may be tightened.
//!
//! Nothing else in kennel lists the settings. The reader walks this table, the nearest key is searched in it, the
//! JSON Schema and the reference page are printed from it, merging goes through it, and a flag names its row.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use super::{PathEntry, ProviderEntry, SecretEntry, Sense, Settings, Stated, Switch};
use crate::domain::{HostRule, ListKind};
use crate::gateway::{Budget, Price};
use crate::gpu::GpuChoice;
use crate::http_rule::HttpRule;
use crate::policy::{
    GitLevel, HomeMode, MountPoint, NetworkMode, OnReplace, Origin, Precedence, ProxyAddress, PublishedPort,
    ReadModel, RootFsWrite, SeccompProfile, SecretVariables, TmpMode, TmpfsMount, UnixSockets, UserMode,
};
use crate::registries::Registry;
use crate::traffic::TrafficLimit;
use crate::users::UserEntry;

/// A table of the settings; the first one is the top, and has no name.
pub struct Section {
    /// Its name; empty for the top.
    pub name: &'static str,
    /// What its keys are about.
    pub doc: &'static str,
    /// Its keys.
    pub keys: &'static [Key],
}

/// One setting.
pub struct Key {
    /// Its name within its section.
    pub name: &'static str,
    /// What it holds, and where in [`Settings`].
    pub kind: Kind,
    /// What it is when nobody says; empty for nothing.
    pub default: &'static str,
    /// What a settings file found in the working directory can do with it.
    pub tighten: Tighten,
    /// What it means, in one line.
    pub doc: &'static str,
}

/// Where a single value is kept.
pub type Slot<T> = fn(&mut Settings) -> &mut Option<Stated<T>>;
/// Where a list is kept.
pub type ListSlot<T> = fn(&mut Settings) -> &mut Vec<T>;

/// What a setting holds.
pub enum Kind {
    /// True or false, which merging makes something of.
    Bool(Slot<bool>),
    /// True or false, which the policy takes as it is.
    Switch(Switch),
    /// Names of profiles; one may be written without a list.
    Profiles(ListSlot<Stated<String>>),
    /// Names of settings that are lists; one may be written without a list.
    Lists(ListSlot<Stated<&'static str>>),
    /// A host name.
    Hostname(Slot<String>),
    /// A folder.
    Folder(Slot<PathBuf>),
    /// One of a few words.
    Choice(&'static (dyn Choices + Sync)),
    /// Bytes.
    Size(Slot<Option<u64>>, Zero),
    /// Time.
    Time(Slot<Option<Duration>>),
    /// CPUs.
    Cpus(Slot<Option<f64>>),
    /// A positive number.
    Count(Slot<Option<u32>>),
    /// Paths and globs.
    Paths(ListSlot<PathEntry>, Sense),
    /// Hosts.
    Hosts(ListSlot<HostRule>, ListKind),
    /// Graphics cards.
    Gpus(ListSlot<Stated<GpuChoice>>),
    /// Names of registries.
    Registries(ListSlot<Stated<&'static Registry>>),
    /// Hosts to allow, and requests to allow.
    HostsAndRequests(ListSlot<HostRule>, ListSlot<HttpRule>),
    /// A file.
    File(Slot<PathBuf>),
    /// Providers of models, by their names, which are keys of the section.
    Providers(ListSlot<ProviderEntry>),
    /// How much may be used.
    Budget(Slot<Budget>),
    /// What models cost, by their names.
    Prices(ListSlot<Stated<(String, Price)>>),
    /// Files, which are not globs.
    Files(ListSlot<Stated<PathBuf>>),
    /// Secrets, by their names.
    Secrets(ListSlot<SecretEntry>),
    /// Mounts.
    Mounts(ListSlot<MountPoint>),
    /// Folders in memory.
    Tmpfs(ListSlot<TmpfsMount>),
    /// Names of variables.
    Names(ListSlot<Stated<OsString>>),
    /// Variables.
    Variables(ListSlot<Stated<(OsString, OsString)>>),
    /// Text for somebody else to read.
    Text(Slot<String>),
    /// The address of a proxy, which may hold a password.
    Proxy(Slot<ProxyAddress>),
    /// A port.
    Port(Slot<u16>),
    /// Ports of the inside, with their numbers on the host.
    Ports(ListSlot<PublishedPort>),
    /// Users of the inside.
    Users(ListSlot<UserEntry>),
    /// Limits on traffic.
    Traffic(ListSlot<TrafficLimit>),
}

impl Kind {
    /// Whether it is written as tables that the user names, beside the other keys of its section. Its own name is then only what
    /// it is called.
    #[must_use]
    pub fn has_own_names(&self) -> bool {
        matches!(self, Kind::Providers(_))
    }

    /// Whether it is a list that sources add to, of paths, hosts, names and the like.
    #[must_use]
    pub fn is_list(&self) -> bool {
        matches!(
            self,
            Kind::Paths(..)
                | Kind::Hosts(..)
                | Kind::Registries(_)
                | Kind::HostsAndRequests(..)
                | Kind::Files(_)
                | Kind::Secrets(_)
                | Kind::Mounts(_)
                | Kind::Tmpfs(_)
                | Kind::Names(_)
                | Kind::Variables(_)
                | Kind::Ports(_)
                | Kind::Users(_)
        )
    }
}

/// Whether a size can be zero. Where it cannot, zero would mean the opposite: a tmpfs of size 0 has no bound.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Zero {
    /// Zero means zero.
    Allowed,
    /// Zero is a mistake.
    Refused,
}

/// What a settings file that nobody vouched for can do with a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tighten {
    /// Nothing.
    No,
    /// Add entries: the list takes something away.
    Add,
    /// Lower it.
    Lower,
    /// Move it towards the first word, the strictest.
    Stricter,
    /// Set it to this.
    To(bool),
}

/// A setting that is one of a few words.
pub trait Choices {
    /// The words, the strictest first.
    fn words(&self) -> Vec<&'static str>;
    /// Says the word with this index.
    fn state(&self, settings: &mut Settings, index: usize, origin: Origin);
    /// Takes what was said, as an index.
    fn take(&self, settings: &mut Settings) -> Option<Stated<usize>>;
    /// The index of what was said.
    fn stated(&self, settings: &mut Settings) -> Option<usize>;
}

struct Words<T: 'static> {
    words: &'static [(&'static str, T)],
    slot: Slot<T>,
}

impl<T: Clone + PartialEq> Words<T> {
    fn index(&self, value: &T) -> Option<usize> {
        self.words.iter().position(|(_, own)| own == value)
    }
}

impl<T: Clone + PartialEq> Choices for Words<T> {
    fn words(&self) -> Vec<&'static str> {
        self.words.iter().map(|(word, _)| *word).collect()
    }

    fn state(&self, settings: &mut Settings, index: usize, origin: Origin) {
        if let Some((_, value)) = self.words.get(index) {
            *(self.slot)(settings) = Some(Stated { value: value.clone(), origin });
        }
    }

    fn take(&self, settings: &mut Settings) -> Option<Stated<usize>> {
        let stated = (self.slot)(settings).take()?;
        Some(Stated { value: self.index(&stated.value)?, origin: stated.origin })
    }

    fn stated(&self, settings: &mut Settings) -> Option<usize> {
        (self.slot)(settings).as_ref().and_then(|stated| self.index(&stated.value))
    }
}

/// The row of a switch: its full name, and where the policy has it.
macro_rules! switch {
    ($name:literal => $($field:ident).+) => {
        Kind::Switch(Switch::new($name, |policy| &mut policy.$($field).+))
    };
}

/// Every switch.
pub(crate) fn switches() -> impl Iterator<Item = &'static Switch> {
    SECTIONS.iter().flat_map(|section| section.keys).filter_map(|key| match &key.kind {
        Kind::Switch(switch) => Some(switch),
        _ => None,
    })
}

/// The row of a key by its full name, for code that names one: a name that the table does not have does not compile where this is
/// the value of a constant or a static.
///
/// # Panics
/// When there is no such key.
#[must_use]
pub const fn named(name: &str) -> &'static Key {
    const fn is(one: &[u8], from: usize, other: &[u8]) -> bool {
        let mut at = 0;
        while at < other.len() && from + at < one.len() && one[from + at] == other[at] {
            at += 1;
        }
        at == other.len() && from + at == one.len()
    }
    const fn starts(name: &[u8], section: &[u8]) -> bool {
        let mut at = 0;
        while at < section.len() && at < name.len() && name[at] == section[at] {
            at += 1;
        }
        at == section.len() && (section.is_empty() || (at < name.len() && name[at] == b'.'))
    }
    let mut section = 0;
    while section < SECTIONS.len() {
        let Section { name: own, keys, .. } = &SECTIONS[section];
        if starts(name.as_bytes(), own.as_bytes()) {
            let from = if own.is_empty() { 0 } else { own.len() + 1 };
            let mut key = 0;
            while key < keys.len() {
                if is(name.as_bytes(), from, keys[key].name.as_bytes()) {
                    return &keys[key];
                }
                key += 1;
            }
        }
        section += 1;
    }
    panic!("there is no setting of this name")
}

/// The row of a key by its full name, such as `limits.memory`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Key> {
    let (section, key) = name.split_once('.').unwrap_or(("", name));
    SECTIONS.iter().find(|own| own.name == section)?.keys.iter().find(|own| own.name == key)
}

/// The full names of the settings that are lists.
pub fn lists() -> &'static [&'static str] {
    static LISTS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
        let lists = all().filter(|(_, key)| key.kind.is_list());
        lists.map(|(name, _)| &*name.leak()).collect()
    });
    &LISTS
}

/// Every key with its full name.
pub fn all() -> impl Iterator<Item = (String, &'static Key)> {
    SECTIONS.iter().flat_map(|section| {
        section.keys.iter().map(|key| {
            let name = if section.name.is_empty() {
                key.name.to_owned()
            } else {
                format!("{}.{}", section.name, key.name)
            };
            (name, key)
        })
    })
}

/// The whole table.
pub static SECTIONS: &[Section] = &[
    Section {
        name: "",
        doc: "Settings that belong to no section.",
        keys: &[
            Key {
                name: "profile",
                kind: Kind::Profiles(|s| &mut s.profiles),
                default: "default",
                tighten: Tighten::No,
                doc: "The profiles that the other settings build on, which add up: built-in ones, or yours in kennel/profiles.",
            },
            Key {
                name: "only",
                kind: Kind::Lists(|s| &mut s.only),
                default: "",
                tighten: Tighten::No,
                doc: "Lists that start anew here, such as files.allow_write: what weaker sources and the profile say in them does not count.",
            },
            Key {
                name: "best_effort",
                kind: switch!("best_effort" => best_effort),
                default: "false",
                tighten: Tighten::To(false),
                doc: "Run without protections this host cannot enforce, and list them in the outcome.",
            },
            Key {
                name: "secrets",
                kind: Kind::Secrets(|s| &mut s.secrets),
                default: "",
                tighten: Tighten::No,
                doc: "Secrets that the command uses, as [secrets.NAME]. By default it gets a stand-in, and the gate puts the real value into requests to the secret's hosts.",
            },
        ],
    },
    Section {
        name: "files",
        doc: "Which files can be read and written.",
        keys: &[
            Key {
                name: "rootfs",
                kind: Kind::Folder(|s| &mut s.files.rootfs),
                default: "",
                tighten: Tighten::No,
                doc: "A folder that is the root inside; of the host only what the lists name is there.",
            },
            Key {
                name: "rootfs_write",
                kind: Kind::Choice(&Words {
                    words: &[("none", RootFsWrite::None), ("layer", RootFsWrite::Layer)],
                    slot: |s| &mut s.files.rootfs_write,
                }),
                default: "layer",
                tighten: Tighten::Stricter,
                doc: "Writes to rootfs: none, or into a layer in memory that is thrown away at the end.",
            },
            Key {
                name: "reads",
                kind: Kind::Choice(&Words {
                    words: &[("listed", ReadModel::Listed), ("open", ReadModel::Open)],
                    slot: |s| &mut s.files.reads,
                }),
                default: "open",
                tighten: Tighten::Stricter,
                doc: "Reads not covered by a rule: allow all, or only listed paths.",
            },
            Key {
                name: "deny_read",
                kind: Kind::Paths(|s| &mut s.files.deny_read, Sense::Deny),
                default: "",
                tighten: Tighten::Add,
                doc: "Paths that are hidden, with everything below them.",
            },
            Key {
                name: "allow_read",
                kind: Kind::Paths(|s| &mut s.files.allow_read, Sense::Allow),
                default: "",
                tighten: Tighten::No,
                doc: "Paths that can be read: exceptions to deny_read, or the list itself when reads is listed.",
            },
            Key {
                name: "allow_write",
                kind: Kind::Paths(|s| &mut s.files.allow_write, Sense::Allow),
                default: "",
                tighten: Tighten::No,
                doc: "Paths that can be written, with everything below them.",
            },
            Key {
                name: "deny_write",
                kind: Kind::Paths(|s| &mut s.files.deny_write, Sense::Deny),
                default: "",
                tighten: Tighten::Add,
                doc: "Paths that stay read-only: exceptions to allow_write.",
            },
            Key {
                name: "precedence",
                kind: Kind::Choice(&Words {
                    words: &[("deny-write", Precedence::DenyWrite), ("specific", Precedence::Specific)],
                    slot: |s| &mut s.files.precedence,
                }),
                default: "specific",
                tighten: Tighten::No,
                doc: "Which rule wins: the most specific one, or any deny_write; with deny-write, allow_read also wins a tie with deny_read, and paths that allow_write names show in hidden folders.",
            },
            Key {
                name: "git",
                kind: Kind::Choice(&Words {
                    words: &[
                        ("metadata-read-only", GitLevel::MetadataReadOnly),
                        ("hooks-and-config-read-only", GitLevel::HooksAndConfigReadOnly),
                        ("hooks-read-only", GitLevel::HooksReadOnly),
                        ("off", GitLevel::Off),
                    ],
                    slot: |s| &mut s.files.git,
                }),
                default: "off",
                tighten: Tighten::Stricter,
                doc: "Which parts of git repositories stay read-only in writable folders.",
            },
            Key {
                name: "on_replace",
                kind: Kind::Choice(&Words {
                    words: &[("end", OnReplace::End), ("mend", OnReplace::Mend)],
                    slot: |s| &mut s.files.on_replace,
                }),
                default: "mend",
                tighten: Tighten::Stricter,
                doc: "When the host replaces a denied path during the run: protect the new file, or end the sandbox.",
            },
            Key {
                name: "protect_dotfiles",
                kind: Kind::Bool(|s| &mut s.files.protect_dotfiles),
                default: "false",
                tighten: Tighten::To(true),
                doc: "Keep names that shells, editors and agents obey read-only in writable folders, at every depth.",
            },
            Key {
                name: "refuse_home",
                kind: switch!("files.refuse_home" => files.refuse_home),
                default: "false",
                tighten: Tighten::To(true),
                doc: "Refuse to start if a home folder, or a folder above one, is writable.",
            },
            Key {
                name: "mounts",
                kind: Kind::Mounts(|s| &mut s.files.mounts),
                default: "",
                tighten: Tighten::No,
                doc: "Host paths that appear at a different path inside.",
            },
            Key {
                name: "tmpfs",
                kind: Kind::Tmpfs(|s| &mut s.files.tmpfs),
                default: "",
                tighten: Tighten::No,
                doc: "Fresh, empty, writable, in-memory folders.",
            },
            Key {
                name: "tmp",
                kind: Kind::Choice(&Words {
                    words: &[("private", TmpMode::Private), ("host", TmpMode::Host)],
                    slot: |s| &mut s.files.tmp,
                }),
                default: "private",
                tighten: Tighten::Stricter,
                doc: "Which /tmp the command sees: a fresh one, or the host's under the usual file rules.",
            },
            Key {
                name: "home",
                kind: Kind::Choice(&Words {
                    words: &[("private", HomeMode::Private), ("host", HomeMode::Host)],
                    slot: |s| &mut s.files.home,
                }),
                default: "host",
                tighten: Tighten::Stricter,
                doc: "Which home the command sees: a fresh one that shows what toolchains need, or the host's under the usual file rules.",
            },
            Key {
                name: "caches",
                kind: switch!("files.caches" => files.caches),
                default: "false",
                tighten: Tighten::To(false),
                doc: "Give package managers and compilers writable caches: layers above the host's, kept for each project.",
            },
            Key {
                name: "host_run",
                kind: switch!("files.host_run" => files.host_run),
                default: "false",
                tighten: Tighten::To(false),
                doc: "Whether the host's /run is visible inside; most of the host's daemons listen there.",
            },
            Key {
                name: "system",
                kind: switch!("files.system" => files.system),
                default: "true",
                tighten: Tighten::To(false),
                doc: "When reads is listed: add the minimal system set (/usr, /bin, /lib*, parts of /etc).",
            },
            Key {
                name: "devices",
                kind: Kind::Paths(|s| &mut s.files.devices, Sense::Allow),
                default: "",
                tighten: Tighten::No,
                doc: "Devices from the host's /dev to add to the minimal set, such as /dev/kvm.",
            },
            Key {
                name: "gpus",
                kind: Kind::Gpus(|s| &mut s.files.gpus),
                default: "",
                tighten: Tighten::No,
                doc: "Graphics cards that the command may use: \"all\", a number as nvidia-smi counts, or a maker (nvidia, amd, intel), which may have a number: \"amd:0\". Their devices and their driver's libraries are added.",
            },
        ],
    },
    Section {
        name: "network",
        doc: "Which hosts can be reached.",
        keys: &[
            Key {
                name: "mode",
                kind: Kind::Choice(&Words {
                    words: &[
                        ("none", NetworkMode::None),
                        ("allow-list", NetworkMode::AllowList),
                        ("public", NetworkMode::Public),
                        ("host", NetworkMode::Host),
                    ],
                    slot: |s| &mut s.network.mode,
                }),
                default: "none, or allow-list when allow has entries",
                tighten: Tighten::Stricter,
                doc: "No network except loopback, only the allowed hosts, every public address and the allowed hosts, or the host's network unfiltered.",
            },
            Key {
                name: "allow",
                kind: Kind::HostsAndRequests(|s| &mut s.network.allow, |s| &mut s.network.http),
                default: "",
                tighten: Tighten::No,
                doc: "Hosts that can be reached: names, *.suffixes, addresses, networks; each with or without :port, or as protocol://host:port. With a method in front, such as `GET docs.rs/*`, only such requests.",
            },
            Key {
                name: "allow_registries",
                kind: Kind::Registries(|s| &mut s.network.allow_registries),
                default: "",
                tighten: Tighten::No,
                doc: "Registries whose download hosts can be reached, such as npm and pypi; \"packages\" means all package registries. `kennel registries` lists them.",
            },
            Key {
                name: "deny",
                kind: Kind::Hosts(|s| &mut s.network.deny, ListKind::Deny),
                default: "",
                tighten: Tighten::Add,
                doc: "Hosts that cannot be reached even if allowed; checked before allow.",
            },
            Key {
                name: "terminate",
                kind: Kind::Hosts(|s| &mut s.network.terminate, ListKind::Deny),
                default: "hosts of secrets and of rules with a method",
                tighten: Tighten::No,
                doc: "Allowed hosts whose TLS connections end at the gate, so that it can read them; \"*\" is all of them.",
            },
            Key {
                name: "no_terminate",
                kind: Kind::Hosts(|s| &mut s.network.no_terminate, ListKind::Deny),
                default: "",
                tighten: Tighten::No,
                doc: "Hosts that are never among them, such as those of clients that pin certificates.",
            },
            Key {
                name: "extra_ca",
                kind: Kind::Files(|s| &mut s.network.extra_ca),
                default: "",
                tighten: Tighten::No,
                doc: "PEM files with certificates that servers are verified against, beside the host's, where TLS ends at the gate.",
            },
            Key {
                name: "system_bundles",
                kind: switch!("network.system_bundles" => network.tls.system_bundles),
                default: "false",
                tighten: Tighten::To(false),
                doc: "Show the sandbox's certificate in the system's certificate bundles too, for programs that read no variable.",
            },
            Key {
                name: "ask",
                kind: Kind::Bool(|s| &mut s.network.ask),
                default: "false",
                tighten: Tighten::To(false),
                doc: "Ask on the terminal about hosts that no rule covers.",
            },
            Key {
                name: "ask_timeout",
                kind: Kind::Time(|s| &mut s.network.ask_timeout),
                default: "1m",
                tighten: Tighten::Lower,
                doc: "How long to wait for an answer before refusing the host.",
            },
            Key {
                name: "allow_sni_mismatch",
                kind: switch!("network.allow_sni_mismatch" => network.allow_sni_mismatch),
                default: "false",
                tighten: Tighten::To(false),
                doc: "Let TLS and HTTP name a different host than the one connected to (domain fronting).",
            },
            Key {
                name: "allow_ech",
                kind: switch!("network.allow_ech" => network.allow_ech),
                default: "false",
                tighten: Tighten::To(false),
                doc: "Let TLS clients encrypt the server's name (ECH), as browsers do; kennel then cannot compare it.",
            },
            Key {
                name: "publish",
                kind: Kind::Ports(|s| &mut s.network.publish),
                default: "",
                tighten: Tighten::No,
                doc: "Ports of the sandbox to publish on the host's loopback: PORT, or HOST:INSIDE; host port 0 means any free port.",
            },
            Key {
                name: "parent_proxy",
                kind: Kind::Proxy(|s| &mut s.network.parent_proxy),
                default: "the caller's HTTP_PROXY and HTTPS_PROXY",
                tighten: Tighten::No,
                doc: "The proxy that the gate connects through, such as http://proxy.example.com:3128, or none.",
            },
            Key {
                name: "no_proxy",
                kind: Kind::Text(|s| &mut s.network.no_proxy),
                default: "the caller's NO_PROXY",
                tighten: Tighten::No,
                doc: "Hosts reached without that proxy: a comma-separated list of names (each includes the names below it), addresses and networks, each with or without :port.",
            },
            Key {
                name: "http_proxy_port",
                kind: Kind::Port(|s| &mut s.network.http_proxy_port),
                default: "",
                tighten: Tighten::No,
                doc: "Port of an HTTP proxy on the host's loopback that serves the command instead of kennel's; it decides by its own rules.",
            },
            Key {
                name: "socks_proxy_port",
                kind: Kind::Port(|s| &mut s.network.socks_proxy_port),
                default: "",
                tighten: Tighten::No,
                doc: "The same for SOCKS.",
            },
            Key {
                name: "unix_sockets",
                kind: Kind::Choice(&Words {
                    words: &[
                        ("none", UnixSockets::None),
                        ("listed", UnixSockets::Listed),
                        ("all", UnixSockets::All),
                    ],
                    slot: |s| &mut s.network.unix_sockets,
                }),
                default: "none, or listed when allow_unix_sockets has entries",
                tighten: Tighten::Stricter,
                doc: "Whether the command can create unix sockets, and whether it can connect to the listed ones or to all of the host's daemons (Docker, D-Bus).",
            },
            Key {
                name: "allow_unix_sockets",
                kind: Kind::Paths(|s| &mut s.network.allow_unix_sockets, Sense::Allow),
                default: "",
                tighten: Tighten::No,
                doc: "Unix sockets of the host that the command can connect to, by their paths on the host.",
            },
            Key {
                name: "budget",
                kind: Kind::Traffic(|s| &mut s.network.budget),
                default: "",
                tighten: Tighten::Lower,
                doc: "How many bytes may leave and come in: in total, for a host, and in a second. What cannot be counted is an error.",
            },
        ],
    },
    Section {
        name: "limits",
        doc: "How much of the machine can be used. The word \"unlimited\" removes a limit.",
        keys: &[
            Key {
                name: "memory",
                kind: Kind::Size(|s| &mut s.limits.memory, Zero::Refused),
                default: "",
                tighten: Tighten::Lower,
                doc: "Memory for everything inside together.",
            },
            Key {
                name: "swap",
                kind: Kind::Size(|s| &mut s.limits.swap, Zero::Allowed),
                default: "0 when memory is set",
                tighten: Tighten::Lower,
                doc: "Swap on top of memory.",
            },
            Key {
                name: "cpus",
                kind: Kind::Cpus(|s| &mut s.limits.cpus),
                default: "",
                tighten: Tighten::Lower,
                doc: "CPU time, in CPUs: 1.5 is one and a half.",
            },
            Key {
                name: "timeout",
                kind: Kind::Time(|s| &mut s.limits.timeout),
                default: "",
                tighten: Tighten::Lower,
                doc: "Wall-clock time after which everything inside is killed.",
            },
            Key {
                name: "cpu_time",
                kind: Kind::Time(|s| &mut s.limits.cpu_time),
                default: "",
                tighten: Tighten::Lower,
                doc: "CPU time of each process.",
            },
            Key {
                name: "pids",
                kind: Kind::Count(|s| &mut s.limits.pids),
                default: "",
                tighten: Tighten::Lower,
                doc: "Number of processes and threads at once.",
            },
            Key {
                name: "open_files",
                kind: Kind::Count(|s| &mut s.limits.open_files),
                default: "",
                tighten: Tighten::Lower,
                doc: "Open descriptors of each process; on Linux at most 4096 if not set.",
            },
            Key {
                name: "file_size",
                kind: Kind::Size(|s| &mut s.limits.file_size, Zero::Allowed),
                default: "",
                tighten: Tighten::Lower,
                doc: "Size of the largest file that can be written.",
            },
            Key {
                name: "output",
                kind: Kind::Size(|s| &mut s.limits.output, Zero::Allowed),
                default: "",
                tighten: Tighten::Lower,
                doc: "Captured output of each stream.",
            },
            Key {
                name: "tmp_size",
                kind: Kind::Size(|s| &mut s.limits.tmp_size, Zero::Refused),
                default: "",
                tighten: Tighten::Lower,
                doc: "Size of the private /tmp and /dev/shm together.",
            },
        ],
    },
    Section {
        name: "environment",
        doc: "Which variables the command sees.",
        keys: &[
            Key {
                name: "clear",
                kind: Kind::Bool(|s| &mut s.environment.clear),
                default: "false",
                tighten: Tighten::To(true),
                doc: "Pass on only PATH, HOME, USER, LANG, TERM and similar variables, instead of all.",
            },
            Key {
                name: "pass",
                kind: Kind::Names(|s| &mut s.environment.pass),
                default: "",
                tighten: Tighten::No,
                doc: "Variables passed on even when `clear` is set, or when they look like secrets.",
            },
            Key {
                name: "unset",
                kind: Kind::Names(|s| &mut s.environment.unset),
                default: "",
                tighten: Tighten::Add,
                doc: "Variables never passed on.",
            },
            Key {
                name: "set",
                kind: Kind::Variables(|s| &mut s.environment.set),
                default: "",
                tighten: Tighten::No,
                doc: "Variables to set to a value; these override the others.",
            },
            Key {
                name: "secrets",
                kind: Kind::Choice(&Words {
                    words: &[("withhold", SecretVariables::Withhold), ("pass", SecretVariables::Pass)],
                    slot: |s| &mut s.environment.secrets,
                }),
                default: "withhold with an allow list of hosts, else pass",
                tighten: Tighten::Stricter,
                doc: "Variables that look like secrets: pass them on, or only those that `pass` names. `kennel secrets` lists what they look like.",
            },
            Key {
                name: "secret_names",
                kind: Kind::Names(|s| &mut s.environment.secret_names),
                default: "",
                tighten: Tighten::Add,
                doc: "More names of secrets; `*` stands for anything.",
            },
        ],
    },
    Section {
        name: "process",
        doc: "Who the command is and how it starts.",
        keys: &[
            Key {
                name: "workdir",
                kind: Kind::Folder(|s| &mut s.process.workdir),
                default: "the directory kennel was called in",
                tighten: Tighten::No,
                doc: "The directory the command starts in.",
            },
            Key {
                name: "user",
                kind: Kind::Choice(&Words {
                    words: &[("self", UserMode::Self_), ("root", UserMode::Root)],
                    slot: |s| &mut s.process.user,
                }),
                default: "self",
                tighten: Tighten::Stricter,
                doc: "Who the command is inside: the caller, or a root without capabilities.",
            },
            Key {
                name: "users",
                kind: Kind::Users(|s| &mut s.process.users),
                default: "",
                tighten: Tighten::No,
                doc: "Several users inside, by subordinate ids of the caller's: `name`, `name:uid` or `name:uid:gid`. \
                      The first that is not root is the caller outside.",
            },
            Key {
                name: "run_as",
                kind: Kind::Text(|s| &mut s.process.run_as),
                default: "the first of `users`",
                tighten: Tighten::No,
                doc: "Which of `users` the command starts as.",
            },
            Key {
                name: "hostname",
                kind: Kind::Hostname(|s| &mut s.process.hostname),
                default: "",
                tighten: Tighten::No,
                doc: "The host name inside.",
            },
            Key {
                name: "seccomp",
                kind: Kind::Choice(&Words {
                    words: &[
                        ("strict", SeccompProfile::Strict),
                        ("default", SeccompProfile::Default),
                        ("permissive", SeccompProfile::Permissive),
                        ("none", SeccompProfile::None),
                    ],
                    slot: |s| &mut s.process.seccomp,
                }),
                default: "default",
                tighten: Tighten::Stricter,
                doc: "Which system calls the command can make.",
            },
            Key {
                name: "nested",
                kind: Kind::Bool(|s| &mut s.process.nested),
                default: "false",
                tighten: Tighten::To(false),
                doc: "Let the command create namespaces in its own, as browsers, `bwrap` and other sandboxes do. Not as root.",
            },
        ],
    },
    Section {
        name: "gateway",
        doc: "The way to models for clients that hold no key.",
        keys: &[
            Key {
                name: "NAME",
                kind: Kind::Providers(|s| &mut s.gateway.providers),
                default: "",
                tighten: Tighten::No,
                doc: "A provider of models, as [gateway.NAME]. Clients inside are led to an address that exists only there, and kennel puts the real key in.",
            },
            Key {
                name: "budget",
                kind: Kind::Budget(|s| &mut s.gateway.budget),
                default: "",
                tighten: Tighten::Lower,
                doc: "How much all providers together may be used; then requests fail with the provider's own error for a limit.",
            },
            Key {
                name: "prices",
                kind: Kind::Prices(|s| &mut s.gateway.prices),
                default: "",
                tighten: Tighten::No,
                doc: "What a million tokens cost, by model; a name may end in *.",
            },
            Key {
                name: "log",
                kind: Kind::File(|s| &mut s.gateway.log),
                default: "",
                tighten: Tighten::No,
                doc: "A file that requests are logged to, one line of JSON each.",
            },
            Key {
                name: "log_contents",
                kind: Kind::Bool(|s| &mut s.gateway.log_contents),
                default: "false",
                tighten: Tighten::To(false),
                doc: "Log also what was asked and answered.",
            },
        ],
    },
];

/// What the entries of a list of tables hold.
pub struct Shape {
    /// The one field that a plain string stands for; none if there is no such short form.
    pub short: Option<&'static str>,
    /// Its fields.
    pub fields: &'static [Field],
}

/// One field of an entry.
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: FieldKind,
    /// Whether an entry needs it.
    pub required: bool,
    /// What it means.
    pub doc: &'static str,
}

/// What a field of an entry holds.
#[derive(Clone, Copy)]
pub enum FieldKind {
    /// Text, paths and hosts included.
    Text,
    /// True or false.
    Bool,
    /// Bytes.
    Size,
    /// One of a few words.
    Words(&'static [&'static str]),
    /// A list of texts, paths and hosts included.
    Texts,
    /// A whole number.
    Count,
    /// An amount of money.
    Amount,
    /// A table.
    Table(&'static Shape),
    /// Where a value comes from: a text, or a table with a command.
    Source,
    /// A size, or a list of sizes and `HOST=SIZE`.
    Traffic,
}

/// An entry of a path list.
pub static PATH: Shape = Shape {
    short: Some("path"),
    fields: &[
        Field { name: "path", kind: FieldKind::Text, required: true, doc: "A path or a glob." },
        Field {
            name: "literal",
            kind: FieldKind::Bool,
            required: false,
            doc: "Whether `*`, `?` and `[` are plain characters.",
        },
        Field {
            name: "missing",
            kind: FieldKind::Words(&["skip", "error", "create", "create-file"]),
            required: false,
            doc: "What to do when the path does not exist; in allow_write it can be created, as a folder or a file.",
        },
    ],
};

/// An entry of a domain list.
pub static HOST: Shape = Shape {
    short: Some("host"),
    fields: &[
        Field {
            name: "host",
            kind: FieldKind::Text,
            required: true,
            doc: "A name, *.suffix, address or network, with or without :port; in an allow list also protocol://host:port.",
        },
        Field {
            name: "reason",
            kind: FieldKind::Text,
            required: false,
            doc: "Why, in your own words; the message of a refused connection shows it.",
        },
    ],
};

/// A mount.
pub static MOUNT: Shape = Shape {
    short: None,
    fields: &[
        Field { name: "source", kind: FieldKind::Text, required: true, doc: "The host's path." },
        Field { name: "target", kind: FieldKind::Text, required: true, doc: "Where it appears inside." },
        Field {
            name: "access",
            kind: FieldKind::Words(&["read-only", "read-write"]),
            required: false,
            doc: "Whether it can be written; read-only by default.",
        },
        Field {
            name: "missing",
            kind: FieldKind::Words(&["error", "skip", "create"]),
            required: false,
            doc: "If the source does not exist: refuse to start (the default), leave the mount out, or create a folder, in which places are created for what is mounted in it.",
        },
    ],
};

/// The value of a variable that is not a plain string.
pub static VARIABLE: Shape = Shape {
    short: None,
    fields: &[Field {
        name: "path",
        kind: FieldKind::Text,
        required: true,
        doc: "A path, as in the lists of paths: relative to the same folder, and a leading ~ is the home.",
    }],
};

/// A secret.
pub static SECRET: Shape = Shape {
    short: None,
    fields: &[
        Field {
            name: "from",
            kind: FieldKind::Source,
            required: false,
            doc: "Where the real value comes from: env:NAME, file:PATH, fd:N, command:PROGRAM or keyring:SERVICE/ACCOUNT; by default the first of `files`, else the variable of the secret's name.",
        },
        Field {
            name: "mode",
            kind: FieldKind::Words(&["swap", "inject"]),
            required: false,
            doc: "What the command gets: a stand-in of the same shape, or the real value; swap by default.",
        },
        Field {
            name: "hosts",
            kind: FieldKind::Texts,
            required: false,
            doc: "Hosts that the real value is sent to, and that can be reached for it; known for names such as GITHUB_TOKEN and OPENAI_API_KEY.",
        },
        Field {
            name: "variable",
            kind: FieldKind::Text,
            required: false,
            doc: "The variable that holds it inside; by default the secret's name, and none if there are `files`.",
        },
        Field {
            name: "files",
            kind: FieldKind::Texts,
            required: false,
            doc: "Files that hold it inside, and nothing else.",
        },
        Field {
            name: "whole_files",
            kind: FieldKind::Bool,
            required: false,
            doc: "Show the rest of `files` too, not only the secret's place in them.",
        },
        Field {
            name: "query",
            kind: FieldKind::Bool,
            required: false,
            doc: "Put it into paths and queries of requests too, not only into headers.",
        },
        Field {
            name: "body",
            kind: FieldKind::Bool,
            required: false,
            doc: "Put it into bodies of requests too.",
        },
        Field {
            name: "plaintext",
            kind: FieldKind::Bool,
            required: false,
            doc: "Put it into requests that are not encrypted too.",
        },
        Field {
            name: "other_credentials",
            kind: FieldKind::Bool,
            required: false,
            doc: "Let its hosts take other credentials as well, with which a command could use somebody else's account there.",
        },
    ],
};

/// A provider of models.
pub static PROVIDER: Shape = Shape {
    short: None,
    fields: &[
        Field {
            name: "api",
            kind: FieldKind::Words(&["anthropic", "openai", "gemini", "ollama"]),
            required: false,
            doc: "Which protocol it speaks.",
        },
        Field {
            name: "key",
            kind: FieldKind::Source,
            required: false,
            doc: "Where its real key comes from, as `from` of a secret, or none.",
        },
        Field {
            name: "upstream",
            kind: FieldKind::Text,
            required: false,
            doc: "Where requests go: https://HOST, perhaps with a path, which for openai stands in the place of /v1.",
        },
        Field {
            name: "models",
            kind: FieldKind::Texts,
            required: false,
            doc: "Models that can be used, each perhaps with a * at its end; all by default.",
        },
        Field {
            name: "members",
            kind: FieldKind::Texts,
            required: false,
            doc: "Members of a request's body that are passed on, beside those that its protocol is known to have.",
        },
        Field {
            name: "budget",
            kind: FieldKind::Table(&BUDGET),
            required: false,
            doc: "How much it may be used.",
        },
        Field {
            name: "variables",
            kind: FieldKind::Texts,
            required: false,
            doc: "Variables that lead clients there, beside those of its protocol, such as ANTHROPIC_BASE_URL.",
        },
    ],
};

/// How much may be used.
pub static BUDGET: Shape = Shape {
    short: None,
    fields: &[
        Field {
            name: "requests",
            kind: FieldKind::Count,
            required: false,
            doc: "Requests that were let through.",
        },
        Field { name: "input_tokens", kind: FieldKind::Count, required: false, doc: "Tokens that went in." },
        Field {
            name: "output_tokens",
            kind: FieldKind::Count,
            required: false,
            doc: "Tokens that came out.",
        },
        Field { name: "tokens", kind: FieldKind::Count, required: false, doc: "Both together." },
        Field {
            name: "bytes",
            kind: FieldKind::Size,
            required: false,
            doc: "Bytes of requests and responses.",
        },
        Field {
            name: "cost",
            kind: FieldKind::Amount,
            required: false,
            doc: "What it cost by `prices`, in their unit.",
        },
    ],
};

/// Limits on traffic, in the order of [`crate::traffic::Measure::ALL`].
pub static TRAFFIC: Shape = Shape {
    short: None,
    fields: &[
        Field {
            name: "egress",
            kind: FieldKind::Traffic,
            required: false,
            doc: "Bytes that leave; then connections end and no more are let through.",
        },
        Field { name: "ingress", kind: FieldKind::Traffic, required: false, doc: "Bytes that come in." },
        Field {
            name: "egress_rate",
            kind: FieldKind::Traffic,
            required: false,
            doc: "Bytes that leave in a second; what is faster waits.",
        },
        Field {
            name: "ingress_rate",
            kind: FieldKind::Traffic,
            required: false,
            doc: "Bytes that come in in a second.",
        },
    ],
};

/// What a model costs.
pub static PRICE: Shape = Shape {
    short: None,
    fields: &[
        Field { name: "input", kind: FieldKind::Amount, required: true, doc: "A million tokens that go in." },
        Field {
            name: "output",
            kind: FieldKind::Amount,
            required: true,
            doc: "A million tokens that come out.",
        },
        Field {
            name: "cache_read",
            kind: FieldKind::Amount,
            required: false,
            doc: "A million that are read from the provider's cache; as `input` by default.",
        },
        Field {
            name: "cache_write",
            kind: FieldKind::Amount,
            required: false,
            doc: "A million that are written to it; as `input` by default.",
        },
    ],
};

/// A source that is a program.
pub static COMMAND: Shape = Shape {
    short: None,
    fields: &[Field {
        name: "command",
        kind: FieldKind::Texts,
        required: true,
        doc: "A program and its arguments, started without a shell.",
    }],
};

/// A folder in memory.
pub static TMPFS: Shape = Shape {
    short: Some("target"),
    fields: &[
        Field { name: "target", kind: FieldKind::Text, required: true, doc: "Where it appears inside." },
        Field { name: "size", kind: FieldKind::Size, required: false, doc: "The maximum size." },
        Field {
            name: "missing",
            kind: FieldKind::Words(&["error", "create"]),
            required: false,
            doc: "What to do in a writable folder that has no such folder to mount it on.",
        },
    ],
};
