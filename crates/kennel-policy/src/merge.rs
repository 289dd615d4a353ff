//! Several sources, one [`Policy`].
//!
//! From weakest to strongest: kennel's defaults, the profile and what it builds on, the user's settings file, each `--settings` file in
//! order, the flags. A single value of a stronger source replaces that of a weaker one; lists grow.
//!
//! A settings file that was merely *found*, in the working directory, comes from whoever wrote that directory, which
//! may be the very code that is to be confined. It is applied last and can only tighten; what would loosen is left
//! out and noted.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fmt;
use std::path::Path;

use crate::domain::HostRule;
use crate::dotfiles;
use crate::gateway::GatewayPolicy;
use crate::gpu::GpuRule;
use crate::http_rule::HttpRule;
use crate::policy::{
    EnvironmentBase, EnvironmentPolicy, FilePolicy, GitLevel, HomeMode, KeptIn, KeptNames, Limits, Missing,
    NestedNamespaces, NetworkMode, NetworkPolicy, NoNetwork, Origin, OtherNames, PathRule, Policy,
    ProcessPolicy, PublishedPort, Reach, ReadModel, RootFs, RootFsWrite, SearchScope, SeccompProfile,
    SecretVariables, TmpMode, UnixSockets, UserMode,
};
use crate::profiles::{NoOwnProfiles, OwnProfiles};
use crate::registries::{NoMirrors, Registry, UserMirrors};
use crate::secret_variables::is_like;
use crate::secrets::{SecretMode, SecretRule, TlsPolicy};
use crate::settings::keys;
use crate::settings::{Base, NetworkSettings, PathEntry, Settings, SettingsError, Stated};
use crate::traffic::TrafficLimit;
use crate::users::{self, User};

mod check;
mod gateway;
mod profile;
mod registries;
mod secrets;
mod tighten;

pub use check::{Contradiction, check};
pub use gateway::GatewayError;
pub use secrets::{SecretError, SecretProblem};

/// Everything that was said, by whom.
#[derive(Clone, Debug, PartialEq)]
pub struct Sources {
    /// The caller's working directory and home, for the profile's relative paths.
    pub base: Base,
    /// The user's own settings file.
    pub user: Option<Settings>,
    /// The files given by `--settings`, in order.
    pub files: Vec<Settings>,
    /// What the flags say.
    pub flags: Settings,
    /// The settings files found in the working directory and above, which nobody vouched for.
    pub project: Vec<Settings>,
}

impl Sources {
    /// Nothing but flags.
    #[must_use]
    pub fn flags(base: Base, flags: Settings) -> Self {
        Sources { base, user: None, files: Vec::new(), flags, project: Vec::new() }
    }
}

/// A policy, and what was left out on the way to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Merged {
    /// The policy.
    pub policy: Policy,
    /// The profiles that it builds on: the last one named, and before it what that builds on, and so back to the first.
    pub profiles: Vec<String>,
    /// Settings of the file found in the working directory that were not applied.
    pub notes: Vec<Note>,
    /// The lists that started anew, and where.
    pub only: Vec<Stated<&'static str>>,
    /// Who said that there is no network, if somebody did.
    pub without_network: Option<WithoutNetwork>,
}

/// Who said that there is no network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WithoutNetwork {
    /// Where.
    pub origin: Origin,
    /// Whether that is the file found in the working directory, which no flag overrules.
    pub found: bool,
}

/// A setting of a file found in the working directory that was not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Where it said so.
    pub origin: Origin,
    /// The setting.
    pub key: String,
    /// The file. Whoever names it trusts it.
    pub file: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Note { origin, key, .. } = self;
        write!(
            f,
            "{origin}: {key} is not applied: a settings file found in the working directory may only tighten"
        )
    }
}

/// Why sources contradict each other.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MergeError {
    /// No such profile.
    #[error(
        "{origin}: there is no profile `{name}`; {}",
        hint.as_ref().map_or_else(|| format!("the profiles are {}", names.join(", ")), |near| format!("did you mean `{near}`?"))
    )]
    UnknownProfile {
        /// Its name.
        name: String,
        /// Who asked for it.
        origin: Origin,
        /// The profile that was probably meant.
        hint: Option<String>,
        /// The profiles that there are.
        names: Vec<String>,
    },
    /// A profile that builds on itself.
    #[error("{origin}: this profile builds on itself: {}", names.join(" -> "))]
    ProfileCycle {
        /// Where the last one names the first.
        origin: Origin,
        /// The profiles, each of which builds on the next.
        names: Vec<String>,
    },
    /// Two profiles of which neither builds on the other, and that do not fit together.
    #[error(
        "{key}: the profiles contradict each other ({one}; {other}); set {key} yourself, or use one of them"
    )]
    ProfilesDiffer {
        /// The setting, or two of them.
        key: String,
        /// Where one of them says so.
        one: Origin,
        /// Where the other says otherwise.
        other: Origin,
    },
    /// A profile of the user's that could not be read.
    #[error("reading a profile: {0}")]
    OwnProfile(String),
    /// A profile that does not read, such as for want of a home.
    #[error(transparent)]
    Profile(#[from] SettingsError),
    /// Hosts are listed where the mode leaves nothing to choose.
    #[error(transparent)]
    Ungated(Box<Ungated>),
    /// Unix sockets are listed where the mode leaves nothing to choose.
    #[error(
        "network.allow_unix_sockets `{}` ({}) cannot be used with unix_sockets `{mode}` ({mode_origin}); \
         use `listed` to allow only listed sockets",
        entry.pattern, entry.origin
    )]
    Unlisted {
        /// The first entry.
        entry: Box<PathEntry>,
        /// The mode.
        mode: &'static str,
        /// Where the mode was set.
        mode_origin: Origin,
    },
    /// A port is to be published where it already is.
    #[error(
        "network.publish `{port}` ({}) cannot be used with network mode `host` ({mode_origin}); \
         a server inside already listens on the host's network",
        port.origin
    )]
    PublishedByHost {
        /// The port.
        port: PublishedPort,
        /// Where the mode was set.
        mode_origin: Origin,
    },
    /// Namespaces are to be created where the filter denies them.
    #[error(
        "process.nested ({origin}) cannot be used with seccomp `strict` ({seccomp_origin}), which denies new namespaces"
    )]
    NestedStrict {
        /// Where it was set.
        origin: Origin,
        /// Where the profile was set.
        seccomp_origin: Origin,
    },
    /// Two users with one number.
    #[error("process.users: `{}` and `{}` have the same number, {}; write NAME:UID to choose another", .0.one, .0.other, .0.uid)]
    SameUser(users::SameNumber),
    /// The command is to start as somebody who is not there.
    #[error("process.run_as ({origin}): `{name}` is not one of `process.users`{}", if known.is_empty() { String::new() } else { format!(": {}", known.join(", ")) })]
    RunAs {
        /// Who.
        name: String,
        /// Where it was set.
        origin: Origin,
        /// Who is there.
        known: Vec<String>,
    },
    /// Several users with something that means only one.
    #[error("process.users ({origin}) cannot be used with {other} ({other_origin}); {why}")]
    UsersWith {
        /// Where the users were set.
        origin: Origin,
        /// The other setting.
        other: &'static str,
        /// Where that was set.
        other_origin: Origin,
        /// Why not.
        why: &'static str,
    },
    /// Rules about requests to a host whose requests are not read.
    #[error(
        "network.allow `{rule}` ({origin}) cannot be used with network.no_terminate `{excluded}` ({excluded_origin}): \
         requests are not compared where TLS does not end at the gate"
    )]
    RequestsNotRead {
        /// The rule.
        rule: String,
        /// Where it was set.
        origin: Origin,
        /// The host.
        excluded: String,
        /// Where that was set.
        excluded_origin: Origin,
    },
    /// A secret that cannot be used so.
    #[error(transparent)]
    Secret(Box<SecretError>),
    /// A gateway that there cannot be.
    #[error(transparent)]
    Gateway(Box<GatewayError>),
    /// What no policy can ask for together.
    #[error(transparent)]
    Contradiction(#[from] Contradiction),
    /// Swap is what comes on top of a bound on memory.
    #[error("limits.swap ({origin}) requires limits.memory")]
    SwapAlone {
        /// Where it was set.
        origin: Origin,
    },
}

/// A rule about hosts, and a network mode under which nothing asks about hosts.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "{list} `{rule}` ({origin}) cannot be used with network mode `{mode}` ({mode_origin}); \
     use mode `allow-list` to allow only listed hosts"
)]
pub struct Ungated {
    /// The list's key.
    pub list: &'static str,
    /// Its first entry.
    pub rule: String,
    /// Where that was set.
    pub origin: Origin,
    /// The mode.
    pub mode: &'static str,
    /// Where the mode was set.
    pub mode_origin: Origin,
}

/// Puts the sources together, with the built-in profiles.
pub fn merge(sources: Sources) -> Result<Merged, MergeError> {
    merge_with(sources, &NoOwnProfiles, &NoMirrors)
}

/// Puts the sources together, with the user's own profiles and the built-in ones, and the mirrors of registries that the user has.
pub fn merge_with(
    sources: Sources,
    own: &dyn OwnProfiles,
    mirrors: &dyn UserMirrors,
) -> Result<Merged, MergeError> {
    let Sources { base, user, files, flags, project } = sources;
    let mut said = Settings::default();
    for source in user.into_iter().chain(files).chain([flags]) {
        overlay(&mut said, source);
    }

    let mut whole = defaults();
    let start = said.process.workdir.as_ref().map_or(base.folder.clone(), |stated| stated.value.clone());
    let mut profiles = Vec::new();
    let named = std::mem::take(&mut said.profiles);
    if !named.is_empty() {
        let (mut profile, names) = profile::profiles(named, &base.in_folder(start), own, &said)?;
        profiles = names;
        // A network mode that somebody asks for replaces that of the profile, and the hosts with it.
        if said.network.mode.as_ref().is_some_and(|mode| !mode.value.is_gated()) {
            profile.network.allow.clear();
            profile.network.allow_registries.clear();
            profile.network.http.clear();
            profile.network.terminate.clear();
        }
        overlay(&mut whole, profile);
    }
    let by_caller = [
        said.files.deny_read.len(),
        said.files.allow_read.len(),
        said.files.allow_write.len(),
        said.files.deny_write.len(),
    ];
    overlay(&mut whole, said);
    let of_profile = OfProfile::before(&whole, by_caller);
    settle_network(&mut whole)?;
    registries::settle(&mut whole, mirrors);
    settle_sockets(&mut whole)?;
    let secrets = secrets::settle(&mut whole).map_err(|error| MergeError::Secret(Box::new(error)))?;
    let gateway = gateway::settle(&mut whole, &secrets);
    let gateway = gateway.map_err(|error| MergeError::Gateway(Box::new(error)))?;

    let unsaid = whole.environment.secrets.is_none();
    if unsaid {
        settle_secrets(&mut whole, &gateway);
    }

    let by_project = project.iter().filter_map(|project| project.network.mode.as_ref());
    let by_project =
        by_project.filter(|mode| mode.value == NetworkMode::None).map(|mode| mode.origin.clone()).next();
    let mut notes = Vec::new();
    for project in project {
        notes.extend(tighten::tighten(&mut whole, project));
    }
    let mode = whole.network.mode.as_ref().filter(|mode| mode.value == NetworkMode::None);
    let without_network = match (mode, by_project) {
        (Some(_), Some(origin)) => Some(WithoutNetwork { origin, found: true }),
        (Some(mode), None) if mode.origin.0 != "default" => {
            Some(WithoutNetwork { origin: mode.origin.clone(), found: false })
        }
        _ => None,
    };
    let no_network = mode.is_some();
    if no_network {
        whole.network.allow.clear();
        whole.network.http.clear();
        whole.network.terminate.clear();
    }
    if whole.network.unix_sockets.as_ref().is_some_and(|mode| mode.value == UnixSockets::None) {
        whole.network.allow_unix_sockets.clear();
    }
    if unsaid {
        settle_secrets(&mut whole, &gateway);
    }
    check_network(&whole)?;
    check_requests(&whole)?;
    check_swap(&whole)?;
    check_nested(&whole)?;
    let users = check_users(&mut whole)?;
    let only = std::mem::take(&mut whole.only);
    let mut policy = policy(whole, users, secrets, gateway);
    of_profile.mark(&mut policy.files);
    check(&policy)?;
    Ok(Merged { policy, profiles, notes, only, without_network })
}

/// How many of the first entries of each list of paths a profile says.
struct OfProfile([usize; 4]);

impl OfProfile {
    /// All but as many as the caller's sources said, which come last.
    fn before(settings: &Settings, by_caller: [usize; 4]) -> OfProfile {
        let files = &settings.files;
        let lists = [&files.deny_read, &files.allow_read, &files.allow_write, &files.deny_write];
        let mut count = by_caller.into_iter();
        OfProfile(lists.map(|list| list.len().saturating_sub(count.next().unwrap_or(0))))
    }

    fn mark(&self, files: &mut FilePolicy) {
        let lists =
            [&mut files.deny_read, &mut files.allow_read, &mut files.allow_write, &mut files.deny_write];
        for (list, count) in lists.into_iter().zip(self.0) {
            list.iter_mut().take(count).for_each(|rule| rule.of_profile = true);
        }
    }
}

/// Lays what a stronger source says over the rest.
fn overlay(under: &mut Settings, mut over: Settings) {
    // Of a list that starts anew in the stronger one nothing is left.
    for list in &over.only {
        if let Some(key) = keys::find(list.value) {
            key.kind.store(|store| store.clear(under));
        }
    }
    // Of a variable that one source passes and another takes away or calls a secret, the stronger one is heard.
    let (under_names, over_names) = (&mut under.environment, &over.environment);
    under_names.unset.retain(|name| over_names.pass.iter().all(|pass| pass.value != name.value));
    under_names.pass.retain(|name| {
        let is_secret = |secret: &Stated<OsString>| is_like(&secret.value, &name.value);
        over_names.unset.iter().all(|unset| unset.value != name.value)
            && !over_names.secret_names.iter().any(is_secret)
    });
    // So too of a path that one source hides or keeps, and another shows or opens.
    let lists = [
        (&mut under.files.deny_read, &over.files.allow_read),
        (&mut under.files.deny_write, &over.files.allow_write),
    ];
    for (denied, allowed) in lists {
        if denied.is_empty() || allowed.is_empty() {
            continue;
        }
        let allowed = allowed.iter().map(|allow| (allow.pattern.as_path(), allow.pattern.is_glob()));
        let allowed: HashSet<(&Path, bool)> = allowed.collect();
        denied.retain(|deny| !allowed.contains(&(deny.pattern.as_path(), deny.pattern.is_glob())));
    }
    for key in keys::SECTIONS.iter().flat_map(|section| section.keys) {
        key.kind.store(|store| store.overlay(under, &mut over));
    }
    under.process.keep_fds.append(&mut over.process.keep_fds);
}

/// What holds when nobody says anything. The modes of the network and of unix sockets are not here: they follow from
/// the lists.
fn defaults() -> Settings {
    fn say<T>(value: T) -> Option<Stated<T>> {
        Some(Stated { value, origin: Origin("default".to_owned()) })
    }
    let files = FilePolicy::default();
    let mut settings = Settings::default();
    settings.files.rootfs_write = say(RootFsWrite::default());
    settings.files.reads = say(files.reads);
    settings.files.precedence = say(files.precedence);
    settings.files.git = say(files.git);
    settings.files.protect_dotfiles = say(false);
    settings.files.on_replace = say(files.on_replace);
    settings.files.tmp = say(files.tmp);
    settings.files.home = say(files.home);
    settings.network.ask = say(false);
    settings.network.ask_timeout = say(NetworkPolicy::default().ask_timeout);
    settings.gateway.log_contents = say(false);
    settings.environment.clear = say(false);
    settings.process.user = say(UserMode::default());
    settings.process.seccomp = say(SeccompProfile::default());
    settings.process.nested = say(false);
    let mut policy = Policy::default();
    for switch in keys::switches() {
        let (value, origin) = (*switch.of(&mut policy), Origin("default".to_owned()));
        switch.state(&mut settings, Stated { value, origin });
    }
    settings
}

/// Without a mode, hosts that are allowed make it an allow list, and so do asking about hosts and secrets that the gate puts in.
fn settle_network(settings: &mut Settings) -> Result<(), MergeError> {
    if settings.network.mode.is_none() {
        let (value, origin) = match implied_allow_list(settings) {
            Some(origin) => (NetworkMode::AllowList, origin),
            None => (NetworkMode::None, Origin("default".to_owned())),
        };
        settings.network.mode = Some(Stated { value, origin });
    }
    check_network(settings)
}

/// What makes an allow list of a mode that nobody names.
fn implied_allow_list(settings: &Settings) -> Option<Origin> {
    let network = &settings.network;
    let host = network.allow.first().map(|rule| &rule.origin);
    let host = host.or(network.allow_registries.first().map(|registry| &registry.origin));
    let request = network.http.first().map(|rule| &rule.host.origin);
    let asked = network.ask.as_ref().filter(|ask| ask.value).map(|ask| &ask.origin);
    let swapped = settings.secrets.iter().find(|secret| secret.mode == SecretMode::Swap);
    host.or(request).or(asked).or(swapped.map(|secret| &secret.origin)).cloned()
}

/// Unsaid, what looks like a secret stays outside a sandbox that can send it somewhere.
fn settle_secrets(settings: &mut Settings, gateway: &GatewayPolicy) {
    if let Some(mode) = &settings.network.mode {
        let value = match mode.value {
            NetworkMode::AllowList | NetworkMode::Public => SecretVariables::Withhold,
            // What is said to a model leaves the sandbox too.
            _ if !gateway.providers.is_empty() => SecretVariables::Withhold,
            NetworkMode::None | NetworkMode::Host => SecretVariables::Pass,
        };
        // What a weaker source has tightened stays so.
        let secrets =
            settings.environment.secrets.get_or_insert(Stated { value, origin: mode.origin.clone() });
        if value == SecretVariables::Withhold {
            secrets.value = value;
        }
    }
}

/// The same for unix sockets.
fn settle_sockets(settings: &mut Settings) -> Result<(), MergeError> {
    let network = &mut settings.network;
    let first = network.allow_unix_sockets.first();
    let Some(mode) = &network.unix_sockets else {
        let (value, origin) = match first {
            Some(entry) => (UnixSockets::Listed, entry.origin.clone()),
            None => (UnixSockets::None, Origin("default".to_owned())),
        };
        network.unix_sockets = Some(Stated { value, origin });
        return Ok(());
    };
    let word = match mode.value {
        UnixSockets::Listed => return Ok(()),
        UnixSockets::None => "none",
        UnixSockets::All => "all",
    };
    match first {
        None => Ok(()),
        Some(entry) => Err(MergeError::Unlisted {
            entry: Box::new(entry.clone()),
            mode: word,
            mode_origin: mode.origin.clone(),
        }),
    }
}

fn check_network(settings: &Settings) -> Result<(), MergeError> {
    let network = &settings.network;
    let Some(mode) = &network.mode else { return Ok(()) };
    if let (NetworkMode::Host, Some(port)) = (mode.value, network.publish.first()) {
        return Err(MergeError::PublishedByHost { port: port.clone(), mode_origin: mode.origin.clone() });
    }
    let word = match mode.value {
        NetworkMode::AllowList | NetworkMode::Public => return Ok(()),
        NetworkMode::None => "none",
        NetworkMode::Host => "host",
    };
    let host = |rule: &HostRule| (rule.to_string(), rule.origin.clone());
    let request = |rule: &HttpRule| (rule.to_string(), rule.host.origin.clone());
    let allowed = network.allow.first().map(host).or_else(|| network.http.first().map(request));
    let registry = |stated: &Stated<&Registry>| (stated.value.name.to_owned(), stated.origin.clone());
    let registries = network.allow_registries.first().map(registry);
    // Denying on top of nothing is merely redundant.
    let denied = network.deny.first().filter(|_| mode.value == NetworkMode::Host).map(host);
    let terminated = network.terminate.first().map(host);
    let lists = [
        ("network.allow", allowed),
        ("network.allow_registries", registries),
        ("network.deny", denied),
        ("network.terminate", terminated),
    ];
    match lists.into_iter().find_map(|(list, rule)| Some((list, rule?))) {
        None => Ok(()),
        Some((list, (rule, origin))) => {
            let mode_origin = mode.origin.clone();
            Err(MergeError::Ungated(Box::new(Ungated { list, rule, origin, mode: word, mode_origin })))
        }
    }
}

/// The entry of `network.no_terminate` that a rule about requests falls under, also in part.
fn not_read<'n>(network: &'n NetworkSettings, host: &HostRule) -> Option<&'n HostRule> {
    network.no_terminate.iter().find(|excluded| {
        let same_port = excluded.port.is_none() || host.port.is_none() || excluded.port == host.port;
        same_port && (excluded.host.covers(&host.host) || host.host.covers(&excluded.host))
    })
}

/// A rule about requests is of use only where requests are read.
fn check_requests(settings: &Settings) -> Result<(), MergeError> {
    let network = &settings.network;
    let found = network.http.iter().find_map(|rule| Some((rule, not_read(network, &rule.host)?)));
    match found {
        None => Ok(()),
        Some((rule, excluded)) => Err(MergeError::RequestsNotRead {
            rule: rule.to_string(),
            origin: rule.host.origin.clone(),
            excluded: excluded.to_string(),
            excluded_origin: excluded.origin.clone(),
        }),
    }
}

fn check_nested(settings: &Settings) -> Result<(), MergeError> {
    match (&settings.process.nested, &settings.process.seccomp) {
        (Some(Stated { value: true, origin }), Some(seccomp)) if seccomp.value == SeccompProfile::Strict => {
            let (origin, seccomp_origin) = (origin.clone(), seccomp.origin.clone());
            Err(MergeError::NestedStrict { origin, seccomp_origin })
        }
        _ => Ok(()),
    }
}

/// The users with their numbers.
fn check_users(settings: &mut Settings) -> Result<Vec<User>, MergeError> {
    let process = &mut settings.process;
    let origin = process.users.first().map(|entry| entry.origin.clone());
    let users = users::numbered(std::mem::take(&mut process.users)).map_err(MergeError::SameUser)?;
    if let Some(run_as) = &process.run_as
        && !users.iter().any(|user| user.name == run_as.value)
    {
        let (name, origin) = (run_as.value.clone(), run_as.origin.clone());
        let known = users.into_iter().map(|user| user.name).collect();
        return Err(MergeError::RunAs { name, origin, known });
    }
    let Some(origin) = origin else { return Ok(users) };
    if let Some(Stated { value: UserMode::Root, origin: other_origin }) = &process.user {
        let why = "that one is the caller as the only user; use `process.run_as` to choose one of several";
        let (other, other_origin) = ("process.user `root`", other_origin.clone());
        return Err(MergeError::UsersWith { origin, other, other_origin, why });
    }
    if let Some(Stated { value: true, origin: other_origin }) = &process.nested {
        let why = "the root of several users may create no namespaces";
        let (other, other_origin) = ("process.nested", other_origin.clone());
        return Err(MergeError::UsersWith { origin, other, other_origin, why });
    }
    if let Some(Stated { value: SeccompProfile::None, origin: other_origin }) = &process.seccomp {
        let why = "without a filter their root could use calls that check for user 0";
        let (other, other_origin) = ("seccomp `none`", other_origin.clone());
        return Err(MergeError::UsersWith { origin, other, other_origin, why });
    }
    Ok(users)
}

fn check_swap(settings: &Settings) -> Result<(), MergeError> {
    let limits = &settings.limits;
    let bounded = limits.memory.as_ref().is_some_and(|memory| memory.value.is_some());
    match &limits.swap {
        Some(Stated { value: Some(_), origin }) if !bounded => {
            Err(MergeError::SwapAlone { origin: origin.clone() })
        }
        _ => Ok(()),
    }
}

/// The default policy with every switch as it was said.
fn switched(settings: &Settings) -> Policy {
    let mut policy = Policy::default();
    for switch in keys::switches() {
        if let Some(stated) = switch.stated(settings) {
            *switch.of(&mut policy) = stated.value;
        }
    }
    policy
}

/// The settings as a policy. Everything has been said by now, or is a default.
fn policy(settings: Settings, users: Vec<User>, secrets: Vec<SecretRule>, gateway: GatewayPolicy) -> Policy {
    let Policy { files: other_files, network: other_network, best_effort, .. } = switched(&settings);
    let gateway = GatewayPolicy {
        budget: value(settings.gateway.budget).unwrap_or_default(),
        log_contents: value(settings.gateway.log_contents).unwrap_or_default(),
        ..gateway
    };
    let Settings { files, network, limits, environment, process, .. } = settings;
    let reads = value(files.reads).unwrap_or_default();
    // Under open reads an allowed path is a hole in a denied one, and a hole in nothing is harmless. Under listed reads
    // it is what the command was to work on.
    let missing_read = if reads == ReadModel::Listed { Missing::Error } else { Missing::Skip };
    Policy {
        secrets,
        gateway,
        best_effort,
        files: FilePolicy {
            rootfs: files.rootfs.map(|folder| RootFs {
                path: folder.value,
                write: value(files.rootfs_write).unwrap_or_default(),
                origin: folder.origin,
            }),
            reads,
            deny_read: rules(files.deny_read, Missing::Skip),
            allow_read: rules(files.allow_read, missing_read),
            // A place to write that is not there is a typing mistake, or will be noticed as lost output.
            allow_write: rules(files.allow_write, Missing::Error),
            deny_write: rules(files.deny_write, Missing::Skip),
            kept_names: files.protect_dotfiles.filter(|said| said.value).map(|said| KeptNames {
                folders: KeptIn::WriteRoots,
                names: dotfiles::kept_by_name(),
                reach: Reach::Everywhere,
                origin: said.origin,
            }),
            precedence: value(files.precedence).unwrap_or_default(),
            git: value::<GitLevel>(files.git).unwrap_or_default(),
            on_replace: value(files.on_replace).unwrap_or_default(),
            other_names: OtherNames::default(),
            mounts: files.mounts,
            tmpfs: files.tmpfs,
            tmp: value::<TmpMode>(files.tmp).unwrap_or_default(),
            home: value::<HomeMode>(files.home).unwrap_or_default(),
            host_shm: false,
            devices: rules(files.devices, Missing::Error),
            gpus: files
                .gpus
                .into_iter()
                .map(|Stated { value, origin }| GpuRule { choice: value, origin })
                .collect(),
            ..other_files
        },
        network: NetworkPolicy {
            mode: value(network.mode).unwrap_or_default(),
            allow: network.allow,
            deny: network.deny,
            http: network.http,
            tls: TlsPolicy {
                terminate: network.terminate,
                exclude: network.no_terminate,
                extra_ca: network.extra_ca.into_iter().map(|stated| stated.value).collect(),
                ..other_network.tls
            },
            ask: value(network.ask).unwrap_or_default(),
            ask_timeout: value(network.ask_timeout).flatten(),
            publish: network.publish,
            parent_proxy: value(network.parent_proxy),
            parent_proxy_by_kind: None,
            no_proxy: value(network.no_proxy),
            http_proxy_port: value(network.http_proxy_port),
            socks_proxy_port: value(network.socks_proxy_port),
            unix_sockets: value(network.unix_sockets).unwrap_or_default(),
            // A daemon may start later than the command.
            allow_unix_sockets: rules(network.allow_unix_sockets, Missing::Skip),
            budget: network
                .budget
                .into_iter()
                .filter(|limit| limit.bytes != TrafficLimit::UNLIMITED)
                .collect(),
            relays: Vec::new(),
            no_network: NoNetwork::default(),
            local_binding: false,
            trust_daemon: false,
            ..other_network
        },
        limits: Limits {
            memory: value(limits.memory).flatten(),
            // Unsaid, swap is none as soon as memory is bounded; without a bound of its own it has to say so.
            swap: value(limits.swap).map(|swap| swap.unwrap_or(u64::MAX)),
            cpus: value(limits.cpus).flatten(),
            wall_time: value(limits.timeout).flatten(),
            cpu_time: value(limits.cpu_time).flatten(),
            pids: value(limits.pids).flatten(),
            // Unsaid, the platform has a limit of its own; without any it has to say so.
            open_files: value(limits.open_files).map(|count| count.unwrap_or(u32::MAX)),
            file_size: value(limits.file_size).flatten(),
            output: value(limits.output).flatten(),
            tmp_size: value(limits.tmp_size).flatten(),
        },
        environment: EnvironmentPolicy {
            base: match value(environment.clear) {
                Some(true) => EnvironmentBase::Clear,
                _ => EnvironmentBase::Inherit,
            },
            pass: environment.pass.into_iter().map(|stated| stated.value).collect(),
            unset: environment.unset.into_iter().map(|stated| stated.value).collect(),
            set: last_of_each(environment.set),
            secrets: value(environment.secrets).unwrap_or_default(),
            secret_names: environment.secret_names.into_iter().map(|stated| stated.value).collect(),
        },
        process: ProcessPolicy {
            nested: match value(process.nested) {
                Some(true) => NestedNamespaces::Allowed,
                _ => NestedNamespaces::Denied,
            },
            workdir: value(process.workdir),
            start_instead: Vec::new(),
            user: value(process.user).unwrap_or_default(),
            users,
            run_as: value(process.run_as),
            hostname: value(process.hostname),
            seccomp: value(process.seccomp).unwrap_or_default(),
            keep_fds: process.keep_fds,
            mach_services: Vec::new(),
        },
    }
}

fn rules(entries: Vec<PathEntry>, missing: Missing) -> Vec<PathRule> {
    let rule = |entry: PathEntry| PathRule {
        follow_link: true,
        lenient: false,
        without_exceptions: false,
        of_profile: false,
        look: SearchScope::Everywhere,
        pattern: entry.pattern,
        missing: entry.missing.unwrap_or(missing),
        origin: entry.origin,
    };
    entries.into_iter().map(rule).collect()
}

/// Each variable once, with the value that was said last.
fn last_of_each(said: Vec<Stated<(OsString, OsString)>>) -> Vec<(OsString, OsString)> {
    let mut set: Vec<(OsString, OsString)> = Vec::with_capacity(said.len());
    let mut places = std::collections::HashMap::with_capacity(said.len());
    for Stated { value: (name, value), .. } in said {
        match places.get(&name) {
            Some(&place) => {
                let (_, old): &mut (OsString, OsString) = &mut set[place];
                *old = value;
            }
            None => {
                places.insert(name.clone(), set.len());
                set.push((name, value));
            }
        }
    }
    set
}

fn value<T>(stated: Option<Stated<T>>) -> Option<T> {
    stated.map(|stated| stated.value)
}

#[cfg(test)]
mod tests;
