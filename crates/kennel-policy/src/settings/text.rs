//! One setting from one text: what a flag's value means. The strings of a settings file go the same way.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use super::keys::{self, Choices, Kind, Zero};
use super::{Base, PathEntry, ProviderEntry, SecretEntry, Settings, Stated, provider};
use crate::domain::{HostRule, HostRuleError, ListKind};
use crate::gpu::{GpuChoice, NoGpuChoice};
use crate::http_rule::{HttpRule, HttpRuleError};
use crate::nearest::nearest;
use crate::ostext::{rsplit_once, split_once};
use crate::pattern::PatternError;
use crate::policy::{Missing, MountAccess, MountPoint, Origin, PublishedPort, TmpfsMount};
use crate::printed::show;
use crate::quantity::{self, QuantityError};
use crate::registries::{self, Registry};
use crate::traffic::{Measure, TrafficError, TrafficLimit};
use crate::users::{UserEntry, UserError};

/// The word that takes a limit away.
pub(super) const UNLIMITED: &str = "unlimited";

/// Why a text is no value of a setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// No size, duration or number.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    /// A size or time of zero where zero would leave nothing, or mean no bound.
    #[error("must be greater than 0; leave it out for no limit")]
    Zero,
    /// No host.
    #[error(transparent)]
    Host(#[from] HostRuleError),
    /// No path.
    #[error("`{text}`: {error}")]
    Path {
        /// The path as it was typed.
        text: String,
        /// What is wrong with it.
        error: PatternError,
    },
    /// A string that is not what belongs there.
    #[error("`{text}` must be {expected}")]
    Unfit {
        /// What was written.
        text: String,
        /// What belongs there.
        expected: String,
    },
    /// A deny that matches nothing.
    #[error("`{0}` ends in a slash, so as a pattern it can match no path; write it without the slash")]
    InertGlob(String),
    /// A `~` and no home.
    #[error("`~` means the home folder, but neither HOME nor the user database says where it is")]
    NoHome,
    /// `~someone`
    #[error(
        "`{0}`: only `~` and `~/…` are supported; write another user's home in full, or `./~…` for such a name"
    )]
    OtherHome(String),
    /// `$NAME`
    #[error(
        "`{text}`: kennel expands `$HOME` at the start and no other variable; write out the value of `{name}`, or \
         `[$]` for the character itself"
    )]
    NotExpanded {
        /// The path as it was typed.
        text: String,
        /// The part that was to be expanded.
        name: String,
    },
    /// A blank before what looks like the start.
    #[error("`{0}` starts with a blank; drop it, or write `[ ]` if it is part of the name")]
    Blank(String),
    /// A place inside the sandbox that is not absolute, or goes up.
    #[error("`{0}` is not a path inside the sandbox; write an absolute path without `..`")]
    Target(String),
    /// None of the words.
    #[error("`{text}` is not one of {words}{}", hint.map(|word| format!("; did you mean `{word}`?")).unwrap_or_default())]
    Word {
        /// What was said.
        text: String,
        /// What can be.
        words: String,
        /// What was probably meant.
        hint: Option<&'static str>,
    },
    /// No graphics card.
    #[error("`{text}` names no graphics card: {error}")]
    Gpu {
        /// What was said.
        text: String,
        /// What can be said.
        error: NoGpuChoice,
    },
    /// No registry.
    #[error(
        "there is no registry `{text}`; {}",
        hint.map_or_else(|| "`kennel registries` lists them".to_owned(), |near| format!("did you mean `{near}`?"))
    )]
    Registry {
        /// What was said.
        text: String,
        /// What was probably meant.
        hint: Option<&'static str>,
    },
    /// Bytes where text belongs.
    #[error("`{0}` is not UTF-8 text")]
    NotText(String),
    /// Not `SOURCE:TARGET`.
    #[error("`{0}` is not a mount; write SOURCE:TARGET, or SOURCE:TARGET:rw to make it writable")]
    Mount(String),
    /// Not `NAME=VALUE`.
    #[error("`{0}` is not a variable; write NAME=VALUE")]
    Variable(String),
    /// No name of a variable.
    #[error("`{0}` is not a variable's name; it cannot be empty or contain `=` or NUL")]
    Name(String),
    /// No host name.
    #[error("`{0}` is not a host name; write at most 64 letters, digits, `-` and `.`")]
    Hostname(String),
    /// No port.
    #[error("`{0}` is not a port; write a number from 1 to 65535")]
    Port(String),
    /// Not `HOST:INSIDE`.
    #[error(
        "`{0}` is not a port to publish; write PORT, or HOST:INSIDE, both from 1 to 65535 (HOST may be 0); \
         ports are published on this host's loopback and on no other address"
    )]
    Publish(String),
    /// No user.
    #[error(transparent)]
    User(#[from] UserError),
    /// No setting.
    #[error("there is no setting `{key}`{}", hint.as_ref().map(|hint| format!("; did you mean `{hint}`?")).unwrap_or_default())]
    Key {
        /// What was said.
        key: String,
        /// What was probably meant.
        hint: Option<String>,
    },
    /// No name of a profile.
    #[error(
        "`{0}` is not a profile's name; write letters, digits, `-`, `_` and `.`, at most 64, and no `.` first"
    )]
    Profile(String),
    /// `missing = "create"` where nothing can be created.
    #[error("only a path in `files.allow_write` that is not a glob can be created")]
    NotCreated,
    /// No name of a secret.
    #[error("`{0}` is not a secret's name; write letters, digits, `-`, `_` and `.`, at most 64")]
    SecretName(String),
    /// No source of a secret; perhaps the secret.
    #[error(
        "write where the value comes from, as env:NAME, file:PATH, fd:N, command:PROGRAM or keyring:SERVICE/ACCOUNT{}; \
         what was written is not shown, since it may be the value itself",
        hint.map(|scheme| format!(" (did you mean `{scheme}:`?)")).unwrap_or_default()
    )]
    SecretSource {
        /// What was probably meant.
        hint: Option<&'static str>,
    },
    /// A program with what only a shell understands.
    #[error(
        "the program is started without a shell: write its name and its arguments, with blanks between them, or as a \
         list in a settings file: from = {{ command = [\"PROGRAM\", \"ARGUMENT\"] }}"
    )]
    SecretCommand,
    /// A descriptor that cannot hold a secret.
    #[error("`fd:{0}`: write the number of a descriptor that was opened for this, 0 or above 2")]
    SecretFd(String),
    /// A host of a secret that speaks something else.
    #[error("`{0}`: a secret is sent by HTTP; write the host without a protocol")]
    SecretHost(String),
    /// A host of a secret that is an address.
    #[error("`{0}`: a secret is bound to names; write the host's name")]
    SecretAddress(String),
    /// No name of a provider.
    #[error("`{0}` is not a provider's name; write letters, digits, `-`, `_` and `.`, at most 64")]
    Provider(String),
    /// No address of a provider.
    #[error(
        "`{0}` is not an address of a provider; write it like https://api.example.com, without a login or a query"
    )]
    Upstream(String),
    /// No name of a model.
    #[error("`{0}` is not a model's name; write it as requests name it, or with a `*` at its end")]
    Model(String),
    /// No name of a member.
    #[error("{0} is not the name of a member\nhelp: write it as it stands in the body, such as `session_id`")]
    Member(String),
    /// No limit.
    #[error(
        "`{0}` is not a limit; write requests=10, tokens=1000000 or cost=2.5, with commas between several"
    )]
    Budget(String),
    /// No limit on traffic.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// No price.
    #[error("`{0}` is not a price; write MODEL=INPUT/OUTPUT, each for a million tokens")]
    Price(String),
    /// No rule about requests.
    #[error(transparent)]
    HttpRule(#[from] HttpRuleError),
    /// A descriptor that is there anyway, or no number.
    #[error("`{0}` is not a descriptor to keep; write a number above 2")]
    Descriptor(String),
}

impl ValueError {
    pub(super) fn path(text: &OsStr, error: PatternError) -> Self {
        ValueError::Path { text: text.to_string_lossy().into_owned(), error }
    }
}

impl Settings {
    /// Adds a descriptor that stays open.
    pub fn keep_fd(&mut self, text: &OsStr) -> Result<(), ValueError> {
        let bad = || ValueError::Descriptor(text.to_string_lossy().into_owned());
        let number =
            text.to_str().and_then(|text| quantity::count(text, 3, i32::MAX as u32).ok()).ok_or_else(bad)?;
        self.process.keep_fds.push(number);
        Ok(())
    }

    /// Says the setting with this full name, such as `limits.memory`, as [`Kind::state`] does.
    pub fn say(&mut self, key: &str, text: &OsStr, base: &Base, origin: Origin) -> Result<(), ValueError> {
        match keys::find(key) {
            Some(key) => key.kind.state(self, text, base, origin),
            None => {
                let names: Vec<String> = keys::all().map(|(name, _)| name).collect();
                let hint = nearest(key, names.iter().map(String::as_str)).map(str::to_owned);
                Err(ValueError::Key { key: show(key.as_bytes()), hint })
            }
        }
    }

    /// Adds a host path that appears at another place.
    pub fn add_mount(
        &mut self,
        source: &OsStr,
        inside: &OsStr,
        access: MountAccess,
        base: &Base,
        origin: Origin,
    ) -> Result<(), ValueError> {
        let (source, target) = (base.path(source)?, target(inside, base)?);
        self.files.mounts.push(MountPoint { source, target, access, missing: Missing::Error, origin });
        Ok(())
    }

    /// Adds a folder that lives in memory.
    pub fn add_tmpfs(
        &mut self,
        inside: &OsStr,
        size: Option<u64>,
        base: &Base,
        origin: Origin,
    ) -> Result<(), ValueError> {
        let size = size.map(|bytes| not_zero(bytes, Zero::Refused)).transpose()?;
        self.files.tmpfs.push(TmpfsMount { target: target(inside, base)?, size, create: false, origin });
        Ok(())
    }

    /// Sets a variable.
    pub fn set_variable(&mut self, name: &OsStr, value: &OsStr, origin: Origin) -> Result<(), ValueError> {
        self.environment.set.push(Stated { value: variable(name, value)?, origin });
        Ok(())
    }
}

impl Kind {
    /// Says the setting with this text as its value: sets a single value, adds to a list.
    pub fn state(
        &self,
        settings: &mut Settings,
        text: &OsStr,
        base: &Base,
        origin: Origin,
    ) -> Result<(), ValueError> {
        match self {
            Kind::Bool(slot) => {
                let value = word(utf8(text)?, &["false", "true"])? == 1;
                *slot(settings) = Some(Stated { value, origin });
            }
            Kind::Switch(switch) => {
                let value = word(utf8(text)?, &["false", "true"])? == 1;
                switch.state(settings, Stated { value, origin });
            }
            Kind::Lists(list) => {
                for word in utf8(text)?.split(',') {
                    let value = keys::lists()[self::word(word, keys::lists())?];
                    list(settings).push(Stated { value, origin: origin.clone() });
                }
            }
            Kind::Profiles(list) => {
                let value = profile_name(utf8(text)?)?.to_owned();
                list(settings).push(Stated { value, origin });
            }
            Kind::Hostname(slot) => *slot(settings) = Some(Stated { value: hostname(utf8(text)?)?, origin }),
            Kind::Folder(slot) => *slot(settings) = Some(Stated { value: base.path(text)?, origin }),
            Kind::Choice(choices) => {
                let index = choose(*choices, utf8(text)?)?;
                choices.state(settings, index, origin);
            }
            Kind::Size(slot, zero) => {
                let value = limit(text, |text| size(text, *zero))?;
                *slot(settings) = Some(Stated { value, origin });
            }
            Kind::Time(slot) => {
                let value = limit(text, |text| match quantity::duration(text)? {
                    zero if zero.is_zero() => Err(ValueError::Zero),
                    time => Ok(time),
                })?;
                *slot(settings) = Some(Stated { value, origin });
            }
            Kind::Cpus(slot) => {
                let value = limit(text, |text| Ok(quantity::cpus(text)?))?;
                *slot(settings) = Some(Stated { value, origin });
            }
            Kind::Count(slot) => {
                // The kernel's largest pid, which is above what any of these can be.
                let value = limit(text, |text| Ok(quantity::count(text, 1, 1 << 22)?))?;
                *slot(settings) = Some(Stated { value, origin });
            }
            Kind::Paths(list, sense) => {
                let entry = |pattern| PathEntry { pattern, missing: None, origin: origin.clone() };
                list(settings).extend(base.patterns(text, *sense)?.into_iter().map(entry));
            }
            Kind::Hosts(list, kind) => list(settings).push(host(utf8(text)?, *kind, origin)?),
            Kind::HostsAndRequests(hosts, requests) => match utf8(text)? {
                text if HttpRule::is_one(text) => requests(settings).push(request(text, origin)?),
                text => hosts(settings).push(host(text, ListKind::Allow, origin)?),
            },
            Kind::Gpus(list) => {
                for word in utf8(text)?.split(',') {
                    list(settings).push(Stated { value: gpu(word)?, origin: origin.clone() });
                }
            }
            Kind::Registries(list) => {
                for word in utf8(text)?.split(',') {
                    let stated = |value| Stated { value, origin: origin.clone() };
                    list(settings).extend(registry(word)?.into_iter().map(stated));
                }
            }
            Kind::File(slot) => *slot(settings) = Some(Stated { value: base.path(text)?, origin }),
            Kind::Providers(list) => {
                for name in utf8(text)?.split(',') {
                    ProviderEntry::put(list(settings), ProviderEntry::named(name, origin.clone())?);
                }
            }
            Kind::Budget(slot) => {
                *slot(settings) = Some(Stated { value: provider::budget(text)?, origin });
            }
            Kind::Prices(list) => list(settings).push(Stated { value: provider::price(text)?, origin }),
            Kind::Files(list) => list(settings).push(Stated { value: base.path(text)?, origin }),
            Kind::Secrets(list) => {
                let entry = SecretEntry::parse(text, base, origin)?;
                SecretEntry::put(list(settings), entry);
            }
            Kind::Mounts(list) => list(settings).push(mount(text, base, origin)?),
            Kind::Tmpfs(list) => {
                let (path, bytes) = match rsplit_once(text, b':') {
                    Some((path, bytes)) => (path, Some(size(utf8(bytes)?, Zero::Refused)?)),
                    None => (text, None),
                };
                let target = target(path, base)?;
                list(settings).push(TmpfsMount { target, size: bytes, create: false, origin });
            }
            Kind::Names(list) => list(settings).push(Stated { value: name(text)?, origin }),
            Kind::Variables(list) => {
                let bad = || ValueError::Variable(text.to_string_lossy().into_owned());
                let (name, value) = split_once(text, b'=').ok_or_else(bad)?;
                list(settings).push(Stated { value: variable(name, value)?, origin });
            }
            Kind::Text(slot) => *slot(settings) = Some(Stated { value: utf8(text)?.to_owned(), origin }),
            Kind::Proxy(slot) => *slot(settings) = Some(Stated { value: utf8(text)?.into(), origin }),
            Kind::Port(slot) => {
                let value = port(utf8(text)?)?;
                *slot(settings) = Some(Stated { value, origin });
            }
            Kind::Ports(list) => list(settings).push(published(utf8(text)?, origin)?),
            Kind::Traffic(list) => {
                let limit = traffic(utf8(text)?)?;
                TrafficLimit::add(list(settings), TrafficLimit { origin, ..limit })?;
            }
            Kind::Users(list) => {
                for one in utf8(text)?.split(',') {
                    list(settings).push(UserEntry::parse(one, origin.clone())?);
                }
            }
        }
        Ok(())
    }
}

pub(super) fn utf8(text: &OsStr) -> Result<&str, ValueError> {
    text.to_str().ok_or_else(|| ValueError::NotText(text.to_string_lossy().into_owned()))
}

/// The graphics cards that a word means.
pub(super) fn gpu(text: &str) -> Result<GpuChoice, ValueError> {
    text.parse().map_err(|error| ValueError::Gpu { text: show(text.as_bytes()), error })
}

/// Reads `MEASURE=SIZE` or `MEASURE=HOST=SIZE`.
fn traffic(text: &str) -> Result<TrafficLimit, ValueError> {
    let (measure, limit) = text.split_once('=').unwrap_or((text, ""));
    let index = word(measure, &Measure::ALL.map(Measure::key))?;
    Ok(TrafficLimit::parse(Measure::ALL[index], limit)?)
}

/// The registries that a word means.
pub(super) fn registry(text: &str) -> Result<Vec<&'static Registry>, ValueError> {
    let meant = registries::named(text);
    if meant.is_empty() {
        return Err(ValueError::Registry {
            text: show(text.as_bytes()),
            hint: nearest(text, registries::words()),
        });
    }
    Ok(meant)
}

/// The index of a word.
pub(super) fn word(text: &str, words: &[&'static str]) -> Result<usize, ValueError> {
    words.iter().position(|word| *word == text).ok_or_else(|| ValueError::Word {
        text: show(text.as_bytes()),
        words: words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        hint: nearest(text, words.iter().copied()),
    })
}

pub(super) fn choose(choices: &dyn Choices, text: &str) -> Result<usize, ValueError> {
    word(text, &choices.words())
}

fn limit<T>(text: &OsStr, read: impl Fn(&str) -> Result<T, ValueError>) -> Result<Option<T>, ValueError> {
    let text = utf8(text)?;
    if text == UNLIMITED { Ok(None) } else { read(text).map(Some) }
}

pub(super) fn size(text: &str, zero: Zero) -> Result<u64, ValueError> {
    not_zero(quantity::size(text)?, zero)
}

fn not_zero(bytes: u64, zero: Zero) -> Result<u64, ValueError> {
    if bytes == 0 && zero == Zero::Refused { Err(ValueError::Zero) } else { Ok(bytes) }
}

pub(super) fn host(text: &str, kind: ListKind, origin: Origin) -> Result<HostRule, ValueError> {
    Ok(HostRule::parse(text, kind)?.from_origin(origin))
}

pub(super) fn request(text: &str, origin: Origin) -> Result<HttpRule, ValueError> {
    Ok(HttpRule::parse(text)?.with_origin(origin))
}

fn mount(text: &OsStr, base: &Base, origin: Origin) -> Result<MountPoint, ValueError> {
    let bad = || ValueError::Mount(text.to_string_lossy().into_owned());
    let (paths, access) = match rsplit_once(text, b':') {
        Some((paths, access)) if access == "rw" => (paths, MountAccess::ReadWrite),
        Some((paths, access)) if access == "ro" => (paths, MountAccess::ReadOnly),
        _ => (text, MountAccess::ReadOnly),
    };
    let (source, inside) = split_once(paths, b':').ok_or_else(bad)?;
    // A path with a colon could be split in two ways; a settings file can say which.
    if source.is_empty() || inside.is_empty() || inside.as_encoded_bytes().contains(&b':') {
        return Err(bad());
    }
    let (source, target) = (base.path(source)?, target(inside, base)?);
    Ok(MountPoint { source, target, access, missing: Missing::Error, origin })
}

/// A place inside the sandbox. There `..` has no meaning yet, since nothing is mounted.
pub(super) fn target(text: &OsStr, base: &Base) -> Result<PathBuf, ValueError> {
    let starts = text.as_encoded_bytes().first();
    let path = base.path(text)?;
    let goes_up = path.components().any(|part| part == std::path::Component::ParentDir);
    if goes_up || !matches!(starts, Some(b'/' | b'~')) {
        return Err(ValueError::Target(text.to_string_lossy().into_owned()));
    }
    Ok(path)
}

/// The name of a variable.
pub fn name(text: &OsStr) -> Result<OsString, ValueError> {
    if text.is_empty() || text.as_encoded_bytes().iter().any(|byte| matches!(byte, b'=' | 0)) {
        return Err(ValueError::Name(show(text.as_encoded_bytes())));
    }
    Ok(text.to_owned())
}

/// A variable and its value.
pub fn variable(key: &OsStr, value: &OsStr) -> Result<(OsString, OsString), ValueError> {
    let key = name(key)?;
    if value.as_encoded_bytes().contains(&0) {
        // The value may be a secret, so it is not shown.
        return Err(ValueError::Variable(format!("{}=…", key.to_string_lossy())));
    }
    Ok((key, value.to_owned()))
}

pub(super) fn port(text: &str) -> Result<u16, ValueError> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let port = text.parse().ok().filter(|port| digits && *port != 0);
    port.ok_or_else(|| ValueError::Port(show(text.as_bytes())))
}

pub(super) fn published(text: &str, origin: Origin) -> Result<PublishedPort, ValueError> {
    let bad = |_| ValueError::Publish(show(text.as_bytes()));
    let (host, inside) = match text.split_once(':') {
        Some(("0", inside)) => (0, port(inside).map_err(bad)?),
        Some((host, inside)) => (port(host).map_err(bad)?, port(inside).map_err(bad)?),
        None => (port(text).map_err(bad)?, port(text).map_err(bad)?),
    };
    Ok(PublishedPort { host, inside, origin })
}

/// The name of a profile, which is a file's name without its extension: it leads to no other folder.
///
/// ```
/// use kennel_policy::settings::profile_name;
/// assert!(profile_name("claude-2.1").is_ok());
/// assert!(profile_name("../../project/kennel").is_err());
/// ```
///
/// # Errors
/// When it is none.
pub fn profile_name(text: &str) -> Result<&str, ValueError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let valid = (1..=64).contains(&text.len()) && !text.starts_with('.') && text.bytes().all(plain);
    if valid { Ok(text) } else { Err(ValueError::Profile(show(text.as_bytes()))) }
}

pub(super) fn hostname(text: &str) -> Result<String, ValueError> {
    // 64 bytes is the kernel's __NEW_UTS_LEN.
    let valid = (1..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'));
    if valid { Ok(text.to_owned()) } else { Err(ValueError::Hostname(show(text.as_bytes()))) }
}
