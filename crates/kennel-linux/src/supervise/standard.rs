//! The caller's standard streams: what each of them is, and what the command gets in its place.
//!
//! | the caller's | the command's |
//! |---|---|
//! | a terminal | the sandbox's own terminal, carried ([`super::terminal`]) |
//! | a regular file to read | the same file, opened again inside, read-only; or a copy in memory; or a pipe, carried |
//! | a regular file to write | a pipe, carried ([`super::carry`]) |
//! | `/dev/null`, `zero`, `full`, `random`, `urandom` | the sandbox's own |
//! | a FIFO with a name, another device | a pipe, carried |
//! | a pipe, a socket | itself |
//!
//! A folder, or a handle that only names a file, is refused before it comes to this.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use kennel_init::child::sys;
use kennel_init::plan;
use rustix::fs::{FileType, MemfdFlags, OFlags, SealFlags, SeekFrom, Stat};

use super::carry::{Carried, Sink};
use super::terminal::{CallerTerminal, Terminal};
use crate::plan::{Caller, InputFile, TerminalStreams};
use crate::sys::files::{is_other_side, numbered};

/// The largest file that is copied into memory when it cannot be opened again.
const COPIED: u64 = 8 << 20;

/// What is being done when a stream is carried, for errors.
const DOING: [&str; 3] = ["reading standard input", "writing standard output", "writing standard error"];

/// What the command gets.
#[derive(Debug, Default)]
pub struct Standard {
    /// What the plan has to arrange.
    pub caller: Caller,
    /// The terminal, if one of the streams is one.
    pub terminal: Option<Terminal>,
    /// What the controller carries otherwise.
    pub carried: Option<Carried>,
    /// What takes the place of the caller's descriptors when PID 1 is cloned.
    pub ends: [Option<OwnedFd>; 3],
    /// Whether these are this process's own standard streams.
    own: bool,
}

/// What a policy has to say about streams.
#[derive(Clone, Debug, Default)]
pub struct StreamRules {
    /// How much output passes, on each of the two.
    pub output: Option<u64>,
    /// How large a file may get.
    pub file_size: Option<u64>,
    /// Further descriptors that the command gets.
    pub keep: Vec<u32>,
    /// Whether the sandbox stands already, so that no file can be opened again for it.
    pub late: bool,
}

/// Device and number.
type Inode = (u64, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Terminal,
    /// A device that every sandbox has, by its name below /dev.
    Device(&'static str),
    File,
    /// Whatever has an inode of the host's behind it, or takes commands.
    Carried,
    /// Pipes and sockets, which are nowhere on the disk.
    Passed,
}

impl Standard {
    /// Looks at this process's own streams.
    ///
    /// # Errors
    /// When the system has no descriptors or memory left.
    pub fn of_this_process(rules: &StreamRules) -> io::Result<Standard> {
        let streams = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
        let (stats, mut kinds) = look_at(streams)?;
        let mut standard = Standard { own: true, ..Standard::default() };
        standard.share_terminal(streams, &stats, &mut kinds, rules)?;
        standard.arrange(streams, &stats, kinds, rules)
    }

    /// Looks at streams that a program has for a command which does not run on its terminal. A terminal among them is one
    /// more device to be carried.
    ///
    /// # Errors
    /// When the system has no descriptors or memory left.
    pub fn of(streams: [BorrowedFd; 3], rules: &StreamRules) -> io::Result<Standard> {
        let (stats, kinds) = look_at(streams)?;
        let kinds = kinds.map(|kind| if kind == Kind::Terminal { Kind::Carried } else { kind });
        Standard::default().arrange(streams, &stats, kinds, rules)
    }

    /// A terminal of the sandbox's own for all three, whose other side is the caller's.
    #[must_use]
    pub fn terminal((rows, columns): (u16, u16)) -> Standard {
        let mut standard = Standard::default();
        standard.caller.terminal = plan::Terminal::Foreground;
        // Without modes it begins as the kernel makes it.
        standard.caller.tty =
            Some(TerminalStreams { modes: Vec::new(), size: [rows, columns, 0, 0], streams: vec![0, 1, 2] });
        standard
    }

    fn arrange(
        mut self,
        streams: [BorrowedFd; 3],
        stats: &[Stat],
        kinds: [Kind; 3],
        rules: &StreamRules,
    ) -> io::Result<Standard> {
        let standard = &mut self;
        for (index, stream) in streams.into_iter().enumerate() {
            match kinds[index] {
                Kind::Device(name) if index == 0 || rules.output.is_none() => standard.device(name, index),
                Kind::Passed if index == 0 || rules.output.is_none() => {}
                // Done with: the sandbox's own.
                Kind::Terminal if index == 0 || rules.output.is_none() => {}
                _ if index == 0 => standard.input(stream, &stats[0], kinds[0], rules)?,
                kind => {
                    let shared = index == 2 && kinds[1] == kind && same_output(stats, streams);
                    if shared && rules.output.is_none() && standard.ends[1].is_some() {
                        standard.ends[2] = standard.ends[1].as_ref().map(OwnedFd::try_clone).transpose()?;
                    } else {
                        standard.output(index, stream, kind, rules)?;
                    }
                }
            }
        }
        Ok(self)
    }

    /// Sorts out the terminals: one of them becomes the sandbox's, with all streams that lead to it.
    fn share_terminal(
        &mut self,
        streams: [BorrowedFd<'static>; 3],
        stats: &[Stat],
        kinds: &mut [Kind; 3],
        rules: &StreamRules,
    ) -> io::Result<()> {
        let mut found: Vec<(u32, BorrowedFd, Option<Inode>)> = Vec::new();
        for (index, stream) in streams.into_iter().enumerate() {
            let capped = index > 0 && rules.output.is_some();
            if kinds[index] == Kind::Terminal && !capped {
                found.push((index as u32, stream, which_terminal(stream, &stats[index])));
            }
        }
        for number in &rules.keep {
            let Some(kept) = numbered(i32::try_from(*number).unwrap_or(0)) else { continue };
            if let Ok(stat) = rustix::fs::fstat(kept)
                && kind_of(kept, &stat) == Kind::Terminal
            {
                found.push((*number, kept, which_terminal(kept, &stat)));
            }
        }
        // The session's own is the one with a keyboard, whichever stream comes first.
        let primary = found.iter().find(|(.., which)| which.is_none()).or(found.first());
        let Some(&(_, stream, primary)) = primary else { return Ok(()) };
        let mut same = Vec::new();
        for (number, _, which) in &found {
            if *which == primary {
                same.push(*number);
            } else if let Some(kind) = kinds.get_mut(*number as usize) {
                *kind = Kind::Carried;
            } else {
                return Err(io::Error::other(format!(
                    "descriptor {number} is a second terminal; the command can have only one"
                )));
            }
        }
        let is_pipe =
            |stat: &Stat| matches!(FileType::from_raw_mode(stat.st_mode), FileType::Fifo | FileType::Socket);
        let pipeline = stats[..2].iter().any(is_pipe);
        let shared = stats.iter().any(is_pipe) || rules.output.is_some();
        let (terminal, begin) = Terminal::new(stream, same, pipeline, shared)?;
        self.caller.terminal = match terminal.is_eager() {
            true => plan::Terminal::Foreground,
            false => plan::Terminal::Background,
        };
        (self.caller.tty, self.terminal) = (Some(begin), Some(terminal));
        Ok(())
    }

    fn device(&mut self, name: &'static str, index: usize) {
        match self.caller.devices.iter_mut().find(|(other, _)| *other == name) {
            Some((_, streams)) => streams.push(index as u32),
            None => self.caller.devices.push((name, vec![index as u32])),
        }
    }

    fn input(&mut self, stream: BorrowedFd, stat: &Stat, kind: Kind, rules: &StreamRules) -> io::Result<()> {
        if access(stream) == OFlags::WRONLY {
            // Nothing can be read from it, and it is not for writing.
            self.device("null", 0);
            return Ok(());
        }
        if kind == Kind::File {
            self.carried.get_or_insert_default().restore(stream.try_clone_to_owned()?);
            if self.own
                && !rules.late
                && let Some(input) = reopened(stream, stat)
            {
                self.caller.input = Some(input);
                // Init has it done, and hands over how far it is read, or a pipe.
                self.carried.get_or_insert_default();
                return Ok(());
            }
            if stat.st_size.unsigned_abs() <= COPIED
                && let Ok(copy) = copied(stream)
            {
                self.carried.get_or_insert_default().follow(copy.try_clone()?);
                self.ends[0] = Some(copy);
                return Ok(());
            }
        }
        let from = if kind == Kind::File { stream.try_clone_to_owned()? } else { not_waiting(stream)? };
        self.ends[0] = Some(self.carried.get_or_insert_default().input(from, kind == Kind::File)?);
        Ok(())
    }

    fn output(
        &mut self,
        index: usize,
        stream: BorrowedFd,
        kind: Kind,
        rules: &StreamRules,
    ) -> io::Result<()> {
        if access(stream) == OFlags::RDONLY {
            // Nothing can be written to it, and it is not for reading.
            self.device("null", index);
            return Ok(());
        }
        let sink = match kind {
            Kind::File => Sink::File(stream.try_clone_to_owned()?, rules.file_size),
            _ if rustix::termios::isatty(stream) => Sink::Terminal(CallerTerminal::behind(stream)?),
            Kind::Carried => Sink::Other(not_waiting(stream)?),
            _ => Sink::Other(stream.try_clone_to_owned()?),
        };
        let carried = self.carried.get_or_insert_default();
        self.ends[index] = Some(carried.output(DOING[index], sink, rules.output)?);
        Ok(())
    }
}

fn look_at(streams: [BorrowedFd; 3]) -> io::Result<(Vec<Stat>, [Kind; 3])> {
    let mut stats = Vec::with_capacity(3);
    let mut kinds = [Kind::Passed; 3];
    for (kind, stream) in kinds.iter_mut().zip(streams) {
        let stat = rustix::fs::fstat(stream)?;
        *kind = kind_of(stream, &stat);
        stats.push(stat);
    }
    Ok((stats, kinds))
}

fn kind_of(stream: BorrowedFd, stat: &Stat) -> Kind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::CharacterDevice => match (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev))
        {
            (1, 3) => Kind::Device("null"),
            (1, 5) => Kind::Device("zero"),
            (1, 7) => Kind::Device("full"),
            (1, 8) => Kind::Device("random"),
            (1, 9) => Kind::Device("urandom"),
            _ if rustix::termios::isatty(stream) && !is_other_side(stream) => Kind::Terminal,
            _ => Kind::Carried,
        },
        FileType::BlockDevice => Kind::Carried,
        FileType::Fifo if has_name(stream) => Kind::Carried,
        _ => Kind::Passed,
    }
}

/// Whether this is the side of a pseudo-terminal that whoever shows it has.
/// Whether a FIFO lies in a folder. What pipe(2) makes lies in a file system of the kernel's own.
fn has_name(stream: BorrowedFd) -> bool {
    const PIPEFS: rustix::fs::FsWord = 0x5049_5045;
    rustix::fs::fstatfs(stream).is_ok_and(|of| of.f_type != PIPEFS)
}

/// Which terminal this is: `None` for the session's own, which has several names.
fn which_terminal(stream: BorrowedFd, stat: &Stat) -> Option<Inode> {
    rustix::termios::tcgetsid(stream).is_err().then_some((stat.st_dev, stat.st_ino))
}

/// The same FIFO or device by an open file of this process's own, which does not wait; or, where it cannot be opened once
/// more, by the caller's. That is also for what has a position, which a new open file has not: disks.
fn not_waiting(stream: BorrowedFd) -> io::Result<OwnedFd> {
    let kind = FileType::from_raw_mode(rustix::fs::fstat(stream)?.st_mode);
    if kind == FileType::BlockDevice {
        return stream.try_clone_to_owned();
    }
    let path = format!("/proc/self/fd/{}", stream.as_raw_fd());
    let flags = access(stream) | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, rustix::fs::Mode::empty()).or_else(|_| stream.try_clone_to_owned())
}

fn access(stream: BorrowedFd) -> OFlags {
    rustix::fs::fcntl_getfl(stream).map_or(OFlags::RDWR, |flags| flags & OFlags::ACCMODE)
}

/// Whether both outputs lead to the same place, so that what is written to one after the other has to arrive in that order:
/// the same open file, or two that append to one.
fn same_output(stats: &[Stat], streams: [BorrowedFd; 3]) -> bool {
    let [_, one, other] = streams;
    if (stats[1].st_dev, stats[1].st_ino) != (stats[2].st_dev, stats[2].st_ino) {
        return false;
    }
    let flags = [one, other].map(|stream| rustix::fs::fcntl_getfl(stream).ok());
    let appends = flags[0].is_some_and(|flags| flags.contains(OFlags::APPEND));
    flags[0] == flags[1] && (appends || rustix::fs::tell(one) == rustix::fs::tell(other))
}

/// How to open a file again, if its path leads to it and it is readable without special powers: PID 1 has none over files of
/// users that its namespace does not know.
fn reopened(stream: BorrowedFd, stat: &Stat) -> Option<InputFile> {
    use rustix::fs::{CWD, Mode, ResolveFlags, openat2, readlink};
    let path = readlink(format!("/proc/self/fd/{}", stream.as_raw_fd()), Vec::new()).ok()?;
    let path = PathBuf::from(std::ffi::OsString::from_vec(path.into_bytes()));
    if !path.is_absolute() || path.starts_with("/dev") || !readable(stat) {
        return None;
    }
    let identity = sys::identity(stream.as_raw_fd()).ok()?;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let strict = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let found = openat2(CWD, Path::new(&path), flags, Mode::empty(), strict).ok()?;
    let offset = rustix::fs::tell(stream).ok()?;
    (sys::identity(found.as_raw_fd()) == Ok(identity)).then_some(InputFile { path, identity, offset })
}

/// Whether the mode of a file lets this process read it as its owner, its group or anybody.
fn readable(stat: &Stat) -> bool {
    let user = rustix::process::geteuid().as_raw();
    let group = |id: u32| {
        rustix::process::getegid().as_raw() == id
            || rustix::process::getgroups().is_ok_and(|list| list.iter().any(|own| own.as_raw() == id))
    };
    let bit = match stat.st_mode {
        _ if stat.st_uid == user => 0o400,
        mode if mode & 0o040 != 0 && group(stat.st_gid) => 0o040,
        _ => 0o004,
    };
    stat.st_mode & bit != 0
}

/// A copy of a file that nobody can change, with the same position.
fn copied(stream: BorrowedFd) -> rustix::io::Result<OwnedFd> {
    let copy = rustix::fs::memfd_create("stdin", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let position = rustix::fs::tell(stream)?;
    let (mut buffer, mut at) = (vec![0; 64 * 1024], 0);
    loop {
        let count = rustix::io::pread(stream, &mut buffer, at)?;
        if count == 0 {
            break;
        }
        let mut rest = &buffer[..count];
        while !rest.is_empty() {
            rest = &rest[rustix::io::write(&copy, rest)?..];
        }
        at += count as u64;
        if at > COPIED {
            return Err(rustix::io::Errno::FBIG);
        }
    }
    rustix::fs::fcntl_add_seals(
        &copy,
        SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL,
    )?;
    rustix::fs::seek(&copy, SeekFrom::Start(position))?;
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn what_is_nowhere_on_the_disk_passes() {
        let (from, to) = rustix::pipe::pipe().unwrap();
        let kind = |fd: &OwnedFd| kind_of(fd.as_fd(), &rustix::fs::fstat(fd).unwrap());
        assert_eq!((kind(&from), kind(&to)), (Kind::Passed, Kind::Passed));
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(kind(&one.into()), Kind::Passed);
    }

    #[test]
    fn devices_that_every_sandbox_has_are_known_by_their_numbers() {
        for name in ["null", "zero", "full", "random", "urandom"] {
            let file = std::fs::File::open(format!("/dev/{name}")).unwrap();
            assert_eq!(kind_of(file.as_fd(), &rustix::fs::fstat(&file).unwrap()), Kind::Device(name));
        }
    }

    #[test]
    fn a_copy_keeps_contents_and_position_and_cannot_be_changed() {
        use std::io::{Read, Seek, Write};
        let mut file = std::fs::File::from(rustix::fs::memfd_create("file", MemfdFlags::CLOEXEC).unwrap());
        file.write_all(b"one two three").unwrap();
        file.seek(io::SeekFrom::Start(4)).unwrap();
        let mut copy = std::fs::File::from(copied(file.as_fd()).unwrap());
        let mut rest = String::new();
        copy.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "two three");
        assert_eq!(file.stream_position().unwrap(), 4);
        assert!(copy.write_all(b"x").is_err() && copy.set_len(0).is_err());
    }
}
