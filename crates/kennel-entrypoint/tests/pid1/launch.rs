//! The little container runtime behind the tests: namespaces, id maps, mounts, pivot_root, exec.
//!
//! Three processes. The test forks a *guardian*, which enters the new namespaces and forks *PID 1*, because a process
//! cannot move into a new PID namespace itself, only its children are born there. The guardian stays to enforce a time
//! limit and to report how PID 1 ended. Between fork and exec both do nothing but system calls on memory prepared
//! before, since the test program has many threads.

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{null, null_mut};

use crate::container::{Container, ENTRYPOINT, Ending, Identity, Image};

/// No test's container lives longer.
const TIME_LIMIT: libc::time_t = 20;

/// The ordinary user that tests become when they were started by root.
const NOBODY: libc::uid_t = 65534;

/// What the entrypoint finds around itself when it starts.
#[derive(Clone, Default)]
pub struct Surroundings {
    /// System calls that answer with an error number instead of being carried out.
    pub answers: Vec<(libc::c_long, libc::c_int)>,
    /// Descriptor 7 is the root directory, left open by a careless runtime.
    pub leaked_descriptor: bool,
    /// SIGPIPE and SIGHUP are ignored, SIGTERM and SIGUSR1 are blocked.
    pub disturbed_signals: bool,
    /// stdin, stdout and stderr are closed.
    pub no_standard_descriptors: bool,
    /// `--cap-drop ALL --cap-add SETUID --cap-add SETGID --security-opt no-new-privileges`.
    pub fewest_capabilities: bool,
    /// `SECBIT_NO_SETUID_FIXUP`: a change of user keeps all capabilities.
    pub capabilities_outlive_setuid: bool,
}

/// A started container.
pub struct Launched {
    pub pid: libc::pid_t,
    /// stdout, or the whole terminal.
    pub output: File,
    pub errors: Option<File>,
    guardian: libc::pid_t,
    reports: File,
}

impl Launched {
    pub fn wait(&mut self) -> Ending {
        let status = match report(&mut self.reports) {
            Some(Report { kind: ENDED, value, .. }) => value,
            other => panic!("the guardian reported {other:?}"),
        };
        if libc::WIFSIGNALED(status) {
            Ending::Killed(libc::WTERMSIG(status))
        } else {
            Ending::Exited(libc::WEXITSTATUS(status))
        }
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        // The guardian has not been waited for, so its number is still its own. If PID 1 is still there, it ends it.
        kill(self.guardian, libc::SIGTERM);
        // SAFETY: a child of this process; its status is not asked for.
        unsafe { libc::waitpid(self.guardian, null_mut(), 0) };
    }
}

pub fn is_root() -> bool {
    // SAFETY: always sound.
    unsafe { libc::geteuid() == 0 }
}

pub fn kill(pid: libc::pid_t, signal: libc::c_int) {
    // SAFETY: no pointers are involved.
    unsafe { libc::kill(pid, signal) };
}

/// Starts `container` in `image`. An error is a host that does not allow it.
pub fn launch(
    container: &Container,
    image: &Image,
    identity: Identity,
    terminal: bool,
) -> Result<Launched, String> {
    let prepared = Prepared::new(container, image, identity, terminal);
    let (go_reader, mut go) = pipe();
    let (mut reports, report_writer) = pipe();
    let (output, errors, inside) = if terminal {
        let (master, slave) = open_terminal();
        (master, None, [slave.try_clone().unwrap(), slave.try_clone().unwrap(), slave])
    } else {
        let (output, stdout) = pipe();
        let (errors, stderr) = pipe();
        (output, Some(errors), [File::open("/dev/null").unwrap(), stdout, stderr])
    };
    let descriptors = [
        inside[0].as_raw_fd(),
        inside[1].as_raw_fd(),
        inside[2].as_raw_fd(),
        go_reader.as_raw_fd(),
        report_writer.as_raw_fd(),
    ];
    // SAFETY: the child only makes system calls, on memory that was prepared before.
    let guardian = unsafe {
        match libc::fork() {
            -1 => return Err(format!("fork: {}", std::io::Error::last_os_error())),
            0 => prepared.guard(descriptors),
            child => child,
        }
    };
    drop((inside, go_reader, report_writer));

    let mut launched = Launched { pid: 0, output, errors, guardian, reports: reports.try_clone().unwrap() };
    let mut expect = |kind| match report(&mut reports) {
        Some(Report { kind: got, value, .. }) if got == kind => Ok(value),
        Some(Report { kind: FAILED, value, step }) => {
            let error = std::io::Error::from_raw_os_error(value);
            Err(format!("{}: {error}", STEPS[usize::try_from(step).unwrap()]))
        }
        other => Err(format!("the guardian reported {other:?}")),
    };
    let mut proceed = || go.write_all(b"!").map_err(|error| format!("telling the guardian: {error}"));
    expect(READY)?;
    write_id_maps(guardian, identity)?;
    proceed()?;
    launched.pid = expect(STARTED)?;
    proceed()?;
    expect(EXECUTING)?;
    Ok(launched)
}

/// Maps are written from outside: a process that has entered a user namespace may map only itself.
fn write_id_maps(guardian: libc::pid_t, identity: Identity) -> Result<(), String> {
    // SAFETY: always sound.
    let (mut uid, mut gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    if uid == 0 {
        (uid, gid) = (NOBODY, NOBODY);
    }
    let (uid_map, gid_map) = match identity {
        Identity::Root => return Ok(()),
        Identity::RemappedRoot => ("0 100000 65536".to_owned(), "0 100000 65536".to_owned()),
        Identity::LoneRoot => (format!("0 {uid} 1"), format!("0 {gid} 1")),
        Identity::Ordinary => (format!("1000 {uid} 1"), format!("1000 {gid} 1")),
    };
    let write = |file: &str, text: &str| {
        fs::write(format!("/proc/{guardian}/{file}"), text)
            .map_err(|error| format!("writing {file}: {error}"))
    };
    if identity != Identity::RemappedRoot {
        // What the kernel demands of an ordinary user, and every rootless tool therefore does.
        write("setgroups", "deny")?;
    }
    write("uid_map", &uid_map)?;
    write("gid_map", &gid_map)
}

// Reports of the guardian and of PID 1 before it executes the entrypoint.

const READY: i32 = 0;
const STARTED: i32 = 1;
const EXECUTING: i32 = 2;
const ENDED: i32 = 3;
const FAILED: i32 = 4;

#[derive(Debug)]
struct Report {
    kind: i32,
    value: i32,
    step: i32,
}

fn report(reports: &mut File) -> Option<Report> {
    let mut bytes = [0; 12];
    reports.read_exact(&mut bytes).ok()?;
    let number = |at: usize| i32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
    Some(Report { kind: number(0), value: number(4), step: number(8) })
}

const REPORTS: RawFd = 4;
const GO: RawFd = 3;

fn send(kind: i32, value: i32, step: i32) {
    let record = [kind, value, step];
    // SAFETY: twelve readable bytes.
    unsafe { libc::write(REPORTS, record.as_ptr().cast(), 12) };
}

/// Waits until the test says to go on, and ends if there is no test any more.
fn await_word() {
    let mut byte = 0_u8;
    // SAFETY: one byte of room; and ending a forked process.
    unsafe {
        if libc::read(GO, (&raw mut byte).cast(), 1) != 1 {
            libc::_exit(101);
        }
    }
}

const STEPS: [&str; 12] = [
    "becoming an ordinary user",
    "unsharing namespaces",
    "forking PID 1",
    "becoming root of the user namespace",
    "making mounts private",
    "binding the root",
    "binding programs and the entrypoint",
    "mounting /proc",
    "pivot_root",
    "taking the terminal",
    "preparing the surroundings",
    "executing the entrypoint",
];

/// Ends this process with a report if a call failed.
fn step(number: usize, returned: libc::c_int) {
    if returned == -1 {
        let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
        send(FAILED, errno, i32::try_from(number).unwrap_or(0));
        // SAFETY: ends this forked process, without running anything of the test program's.
        unsafe { libc::_exit(100) };
    }
}

/// All that the forked processes need, built beforehand.
struct Prepared {
    become_nobody: bool,
    namespaces: libc::c_int,
    remapped: bool,
    root: CString,
    /// Source and target of each bind mount.
    binds: Vec<(CString, CString)>,
    proc: CString,
    terminal: bool,
    surroundings: Surroundings,
    filter: Vec<libc::sock_filter>,
    argv: Pointers,
    envp: Pointers,
}

/// A null-terminated array of pointers and the strings that it points into.
struct Pointers {
    _strings: Vec<CString>,
    list: Vec<*const libc::c_char>,
}

impl Pointers {
    fn new(strings: impl Iterator<Item = Vec<u8>>) -> Self {
        let strings: Vec<_> = strings.map(|string| CString::new(string).unwrap()).collect();
        let list = strings.iter().map(|string| string.as_ptr()).chain([null()]).collect();
        Self { _strings: strings, list }
    }
}

impl Prepared {
    fn new(container: &Container, image: &Image, identity: Identity, terminal: bool) -> Self {
        let path = |path: &Path| CString::new(path.as_os_str().as_bytes()).unwrap();
        let inside = |path_inside: &str| path(&image.root.join(path_inside.trim_start_matches('/')));
        let mut binds: Vec<_> =
            image.programs.iter().map(|program| (path(program), inside(program.to_str().unwrap()))).collect();
        binds.push((c"/dev/null".to_owned(), inside("/dev/null")));
        binds.push((path(&crate::binary::entrypoint()), inside(ENTRYPOINT)));
        let user_namespace = if identity == Identity::Root { 0 } else { libc::CLONE_NEWUSER };
        Self {
            become_nobody: is_root() && matches!(identity, Identity::LoneRoot | Identity::Ordinary),
            namespaces: libc::CLONE_NEWPID | libc::CLONE_NEWNS | user_namespace,
            remapped: identity == Identity::RemappedRoot,
            root: path(&image.root),
            binds,
            proc: inside("/proc"),
            terminal,
            filter: filter(&container.surroundings.answers),
            surroundings: container.surroundings.clone(),
            argv: Pointers::new([ENTRYPOINT.into()].into_iter().chain(container.arguments.iter().cloned())),
            envp: Pointers::new(container.environment.iter().cloned()),
        }
    }

    /// The guardian's whole life.
    ///
    /// # Safety
    ///
    /// To be called in a freshly forked child.
    unsafe fn guard(&self, descriptors: [RawFd; 5]) -> ! {
        // SAFETY: system calls on prepared memory; the raw descriptors are this process's own copies.
        unsafe {
            // They are all numbered 10 and above, so none overwrites another.
            for (number, &descriptor) in (0..).zip(&descriptors) {
                libc::dup2(descriptor, number);
            }
            // Above all the pipes of tests that run beside this one.
            libc::syscall(libc::SYS_close_range, 5, libc::c_uint::MAX, 0);
            if self.become_nobody {
                step(0, libc::setgroups(0, null()));
                step(0, libc::setresgid(NOBODY, NOBODY, NOBODY));
                step(0, libc::setresuid(NOBODY, NOBODY, NOBODY));
            }
            step(1, libc::unshare(self.namespaces));
            send(READY, 0, 0);
            await_word();

            let mut waited = std::mem::zeroed();
            libc::sigemptyset(&raw mut waited);
            libc::sigaddset(&raw mut waited, libc::SIGCHLD);
            libc::sigaddset(&raw mut waited, libc::SIGTERM);
            let mut before = std::mem::zeroed();
            libc::sigprocmask(libc::SIG_BLOCK, &raw const waited, &raw mut before);
            let pid_1 = libc::fork();
            step(2, pid_1);
            if pid_1 == 0 {
                libc::sigprocmask(libc::SIG_SETMASK, &raw const before, null_mut());
                await_word();
                self.become_entrypoint();
            }
            send(STARTED, pid_1, 0);
            // So that the test sees the end of the output when the container's processes have gone.
            libc::syscall(libc::SYS_close_range, 0, 2, 0);
            let limit = libc::timespec { tv_sec: TIME_LIMIT, tv_nsec: 0 };
            if libc::sigtimedwait(&raw const waited, null_mut(), &raw const limit) != libc::SIGCHLD {
                libc::kill(pid_1, libc::SIGKILL);
            }
            let mut status = 0;
            libc::waitpid(pid_1, &raw mut status, 0);
            send(ENDED, status, 0);
            libc::_exit(0);
        }
    }

    /// PID 1 until it is the entrypoint.
    ///
    /// # Safety
    ///
    /// To be called in a freshly forked child that is PID 1 of its namespaces.
    unsafe fn become_entrypoint(&self) -> ! {
        let bind = libc::MS_BIND | libc::MS_REC;
        // SAFETY: system calls on prepared memory.
        unsafe {
            if self.remapped {
                step(3, libc::setresgid(0, 0, 0));
                step(3, libc::setresuid(0, 0, 0));
                step(3, libc::setgroups(0, null()));
            }
            step(4, mount(c"none", c"/", c"", libc::MS_REC | libc::MS_PRIVATE));
            step(5, mount(&self.root, &self.root, c"", bind));
            for (source, target) in &self.binds {
                step(6, mount(source, target, c"", bind));
            }
            step(7, mount(c"proc", &self.proc, c"proc", libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC));
            step(8, libc::chdir(self.root.as_ptr()));
            let here = c".".as_ptr();
            step(8, if libc::syscall(libc::SYS_pivot_root, here, here) == -1 { -1 } else { 0 });
            step(8, libc::umount2(here, libc::MNT_DETACH));
            step(8, libc::chdir(c"/".as_ptr()));
            if self.terminal {
                step(9, libc::setsid());
                step(9, libc::ioctl(0, libc::TIOCSCTTY, 0));
            }
            self.arrange_surroundings();
            send(EXECUTING, 0, 0);
            libc::fcntl(GO, libc::F_SETFD, libc::FD_CLOEXEC);
            libc::fcntl(REPORTS, libc::F_SETFD, libc::FD_CLOEXEC);
            let entrypoint = self.argv.list[0];
            step(11, libc::execve(entrypoint, self.argv.list.as_ptr(), self.envp.list.as_ptr()));
            libc::_exit(102)
        }
    }

    /// # Safety
    ///
    /// As for [`Self::become_entrypoint`].
    unsafe fn arrange_surroundings(&self) {
        // SAFETY: system calls on prepared memory.
        unsafe {
            if self.surroundings.leaked_descriptor {
                let root = libc::open(c"/".as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY);
                step(10, libc::dup2(root, 7));
                libc::close(root);
            }
            if self.surroundings.disturbed_signals {
                libc::signal(libc::SIGPIPE, libc::SIG_IGN);
                libc::signal(libc::SIGHUP, libc::SIG_IGN);
                let mut blocked = std::mem::zeroed();
                libc::sigemptyset(&raw mut blocked);
                libc::sigaddset(&raw mut blocked, libc::SIGTERM);
                libc::sigaddset(&raw mut blocked, libc::SIGUSR1);
                libc::sigprocmask(libc::SIG_SETMASK, &raw const blocked, null_mut());
            } else {
                // Rust's start-up ignores it in the test program.
                libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            }
            if self.surroundings.no_standard_descriptors {
                libc::syscall(libc::SYS_close_range, 0, 2, 0);
            }
            if self.surroundings.capabilities_outlive_setuid {
                const SECBIT_NO_SETUID_FIXUP: libc::c_ulong = 1 << 2;
                step(10, libc::prctl(libc::PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0));
            }
            if self.surroundings.fewest_capabilities {
                const CAP_SETGID: libc::c_int = 6;
                const CAP_SETUID: libc::c_int = 7;
                for capability in (0..64).filter(|capability| ![CAP_SETGID, CAP_SETUID].contains(capability))
                {
                    // Numbers that this kernel does not know are an error, and not there anyway.
                    libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0);
                }
                step(10, libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
            }
            if !self.filter.is_empty() {
                let program = libc::sock_fprog {
                    len: u16::try_from(self.filter.len()).unwrap_or(0),
                    filter: self.filter.as_ptr().cast_mut(),
                };
                step(10, libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
                step(10, libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program));
            }
        }
    }
}

/// # Safety
///
/// Always sound; unsafe so that it is only called where system calls belong.
unsafe fn mount(source: &CStr, target: &CStr, kind: &CStr, flags: libc::c_ulong) -> libc::c_int {
    // SAFETY: C strings.
    unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, null()) }
}

/// A seccomp filter that answers in place of the kernel.
fn filter(answers: &[(libc::c_long, libc::c_int)]) -> Vec<libc::sock_filter> {
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let instruction = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    if answers.is_empty() {
        return Vec::new();
    }
    // The system call's number is the first field of what the filter sees.
    let mut program = vec![instruction(LOAD_WORD, 0, 0, 0)];
    for &(system_call, errno) in answers {
        program.push(instruction(JUMP_IF_EQUAL, 0, 1, u32::try_from(system_call).unwrap()));
        program.push(instruction(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | errno.unsigned_abs()));
    }
    program.push(instruction(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW));
    program
}

/// Reading and writing end, numbered 10 and above.
fn pipe() -> (File, File) {
    let (reader, writer) = std::io::pipe().unwrap();
    (high(&reader.into()), high(&writer.into()))
}

fn high(descriptor: &OwnedFd) -> File {
    // SAFETY: the new descriptor is nobody else's.
    unsafe {
        let copy = libc::fcntl(descriptor.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 10);
        assert!(copy >= 10, "{}", std::io::Error::last_os_error());
        File::from_raw_fd(copy)
    }
}

/// A terminal's two sides.
fn open_terminal() -> (File, File) {
    // SAFETY: plain calls on a descriptor of our own; ptsname_r writes into the buffer that it is given.
    unsafe {
        let master = libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC);
        assert!(master >= 0, "{}", std::io::Error::last_os_error());
        let master = OwnedFd::from_raw_fd(master);
        assert_eq!(libc::grantpt(master.as_raw_fd()), 0);
        assert_eq!(libc::unlockpt(master.as_raw_fd()), 0);
        let mut name = [0; 64];
        assert_eq!(libc::ptsname_r(master.as_raw_fd(), name.as_mut_ptr(), name.len()), 0);
        let slave = libc::open(name.as_ptr(), libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC);
        assert!(slave >= 0, "{}", std::io::Error::last_os_error());
        (high(&master), high(&OwnedFd::from_raw_fd(slave)))
    }
}
