//! `Policy`: what a sandbox may do, as plain data.
//!
//! Every front end (kennel's settings, flags, the library's builder, the drop-ins) ends here, and nothing after
//! this module can tell which one it was. Paths are absolute by now (`~` and relative paths are a front end's
//! business); whether they exist, and where their symlinks lead, is for the resolver to find out.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::domain::HostRule;
use crate::gateway::GatewayPolicy;
use crate::gpu::GpuRule;
use crate::http_rule::HttpRule;
pub use crate::origin::Origin;
use crate::pattern::PathPattern;
use crate::secrets::{SecretRule, TlsPolicy};
use crate::traffic::TrafficLimit;
use crate::users::User;

/// Everything a sandbox is allowed to do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// Which files can be read and written.
    pub files: FilePolicy,
    /// Which hosts can be reached.
    pub network: NetworkPolicy,
    /// How much of the machine can be used.
    pub limits: Limits,
    /// Which variables the command sees.
    pub environment: EnvironmentPolicy,
    /// Who the command is and how it starts.
    pub process: ProcessPolicy,
    /// Secrets that the command uses, mostly without holding them.
    pub secrets: Vec<SecretRule>,
    /// The way to models, without their keys.
    pub gateway: GatewayPolicy,
    /// Run without protections this host cannot enforce, and list them in the outcome.
    pub best_effort: bool,
}

/// Which files can be read and written.
#[derive(Clone, Debug, PartialEq)]
pub struct FilePolicy {
    /// A folder that is the sandbox's root. The host's files are then inside only as far as the lists below name them.
    pub rootfs: Option<RootFs>,
    /// Which reads are allowed when no rule covers the path.
    pub reads: ReadModel,
    /// Hidden, with everything below.
    pub deny_read: Vec<PathRule>,
    /// Readable: exceptions to `deny_read`, or the list itself under [`ReadModel::Listed`].
    pub allow_read: Vec<PathRule>,
    /// Writable, with everything below.
    pub allow_write: Vec<PathRule>,
    /// Read-only: exceptions to `allow_write`.
    pub deny_write: Vec<PathRule>,
    /// Names that stay as they are in a folder and in those below it.
    pub kept_names: Option<KeptNames>,
    /// Whether to refuse to start if a folder that can be written is a home folder, or holds one.
    pub refuse_home: bool,
    /// Which rule wins if several cover one path.
    pub precedence: Precedence,
    /// Which parts of git repositories in writable folders stay read-only.
    pub git: GitLevel,
    /// What happens when the host replaces a protected path while the command runs.
    pub on_replace: OnReplace,
    /// What happens if a denied file has other names, which are not denied.
    pub other_names: OtherNames,
    /// Host paths that appear at a different path inside.
    pub mounts: Vec<MountPoint>,
    /// Fresh, empty, writable, in-memory folders.
    pub tmpfs: Vec<TmpfsMount>,
    /// Which `/tmp` the command sees.
    pub tmp: TmpMode,
    /// Which home the command sees.
    pub home: HomeMode,
    /// Whether the caches of package managers and compilers ([`crate::caches`]) have a layer of the sandbox's own, kept for each
    /// project.
    pub caches: bool,
    /// Whether the host's `/run` is visible inside (most of the host's daemons listen on sockets there).
    pub host_run: bool,
    /// Whether rules on `/dev/shm` and what is below it are about the host's. Otherwise the sandbox has one of its own, which
    /// nobody else sees.
    pub host_shm: bool,
    /// Under [`ReadModel::Listed`]: add the minimal system set (`/usr`, `/bin`, `/lib*`, parts of `/etc`).
    pub system: bool,
    /// Devices of the host's `/dev` to add to the minimal set (`/dev/kvm`, `/dev/dri`).
    pub devices: Vec<PathRule>,
    /// Graphics cards that the command may use: their devices, and what their drivers have of libraries.
    pub gpus: Vec<GpuRule>,
}

impl Default for FilePolicy {
    fn default() -> Self {
        FilePolicy {
            rootfs: None,
            reads: ReadModel::Open,
            deny_read: Vec::new(),
            allow_read: Vec::new(),
            allow_write: Vec::new(),
            deny_write: Vec::new(),
            kept_names: None,
            refuse_home: false,
            precedence: Precedence::default(),
            git: GitLevel::default(),
            on_replace: OnReplace::default(),
            other_names: OtherNames::default(),
            mounts: Vec::new(),
            tmpfs: Vec::new(),
            tmp: TmpMode::Private,
            home: HomeMode::Host,
            caches: false,
            host_run: false,
            host_shm: false,
            system: true,
            devices: Vec::new(),
            gpus: Vec::new(),
        }
    }
}

/// A folder that is the sandbox's root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootFs {
    /// The host's path of the folder.
    pub path: PathBuf,
    /// What becomes of writes to it.
    pub write: RootFsWrite,
    /// Where it was set.
    pub origin: Origin,
}

/// What becomes of writes to a root file system. The folder itself is never changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RootFsWrite {
    /// They fail: the root is read-only.
    None,
    /// They go to a layer in memory, which is thrown away at the end.
    #[default]
    Layer,
}

/// Names that nobody may write in some folders, whether they are there or not, and in the folders below these where they
/// are there: a dozen names at every depth, for which a pattern each would be slow to look for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptNames {
    /// In which folders.
    pub folders: KeptIn,
    /// The names, or paths of two names.
    pub names: &'static [&'static str],
    /// How far below these folders. What is in a `node_modules` is passed over.
    pub reach: Reach,
    /// Where the rule came from.
    pub origin: Origin,
}

/// How far below a folder names are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// As many levels of folders are looked through, of which the folder itself is the first.
    Levels(u32),
    /// At every depth, with all that [`crate::dotfiles::TABLE`] says, and as they come into being.
    Everywhere,
}

impl Reach {
    /// How many levels of folders are looked through.
    #[must_use]
    pub fn levels(self) -> u32 {
        match self {
            Reach::Levels(levels) => levels,
            Reach::Everywhere => u32::MAX,
        }
    }
}

/// In which folders names are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptIn {
    /// Where the command starts.
    Start,
    /// In every folder that can be written, wherever the command starts.
    WriteRoots,
}

/// Which reads are allowed when no rule covers the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadModel {
    /// Everything is readable but what `deny_read` names.
    #[default]
    Open,
    /// Nothing exists but what is listed.
    Listed,
}

/// Which rule wins if several cover one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precedence {
    /// The most specific one, and at a tie the one that denies. A rule about writing never shows a path that is hidden from
    /// reading.
    #[default]
    Specific,
    /// A deny of writing applies to everything below, whatever is allowed there. For reading the most specific rule
    /// wins, and a path that both lists name can be read. A path that `allow_write` names, not by a glob, shows in a hidden
    /// folder.
    DenyWrite,
}

/// Which parts of git repositories in writable folders stay read-only: git on the host runs what their hooks and
/// configuration say, without a sandbox. A path in them that `allow_write` names itself stays writable (but not under
/// [`Precedence::DenyWrite`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum GitLevel {
    /// All of `.git`, existing or not: nothing can be committed.
    MetadataReadOnly,
    /// Everything that can make git run programs: hooks, configuration, attributes, and what these name in the tree.
    /// Commits work.
    HooksAndConfigReadOnly,
    /// The same without the configuration files.
    HooksReadOnly,
    /// Nothing.
    #[default]
    Off,
}

/// What happens when the host replaces a path that a rule hides or keeps, while the command runs: the kernel then
/// removes the protection together with the old file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnReplace {
    /// The sandbox is killed.
    End,
    /// The new file is covered as the old one was; the command continues.
    #[default]
    Mend,
}

/// What happens if a denied file has other names (hard links), which are not denied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OtherNames {
    /// Nothing starts.
    #[default]
    Refuse,
    /// Those in folders that can be written are denied too. Others are not.
    Deny,
}

/// One entry of a path list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathRule {
    /// An absolute path or a glob.
    pub pattern: PathPattern,
    /// What to do when a path that is not a glob does not exist.
    pub missing: Missing,
    /// Whether symlinks on a path that is not a glob are followed; otherwise an entry with one is skipped. Globs that deny
    /// follow links and globs that allow do not: an earlier run may have put one there, to a place that nobody meant.
    pub follow_link: bool,
    /// Whether an allow that cannot be applied safely is left out, instead of being an error: what other programs' settings
    /// say was not written for kennel.
    pub lenient: bool,
    /// Whether a deny of reading holds whatever other rules show.
    pub without_exceptions: bool,
    /// Whether a profile says it. What the caller says himself and a profile keeps from having any effect is an error.
    pub of_profile: bool,
    /// Where a glob looks, and where git repositories are looked for in what the rule opens for writing.
    pub look: SearchScope,
    /// Where the rule came from.
    pub origin: Origin,
}

/// Where a rule makes the resolver look around. A look costs time, and finds what is nobody's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SearchScope {
    /// Everywhere.
    #[default]
    Everywhere,
    /// Only in the folder that the command starts in, and below it.
    InWorkdir,
    /// Nowhere: what a temporary folder holds is nobody's.
    Nowhere,
}

impl Missing {
    /// Whether it is created.
    #[must_use]
    pub fn creates(self) -> bool {
        matches!(self, Missing::Create | Missing::CreateFile)
    }
}

/// What to do about a listed path that does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// Leave it out. A denied path cannot be created, where the sandbox could otherwise create it.
    #[default]
    Skip,
    /// The same, but one that appears all the same ends nothing. For folders that others share, who may create it at any
    /// time.
    Shared,
    /// Leave it out, and let it be created.
    Ignore,
    /// Create it, as a folder that only this user can enter. For places to write.
    Create,
    /// The same, as an empty file.
    CreateFile,
    /// Refuse to start.
    Error,
}

/// A host path that appears inside, perhaps at a different path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountPoint {
    /// The host's path.
    pub source: PathBuf,
    /// Where it appears inside; an absolute path.
    pub target: PathBuf,
    /// Whether it can be written.
    pub access: MountAccess,
    /// What happens when there is nothing at the source: refuse to start, leave it out, or create a folder there, in which
    /// places are made as well for what is mounted in it.
    pub missing: Missing,
    /// Where the rule came from.
    pub origin: Origin,
}

/// Whether a mount can be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MountAccess {
    /// Only read.
    #[default]
    ReadOnly,
    /// Read and written.
    ReadWrite,
}

/// A fresh in-memory folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TmpfsMount {
    /// Where it appears inside; an absolute path.
    pub target: PathBuf,
    /// The maximum size in bytes.
    pub size: Option<u64>,
    /// Whether a folder to mount it on is created on the host, if there is none. It stays empty there.
    pub create: bool,
    /// Where the rule came from.
    pub origin: Origin,
}

/// Which `/tmp` the command sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TmpMode {
    /// A fresh, empty one that goes away with the sandbox.
    #[default]
    Private,
    /// The host's, under the same rules as any other folder.
    Host,
}

/// Which home the command sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HomeMode {
    /// A fresh one that goes away with the sandbox. Of the host's only what [`crate::home::shown`] lists is in it, and what rules
    /// allow. Other users' homes are closed.
    Private,
    /// The host's, under the same rules as any other folder.
    #[default]
    Host,
}

/// Parent proxies by what goes through them. What is not said, the caller's own variables say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyByKind {
    /// For plain HTTP requests.
    pub http: Option<ProxyAddress>,
    /// For all else; the other one where neither this nor a variable names one.
    pub https: Option<ProxyAddress>,
}

/// Which hosts can be reached.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkPolicy {
    /// Which network the sandbox uses.
    pub mode: NetworkMode,
    /// Hosts that can be reached in [`NetworkMode::AllowList`], and beside the public ones in [`NetworkMode::Public`].
    pub allow: Vec<HostRule>,
    /// Hosts that cannot be reached even if allowed; checked first.
    pub deny: Vec<HostRule>,
    /// Requests that can be made, in [`NetworkMode::AllowList`]: a host that one of these names can be reached by them alone.
    pub http: Vec<HttpRule>,
    /// What of the encrypted traffic the gate reads.
    pub tls: TlsPolicy,
    /// Whether kennel asks about hosts that no rule covers, in [`NetworkMode::AllowList`].
    pub ask: bool,
    /// How long to wait for an answer before refusing the host; `None` to wait without a limit.
    pub ask_timeout: Option<Duration>,
    /// Whether a TLS or HTTP client can name a different host than the one it connected to.
    pub allow_sni_mismatch: bool,
    /// Whether a TLS client can encrypt the server's name (ECH), so that kennel cannot compare it.
    pub allow_ech: bool,
    /// Ports of the sandbox to publish on the host's loopback.
    pub publish: Vec<PublishedPort>,
    /// The proxy that the gate connects through: an address, or `none`. By default the caller's own proxy variables
    /// name it.
    pub parent_proxy: Option<ProxyAddress>,
    /// The same where requests without encryption and all else take different ways, as other programs' settings can say.
    pub parent_proxy_by_kind: Option<ProxyByKind>,
    /// Which hosts are reached without that proxy, in the syntax of `NO_PROXY`.
    pub no_proxy: Option<String>,
    /// Port of an HTTP proxy on the host's loopback that replaces the gate's.
    pub http_proxy_port: Option<u16>,
    /// The same for SOCKS.
    pub socks_proxy_port: Option<u16>,
    /// Whether the command can create unix sockets, and what they can connect to.
    pub unix_sockets: UnixSockets,
    /// Sockets of the host that the command can connect to under [`UnixSockets::Listed`].
    pub allow_unix_sockets: Vec<PathRule>,
    /// How many bytes may leave and come in, by the gate.
    pub budget: Vec<TrafficLimit>,
    /// Ports of the host's loopback that the command finds at the same address inside.
    pub relays: Vec<Relay>,
    /// How connections fail that lead out of a sandbox without a network.
    pub no_network: NoNetwork,
    /// Whether servers may listen on the host's loopback, where a sandbox has no loopback of its own (macOS).
    pub local_binding: bool,
    /// Whether the system's certificate daemon can be asked, which fetches addresses itself (macOS).
    pub trust_daemon: bool,
}

impl NetworkPolicy {
    /// Whether something outside the sandbox has to serve its network.
    #[must_use]
    pub fn needs_gate(&self) -> bool {
        self.mode.is_gated() || !self.publish.is_empty() || !self.relays.is_empty()
    }
}

impl Default for NetworkPolicy {
    fn default() -> Self {
        NetworkPolicy {
            mode: NetworkMode::None,
            allow: Vec::new(),
            deny: Vec::new(),
            http: Vec::new(),
            tls: TlsPolicy::default(),
            ask: false,
            ask_timeout: Some(Duration::from_secs(60)),
            allow_sni_mismatch: false,
            allow_ech: false,
            publish: Vec::new(),
            parent_proxy: None,
            parent_proxy_by_kind: None,
            no_proxy: None,
            http_proxy_port: None,
            socks_proxy_port: None,
            unix_sockets: UnixSockets::None,
            allow_unix_sockets: Vec::new(),
            budget: Vec::new(),
            relays: Vec::new(),
            no_network: NoNetwork::default(),
            local_binding: false,
            trust_daemon: false,
        }
    }
}

/// A port of the host's loopback that listens inside as well: what arrives there is carried to the host's, byte by byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relay {
    /// The port, of 127.0.0.1 inside and outside.
    pub port: u16,
    /// What the host's program is sent first on every connection. The command never sees it.
    pub greeting: Greeting,
}

/// What a relay sends first. It may tell who the command is, so it is not shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Greeting(Vec<u8>);

impl Greeting {
    /// The bytes.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl From<Vec<u8>> for Greeting {
    fn from(bytes: Vec<u8>) -> Self {
        Greeting(bytes)
    }
}

impl std::fmt::Debug for Greeting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Greeting(…)")
    }
}

/// How connections fail that lead out of a sandbox without a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NoNetwork {
    /// As on a host without a network: `ENETUNREACH`.
    #[default]
    Unreachable,
    /// As where a rule forbids them: `EACCES`.
    Denied,
}

/// The address of a proxy. It may hold a password, so it is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxyAddress(String);

impl ProxyAddress {
    /// The whole address, with the password where it has one.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl<T: Into<String>> From<T> for ProxyAddress {
    fn from(text: T) -> Self {
        ProxyAddress(text.into())
    }
}

impl std::fmt::Debug for ProxyAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ProxyAddress(…)")
    }
}

/// A port of the sandbox that is published on the host's loopback, and on no other address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedPort {
    /// The port on the host; 0 is any that is free.
    pub host: u16,
    /// The port inside.
    pub inside: u16,
    /// Where it was set.
    pub origin: Origin,
}

impl std::fmt::Display for PublishedPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.inside)
    }
}

/// Which network a sandbox uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NetworkMode {
    /// A network of its own with nothing but a loopback.
    #[default]
    None,
    /// The host's network, unfiltered.
    Host,
    /// A network of its own from which only the allowed hosts can be reached.
    AllowList,
    /// A network of its own from which every public address can be reached, and the allowed hosts: the internet without this
    /// host and the networks around it.
    Public,
}

impl NetworkMode {
    /// Another name for [`NetworkMode::AllowList`].
    #[expect(non_upper_case_globals, reason = "it is used as a variant")]
    pub const Whitelist: NetworkMode = NetworkMode::AllowList;

    /// Whether the gate decides about each connection.
    #[must_use]
    pub fn is_gated(self) -> bool {
        matches!(self, NetworkMode::AllowList | NetworkMode::Public)
    }
}

/// Which unix sockets a command can create or reach. The host's daemons (Docker, D-Bus, ssh-agent) listen on them,
/// and a read-only mount does not stop a program from connecting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnixSockets {
    /// `socket(AF_UNIX)` fails with EPERM; `socketpair` works.
    #[default]
    None,
    /// Stream sockets can be created; of the host's sockets, they connect only to the listed ones.
    Listed,
    /// Any whose path the command can see.
    All,
}

/// As many descriptors a process of a command has open at most, where nobody says how many, and no fewer than the caller allows.
pub const UNSAID_OPEN_FILES: u32 = 4096;
/// What the private /tmp and /dev/shm hold, where nobody says it.
pub const UNSAID_TMP_BYTES: u64 = 2 << 30;

/// How much of the machine can be used. `None` means that kennel sets no limit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// Bytes of memory for everything inside together.
    pub memory: Option<u64>,
    /// Bytes of swap on top; 0 by default when `memory` is set.
    pub swap: Option<u64>,
    /// CPU time, in CPUs: 1.5 is one and a half.
    pub cpus: Option<f64>,
    /// Wall-clock time after which everything inside is killed.
    pub wall_time: Option<Duration>,
    /// CPU time of each process.
    pub cpu_time: Option<Duration>,
    /// Number of processes and threads at once.
    pub pids: Option<u32>,
    /// Open descriptors of each process; `u32::MAX`: as many as the caller's. Unsaid, on Linux at most 4,096.
    pub open_files: Option<u32>,
    /// Bytes of the largest file that can be written.
    pub file_size: Option<u64>,
    /// Bytes of captured output, of each stream.
    pub output: Option<u64>,
    /// Bytes of the private `/tmp` and `/dev/shm` together.
    pub tmp_size: Option<u64>,
}

/// Which variables the command sees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvironmentPolicy {
    /// What the command starts from.
    pub base: EnvironmentBase,
    /// Names passed on from the caller even under [`EnvironmentBase::Clear`].
    pub pass: Vec<OsString>,
    /// Names never passed on.
    pub unset: Vec<OsString>,
    /// Variables to set to a value; these override the others.
    pub set: Vec<(OsString, OsString)>,
    /// What becomes of variables that look like secrets and are not named in `pass`.
    pub secrets: SecretVariables,
    /// Names of secrets beyond [those that kennel knows](crate::secret_variables::NAMES); `*` stands for anything.
    pub secret_names: Vec<OsString>,
}

/// What becomes of variables that look like secrets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SecretVariables {
    /// They stay outside.
    Withhold,
    /// They pass like the others.
    #[default]
    Pass,
}

/// What the command's environment starts from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EnvironmentBase {
    /// The caller's.
    #[default]
    Inherit,
    /// Only `PATH`, `HOME`, `USER`, `LANG`, `TERM` and similar variables.
    Clear,
}

/// Who the command is and how it starts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessPolicy {
    /// The directory the command starts in; the caller's working directory when `None`.
    pub workdir: Option<PathBuf>,
    /// Where it starts if the caller's working directory does not exist inside: the first of these that does, or `/`. A
    /// `workdir` that does not exist is an error.
    pub start_instead: Vec<PathBuf>,
    /// Who the command is inside.
    pub user: UserMode,
    /// The users inside, where there are several. One of them is the caller outside ([`ProcessPolicy::callers_user`]), the
    /// others are subordinate ids of the caller's.
    pub users: Vec<User>,
    /// Which of them the command starts as; the first by default.
    pub run_as: Option<String>,
    /// The host name inside.
    pub hostname: Option<String>,
    /// Which system calls the command can make.
    pub seccomp: SeccompProfile,
    /// Whether it can create its own namespaces and mount in them, as browsers, container tools and other sandboxes do.
    pub nested: NestedNamespaces,
    /// Descriptors above 2 that stay open, under the same numbers.
    pub keep_fds: Vec<u32>,
    /// Mach services that can be looked up besides those that every program needs; a `*` at the end stands for any rest
    /// (macOS).
    pub mach_services: Vec<String>,
}

impl ProcessPolicy {
    /// The one of several users who is the caller outside: the first that is not root, or else root. The files of the
    /// workspace are this one's.
    #[must_use]
    pub fn callers_user(&self) -> Option<&User> {
        self.users.iter().find(|user| user.uid != 0).or(self.users.first())
    }

    /// The one of several users that the command starts as.
    #[must_use]
    pub fn starts_as(&self) -> Option<&User> {
        let named = self.run_as.as_ref().and_then(|name| self.users.iter().find(|user| user.name == *name));
        named.or(self.users.first())
    }
}

/// Whether a command can create namespaces in its own. The kernel locks the mounts of the sandbox there; Landlock, which would
/// forbid all mounting, does not protect files then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NestedNamespaces {
    /// It cannot.
    #[default]
    Denied,
    /// It can. As root this is an error, because root cannot map itself into a namespace without a capability.
    Allowed,
    /// It can, except as root.
    AllowedIfPossible,
}

/// Who the command is inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UserMode {
    /// The caller's own user.
    #[default]
    Self_,
    /// User 0 of the sandbox's own user namespace, which is the caller outside; it has no capabilities.
    Root,
}

/// Which system calls a command can make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SeccompProfile {
    /// What a computation needs: no sockets but unix pairs, no ptrace, no new namespaces, few ioctls.
    Strict,
    /// What normal software needs.
    #[default]
    Default,
    /// All but what would undo the sandbox.
    Permissive,
    /// No filter.
    None,
}
