//! What a sandbox is to be, as a builder.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kennel_policy::domain::{HostRule, ListKind, without_password};
use kennel_policy::pattern::PathPattern;
use kennel_policy::policy::{
    EnvironmentBase, GitLevel, Look, Missing, MountAccess, NetworkMode, OnReplace, Origin, PathRule, Policy,
    ProxyAddress, PublishedPort, ReadModel, SeccompProfile, UnixSockets, UserMode,
};
use kennel_policy::printed::{show, show_lines};
use kennel_policy::settings::{Base, Sense};

use crate::home::Homes;
use crate::{Result, Sandbox, SandboxError};

/// Whether a mount can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Only read.
    ReadOnly,
    /// Read and written.
    ReadWrite,
}

/// A host path that appears inside, perhaps at another place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountPoint {
    /// The host's path.
    pub source: PathBuf,
    /// Where it appears inside.
    pub target: PathBuf,
    /// Whether it can be written.
    pub permission: Permission,
}

impl MountPoint {
    /// A host path that can be read inside.
    pub fn read_only(source: impl Into<PathBuf>, target: impl Into<PathBuf>) -> Self {
        MountPoint { source: source.into(), target: target.into(), permission: Permission::ReadOnly }
    }

    /// A host path that can be read and written inside.
    pub fn read_write(source: impl Into<PathBuf>, target: impl Into<PathBuf>) -> Self {
        MountPoint { source: source.into(), target: target.into(), permission: Permission::ReadWrite }
    }
}

/// All that a sandbox is. Made by a [`SandboxBuilder`], frozen in a [`Sandbox`].
#[derive(Clone, Debug)]
pub struct SandboxConfig {
    /// Host paths that appear inside.
    pub mounts: Vec<MountPoint>,
    /// Bytes of memory for everything inside together.
    pub memory_limit: Option<u64>,
    /// Bytes of swap on top of the memory; none when `None`.
    pub swap_limit: Option<u64>,
    /// CPUs' worth of time: 1.5 is one and a half.
    pub cpu_limit: Option<f64>,
    /// Wall-clock time until everything inside is killed.
    pub wall_time_limit: Option<Duration>,
    /// CPU time of one process, in whole seconds; what is between is rounded up.
    pub cpu_time_limit: Option<Duration>,
    /// Processes and threads at once.
    pub max_pids: Option<u32>,
    /// Open descriptors of one process.
    pub max_open_files: Option<u32>,
    /// Bytes of the largest file that can be written.
    pub max_file_size: Option<u64>,
    /// Bytes of the private `/tmp` and `/dev/shm` together.
    pub tmp_size: Option<u64>,
    /// The network the sandbox lives in.
    pub network_mode: NetworkMode,
    /// Hosts that can be reached in [`NetworkMode::Whitelist`].
    pub allowed_domains: Vec<String>,
    /// Hosts that cannot be reached even so.
    pub denied_domains: Vec<String>,
    /// Whom to ask about hosts that no rule speaks of, in [`NetworkMode::Whitelist`].
    #[cfg(target_os = "linux")]
    pub ask: Option<crate::AskAboutHosts>,
    /// How long an answer may take before it is a no; `None` for as long as it takes.
    pub ask_timeout: Option<Duration>,
    /// Whether a TLS or HTTP client can name another host than the one it connected to.
    pub allow_sni_mismatch: bool,
    /// Whether a TLS client can encrypt the name of the server it wants (ECH).
    pub allow_ech: bool,
    /// Ports of the inside that the host's loopback has too: the host's port, 0 for any free one, and the inside's.
    pub published_ports: Vec<(u16, u16)>,
    /// The proxy by which the gate goes out, such as `http://proxy.example.com:3128`, or `none`; the caller's own
    /// proxy variables when `None`.
    pub parent_proxy: Option<ProxyAddress>,
    /// Which hosts are reached without that proxy, as in `NO_PROXY`; the caller's own when `None`.
    pub no_proxy: Option<String>,
    /// A port of the host's loopback whose HTTP proxy serves the command in place of kennel's.
    pub http_proxy_port: Option<u16>,
    /// The same for SOCKS.
    pub socks_proxy_port: Option<u16>,
    /// Unix sockets of the host's that commands can connect to; with none, they can make no unix sockets.
    pub allowed_unix_sockets: Vec<PathBuf>,
    /// Variables that are set inside.
    pub env_vars: HashMap<String, String>,
    /// Whether the caller's other variables are kept out.
    pub clear_env: bool,
    /// Where commands start; the caller's working directory when `None`.
    pub working_dir: Option<PathBuf>,
    /// Which system calls commands can make.
    pub seccomp_profile: SeccompProfile,
    /// What can be read when no rule speaks of it.
    pub reads: ReadModel,
    /// Readable: carved out of `deny_read`, or listed. Paths and globs.
    pub allow_read: Vec<PathBuf>,
    /// Hidden.
    pub deny_read: Vec<PathBuf>,
    /// Writable.
    pub allow_write: Vec<PathBuf>,
    /// Read-only: carved out of `allow_write`.
    pub deny_write: Vec<PathBuf>,
    /// What stays read-only of the git repositories in what can be written.
    pub git: GitLevel,
    /// What happens when the host replaces a denied path while a command runs.
    pub on_replace: OnReplace,
    /// Bytes captured of each output stream; what comes after is dropped and noted.
    pub max_output: u64,
    /// Count what is used even where nothing limits it, if that takes no more than a cgroup of one's own.
    pub count_usage: bool,
    /// User 0 inside, instead of the caller's own number.
    pub root_inside: bool,
    /// Go on without what this host cannot enforce; the result lists it.
    pub best_effort: bool,
}

impl Default for SandboxConfig {
    fn default() -> Self {
        SandboxConfig {
            mounts: Vec::new(),
            memory_limit: None,
            swap_limit: None,
            cpu_limit: None,
            wall_time_limit: None,
            cpu_time_limit: None,
            max_pids: None,
            max_open_files: None,
            max_file_size: None,
            tmp_size: None,
            network_mode: NetworkMode::None,
            allowed_domains: Vec::new(),
            denied_domains: Vec::new(),
            #[cfg(target_os = "linux")]
            ask: None,
            ask_timeout: Some(Duration::from_secs(60)),
            allow_sni_mismatch: false,
            allow_ech: false,
            published_ports: Vec::new(),
            parent_proxy: None,
            no_proxy: None,
            http_proxy_port: None,
            socks_proxy_port: None,
            allowed_unix_sockets: Vec::new(),
            env_vars: HashMap::new(),
            clear_env: false,
            working_dir: None,
            seccomp_profile: SeccompProfile::Default,
            reads: ReadModel::Open,
            allow_read: Vec::new(),
            deny_read: Vec::new(),
            allow_write: Vec::new(),
            deny_write: Vec::new(),
            git: GitLevel::default(),
            on_replace: OnReplace::default(),
            max_output: 64 << 20,
            count_usage: false,
            root_inside: false,
            best_effort: false,
        }
    }
}

impl SandboxConfig {
    /// Makes every path what it means now, so that neither a later change of the working directory nor of `HOME` changes
    /// what is protected.
    ///
    /// # Errors
    /// [`SandboxError::ConfigValidation`] when one means nothing.
    pub(crate) fn settle(&mut self) -> Result<()> {
        for (list, name) in [
            (&mut self.allow_read, "allow_read"),
            (&mut self.deny_read, "deny_read"),
            (&mut self.allow_write, "allow_write"),
            (&mut self.deny_write, "deny_write"),
            (&mut self.allowed_unix_sockets, "allow_unix_socket"),
        ] {
            let mut settled = Vec::with_capacity(list.len());
            for path in &*list {
                settled.extend(said(path, name)?);
            }
            *list = settled;
        }
        for mount in &mut self.mounts {
            mount.source = said_path(&mount.source)?;
        }
        if let Some(folder) = &mut self.working_dir {
            *folder = said_path(folder)?;
        }
        Ok(())
    }

    /// The policy that says the same. Paths that are relative, or start with `~` or `$HOME`, are what they mean at the
    /// time of this call; a [`Sandbox`] asks once, when it is made.
    ///
    /// # Errors
    /// [`SandboxError::ConfigValidation`] when a path, a host or a limit makes no sense.
    pub fn policy(&self) -> Result<Policy> {
        let mut policy = Policy { best_effort: self.best_effort, ..Policy::default() };
        let files = &mut policy.files;
        files.reads = self.reads;
        files.allow_read = rules(&self.allow_read, "allow_read")?;
        files.deny_read = rules(&self.deny_read, "deny_read")?;
        files.allow_write = rules(&self.allow_write, "allow_write")?;
        files.deny_write = rules(&self.deny_write, "deny_write")?;
        files.git = self.git;
        files.on_replace = self.on_replace;
        for mount in &self.mounts {
            files.mounts.push(kennel_policy::policy::MountPoint {
                source: said_path(&mount.source)?,
                target: target(&mount.target)?,
                access: match mount.permission {
                    Permission::ReadOnly => MountAccess::ReadOnly,
                    Permission::ReadWrite => MountAccess::ReadWrite,
                },
                origin: Origin("mount".into()),
            });
        }
        policy.network.mode = self.network_mode;
        let hosts = |list: &[String], kind, name: &str| {
            let wrong = |host: &str, error| {
                SandboxError::ConfigValidation(format!("{name} {}: {error}", without_password(host)))
            };
            let rule = |host: &String| HostRule::parse(host, kind).map_err(|error| wrong(host, error));
            list.iter().map(rule).collect::<Result<Vec<_>>>()
        };
        policy.network.allow = hosts(&self.allowed_domains, ListKind::Allow, "allow_domain")?;
        policy.network.deny = hosts(&self.denied_domains, ListKind::Deny, "deny_domain")?;
        policy.network.ask_timeout = self.ask_timeout;
        policy.network.allow_sni_mismatch = self.allow_sni_mismatch;
        policy.network.allow_ech = self.allow_ech;
        policy.network.parent_proxy.clone_from(&self.parent_proxy);
        policy.network.no_proxy.clone_from(&self.no_proxy);
        policy.network.http_proxy_port = self.http_proxy_port;
        policy.network.socks_proxy_port = self.socks_proxy_port;
        for &(host, inside) in &self.published_ports {
            if inside == 0 || self.network_mode == NetworkMode::Host {
                let why =
                    if inside == 0 { "0 is no port inside" } else { "the sandbox is in the host's network" };
                return Err(SandboxError::ConfigValidation(format!("publish {host}:{inside}: {why}")));
            }
            policy.network.publish.push(PublishedPort { host, inside, origin: Origin("publish".into()) });
        }
        if !self.allowed_unix_sockets.is_empty() {
            policy.network.unix_sockets = UnixSockets::Listed;
            policy.network.allow_unix_sockets = rules(&self.allowed_unix_sockets, "allow_unix_socket")?;
        }
        let limits = &mut policy.limits;
        limits.memory = positive(self.memory_limit, "memory_limit")?;
        limits.cpus = match self.cpu_limit {
            Some(cpus) if !cpus.is_finite() || cpus <= 0.0 => {
                return Err(SandboxError::ConfigValidation(format!(
                    "cpu_limit {cpus}: not a number of CPUs"
                )));
            }
            cpus => cpus,
        };
        limits.swap = self.swap_limit;
        if self.swap_limit.is_some() && self.memory_limit.is_none() {
            return Err(SandboxError::ConfigValidation("swap_limit: it takes a memory_limit too".into()));
        }
        limits.wall_time = self.wall_time_limit;
        limits.cpu_time = self.cpu_time_limit;
        limits.file_size = self.max_file_size;
        limits.tmp_size = positive(self.tmp_size, "tmp_size")?;
        limits.pids = positive(self.max_pids, "max_pids")?;
        limits.open_files = positive(self.max_open_files, "max_open_files")?;
        limits.output = Some(self.max_output);
        if self.clear_env {
            policy.environment.base = EnvironmentBase::Clear;
        }
        for (name, value) in &self.env_vars {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                return Err(SandboxError::ConfigValidation(format!(
                    "env {name:?}: not the name of a variable"
                )));
            }
            policy.environment.set.push((OsString::from(name), OsString::from(value)));
        }
        policy.process.workdir = self.working_dir.as_deref().map(said_path).transpose()?;
        policy.process.seccomp = self.seccomp_profile;
        if self.root_inside {
            policy.process.user = UserMode::Root;
        }
        Ok(policy)
    }
}

fn positive<T: PartialEq + From<u8>>(limit: Option<T>, name: &str) -> Result<Option<T>> {
    match limit {
        Some(value) if value == T::from(0) => {
            Err(SandboxError::ConfigValidation(format!("{name} 0: nothing could run")))
        }
        limit => Ok(limit),
    }
}

fn invalid(what: &str, path: &Path, error: &dyn std::fmt::Display) -> SandboxError {
    let path = show(path.as_os_str().as_encoded_bytes());
    SandboxError::ConfigValidation(show_lines(&format!("{what} {path}: {error}")))
}

/// What a path is relative to that is said now.
fn base(path: &Path) -> Result<Base> {
    // The user database is looked at only where a home is spoken of.
    let of_home = matches!(path.as_os_str().as_encoded_bytes().first(), Some(b'~' | b'$'));
    let homes = if of_home { Homes::of_this_process() } else { Homes::default() };
    let folder = if path.has_root() { "/".into() } else { std::env::current_dir()? };
    Ok(homes.base(folder))
}

/// A path as it is meant now: absolute, and with the home for `~`. A later change of the working directory does not
/// move it.
pub(crate) fn said_path(path: &Path) -> Result<PathBuf> {
    base(path)?.path(path.as_os_str()).map_err(|error| invalid("path", path, &error))
}

/// The same for an entry of a list, which may be a glob, and a deny of more than one path.
fn said_patterns(path: &Path, list: &str) -> Result<Vec<PathPattern>> {
    let sense = if list.starts_with("deny") { Sense::Deny } else { Sense::Allow };
    base(path)?.patterns(path.as_os_str(), sense).map_err(|error| invalid(list, path, &error))
}

/// The same as texts that mean this at any time.
fn said(path: &Path, list: &str) -> Result<Vec<PathBuf>> {
    Ok(said_patterns(path, list)?.iter().map(|pattern| pattern.to_text().into()).collect())
}

fn target(path: &Path) -> Result<PathBuf> {
    if path.is_absolute() && path.components().all(|part| part != std::path::Component::ParentDir) {
        return said_path(path);
    }
    Err(invalid("mount at", path, &"not an absolute path"))
}

fn rules(paths: &[PathBuf], list: &str) -> Result<Vec<PathRule>> {
    let missing = if list == "allow_write" { Missing::Error } else { Missing::Skip };
    let rule = |pattern| {
        let origin = Origin(list.into());
        PathRule { pattern, missing, follow_link: true, lenient: false, look: Look::Everywhere, origin }
    };
    let mut rules = Vec::with_capacity(paths.len());
    for path in paths {
        rules.extend(said_patterns(path, list)?.into_iter().map(rule));
    }
    Ok(rules)
}

/// Says what a sandbox is to be, bit by bit.
///
/// ```
/// use kennel::{MountPoint, Sandbox, SeccompProfile};
///
/// let sandbox = Sandbox::builder()
///     .mount(MountPoint::read_only("/usr/share", "/data"))
///     .env("GREETING", "hello")
///     .seccomp_profile(SeccompProfile::Strict)
///     .build()?;
/// let result = sandbox.run("sh", &["-c", "test -d /data/doc && echo $GREETING"])?;
/// assert_eq!(result.stdout, "hello\n");
/// # Ok::<(), kennel::SandboxError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct SandboxBuilder {
    config: SandboxConfig,
    /// The first mistake, which [`SandboxBuilder::build`] tells.
    mistake: Option<String>,
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident($argument:ident: $type:ty) => $field:ident = $value:expr;)*) => {
        $(
            $(#[$doc])*
            #[must_use]
            pub fn $name(mut self, $argument: $type) -> Self {
                self.config.$field = $value;
                self
            }
        )*
    };
}

macro_rules! lists {
    ($($(#[$doc:meta])* $name:ident($type:ty) => $field:ident;)*) => {
        $(
            $(#[$doc])*
            #[must_use]
            pub fn $name(mut self, item: impl Into<$type>) -> Self {
                self.config.$field.push(item.into());
                self
            }
        )*
    };
}

macro_rules! paths {
    ($($(#[$doc:meta])* $name:ident => $field:ident;)*) => {
        $(
            $(#[$doc])*
            #[must_use]
            pub fn $name(mut self, path: impl Into<PathBuf>) -> Self {
                match said(&path.into(), stringify!($name)) {
                    Ok(paths) => self.config.$field.extend(paths),
                    Err(error) => self.mistaken(&error),
                }
                self
            }
        )*
    };
}

impl SandboxBuilder {
    setters! {
        /// Bytes of memory for everything inside together.
        memory_limit(bytes: u64) => memory_limit = Some(bytes);
        /// Bytes of swap on top of the memory limit; none unless said.
        swap_limit(bytes: u64) => swap_limit = Some(bytes);
        /// CPUs' worth of time.
        cpu_limit(cpus: f64) => cpu_limit = Some(cpus);
        /// Wall-clock time until everything inside is killed.
        wall_time_limit(limit: Duration) => wall_time_limit = Some(limit);
        /// CPU time of one process, in whole seconds.
        cpu_time_limit(limit: Duration) => cpu_time_limit = Some(limit);
        /// Processes and threads at once.
        max_pids(count: u32) => max_pids = Some(count);
        /// Open descriptors of one process.
        max_open_files(count: u32) => max_open_files = Some(count);
        /// Bytes of the largest file that can be written.
        max_file_size(bytes: u64) => max_file_size = Some(bytes);
        /// Bytes of the private `/tmp` and `/dev/shm` together.
        tmp_size(bytes: u64) => tmp_size = Some(bytes);
        /// The network the sandbox lives in.
        network_mode(mode: NetworkMode) => network_mode = mode;
        /// Which system calls commands can make.
        seccomp_profile(profile: SeccompProfile) => seccomp_profile = profile;
        /// What can be read when no rule speaks of it.
        reads(model: ReadModel) => reads = model;
        /// What stays read-only of the git repositories in what can be written, of which git on the host would run
        /// hooks and more.
        git(level: GitLevel) => git = level;
        /// What happens when the host replaces a denied path while a command runs: the new file is protected as the old
        /// one was, or the sandbox ends.
        on_replace(action: OnReplace) => on_replace = action;
        /// Bytes captured of each output stream.
        max_output(bytes: u64) => max_output = bytes;
        /// Count what is used even where nothing limits it, if that takes no more than a cgroup of one's own.
        count_usage(yes: bool) => count_usage = yes;
        /// Keep the caller's variables out, but for the basic ones.
        clear_env(clear: bool) => clear_env = clear;
        /// User 0 inside, without capabilities.
        root_inside(root: bool) => root_inside = root;
        /// Go on without what this host cannot enforce; the result lists it.
        best_effort(yes: bool) => best_effort = yes;
        /// How long whoever is asked about a host has for an answer, before it is a no.
        ask_timeout(time: Duration) => ask_timeout = Some(time);
        /// Let a TLS or HTTP client name another host than the one it connected to.
        allow_sni_mismatch(yes: bool) => allow_sni_mismatch = yes;
        /// Let a TLS client encrypt the name of the server it wants (ECH), as browsers do; it cannot be compared then.
        allow_ech(yes: bool) => allow_ech = yes;
        /// A port of the host's loopback whose HTTP proxy serves the command in place of kennel's.
        http_proxy_port(port: u16) => http_proxy_port = Some(port);
        /// The same for SOCKS.
        socks_proxy_port(port: u16) => socks_proxy_port = Some(port);
    }

    lists! {
        /// A host that can be reached in [`NetworkMode::Whitelist`].
        allow_domain(String) => allowed_domains;
        /// A host that cannot be reached even so; looked at first.
        deny_domain(String) => denied_domains;
    }

    paths! {
        /// A path or glob that can be read. Here as in the other lists a relative path is one of the working directory at
        /// the time of this call, `~` and `$HOME` are the caller's home, and other variables are an error.
        allow_read => allow_read;
        /// A path or glob that is hidden. Below `~` it is hidden in the home that `HOME` says and in that of the user
        /// database.
        deny_read => deny_read;
        /// A path or glob that can be written.
        allow_write => allow_write;
        /// A path or glob that cannot be written.
        deny_write => deny_write;
        /// A unix socket of the host's, or a glob, that can be connected to.
        allow_unix_socket => allowed_unix_sockets;
    }

    /// A host path that appears inside.
    #[must_use]
    pub fn mount(mut self, mount: MountPoint) -> Self {
        match said_path(&mount.source) {
            Ok(source) => self.config.mounts.push(MountPoint { source, ..mount }),
            Err(error) => self.mistaken(&error),
        }
        self
    }

    fn mistaken(&mut self, error: &SandboxError) {
        self.mistake.get_or_insert(error.to_string());
    }

    /// Starts from a built-in profile: `judge` for a stranger's program, `agent` for a coding agent, `build` for a
    /// build step, `data` for looking at data. Say it first: what is said later replaces what it says, and lists grow.
    /// See [`SandboxConfig::apply_profile`].
    ///
    /// ```no_run
    /// let judge = kennel::Sandbox::builder().profile("judge").memory_limit(64 << 20).build()?;
    /// let verdict = judge.run_with_input("./submission", &[], b"3 4\n")?;
    /// # Ok::<(), kennel::SandboxError>(())
    /// ```
    #[must_use]
    pub fn profile(mut self, name: &str) -> Self {
        if let Err(error) = self.config.apply_profile(name) {
            self.mistaken(&error);
        }
        self
    }

    /// Sets a variable inside.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.config.env_vars.insert(name.into(), value.into());
        self
    }

    /// Whom to ask about hosts that no rule speaks of, in [`NetworkMode::Whitelist`].
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn ask_about_hosts(
        mut self,
        ask: impl Fn(&crate::HostQuestion) -> crate::HostAnswer + Send + Sync + 'static,
    ) -> Self {
        self.config.ask = Some(crate::AskAboutHosts::new(ask));
        self
    }

    /// Makes port `inside` of the sandbox port `host` of this host's loopback; 0 is any free one, which
    /// [`Child::published`](crate::Child::published) tells.
    #[must_use]
    pub fn publish(mut self, host: u16, inside: u16) -> Self {
        self.config.published_ports.push((host, inside));
        self
    }

    /// The proxy by which the gate goes out, such as `http://proxy.example.com:3128`, or `none`; and the hosts that are
    /// reached without it, as in `NO_PROXY`. Unless said, the caller's own proxy variables hold.
    #[must_use]
    pub fn parent_proxy(mut self, address: impl Into<ProxyAddress>, no_proxy: impl Into<String>) -> Self {
        (self.config.parent_proxy, self.config.no_proxy) = (Some(address.into()), Some(no_proxy.into()));
        self
    }

    /// Where commands start; a relative path is one of the working directory at the time of this call.
    #[must_use]
    pub fn working_dir(mut self, path: impl Into<PathBuf>) -> Self {
        match said_path(&path.into()) {
            Ok(path) => self.config.working_dir = Some(path),
            Err(error) => self.mistaken(&error),
        }
        self
    }

    /// The sandbox.
    ///
    /// # Errors
    /// [`SandboxError::ConfigValidation`] when something makes no sense; [`SandboxError::UnsupportedPlatform`] where
    /// kennel cannot run.
    pub fn build(self) -> Result<Sandbox> {
        match self.mistake {
            Some(mistake) => Err(SandboxError::ConfigValidation(mistake)),
            None => Sandbox::with_config(self.config),
        }
    }
}
