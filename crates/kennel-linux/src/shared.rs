//! What the kernel counts for a user in all namespaces, or for the whole machine, and what holds one sandbox's share of it: the table
//! of docs/limits.md, and the numbers in it.
//!
//! A resource that is not here is either a namespace's own or memory. Something new in the kernel that can be counted belongs
//! here first.

/// The most terminals of a sandbox. The machine has 3,072 for all but the host's own (`kernel.pty.max` less `kernel.pty.reserve`).
pub const TERMINALS: u32 = 128;
/// The most signals that wait and timers, together.
pub const PENDING_SIGNALS: u64 = 4096;
/// The most that the limit on open files can be raised to, where the policy does not say: the kernel's own default.
pub const OPEN_FILES: u64 = kennel_policy::policy::UNSAID_OPEN_FILES as u64;
/// The most inotify instances: half of the kernel's default for a user.
pub const INOTIFY_INSTANCES: u64 = 64;
/// The most namespaces of each kind, where they can be made at all.
pub const NAMESPACES: u64 = 1000;

/// Something that can be counted.
#[derive(Clone, Copy, Debug)]
pub struct Resource {
    /// What, in words that an error message may have led to.
    pub name: &'static str,
    /// For whom the kernel counts it, and by which limit.
    pub counted: &'static str,
    /// What holds a sandbox's share.
    pub held: Held,
}

/// What holds a sandbox's share of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The sandbox has its own, or cannot get any.
    None(&'static str),
    /// It gets a share.
    Share(&'static str),
    /// Only a limit that the policy asks for.
    Limit(&'static str),
    /// Nothing.
    Nothing(&'static str),
}

/// The table.
pub const RESOURCES: &[Resource] = &[
    share(
        "terminals (ptys)",
        "machine: `kernel.pty.max`",
        "128; with `nested` it can mount more of their file systems, and has as many as the machine",
    ),
    share(
        "waiting signals, POSIX timers",
        "user: `ulimit -i`",
        "4,096 together, and half of the caller's limit",
    ),
    share(
        "bytes in POSIX message queues",
        "user: `ulimit -q`",
        "none; with `nested` half of the caller's limit",
    ),
    share(
        "descriptors on their way through unix sockets (`SCM_RIGHTS`)",
        "user, compared with the sender's `ulimit -n`",
        "4,096, or half of the caller's limit, or `limits.open_files`: a program that has a higher limit, or raises its own, as kennel does, goes on. \
         `open_files = 700` leaves room for those with the usual soft limit of 1,024",
    ),
    share("processes", "user: `ulimit -u`", "half of the caller's limit, but root has none: `limits.pids`"),
    share("inotify instances and watches", "user: `fs.inotify`", "64, and half of the watches"),
    share(
        "fanotify groups and marks",
        "user: `fs.fanotify`",
        "none; without a filter 64, and half of the marks",
    ),
    share(
        "namespaces, of each kind",
        "user: `user.max_*_namespaces`",
        "none; where they can be made (`nested`, seccomp `permissive` and `none`) 1,000",
    ),
    share("priority above the others', real-time scheduling", "user: `ulimit -e`, `-r`", "none"),
    none(
        "asynchronous I/O of the kernel's (`io_setup`)",
        "machine: `fs.aio-max-nr`",
        "does not exist (ENOSYS)",
    ),
    none(
        "filters on sockets (`SO_ATTACH_FILTER` and the like)",
        "machine: `net.core.bpf_jit_limit`",
        "refused, as programs of eBPF are",
    ),
    none("IPv6 flow labels", "machine: 4,096", "refused"),
    none(
        "keys",
        "user: `kernel.keys`",
        "refused; without a filter the sandbox has a keyring of its own, of the user's quota",
    ),
    none("locked shared memory (`SHM_LOCK`)", "user: `ulimit -l`", "refused; `mlock` counts for the process"),
    none(
        "io_uring, perf events, userfaultfd",
        "user: `ulimit -l`, machine: memory",
        "refused; seccomp `permissive` allows the last two",
    ),
    none("System V shared memory, semaphores, queues", "IPC namespace", "its own; what they hold is memory"),
    none(
        "ports, routes, unix sockets by abstract names",
        "network namespace",
        "its own, unless `network.mode = \"host\"`",
    ),
    none("locks and leases on the host's files", "file", "only locks, on what it may write"),
    limit("memory, tmpfs, pipes, sockets, the kernel's own structures", "machine", "`limits.memory`"),
    limit("processor time", "machine", "`limits.cpus`, `limits.cpu_time`"),
    limit(
        "open files of the machine",
        "machine: `fs.file-max`",
        "`limits.pids` and `limits.open_files`; they are memory, too",
    ),
    limit(
        "epoll watches",
        "user: `fs.epoll.max_user_watches`, 4 % of memory",
        "`limits.memory` below 4 % of the machine's",
    ),
    limit(
        "memory of TCP, connections without a process",
        "machine: `net.ipv4.tcp_mem`, `tcp_max_orphans`",
        "`limits.memory`",
    ),
    limit(
        "seccomp filters",
        "machine: `net.core.bpf_jit_limit`, half a gigabyte",
        "`limits.pids`: about a megabyte for each process or thread, which `limits.memory` does not count. Who has taken how many cannot be told from outside",
    ),
    nothing(
        "pages of pipes",
        "user: `fs.pipe-user-pages-soft`",
        "with more than 1,024 pipes new ones of the user's have room for 8 KiB instead of 64",
    ),
    nothing(
        "space and inodes on disks",
        "file system, quotas",
        "what it may write it may fill: `limits.file_size` is for one file",
    ),
    nothing(
        "huge pages",
        "machine: `vm.nr_hugepages`",
        "there are none unless the administrator sets them aside",
    ),
    nothing("bandwidth of disks and of memory, caches", "machine", "not addressed"),
];

const fn share(name: &'static str, counted: &'static str, how: &'static str) -> Resource {
    Resource { name, counted, held: Held::Share(how) }
}

const fn none(name: &'static str, counted: &'static str, how: &'static str) -> Resource {
    Resource { name, counted, held: Held::None(how) }
}

const fn limit(name: &'static str, counted: &'static str, how: &'static str) -> Resource {
    Resource { name, counted, held: Held::Limit(how) }
}

const fn nothing(name: &'static str, counted: &'static str, how: &'static str) -> Resource {
    Resource { name, counted, held: Held::Nothing(how) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: &str =
        "<!-- The table up to the end mark is written by a test from kennel-linux/src/shared.rs. -->\n";
    const END: &str = "<!-- end -->\n";

    #[test]
    fn the_page_on_limits_has_the_table_of_what_is_shared() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/limits.md");
        let page = std::fs::read_to_string(file).expect("the page");
        let (before, rest) = page.split_once(BEGIN).expect("the mark where the table begins");
        let (table, after) = rest.split_once(END).expect("the mark where the table ends");
        let mut expected = String::from("| resource | counted for | a sandbox's share |\n|---|---|---|\n");
        for Resource { name, counted, held } in RESOURCES {
            let share = match held {
                Held::None(how) | Held::Share(how) => (*how).to_owned(),
                Held::Limit(how) => format!("not limited by default: {how}"),
                Held::Nothing(how) => format!("**not limited**: {how}"),
            };
            expected += &format!("| {name} | {counted} | {share} |\n");
        }
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(file, format!("{before}{BEGIN}{expected}{END}{after}")).expect("the page");
        } else {
            assert_eq!(table, expected, "run this test with UPDATE_DOCS=1 to write the page anew");
        }
    }

    #[test]
    fn the_numbers_of_the_table_are_those_of_the_plan() {
        let all: String =
            RESOURCES.iter().map(|resource| format!("{:?}", resource.held).replace(',', "")).collect();
        for number in [u64::from(TERMINALS), PENDING_SIGNALS, OPEN_FILES, INOTIFY_INSTANCES, NAMESPACES] {
            assert!(all.contains(&number.to_string()), "{number}");
        }
    }
}
