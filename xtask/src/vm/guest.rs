//! A guest: a kernel, the programs of a Debian release or busybox alone, and the jobs that it runs.
//!
//! Its root file system is a cpio archive that the kernel unpacks into memory. The programs are those of unpacked
//! packages that nobody installed, so that what installation scripts would make (accounts, alternatives) is made here.
//! They are kept as an archive in the cache folder; what changes from run to run comes in a second archive behind it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::kernels::{Arch, Kernel};
use crate::cpio::Archive;
use crate::debian::{self, find_file, run, unpacked, unpacked_kernel, unpacked_with_dependencies};

/// What the programs of a guest are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Land {
    /// Debian's, with all that the suites use.
    Debian(&'static str),
    /// busybox and nothing else, as in the smallest of containers.
    Busybox,
}

/// Debian's packages in a guest. Those that every system has come first: nothing depends on them.
const PACKAGES: &[&str] = &[
    "base-files",
    "bash",
    "bsdutils",
    "busybox-static",
    "coreutils",
    "dash",
    "debianutils",
    "diffutils",
    "findutils",
    "grep",
    "gzip",
    "hostname",
    "libc-bin",
    "login",
    "mawk",
    "mount",
    "ncurses-base",
    "ncurses-bin",
    "passwd",
    "sed",
    "tar",
    "util-linux",
    "apparmor",
    "curl",
    "dbus-user-session",
    "e2fsprogs",
    "git",
    "iproute2",
    "less",
    "libcap2-bin",
    "nfs-kernel-server",
    "openssl",
    "procps",
    "python3",
    "rsync",
    "strace",
    "systemd",
    "tmux",
    "uidmap",
    "vim-tiny",
];

/// Drivers that a cloud kernel has as modules and that suites or kennel use. A module brings those it depends on.
const MODULES: &[&str] = &[
    "overlay",
    "dummy",
    "veth",
    "tun",
    "loop",
    "autofs4",
    "nf_tables",
    "nft_redir",
    "nft_chain_nat",
    "nft_nat",
    "nfsd",
    "nfsv4",
];

/// Where a guest has the programs of this run. Below /var/tmp as `cargo xtask test` has them, which tests rely on: a
/// sandbox has a /tmp of its own.
pub const PROGRAMS: &str = "/var/tmp/kennel-vm/";

/// One program to run in a guest.
#[derive(Clone, Debug)]
pub struct Job {
    /// What tables call it.
    pub name: String,
    /// Who runs it; `vm/init.sh` says how each is placed.
    pub who: &'static str,
    /// Its path, and its arguments.
    pub words: Vec<String>,
}

/// A guest that is ready to boot.
pub struct Guest {
    pub name: String,
    /// What tells it from others of the same name.
    pub part: &'static str,
    pub kernel_image: PathBuf,
    /// What it adds to the kernel's command line.
    pub kernel_words: &'static str,
    /// Debian's programs, where it has them.
    pub land: Option<PathBuf>,
    /// What makes it this machine: init, modules, scripts.
    pub machine: Vec<u8>,
    /// Programs and other files for [`PROGRAMS`].
    pub files: Vec<(String, PathBuf)>,
    pub jobs: Vec<Job>,
    pub longest: Duration,
}

impl Guest {
    pub fn file_name(&self) -> String {
        format!("{}-{}", self.name, self.part)
    }

    /// What is made for this run: programs and jobs.
    pub fn jobs_archive(&self) -> io::Result<Vec<u8>> {
        let mut archive = Archive::default();
        for (name, path) in &self.files {
            archive.file(&format!("{}{name}", &PROGRAMS[1..]), 0o755, &fs::read(path)?);
        }
        let mut script = String::new();
        for job in &self.jobs {
            let _ = write!(script, "job {} {}", quoted(&job.name), job.who);
            for word in &job.words {
                let _ = write!(script, " {}", quoted(word));
            }
            script.push('\n');
        }
        archive.file("vm/jobs", 0o644, script.as_bytes());
        Ok(archive.finish())
    }
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The image of a kernel.
pub fn kernel_image(state: &Path, kernel: &Kernel, arch: Arch) -> Result<PathBuf, String> {
    let folder = unpacked_kernel(state, kernel.suite, arch.debian())?;
    let is_image =
        |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz"));
    find_file(&folder, &is_image).ok_or_else(|| format!("no kernel in {}", folder.display()))
}

/// The archive with busybox, init and the kernel's modules. Small, so it is made anew each time.
pub fn machine_archive(state: &Path, kernel: &Kernel, arch: Arch, land: Land) -> Result<Vec<u8>, String> {
    let busybox = unpacked(state, "bookworm", arch.debian(), "busybox-static")?;
    let busybox = find_file(&busybox, &|path| path.ends_with("bin/busybox")).ok_or("no busybox")?;
    let modules = modules(&unpacked_kernel(state, kernel.suite, arch.debian())?)?;
    let mut archive = Archive::default();
    let failed = |error: io::Error| error.to_string();
    if land == Land::Busybox {
        archive.merged_folders();
        archive.folder("etc", 0);
        archive.folder("etc/pam.d", 0);
        for (name, text) in ACCOUNTS {
            archive.file(&format!("etc/{name}"), 0o644, text.as_bytes());
        }
    }
    for folder in ["home", "var", "var/tmp", &PROGRAMS[1..PROGRAMS.len() - 1], "vm", "vm/modules"] {
        archive.folder(folder, 0);
    }
    archive.folder("home/u", 1000);
    archive.file("init", 0o755, include_bytes!("../../vm/init.sh"));
    archive.file("vm/busybox", 0o755, &fs::read(&busybox).map_err(failed)?);
    archive.folder("vm/guests", 0);
    for (name, text) in super::guests::SCRIPTS {
        archive.file(&format!("vm/guests/{name}.sh"), 0o644, text.as_bytes());
    }
    // As the package has it.
    if let Ok(profile) = fs::read(crate::cargo::root().join("packaging/apparmor/kennel")) {
        archive.folder("vm/apparmor", 0);
        archive.file("vm/apparmor/kennel", 0o644, &profile);
    }
    for (number, (name, bytes)) in modules.iter().enumerate() {
        archive.file(&format!("vm/modules/{number:02}-{name}.ko"), 0o644, bytes);
    }
    Ok(archive.finish())
}

/// Accounts and names that an installed system has.
const ACCOUNTS: &[(&str, &str)] = &[
    (
        "passwd",
        "root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1::/usr/sbin:/usr/sbin/nologin\n\
         www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n\
         u:x:1000:1000::/home/u:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    ),
    ("group", "root:x:0:\ndaemon:x:1:\ntty:x:5:\nwww-data:x:33:\nu:x:1000:\nnogroup:x:65534:\n"),
    ("hosts", "127.0.0.1 localhost\n::1 localhost ip6-localhost\n"),
    ("hostname", "machine\n"),
    ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
    ("subuid", "u:100000:65536\n"),
    ("subgid", "u:100000:65536\n"),
    ("shells", "/bin/sh\n/bin/bash\n"),
    // Nobody answers there.
    ("resolv.conf", "nameserver 192.0.2.53\n"),
    // `su` asks these, which Debian writes when it installs them.
    ("pam.d/common-auth", "auth required pam_permit.so\n"),
    ("pam.d/common-account", "account required pam_permit.so\n"),
    ("pam.d/common-password", "password required pam_permit.so\n"),
    ("pam.d/common-session", "session required pam_permit.so\n"),
    ("pam.d/common-session-noninteractive", "session required pam_permit.so\n"),
    (
        "pam.d/other",
        "auth required pam_permit.so\naccount required pam_permit.so\nsession required pam_permit.so\n",
    ),
];

/// Names that Debian's installation scripts would link to one of several programs.
const ALTERNATIVES: &[(&str, &str)] = &[
    ("usr/bin/awk", "mawk"),
    ("usr/bin/vi", "vim.tiny"),
    ("usr/bin/vim", "vim.tiny"),
    ("usr/bin/pager", "less"),
    ("usr/bin/editor", "vim.tiny"),
    ("usr/bin/which", "which.debianutils"),
];

/// The archive with Debian's programs, kept in the cache folder.
pub fn land_archive(state: &Path, suite: &'static str, arch: Arch) -> Result<PathBuf, String> {
    let folder = unpacked_with_dependencies(state, suite, arch.debian(), "land", PACKAGES)?;
    let place = state.join(format!("land-{suite}-{}.cpio", arch.debian()));
    let age = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    // A newer program may pack it in another way.
    let oldest = age(&folder.join(debian::LIST)).max(std::env::current_exe().ok().and_then(|me| age(&me)));
    if age(&place).is_some_and(|age| Some(age) > oldest) {
        return Ok(place);
    }
    let mut archive = Archive::default();
    archive.merged_folders();
    archive.tree(&folder, "").map_err(|error| format!("{}: {error}", folder.display()))?;
    for (name, text) in ACCOUNTS {
        archive.file(&format!("etc/{name}"), 0o644, text.as_bytes());
    }
    for (path, target) in ALTERNATIVES {
        archive.link(path, target);
    }
    if !folder.join("usr/bin/sh").exists() && !folder.join("bin/sh").exists() {
        archive.link("usr/bin/sh", "dash");
    }
    let partial = state.join(format!("land-{suite}-{}.cpio.{}", arch.debian(), std::process::id()));
    fs::write(&partial, archive.finish())
        .and_then(|()| fs::rename(&partial, &place))
        .map_err(|error| format!("{}: {error}", place.display()))?;
    Ok(place)
}

/// The modules, in an order in which they can be loaded. One that is built in, or that this kernel does not have, is
/// passed over.
fn modules(kernel: &Path) -> Result<Vec<(String, Vec<u8>)>, String> {
    let mut files = BTreeMap::new();
    gather(kernel, &mut files);
    let mut done = BTreeSet::new();
    let mut list = Vec::new();
    for name in MODULES {
        add_module(name, &files, &mut done, &mut list)?;
    }
    Ok(list)
}

fn add_module(
    name: &str,
    files: &BTreeMap<String, PathBuf>,
    done: &mut BTreeSet<String>,
    list: &mut Vec<(String, Vec<u8>)>,
) -> Result<(), String> {
    let Some(path) = files.get(name).filter(|_| done.insert(name.to_owned())) else { return Ok(()) };
    let bytes = unpacked_module(path)?;
    for needed in dependencies(&bytes) {
        add_module(&needed, files, done, list)?;
    }
    list.push((name.to_owned(), bytes));
    Ok(())
}

/// Every module below a folder, by its name in the kernel's spelling.
fn gather(folder: &Path, files: &mut BTreeMap<String, PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            gather(&path, files);
        } else if let Some((name, _)) = entry.file_name().to_string_lossy().split_once(".ko") {
            files.insert(name.replace('-', "_"), path);
        }
    }
}

fn unpacked_module(path: &Path) -> Result<Vec<u8>, String> {
    let program = match path.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        Some("gz") => "gzip",
        _ => return fs::read(path).map_err(|error| format!("{}: {error}", path.display())),
    };
    let mut unpack = Command::new(program);
    let output = unpack.arg("-dc").arg(path).output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() { Ok(output.stdout) } else { Err(format!("{program}: {}", path.display())) }
}

/// What a module says of itself: strings such as `depends=nf_tables,nf_nat`, each with a zero byte behind it.
fn dependencies(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|window| window == KEY) else { return Vec::new() };
    let list = module[at + KEY.len()..].split(|byte| *byte == 0).next().unwrap_or_default();
    let list = String::from_utf8_lossy(list);
    list.split(',').filter(|name| !name.is_empty()).map(|name| name.replace('-', "_")).collect()
}

/// A copy of a program without what debuggers read, which is most of it; the program itself where that cannot be had.
pub fn stripped(program: &Path, name: &str, into: &Path, arch: Arch) -> Result<PathBuf, String> {
    let place = into.join(name);
    let strip =
        if arch.rust().starts_with(std::env::consts::ARCH) { "strip" } else { "aarch64-linux-gnu-strip" };
    if run(Command::new(strip).arg("-o").arg(&place).arg(program)).is_err() {
        fs::copy(program, &place).map_err(|error| format!("{}: {error}", place.display()))?;
    }
    Ok(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_quoted_for_the_machines_shell() {
        assert_eq!(quoted("a'b c"), r"'a'\''b c'");
    }

    #[test]
    fn a_module_tells_what_it_depends_on() {
        let module = b"\x7fELF..\0license=GPL\0depends=nf_tables,nf-nat\0name=nft_redir\0";
        assert_eq!(dependencies(module), ["nf_tables", "nf_nat"]);
        assert!(dependencies(b"\0depends=\0").is_empty());
    }
}
