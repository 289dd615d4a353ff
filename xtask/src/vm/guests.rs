//! Guests with troubles that hosts have: each is a machine with something denied, missing or unusual, and scripts or
//! suites that say what is expected there.

use super::guest::Land;
use super::suites::Who;

/// A machine that is not just another kernel.
#[derive(Debug)]
pub struct Trouble {
    /// What tables and the command line call it.
    pub name: &'static str,
    pub kernel: &'static str,
    pub land: Land,
    /// What it adds to the kernel's command line; `vm/init.sh` heeds words that start with `kennel.`.
    pub kernel_words: &'static str,
    /// Scripts below `vm/guests`, and who runs them.
    pub scripts: &'static [(&'static str, Who)],
    /// Suites, which of their tests, and who runs them.
    pub suites: &'static [(&'static str, &'static [&'static str], Who)],
    /// Whether it is in the quick matrix.
    pub is_quick: bool,
}

/// The scripts, for the machine's archive.
pub const SCRIPTS: &[(&str, &str)] = &[
    ("checks", include_str!("../../vm/guests/checks.sh")),
    ("denied", include_str!("../../vm/guests/denied.sh")),
    ("apparmor", include_str!("../../vm/guests/apparmor.sh")),
    ("container", include_str!("../../vm/guests/container.sh")),
    ("cgroups", include_str!("../../vm/guests/cgroups.sh")),
    ("busybox", include_str!("../../vm/guests/busybox.sh")),
    ("kind", include_str!("../../vm/guests/kind.sh")),
];

/// Quick checks of files, where the files lie on another file system than usual.
const FILES: &[&str] =
    &["with_open_reads", "an_allowed_write", "with_listed_reads", "a_denied_read", "symlink"];

pub const TROUBLES: &[Trouble] = &[
    // User namespaces denied by switches and by AppArmor, a container's /proc and capabilities, read-only cgroups. The
    // parser of AppArmor's rules has to know `userns`, so the programs are trixie's.
    Trouble {
        name: "denied",
        kernel: "6.12",
        land: Land::Debian("trixie"),
        kernel_words: "",
        scripts: &[("denied", "root"), ("apparmor", "root"), ("container", "root"), ("cgroups", "root")],
        suites: &[],
        is_quick: true,
    },
    Trouble {
        name: "busybox",
        kernel: "6.12",
        land: Land::Busybox,
        kernel_words: "",
        scripts: &[("busybox", "root"), ("busybox", "user")],
        suites: &[],
        is_quick: true,
    },
    // The gate's transparent listener has the ports that rules name and no more.
    Trouble {
        name: "no-nftables",
        kernel: "6.12",
        land: Land::Debian("bookworm"),
        kernel_words: "kennel.no-nftables",
        scripts: &[("kind", "root")],
        suites: &[("network", &[], "root"), ("network", &[], "user")],
        is_quick: false,
    },
    // Landlock is not among the security modules, as on distributions that leave it out.
    Trouble {
        name: "no-landlock",
        kernel: "6.12",
        land: Land::Debian("bookworm"),
        kernel_words: "lsm=yama,apparmor",
        scripts: &[("kind", "root")],
        suites: &[("filesystem", FILES, "user"), ("isolation", &[], "user"), ("hosts", &[], "user")],
        is_quick: false,
    },
    // SELinux is on, and has no policy: it gives labels to everything and denies nothing.
    Trouble {
        name: "selinux",
        kernel: "6.12",
        land: Land::Debian("bookworm"),
        kernel_words: "lsm=landlock,yama,selinux selinux=1 enforcing=0",
        scripts: &[("kind", "root")],
        suites: &[
            ("filesystem", FILES, "user"),
            ("isolation", &["namespaces", "privileges", "landlock"], "user"),
        ],
        is_quick: false,
    },
    // All that suites write lies on an overlay, as the home of a live system or in a container.
    Trouble {
        name: "overlay",
        kernel: "6.12",
        land: Land::Debian("bookworm"),
        kernel_words: "kennel.overlay",
        scripts: &[("kind", "root")],
        suites: &[
            ("filesystem", &[], "user"),
            ("git", &["commands::", "shapes::"], "user"),
            ("guard", &["creation::"], "user"),
        ],
        is_quick: false,
    },
    // The same on NFS, by the kernel's own server in the same machine.
    Trouble {
        name: "nfs",
        kernel: "6.12",
        land: Land::Debian("bookworm"),
        kernel_words: "kennel.nfs",
        scripts: &[("kind", "root")],
        suites: &[
            ("filesystem", FILES, "user"),
            ("git", &["commands::"], "user"),
            ("guard", &["creation::"], "user"),
        ],
        is_quick: false,
    },
];
