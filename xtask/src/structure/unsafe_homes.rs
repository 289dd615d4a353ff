//! Unsafe code lives in few files, each with a subject of its own: a reviewer knows where to look.
//!
//! What needs it elsewhere gets a safe function in one of these. A file that needs none any more leaves the list.

use std::collections::BTreeSet;
use std::fs;

use super::module_order::{code, rust_files};
use crate::cargo;

/// The files below `crates/` that may hold unsafe code, beside tests. The other files of kennel-init's `child/sys/` make their calls
/// by a macro of its `mod.rs`, which no file outside can name.
const HOMES: &[&str] = &[
    "kennel-cli/src/platform/linux/heap.rs",
    "kennel-cli/src/platform/linux/start.rs",
    "kennel-cli/src/platform/linux/terminal.rs",
    "kennel-cli/src/platform/macos.rs",
    "kennel-entrypoint/src/start.rs",
    "kennel-entrypoint/src/sys.rs",
    "kennel-init/init/main.rs",
    "kennel-init/init/no_libc.rs",
    "kennel-init/src/child/clone.rs",
    "kennel-init/src/child/owners.rs",
    "kennel-init/src/child/sys/memory.rs",
    "kennel-init/src/child/sys/mod.rs",
    "kennel-init/src/child/sys/raw.rs",
    "kennel-linux/src/cgroup/keeper.rs",
    "kennel-linux/src/launch/exec.rs",
    "kennel-linux/src/sys/files.rs",
    "kennel-linux/src/sys/processes.rs",
    "kennel-linux/src/sys/signals.rs",
    "kennel-macos/src/process.rs",
    "kennel-macos/src/profile/disk.rs",
    "kennel-macos/src/spawn.rs",
    "kennel-macos/src/sys.rs",
    "kennel-policy/src/ostext.rs",
    "kennel-proxy/src/random.rs",
    "kennel-proxy/src/secrets/locked.rs",
    "kennel-windows/src/attributes.rs",
    "kennel-windows/src/console.rs",
    "kennel-windows/src/host.rs",
    "kennel-windows/src/job.rs",
    "kennel-windows/src/private_temp.rs",
    "kennel-windows/src/sid.rs",
    "kennel-windows/src/start.rs",
    "kennel-windows/src/token.rs",
    "kennel/src/backend/linux/pool.rs",
    "kennel/src/secrets/source.rs",
    "kennel/src/tokio.rs",
];

fn is_unsafe(code: &str) -> bool {
    let behind = code.match_indices("unsafe").map(|(at, word)| (&code[..at], &code[at + word.len()..]));
    behind.into_iter().any(|(before, after)| {
        let starts = !before.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '"'));
        starts && [" {", " fn", " impl", " extern", "("].iter().any(|next| after.starts_with(next))
    })
}

fn is_a_test(path: &str) -> bool {
    path.split('/').any(|part| matches!(part, "tests" | "tests.rs" | "benches" | "examples" | "probe"))
}

#[test]
fn unsafe_code_is_in_few_files() {
    let crates = cargo::root().join("crates");
    let files = rust_files(&crates).into_iter().map(|file| {
        let path = file.strip_prefix(&crates).unwrap().to_str().unwrap().replace('\\', "/");
        (path, fs::read_to_string(file).unwrap())
    });
    let found: BTreeSet<String> = files
        .filter(|(path, text)| !is_a_test(path) && is_unsafe(&code(text)))
        .map(|(path, _)| path)
        .collect();
    let homes: BTreeSet<String> = HOMES.iter().map(|home| (*home).to_owned()).collect();
    let new: Vec<_> = found.difference(&homes).collect();
    let left: Vec<_> = homes.difference(&found).collect();
    assert!(
        new.is_empty() && left.is_empty(),
        "unsafe code outside its homes (give it a safe function in one of them): {new:#?}\nno homes any more: {left:#?}"
    );
}

#[test]
fn unsafe_code_is_told_from_what_speaks_of_it() {
    for text in
        ["    unsafe { f() }", "pub unsafe fn f() {}", "unsafe impl Sync for A {}", "#[unsafe(no_mangle)]"]
    {
        assert!(is_unsafe(text), "{text}");
    }
    for text in
        ["#![forbid(unsafe_code)]", "\"'--unsafe-paths'\"", "let unsafe_homes = 1;", "// unsafe { f() }"]
    {
        assert!(!is_unsafe(&code(text)), "{text}");
    }
}
