//! `cargo xtask package-test`: Debian's package in freshly installed Debian systems, in virtual machines.
//!
//! The systems are made by debootstrap, once, and kept in the cache folder. `vm/package.sh` is what happens in them: a new
//! user installs the package and uses kennel as README.md says, and removes it, and nothing is left. One of them denies
//! user namespaces as Ubuntu does.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::guest::{self, Guest, Job, Land};
use super::kernels::{self, Arch};
use super::machine::{Machines, installed};
use crate::Failure;
use crate::cache;
use crate::cargo;
use crate::cpio::Archive;
use crate::debian::{mirror, run};
use crate::dist;
use crate::test;
use crate::who::Who;

/// A system to install the package in.
struct System {
    /// Of Debian.
    suite: &'static str,
    kernel: &'static str,
    /// More than the least that Debian can be.
    packages: &'static str,
    /// What `vm/package.sh` expects of AppArmor.
    apparmor: &'static str,
}

const SYSTEMS: [System; 3] = [
    // AppArmor 4.1, with the rule for user namespaces.
    System { suite: "trixie", kernel: "7.2", packages: "apparmor", apparmor: "apparmor" },
    // AppArmor 3.0, which does not know the rule.
    System { suite: "bookworm", kernel: "6.1", packages: "apparmor", apparmor: "no-apparmor" },
    // None at all, as in containers.
    System { suite: "bookworm", kernel: "6.12", packages: "", apparmor: "no-apparmor" },
];

/// Installs, uses and removes the package of `dist/`, which is made if it is not there. Returns whether all is well.
///
/// # Errors
/// When something could not even be tried.
pub fn package_test(words: &[String]) -> Result<bool, Failure> {
    if let [word, ..] = words {
        return Err(format!("package-test: unexpected argument {word}").into());
    }
    let (arch, rust) = (Arch::X86_64, "x86_64");
    let prepared = cache::folder("vm").and_then(|state| {
        if Who::all()[0] != Who::Root {
            return Err("only root can install a Debian system".to_owned());
        }
        let debootstrap = installed("debootstrap", &["debootstrap"])?;
        Ok((Machines::prepare(&state, arch)?, debootstrap))
    });
    let (machines, debootstrap) = match prepared {
        Ok(prepared) => prepared,
        Err(reason) => {
            println!("SKIPPED: package-test: {reason}");
            return Ok(true);
        }
    };
    let package = dist::debian_package(rust)?;
    let mut reports = Vec::new();
    for system in &SYSTEMS {
        let guest = prepare(&machines.state, &debootstrap, system, arch, &package)?;
        let ran = machines.run(&guest, &mut reports);
        let _ = fs::remove_file(&guest.archives[guest.archives.len() - 1]);
        ran?;
    }
    test::sum_up(&reports)
}

fn prepare(
    state: &Path,
    debootstrap: &Path,
    system: &System,
    arch: Arch,
    package: &Path,
) -> Result<Guest, Failure> {
    let kernel = kernels::kernel(system.kernel).ok_or("no such kernel")?;
    let tree = tree_archive(state, debootstrap, system, arch)?;
    let machine = guest::machine_archive(state, kernel, arch, Land::Debian(system.suite))?;
    let script = cargo::root().join("xtask/vm/package.sh");
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let inside = |name: &str| format!("{}{name}", guest::PROGRAMS);
    let words = vec![
        "/bin/sh".to_owned(),
        inside("package.sh"),
        inside(&name(package)),
        inside("README.md"),
        system.apparmor.to_owned(),
    ];
    Ok(Guest {
        name: format!("package {} {}", system.suite, system.kernel),
        who: "root",
        kernel_image: guest::kernel_image(state, kernel, arch)?,
        kernel_words: "",
        archives: vec![tree, machine],
        files: vec![
            ("package.sh".to_owned(), script),
            (name(package), package.to_owned()),
            ("README.md".to_owned(), cargo::root().join("README.md")),
        ],
        jobs: vec![Job { name: "package".to_owned(), who: "root", words }],
        longest: Duration::from_secs(900),
    })
}

/// An installed Debian, as an archive; made once.
fn tree_archive(state: &Path, debootstrap: &Path, system: &System, arch: Arch) -> Result<PathBuf, Failure> {
    let name = format!("installed-{}-{}-{}", system.suite, system.packages, arch.debian());
    let place = state.join(format!("{name}.cpio"));
    if place.exists() {
        return Ok(place);
    }
    println!("{name}: installing");
    let tree = state.join(format!("{name}.partial"));
    let _ = fs::remove_dir_all(&tree);
    let mut make = Command::new(debootstrap);
    make.args(["--variant=minbase", "--arch", arch.debian()]);
    if !system.packages.is_empty() {
        make.arg(format!("--include={}", system.packages));
    }
    run(make
        .arg(system.suite)
        .arg(&tree)
        .arg(mirror().ok_or("no Debian mirror is configured on this host")?))?;
    let mut archive = Archive::default();
    archive.merged_folders();
    // Documents are left out of machines, but their folders belong to other packages than kennel's.
    folders(&tree, "usr/share", &mut archive)?;
    archive.tree(&tree, "")?;
    let partial = state.join(format!("{name}.cpio.partial"));
    fs::write(&partial, archive.finish())?;
    fs::rename(&partial, &place)?;
    fs::remove_dir_all(&tree)?;
    Ok(place)
}

fn folders(tree: &Path, below: &str, archive: &mut Archive) -> Result<(), Failure> {
    archive.folder(below, 0);
    for entry in fs::read_dir(tree.join(below))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            folders(tree, &format!("{below}/{}", entry.file_name().to_string_lossy()), archive)?;
        }
    }
    Ok(())
}
