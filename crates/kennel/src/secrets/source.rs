//! Where real values come from. What is read goes into memory that is locked and wiped, and into no error.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kennel_policy::secrets::SecretSource;
use kennel_proxy::secrets::SecretValue;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use zeroize::Zeroize;

use super::held::WriteRoots;
use super::program;

/// The longest value. No header field holds a longer one.
const MAX: usize = 64 << 10;
/// How long a program or the writer of a descriptor may take: a person may have to unlock something.
pub(super) const LONGEST: Duration = Duration::from_secs(60);

/// Why a value cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    #[error("the variable is not set\nhelp: export {0}, or name another source: file:PATH, command:PROGRAM")]
    Unset(String),
    #[error("it is empty\nhelp: check where it comes from")]
    Empty,
    #[error("it has more than {} KiB\nhelp: name a source that gives the value alone", MAX >> 10)]
    TooLong,
    #[error("{0}\nhelp: check the path and its permissions")]
    File(io::Error),
    #[error("not a regular file\nhelp: name a file, or pass a pipe as fd:NUMBER")]
    NotFile,
    #[error("descriptor {0} is not open for reading\nhelp: open it when kennel is started: {0}<FILE")]
    NotOpen(i32),
    #[error(
        "descriptor {0} is kept open for the command, which could read it again\nhelp: leave it out of `keep_fds`"
    )]
    Kept(i32),
    #[error("nothing came to an end within {} s\nhelp: close the other end of the descriptor", LONGEST.as_secs())]
    NoEnd,
    #[error("{0}")]
    Read(io::Error),
    #[error(
        "{} runs outside of the sandbox, and lies where the command can write\nhelp: put it somewhere else",
        .0.display()
    )]
    Writable(PathBuf),
    #[error(transparent)]
    Program(#[from] program::ProgramError),
    #[error(
        "this user's keyring has no key of type `user` with that name: {0}\nhelp: keyctl padd user SERVICE/ACCOUNT @u"
    )]
    #[cfg(target_os = "linux")]
    Keyring(io::Error),
    #[error(
        "there is no keyring that kennel can read on this system\nhelp: name another source: command:PROGRAM"
    )]
    #[cfg(not(target_os = "linux"))]
    NoKeyring,
    #[error("{0}")]
    Memory(io::Error),
}

/// What a value is read with.
pub(super) struct Reader<'a, V> {
    /// Looks a variable of the caller's up.
    pub(super) variable: V,
    /// Descriptors that the command keeps.
    pub(super) keep_fds: &'a [u32],
    /// Where the command can have put links.
    pub(super) roots: WriteRoots,
}

impl<'v, V: Fn(&OsStr) -> Option<&'v OsStr>> Reader<'_, V> {
    /// The value that a source gives.
    pub(super) fn read(&self, source: &SecretSource) -> Result<SecretValue, SourceError> {
        let bytes = match source {
            SecretSource::Env(name) => {
                let value = (self.variable)(name);
                value.ok_or_else(|| SourceError::Unset(name.display().to_string()))?.as_bytes().to_vec()
            }
            SecretSource::File(path) => without_line_break(file(&self.roots, path)?),
            SecretSource::Fd(number) => {
                let kept = u32::try_from(*number).is_ok_and(|number| self.keep_fds.contains(&number));
                if kept {
                    return Err(SourceError::Kept(*number));
                }
                without_line_break(descriptor(*number)?)
            }
            SecretSource::Command(words) => {
                self.check_program(words)?;
                without_line_break(output(words)?)
            }
            SecretSource::Keyring { service, account } => without_line_break(keyring(service, account)?),
            SecretSource::Value(value) => value.clone(),
        };
        value(bytes)
    }

    /// The program runs outside: neither it nor a script that it is given may be one that the command wrote in an earlier run.
    fn check_program(&self, words: &[OsString]) -> Result<(), SourceError> {
        let Some((first, arguments)) = words.split_first() else { return Ok(()) };
        let in_path = || {
            let folders =
                (self.variable)(OsStr::new("PATH")).map(std::env::split_paths).into_iter().flatten();
            folders.map(|folder| folder.join(first)).find(|file| file.is_file())
        };
        let program = if Path::new(first).components().count() > 1 { Some(first.into()) } else { in_path() };
        let mut named = program.into_iter().chain(arguments.iter().map(PathBuf::from));
        match named.find(|path| self.roots.hold_what_is_at(path)) {
            Some(path) => Err(SourceError::Writable(path)),
            None => Ok(()),
        }
    }
}

/// Moves bytes to where secrets live.
fn value(mut bytes: Vec<u8>) -> Result<SecretValue, SourceError> {
    let wrong = match bytes.len() {
        0 => Some(SourceError::Empty),
        length if length > MAX => Some(SourceError::TooLong),
        _ => None,
    };
    if let Some(wrong) = wrong {
        bytes.zeroize();
        return Err(wrong);
    }
    SecretValue::from_bytes(bytes).map_err(SourceError::Memory)
}

/// Editors and `echo` put one at the end, and no header field can hold it.
fn without_line_break(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
    }
    bytes
}

/// A file that is one; a pipe would be waited for.
fn file(roots: &WriteRoots, path: &Path) -> Result<Vec<u8>, SourceError> {
    let file = roots.open(path).map_err(SourceError::File)?;
    if !file.metadata().map_err(SourceError::File)?.is_file() {
        return Err(SourceError::NotFile);
    }
    until_end(file.as_fd(), Instant::now() + LONGEST).map_err(SourceError::File)
}

fn descriptor(number: i32) -> Result<Vec<u8>, SourceError> {
    if number < 3 {
        return Err(SourceError::NotOpen(number));
    }
    // SAFETY: only read from; a number that is not open makes the calls fail.
    let fd = unsafe { BorrowedFd::borrow_raw(number) };
    // What kennel starts has no use for it.
    rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::CLOEXEC).map_err(|_| SourceError::NotOpen(number))?;
    let deadline = Instant::now() + LONGEST;
    until_end(fd, deadline).map_err(|error| match error.kind() {
        io::ErrorKind::TimedOut => SourceError::NoEnd,
        _ if error.raw_os_error() == Some(rustix::io::Errno::BADF.raw_os_error()) => {
            SourceError::NotOpen(number)
        }
        _ => SourceError::Read(error),
    })
}

fn output(words: &[OsString]) -> Result<Vec<u8>, SourceError> {
    Ok(program::output(words, LONGEST)?)
}

#[cfg(target_os = "linux")]
fn keyring(service: &str, account: &str) -> Result<Vec<u8>, SourceError> {
    let mut room = room();
    let read = kennel_linux::keyring::read(&format!("{service}/{account}"), &mut room);
    read_or_wiped(read.map(|()| 0), room).map_err(SourceError::Keyring)
}

#[cfg(not(target_os = "linux"))]
fn keyring(_: &str, _: &str) -> Result<Vec<u8>, SourceError> {
    Err(SourceError::NoKeyring)
}

/// Room for the longest value and a byte that shows that there is more. It never grows, which would leave copies behind.
pub(super) fn room() -> Vec<u8> {
    Vec::with_capacity(MAX + 4)
}

fn read_or_wiped(read: io::Result<usize>, mut room: Vec<u8>) -> io::Result<Vec<u8>> {
    match read {
        Ok(_) => Ok(room),
        Err(error) => {
            room.zeroize();
            Err(error)
        }
    }
}

/// What a descriptor gives until its end, or until there is too much.
pub(super) fn until_end(fd: BorrowedFd, deadline: Instant) -> io::Result<Vec<u8>> {
    until_end_into(fd, deadline, room())
}

/// The same with other room.
pub(super) fn until_end_into(fd: BorrowedFd, deadline: Instant, mut room: Vec<u8>) -> io::Result<Vec<u8>> {
    loop {
        let read = wait(fd, deadline).and_then(|()| {
            let free = room.spare_capacity_mut();
            if free.is_empty() {
                return Ok(0);
            }
            rustix::io::read(fd, rustix::buffer::spare_capacity(&mut room)).map_err(io::Error::from)
        });
        match read {
            Ok(0) => return Ok(room),
            Ok(_) => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
            Err(error) => return read_or_wiped(Err(error), room),
        }
    }
}

/// Until there is something to read.
pub(super) fn wait(fd: BorrowedFd, deadline: Instant) -> io::Result<()> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;

    use super::*;

    fn read(source: &SecretSource) -> Result<SecretValue, SourceError> {
        let variable = |name: &OsStr| (name == "TOKEN").then_some(OsStr::new("from-the-environment"));
        Reader { variable, keep_fds: &[77], roots: WriteRoots::default() }.read(source)
    }

    fn read_text(source: &SecretSource) -> String {
        String::from_utf8(read(source).expect("it is there").expose().to_vec()).expect("text")
    }

    #[test]
    fn each_source_gives_its_value_without_the_line_break_at_its_end() {
        assert_eq!(read_text(&SecretSource::Env("TOKEN".into())), "from-the-environment");
        let path = std::env::temp_dir().join(format!("kennel-secret-{}", std::process::id()));
        for (contents, value) in
            [("a-token\n", "a-token"), ("a-token\r\n", "a-token"), ("two\nlines\n\n", "two\nlines\n")]
        {
            std::fs::write(&path, contents).expect("written");
            assert_eq!(read_text(&SecretSource::File(path.clone())), value);
        }
        std::fs::remove_file(&path).expect("removed");
        let (reader, mut writer) = io::pipe().expect("a pipe");
        writer.write_all(b"by-a-pipe\n").expect("written");
        drop(writer);
        assert_eq!(read_text(&SecretSource::Fd(reader.as_raw_fd())), "by-a-pipe");
        let words = ["printf", "%s\\n", "a b; echo c"].map(OsString::from).to_vec();
        assert_eq!(read_text(&SecretSource::Command(words)), "a b; echo c");
    }

    #[test]
    fn what_gives_no_value_is_an_error_that_names_no_part_of_one() {
        let path = std::env::temp_dir().join(format!("kennel-large-secret-{}", std::process::id()));
        std::fs::write(&path, vec![b'x'; MAX + 1]).expect("written");
        let errors = [
            (SecretSource::Env("NO_SUCH".into()), "not set"),
            (SecretSource::File("/nowhere/at/all".into()), "No such file"),
            (SecretSource::File("/".into()), "Is a directory"),
            (SecretSource::File("/dev/null".into()), "not a regular file"),
            (SecretSource::File(path.clone()), "more than 64 KiB"),
            (SecretSource::Fd(0), "not open"),
            (SecretSource::Fd(9999), "not open"),
            (SecretSource::Fd(77), "kept open"),
            (SecretSource::Command(vec!["false".into()]), "exited with 1"),
            (SecretSource::Command(vec!["true".into()]), "empty"),
            (SecretSource::Command(vec!["no-such-program-anywhere".into()]), "No such file"),
            (SecretSource::Value(Vec::new()), "empty"),
        ];
        for (source, expected) in errors {
            let error = read(&source).expect_err("no value").to_string();
            assert!(
                error.contains(expected) && (error.contains("help: ") || source == SecretSource::Fd(9999)),
                "{source}: {error}"
            );
        }
        std::fs::remove_file(&path).expect("removed");
    }

    #[test]
    fn a_program_that_prints_without_end_is_ended() {
        let error = read(&SecretSource::Command(vec!["yes".into()])).expect_err("too much").to_string();
        assert!(error.contains("more than 64 KiB"), "{error}");
    }
}
