//! Which suites run in the machines, by whom, and which of their tests are the quick choice.

/// Who runs a job, which decides where a cgroup is to be had; `vm/init.sh` says how each is placed.
pub type Who = &'static str;

/// A program of tests.
#[derive(Debug)]
pub struct Suite {
    /// Cargo's name of it.
    pub name: &'static str,
    /// Which of its tests, by parts of their names; all, if there are none.
    pub filters: &'static [&'static str],
    pub by: &'static [Who],
    /// Which of its tests are in the quick matrix.
    pub quick: Quick,
}

/// What the quick matrix has of a suite.
#[derive(Debug)]
pub enum Quick {
    Nothing,
    /// As many as there are.
    Everything,
    /// Those whose names hold one of these.
    Only(&'static [&'static str]),
}

const BOTH: &[Who] = &["root", "user"];

const fn suite(name: &'static str, quick: Quick) -> Suite {
    Suite { name, filters: &[], by: BOTH, quick }
}

/// On every kernel.
pub const SUITES: &[Suite] = &[
    suite("isolation", Quick::Everything),
    suite("filesystem", Quick::Everything),
    suite("escape", Quick::Everything),
    suite("guard", Quick::Everything),
    suite("git", Quick::Everything),
    suite("lifecycle", Quick::Everything),
    suite("limits", Quick::Everything),
    suite("network", Quick::Everything),
    suite("library", Quick::Everything),
    suite("zygote", Quick::Everything),
    suite("sessions", Quick::Everything),
    suite("rootfs", Quick::Everything),
    suite("users", Quick::Everything),
    suite("replaced", Quick::Everything),
    suite("hosts", Quick::Everything),
    suite("cli", Quick::Everything),
    suite("terminal", Quick::Nothing),
    suite("profiles", Quick::Nothing),
    suite("attack_kept", Quick::Nothing),
    suite("compat", Quick::Nothing),
];

/// On one kernel, in a machine of their own: where a cgroup is to be had, in every way.
pub const CGROUPS: &[Suite] = &[
    Suite {
        name: "kennel_linux",
        filters: &["cgroup::"],
        by: &["root", "user", "crowded", "container", "stranger", "systemd"],
        quick: Quick::Everything,
    },
    Suite { name: "limits", filters: &[], by: BOTH, quick: Quick::Everything },
    Suite { name: "limits", filters: &["refusals::"], by: &["stranger"], quick: Quick::Everything },
    Suite { name: "limits", filters: &["memory::"], by: &["systemd"], quick: Quick::Everything },
];
