//! A folder as the root: what is written stays in the layer, the rules hold in it, its links lead nowhere else, and nothing of it
//! is left.

mod bound;
mod ends;
mod errors;
mod layer;
mod library;
mod links;
mod network;
mod rules;
mod tree;

use std::ffi::OsStr;
use std::path::Path;
use std::sync::OnceLock;

use kennel_tests::{Ran, Scratch, kennel, ran};

/// `kennel run --rootfs ROOT FLAGS -- sh -c SCRIPT`, started in `cwd`.
fn run_in<F: AsRef<OsStr>>(root: &Path, cwd: &Path, flags: &[F], script: &str) -> Ran {
    let mut command = kennel(["run", "--rootfs"]);
    command.arg(root).args(flags).args(["--", "sh", "-c", script]).current_dir(cwd).env("LC_ALL", "C");
    ran(&mut command)
}

/// The same in a folder that is not inside.
fn run(root: &Path, flags: &[&str], script: &str) -> Ran {
    run_in(root, Path::new("/"), flags, script)
}

/// The ways in which a root shows here: read-only, and where the kernel can with a layer.
fn ways() -> Vec<&'static str> {
    if layers() { vec!["layer", "none"] } else { vec!["none"] }
}

/// Whether a root can have a writable layer here.
fn layers() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let scratch = Scratch::new();
        tree::bare(&scratch).is_some_and(|root| !run(&root, &[], "true").stderr.contains("before Linux 6.6"))
    })
}

kennel_tests::roles! {
    "alone" => library::alone,
}
