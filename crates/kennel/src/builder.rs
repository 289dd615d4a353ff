//! Builds the configuration of a sandbox step by step.
//!
//! A builder is a front end like the command line and settings files: it fills a [`Settings`], and [`merge`](kennel_policy::merge::merge) turns
//! that into the policy. No rule, default or check is written here. Paths are resolved at the time of the call, so
//! that a later change of the working directory or of `HOME` does not change what is protected.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kennel_policy::gateway::Budget;
use kennel_policy::merge::{Sources, merge_with};
use kennel_policy::ostext::split_once;
use kennel_policy::policy::{
    GitLevel, HomeMode, MountAccess, NetworkMode, OnReplace, Origin, Policy, Precedence, ProxyAddress,
    ReadModel, RootFsWrite, SeccompProfile, SecretVariables, TmpMode, UnixSockets, UserMode,
};
use kennel_policy::printed::show_lines;
use kennel_policy::settings::keys::{self, Key, Kind};
use kennel_policy::settings::{Base, ProviderEntry, SecretEntry, Settings, Stated, ValueError};

use crate::error::Cause;
use crate::home::Homes;
use crate::mirrors;
use crate::profiles;
use crate::sandbox::Extras;
use crate::settings_file;
use crate::{MountPoint, Permission, Result, Sandbox, SandboxConfig, SandboxError};

/// Builds the configuration of a sandbox step by step.
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
#[derive(Clone, Default)]
pub struct SandboxBuilder {
    settings: Settings,
    /// The working directory when a profile was named: its relative paths mean that one.
    profile_folder: Option<PathBuf>,
    extras: Extras,
    /// The first mistake, which [`SandboxBuilder::build`] reports.
    mistake: Option<String>,
}

impl fmt::Debug for SandboxBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not what was said: variables and proxies may hold secrets.
        f.debug_struct("SandboxBuilder").finish_non_exhaustive()
    }
}

/// Values whose type allows no mistake.
macro_rules! choices {
    ($($(#[$doc:meta])* $name:ident($argument:ident: $type:ty) => $section:ident.$field:ident = $value:expr;)*) => {
        $(
            $(#[$doc])*
            #[must_use]
            pub fn $name(mut self, $argument: $type) -> Self {
                self.settings.$section.$field = Some(stated($value, stringify!($name)));
                self
            }
        )*
    };
}

/// What is on or off.
macro_rules! switches {
    ($($(#[$doc:meta])* $name:ident => $key:literal;)*) => {
        $(
            $(#[$doc])*
            #[must_use]
            pub fn $name(self, yes: bool) -> Self {
                self.say(named!($key), if yes { "true" } else { "false" }.as_ref(), stringify!($name))
            }
        )*

        /// Each by its key.
        #[cfg(test)]
        const SWITCHES: &[(&str, fn(SandboxBuilder, bool) -> SandboxBuilder)] =
            &[$(($key, SandboxBuilder::$name)),*];
    };
}

/// The row of a key, which has to be there for this to compile.
macro_rules! named {
    ($key:literal) => {{
        static KEY: &Key = keys::named($key);
        KEY
    }};
}

/// Values that the table of keys checks.
macro_rules! values {
    ($($(#[$doc:meta])* $name:ident($argument:ident: $type:ty) => $key:literal, $text:expr;)*) => {
        $(
            $(#[$doc])*
            #[must_use]
            pub fn $name(self, $argument: $type) -> Self {
                self.say(named!($key), $text.as_ref(), stringify!($name))
            }
        )*
    };
}

impl SandboxBuilder {
    values! {
        /// Bytes of memory for everything inside together.
        memory_limit(bytes: u64) => "limits.memory", bytes.to_string();
        /// Bytes of swap on top of the memory limit; none by default.
        swap_limit(bytes: u64) => "limits.swap", bytes.to_string();
        /// CPU time, in CPUs: 1.5 is one and a half.
        cpu_limit(cpus: f64) => "limits.cpus", cpus.to_string();
        /// Wall-clock time after which everything inside is killed.
        wall_time_limit(limit: Duration) => "limits.timeout", seconds(limit);
        /// CPU time of each process, in whole seconds, rounded up.
        cpu_time_limit(limit: Duration) => "limits.cpu_time", seconds(limit);
        /// Number of processes and threads at once.
        max_pids(count: u32) => "limits.pids", count.to_string();
        /// Open descriptors of each process.
        max_open_files(count: u32) => "limits.open_files", count.to_string();
        /// Bytes of the largest file that can be written.
        max_file_size(bytes: u64) => "limits.file_size", bytes.to_string();
        /// Bytes of the private `/tmp` and `/dev/shm` together.
        tmp_size(bytes: u64) => "limits.tmp_size", bytes.to_string();
        /// Bytes captured of each output stream; the rest is dropped, and the result says so. 64 MiB by default.
        max_output(bytes: u64) => "limits.output", bytes.to_string();

        /// A path or glob that can be read. Here and in the other lists a relative path is relative to the working
        /// directory at the time of this call, `~` and `$HOME` are the caller's home, and other variables are an
        /// error.
        allow_read(path: impl AsRef<Path>) => "files.allow_read", path.as_ref();
        /// A path or glob that is hidden. Below `~` it is hidden both in the home that `HOME` names and in the one in
        /// the user database.
        deny_read(path: impl AsRef<Path>) => "files.deny_read", path.as_ref();
        /// A path or glob that can be written.
        allow_write(path: impl AsRef<Path>) => "files.allow_write", path.as_ref();
        /// A path or glob that cannot be written.
        deny_write(path: impl AsRef<Path>) => "files.deny_write", path.as_ref();
        /// A device of the host to add to the minimal set, such as `/dev/kvm`.
        device(path: impl AsRef<Path>) => "files.devices", path.as_ref();
        /// Graphics cards that the command may use: `all`, a number as `nvidia-smi` counts, or a maker (`nvidia`, `amd`, `intel`),
        /// which may have a number: `amd:0`.
        gpu(cards: impl AsRef<str>) => "files.gpus", cards.as_ref();
        /// A unix socket of the host, or a glob, that the command can connect to.
        allow_unix_socket(path: impl AsRef<Path>) => "network.allow_unix_sockets", path.as_ref();

        /// A host that can be reached, or requests that can be made, such as `GET docs.rs/*`. With allowed hosts the network
        /// mode is an allow list by default.
        allow_domain(host: impl AsRef<str>) => "network.allow", host.as_ref();
        /// A registry to download from, such as `npm`, or several with commas between them; `packages` is all package
        /// registries. Its download hosts are allowed, and those that the caller's own settings of its tools name instead.
        allow_registry(names: impl AsRef<str>) => "network.allow_registries", names.as_ref();
        /// A host that cannot be reached even if allowed; checked first.
        deny_domain(host: impl AsRef<str>) => "network.deny", host.as_ref();
        /// An allowed host whose TLS connections end at the gate, so that it can read them; `*` is all of them. The hosts of
        /// secrets and of rules about requests are among them without being named.
        terminate(host: impl AsRef<str>) => "network.terminate", host.as_ref();
        /// A host whose TLS connections never end at the gate.
        no_terminate(host: impl AsRef<str>) => "network.no_terminate", host.as_ref();
        /// A file with certificates that servers are verified against, where TLS ends at the gate, beside the host's own.
        extra_ca(file: impl AsRef<Path>) => "network.extra_ca", file.as_ref();
        /// A secret that commands use without holding it: `NAME[=FROM][@HOST,…]`, as the command line's `--secret`. For more
        /// than that see [`secret_rule`](SandboxBuilder::secret_rule).
        secret(secret: impl AsRef<OsStr>) => "secrets", secret.as_ref();

        /// A provider of models that clients inside reach without its key: `anthropic`, `openai` and others, or several with
        /// commas between them. The real key comes from the caller's variable of the usual name. For more than that see
        /// [`provider`](SandboxBuilder::provider).
        gateway(providers: impl AsRef<str>) => "gateway.NAME", providers.as_ref();
        /// What a million tokens of a model cost: `MODEL=INPUT/OUTPUT[/CACHE_READ[/CACHE_WRITE]]`; a name may end in `*`.
        gateway_price(price: impl AsRef<str>) => "gateway.prices", price.as_ref();
        /// A file that requests to models are logged to, one line of JSON each.
        gateway_log(file: impl AsRef<Path>) => "gateway.log", file.as_ref();

        /// How many bytes may leave or come in: `egress=50M`, `ingress=github.com=5M`, `egress_rate=1M/s` or `ingress_rate=1M/s`;
        /// each is in total or of a host. In a session it is for all its commands together.
        traffic_budget(limit: impl AsRef<str>) => "network.budget", limit.as_ref();
        /// Port of an HTTP proxy on the host's loopback that serves the command instead of kennel's.
        http_proxy_port(port: u16) => "network.http_proxy_port", port.to_string();
        /// The same for SOCKS.
        socks_proxy_port(port: u16) => "network.socks_proxy_port", port.to_string();
        /// How long to wait for an answer about a host before refusing it. A minute by default.
        ask_timeout(time: Duration) => "network.ask_timeout", seconds(time);

        /// A variable of the caller that is kept even when the others are not, or when it looks like a secret.
        pass_env(name: impl AsRef<OsStr>) => "environment.pass", name.as_ref();
        /// A name of variables to take for secrets, beyond those that kennel knows; `*` stands for anything.
        secret_name(name: impl AsRef<OsStr>) => "environment.secret_names", name.as_ref();
        /// A variable of the caller that is not passed on.
        unset_env(name: impl AsRef<OsStr>) => "environment.unset", name.as_ref();

        /// The directory commands start in; a relative path is relative to the working directory at the time of this
        /// call.
        working_dir(path: impl AsRef<Path>) => "process.workdir", path.as_ref();
        /// Which of [`users`](SandboxBuilder::users) commands start as; the first by default.
        run_as(name: impl AsRef<str>) => "process.run_as", name.as_ref();
        /// The folder that is the root inside. Of the host only what other rules allow is there, at the same paths; writes go to
        /// a layer in memory, unless [`rootfs_write`](SandboxBuilder::rootfs_write) says otherwise.
        rootfs(path: impl AsRef<Path>) => "files.rootfs", path.as_ref();
        /// The host name inside.
        hostname(name: impl AsRef<str>) => "process.hostname", name.as_ref();
    }

    switches! {
        /// Let a TLS or HTTP client name a different host than the one it connected to.
        allow_sni_mismatch => "network.allow_sni_mismatch";
        /// Let a TLS client encrypt the server's name (ECH), as browsers do; kennel then cannot compare it.
        allow_ech => "network.allow_ech";
        /// Whether the sandbox's certificate is shown in the system's certificate bundles too, for programs that read no
        /// variable.
        system_bundles => "network.system_bundles";
        /// Refuse to start if a home folder, or a folder above one, is writable.
        refuse_home => "files.refuse_home";
        /// Give package managers and compilers writable caches: layers above the host's, kept for each project.
        caches => "files.caches";
        /// Whether the host's `/run` is visible inside; most of the host's daemons listen there.
        host_run => "files.host_run";
        /// With listed reads: whether the minimal system set (`/usr`, `/bin`, `/lib*`, parts of `/etc`) is added.
        system_files => "files.system";
        /// Run without protections this host cannot enforce; the result lists them.
        best_effort => "best_effort";
    }

    choices! {
        /// Which network the sandbox uses.
        network_mode(mode: NetworkMode) => network.mode = mode;
        /// Whether commands can create unix sockets, and whether they can connect to listed sockets or to all of the
        /// host's daemons.
        unix_sockets(sockets: UnixSockets) => network.unix_sockets = sockets;
        /// How much the gateway may be used.
        gateway_budget(budget: Budget) => gateway.budget = budget;
        /// Whether the gateway's log holds what was asked and answered.
        gateway_log_contents(yes: bool) => gateway.log_contents = yes;
        /// Which system calls commands can make.
        seccomp_profile(profile: SeccompProfile) => process.seccomp = profile;
        /// Let commands create namespaces in their own, as browsers, `bwrap` and other sandboxes do. Not as root.
        nested(yes: bool) => process.nested = yes;
        /// User 0 inside, without capabilities.
        root_inside(root: bool) => process.user = if root { UserMode::Root } else { UserMode::Self_ };
        /// With a [`rootfs`](SandboxBuilder::rootfs): whether it is read-only, or has a layer above it to write to.
        rootfs_write(write: RootFsWrite) => files.rootfs_write = write;
        /// Which reads are allowed when no rule covers the path.
        reads(model: ReadModel) => files.reads = model;
        /// Which rule wins: the most specific one, or any deny of writing.
        precedence(precedence: Precedence) => files.precedence = precedence;
        /// Which parts of git repositories in writable folders stay read-only. Git on the host would run their hooks
        /// and more.
        git(level: GitLevel) => files.git = level;
        /// Keep names that shells, editors and agents obey read-only in writable folders, at every depth.
        protect_dotfiles(yes: bool) => files.protect_dotfiles = yes;
        /// What happens when the host replaces a denied path while a command runs: the new file is protected as the
        /// old one was, or the sandbox is killed.
        on_replace(action: OnReplace) => files.on_replace = action;
        /// Which `/tmp` commands see: a fresh one, or the host's under the usual file rules.
        tmp(mode: TmpMode) => files.tmp = mode;
        /// Which home commands see: a fresh one that shows what toolchains need, or the host's under the usual file rules.
        home(mode: HomeMode) => files.home = mode;
        /// Pass on only the caller's basic variables.
        clear_env(clear: bool) => environment.clear = clear;
        /// Whether variables of the caller's that look like secrets stay outside. By default they do with an allow list of
        /// hosts; [`pass_env`](SandboxBuilder::pass_env) passes one on.
        secret_variables(secrets: SecretVariables) => environment.secrets = secrets;
    }

    /// Sets any setting by its name, as a settings file or a flag does: `docs/settings.md` lists them. A list grows,
    /// a single value replaces the earlier one, and `unlimited` removes a limit that a profile sets.
    ///
    /// ```
    /// let sandbox = kennel::Sandbox::builder().profile("judge").setting("limits.timeout", "unlimited").build()?;
    /// assert_eq!(sandbox.policy().limits.wall_time, None);
    /// # Ok::<(), kennel::SandboxError>(())
    /// ```
    #[must_use]
    pub fn setting(self, key: &str, value: impl AsRef<OsStr>) -> Self {
        match keys::find(key) {
            Some(row) => self.say(row, value.as_ref(), key),
            // It says which name was probably meant.
            None => self.add(key, OsStr::new("/"), |settings, base, origin| {
                Ok(settings.say(key, value.as_ref(), base, origin)?)
            }),
        }
    }

    /// Starts from a profile: `judge` for a stranger's program, `agent` for a coding agent (or `claude`, `codex` and
    /// others for one of these), `build` for a build step, `data` for looking at data. Other settings override those of
    /// the profile, and lists grow. With a second call both hold; where they contradict each other, `build` says so. Its relative paths are relative to
    /// [`working_dir`](SandboxBuilder::working_dir), else to the working directory at the time of this call.
    ///
    /// Other names are the user's own profiles, `kennel/profiles/NAME.toml` in the configuration folder
    /// (`XDG_CONFIG_HOME`, or `~/.config`). A file there does not change what a built-in name means to a program, as it
    /// does on the command line.
    ///
    /// ```no_run
    /// let judge = kennel::Sandbox::builder().profile("judge").memory_limit(64 << 20).build()?;
    /// let verdict = judge.run_with_input("./submission", &[], b"3 4\n")?;
    /// # Ok::<(), kennel::SandboxError>(())
    /// ```
    #[must_use]
    pub fn profile(mut self, name: &str) -> Self {
        self.settings.profiles.push(stated(name.to_owned(), "profile"));
        match std::env::current_dir() {
            Ok(folder) => self.profile_folder = Some(folder),
            Err(error) => self.mistaken("profile", &error),
        }
        self
    }

    /// A secret that commands use, mostly without holding it; one of the same name is replaced. The value itself can be its
    /// source.
    ///
    /// ```
    /// use kennel::{SecretEntry, SecretSource};
    ///
    /// let mut key = SecretEntry::named("ACME_KEY", Default::default()).expect("a name");
    /// key.from = Some(SecretSource::Value(b"the real one".to_vec()));
    /// let policy = kennel::Sandbox::builder().secret_rule(key).terminate("acme.example.com").policy();
    /// assert!(policy.unwrap_err().to_string().contains("list the hosts that it is sent to"));
    /// ```
    #[must_use]
    pub fn secret_rule(mut self, secret: SecretEntry) -> Self {
        self.settings.secrets.retain(|other| other.name != secret.name);
        self.settings.secrets.push(secret);
        self
    }

    /// A provider of models that clients inside reach without its key; one of the same name is replaced.
    #[must_use]
    pub fn provider(mut self, provider: ProviderEntry) -> Self {
        self.settings.gateway.providers.retain(|other| other.name != provider.name);
        self.settings.gateway.providers.push(provider);
        self
    }

    /// Several users inside, such as `["root", "builder"]`: each is `name`, `name:uid` or `name:uid:gid`. The first that is
    /// not root is the caller outside, the others are the caller's subordinate ids.
    #[must_use]
    pub fn users<I: IntoIterator<Item: AsRef<str>>>(self, users: I) -> Self {
        users
            .into_iter()
            .fold(self, |builder, user| builder.say(named!("process.users"), user.as_ref().as_ref(), "users"))
    }

    /// Count resource usage even without a limit, if that requires no more than a cgroup of the sandbox's own.
    #[must_use]
    pub fn count_usage(mut self, yes: bool) -> Self {
        self.extras.count_usage = yes;
        self
    }

    /// A host path that appears inside.
    #[must_use]
    pub fn mount(self, mount: MountPoint) -> Self {
        let access = match mount.permission {
            Permission::ReadOnly => MountAccess::ReadOnly,
            Permission::ReadWrite => MountAccess::ReadWrite,
        };
        let (source, target) = (mount.source.into_os_string(), mount.target.into_os_string());
        self.add("mount", &source.clone(), |settings, base, origin| {
            // The place inside may start with a home of its own.
            let base = if speaks_of_home(&target) { &base_of(&target)? } else { base };
            Ok(settings.add_mount(&source, &target, access, base, origin)?)
        })
    }

    /// A fresh, empty, writable, in-memory folder.
    #[must_use]
    pub fn tmpfs(self, target: impl AsRef<Path>) -> Self {
        let target = target.as_ref().as_os_str();
        self.add(
            "tmpfs",
            target,
            |settings, base, origin| Ok(settings.add_tmpfs(target, None, base, origin)?),
        )
    }

    /// The same with a maximum size in bytes.
    #[must_use]
    pub fn tmpfs_of_size(self, target: impl AsRef<Path>, bytes: u64) -> Self {
        let target = target.as_ref().as_os_str();
        self.add("tmpfs_of_size", target, |settings, base, origin| {
            Ok(settings.add_tmpfs(target, Some(bytes), base, origin)?)
        })
    }

    /// Sets a variable inside.
    #[must_use]
    pub fn env(self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        let (name, value) = (name.as_ref(), value.as_ref());
        self.add(
            "env",
            OsStr::new("/"),
            |settings, _, origin| Ok(settings.set_variable(name, value, origin)?),
        )
    }

    /// A descriptor of the caller, above 2, that stays open for commands under the same number.
    #[must_use]
    pub fn keep_fd(self, fd: u32) -> Self {
        let text = OsString::from(fd.to_string());
        self.add("keep_fd", OsStr::new("/"), |settings, _, _| Ok(settings.keep_fd(&text)?))
    }

    /// Calls this function about hosts that no rule covers. The network mode is then an allow list by default.
    #[must_use]
    pub fn ask_about_hosts(
        mut self,
        ask: impl Fn(&crate::HostQuestion) -> crate::HostAnswer + Send + Sync + 'static,
    ) -> Self {
        self.extras.ask = Some(crate::AskAboutHosts::new(ask));
        self.settings.network.ask = Some(stated(true, "ask_about_hosts"));
        self
    }

    /// Publishes port `inside` of the sandbox as port `host` on this host's loopback; 0 means any free port, which
    /// [`Child::published`](crate::Child::published) returns.
    #[must_use]
    pub fn publish(self, host: u16, inside: u16) -> Self {
        self.say(named!("network.publish"), format!("{host}:{inside}").as_ref(), "publish")
    }

    /// The proxy that the gate connects through, such as `http://proxy.example.com:3128`, or `none`; and the hosts
    /// that are reached without it, as in `NO_PROXY`. By default the caller's own proxy variables apply.
    #[must_use]
    pub fn parent_proxy(mut self, address: impl Into<ProxyAddress>, no_proxy: impl Into<String>) -> Self {
        self.settings.network.parent_proxy = Some(stated(address.into(), "parent_proxy"));
        self.settings.network.no_proxy = Some(stated(no_proxy.into(), "parent_proxy"));
        self
    }

    /// A builder with these settings; a profile's relative paths are relative to `folder`.
    pub(crate) fn of(settings: Settings, folder: PathBuf) -> SandboxBuilder {
        SandboxBuilder { settings, profile_folder: Some(folder), ..SandboxBuilder::default() }
    }

    /// The policy that results from all settings.
    ///
    /// # Errors
    /// [`SandboxError::ConfigValidation`] when a setting is invalid.
    pub fn policy(self) -> Result<Policy> {
        self.into_policy().map(|(policy, _)| policy)
    }

    /// The sandbox.
    ///
    /// # Errors
    /// [`SandboxError::ConfigValidation`] when a setting is invalid; [`SandboxError::UnsupportedPlatform`] where
    /// kennel cannot run.
    pub fn build(self) -> Result<Sandbox> {
        let (policy, extras) = self.into_policy()?;
        Sandbox::new(policy, extras)
    }

    fn into_policy(self) -> Result<(Policy, Extras)> {
        if let Some(mistake) = self.mistake {
            return Err(SandboxError::ConfigValidation(mistake.into()));
        }
        let base = match self.profile_folder {
            // Only a profile has paths that are still relative.
            Some(folder) => Homes::of_this_process().base(folder),
            None => Base::default(),
        };
        let merged = merge_with(
            Sources::flags(base, self.settings),
            &profiles::of_this_process(),
            &mirrors::of_this_process(),
        )
        .map_err(|error| SandboxError::ConfigValidation(Cause::of(error)))?;
        Ok((merged.policy, self.extras))
    }

    fn say(self, key: &Key, text: &OsStr, method: &str) -> Self {
        // The source of a secret may be a path, behind its name.
        let source = split_once(text, b':').map(|(_, source)| source);
        let path = match key.kind {
            Kind::Secrets(_) => source.unwrap_or(OsStr::new("/")),
            Kind::Paths(..)
            | Kind::Folder(_)
            | Kind::Mounts(_)
            | Kind::Tmpfs(_)
            | Kind::Files(_)
            | Kind::File(_) => text,
            _ => OsStr::new("/"),
        };
        self.add(method, path, |settings, base, origin| Ok(key.kind.state(settings, text, base, origin)?))
    }

    /// Says something of which `path` is relative to this moment.
    fn add(
        mut self,
        method: &str,
        path: &OsStr,
        say: impl FnOnce(&mut Settings, &Base, Origin) -> std::result::Result<(), Mistake>,
    ) -> Self {
        let said = base_of(path).and_then(|base| say(&mut self.settings, &base, Origin(method.to_owned())));
        if let Err(mistake) = said {
            self.mistaken(method, &mistake);
        }
        self
    }

    fn mistaken(&mut self, method: &str, error: &dyn fmt::Display) {
        self.mistake.get_or_insert_with(|| show_lines(&format!("{method}: {error}")));
    }
}

/// Why something that was said means nothing.
#[derive(Debug, thiserror::Error)]
enum Mistake {
    #[error(transparent)]
    Value(#[from] ValueError),
    #[error("the working directory: {0}")]
    Folder(#[from] std::io::Error),
}

fn stated<T>(value: T, method: &str) -> Stated<T> {
    Stated { value, origin: Origin(method.to_owned()) }
}

/// A duration as a settings file would say it, exactly.
fn seconds(time: Duration) -> String {
    format!("{}.{:09}s", time.as_secs(), time.subsec_nanos())
}

fn speaks_of_home(text: &OsStr) -> bool {
    matches!(text.as_encoded_bytes().first(), Some(b'~' | b'$'))
}

/// What a path is relative to that is said now. The user database and the working directory are looked at only where
/// the text speaks of them.
fn base_of(text: &OsStr) -> std::result::Result<Base, Mistake> {
    let homes = if speaks_of_home(text) { Homes::of_this_process() } else { Homes::default() };
    let folder = if Path::new(text).has_root() { "/".into() } else { std::env::current_dir()? };
    Ok(homes.base(folder))
}

impl Sandbox {
    /// Returns a builder for a sandbox.
    #[must_use]
    pub fn builder() -> SandboxBuilder {
        SandboxBuilder::default()
    }

    /// A sandbox with this configuration.
    ///
    /// # Errors
    /// As [`SandboxBuilder::build`].
    pub fn with_config(config: SandboxConfig) -> Result<Sandbox> {
        SandboxBuilder::from(config).build()
    }

    /// A sandbox configured by a settings file, such as a `kennel.toml`. Relative paths in it are relative to its own
    /// folder. The caller trusts it: unlike a file that the command line finds in the working directory, it can
    /// loosen the defaults.
    ///
    /// # Errors
    /// [`SandboxError::ConfigValidation`] when it cannot be read or is
    /// invalid.
    pub fn from_settings(file: impl AsRef<Path>) -> Result<Sandbox> {
        SandboxBuilder::from_settings(file)?.build()
    }

    /// The same for text, TOML or JSON. Relative paths in it are relative to the working directory.
    ///
    /// ```
    /// let sandbox = kennel::Sandbox::from_settings_text("[limits]\ntimeout = \"10s\"\n[files]\ndeny_read = [\"/srv\"]\n")?;
    /// assert!(sandbox.run("true", &[])?.success());
    /// # Ok::<(), kennel::SandboxError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Sandbox::from_settings`].
    pub fn from_settings_text(text: &str) -> Result<Sandbox> {
        SandboxBuilder::from_settings_text(text)?.build()
    }
}

impl SandboxBuilder {
    /// Starts from a settings file; other settings override those of the file, and lists grow. See
    /// [`Sandbox::from_settings`].
    ///
    /// # Errors
    /// As there.
    pub fn from_settings(file: impl AsRef<Path>) -> Result<SandboxBuilder> {
        let (settings, base) = settings_file::settings(file.as_ref())?;
        Ok(SandboxBuilder::of(settings, base.folder))
    }

    /// The same for text. See [`Sandbox::from_settings_text`].
    ///
    /// # Errors
    /// As there.
    pub fn from_settings_text(text: &str) -> Result<SandboxBuilder> {
        let (settings, base) = settings_file::settings_text(text)?;
        Ok(SandboxBuilder::of(settings, base.folder))
    }
}

impl From<SandboxConfig> for SandboxBuilder {
    fn from(config: SandboxConfig) -> SandboxBuilder {
        /// Says what there is to say.
        fn say<T>(
            builder: SandboxBuilder,
            value: Option<T>,
            say: fn(SandboxBuilder, T) -> SandboxBuilder,
        ) -> SandboxBuilder {
            match value {
                Some(value) => say(builder, value),
                None => builder,
            }
        }
        let mut builder = SandboxBuilder::default().seccomp_profile(config.seccomp_profile);
        // None is what holds as long as no host is allowed.
        let mode = Some(config.network_mode).filter(|mode| *mode != NetworkMode::None);
        builder = say(builder, mode, SandboxBuilder::network_mode);
        builder = say(builder, config.memory_limit, SandboxBuilder::memory_limit);
        builder = say(builder, config.cpu_limit, SandboxBuilder::cpu_limit);
        builder = say(builder, config.wall_time_limit, SandboxBuilder::wall_time_limit);
        builder = say(builder, config.max_pids, SandboxBuilder::max_pids);
        builder = say(builder, config.max_open_files, SandboxBuilder::max_open_files);
        builder = say(builder, config.working_dir, SandboxBuilder::working_dir);
        builder = config.mounts.into_iter().fold(builder, SandboxBuilder::mount);
        config.env_vars.into_iter().fold(builder, |builder, (name, value)| builder.env(name, value))
    }
}

#[cfg(test)]
mod tests;
