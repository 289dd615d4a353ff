//! Mounts of the host's own: their flags are kept, and what lies below a folder is covered with it.
//!
//! The mounts are made in a mount namespace around kennel: as root in that alone, as an ordinary user in a user
//! namespace too. They vanish with the command.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use kennel_tests::{Ran, am_root, skipped};

use crate::filesystem::{Tree, command, flags};

/// A mount to make before kennel starts.
pub enum Host {
    /// A file system in memory.
    Tmpfs(libc::c_ulong),
    /// A FUSE file system whose server never answers.
    Fuse,
    /// A trigger of the automounter whose daemon never answers.
    Autofs,
    /// Something of the host's, with all that is mounted below it.
    Bind(PathBuf),
}

struct Prepared {
    at: CString,
    what: Host,
    source: CString,
}

/// Runs `command` where `mounts` stand; `None`, after saying so, where they cannot be made.
pub fn among(
    command: &mut Command,
    mounts: impl IntoIterator<Item = (impl AsRef<OsStr>, Host)>,
) -> Option<Ran> {
    around(command, mounts);
    outcome(command)
}

/// The same for a command that [`around`] was asked for already.
pub fn outcome(command: &mut Command) -> Option<Ran> {
    match command.output() {
        Ok(output) => Some(output.into()),
        Err(error) => {
            skipped(&format!("this host does not let the test make its mounts: {error}"));
            None
        }
    }
}

/// Lets `command` start in a namespace in which `mounts` stand. Starting it fails where they cannot be made.
pub fn around(command: &mut Command, mounts: impl IntoIterator<Item = (impl AsRef<OsStr>, Host)>) {
    let mounts: Vec<Prepared> = mounts
        .into_iter()
        .map(|(at, what)| {
            let source = match &what {
                Host::Bind(source) => CString::new(source.as_os_str().as_bytes()).unwrap(),
                _ => CString::default(),
            };
            Prepared { at: CString::new(at.as_ref().as_bytes()).unwrap(), what, source }
        })
        .collect();
    // SAFETY: plain getters.
    let (root, uid, gid) = unsafe { (am_root(), libc::getuid(), libc::getgid()) };
    let maps = [
        (c"/proc/self/setgroups", CString::from(c"deny")),
        (c"/proc/self/uid_map", CString::new(format!("0 {uid} 1")).unwrap()),
        (c"/proc/self/gid_map", CString::new(format!("0 {gid} 1")).unwrap()),
    ];
    // SAFETY: what runs between fork and exec makes system calls only, on strings that were built before.
    unsafe {
        command.pre_exec(move || {
            let namespaces = if root { libc::CLONE_NEWNS } else { libc::CLONE_NEWNS | libc::CLONE_NEWUSER };
            told(libc::unshare(namespaces))?;
            for (file, text) in maps.iter().filter(|_| !root) {
                let fd = told(libc::open(file.as_ptr(), libc::O_WRONLY))?;
                told(libc::write(fd, text.as_ptr().cast(), text.count_bytes()) as i32)?;
                libc::close(fd);
            }
            let none = std::ptr::null();
            told(libc::mount(none, c"/".as_ptr(), none, libc::MS_REC | libc::MS_PRIVATE, none.cast()))?;
            mounts.iter().try_for_each(|mount| mount.make())
        });
    }
}

fn told(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

impl Prepared {
    /// Only system calls: this runs between fork and exec.
    unsafe fn make(&self) -> io::Result<()> {
        let mut options = [0u8; 128];
        // SAFETY: every pointer is to a string with its NUL; descriptors stay open on purpose, so that the file
        // systems live, and stay silent, as long as the command.
        unsafe {
            let (kind, flags) = match self.what {
                Host::Bind(_) => {
                    let (source, at) = (self.source.as_ptr(), self.at.as_ptr());
                    let flags = libc::MS_BIND | libc::MS_REC;
                    return told(libc::mount(source, at, std::ptr::null(), flags, std::ptr::null()))
                        .map(drop);
                }
                Host::Tmpfs(flags) => (c"tmpfs", flags),
                Host::Fuse => {
                    let fd = told(libc::open(c"/dev/fuse".as_ptr(), libc::O_RDWR))?;
                    let format = c"fd=%d,rootmode=40000,user_id=0,group_id=0";
                    libc::snprintf(options.as_mut_ptr().cast(), options.len(), format.as_ptr(), fd);
                    (c"fuse", 0)
                }
                Host::Autofs => {
                    let mut ends = [0; 2];
                    told(libc::pipe(ends.as_mut_ptr()))?;
                    // Who is in the daemon's process group passes through a trigger; kennel must not be.
                    let format = c"fd=%d,pgrp=%d,minproto=5,maxproto=5,direct";
                    let group = libc::getpgrp();
                    libc::snprintf(
                        options.as_mut_ptr().cast(),
                        options.len(),
                        format.as_ptr(),
                        ends[1],
                        group,
                    );
                    told(libc::setsid())?;
                    (c"autofs", 0)
                }
            };
            told(libc::mount(
                kind.as_ptr(),
                self.at.as_ptr(),
                kind.as_ptr(),
                flags,
                options.as_ptr().cast(),
            ))?;
        }
        Ok(())
    }
}

/// The options of the mount at each path, as seen inside.
fn options(rules: &[OsString], mounts: &[(&Path, libc::c_ulong)]) -> Option<Vec<String>> {
    let script = "for path; do
                      while read -r _ _ _ _ point options _; do
                          test \"$point\" = \"$path\" && last=$options
                      done < /proc/self/mountinfo
                      echo \"$last\"
                  done";
    let paths: Vec<&Path> = mounts.iter().map(|(path, _)| *path).collect();
    let ran = among(
        &mut command(rules, script, &paths),
        mounts.iter().map(|(path, flags)| (path, Host::Tmpfs(*flags))),
    )?;
    Some(ran.ok().stdout.lines().map(str::to_owned).collect())
}

fn has(options: &str, wanted: &[&str]) -> bool {
    wanted.iter().all(|wanted| options.split(',').any(|option| option == *wanted))
}

const ALL: libc::c_ulong = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;

#[test]
#[kennel_claim::claim("files/mounts-keep-their-flags")]
fn a_mount_keeps_nosuid_nodev_and_noexec_when_it_is_made_read_only() {
    let tree = Tree::new();
    let (plain, shut) = (tree.at("other"), tree.at("home"));
    let Some(seen) = options(&[], &[(&plain, 0), (&shut, ALL | libc::MS_NOATIME)]) else { return };
    assert!(has(&seen[0], &["ro", "nosuid", "nodev"]) && !has(&seen[0], &["noexec"]), "{seen:?}");
    assert!(has(&seen[1], &["ro", "nosuid", "nodev", "noexec", "noatime"]), "{seen:?}");
}

#[test]
fn a_mount_keeps_its_flags_when_it_is_a_write_root() {
    let tree = Tree::new();
    let (plain, shut) = (tree.at("other"), tree.at("home"));
    let rules = flags([("--allow-write", &plain), ("--allow-write", &shut)]);
    let Some(seen) = options(&rules, &[(&plain, 0), (&shut, ALL)]) else { return };
    assert!(has(&seen[0], &["rw", "nosuid", "nodev"]), "{seen:?}");
    assert!(has(&seen[1], &["rw", "nosuid", "nodev", "noexec"]), "{seen:?}");
}

#[test]
#[kennel_claim::claim("files/mounts-keep-their-flags")]
fn noexec_of_the_host_holds_inside() {
    let tree = Tree::new();
    let shut = tree.at("other");
    // Copied in by the sandbox, since the mount starts empty.
    let script = "cp /bin/true \"$1/true\" && \"$1/true\"; echo $?";
    let rules = flags([("--allow-write", &shut)]);
    for (flags, code) in [(libc::MS_NOEXEC, "126\n"), (0, "0\n")] {
        let Some(ran) = among(&mut command(&rules, script, &[&shut]), [(&shut, Host::Tmpfs(flags))]) else {
            return;
        };
        assert_eq!(ran.stdout, code, "{}", ran.stderr);
    }
}

#[test]
#[kennel_claim::claim("files/only-allowed-paths-are-written")]
fn a_mount_below_a_read_only_folder_is_read_only_too() {
    let tree = Tree::new();
    let (outer, inner) = (tree.at("project"), tree.at("project/sub"));
    let mounts = || [(inner.clone(), Host::Tmpfs(0))];
    let script = "> \"$1/new\"";
    // The same try in the same namespace, without the sandbox.
    let mut bare = Command::new("sh");
    bare.args(["-c", script, "sh"]).arg(&inner);
    let Some(ran) = among(&mut bare, mounts()) else { return };
    ran.ok();
    let Some(ran) = among(&mut command(&[], script, &[&inner]), mounts()) else { return };
    assert!(ran.code == 2 && ran.stderr.contains("Read-only file system"), "{ran:?}");
    let rules = flags([("--allow-write", tree.scratch.path()), ("--deny-write", &outer)]);
    let Some(ran) = among(&mut command(&rules, script, &[&inner]), mounts()) else { return };
    assert!(ran.code == 2 && ran.stderr.contains("Read-only file system"), "{ran:?}");
}

#[test]
fn a_mount_below_a_write_root_is_writable_and_below_a_hidden_folder_hidden() {
    let tree = Tree::new();
    let inner = tree.at("project/sub");
    let rules = flags([("--allow-write", tree.at("project"))]);
    let Some(ran) = among(&mut command(&rules, "> \"$1/new\"", &[&inner]), [(&inner, Host::Tmpfs(0))]) else {
        return;
    };
    ran.ok();
    let rules = flags([("--deny-read", tree.at("project"))]);
    let Some(ran) = among(&mut command(&rules, "test ! -e \"$1\"", &[&inner]), [(&inner, Host::Tmpfs(0))])
    else {
        return;
    };
    ran.ok();
}

#[test]
fn what_the_host_has_mounted_read_only_stays_so_in_a_write_root_and_spoils_nothing_beside_it() {
    let tree = Tree::new();
    let (locked, beside) = (tree.at("project/sub"), tree.scratch.dir("project/beside"));
    let rules = flags([("--allow-write", tree.at("project"))]);
    let script = "(> \"$1/new\") && exit 9; > \"$2\" && > \"$3/new\"";
    let mounts = [(&locked, Host::Tmpfs(libc::MS_RDONLY)), (&beside, Host::Tmpfs(0))];
    let mut command = command(&rules, script, &[&locked, &tree.at("project/new"), &beside]);
    let Some(ran) = among(&mut command, mounts) else { return };
    ran.ok();
}

#[test]
fn the_sandbox_can_take_off_no_mount_to_see_what_lies_below() {
    let tree = Tree::new();
    let rules = flags([("--deny-read", tree.at("home")), ("--user", "root".into())]);
    let script = "umount \"$1\" 2>&1; umount -l \"$1\" 2>&1; umount /tmp 2>&1; ls -A \"$1\"";
    let ran = crate::filesystem::inside(&rules, script, &[&tree.at("home")]);
    assert!(!ran.stdout.contains("profile"), "{}", ran.stdout);
}
