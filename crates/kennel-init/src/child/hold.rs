//! Everything inside stands still, and goes on again: when the job is stopped, and while the controller asks its user
//! something.
//!
//! Stopping the command's process group is not enough. Whoever inside left it for a session of their own would run on
//! beside a stopped controller, and write to the screen below a question.
//!
//! What had been stopped before stays stopped afterwards. And processes are stopped from the root of their tree to the
//! leaves, each generation when the one before stands, and continued the other way: a shell that runs while its jobs are
//! stopped would find them so, and take the terminal from them.

use super::sys::memory::List;
use super::sys::{self, AT_FDCWD, Fd, Result, open};

const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;

/// The most processes that are told apart; of more, all are continued.
const MAX: usize = 32 << 10;
/// Of up to so many the generations are told apart, which takes the square of the number.
const MAX_IN_ORDER: usize = 2048;
const MAX_GENERATIONS: u32 = 64;
/// How long all generations together have to come to a stand, in nanoseconds. Whoever waits for a disk takes longer, and is
/// not waited for; and how often that is looked at.
const TO_STAND: u64 = 100_000_000;
const LOOK: u64 = 50_000;
/// Without a PID namespace processes are stopped one by one, and who forks meanwhile is found in the next round.
const ROUNDS: usize = 64;

/// A process, as /proc shows it.
#[derive(Clone, Copy)]
struct Process {
    pid: i32,
    parent: i32,
    stopped: bool,
    /// How far it is from the root of the tree.
    generation: u32,
}

/// What is held.
pub(super) struct Hold {
    active: bool,
    /// Who had been stopped before; `None` where that could not be found out.
    stopped: Option<Table>,
}

impl Hold {
    pub(super) const fn none() -> Hold {
        Hold { active: false, stopped: None }
    }

    /// Whether everything is held.
    pub(super) fn is_active(&self) -> bool {
        self.active
    }

    /// Whether this process had been stopped before.
    pub(super) fn found_stopped(&self, pid: i32) -> bool {
        self.stopped.as_ref().is_some_and(|table| table.has(pid))
    }

    /// Stops everything inside. `command` is a process group that is inside in any case.
    pub(super) fn begin(&mut self, command: i32) {
        if self.active {
            return;
        }
        self.active = true;
        let namespaced = sys::getpid() == 1;
        let mut table = Table::of_everyone();
        if let Some(table) = &mut table {
            table.stop_all();
            table.keep_if(|process| process.stopped);
        }
        self.stopped = table;
        // Those that were made meanwhile, and everybody where nothing is known of them.
        if namespaced {
            let _ = sys::kill(-1, SIGSTOP);
            return;
        }
        for _ in 0..ROUNDS {
            let Some(mut running) = Table::of_everyone() else {
                let _ = sys::kill(-command, SIGSTOP);
                return;
            };
            running.keep_if(|process| !process.stopped);
            if running.0.is_empty() {
                return;
            }
            for process in running.0.iter() {
                let _ = sys::kill(process.pid, SIGSTOP);
            }
        }
    }

    /// Continues what was held.
    pub(super) fn end(&mut self, command: i32) {
        if !core::mem::take(&mut self.active) {
            return;
        }
        let stopped = self.stopped.take();
        match (Table::of_everyone(), stopped) {
            (Some(mut everyone), Some(stopped)) => {
                everyone.keep_if(|process| !stopped.has(process.pid));
                everyone.continue_all();
            }
            _ if sys::getpid() == 1 => drop(sys::kill(-1, SIGCONT)),
            _ => drop(sys::kill(-command, SIGCONT)),
        }
    }
}

/// Processes inside.
struct Table(List<Process>);

impl Table {
    /// All processes inside but this one; `None` where /proc is not the sandbox's own, or there are too many.
    fn of_everyone() -> Option<Table> {
        let own = sys::getpid();
        let mut name = [0u8; 16];
        let length = sys::readlinkat(AT_FDCWD, c"/proc/self", &mut name).ok()?;
        if number(name.get(..length)?) != Some(own) {
            return None;
        }
        let folder = sys::openat(AT_FDCWD, c"/proc", open::RDONLY | open::DIRECTORY).ok()?;
        let mut table = Table(List::with_room(MAX).ok()?);
        table.read(&folder).ok()?;
        if own != 1 {
            table.keep_descendants_of(own);
        }
        table.keep_if(|process| process.pid != own);
        Some(table)
    }

    fn read(&mut self, folder: &Fd) -> Result<()> {
        let mut entries = [0u8; 4096];
        loop {
            let filled = sys::getdents(folder, &mut entries)?;
            if filled == 0 {
                return Ok(());
            }
            let mut rest = &entries[..filled];
            // struct linux_dirent64: the record's length at byte 16, the name from byte 19 on.
            while rest.len() > 19 {
                let length = usize::from(u16::from_ne_bytes([rest[16], rest[17]])).clamp(20, rest.len());
                let name = &rest[19..length];
                let name = &name[..name.iter().position(|byte| *byte == 0).unwrap_or(name.len())];
                if let Some(process) = number(name).and_then(|pid| look(folder, name, pid)) {
                    self.0.push(process)?;
                }
                rest = &rest[length..];
            }
        }
    }

    fn has(&self, pid: i32) -> bool {
        self.0.iter().any(|process| process.pid == pid)
    }

    fn keep_if(&mut self, mut keep: impl FnMut(&Process) -> bool) {
        let list = &mut self.0;
        let mut kept = 0;
        for at in 0..list.len() {
            let process = list[at];
            if keep(&process) {
                list[kept] = process;
                kept += 1;
            }
        }
        self.0.truncate(kept);
    }

    /// Leaves out whose line of parents does not lead to `top`.
    fn keep_descendants_of(&mut self, top: i32) {
        for process in self.0.iter_mut() {
            process.generation = u32::from(process.pid == top);
        }
        for generation in 1..MAX_GENERATIONS {
            for at in 0..self.0.len() {
                let Process { parent, generation: known, .. } = self.0[at];
                let of = |other: &Process| other.pid == parent && other.generation == generation;
                if known == 0 && self.0.iter().any(of) {
                    self.0[at].generation = generation + 1;
                }
            }
        }
        self.keep_if(|process| process.generation > 0);
    }

    /// Finds out who descends from whom; returns how many generations there are.
    fn sort_generations(&mut self) -> u32 {
        for process in self.0.iter_mut() {
            process.generation = 0;
        }
        if self.0.len() > MAX_IN_ORDER {
            return 1;
        }
        for generation in 0..MAX_GENERATIONS {
            let mut found = false;
            for at in 0..self.0.len() {
                let Process { parent, generation: known, .. } = self.0[at];
                let of = |other: &Process| other.pid == parent && other.generation == generation;
                if known <= generation && self.0.iter().any(of) {
                    self.0[at].generation = generation + 1;
                    found = true;
                }
            }
            if !found {
                return generation + 1;
            }
        }
        MAX_GENERATIONS + 1
    }

    /// Stops all of them, parents before their children.
    fn stop_all(&mut self) {
        let deadline = sys::now().saturating_add(TO_STAND);
        for generation in 0..self.sort_generations() {
            let those = self.0.iter().filter(|one| one.generation == generation && !one.stopped);
            for process in those.clone() {
                let _ = sys::kill(process.pid, SIGSTOP);
            }
            for process in those {
                while runs(process.pid) && sys::now() < deadline {
                    let _ = sys::poll_for(&mut [], LOOK);
                }
            }
        }
    }

    /// Continues all of them, children before their parents.
    fn continue_all(&mut self) {
        for generation in (0..self.sort_generations()).rev() {
            for process in self.0.iter().filter(|process| process.generation == generation) {
                let _ = sys::kill(process.pid, SIGCONT);
            }
        }
    }
}

/// Whether a process neither stands nor has ended.
fn runs(pid: i32) -> bool {
    let mut buffer = [0u8; 12];
    let mut at = buffer.len();
    let mut rest = pid;
    while rest > 0 {
        at -= 1;
        buffer[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let Ok(folder) = sys::openat(AT_FDCWD, c"/proc", open::RDONLY | open::DIRECTORY) else { return false };
    let state = state_of(&folder, &buffer[at..]);
    // Stopped, being traced, ended, or gone.
    state.is_some_and(|(state, _)| !matches!(state, b'T' | b't' | b'Z' | b'X'))
}

/// What /proc says of a process that may have ended.
fn look(folder: &Fd, name: &[u8], pid: i32) -> Option<Process> {
    let (state, parent) = state_of(folder, name)?;
    Some(Process { pid, parent, stopped: state == b'T', generation: 0 })
}

/// The state and the parent of the process with this number.
fn state_of(folder: &Fd, name: &[u8]) -> Option<(u8, i32)> {
    let mut path = [0u8; 32];
    path.get_mut(..name.len())?.copy_from_slice(name);
    path.get_mut(name.len()..name.len() + 5)?.copy_from_slice(b"/stat");
    let path = core::ffi::CStr::from_bytes_until_nul(&path).ok()?;
    let mut text = [0u8; 512];
    let file = sys::openat(folder.raw(), path, open::RDONLY).ok()?;
    let length = sys::read(file.raw(), &mut text).ok()?;
    parse(text.get(..length)?)
}

/// The state and the parent out of `pid (name) S parent …`. The name may hold anything; nothing behind it holds a bracket.
fn parse(text: &[u8]) -> Option<(u8, i32)> {
    let bracket = text.iter().rposition(|byte| *byte == b')')?;
    let mut words = text.get(bracket + 2..)?.split(|byte| *byte == b' ');
    let state = *words.next()?.first()?;
    Some((state, number(words.next()?)?))
}

fn number(digits: &[u8]) -> Option<i32> {
    if digits.is_empty() || digits.len() > 9 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0, |value, digit| value * 10 + i32::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_blanks_hides_neither_state_nor_parent() {
        assert_eq!(parse(b"12 (sh) S 3 12 12 0"), Some((b'S', 3)));
        assert_eq!(parse(b"12 (a) T 9 (b)) T 41 12"), Some((b'T', 41)));
        assert_eq!(parse(b"12 (a"), None);
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn only_numbers_name_processes() {
        assert_eq!(number(b"1234"), Some(1234));
        for other in [b"".as_slice(), b"self", b"12a", b"9999999999"] {
            assert_eq!(number(other), None);
        }
    }

    #[test]
    fn this_process_sees_others() {
        // Not its own descendants, of which there need not be any.
        assert!(Table::of_everyone().is_some());
    }
}
