//! Several users in one sandbox: who they are, what their root can do and what it cannot, and whose their files are.

mod build;
mod errors;
mod hostile;
mod identity;
mod owners;

use kennel_tests::{Ran, am_root, kennel, ran, run_sh, skipped};

/// Whether this caller can have several users. Root always can; another needs subordinate ids and the tools.
fn possible() -> bool {
    if am_root() {
        return true;
    }
    let tried = ran(kennel(["run", "--users", "root,builder", "--", "true"]).current_dir("/"));
    if tried.code == 0 {
        return true;
    }
    let lacks = ["/etc/subuid", "/etc/subgid", "newuidmap", "newgidmap"];
    assert!(lacks.iter().any(|lack| tried.stderr.contains(lack)), "{}", tried.stderr);
    skipped(tried.stderr.lines().next().unwrap_or_default());
    false
}

/// A script as the root of two users.
fn as_root(flags: &[&str], script: &str) -> Ran {
    run_sh([&["--users", "root,builder"], flags].concat(), script)
}
