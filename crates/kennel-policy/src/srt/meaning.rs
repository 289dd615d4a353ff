//! What srt's settings mean, as a [`Policy`].

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{Entry, Mask, MaskSource, SrtSettings};
use crate::device::is_device;
use crate::domain::HostRule;
use crate::dotfiles;
use crate::pattern::PathPattern;
use crate::policy::{
    EnvironmentPolicy, FilePolicy, GitLevel, KeptIn, KeptNames, Missing, NestedNamespaces, NetworkMode,
    NetworkPolicy, Origin, PathRule, Policy, Precedence, ProcessPolicy, Reach, SearchScope, SeccompProfile,
    TmpMode, UnixSockets,
};
use crate::secrets::{AbsentSecret, MaskedFile, SecretMode, SecretRule, SecretSource, SwapIn, TlsPolicy};

/// Folders below the home that tools write to whatever they do.
const ALWAYS_WRITABLE: &[&str] = &[".npm/_logs", ".claude/debug"];

/// What a policy depends on besides the settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SrtContext {
    /// The caller's working directory.
    pub folder: PathBuf,
    /// The caller's home.
    pub home: Option<PathBuf>,
    /// Where the caller's variables want temporary files.
    pub wanted_tmp: Option<PathBuf>,
    /// The folder for temporary files that the host shares with every sandbox.
    pub shared_tmp: PathBuf,
    /// Whether `shared_tmp` is there.
    pub shared_tmp_exists: bool,
    /// Files that say what the next sandbox may do; they stay as they are.
    pub settings_files: Vec<PathBuf>,
    /// How many `GIT_CONFIG_KEY_…` the caller's environment has.
    pub git_config_count: u32,
}

impl SrtSettings {
    /// Adds what a file says that was merely found in the working directory: what it takes away, and nothing else.
    pub fn tighten(&mut self, found: SrtSettings) {
        self.deny_read.extend(found.deny_read);
        self.credentials.extend(found.credentials);
        self.deny_write.extend(found.deny_write);
        self.denied.extend(found.denied);
        self.unset.extend(found.unset);
        // What such a file masks is withheld: it names neither a secret to put into requests nor the hosts that get it.
        for mask in found.masks {
            match mask.source {
                MaskSource::Variable(name) => self.unset.push(name),
                MaskSource::File(path) => {
                    let entry = Entry { path, globs: Vec::new(), is_glob: false, origin: mask.origin };
                    self.credentials.push(entry);
                }
            }
        }
        self.search_depth = self.search_depth.max(found.search_depth);
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self, around: &SrtContext) -> Policy {
        Policy {
            files: if self.files_open { open_files() } else { self.files(around) },
            network: NetworkPolicy { tls: self.tls(), ..self.network() },
            secrets: self.secrets(),
            environment: self.environment(around),
            process: ProcessPolicy {
                seccomp: match self.nested_namespaces {
                    true => SeccompProfile::Permissive,
                    false => SeccompProfile::Default,
                },
                nested: match self.nested_namespaces {
                    true => NestedNamespaces::AllowedIfPossible,
                    false => NestedNamespaces::Denied,
                },
                mach_services: self.mach_services.clone(),
                ..ProcessPolicy::default()
            },
            best_effort: self.weaker,
            ..Policy::default()
        }
    }

    fn files(&self, around: &SrtContext) -> FilePolicy {
        let (devices, mut allow_write): (Vec<PathRule>, Vec<PathRule>) =
            rules(&self.allow_write, Missing::Skip, Follow::No)
                .into_iter()
                .partition(|rule| !rule.pattern.is_glob() && is_device(rule.pattern.as_path()));
        if around.shared_tmp_exists {
            allow_write.push(opened(&around.shared_tmp));
        }
        for name in ALWAYS_WRITABLE {
            if let Some(home) = &around.home {
                let path = home.join(name);
                // An explicit deny wins over what nobody asked for, unless what it hides was opened again.
                let reopened = |deny: &Entry| {
                    let opens = |allow: &&Entry| {
                        !allow.is_glob && deny.covers(&allow.path) && path.starts_with(&allow.path)
                    };
                    self.allow_read.iter().any(|allow| opens(&allow))
                };
                let hidden = self.deny_read.iter().any(|deny| deny.covers(&path) && !reopened(deny));
                if !hidden && !self.credentials.iter().any(|deny| deny.covers(&path)) {
                    allow_write.push(opened(&path));
                }
            }
        }
        let mut deny_write = rules(&self.deny_write, Missing::Skip, Follow::Yes);
        let settings = around.settings_files.iter().map(|file| implied(file, "the settings themselves"));
        deny_write.extend(settings);
        // What is not there yet can be made, and is hidden from the next sandbox on.
        let mut deny_read = rules(&self.credentials, Missing::Ignore, Follow::Yes);
        deny_read.iter_mut().for_each(|rule| rule.without_exceptions = true);
        deny_read.extend(rules(&self.deny_read, Missing::Ignore, Follow::Yes));
        FilePolicy {
            deny_read,
            allow_read: rules(&self.allow_read, Missing::Skip, Follow::Yes),
            allow_write,
            deny_write,
            // Whatever the settings say.
            kept_names: Some(KeptNames {
                folders: KeptIn::Start,
                names: dotfiles::OF_SRT,
                reach: Reach::Levels(self.search_depth),
                origin: Origin("protected in every sandbox".to_owned()),
            }),
            precedence: Precedence::DenyWrite,
            git: match self.allow_git_config {
                true => GitLevel::HooksReadOnly,
                false => GitLevel::HooksAndConfigReadOnly,
            },
            tmp: TmpMode::Host,
            host_run: true,
            devices,
            ..FilePolicy::default()
        }
    }

    fn network(&self) -> NetworkPolicy {
        NetworkPolicy {
            mode: NetworkMode::AllowList,
            allow: self.allowed.clone(),
            deny: self.denied.clone(),
            http_proxy_port: self.http_proxy_port,
            socks_proxy_port: self.socks_proxy_port,
            parent_proxy: self.parent_proxy.clone(),
            parent_proxy_by_kind: self.parent_proxy_by_kind.clone(),
            no_proxy: self.no_proxy.clone(),
            unix_sockets: match () {
                () if self.all_unix_sockets => UnixSockets::All,
                () if !self.unix_sockets.is_empty() => UnixSockets::Listed,
                () => UnixSockets::None,
            },
            allow_unix_sockets: match self.all_unix_sockets {
                true => Vec::new(),
                false => rules(&self.unix_sockets, Missing::Skip, Follow::Yes),
            },
            local_binding: self.local_binding,
            trust_daemon: self.trust_daemon,
            ..NetworkPolicy::default()
        }
    }

    /// The secrets: what is masked, wherever its stand-in arrives in a request.
    fn secrets(&self) -> Vec<SecretRule> {
        let mut everywhere: Vec<HostRule> = Vec::new();
        for rule in &self.allowed {
            let rule = HostRule { protocol: None, port: None, ..rule.clone() };
            if !everywhere.iter().any(|known| known.host == rule.host) {
                everywhere.push(rule);
            }
        }
        let secret = |mask: &Mask| {
            let (name, source, variable, files) = match &mask.source {
                MaskSource::Variable(name) => {
                    let text = name.to_string_lossy().into_owned();
                    (text, SecretSource::Env(name.clone()), Some(name.clone()), Vec::new())
                }
                MaskSource::File(path) => {
                    let files = vec![MaskedFile { path: path.clone(), rest: true }];
                    (path.display().to_string(), SecretSource::File(path.clone()), None, files)
                }
            };
            SecretRule {
                name,
                source,
                mode: SecretMode::Swap,
                hosts: mask.hosts.clone().unwrap_or_else(|| everywhere.clone()),
                variable,
                files,
                swap_in: SwapIn {
                    query: false,
                    body: true,
                    pass_encoded: true,
                    plaintext: self.plaintext_inject,
                    others: true,
                },
                parts: mask.parts.clone(),
                absent: AbsentSecret::Skip,
                origin: mask.origin.clone(),
            }
        };
        // The last entry about a source counts, and a deny more than any.
        let denied = |mask: &Mask| match &mask.source {
            MaskSource::Variable(name) => self.unset.contains(name),
            MaskSource::File(path) => self.credentials.iter().any(|deny| deny.covers(path)),
        };
        let last =
            |at: usize| !self.masks[at + 1..].iter().any(|later| later.source == self.masks[at].source);
        let counts = |(at, mask): &(usize, &Mask)| last(*at) && !denied(mask);
        self.masks.iter().enumerate().filter(counts).map(|(_, mask)| secret(mask)).collect()
    }

    fn tls(&self) -> TlsPolicy {
        let any = || vec![HostRule::any(Origin("network.tlsTerminate".to_owned()))];
        let common = TlsPolicy {
            strip_response_headers: self.strip_response_headers.clone(),
            refuse_opaque: self.refuse_opaque,
            require_host_match: self.require_host_match,
            aws: self.aws.clone(),
            ..TlsPolicy::default()
        };
        match &self.tls {
            // Every host that can be reached, also one that is allowed later.
            Some(tls) => TlsPolicy {
                terminate: any(),
                exclude: tls.exclude.clone(),
                extra_ca: tls.extra_ca.clone(),
                authority: tls.authority.clone(),
                max_connections: tls.max_tunnels,
                handshake_timeout: tls.handshake_timeout,
                ..common
            },
            // Nobody asked to read encrypted connections, not even those to hosts that get a secret.
            None if !self.masks.is_empty() => TlsPolicy { exclude: any(), ..common },
            None => common,
        }
    }

    /// What masks a variable.
    pub(super) fn masked_variable(&self, name: &str) -> Option<&Mask> {
        self.masks
            .iter()
            .find(|mask| matches!(&mask.source, MaskSource::Variable(variable) if variable == name))
    }

    fn environment(&self, around: &SrtContext) -> EnvironmentPolicy {
        let mut set: Vec<(OsString, OsString)> = vec![("SANDBOX_RUNTIME".into(), "1".into())];
        if !self.files_open {
            // Where the caller says. Otherwise every sandbox has a /dev/shm of its own, so there is always a place to write.
            let tmp = match &around.wanted_tmp {
                Some(wanted) => wanted,
                None if around.shared_tmp_exists => around.shared_tmp.as_path(),
                None => Path::new("/dev/shm"),
            };
            set.push(("TMPDIR".into(), tmp.into()));
        }
        for (name, port) in [
            ("CLAUDE_CODE_HOST_HTTP_PROXY_PORT", self.http_proxy_port),
            ("CLAUDE_CODE_HOST_SOCKS_PROXY_PORT", self.socks_proxy_port),
        ] {
            set.extend(port.map(|port| (name.into(), port.to_string().into())));
        }
        let mut count = around.git_config_count;
        let folders = self.safe_directories.iter().flat_map(|folder| [folder.clone(), format!("{folder}/*")]);
        for folder in folders {
            set.push((format!("GIT_CONFIG_KEY_{count}").into(), "safe.directory".into()));
            set.push((format!("GIT_CONFIG_VALUE_{count}").into(), folder.into()));
            count += 1;
        }
        if count > around.git_config_count {
            set.push(("GIT_CONFIG_COUNT".into(), count.to_string().into()));
        }
        EnvironmentPolicy { unset: self.unset.clone(), set, ..EnvironmentPolicy::default() }
    }
}

impl Entry {
    /// Whether it speaks of this path or of a folder above it.
    fn covers(&self, path: &Path) -> bool {
        path.ancestors().any(|above| self.path == above || self.globs.iter().any(|glob| glob.matches(above)))
    }
}

/// No rule about files at all.
fn open_files() -> FilePolicy {
    FilePolicy {
        allow_write: vec![implied(Path::new("/"), "filesystem.disabled")],
        tmp: TmpMode::Host,
        host_run: true,
        ..FilePolicy::default()
    }
}

/// Whether an entry that is a symlink stands for its target. What is denied is the thing, whatever its name; what is
/// allowed for writing is the name, since an earlier run may have made a link of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Follow {
    Yes,
    No,
}

fn rules(entries: &[Entry], missing: Missing, follow: Follow) -> Vec<PathRule> {
    let mut rules = Vec::new();
    for Entry { path, globs, is_glob, origin } in entries {
        let rule = |pattern, missing| PathRule {
            pattern,
            missing,
            follow_link: follow == Follow::Yes,
            lenient: true,
            without_exceptions: false,
            of_profile: false,
            look: if follow == Follow::No { SearchScope::InWorkdir } else { SearchScope::Everywhere },
            origin: origin.clone(),
        };
        // A text that reads as a glob names a path too, but only one that is there.
        let missing = if *is_glob { Missing::Ignore } else { missing };
        rules.push(rule(PathPattern::literal(path), missing));
        rules.extend(globs.iter().map(|glob| rule(glob.clone(), missing)));
    }
    rules
}

fn implied(path: &Path, why: &str) -> PathRule {
    PathRule {
        pattern: PathPattern::literal(path),
        missing: Missing::Skip,
        follow_link: true,
        lenient: true,
        without_exceptions: false,
        of_profile: false,
        look: SearchScope::Everywhere,
        origin: Origin(why.to_owned()),
    }
}

/// A place that is writable without being asked for. Others may write next to it, so a link there opens nothing.
fn opened(path: &Path) -> PathRule {
    PathRule { follow_link: false, look: SearchScope::Nowhere, ..implied(path, "always writable") }
}
