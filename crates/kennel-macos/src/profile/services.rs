//! What programs need besides files and the network, each with its reason. `docs/macos.md` prints this table, and a test
//! compares the two.
//!
//! What is not here is refused, on purpose above all: `lsopen`, `appleevent-send` and launch services, which run programs
//! outside; the keychain and the pasteboard, which hold secrets; `com.apple.trustd`, which fetches addresses itself.

use kennel_policy::policy::ReadModel;
use kennel_policy::printed::show;

use super::ProfileError;
use super::network::{Network, Outbound};
use super::text::{Decision, Filters, Writer};

/// When a row holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Always.
    Always,
    /// If reads are open: it shows what files hold whatever the rules on files say.
    OpenReads,
    /// With a network, the gate's or the host's.
    AnyNetwork,
    /// With the host's network.
    HostNetwork,
    /// With the host's network, or where the policy asks for it (srt's `enableWeakerNetworkIsolation`).
    TrustDaemon,
}

impl When {
    /// In the words of the table.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            When::Always => "always",
            When::OpenReads => "open reads",
            When::AnyNetwork => "any network",
            When::HostNetwork => "host network",
            When::TrustDaemon => "host network, or asked for",
        }
    }
}

/// A row: what is allowed, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// The operation.
    pub operation: &'static str,
    /// To what: a filter, or nothing.
    pub filter: &'static str,
    /// When.
    pub when: When,
    /// What needs it.
    pub reason: &'static str,
}

const fn row(operation: &'static str, filter: &'static str, when: When, reason: &'static str) -> Service {
    Service { operation, filter, when, reason }
}

const SAME: &str = "(target same-sandbox)";
use When::{Always, AnyNetwork, HostNetwork, OpenReads, TrustDaemon};

/// The table.
pub const SERVICES: &[Service] = &[
    row("process-exec", "", Always, "to start programs; a set-id program is refused by the system"),
    row("process-fork", "", Always, "to start programs"),
    row("signal", SAME, Always, "shells and servers signal what they started"),
    row("process-info*", SAME, Always, "programs ask about themselves and their children"),
    row("mach-host*", "", Always, "how many processors there are: Node's os.cpus()"),
    row(
        "sysctl-read",
        "(sysctl-name-prefix \"hw.\")",
        Always,
        "what the machine is: processors, memory, page size",
    ),
    row("sysctl-read", "(sysctl-name-prefix \"machdep.cpu.\")", Always, "what the processor can do"),
    row("sysctl-read", "(sysctl-name \"machdep.ptrauth_enabled\")", Always, "language runtimes that compile"),
    row("sysctl-read", "(sysctl-name-prefix \"kern.os\")", Always, "which system this is"),
    row("sysctl-read", "(sysctl-name \"kern.version\")", Always, "which system this is"),
    row("sysctl-read", "(sysctl-name \"kern.hostname\")", Always, "shells print it"),
    row("sysctl-read", "(sysctl-name \"kern.argmax\")", Always, "xargs, make"),
    row("sysctl-read", "(sysctl-name \"kern.ngroups\")", Always, "look-ups of groups"),
    row(
        "sysctl-read",
        "(sysctl-name-prefix \"kern.max\")",
        Always,
        "how many files and processes there may be",
    ),
    row("sysctl-read", "(sysctl-name \"kern.boottime\")", Always, "programs that measure time"),
    row("sysctl-read", "(sysctl-name \"kern.usrstack64\")", Always, "language runtimes look for their stack"),
    row("sysctl-read", "(sysctl-name \"kern.secure_kernel\")", Always, "asked for when a program starts"),
    row("sysctl-read", "(sysctl-name \"kern.willshutdown\")", Always, "asked for by the system's libraries"),
    row("sysctl-read", "(sysctl-name \"kern.tcsm_available\")", Always, "V8 asks how threads are scheduled"),
    row("sysctl-read", "(sysctl-name \"kern.sysv.semmns\")", Always, "Python and OpenMP ask for semaphores"),
    row(
        "sysctl-read",
        "(sysctl-name-prefix \"kern.proc.pid.\")",
        Always,
        "debuggers and shells ask about a process; arguments and variables are not in it",
    ),
    row("sysctl-read", "(sysctl-name-prefix \"kern.proc.pgrp.\")", Always, "shells ask about their jobs"),
    row("sysctl-read", "(sysctl-name \"sysctl.proc_cputype\")", Always, "Rosetta"),
    row(
        "sysctl-read",
        "(sysctl-name \"security.mac.lockdown_mode_state\")",
        Always,
        "language runtimes that compile",
    ),
    row("sysctl-read", "(sysctl-name \"vm.loadavg\")", Always, "make and ninja"),
    row(
        "sysctl-read",
        "(sysctl-name-prefix \"net.routetable.\")",
        AnyNetwork,
        "which addresses the host has: getifaddrs",
    ),
    row(
        "sysctl-write",
        "(sysctl-name \"kern.tcsm_enable\")",
        Always,
        "V8 sets how its own threads are scheduled",
    ),
    row(
        "sysctl-write",
        "(sysctl-name \"kern.grade_cputype\")",
        Always,
        "Java asks about the processor by a call that counts as a write",
    ),
    row(
        "mach-lookup",
        "(global-name \"com.apple.system.opendirectoryd.libinfo\")",
        Always,
        "look-ups of users: getpwuid",
    ),
    row(
        "mach-lookup",
        "(global-name \"com.apple.system.opendirectoryd.membership\")",
        Always,
        "look-ups of groups",
    ),
    row(
        "mach-lookup",
        "(global-name \"com.apple.bsd.dirhelper\")",
        Always,
        "confstr fails with error 5 without it",
    ),
    row("mach-lookup", "(global-name \"com.apple.logd\")", Always, "to write to the log"),
    row("mach-lookup", "(global-name \"com.apple.system.logger\")", Always, "to write to the log"),
    row(
        "mach-lookup",
        "(global-name \"com.apple.system.notification_center\")",
        Always,
        "the system's libraries hear of changes of the time zone",
    ),
    row(
        "mach-lookup",
        "(global-name \"com.apple.PowerManagement.control\")",
        Always,
        "asked for by Node and Electron",
    ),
    row(
        "mach-lookup",
        "(global-name \"com.apple.FSEvents\")",
        OpenReads,
        "watchers of files; it tells names everywhere",
    ),
    row(
        "mach-lookup",
        "(global-name \"com.apple.cfprefsd.daemon\")",
        OpenReads,
        "preferences, which it reads for the caller",
    ),
    row(
        "mach-lookup",
        "(global-name \"com.apple.cfprefsd.agent\")",
        OpenReads,
        "preferences, which it reads for the caller",
    ),
    row("user-preference-read", "", OpenReads, "preferences"),
    row(
        "mach-lookup",
        "(global-name \"com.apple.SystemConfiguration.configd\")",
        AnyNetwork,
        "proxy settings: reqwest, Python",
    ),
    row("mach-lookup", "(global-name \"com.apple.dnssd.service\")", HostNetwork, "look-ups of names"),
    row(
        "mach-lookup",
        "(global-name \"com.apple.trustd\")",
        TrustDaemon,
        "certificates: Go, Swift; it fetches addresses itself",
    ),
    row(
        "mach-lookup",
        "(global-name \"com.apple.trustd.agent\")",
        TrustDaemon,
        "certificates: Go, Swift; it fetches addresses itself",
    ),
    row("network-outbound", "(literal \"/private/var/run/mDNSResponder\")", HostNetwork, "look-ups of names"),
    row("system-socket", "(socket-domain AF_ROUTE)", HostNetwork, "which way packets go"),
    row("ipc-posix-sem", "", Always, "Python's multiprocessing"),
    row("ipc-posix-shm*", "", Always, "OpenMP, Python's multiprocessing"),
    row(
        "iokit-open",
        "(iokit-registry-entry-class \"RootDomainUserClient\")",
        Always,
        "asked for by the system's libraries when they start",
    ),
    row("pseudo-tty", "", Always, "terminals of its own: script, tmux, expect"),
    row("file-ioctl", "(regex \"^/dev/ttys[0-9]+$\")", Always, "raw mode of a terminal that it was given"),
];

/// A device that every sandbox has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its path.
    pub path: &'static str,
    /// What for.
    pub reason: &'static str,
}

const fn device(path: &'static str, reason: &'static str) -> Device {
    Device { path, reason }
}

/// All that can be named below /dev.
pub const DEVICES: &[Device] = &[
    device("/dev/null", "nothing"),
    device("/dev/zero", "zeros"),
    device("/dev/random", "random numbers"),
    device("/dev/urandom", "random numbers"),
    device("/dev/tty", "the command's own terminal"),
    device("/dev/ptmx", "terminals of its own"),
    device("/dev/stdin", "its own streams"),
    device("/dev/stdout", "its own streams"),
    device("/dev/stderr", "its own streams"),
    device("/dev/dtracehelper", "asked for when a program starts"),
    device("/dev/autofs_nowait", "asked for by the system's libraries"),
];

/// Operations of the table that are written as they are.
pub(super) fn write(
    writer: &mut Writer,
    reads: ReadModel,
    network: &Network,
    added: &[String],
) -> Result<(), ProfileError> {
    writer.section("what programs need: docs/macos.md has the table");
    for name in added {
        let filters =
            Filters { reason: "the policy asks for it".to_owned(), text: vec![service_filter(name)?] };
        writer.rule(Decision::Allow, "mach-lookup", filters);
    }
    for service in SERVICES {
        let holds = match service.when {
            When::Always => true,
            When::OpenReads => reads == ReadModel::Open,
            When::AnyNetwork => network.outbound != Outbound::None,
            When::HostNetwork => network.outbound == Outbound::Host,
            When::TrustDaemon => network.trust_daemon,
        };
        if !holds {
            continue;
        }
        let reason = service.reason;
        match service.filter {
            "" => writer.all(Decision::Allow, service.operation, reason),
            filter => {
                let filters = Filters { reason: reason.to_owned(), text: vec![filter.to_owned()] };
                writer.rule(Decision::Allow, service.operation, filters);
            }
        }
    }
    Ok(())
}

/// Services that run programs outside, or hand out what a sandbox is kept from. No policy opens them.
const NEVER: &[&str] = &[
    "com.apple.coreservices.appleevents",
    "com.apple.coreservices.launchservicesd",
    "com.apple.coreservices.quarantine-resolver",
    "com.apple.lsd.",
    "com.apple.pboard",
    "com.apple.pasteboard.",
    "com.apple.security",
    "com.apple.SecurityServer",
    "com.apple.secd",
    "com.apple.tccd",
    "com.apple.xpc.",
];

/// Checks the name of a service that a policy adds, and writes its filter.
pub(super) fn service_filter(name: &str) -> Result<String, ProfileError> {
    let error = |what| {
        let (rule, help) = (format!("mach service {}", show(name.as_bytes())), "drop it");
        ProfileError::Network { rule, what, help }
    };
    let start = name.strip_suffix('*');
    let plain = start.unwrap_or(name);
    let sound = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@".contains(&byte);
    if plain.is_empty() || plain.len() > 256 || !plain.bytes().all(sound) {
        return Err(error("it is not the name of a service"));
    }
    let meets = |never: &&&str| plain.starts_with(**never) || (start.is_some() && never.starts_with(plain));
    if NEVER.iter().any(|never| meets(&never)) {
        return Err(error("it runs programs outside of the sandbox, or holds secrets"));
    }
    let kind = if start.is_some() { "global-name-prefix" } else { "global-name" };
    Ok(format!("({kind} \"{plain}\")"))
}

/// Devices, and terminals of the command's own.
pub(super) fn write_devices(writer: &mut Writer) {
    const ALL: &str = "file-read* file-read-metadata file-write* file-ioctl";
    writer.section("devices");
    for Device { path, reason } in DEVICES {
        let text = vec![format!("(literal \"{path}\")")];
        writer.rule(Decision::Allow, ALL, Filters { reason: (*reason).to_owned(), text });
    }
    let streams =
        Filters { reason: "its own streams".to_owned(), text: vec!["(subpath \"/dev/fd\")".to_owned()] };
    writer.rule(Decision::Allow, ALL, streams);
    // The user's other terminals are files of the same user: only those that were made inside are opened.
    let own = "(require-all (regex \"^/dev/ttys[0-9]+$\") (extension \"com.apple.sandbox.pty\"))";
    let terminals = Filters { reason: "terminals of its own".to_owned(), text: vec![own.to_owned()] };
    writer.rule(Decision::Allow, ALL, terminals);
    let names =
        Filters { reason: "folders on the way".to_owned(), text: vec!["(literal \"/dev\")".to_owned()] };
    writer.rule(Decision::Allow, "file-read* file-read-metadata", names);
}
