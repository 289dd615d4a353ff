//! What of a policy Windows can enforce with a job and a restricted token, key by key.
//!
//! Windows has no mount namespace and no network namespace, and what an ordinary user can do to files' access lists would
//! change the host's own. So a command either writes nowhere but in its private folder for temporary files, which a restricted
//! token enforces ([`TokenKind::NoWrites`]), or, with best effort only, wherever its user can ([`TokenKind::UserWrites`]).
//! There is no middle.
//!
//! [`ROWS`] is what `kennel plan`, `kennel doctor` and the documentation show. [`lacks`] is what refuses a policy: it takes
//! [`Policy`] apart without a rest, so that a new field does not compile before it has a verdict here.

use kennel_policy::policy::{
    EnvironmentPolicy, FilePolicy, GitLevel, HomeMode, Limits, NestedNamespaces, NetworkMode, NetworkPolicy,
    Policy, ProcessPolicy, ReadModel, SeccompProfile, TmpMode, UnixSockets, UserMode,
};
use kennel_policy::secrets::TlsPolicy;

/// How far a key is kept on Windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All of it.
    Enforced,
    /// Some of its values; the others are an error, or best effort.
    Partly,
    /// Only with best effort, and then it can be evaded.
    BestEffort,
    /// An error, or with best effort without effect.
    Unavailable,
    /// It is about something that Windows does not have, or that holds anyway.
    NothingToDo,
}

impl Verdict {
    /// A word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Enforced => "enforced",
            Verdict::Partly => "partly",
            Verdict::BestEffort => "best effort",
            Verdict::Unavailable => "not available",
            Verdict::NothingToDo => "nothing to do",
        }
    }
}

/// What becomes of one key of the settings.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its full name.
    pub key: &'static str,
    /// How far it is kept.
    pub verdict: Verdict,
    /// By what, or why not.
    pub how: &'static str,
}

const fn row(key: &'static str, verdict: Verdict, how: &'static str) -> Row {
    Row { key, verdict, how }
}

use Verdict::{BestEffort, Enforced, NothingToDo, Partly, Unavailable};

/// Every key of the settings.
pub static ROWS: &[Row] = &[
    row("profile", NothingToDo, "only a name for other settings"),
    row("only", NothingToDo, "lists start anew before anything is enforced"),
    row("best_effort", Enforced, "what is not enforced is listed in the outcome"),
    row(
        "secrets",
        Unavailable,
        "kennel reads no sources of secrets on Windows; the command gets none of them",
    ),
    row("files.rootfs", Unavailable, "a root of its own needs a mount namespace"),
    row("files.rootfs_write", Unavailable, "as rootfs"),
    row(
        "files.reads",
        Partly,
        "open: what the user can read; listed needs an AppContainer, which kennel does not use yet",
    ),
    row(
        "files.deny_read",
        Unavailable,
        "a write-restricted token reads what its user can; needs an AppContainer",
    ),
    row("files.allow_read", NothingToDo, "open reads allow it"),
    row(
        "files.allow_write",
        BestEffort,
        "needs changes to the host's access lists, which kennel does not make: with best effort the command writes wherever its user can",
    ),
    row("files.deny_write", Partly, "without allow_write nothing is writable; with it not enforced"),
    row("files.precedence", NothingToDo, "there is one rule for all files"),
    row("files.git", Partly, "without allow_write nothing is writable; with it not enforced"),
    row("files.on_replace", NothingToDo, "rules do not hang on single files"),
    row("files.protect_dotfiles", Partly, "without allow_write nothing is writable; with it not enforced"),
    row("files.refuse_home", Partly, "without allow_write nothing is writable; with it not enforced"),
    row("files.mounts", Unavailable, "needs a mount namespace"),
    row("files.tmpfs", Unavailable, "needs a mount namespace"),
    row(
        "files.tmp",
        Partly,
        "private: TEMP and TMP name a new folder that is removed at the end; host needs allow_write",
    ),
    row("files.home", Unavailable, "a write-restricted token reads what its user can; needs an AppContainer"),
    row("files.caches", NothingToDo, "there are no layers: caches are as the rules for files say"),
    row("files.host_run", NothingToDo, "there is no /run"),
    row("files.system", NothingToDo, "open reads show the system"),
    row("files.devices", Unavailable, "there is no /dev"),
    row("files.gpus", NothingToDo, "nothing closes graphics cards"),
    row(
        "network.mode",
        Partly,
        "host: yes; none and allow-list need a firewall rule or an AppContainer: with best effort proxy variables, which a program can ignore",
    ),
    row(
        "network.allow",
        BestEffort,
        "proxy variables lead to the gate; a program can ignore them. Rules with a method are not available",
    ),
    row("network.allow_registries", BestEffort, "as allow"),
    row("network.deny", BestEffort, "as allow"),
    row("network.terminate", Unavailable, "the gate reads no TLS on Windows"),
    row("network.no_terminate", NothingToDo, "as terminate"),
    row("network.extra_ca", Unavailable, "as terminate"),
    row("network.system_bundles", Unavailable, "as terminate"),
    row("network.ask", Unavailable, "there is no terminal to ask on yet"),
    row("network.ask_timeout", NothingToDo, "as ask"),
    row("network.allow_sni_mismatch", BestEffort, "as allow"),
    row("network.allow_ech", BestEffort, "as allow"),
    row(
        "network.publish",
        Unavailable,
        "the command has the host's ports; there is none of its own to publish",
    ),
    row("network.parent_proxy", BestEffort, "as allow"),
    row("network.no_proxy", BestEffort, "as allow"),
    row("network.http_proxy_port", BestEffort, "as allow"),
    row("network.socks_proxy_port", BestEffort, "as allow"),
    row(
        "network.unix_sockets",
        Partly,
        "none: without allow_write the token cannot open sockets and pipes of others for writing; listed is not available",
    ),
    row("network.allow_unix_sockets", Unavailable, "needs a filter for single sockets"),
    row("network.budget", Unavailable, "a program can go past the gate, and then nothing counts it"),
    row("limits.memory", Enforced, "committed memory of the job; the sandbox is killed when it is used up"),
    row("limits.swap", Enforced, "added to memory: a job has one limit for both"),
    row("limits.cpus", Enforced, "CPU rate of the job, as a hard cap"),
    row("limits.timeout", Enforced, "the job is terminated"),
    row("limits.cpu_time", Enforced, "user time of each process; time in the kernel does not count"),
    row("limits.pids", Enforced, "processes of the job; threads do not count"),
    row("limits.open_files", Unavailable, "a job has no such limit"),
    row("limits.file_size", Unavailable, "a job has no such limit"),
    row("limits.output", Enforced, "kennel reads the output and drops the rest"),
    row("limits.tmp_size", Unavailable, "a folder has no size limit"),
    row("environment.clear", Enforced, "the command gets a block of its own"),
    row("environment.pass", Enforced, "the command gets a block of its own"),
    row("environment.unset", Enforced, "the command gets a block of its own"),
    row("environment.set", Enforced, "the command gets a block of its own"),
    row("environment.secrets", Enforced, "they are not in the block"),
    row("environment.secret_names", Enforced, "they are not in the block"),
    row("process.workdir", Enforced, "it starts there"),
    row("process.user", Partly, "self; there is no other root to be"),
    row("process.users", Unavailable, "there are no subordinate users"),
    row("process.run_as", Unavailable, "there are no subordinate users"),
    row("process.hostname", Unavailable, "a process has no host name of its own"),
    row(
        "process.seccomp",
        Partly,
        "strict is not available; the others ask for no more than the token denies",
    ),
    row("gateway.NAME", Unavailable, "the gate reads no TLS on Windows"),
    row("gateway.budget", NothingToDo, "as NAME"),
    row("gateway.prices", NothingToDo, "as NAME"),
    row("gateway.log", NothingToDo, "as NAME"),
    row("gateway.log_contents", NothingToDo, "as NAME"),
    row("process.nested", NothingToDo, "jobs nest, and each one inside is bound by the one around it"),
];

/// The row of a key.
#[must_use]
pub fn find(key: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.key == key)
}

/// What a policy asks and Windows cannot enforce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// The key.
    pub key: &'static str,
    /// What is not enforced, with the value that asks for it.
    pub what: String,
}

impl std::fmt::Display for Lack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.key, self.what)
    }
}

/// What the command's token lets it write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// Nothing but its private folder for temporary files: low integrity and restricting SIDs.
    NoWrites,
    /// What its user can. Privileges and the powers of administrators are gone all the same.
    UserWrites,
}

/// Which token a policy needs.
#[must_use]
pub fn token_kind(policy: &Policy) -> TokenKind {
    let files = &policy.files;
    if files.allow_write.is_empty() && files.tmp == TmpMode::Private {
        TokenKind::NoWrites
    } else {
        TokenKind::UserWrites
    }
}

/// Everything that a policy asks and Windows cannot enforce. Unless it is empty or the policy is content with best effort,
/// nothing starts.
#[must_use]
pub fn lacks(policy: &Policy) -> Vec<Lack> {
    let Policy { files, network, limits, environment, process, secrets, gateway, best_effort: _ } = policy;
    let mut lacks = Lacks(Vec::new());
    lacks.files(files, token_kind(policy));
    lacks.network(network, token_kind(policy));
    lacks.limits(limits);
    // All of it is enforced.
    let EnvironmentPolicy { base: _, pass: _, unset: _, set: _, secrets: _, secret_names: _ } = environment;
    lacks.process(process);
    // The gate's TLS needs a C compiler for Windows, which no lane has yet.
    lacks.add_if(!secrets.is_empty(), "secrets");
    if !gateway.providers.is_empty() {
        lacks.add("gateway.NAME", "there is no model gateway");
    }
    lacks.0
}

struct Lacks(Vec<Lack>);

impl Lacks {
    fn add(&mut self, key: &'static str, what: impl Into<String>) {
        self.0.push(Lack { key, what: what.into() });
    }

    fn add_if(&mut self, asked: bool, key: &'static str) {
        if asked {
            self.add(key, find(key).map_or("", |row| row.how));
        }
    }

    fn files(&mut self, files: &FilePolicy, token: TokenKind) {
        let FilePolicy {
            rootfs,
            reads,
            deny_read,
            // Open reads allow it; listed reads are refused as such.
            allow_read: _,
            allow_write,
            deny_write,
            kept_names,
            refuse_home,
            // These say how rules on single paths work, of which there are none.
            precedence: _,
            git,
            on_replace: _,
            other_names: _,
            mounts,
            tmpfs,
            tmp,
            home,
            // There are no layers.
            caches: _,
            // Neither exists.
            host_run: _,
            host_shm: _,
            system: _,
            devices,
            // Nothing closes them.
            gpus: _,
        } = files;
        self.add_if(rootfs.is_some(), "files.rootfs");
        if *reads == ReadModel::Listed {
            self.add("files.reads", "listed reads need an AppContainer; the command reads what its user can");
        }
        self.add_if(!deny_read.is_empty(), "files.deny_read");
        if let Some(rule) = allow_write.first() {
            let more = match allow_write.len() {
                1 => String::new(),
                count => format!(" and {} more", count - 1),
            };
            let path = rule.pattern.to_string();
            self.add(
                "files.allow_write",
                format!("writes are not limited to {path}{more}; the command writes wherever its user can"),
            );
        }
        if *tmp == TmpMode::Host {
            self.add("files.tmp", "writes are not limited to the host's folder for temporary files; the command writes wherever its user can");
        }
        self.add_if(*home == HomeMode::Private, "files.home");
        self.add_if(!mounts.is_empty(), "files.mounts");
        self.add_if(!tmpfs.is_empty(), "files.tmpfs");
        self.add_if(!devices.is_empty(), "files.devices");
        if token == TokenKind::NoWrites {
            return;
        }
        let unprotected = "the command writes wherever its user can";
        if !deny_write.is_empty() {
            self.add("files.deny_write", unprotected);
        }
        if *git != GitLevel::Off {
            self.add("files.git", unprotected);
        }
        if kept_names.is_some() {
            self.add("files.protect_dotfiles", unprotected);
        }
        if *refuse_home {
            self.add("files.refuse_home", unprotected);
        }
    }

    fn network(&mut self, network: &NetworkPolicy, token: TokenKind) {
        let NetworkPolicy {
            mode,
            // Rules of the gate: as enforced as the gate is.
            allow: _,
            deny: _,
            http,
            tls,
            ask,
            ask_timeout: _,
            allow_sni_mismatch: _,
            allow_ech: _,
            publish,
            parent_proxy: _,
            parent_proxy_by_kind: _,
            no_proxy: _,
            http_proxy_port: _,
            socks_proxy_port: _,
            unix_sockets,
            allow_unix_sockets,
            relays,
            budget,
            // How connections fail that are refused, of which there are none.
            no_network: _,
            // A network that is not closed is named by its mode, with the ports that a command can listen on.
            local_binding: _,
            // macOS's.
            trust_daemon: _,
        } = network;
        match mode {
            NetworkMode::Host => {}
            NetworkMode::None => self.add(
                "network.mode",
                "a network of its own needs an AppContainer; proxy variables lead nowhere, but a program can ignore them",
            ),
            NetworkMode::AllowList | NetworkMode::Public => self.add(
                "network.mode",
                "only proxy variables lead to the network gate, and a program can ignore them",
            ),
        }
        if !http.is_empty() {
            self.add("network.allow", "requests are not compared with rules");
        }
        if *tls != TlsPolicy::default() {
            self.add("network.terminate", "TLS connections are carried as they are");
        }
        self.add_if(*ask && *mode == NetworkMode::AllowList, "network.ask");
        self.add_if(!publish.is_empty(), "network.publish");
        self.add_if(!budget.is_empty(), "network.budget");
        if !relays.is_empty() {
            // No key of kennel's: srt's and Codex's settings ask for it.
            self.add("network.mode", "ports of the host's loopback are reached directly");
        }
        match unix_sockets {
            UnixSockets::None if token == TokenKind::UserWrites => {
                self.add(
                    "network.unix_sockets",
                    "sockets and pipes that the user can open stay open to the command",
                );
            }
            UnixSockets::Listed => self.add(
                "network.unix_sockets",
                "single sockets cannot be allowed: the command reaches what its token can open",
            ),
            UnixSockets::None | UnixSockets::All => {}
        }
        self.add_if(!allow_unix_sockets.is_empty(), "network.allow_unix_sockets");
    }

    fn limits(&mut self, limits: &Limits) {
        let Limits {
            memory: _,
            swap: _,
            cpus: _,
            wall_time: _,
            cpu_time: _,
            pids: _,
            open_files,
            file_size,
            output: _,
            tmp_size,
        } = limits;
        self.add_if(open_files.is_some_and(|count| count != u32::MAX), "limits.open_files");
        self.add_if(file_size.is_some(), "limits.file_size");
        self.add_if(tmp_size.is_some(), "limits.tmp_size");
    }

    fn process(&mut self, process: &ProcessPolicy) {
        let ProcessPolicy {
            workdir: _,
            start_instead: _,
            user,
            users,
            run_as,
            hostname,
            seccomp,
            nested,
            keep_fds,
            // macOS's.
            mach_services: _,
        } = process;
        if *user == UserMode::Root {
            self.add("process.user", "there is no root to be; the command is its caller");
        }
        self.add_if(!users.is_empty(), "process.users");
        self.add_if(run_as.is_some(), "process.run_as");
        self.add_if(hostname.is_some(), "process.hostname");
        if *seccomp == SeccompProfile::Strict {
            self.add("process.seccomp", "Windows has no filter for system calls");
        }
        match nested {
            NestedNamespaces::Denied | NestedNamespaces::Allowed | NestedNamespaces::AllowedIfPossible => {}
        }
        if !keep_fds.is_empty() {
            self.add("keep_fds", "handles beyond the standard streams are never passed on");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use kennel_policy::pattern::PathPattern;
    use kennel_policy::policy::{Missing, Origin, PathRule, SearchScope};
    use kennel_policy::settings::keys;

    use super::*;

    #[test]
    #[kennel_claim::claim("windows/all-or-an-error")]
    fn every_key_of_the_settings_has_one_verdict() {
        let known: BTreeSet<String> = keys::all().map(|(name, _)| name).collect();
        let judged: BTreeSet<String> = ROWS.iter().map(|row| row.key.to_owned()).collect();
        assert_eq!(judged, known);
        assert_eq!(ROWS.len(), known.len());
    }

    #[test]
    fn the_table_of_all_systems_says_the_same() {
        use kennel_policy::platforms::{PROMISES, Support};
        for promise in PROMISES {
            for key in promise.settings {
                let verdict = find(key).expect("every key has one").verdict;
                let agrees = match promise.windows.support {
                    Support::Enforced => !matches!(verdict, Verdict::Unavailable | Verdict::BestEffort),
                    Support::BestEffort | Support::NotAvailable => true,
                };
                assert!(agrees, "{}: {key} is {verdict:?}", promise.promise);
            }
        }
    }

    /// The table in docs/windows.md; `UPDATE_DOCS=1` writes it.
    #[test]
    fn the_page_shows_every_verdict() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/windows.md");
        let page = std::fs::read_to_string(path).expect("the page").replace("\r\n", "\n");
        let (begin, end) = ("<!-- settings -->\n", "<!-- /settings -->");
        let (before, rest) = page.split_once(begin).expect("the table's begin");
        let (_, after) = rest.split_once(end).expect("the table's end");
        let rows: String = ROWS
            .iter()
            .map(|row| format!("| `{}` | {} | {} |\n", row.key, row.verdict.word(), row.how))
            .collect();
        let wanted =
            format!("{before}{begin}| setting | | how, or why not |\n|---|---|---|\n{rows}{end}{after}");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, &wanted).expect("written");
            return;
        }
        assert!(page == wanted, "docs/windows.md is out of date; run with UPDATE_DOCS=1");
    }

    /// Nothing that Windows lacks: the host's network, everything readable, nothing writable.
    fn possible() -> Policy {
        let mut policy = Policy::default();
        policy.network.mode = NetworkMode::Host;
        policy
    }

    fn keys_of(policy: &Policy) -> Vec<&'static str> {
        lacks(policy).into_iter().map(|lack| lack.key).collect()
    }

    fn rule(path: &str) -> PathRule {
        PathRule {
            pattern: PathPattern::literal(path),
            missing: Missing::Skip,
            follow_link: true,
            lenient: false,
            without_exceptions: false,
            of_profile: false,
            look: SearchScope::Everywhere,
            origin: Origin("a test".into()),
        }
    }

    #[test]
    fn a_policy_that_windows_can_keep_lacks_nothing() {
        let mut policy = possible();
        policy.limits.memory = Some(1);
        policy.limits.pids = Some(1);
        policy.limits.cpus = Some(1.0);
        policy.files.deny_write = vec![rule("/x")];
        policy.files.git = GitLevel::HooksAndConfigReadOnly;
        assert_eq!(keys_of(&policy), [""; 0]);
        assert_eq!(token_kind(&policy), TokenKind::NoWrites);
    }

    #[test]
    fn the_default_policy_lacks_its_closed_network() {
        assert_eq!(keys_of(&Policy::default()), ["network.mode"]);
    }

    #[test]
    #[kennel_claim::claim("windows/all-or-an-error")]
    fn every_thing_that_windows_cannot_keep_is_named() {
        type Change = fn(&mut Policy);
        let changes: &[(&str, Change)] = &[
            ("files.reads", |policy| policy.files.reads = ReadModel::Listed),
            ("files.deny_read", |policy| policy.files.deny_read = vec![rule("/x")]),
            ("network.mode", |policy| policy.network.mode = NetworkMode::AllowList),
            ("network.unix_sockets", |policy| policy.network.unix_sockets = UnixSockets::Listed),
            ("network.allow_unix_sockets", |policy| policy.network.allow_unix_sockets = vec![rule("/x")]),
            ("files.devices", |policy| policy.files.devices = vec![rule("/dev/kvm")]),
            ("limits.open_files", |policy| policy.limits.open_files = Some(10)),
            ("limits.file_size", |policy| policy.limits.file_size = Some(10)),
            ("limits.tmp_size", |policy| policy.limits.tmp_size = Some(10)),
            ("network.terminate", |policy| policy.network.tls.system_bundles = true),
            ("files.home", |policy| policy.files.home = HomeMode::Private),
            ("process.user", |policy| policy.process.user = UserMode::Root),
            ("process.hostname", |policy| policy.process.hostname = Some("x".into())),
            ("process.run_as", |policy| policy.process.run_as = Some("x".into())),
            ("process.seccomp", |policy| policy.process.seccomp = SeccompProfile::Strict),
            ("keep_fds", |policy| policy.process.keep_fds = vec![3]),
        ];
        for (key, change) in changes {
            let mut policy = possible();
            change(&mut policy);
            assert_eq!(keys_of(&policy), [*key]);
        }
    }

    #[test]
    fn a_place_to_write_takes_every_protection_of_files_with_it() {
        let mut policy = possible();
        policy.files.allow_write = vec![rule("/x"), rule("/y")];
        policy.files.deny_write = vec![rule("/x/z")];
        policy.files.git = GitLevel::HooksReadOnly;
        policy.files.refuse_home = true;
        let expected = [
            "files.allow_write",
            "files.deny_write",
            "files.git",
            "files.refuse_home",
            "network.unix_sockets",
        ];
        assert_eq!(keys_of(&policy), expected);
        assert_eq!(token_kind(&policy), TokenKind::UserWrites);
        assert!(lacks(&policy)[0].what.contains("x and 1 more"), "{}", lacks(&policy)[0]);
    }
}
