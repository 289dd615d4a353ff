//! What this host offers, and what to do about what it does not: for `kennel doctor`, and for errors that must say
//! the same.

use std::fs;
use std::path::Path;

pub use kennel_policy::host::{Finding, State};

use kennel_policy::platforms::{self, LinuxHost};

use rustix::process::DumpableBehavior;

use crate::cgroup::Controller;
use crate::landlock::Abi;

fn setting(name: &str) -> Option<String> {
    fs::read_to_string(Path::new("/proc/sys").join(name)).ok().map(|text| text.trim().to_owned())
}

/// Why user namespaces may be denied here, from the switches that deny them. Ordered by how often they do.
#[must_use]
pub fn namespace_denial() -> (String, String) {
    let dumpable = rustix::process::dumpable_behavior();
    if dumpable != Ok(DumpableBehavior::Dumpable) && !rustix::process::geteuid().is_root() {
        return (
            "this process is not dumpable, so its files in /proc, including the id maps, belong to root"
                .into(),
            "call prctl(PR_SET_DUMPABLE, 1) first, or start sandboxes from another process".into(),
        );
    }
    if setting("kernel/apparmor_restrict_unprivileged_userns").as_deref() == Some("1") {
        return (
            "AppArmor restricts unprivileged user namespaces (kernel.apparmor_restrict_unprivileged_userns = 1)".into(),
            "install an AppArmor profile that allows `userns` for the kennel binary (docs/install.md has one), or \
             run `sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0`"
                .into(),
        );
    }
    if setting("kernel/unprivileged_userns_clone").as_deref() == Some("0") {
        return (
            "unprivileged user namespaces are switched off (kernel.unprivileged_userns_clone = 0)".into(),
            "run `sudo sysctl kernel.unprivileged_userns_clone=1`".into(),
        );
    }
    if setting("user/max_user_namespaces").as_deref() == Some("0") {
        return (
            "user namespaces cannot be created (user.max_user_namespaces = 0)".into(),
            "run `sudo sysctl user.max_user_namespaces=15000`".into(),
        );
    }
    if in_container() {
        return (
            "the container's seccomp or AppArmor profile, or a sandbox around this one, denies namespaces"
                .into(),
            "start the container with `--security-opt seccomp=unconfined --security-opt apparmor=unconfined \
             --security-opt systempaths=unconfined`, the sandbox with `process.nested`, or use `best_effort`"
                .into(),
        );
    }
    if let Some(profile) = apparmor_profile() {
        return (
            format!("the AppArmor profile `{profile}` confines this process, and does not allow it namespaces"),
            "install an AppArmor profile that allows `userns` for the kennel binary (docs/install.md has one), or \
             start kennel outside of that profile"
                .into(),
        );
    }
    (
        "the kernel denies user namespaces to this process".into(),
        "inside another sandbox of kennel, start that with `process.nested`; otherwise check for a seccomp filter or a security module \
         that restricts it, or use `best_effort` to run without them"
            .into(),
    )
}

/// The AppArmor profile that confines this process, if one does.
fn apparmor_profile() -> Option<String> {
    // The first is AppArmor's own since 5.8; the other belongs to whichever security module is the main one.
    let label = fs::read_to_string("/proc/self/attr/apparmor/current")
        .or_else(|_| fs::read_to_string("/proc/self/attr/current"))
        .ok()?;
    confining(&label)
}

/// `NAME (enforce)` → NAME. A label without a mode is no profile of AppArmor's; the other modes deny nothing.
fn confining(label: &str) -> Option<String> {
    Some(label.trim_end_matches(['\n', '\0']).strip_suffix(" (enforce)")?.to_owned())
}

fn in_container() -> bool {
    Path::new("/.dockerenv").exists()
        || Path::new("/run/.containerenv").exists()
        || std::env::var_os("container").is_some()
}

/// Looks at everything. `trial` runs a command that does nothing in a sandbox with the default policy, and says what
/// came of it.
pub fn findings(trial: impl FnOnce() -> Result<(), String>) -> Vec<Finding> {
    let cgroups_here = crate::cgroup::Host::probe();
    let mut list =
        vec![kernel(), namespaces(), landlock(), seccomp(), cgroups(&cgroups_here), crate::users::finding()];
    list.push(match trial() {
        Ok(()) => Finding {
            subject: "sandbox",
            state: State::Good,
            detail: "a command ran with the default policy".into(),
            remedy: None,
        },
        Err(error) => Finding {
            subject: "sandbox",
            state: State::Missing,
            detail: error,
            remedy: Some(
                "fix what the lines above report, or use `best_effort` to run with what is available".into(),
            ),
        },
    });
    let is_good =
        |subject: &str| list.iter().any(|finding| finding.subject == subject && finding.state == State::Good);
    let host = LinuxHost {
        kernel: version(),
        landlock: Abi::of_this_kernel().number(),
        // The trial fails where one of them can be made and nothing be mounted in it.
        namespaces: is_good("namespaces") && is_good("sandbox"),
        seccomp: is_good("seccomp"),
        nftables: has_nftables(),
        memory: cgroups_here.has(Controller::Memory),
        cpu: cgroups_here.has(Controller::Cpu),
        pids: cgroups_here.has(Controller::Pids),
        subordinate_ids: is_good("users"),
    };
    list.push(platforms::finding_on_linux(&host));
    list
}

/// Whether the kernel has nftables, or a module that it loads when it is asked for them.
fn has_nftables() -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let lists = |name: &str| {
        fs::read_to_string(format!("/lib/modules/{release}/{name}"))
            .is_ok_and(|text| text.contains("/nf_tables.ko"))
    };
    Path::new("/sys/module/nf_tables").exists() || lists("modules.builtin") || lists("modules.dep")
}

/// The kernel's version: the first two of its numbers.
fn version() -> (u32, u32) {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn kernel() -> Finding {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let (state, remedy) = match version() {
        (0..=4, _) | (5, 0..=5) => (State::Missing, Some("kennel needs Linux 5.6 or later".to_owned())),
        (5, 6..=12) => (
            State::Weaker,
            Some("Linux 5.13 adds Landlock, which enforces the file rules a second time".into()),
        ),
        _ => (State::Good, None),
    };
    Finding { subject: "kernel", state, detail: format!("Linux {release}"), remedy }
}

fn namespaces() -> Finding {
    let refused = crate::launch::try_namespaces().err();
    match refused {
        None => Finding {
            subject: "namespaces",
            state: State::Good,
            detail: "user, mount, PID, IPC, UTS, cgroup and network namespaces can be created".into(),
            remedy: None,
        },
        Some(error) => {
            let (why, remedy) = namespace_denial();
            Finding {
                subject: "namespaces",
                state: State::Missing,
                detail: format!("{error}: {why}"),
                remedy: Some(remedy),
            }
        }
    }
}

fn landlock() -> Finding {
    let abi = Abi::of_this_kernel();
    let (state, detail, remedy) = match abi {
        Abi::None => (
            State::Weaker,
            "not available".to_owned(),
            Some("boot a kernel 5.13 or later with `landlock` in its `lsm=` list".to_owned()),
        ),
        newer if newer >= Abi::V6 => {
            let unix = if newer >= Abi::V9 { ", unix sockets by path" } else { "" };
            let udp = if newer >= Abi::V10 { ", UDP" } else { "" };
            (State::Good, format!("files, TCP{udp}, devices, signals and abstract sockets{unix}"), None)
        }
        older => {
            // From the table that docs/platforms.md is written from, up to the last level that a sandbox uses.
            let missing: Vec<&str> = platforms::LANDLOCK
                .iter()
                .filter(|level| level.abi > older.number() && level.abi <= Abi::V6.number())
                .map(|level| level.adds)
                .collect();
            (
                State::Weaker,
                format!("ABI {}: without {}", older.number(), missing.join("; ")),
                Some("Linux 6.12 adds them; the namespaces and mounts protect against the same".into()),
            )
        }
    };
    Finding { subject: "landlock", state, detail, remedy }
}

fn seccomp() -> Finding {
    let actions = setting("kernel/seccomp/actions_avail").unwrap_or_default();
    if actions.contains("errno") {
        Finding {
            subject: "seccomp",
            state: State::Good,
            detail: "system calls can be filtered".into(),
            remedy: None,
        }
    } else {
        Finding {
            subject: "seccomp",
            state: State::Missing,
            detail: "not built into this kernel".into(),
            remedy: Some("boot a kernel with CONFIG_SECCOMP_FILTER".into()),
        }
    }
}

fn cgroups(available: &crate::cgroup::Availability) -> Finding {
    let text = available.to_string();
    let missing = !available.is_complete();
    Finding {
        subject: "limits",
        state: if missing { State::Weaker } else { State::Good },
        detail: text.trim_end().replace('\n', "\n                     "),
        remedy: missing.then(|| "see docs/limits.md for how to get the missing controllers".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::confining;

    #[test]
    fn only_a_profile_in_enforce_mode_confines() {
        assert_eq!(confining("session (enforce)\n").as_deref(), Some("session"));
        for free in [
            "unconfined\n",
            "kennel (unconfined)\n",
            "x (complain)",
            "system_u:object_r:t:s0\0",
            "kernel",
            "",
        ] {
            assert_eq!(confining(free), None, "{free}");
        }
    }
}
