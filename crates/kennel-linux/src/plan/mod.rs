//! From what a policy means to the exact steps: pure, so that a test compares plans and `kennel plan` prints them.

mod devices;
pub mod end;
mod files;
pub mod late;
pub mod need;
mod no_network;
mod procfs;
mod shares;
mod users;

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub use kennel_init::plan::Plan;
use kennel_init::plan::{Command, Identity, Planned, Step, Terminal};
use kennel_policy::policy::{NetworkMode, NoNetwork, Policy, SeccompProfile, UnixSockets};
use rustix::process::Resource;

use crate::additions::Additions;
use crate::guard;
use crate::landlock::{self, Abi};
use crate::network::NetworkPlan;
use crate::resolve::Resolved;
use crate::seccomp;
use crate::users::UserMaps;

pub use crate::tier::Tier;

/// What the plan needs to know of the process that asks for the sandbox: its standard streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// How the command stands to its terminal.
    pub terminal: Terminal,
    /// Where streams are a terminal.
    pub tty: Option<TerminalStreams>,
    /// Streams that are a device which every sandbox has: its name below /dev, and which they are.
    pub devices: Vec<(&'static str, Vec<u32>)>,
    /// Where standard input is a regular file that can be opened again.
    pub input: Option<InputFile>,
}

/// The streams that are a terminal, and how the sandbox's own terminal is to begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TerminalStreams {
    /// The kernel's `struct termios`.
    pub modes: Vec<u8>,
    /// The kernel's `struct winsize`.
    pub size: [u16; 4],
    /// Which descriptors.
    pub streams: Vec<u32>,
}

/// A regular file behind standard input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InputFile {
    /// Where it lies, without links.
    pub path: PathBuf,
    /// Which it is.
    pub identity: Identity,
    /// How far it has been read.
    pub offset: u64,
}

/// Why a policy cannot be planned.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Something holds a NUL byte.
    #[error("planning: {what} contains a NUL byte, which no system call accepts")]
    Nul {
        /// What.
        what: String,
    },
    /// The tier without namespaces cannot express a rule.
    #[error(
        "planning without namespaces: Landlock cannot express {rule}\n\
         help: allow user namespaces, or drop the rule"
    )]
    NotWithLandlock {
        /// The rule.
        rule: String,
    },
    /// There is no folder for files of kennel's own.
    #[error(
        "planning: {} cannot be made inside, because a rule hides the folder above it\n\
         help: drop the rule; the certificate that the command has to trust is put there", folder.display()
    )]
    NoFolder {
        /// The folder.
        folder: PathBuf,
    },
    /// Not even Landlock.
    #[error(
        "planning without namespaces: this kernel has no Landlock\n\
         help: allow user namespaces, or boot a kernel 5.13 or later with `landlock` in its `lsm=` list"
    )]
    NothingToEnforceWith,
}

/// The steps that come first and depend on nothing but the policy: the network.
#[must_use]
pub fn opening(policy: &Policy, tier: Tier, network: Option<&NetworkPlan>) -> Vec<Planned> {
    let mut steps = Steps::default();
    if tier == Tier::LandlockOnly {
        return steps.0;
    }
    if policy.network.mode != NetworkMode::Host {
        steps.add(Step::OwnNetwork, "nothing of the host's network is there");
        // Where messages arrange the network, the first of them does this.
        if network.is_none_or(|network| network.batches.is_empty()) {
            steps.add(Step::LoopbackUp, "a network of the sandbox's own has a loopback");
        }
        if policy.network.mode == NetworkMode::None && policy.network.no_network == NoNetwork::Denied {
            let (protocol, messages) = (libc::NETLINK_ROUTE.cast_unsigned(), no_network::routes());
            let step = Step::Netlink { protocol, messages, acknowledgements: 1 };
            steps.add(step, "connections that would lead out are denied, not unreachable");
        }
    }
    if let Some(network) = network {
        doors(&mut steps, network);
    }
    steps.0
}

/// All that the set-up depends on.
#[derive(Clone, Copy, Debug)]
pub struct Basis<'a> {
    /// What is allowed.
    pub policy: &'a Policy,
    /// What that means on this disk.
    pub resolved: &'a Resolved,
    /// Who asks.
    pub caller: &'a Caller,
    /// What this kernel's Landlock can restrict.
    pub abi: Abi,
    /// What this host gives.
    pub tier: Tier,
    /// Whether a cgroup is to be entered.
    pub counted: bool,
    /// What stands in for one: limits on each process.
    pub rlimits: &'a [(u32, u64)],
    /// The inside of a filtered network.
    pub network: Option<&'a NetworkPlan>,
    /// Whether the filter can ask the guard.
    pub asks: bool,
    /// Whether PID 1 was born in the sandbox's own network.
    pub born_in_network: bool,
    /// The maps of several users.
    pub users: Option<&'a UserMaps>,
    /// What the sandbox gets in the place of secrets.
    pub additions: &'a Additions,
}

/// The ordered steps of the set-up. `opened` says that an opening comes before.
///
/// # Errors
/// When a name cannot be passed to the kernel, or the tier cannot express a rule.
pub fn set_up(opened: bool, basis: &Basis) -> Result<Vec<Planned>, PlanError> {
    let Basis { policy, resolved, abi, tier, .. } = *basis;
    let mut steps = Steps::default();
    let places = match tier {
        Tier::Full | Tier::HostProc => files::mounts(&mut steps, basis)?,
        Tier::LandlockOnly => files::landlock_only(basis)?,
    };
    if let Some(name) = policy.process.hostname.as_ref().filter(|_| tier != Tier::LandlockOnly) {
        steps.add(Step::Hostname { name: c_string(OsStr::new(name), "the host name")? }, "hostname");
    }
    devices::terminal(&mut steps, basis.caller);
    steps.0.push(working_directory(resolved.workdir.as_deref().unwrap_or(Path::new("/")))?);
    limits(&mut steps, policy, basis.rlimits);
    shares::limits(&mut steps, tier);
    if basis.born_in_network {
        steps.add(Step::BornInNetwork, "a network of the sandbox's own");
    }
    if opened {
        // Before the cgroup: who made the network does not count against a limit on processes.
        steps.add(Step::EnterNetwork, "a network of the sandbox's own");
    }
    if basis.counted {
        steps.add(Step::AwaitController, "the limits on the whole sandbox: its cgroup");
        if tier != Tier::LandlockOnly {
            steps.add(Step::OwnCgroups, "sandboxes may not see the name of their cgroup on the host");
        }
    }
    if policy.process.seccomp == SeccompProfile::None {
        steps.add(Step::OwnKeyring, "without a filter, the caller's keys could be used");
    }
    if let Some(maps) = basis.users {
        users::nest(&mut steps, maps, !resolved.guard.covered.is_empty())?;
    }
    steps.add(Step::NoNewPrivileges, "every sandbox");
    let ports = match tier {
        Tier::LandlockOnly => proxy_only(policy, basis.network, abi)?,
        Tier::Full | Tier::HostProc => None,
    };
    // Landlock forbids all mounting to those whose files it keeps. Where it is the only lock it keeps them all the same.
    let nested = resolved.nested && tier != Tier::LandlockOnly;
    if nested {
        if let Some(step) = landlock::scopes(abi) {
            steps.add(step, "signals and abstract sockets stay inside");
        }
    } else if let Some(step) = landlock::step(abi, &places, ports.as_ref(), policy.network.unix_sockets) {
        steps.add(
            step,
            "every sandbox: enforces the file rules a second time; signals and abstract sockets stay inside",
        );
    }
    match basis.users {
        Some(_) => users::capabilities(&mut steps),
        None => steps.add(Step::DropCapabilities, "every sandbox"),
    }
    // Where the guard cannot say which sockets are the sandbox's own, and none of the host's is listed, there are none at all.
    let own_only = resolved.guard.sockets.as_ref().is_some_and(|sockets| sockets.allowed.is_empty());
    let no_guard = !basis.asks || (tier == Tier::LandlockOnly && policy.network.mode.is_gated());
    let unix_sockets = if own_only && no_guard { UnixSockets::None } else { policy.network.unix_sockets };
    let must_ask = resolved.guard.asks() != guard::Asks::No;
    let asks = basis.asks && (must_ask || policy.process.seccomp != SeccompProfile::None);
    let wish = seccomp::FilterSpec {
        nested_namespaces: nested,
        profile: policy.process.seccomp,
        unix_sockets,
        inet_sockets: match (tier, policy.network.mode) {
            (Tier::Full | Tier::HostProc, _) | (_, NetworkMode::Host) => seccomp::Inet::All,
            (Tier::LandlockOnly, NetworkMode::AllowList | NetworkMode::Public) => seccomp::Inet::Tcp,
            (Tier::LandlockOnly, NetworkMode::None) => seccomp::Inet::None,
        },
        writes_host: resolved.writes_host(),
        keeps_attributes: tier == Tier::LandlockOnly && !resolved.writes_host(),
        asks,
        several_users: basis.users.is_some(),
        watches_network: basis.born_in_network,
    };
    let guarded = if asks { guard::filter_rules(&resolved.guard) } else { seccomp::Additions::default() };
    if let Some(program) = seccomp::filter(&wish, &guarded) {
        let reason = match asks {
            false => "the seccomp profile",
            true if must_ask => "the seccomp profile, and rules that mounts cannot enforce",
            true => "the seccomp profile; the guard decides about modes and locks",
        };
        steps.add(Step::Filter { program, listener: asks, awaits: must_ask }, reason);
    }
    Ok(steps.0)
}

/// The step that goes to where the command starts.
///
/// # Errors
/// When the path cannot be passed to the kernel.
fn working_directory(path: &Path) -> Result<Planned, PlanError> {
    Ok(Planned { step: Step::ChangeDir { path: c_path(path)? }, reason: "the working directory".to_owned() })
}

/// Without a network of its own, an allow list leaves the proxy's port and no other. Landlock knows TCP since Linux 6.7.
fn proxy_only(
    policy: &Policy,
    network: Option<&NetworkPlan>,
    abi: Abi,
) -> Result<Option<landlock::TcpPorts>, PlanError> {
    let not_here = |rule: &str| PlanError::NotWithLandlock { rule: rule.to_owned() };
    if let Some(port) = policy.network.publish.first() {
        return Err(not_here(&format!(
            "the published port {port}, which needs a network of the sandbox's own"
        )));
    }
    if !policy.network.relays.is_empty() {
        return Err(not_here("a proxy of the host's as the only way out"));
    }
    if !policy.network.mode.is_gated() {
        return Ok(None);
    }
    // The guard connects on the command's behalf, and Landlock does not hold the guard.
    if policy.network.unix_sockets == UnixSockets::Listed && !policy.network.allow_unix_sockets.is_empty() {
        return Err(not_here("listed unix sockets together with an allow list of hosts"));
    }
    let shared = network.and_then(|network| network.shared.as_ref());
    match shared {
        Some(shared) if abi >= Abi::V4 => Ok(Some(landlock::TcpPorts { connect: vec![shared.port] })),
        _ => Err(not_here("an allow list of hosts before Linux 6.7")),
    }
}

/// The inside of a filtered network: everything leads to sockets that the controller serves.
fn doors(steps: &mut Steps, network: &NetworkPlan) {
    let reason = "only the allowed hosts: every connection leads to the network gate";
    for batch in &network.batches {
        let (messages, acknowledgements) = (batch.messages.clone(), batch.acknowledgements);
        steps.add(Step::Netlink { protocol: batch.protocol, messages, acknowledgements }, reason);
    }
    for listener in &network.listeners {
        let on = |level: i32, name: i32| [level.cast_unsigned(), name.cast_unsigned(), 1];
        let mut options = vec![on(libc::SOL_SOCKET, libc::SO_REUSEADDR)];
        let family = if listener.address.is_ipv6() {
            options.push(on(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY));
            libc::AF_INET6
        } else {
            libc::AF_INET
        };
        let kind = if listener.stream { libc::SOCK_STREAM } else { libc::SOCK_DGRAM };
        let step = Step::Listen {
            family: family.cast_unsigned(),
            kind: kind.cast_unsigned(),
            address: listener.raw_address(),
            options,
            role: listener.role.encode(),
        };
        steps.add(step, reason);
    }
}

fn limits(steps: &mut Steps, policy: &Policy, rlimits: &[(u32, u64)]) {
    let mut limit = |resource, value: u64, hard: u64, reason| {
        steps.add(Step::Limit { resource, soft: value, hard }, reason);
    };
    // For a core pattern that is a pipe the kernel does not look at a limit of 0: its program would be started, as root,
    // outside of all limits. A limit of 1 means none there, and is too small for a file.
    limit(Resource::Core as u32, 1, 1, "every sandbox: no core dumps");
    for (resource, value) in rlimits {
        limit(*resource, *value, *value, "best effort: for each process, because no cgroup is available");
    }
    if let Some(bytes) = policy.limits.file_size {
        limit(Resource::Fsize as u32, bytes, bytes, "limits.file_size");
    }
    steps.0.extend(cpu_limit(policy));
}

/// The limit on the CPU time of each process, if there is one.
#[must_use]
pub fn cpu_limit(policy: &Policy) -> Option<Planned> {
    let time = policy.limits.cpu_time?;
    // At the soft limit SIGXCPU, which a program can catch; a second later SIGKILL, which it cannot.
    let soft = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    let step = Step::Limit { resource: RLIMIT_CPU, soft, hard: soft + 1 };
    Some(Planned { step, reason: "limits.cpu_time".to_owned() })
}

/// The kernel's number of the limit on CPU time.
const RLIMIT_CPU: u32 = Resource::Cpu as u32;

/// What is started at the end: these words with these variables.
///
/// # Errors
/// When something of it cannot be passed to the kernel.
pub fn command(
    policy: &Policy,
    caller: &Caller,
    command: &[OsString],
    variables: &[(OsString, OsString)],
) -> Result<Command, PlanError> {
    let name = command.first().map_or(OsStr::new(""), OsString::as_os_str);
    let path = variables.iter().find(|(key, _)| key == "PATH").map(|(_, value)| value.as_os_str());
    let mut candidates = Vec::new();
    for candidate in candidates_for(name, path) {
        candidates.push(c_string(&candidate, "the command")?);
    }
    let mut environment = Vec::with_capacity(variables.len());
    for (key, value) in variables {
        let mut pair = key.clone();
        pair.push("=");
        pair.push(value);
        environment.push(c_string(&pair, "an environment variable")?);
    }
    Ok(Command {
        candidates,
        arguments: command.iter().map(|word| c_string(word, "an argument")).collect::<Result<_, _>>()?,
        environment,
        terminal: caller.terminal,
        time_limit: policy.limits.wall_time,
        keep: policy.process.keep_fds.iter().filter_map(|fd| i32::try_from(*fd).ok()).collect(),
        user: users::command(&policy.process),
        open_files: shares::open_files(policy),
        starts_silently: false,
    })
}

/// The paths to try for a command, as a shell looks through `PATH`.
fn candidates_for(name: &OsStr, path: Option<&OsStr>) -> Vec<OsString> {
    if name.is_empty() || name.as_bytes().contains(&b'/') {
        return vec![name.to_owned()];
    }
    let path = path.unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"));
    path.as_bytes()
        .split(|byte| *byte == b':')
        .map(|folder| {
            let folder = if folder.is_empty() { b".".as_slice() } else { folder };
            let mut candidate = OsString::from(OsStr::from_bytes(folder));
            candidate.push("/");
            candidate.push(name);
            candidate
        })
        .collect()
}

/// The list under construction.
#[derive(Default)]
struct Steps(Vec<Planned>);

impl Steps {
    fn add(&mut self, step: Step, reason: &str) {
        self.0.push(Planned { step, reason: reason.to_owned() });
    }
}

fn c_string(text: &OsStr, what: &str) -> Result<CString, PlanError> {
    CString::new(text.as_bytes()).map_err(|_| PlanError::Nul { what: what.to_owned() })
}

fn c_path(path: &Path) -> Result<CString, PlanError> {
    c_string(path.as_os_str(), "a path")
}
