//! The table of promises. A new promise is a row; a platform that learns to keep one changes its cell here, and the page and
//! `kennel doctor` follow.

use super::Controller::{Cpu, Memory, Pids};
use super::Need::{Cgroup, Kernel, Landlock, Namespaces, Nftables, Seccomp, SubordinateIds};
use super::{KeptBy, LinuxWay, Need, Promise, Support};

const fn enforced(how: &'static str) -> KeptBy {
    KeptBy { support: Support::Enforced, how }
}

const fn best_effort(how: &'static str) -> KeptBy {
    KeptBy { support: Support::BestEffort, how }
}

const fn none(how: &'static str) -> KeptBy {
    KeptBy { support: Support::NotAvailable, how }
}

const fn with(needs: &'static [Need], kept: KeptBy) -> LinuxWay {
    LinuxWay { needs, kept }
}

/// Every promise, by subject.
pub const PROMISES: &[Promise] = &[
    // Files.
    Promise {
        group: "Files",
        promise: "only allowed paths can be written",
        settings: &["files.allow_write", "files.deny_write"],
        linux: &[
            with(&[Kernel(5, 6), Namespaces], enforced("read-only mounts")),
            with(
                &[Landlock(1), Seccomp],
                best_effort("Landlock alone; exceptions inside a write root are an error"),
            ),
        ],
        macos: enforced("Seatbelt, `file-write*` by path"),
        windows: best_effort(
            "without `allow_write` the token writes nowhere but in a private folder; with it, wherever the user can",
        ),
    },
    Promise {
        group: "Files",
        promise: "denied paths cannot be read",
        settings: &["files.deny_read"],
        linux: &[
            with(&[Kernel(5, 6), Namespaces], enforced("masked by mounts")),
            with(&[], none("Landlock cannot take back what open reads allow")),
        ],
        macos: enforced("Seatbelt, `file-read*` by path; hard links made earlier are other paths"),
        windows: none("a write-restricted token reads what its user can"),
    },
    Promise {
        group: "Files",
        promise: "with listed reads nothing else can be read",
        settings: &["files.reads", "files.allow_read"],
        linux: &[
            with(&[Kernel(5, 6), Namespaces], enforced("an empty root, with what is listed bound into it")),
            with(
                &[Landlock(1), Seccomp],
                best_effort("Landlock alone: contents are denied, names and metadata are not"),
            ),
        ],
        macos: enforced("Seatbelt; names of folders can be seen"),
        windows: none("requires an AppContainer, which kennel does not use"),
    },
    Promise {
        group: "Files",
        promise: "a denied path that does not exist cannot be created",
        settings: &["files.deny_read", "files.deny_write"],
        linux: &[
            with(
                &[Kernel(5, 9), Namespaces, Seccomp],
                enforced("the guard answers every call that makes a name"),
            ),
            with(&[], none("requires the guard")),
        ],
        macos: enforced("Seatbelt rules hold for names"),
        windows: none("access lists belong to files that exist"),
    },
    Promise {
        group: "Files",
        promise: "a denied path stays denied when the host replaces it",
        settings: &["files.on_replace"],
        linux: &[
            with(
                &[Kernel(5, 9), Namespaces, Seccomp],
                enforced("its folders are watched, and it is covered again"),
            ),
            with(&[], none("requires mounts")),
        ],
        macos: enforced("Seatbelt rules hold for names"),
        windows: none("rules do not hang on single files"),
    },
    Promise {
        group: "Files",
        promise: "a second mechanism repeats the file rules",
        settings: &[],
        linux: &[
            with(&[Landlock(3)], enforced("Landlock")),
            with(&[Landlock(2)], best_effort("Landlock without truncation; the mounts deny that")),
            with(&[Landlock(1)], best_effort("Landlock without moves between folders; the mounts deny that")),
            with(&[], none("no Landlock; the mounts hold alone")),
        ],
        macos: none("Seatbelt holds alone"),
        windows: none("the token holds alone"),
    },
    Promise {
        group: "Files",
        promise: "a root file system of its own, read-only",
        settings: &["files.rootfs"],
        linux: &[
            with(&[Kernel(5, 6), Namespaces], enforced("bound, and `pivot_root`")),
            with(&[], none("requires namespaces")),
        ],
        macos: none("there are no mount namespaces"),
        windows: none("there are no mount namespaces"),
    },
    Promise {
        group: "Files",
        promise: "a root file system with a writable layer",
        settings: &["files.rootfs_write"],
        linux: &[
            with(&[Kernel(6, 6), Namespaces], enforced("an overlay whose upper layer is in memory")),
            with(
                &[Kernel(5, 6), Namespaces],
                best_effort(
                    "the root is read-only: before Linux 6.6 a file system in memory cannot hold the layer",
                ),
            ),
            with(&[], none("requires namespaces")),
        ],
        macos: none("there are no mount namespaces"),
        windows: none("there are no mount namespaces"),
    },
    Promise {
        group: "Files",
        promise: "temporary files of its own",
        settings: &["files.tmp"],
        linux: &[
            with(&[Kernel(5, 6), Namespaces], enforced("a private /tmp, in memory")),
            with(&[], none("requires namespaces")),
        ],
        macos: enforced("a new folder that TMPDIR names; the host's /tmp is closed"),
        windows: enforced("a new folder that TEMP and TMP name"),
    },
    Promise {
        group: "Files",
        promise: "a home that shows only what is known to be needed",
        settings: &["files.home"],
        linux: &[
            with(
                &[Kernel(5, 6), Namespaces],
                enforced("a private home, in memory; other users' homes are closed"),
            ),
            with(&[], none("requires namespaces")),
        ],
        macos: enforced("Seatbelt, by path; what is not shown can be neither read nor written"),
        windows: none("a write-restricted token reads what its user can"),
    },
    Promise {
        group: "Files",
        promise: "mounts at other paths; folders in memory",
        settings: &["files.mounts", "files.tmpfs"],
        linux: &[
            with(&[Kernel(5, 6), Namespaces], enforced("mounts")),
            with(&[], none("requires namespaces")),
        ],
        macos: none("there are no mounts of a process's own"),
        windows: none("there are no mounts of a process's own"),
    },
    Promise {
        group: "Files",
        promise: "only harmless devices, and those allowed",
        settings: &["files.devices", "files.gpus"],
        linux: &[
            with(&[Kernel(5, 6), Namespaces], enforced("a /dev of its own; nodev elsewhere")),
            with(&[Landlock(1), Seccomp], best_effort("the host's /dev, by the file rules")),
        ],
        macos: enforced("Seatbelt, by path"),
        windows: none("there is no /dev"),
    },
    // Network.
    Promise {
        group: "Network",
        promise: "no network",
        settings: &["network.mode"],
        linux: &[
            with(&[Kernel(5, 6), Namespaces], enforced("a network namespace without interfaces")),
            with(&[Landlock(1), Seccomp], best_effort("the filter refuses internet sockets")),
        ],
        macos: enforced("Seatbelt without a rule for addresses"),
        windows: best_effort("proxy variables that lead nowhere; a program can ignore them"),
    },
    Promise {
        group: "Network",
        promise: "only allowed hosts, for programs that use proxies",
        settings: &["network.allow", "network.deny"],
        linux: &[
            with(&[Kernel(5, 6), Namespaces], enforced("the gate; nothing else leads out")),
            with(&[Landlock(4), Seccomp], best_effort("Landlock allows the gate's port on every address")),
            with(&[], none("requires namespaces, or Landlock's rules for TCP")),
        ],
        macos: enforced("the gate; Seatbelt allows its ports on the loopback alone"),
        windows: best_effort("proxy variables; a program can ignore them"),
    },
    Promise {
        group: "Network",
        promise: "only allowed hosts, for programs that know no proxy",
        settings: &["network.allow", "network.deny"],
        linux: &[
            with(&[Kernel(5, 6), Namespaces, Nftables], enforced("every connection arrives at the gate")),
            with(
                &[Kernel(5, 6), Namespaces],
                enforced("the gate, on ports that rules name and 22, 80, 443; others are refused"),
            ),
            with(&[], none("such programs have no network")),
        ],
        macos: none("such programs have no network"),
        windows: none("such programs have the host's network with best effort"),
    },
    Promise {
        group: "Network",
        promise: "ports inside are published, and only those",
        settings: &["network.publish"],
        linux: &[
            with(
                &[Kernel(5, 6), Namespaces],
                enforced("the controller carries connections into the network inside"),
            ),
            with(&[], none("requires a network namespace")),
        ],
        macos: enforced(
            "the profile lets the command listen on these ports of the loopback, at the same numbers",
        ),
        windows: none("the command has the host's ports"),
    },
    Promise {
        group: "Network",
        promise: "unix sockets of others only by listed paths",
        settings: &["network.unix_sockets", "network.allow_unix_sockets"],
        linux: &[
            with(&[Kernel(5, 9), Namespaces, Seccomp], enforced("the guard makes the connection")),
            with(&[], none("requires the guard (Linux 5.9) and namespaces")),
        ],
        macos: enforced("Seatbelt, by path"),
        windows: none("requires a filter for single sockets"),
    },
    Promise {
        group: "Network",
        promise: "only so many bytes leave and come in",
        settings: &["network.budget"],
        linux: &[
            with(
                &[Kernel(5, 6), Namespaces, Seccomp],
                enforced("the gate counts what it carries, and nothing goes past it"),
            ),
            with(&[], none("requires a network namespace and a filter")),
        ],
        macos: enforced("the gate counts what it carries; with published ports it is an error"),
        windows: none("a program can go past the gate"),
    },
    // Secrets.
    Promise {
        group: "Secrets",
        promise: "a secret is used without being held",
        settings: &["secrets"],
        linux: &[
            with(
                &[Kernel(5, 6), Namespaces],
                enforced("the gate puts real values into requests to their hosts"),
            ),
            with(&[], none("requires an allow list of hosts")),
        ],
        macos: enforced(
            "the gate puts real values into requests to their hosts; files are hidden, not masked",
        ),
        windows: none("the gate reads no TLS"),
    },
    Promise {
        group: "Secrets",
        promise: "models are reached without their keys, within a budget",
        settings: &["gateway.NAME", "gateway.budget"],
        linux: &[
            with(&[Kernel(5, 6), Namespaces], enforced("a gateway at an address that exists only inside")),
            with(&[], none("requires a network of the sandbox's own")),
        ],
        macos: enforced("a gateway on the loopback, with a token"),
        windows: none("the gate reads no TLS"),
    },
    Promise {
        group: "Secrets",
        promise: "only allowed requests can be made to a host",
        settings: &["network.allow", "network.terminate"],
        linux: &[
            with(&[Kernel(5, 6), Namespaces], enforced("the gate reads requests, also inside TLS")),
            with(&[], none("requires an allow list of hosts")),
        ],
        macos: enforced("the gate reads requests, also inside TLS"),
        windows: none("the gate reads no TLS"),
    },
    // Processes.
    Promise {
        group: "Processes",
        promise: "other processes can be neither seen nor signalled",
        settings: &[],
        linux: &[
            with(&[Kernel(5, 6), Namespaces], enforced("a PID namespace with a /proc of its own")),
            with(&[Landlock(6), Seccomp], best_effort("Landlock refuses signals; processes can be seen")),
            with(
                &[Landlock(1), Seccomp],
                best_effort("the filter refuses signals to others; processes can be seen"),
            ),
        ],
        macos: enforced("Seatbelt, `(target same-sandbox)`"),
        windows: best_effort("the token opens no process of a higher integrity level; names can be seen"),
    },
    Promise {
        group: "Processes",
        promise: "everything inside ends with the command, the timeout or the controller",
        settings: &["limits.timeout"],
        linux: &[
            with(&[Kernel(5, 6), Namespaces], enforced("PID 1 ends, and the kernel kills the rest")),
            with(&[], best_effort("the process group, and what can be found by its parents")),
        ],
        macos: best_effort("the process group, and what left it, by a ledger of descendants"),
        windows: enforced("the job is closed"),
    },
    Promise {
        group: "Processes",
        promise: "no privilege can be gained",
        settings: &["process.user"],
        linux: &[with(&[Kernel(5, 6)], enforced("no_new_privs; no capabilities"))],
        macos: enforced("Seatbelt refuses set-uid programs"),
        windows: enforced("a restricted token without privileges"),
    },
    Promise {
        group: "Processes",
        promise: "dangerous system calls are refused",
        settings: &["process.seccomp"],
        linux: &[with(&[Seccomp], enforced("a seccomp filter")), with(&[], none("requires seccomp filters"))],
        macos: none("Seatbelt knows operations and no system calls"),
        windows: none("there is no such filter; mitigation policies only"),
    },
    Promise {
        group: "Processes",
        promise: "a terminal of its own",
        settings: &[],
        linux: &[
            with(&[Kernel(5, 6), Namespaces], enforced("a pseudo-terminal made inside")),
            with(&[], enforced("the filter refuses to type into the caller's")),
        ],
        macos: enforced("a pseudo-terminal that kennel carries"),
        windows: best_effort("the caller's console"),
    },
    Promise {
        group: "Processes",
        promise: "commands of one session cannot reach into each other",
        settings: &[],
        linux: &[
            with(&[Kernel(5, 6), Namespaces, Landlock(1)], enforced("a Landlock domain for each command")),
            with(
                &[],
                best_effort("commands of one session can trace each other; leaders and PID 1 stay closed"),
            ),
        ],
        macos: none("there are no sessions"),
        windows: none("there are no sessions"),
    },
    Promise {
        group: "Processes",
        promise: "several users inside",
        settings: &["process.users", "process.run_as"],
        linux: &[
            with(&[Kernel(5, 6), Namespaces, SubordinateIds], enforced("subordinate ids")),
            with(&[], none("requires newuidmap and subordinate ids, or root")),
        ],
        macos: none("there are no user namespaces"),
        windows: none("there are no subordinate users"),
    },
    Promise {
        group: "Processes",
        promise: "only listed variables and descriptors reach the command",
        settings: &["environment.clear", "environment.pass"],
        linux: &[with(&[], enforced("a block of its own; descriptors are closed"))],
        macos: enforced("a block of its own; descriptors are closed at the exec"),
        windows: enforced("a block of its own; a list of handles"),
    },
    // Limits.
    Promise {
        group: "Limits",
        promise: "memory of everything inside",
        settings: &["limits.memory", "limits.swap"],
        linux: &[
            with(&[Cgroup(Memory)], enforced("a cgroup; the end by it is told apart")),
            with(&[], best_effort("address space of each process")),
        ],
        macos: best_effort("watched, and killed above it"),
        windows: enforced("committed memory of the job"),
    },
    Promise {
        group: "Limits",
        promise: "processors",
        settings: &["limits.cpus"],
        linux: &[with(&[Cgroup(Cpu)], enforced("a cgroup's quota")), with(&[], none("requires a cgroup"))],
        macos: none("nothing limits it"),
        windows: enforced("CPU rate of the job"),
    },
    Promise {
        group: "Limits",
        promise: "number of processes",
        settings: &["limits.pids"],
        linux: &[
            with(&[Cgroup(Pids)], enforced("a cgroup")),
            with(&[], best_effort("processes of the user, by rlimit")),
        ],
        macos: best_effort("watched, and killed above it"),
        windows: enforced("processes of the job; threads do not count"),
    },
    Promise {
        group: "Limits",
        promise: "processor time",
        settings: &["limits.cpu_time"],
        linux: &[with(&[], enforced("rlimit of each process"))],
        macos: best_effort("watched, and killed above it"),
        windows: enforced("user time of each process"),
    },
    Promise {
        group: "Limits",
        promise: "open files and sizes of files",
        settings: &["limits.open_files", "limits.file_size"],
        linux: &[with(&[], enforced("rlimits"))],
        macos: enforced("rlimits"),
        windows: none("a job has no such limits"),
    },
    Promise {
        group: "Limits",
        promise: "size of /tmp and of other folders in memory",
        settings: &["limits.tmp_size"],
        linux: &[
            with(&[Kernel(5, 6), Namespaces], enforced("the size of the tmpfs")),
            with(&[], none("requires namespaces")),
        ],
        macos: none("a folder has no size limit"),
        windows: none("a folder has no size limit"),
    },
    Promise {
        group: "Limits",
        promise: "captured output",
        settings: &["limits.output"],
        linux: &[with(&[], enforced("the controller reads it"))],
        macos: enforced("the controller reads it"),
        windows: enforced("the controller reads it"),
    },
];
