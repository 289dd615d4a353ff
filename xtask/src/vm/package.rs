//! `cargo xtask package-test`: Debian's package in freshly installed systems of Debian and Ubuntu, in virtual machines.
//!
//! The systems are made by debootstrap, once, and kept in the cache folder. `vm/package.sh` is what happens in them: a new
//! user installs the package and uses kennel as README.md says, and removes it, and nothing is left. Ubuntu has its own
//! kernel, which denies user namespaces to programs without a profile.

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
    suite: &'static str,
    /// One of [`kernels::KERNELS`]; Ubuntu's systems have their own.
    kernel: Option<&'static str>,
    /// More than the least that the system can be.
    packages: &'static str,
    /// What `vm/package.sh` expects of AppArmor.
    apparmor: &'static str,
}

const SYSTEMS: [System; 4] = [
    System { suite: "noble", kernel: None, packages: "apparmor", apparmor: "denies" },
    // AppArmor 4.1, with the rule for user namespaces, and a kernel that denies nothing by itself.
    System { suite: "trixie", kernel: Some("7.2"), packages: "apparmor", apparmor: "knows" },
    // AppArmor 3.0, which does not know the rule.
    System { suite: "bookworm", kernel: Some("6.1"), packages: "apparmor", apparmor: "none" },
    // None at all, as in containers.
    System { suite: "bookworm", kernel: Some("6.12"), packages: "", apparmor: "none" },
];

/// Installs, uses and removes the package of `dist/`, which is made if it is not there. Returns whether all is well.
///
/// # Errors
/// When something could not even be tried.
pub fn package_test(words: &[String]) -> Result<bool, Failure> {
    let is_known = |word: &&String| SYSTEMS.iter().any(|system| system.suite == **word);
    if let Some(word) = words.iter().find(|word| !is_known(word)) {
        return Err(format!(
            "package-test: unexpected argument {word}; the systems are noble, trixie, bookworm"
        )
        .into());
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
    let is_wanted = |system: &&System| words.is_empty() || words.iter().any(|word| word == system.suite);
    for system in SYSTEMS.iter().filter(is_wanted) {
        let guest = match prepare(&machines.state, &debootstrap, system, arch, &package) {
            Ok(guest) => guest,
            Err(reason) => {
                println!("SKIPPED: package-test: {}: {reason}", system.suite);
                continue;
            }
        };
        machines.run(&guest, &mut reports)?;
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
    let tree = tree_archive(state, debootstrap, system, arch)?;
    // Of a kernel that is not Debian's the modules are not needed.
    let kernel = kernels::kernel(system.kernel.unwrap_or("6.12")).ok_or("no such kernel")?;
    let machine = guest::machine_archive(state, kernel, arch, Land::Debian(system.suite))?;
    let kernel_image = match system.kernel {
        Some(_) => guest::kernel_image(state, kernel, arch)?,
        None => own_kernel(&tree),
    };
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
        name: format!("{} {}", system.suite, system.kernel.unwrap_or("its own kernel")),
        part: "root",
        kernel_image,
        kernel_words: "",
        land: Some(tree),
        machine,
        files: vec![
            ("package.sh".to_owned(), script),
            (name(package), package.to_owned()),
            ("README.md".to_owned(), cargo::root().join("README.md")),
        ],
        jobs: vec![Job { name: "package".to_owned(), who: "root", words }],
        longest: Duration::from_secs(900),
    })
}

/// An installed system, as an archive; made once.
fn tree_archive(state: &Path, debootstrap: &Path, system: &System, arch: Arch) -> Result<PathBuf, Failure> {
    let name = format!("installed-{}-{}-{}", system.suite, system.packages, arch.debian());
    let place = state.join(format!("{name}.cpio"));
    if place.exists() {
        return Ok(place);
    }
    println!("{}: installing", system.suite);
    let tree = state.join(format!("{name}.partial"));
    let _ = fs::remove_dir_all(&tree);
    let mut make = Command::new(debootstrap);
    make.args(["--variant=minbase", "--arch", arch.debian()]);
    if !system.packages.is_empty() {
        make.arg(format!("--include={}", system.packages));
    }
    if system.kernel.is_some() {
        make.arg(system.suite).arg(&tree).arg(mirror().ok_or("no Debian mirror is configured on this host")?);
    } else {
        make.arg(format!("--keyring={}", ubuntu_keyring(state)?.display()));
        // Newer releases are made like this one, which more hosts' debootstrap knows.
        make.arg(system.suite).arg(&tree).args([UBUNTU, "/usr/share/debootstrap/scripts/jammy"]);
    }
    run(&mut make)?;
    if system.kernel.is_none() {
        take_kernel(&tree, &own_kernel(&place))?;
    }
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

const UBUNTU: &str = "http://archive.ubuntu.com/ubuntu";
/// The package with the keys that Ubuntu's archive is signed with, and its checksum: nothing here vouches for them otherwise.
const KEYRING: (&str, &str) = (
    "pool/main/u/ubuntu-keyring/ubuntu-keyring_2023.11.28.1_all.deb",
    "36de43b15853ccae0028e9a767613770c704833f82586f28eb262f0311adb8a8",
);

fn ubuntu_keyring(state: &Path) -> Result<PathBuf, Failure> {
    let folder = state.join("ubuntu-keyring");
    let keyring = folder.join("usr/share/keyrings/ubuntu-archive-keyring.gpg");
    if keyring.exists() {
        return Ok(keyring);
    }
    let package = state.join("ubuntu-keyring.deb");
    let mut fetch = Command::new("curl");
    fetch.args(["--fail", "--silent", "--show-error", "--location", "--max-time", "60", "--output"]);
    run(fetch.arg(&package).arg(format!("{UBUNTU}/{}", KEYRING.0)))?;
    if dist::sha256(&fs::read(&package)?) != KEYRING.1 {
        return Err(format!("{}: not the keys that are expected", package.display()).into());
    }
    run(Command::new("dpkg-deb").arg("--extract").arg(&package).arg(&folder))?;
    Ok(keyring)
}

/// Beside the archive of the system.
fn own_kernel(archive: &Path) -> PathBuf {
    archive.with_extension("vmlinuz")
}

/// Fetches a system's own kernel by its own apt, and leaves the system as it was.
fn take_kernel(tree: &Path, place: &Path) -> Result<(), Failure> {
    const FETCH: &str = r"set -e; mkdir /kernel; cd /kernel; apt-get update -qq
        name=$(apt-cache depends linux-image-virtual | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
        apt-get download -qq $name; dpkg-deb --extract *.deb .; cp boot/vmlinuz-* image
        apt-get clean; rm -rf /var/lib/apt/lists/*";
    run(Command::new("chroot").arg(tree).args(["/bin/sh", "-c", FETCH]).env("LC_ALL", "C"))?;
    fs::copy(tree.join("kernel/image"), place)?;
    Ok(fs::remove_dir_all(tree.join("kernel"))?)
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
