//! Starting the command: between this clone and its exec nothing allocates, locks or formats.
//!
//! The child shares init's memory (CLONE_VM | CLONE_VFORK), so a failed exec is told by writing to a variable of
//! init's, and init goes on only when the exec has happened or failed.

use core::ffi::CStr;

use super::clone::vfork_here;
use super::sys::memory::Memory;
use super::sys::{self, Errno, Result};
use super::tag;
use super::terminal::{self, Terminal};
use super::users::{self, UserFields};
use super::wire::Reader;
use crate::report::Report;

const STACK: usize = 64 * 1024;
const SIGKILL: i32 = 9;

/// What the child of the clone needs, all of it built before.
struct Launch<'a> {
    candidates: Reader<'a>,
    candidate_count: usize,
    /// The command's name as it was typed.
    name: &'a CStr,
    /// One free slot, then the arguments, then null: the slot is for `/bin/sh` when a script names no interpreter.
    arguments: &'a mut [*const u8],
    environment: &'a [*const u8],
    terminal: u8,
    /// The terminal, or -1.
    tty: i32,
    umask: u32,
    /// The least that the soft limit on descriptors is set to, and the most that both are.
    open_files: [u64; 2],
    /// Who it is, of several users.
    user: Option<UserFields>,
    /// Whether the child must die with init by itself, because no PID namespace does it.
    die_with_init: bool,
    failure: Option<(u32, Errno)>,
}

/// How a command is started.
pub(super) struct How {
    /// The socket to the controller.
    pub(super) link: i32,
    /// The mask of permissions.
    pub(super) umask: u32,
    /// Whether this is the leader of a command of a session.
    pub(super) leads: bool,
    /// Whether a command without a terminal can stay in this process's POSIX session, which has none.
    pub(super) stays: bool,
}

/// Starts the command. Returns its pid, when its time is up, and whether it is one of several users. What this takes comes from
/// `memory`, and is not needed any more afterwards.
pub(super) fn start(
    mut part: Reader,
    how: &How,
    terminal: Option<&Terminal>,
    memory: &Memory,
) -> Result<(i32, Option<u64>, bool)> {
    let How { link, umask, leads, stays } = *how;
    let reader = &mut part;
    reader.magic()?;
    let (stand, limit, silent) = (reader.u8()?, reader.u64()?, reader.u8()? != 0);
    let open_files = [reader.u64()?, reader.u64()?];
    let tty = terminal.map_or(-1, Terminal::raw);
    keep_only(reader, [link, tty])?;
    let user = UserFields::read(reader)?;
    let deadline = (limit != 0).then(|| sys::now().saturating_add(limit));
    let candidate_count = reader.count()?;
    let candidates = *reader;
    for _ in 0..candidate_count {
        reader.string()?;
    }
    let mut words = *reader;
    let name = if words.count()? > 0 { words.string()? } else { c"" };
    let arguments = pointers(reader, 1, memory)?;
    let environment = pointers(reader, 0, memory)?;
    let mut launch = Launch {
        candidates,
        candidate_count,
        name,
        arguments,
        environment,
        terminal: match terminal {
            Some(_) => stand,
            // A session costs more than a group: the scheduler makes a group of tasks for each (autogroup).
            None if stays => tag::TERMINAL_BACKGROUND,
            None => tag::TERMINAL_DETACHED,
        },
        tty,
        umask,
        open_files,
        user,
        die_with_init: sys::getpid() != 1,
        failure: None,
    };
    let stack = memory.take(STACK)?;
    // If this process is killed from here on, the command may have run. Who kills a leader ends the session.
    if !leads && !silent {
        sys::send(link, &Report::Starting.encode())?;
    }
    let pid = vfork_here(stack, &mut launch, become_command)?;
    if user.is_some() {
        // The child has changed who this memory belongs to.
        users::keep_only_kill()?;
    }
    if let Some((candidate, Errno(errno))) = launch.failure {
        let _ = sys::send(link, &Report::NotExecuted { candidate, errno }.encode());
        sys::exit(1);
    }
    let started = Report::Started.encode();
    if leads {
        // The controller has no other way to know this process.
        let own = sys::pidfd_open(sys::getpid())?;
        sys::send_with_fd(link, &started, own.raw())?;
    } else if !silent {
        sys::send(link, &started)?;
    }
    Ok((pid, deadline, user.is_some()))
}

/// Closes every descriptor but the standard three, those of `own` and those the command asked for.
fn keep_only(reader: &mut Reader, own: [i32; 2]) -> Result<()> {
    let count = reader.count()?;
    let kept = *reader;
    for _ in 0..count {
        sys::set_cloexec(reader.u32()?.cast_signed(), false)?;
    }
    for fd in own.into_iter().filter(|fd| *fd >= 0) {
        sys::set_cloexec(fd, true)?;
    }
    let mut from = 3u32;
    loop {
        // The lowest descriptor at or above `from` that stays.
        let mut next = u32::MAX;
        for fd in own.into_iter().filter(|fd| *fd >= 0).map(i32::cast_unsigned) {
            if fd >= from && fd < next {
                next = fd;
            }
        }
        let mut list = kept;
        for _ in 0..count {
            let fd = list.u32()?;
            if fd >= from && fd < next {
                next = fd;
            }
        }
        if next > from {
            close_between(from, next - 1)?;
        }
        if next == u32::MAX {
            return Ok(());
        }
        from = next + 1;
    }
}

pub(super) fn close_between(first: u32, last: u32) -> Result<()> {
    match sys::close_range(first, last) {
        // Before 5.9.
        Err(Errno::ENOSYS) => {
            (first..=last.min(first.saturating_add(1 << 20))).for_each(|fd| sys::close(fd.cast_signed()));
            Ok(())
        }
        other => other,
    }
}

/// A null-terminated array of pointers to the strings that follow in `reader`, after `spare` free slots.
fn pointers<'m>(reader: &mut Reader, spare: usize, memory: &'m Memory) -> Result<&'m mut [*const u8]> {
    let count = reader.count()?;
    let array = memory.take_pointers(count + spare)?;
    for pointer in array.iter_mut().skip(spare).take(count) {
        *pointer = reader.string()?.as_ptr().cast();
    }
    Ok(array)
}

/// The child of the clone.
fn become_command(launch: &mut Launch) -> ! {
    match launch.terminal {
        tag::TERMINAL_DETACHED => drop(sys::setsid()),
        stand => {
            let _ = sys::setpgid(0, 0);
            if stand == tag::TERMINAL_FOREGROUND {
                terminal::give(launch.tty, sys::getpid());
            }
        }
    }
    if launch.die_with_init {
        let _ = sys::set_death_signal(SIGKILL);
    }
    let _ = sys::set_signal_mask(0);
    sys::umask(launch.umask);
    let [least, most] = launch.open_files;
    if most != u64::MAX
        && let Err(errno) = limit_open_files(least, most)
    {
        launch.failure = Some((u32::MAX, errno));
        sys::exit(127)
    }
    if let Some(user) = &launch.user
        && let Err(errno) = user.become_it()
    {
        launch.failure = Some((u32::MAX, errno));
        sys::exit(127)
    }
    launch.failure = Some(try_candidates(launch));
    sys::exit(127)
}

/// Where the policy names no number (`least` is 0), what is left to the sandbox is at most half of what the caller may have: how
/// many descriptors are on their way is compared with that, too, and the caller's own programs are to have the other half. A
/// limit that is small already stays.
fn limit_open_files(least: u64, most: u64) -> Result<()> {
    const SMALL: u64 = 1024;
    let [soft, hard] = sys::get_limit(sys::NOFILE)?;
    let most = if least == 0 { most.min((hard / 2).max(SMALL)) } else { most };
    sys::set_limit(sys::NOFILE, soft.min(most).max(least), most)
}

/// Goes through the candidates as execvp does. Returns why none could be executed.
fn try_candidates(launch: &mut Launch) -> (u32, Errno) {
    let mut candidates = launch.candidates;
    let mut failure = (0, Errno::ENOENT);
    let searched = !launch.name.to_bytes().contains(&b'/');
    for index in 0..launch.candidate_count {
        let Ok(path) = candidates.string() else { return (0, Errno::EPROTO) };
        let errno = execute(path, launch);
        match errno {
            // The file is there: what is not is the interpreter that it names, or its dynamic linker.
            Errno::ENOENT if sys::exists(path) => failure = (index as u32, Errno::ELIBACC),
            Errno::ENOENT | Errno::ENOTDIR => {}
            // Whether a folder of PATH that may not be searched holds it, nobody knows: it was not found there.
            Errno::EACCES if searched && !sys::exists(path) => {}
            // Remembered, but a later folder of PATH may hold one that can be executed.
            Errno::EACCES => failure = (index as u32, errno),
            _ => return (index as u32, errno),
        }
    }
    failure
}

fn execute(path: &CStr, launch: &mut Launch) -> Errno {
    let errno = sys::execve(path, launch.arguments.get(1..).unwrap_or_default(), launch.environment);
    if errno == Errno::ENOEXEC
        && let [shell, script, ..] = &mut launch.arguments
    {
        // A script that names no interpreter is the shell's, as execvp and every shell have it.
        (*shell, *script) = (c"sh".as_ptr().cast(), path.as_ptr().cast());
        return sys::execve(c"/bin/sh", launch.arguments, launch.environment);
    }
    errno
}
