//! What the suites use besides kennel: where we may, it is installed, by the names of Debian's packages. Whatever is
//! still missing afterwards makes the tests that need it say that they are skipped.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Each package, and what for.
const WANTED: &[(&str, &str)] = &[
    ("apache2-bin", "a server to attack the gate with"),
    ("bubblewrap", "benchmarks"),
    ("busybox-static", "programs of a small root file system"),
    ("bundler", "a client of the network"),
    ("curl", "network"),
    ("direnv", "a program that obeys names in a folder"),
    ("dpkg-dev", "a package built by several users"),
    ("e2fsprogs", "a file system image to try to mount"),
    ("fish", "completions"),
    ("gcc", "a compiler in a sandbox"),
    ("gdb", "a debugger in a sandbox"),
    ("gh", "a client that sends a token"),
    ("git", "a program that agents use"),
    ("gnutls-bin", "a server to attack the gate with"),
    ("golang-go", "a server to attack the gate with"),
    ("groff-base", "the manual page"),
    ("haproxy", "a server to attack the gate with"),
    ("iproute2", "network namespaces"),
    ("less", "terminal"),
    ("libcap2-bin", "programs with file capabilities"),
    ("make", "parallel jobs in a sandbox"),
    ("man-db", "the manual page"),
    ("mariadb-client", "network"),
    ("mariadb-server-core", "network"),
    ("maven", "a client of the network"),
    ("mercurial", "a program that obeys names in a folder"),
    ("nginx-light", "a server to attack the gate with"),
    ("npm", "the programs whose names kennel answers to"),
    ("nodejs", "an interpreter in a sandbox"),
    ("openssh-client", "network"),
    ("openssh-server", "network"),
    ("openssl", "network"),
    ("postgresql", "network"),
    ("procps", "a look at processes from outside"),
    ("python3", "an interpreter in a sandbox, servers"),
    ("python3-pip", "network"),
    ("python3-venv", "an agent from PyPI"),
    ("redis-server", "network"),
    ("ripgrep", "srt looks for files with it"),
    ("rpm", "a release's RPM"),
    ("rsync", "network"),
    ("socat", "srt's bridges"),
    ("strace", "ptrace in a sandbox, counts of calls"),
    ("tcsh", "a program that obeys names in a folder"),
    ("tmux", "terminal"),
    ("uidmap", "several users in a sandbox"),
    ("util-linux", "namespaces around kennel"),
    ("vim", "terminal"),
    ("wget", "network"),
    ("zsh", "completions"),
];

/// Installs these if they are missing, as root and with apt. Whoever needs them finds out whether they are there.
pub fn install_only(packages: &[&str]) {
    let missing: Vec<&str> = packages.iter().copied().filter(|package| !is_installed(package)).collect();
    if missing.is_empty() || !has_apt() {
        return;
    }
    println!("installing {}", missing.join(" "));
    let _ = apt_get_install(&missing) || (apt_get(&["update", "-qq"]) && apt_get_install(&missing));
}

/// Installs what is missing, as root and with apt. A failure is told, not returned.
pub fn install() {
    let missing: Vec<&str> =
        WANTED.iter().map(|(package, _)| *package).filter(|package| !is_installed(package)).collect();
    if missing.is_empty() {
        return;
    }
    println!("installing the packages {}", missing.join(" "));
    if apt_get_install(&missing) || (apt_get(&["update", "-qq"]) && apt_get_install(&missing)) {
        return;
    }
    // One that this release does not have keeps apt from installing the others.
    for package in missing {
        if !apt_get_install(&[package]) {
            let what_for =
                WANTED.iter().find(|(name, _)| *name == package).map_or("", |(_, what_for)| what_for);
            println!("note: {package} could not be installed; tests that need it are skipped ({what_for})");
        }
    }
}

/// Whether apt is how things are installed here.
pub fn has_apt() -> bool {
    run(Command::new("apt-get").arg("--version"))
}

/// As a package, or by other means: npm often comes with a Node.js that is not the distribution's.
fn is_installed(package: &str) -> bool {
    if in_path(package).is_some() {
        return true;
    }
    let status = Command::new("dpkg-query")
        .args(["--show", "--showformat=${db:Status-Status}", package])
        .stderr(Stdio::null())
        .output();
    status.is_ok_and(|output| output.stdout == b"installed")
}

fn apt_get_install(packages: &[&str]) -> bool {
    let mut words = vec!["install", "--yes", "-qq", "--no-install-recommends"];
    words.extend(packages);
    apt_get(&words)
}

fn apt_get(words: &[&str]) -> bool {
    run(Command::new("apt-get").args(words).env("DEBIAN_FRONTEND", "noninteractive"))
}

fn run(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|end| end.success())
}

/// Where `PATH` has this program.
pub fn in_path(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}
