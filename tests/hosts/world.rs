//! Worlds in which something is denied, made around kennel by the kernel itself.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use kennel_tests::{kennel, kennel_bin, role, skipped};
use rustix::mount::{MountFlags, MountPropagationFlags};
use rustix::thread::UnshareFlags;

/// One thing that a host may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// `user.max_user_namespaces` is 0, in a user namespace of its own.
    UserNamespaces,
    /// The filter that container engines put around their containers: no new namespaces, no mounts, and a clone3
    /// that does not exist.
    ContainerFilter,
    /// The same by a filter that says EPERM to clone3 as well.
    StrictContainerFilter,
    /// Only clone3 is missing, as before Linux 5.3 and under older container engines that allow namespaces.
    Clone3,
    /// Namespaces can be made but nothing be mounted in them, as AppArmor does it.
    Mounts,
    /// Parts of /proc are covered, so that the kernel gives no fresh one.
    WholeProc,
    /// A kernel without Landlock.
    Landlock,
    /// Symlinks cannot be made, which is nothing that a namespace is needed for.
    Symlinks,
}

use Lack::{
    Clone3, ContainerFilter, Landlock, Mounts, StrictContainerFilter, Symlinks, UserNamespaces, WholeProc,
};

/// Worlds in which no sandbox with namespaces can be made.
pub const WITHOUT_NAMESPACES: [Lack; 4] = [UserNamespaces, ContainerFilter, StrictContainerFilter, Mounts];

const NAMES: [(&str, Lack); 8] = [
    ("clone3", Clone3),
    ("user-namespaces", UserNamespaces),
    ("container-filter", ContainerFilter),
    ("strict-container-filter", StrictContainerFilter),
    ("mounts", Mounts),
    ("whole-proc", WholeProc),
    ("landlock", Landlock),
    ("symlinks", Symlinks),
];

/// The exit code of a world that cannot be made here.
const NO_WORLD: i32 = 97;

/// `kennel` with these arguments where `lacks` are denied. `None`, and a line that says why, where such a world cannot
/// be made.
pub fn kennel_in<I: AsRef<OsStr>>(lacks: &[Lack], arguments: impl IntoIterator<Item = I>) -> Option<Command> {
    let mut command = command_in(lacks, &kennel_bin())?;
    command.args(arguments);
    Some(command)
}

/// `kennel run FLAGS -- sh -c SCRIPT` there, as well as it goes.
pub fn best_effort_in<'f>(
    lacks: &[Lack],
    flags: impl IntoIterator<Item = &'f str>,
    script: &str,
) -> Option<Command> {
    let mut command = kennel_in(lacks, ["run", "--no-settings", "--best-effort"])?;
    command.args(flags).args(["--", "sh", "-c", script]);
    Some(command)
}

/// The same for any program.
pub fn command_in(lacks: &[Lack], program: &Path) -> Option<Command> {
    let names: Vec<&str> =
        lacks.iter().filter_map(|lack| Some(NAMES.iter().find(|(_, known)| known == lack)?.0)).collect();
    let names = names.join(",");
    let world = |program: &OsStr| {
        let mut command = role::play("world");
        command
            .arg(&names)
            .arg(program)
            .stdin(std::process::Stdio::null())
            .env("XDG_CONFIG_HOME", "/nonexistent");
        command
    };
    let tried = world(OsStr::new("/bin/true")).output().expect("this executable");
    if tried.status.code() == Some(NO_WORLD) {
        skipped(&format!(
            "no world without {names} can be made here: {}",
            String::from_utf8_lossy(&tried.stderr).trim()
        ));
        return None;
    }
    assert!(tried.status.success(), "{}", String::from_utf8_lossy(&tried.stderr));
    Some(world(program.as_os_str()))
}

/// Whether the kernel of this host has Landlock at all, at this level or above. Says so if not.
pub fn landlock_at_least(level: i64) -> bool {
    // SAFETY: with the version flag the kernel takes no pointer and makes nothing.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0usize, 0usize, 1u32) };
    if version < level {
        skipped(&format!("this kernel's Landlock is at level {version}, and {level} is needed"));
    }
    version >= level
}

/// `kennel run FLAGS -- sh -c SCRIPT` outside of any such world, for comparison.
pub fn plain<'a>(flags: impl IntoIterator<Item = &'a str>, script: &str) -> Command {
    let mut command = kennel(["run", "--no-settings"]);
    command.args(flags).args(["--", "sh", "-c", script]);
    command
}

/// The role: `world LACK,LACK PROGRAM ARGUMENTS…` takes the lacks upon itself and becomes the program.
pub fn enter(arguments: &[OsString]) -> i32 {
    let names = arguments[0].to_string_lossy();
    let lacks: Vec<Lack> =
        names.split(',').filter_map(|name| Some(NAMES.iter().find(|(known, _)| *known == name)?.1)).collect();
    let made = lacks.iter().try_for_each(|lack| match lack {
        UserNamespaces => own_user_namespace(UnshareFlags::NEWUSER).and_then(|()| {
            std::fs::write("/proc/sys/user/max_user_namespaces", "0")
                .map_err(|error| format!("max_user_namespaces: {error}"))
        }),
        WholeProc => {
            own_user_namespace(UnshareFlags::NEWUSER | UnshareFlags::NEWNS).and_then(|()| cover_proc())
        }
        Clone3 | ContainerFilter | StrictContainerFilter | Mounts | Landlock | Symlinks => Ok(()),
    });
    if let Err(error) = made {
        eprintln!("{error}");
        return NO_WORLD;
    }
    // After the namespaces, which it would deny.
    if let Err(error) = lacks.iter().try_for_each(|lack| filter(*lack)) {
        eprintln!("seccomp: {error}");
        return NO_WORLD;
    }
    let error = Command::new(&arguments[1]).args(&arguments[2..]).env_remove(role::VARIABLE).exec();
    eprintln!("{}: {error}", arguments[1].display());
    98
}

/// New namespaces in which this user is itself.
fn own_user_namespace(flags: UnshareFlags) -> Result<(), String> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    // SAFETY: a role runs before main, in a process with one thread.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(|error| format!("unshare: {error}"))?;
    for (file, text) in [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{user} {user} 1")),
        ("gid_map", format!("{group} {group} 1")),
    ] {
        std::fs::write(format!("/proc/self/{file}"), text).map_err(|error| format!("{file}: {error}"))?;
    }
    Ok(())
}

/// Covers parts of /proc as container engines do.
fn cover_proc() -> Result<(), String> {
    rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(|error| format!("private mounts: {error}"))?;
    let mut covered = 0;
    for folder in ["/proc/acpi", "/proc/scsi", "/proc/fs", "/proc/irq"] {
        covered +=
            i32::from(rustix::mount::mount("tmpfs", folder, "tmpfs", MountFlags::RDONLY, None).is_ok());
    }
    for file in ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/interrupts"] {
        covered += i32::from(rustix::mount::mount_bind("/dev/null", file).is_ok());
    }
    if covered == 0 { Err("nothing in /proc could be covered".into()) } else { Ok(()) }
}

fn filter(lack: Lack) -> std::io::Result<()> {
    let eperm = libc::EPERM.cast_unsigned();
    let enosys = libc::ENOSYS.cast_unsigned();
    let mounting = [
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_open_tree,
        libc::SYS_move_mount,
        libc::SYS_fsopen,
        libc::SYS_fsmount,
        libc::SYS_mount_setattr,
    ];
    let mut denied: Vec<(i64, u32)> = Vec::new();
    let mut clone_flags = false;
    match lack {
        ContainerFilter | StrictContainerFilter => {
            let clone3 = if lack == ContainerFilter { enosys } else { eperm };
            denied.extend([(libc::SYS_clone3, clone3), (libc::SYS_unshare, eperm), (libc::SYS_setns, eperm)]);
            denied.extend(mounting.map(|call| (call, eperm)));
            clone_flags = true;
        }
        Clone3 => denied.push((libc::SYS_clone3, enosys)),
        Mounts => denied.extend(mounting.map(|call| (call, eperm))),
        Landlock => denied.push((libc::SYS_landlock_create_ruleset, enosys)),
        Symlinks => denied.push((libc::SYS_symlinkat, libc::EACCES.cast_unsigned())),
        UserNamespaces | WholeProc => return Ok(()),
    }
    install(&program(&denied, clone_flags.then_some(eperm)))
}

/// A filter that gives each of these calls its error, and clone with any namespace flag another.
fn program(denied: &[(i64, u32)], clone_with_namespaces: Option<u32>) -> Vec<libc::sock_filter> {
    const LOAD: u16 = 0x20;
    const EQUAL: u16 = 0x15;
    const ANY_BIT: u16 = 0x45;
    const RETURN: u16 = 0x06;
    const ALLOW: u32 = 0x7fff_0000;
    const ERRNO: u32 = 0x0005_0000;
    const NAMESPACES: u32 = 0x7e02_0000;
    // Offsets in struct seccomp_data.
    const NUMBER: u32 = 0;
    const FIRST_ARGUMENT: u32 = 16;
    let line = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let number = |call: i64| u32::try_from(call).unwrap_or(u32::MAX);
    let mut lines = vec![line(LOAD, 0, 0, NUMBER)];
    for (call, errno) in denied {
        lines.push(line(EQUAL, 0, 1, number(*call)));
        lines.push(line(RETURN, 0, 0, ERRNO | errno));
    }
    if let Some(errno) = clone_with_namespaces {
        lines.push(line(EQUAL, 0, 3, number(libc::SYS_clone)));
        lines.push(line(LOAD, 0, 0, FIRST_ARGUMENT));
        lines.push(line(ANY_BIT, 0, 1, NAMESPACES));
        lines.push(line(RETURN, 0, 0, ERRNO | errno));
    }
    lines.push(line(RETURN, 0, 0, ALLOW));
    lines
}

fn install(lines: &[libc::sock_filter]) -> std::io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(lines.len()).unwrap_or(u16::MAX),
        filter: lines.as_ptr().cast_mut(),
    };
    // SAFETY: the kernel copies the program, which lives until the call returns.
    let result = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program)
    };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
