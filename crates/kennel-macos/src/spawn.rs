//! From words, variables and streams to a process in its sandbox.
//!
//! `/usr/bin/sandbox-exec` compiles the profile, applies it to itself and becomes the command. It is the system's own, works
//! for a library that has no program of its own, and keeps the compiler of profiles, which allocates, out of a forked child.
//!
//! What comes before it needs a process of our own for a few calls, because `posix_spawn` can neither set resource limits nor
//! make a terminal the controlling one. So there is a `fork`, by [`std::process::Command`], and between it and the new program
//! nothing but system calls on what was prepared before ([`Prepared::become_program`]): the caller may have threads, and locks of
//! theirs stay locked in the child. A shell that did the same inside the sandbox would be one more program that a policy has
//! to allow.
//!
//! The last of these calls is `posix_spawn` with `POSIX_SPAWN_SETEXEC`, which is an `execve` that closes every descriptor but
//! those that are named (`POSIX_SPAWN_CLOEXEC_DEFAULT`): what a program opened without thinking of its children stays out.
//!
//! The command leads a session of its own. It has no controlling terminal but the one that it is given, and cannot type on
//! the caller's.

use std::ffi::{CString, OsString, c_char, c_int, c_short};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use libc::{pid_t, posix_spawn_file_actions_t, posix_spawnattr_t, rlimit};

use crate::command_line::SANDBOX_EXEC;
use crate::limits::Resource;

/// What is started.
pub struct Start<'s> {
    /// The words of `sandbox-exec`.
    pub words: &'s [OsString],
    /// The command's variables.
    pub variables: &'s [(OsString, OsString)],
    /// Where it starts.
    pub folder: &'s Path,
    /// Its streams.
    pub streams: [OwnedFd; 3],
    /// Which of the streams is to be its controlling terminal.
    pub terminal: Option<usize>,
    /// Further descriptors that it keeps, under their own numbers.
    pub keep: &'s [u32],
    /// Its limits.
    pub limits: &'s [(Resource, u64)],
}

/// Starts it; returns the process's number. It is this process's child, and leads a session and a group of that number.
///
/// # Errors
/// When the system refuses. Nothing is left then.
pub fn spawn(start: Start) -> io::Result<pid_t> {
    let Start { words, variables, folder, streams, terminal, keep, limits } = start;
    let text = |bytes: &[u8]| CString::new(bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
    let words = words.iter().map(|word| text(word.as_bytes())).collect::<io::Result<Vec<_>>>()?;
    let variables = variables
        .iter()
        .map(|(name, value)| text(&[name.as_bytes(), b"=", value.as_bytes()].concat()))
        .collect::<io::Result<Vec<_>>>()?;
    let terminal = terminal.map(c_int::try_from).transpose().map_err(|_| io::ErrorKind::InvalidInput)?;
    let limits = limits.iter().map(|(resource, most)| (number(*resource), *most)).collect();
    let mut inherited: Vec<c_int> = vec![0, 1, 2];
    for fd in keep {
        inherited.push(c_int::try_from(*fd).map_err(|_| io::ErrorKind::InvalidInput)?);
    }
    let prepared = Arc::new(Prepared::new(words, variables, &inherited, terminal, limits)?);
    let [input, output, errors] = streams;
    let mut command = Command::new(SANDBOX_EXEC);
    command
        .current_dir(folder)
        .stdin(Stdio::from(input))
        .stdout(Stdio::from(output))
        .stderr(Stdio::from(errors));
    // SAFETY: it makes system calls on what was prepared, and neither allocates nor locks.
    unsafe { command.pre_exec(move || prepared.become_program()) };
    let child = command.spawn()?;
    // It is waited for by its number: `Child` knows no statistics, and does nothing when it is dropped.
    pid_t::try_from(child.id()).map_err(io::Error::other)
}

fn number(resource: Resource) -> c_int {
    match resource {
        Resource::OpenFiles => libc::RLIMIT_NOFILE,
        Resource::FileSize => libc::RLIMIT_FSIZE,
        Resource::Core => libc::RLIMIT_CORE,
        Resource::CpuTime => libc::RLIMIT_CPU,
        Resource::Processes => libc::RLIMIT_NPROC,
    }
}

unsafe extern "C" {
    /// `int posix_spawn_file_actions_addinherit_np(posix_spawn_file_actions_t *, int)`, since 10.7.
    fn posix_spawn_file_actions_addinherit_np(actions: *mut posix_spawn_file_actions_t, fd: c_int) -> c_int;
}

/// Everything that the child needs, in the form in which the system takes it.
struct Prepared {
    program: CString,
    /// With a null at the end; they point into the two below.
    word_pointers: Vec<*mut c_char>,
    variable_pointers: Vec<*mut c_char>,
    _words: Vec<CString>,
    _variables: Vec<CString>,
    attributes: posix_spawnattr_t,
    actions: posix_spawn_file_actions_t,
    terminal: Option<c_int>,
    limits: Vec<(c_int, u64)>,
}

// SAFETY: nobody changes it, and what the pointers lead to is its own.
unsafe impl Send for Prepared {}
// SAFETY: as above.
unsafe impl Sync for Prepared {}

/// What a function of the `posix_spawn` family returns is the error itself.
fn done(result: c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(result)) }
}

fn pointers(texts: &[CString]) -> Vec<*mut c_char> {
    texts.iter().map(|text| text.as_ptr().cast_mut()).chain([std::ptr::null_mut()]).collect()
}

impl Prepared {
    fn new(
        words: Vec<CString>,
        variables: Vec<CString>,
        inherited: &[c_int],
        terminal: Option<c_int>,
        limits: Vec<(c_int, u64)>,
    ) -> io::Result<Prepared> {
        let program = CString::new(SANDBOX_EXEC)?;
        let mut attributes: posix_spawnattr_t = std::ptr::null_mut();
        // SAFETY: makes the value that it is given a pointer to.
        done(unsafe { libc::posix_spawnattr_init(&mut attributes) })?;
        let mut actions: posix_spawn_file_actions_t = std::ptr::null_mut();
        // SAFETY: as above.
        if let Err(error) = done(unsafe { libc::posix_spawn_file_actions_init(&mut actions) }) {
            // SAFETY: it was made above, and nobody uses it any more.
            unsafe { libc::posix_spawnattr_destroy(&mut attributes) };
            return Err(error);
        }
        // From here on both are destroyed with it.
        let mut prepared = Prepared {
            program,
            word_pointers: pointers(&words),
            variable_pointers: pointers(&variables),
            _words: words,
            _variables: variables,
            attributes,
            actions,
            terminal,
            limits,
        };
        let flags = libc::POSIX_SPAWN_SETEXEC | libc::POSIX_SPAWN_CLOEXEC_DEFAULT;
        let flags = c_short::try_from(flags).map_err(io::Error::other)?;
        // SAFETY: the attributes were made above.
        done(unsafe { libc::posix_spawnattr_setflags(&mut prepared.attributes, flags) })?;
        for fd in inherited {
            // SAFETY: the actions were made above.
            done(unsafe { posix_spawn_file_actions_addinherit_np(&mut prepared.actions, *fd) })?;
        }
        Ok(prepared)
    }

    /// In the child: becomes `sandbox-exec`. Returns only if something fails; the parent is told what.
    ///
    /// Preconditions: a child of `fork` that has done nothing since but what `std` does before (its streams and its folder). Every line
    /// here is a system call, on memory that was there before; an error is a number, which takes no memory.
    fn become_program(&self) -> io::Result<()> {
        // SAFETY: takes nothing.
        if unsafe { libc::setsid() } == -1 {
            return Err(io::Error::last_os_error());
        }
        if let Some(fd) = self.terminal {
            // SAFETY: takes a number; the terminal becomes the controlling one of this session.
            if unsafe { libc::ioctl(fd, libc::c_ulong::from(libc::TIOCSCTTY), 0) } == -1 {
                return Err(io::Error::last_os_error());
            }
        }
        for (resource, most) in &self.limits {
            lower(*resource, *most)?;
        }
        // SAFETY: all of it was prepared, and lives in `self`. With SETEXEC no number is returned, so none is asked for.
        let failed = unsafe {
            libc::posix_spawn(
                std::ptr::null_mut(),
                self.program.as_ptr(),
                &self.actions,
                &self.attributes,
                self.word_pointers.as_ptr(),
                self.variable_pointers.as_ptr(),
            )
        };
        Err(io::Error::from_raw_os_error(failed))
    }
}

/// Lowers a limit; one that is lower already stays.
fn lower(resource: c_int, most: u64) -> io::Result<()> {
    let mut limit = rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is writable.
    if unsafe { libc::getrlimit(resource, &mut limit) } == -1 {
        return Err(io::Error::last_os_error());
    }
    limit.rlim_max = limit.rlim_max.min(most);
    limit.rlim_cur = limit.rlim_cur.min(limit.rlim_max);
    // SAFETY: the structure can be read.
    if unsafe { libc::setrlimit(resource, &limit) } == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

impl Drop for Prepared {
    fn drop(&mut self) {
        // SAFETY: both were made in `new`, and nobody uses them any more.
        unsafe {
            libc::posix_spawn_file_actions_destroy(&mut self.actions);
            libc::posix_spawnattr_destroy(&mut self.attributes);
        }
    }
}

/// Whether a descriptor of this process is open: one that is to be kept has to be.
#[must_use]
pub fn is_open(fd: u32) -> bool {
    let Ok(fd) = c_int::try_from(fd) else { return false };
    // SAFETY: asks about a number, and changes nothing.
    unsafe { libc::fcntl(fd, libc::F_GETFD) != -1 }
}
