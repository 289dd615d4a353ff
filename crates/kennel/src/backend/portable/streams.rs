//! The command's streams, each carried by a thread where it has to be: input fed, output captured or passed on up to a cap.
//!
//! The command gets pipes and sockets of the caller's themselves. It gets a pipe in the place of a regular file, whose mode it
//! could change and which it could open again, of a terminal, on which it could type (but on Windows, where programs need the
//! console that they have), and wherever output is capped. Output beyond a cap is read and dropped, so that the command goes
//! on as it would.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kennel_policy::policy::Limits;

use crate::Stdio;
use crate::backend::{Backend, Native};
use crate::job::Streams;
use crate::stdio::{Handle, Leads, Pipes};

/// Bytes captured of each output stream unless the policy says how many.
const CAPTURED: u64 = 64 << 20;

/// The number of that error on every system with terminals.
const EIO: i32 = 5;

/// How much is read at once.
const AT_ONCE: usize = 64 * 1024;

/// What is being done when a stream is carried, for errors.
const DOING: [&str; 3] = ["reading standard input", "writing standard output", "writing standard error"];

/// The streams that are carried while a command runs.
#[derive(Debug)]
pub(crate) struct Carried {
    outputs: [Shared; 2],
    failure: Arc<Mutex<Option<String>>>,
    /// Each thread that carries output has one, so that the last to end disconnects the channel.
    at_work: Option<Sender<()>>,
    ends: Receiver<()>,
    /// What the threads will do, once there is a command.
    work: Vec<Work>,
    /// Ends the reading of terminals: closed when the command has ended.
    #[cfg(unix)]
    over: Option<io::PipeWriter>,
}

/// What is known of an output, also while it is carried.
#[derive(Clone, Debug, Default)]
struct Shared(Arc<Mutex<Output>>);

#[derive(Debug, Default)]
struct Output {
    bytes: Vec<u8>,
    truncated: bool,
}

/// What became of the streams.
#[derive(Debug, Default)]
pub(crate) struct Finished {
    pub(crate) output: [Vec<u8>; 2],
    pub(crate) truncated: bool,
    pub(crate) failure: Option<String>,
}

#[derive(Debug)]
enum Work {
    /// Bytes for the command, or what a file or a terminal of the caller's has.
    Feed(File, Input),
    Capture(File, Shared, u64),
    /// To where the caller wants it: at most so many bytes, and a file no larger than that.
    PassOn {
        from: File,
        to: Handle,
        index: usize,
        cap: Option<u64>,
        room: Option<u64>,
        shared: Shared,
    },
}

#[derive(Debug)]
enum Input {
    Bytes(Vec<u8>),
    File(Handle),
    /// With what ends it.
    #[cfg(unix)]
    Terminal(Handle, io::PipeReader),
}

/// What a command gets as its streams, what carries them, and the caller's ends of pipes.
#[derive(Debug)]
pub(crate) struct Arranged {
    /// The command's; to be closed here once it has been started.
    pub(crate) ends: [Handle; 3],
    pub(crate) carried: Carried,
    pub(crate) pipes: Pipes,
}

/// Arranges the streams of a job. [`Streams::Terminal`] is the system's own to arrange, and an error here.
pub(crate) fn arrange(streams: Streams, limits: &Limits) -> io::Result<Arranged> {
    let (at_work, ends) = channel();
    let mut carried = Carried {
        outputs: Default::default(),
        failure: Arc::default(),
        at_work: Some(at_work),
        ends,
        work: Vec::new(),
        #[cfg(unix)]
        over: None,
    };
    let mut pipes = Pipes::default();
    let (streams, mut input, captures) = match streams {
        Streams::Attached => ([Stdio::inherit(), Stdio::inherit(), Stdio::inherit()], None, false),
        Streams::Given(streams) => (streams, None, false),
        Streams::Captured { streams, input } => (streams, input, true),
        Streams::Terminal { .. } => {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "there is no terminal to be had here"));
        }
    };
    let mut found: Vec<Handle> = Vec::with_capacity(3);
    let mut files: [Option<Handle>; 3] = [const { None }; 3];
    for (index, Stdio(leads)) in streams.into_iter().enumerate() {
        let end = match leads {
            _ if index == 0 && input.is_some() => {
                let (reader, writer) = io::pipe()?;
                carried.work.extend(input.take().map(|bytes| Work::Feed(file(writer), Input::Bytes(bytes))));
                reader.into()
            }
            Leads::Piped if captures && index > 0 => {
                let (reader, writer) = io::pipe()?;
                let cap = limits.output.unwrap_or(CAPTURED);
                carried.work.push(Work::Capture(file(reader), carried.outputs[index - 1].clone(), cap));
                writer.into()
            }
            Leads::Piped if !captures => pipes.make(index)?,
            Leads::Nowhere | Leads::Piped => nowhere()?,
            Leads::Here => match own(index) {
                Ok(handle) => carried.to(index, handle, limits, &found, &mut files)?,
                // It is closed.
                Err(_) => nowhere()?,
            },
            Leads::To(handle) => carried.to(index, handle, limits, &found, &mut files)?,
        };
        found.push(end);
    }
    let ends = found.try_into().map_err(|_| io::Error::other("a command has three streams"))?;
    Ok(Arranged { ends, carried, pipes })
}

impl Carried {
    /// What the command gets for a stream that leads to `handle`.
    fn to(
        &mut self,
        index: usize,
        handle: Handle,
        limits: &Limits,
        ends: &[Handle],
        files: &mut [Option<Handle>; 3],
    ) -> io::Result<Handle> {
        let file = File::from(handle);
        let found = file.metadata().ok();
        let is_file = is_regular(&file);
        if found.is_some_and(|found| found.is_dir()) {
            return Err(io::Error::new(
                io::ErrorKind::IsADirectory,
                format!("{}: it is a folder", DOING[index]),
            ));
        }
        let is_terminal = cfg!(unix) && file.is_terminal();
        if index == 0 {
            if !is_file && !is_terminal {
                return Ok(file.into());
            }
            let (reader, writer) = io::pipe()?;
            let writer = self::file(writer);
            if is_file {
                self.work.push(Work::Feed(writer, Input::File(file.into())));
            } else {
                #[cfg(unix)]
                self.read_terminal(file.into(), writer.into())?;
            }
            return Ok(reader.into());
        }
        let cap = limits.output;
        if !is_file && !is_terminal && cap.is_none() {
            return Ok(file.into());
        }
        // One pipe for both, so that lines arrive in the order in which they were written.
        if index == 2
            && cap.is_none()
            && let Some(first) = &files[1]
            && is_same_file(first, &file)
        {
            return ends[1].try_clone();
        }
        let room = limits.file_size.filter(|_| is_file);
        let (reader, writer) = io::pipe()?;
        files[index] = Some(file.try_clone()?.into());
        let shared = self.outputs[index - 1].clone();
        self.work.push(Work::PassOn { from: self::file(reader), to: file.into(), index, cap, room, shared });
        Ok(writer.into())
    }

    /// Has what is typed on a terminal written to `to`, until the command has ended: what is typed later is not taken away.
    #[cfg(unix)]
    pub(crate) fn read_terminal(&mut self, terminal: Handle, to: Handle) -> io::Result<()> {
        let (ended, over) = io::pipe()?;
        self.over = Some(over);
        self.work.push(Work::Feed(to.into(), Input::Terminal(terminal, ended)));
        Ok(())
    }

    /// Has what comes out of kennel's side of a terminal written to `to`.
    #[cfg(unix)]
    pub(crate) fn show(&mut self, side: Handle, to: Handle) {
        let shared = self.outputs[0].clone();
        let from = side.into();
        self.work.push(Work::PassOn { from, to, index: 1, cap: None, room: None, shared });
    }

    /// Starts to carry. The command's ends must be closed on this side by then, or else no output ever ends.
    pub(crate) fn start(&mut self) -> io::Result<()> {
        for work in self.work.drain(..) {
            // What the command does not read is nothing to wait for.
            let at_work = self.at_work.clone().filter(|_| !matches!(work, Work::Feed(..)));
            let failure = Arc::clone(&self.failure);
            let carry = move || {
                // Among them SIGPIPE, for which the program may have a plan of its own.
                Native::block_signals();
                if let Some(text) = work.perform() {
                    lock(&failure).get_or_insert(text);
                }
                drop(at_work);
            };
            std::thread::Builder::new().name("kennel-stream".into()).spawn(carry)?;
        }
        self.at_work = None;
        Ok(())
    }

    /// What was captured, once every output has ended; no longer than `limit` is waited for that.
    pub(crate) fn finish(&mut self, limit: Duration) -> Finished {
        self.at_work = None;
        #[cfg(unix)]
        drop(self.over.take());
        let until = Instant::now() + limit;
        let left = || until.saturating_duration_since(Instant::now());
        while !matches!(
            self.ends.recv_timeout(left()),
            Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout)
        ) {}
        let mut truncated = false;
        let output = self.outputs.each_ref().map(|Shared(output)| {
            let mut output = lock(output);
            truncated |= output.truncated;
            std::mem::take(&mut output.bytes)
        });
        Finished { output, truncated, failure: lock(&self.failure).take() }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Work {
    /// Carries until the end; what went wrong, if output did not arrive.
    fn perform(self) -> Option<String> {
        match self {
            Work::Feed(mut to, Input::Bytes(bytes)) => {
                // The command may not want all of it.
                let _ = to.write_all(&bytes);
                None
            }
            Work::Feed(mut to, Input::File(from)) => {
                let _ = io::copy(&mut File::from(from), &mut to);
                None
            }
            #[cfg(unix)]
            Work::Feed(to, Input::Terminal(terminal, ended)) => {
                let _ = type_on(terminal, &ended, to);
                None
            }
            Work::Capture(from, shared, cap) => {
                let mut left = cap;
                each_piece(from, |piece| {
                    let (kept, cut) = first(piece, &mut left);
                    let mut output = lock(&shared.0);
                    output.bytes.extend_from_slice(kept);
                    output.truncated |= cut;
                    Ok(())
                })
                .err()
                .map(|error| format!("reading the output of the command: {error}"))
            }
            Work::PassOn { from, to, index, cap, room, shared } => {
                let mut to = File::from(to);
                let mut left = cap.unwrap_or(u64::MAX);
                each_piece(from, |piece| {
                    let (kept, cut) = first(piece, &mut left);
                    if cut {
                        lock(&shared.0).truncated = true;
                    }
                    if let Some(room) = room
                        && to.metadata()?.len().saturating_add(kept.len() as u64) > room
                    {
                        return Err(io::ErrorKind::FileTooLarge.into());
                    }
                    to.write_all(kept)
                })
                .err()
                .map(|error| format!("{}: {error}", DOING[index]))
            }
        }
    }
}

/// The part of a piece that there is room for, and whether that is not all.
fn first<'b>(piece: &'b [u8], left: &mut u64) -> (&'b [u8], bool) {
    let kept = usize::try_from(*left).unwrap_or(usize::MAX).min(piece.len());
    *left -= kept as u64;
    (&piece[..kept], kept < piece.len())
}

/// Calls with what comes, until nobody writes any more, or what is called fails. The pipe is closed then.
fn each_piece(mut from: File, mut call: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut buffer = vec![0; AT_ONCE];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => call(&buffer[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // What a terminal says when nobody has its other side any more.
            Err(error) if cfg!(unix) && error.raw_os_error() == Some(EIO) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// Writes what is typed, until the terminal ends, the command does, or it reads no more.
#[cfg(unix)]
fn type_on(terminal: Handle, ended: &io::PipeReader, mut to: File) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut terminal = File::from(terminal);
    let mut buffer = [0; 4096];
    loop {
        let mut fds = [PollFd::new(&terminal, PollFlags::IN), PollFd::new(ended, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        if !fds[1].revents().is_empty() {
            return Ok(());
        }
        match terminal.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => to.write_all(&buffer[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// A pipe's end as a file, so that all that is carried is of one type.
fn file(end: impl Into<Handle>) -> File {
    File::from(end.into())
}

/// A device that gives and keeps nothing. Opened each time: one that is kept may have become another file's number, in a
/// program that closes what it does not know.
fn nowhere() -> io::Result<Handle> {
    let name = if cfg!(windows) { "NUL" } else { "/dev/null" };
    Ok(File::options().read(true).write(true).open(name)?.into())
}

/// A stream of this process's own.
#[cfg(unix)]
fn own(index: usize) -> io::Result<Handle> {
    use std::os::fd::AsFd;
    match index {
        0 => io::stdin().as_fd().try_clone_to_owned(),
        1 => io::stdout().as_fd().try_clone_to_owned(),
        _ => io::stderr().as_fd().try_clone_to_owned(),
    }
}

/// A stream of this process's own.
#[cfg(windows)]
fn own(index: usize) -> io::Result<Handle> {
    use std::os::windows::io::AsHandle;
    match index {
        0 => io::stdin().as_handle().try_clone_to_owned(),
        1 => io::stdout().as_handle().try_clone_to_owned(),
        _ => io::stderr().as_handle().try_clone_to_owned(),
    }
}

#[cfg(unix)]
fn is_regular(file: &File) -> bool {
    file.metadata().is_ok_and(|found| found.is_file())
}

/// To the standard library pipes are files too.
#[cfg(windows)]
fn is_regular(file: &File) -> bool {
    kennel_windows::host::is_disk_file(file)
}

#[cfg(unix)]
fn is_same_file(one: &Handle, other: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |file: &File| file.metadata().ok().map(|found| (found.dev(), found.ino()));
    one.try_clone().is_ok_and(|one| {
        let one = identity(&File::from(one));
        one.is_some() && one == identity(other)
    })
}

/// Each has a pipe of its own; lines of the two may change places.
#[cfg(windows)]
fn is_same_file(_: &Handle, _: &File) -> bool {
    false
}
