//! Where the streams of a command lead.

use std::fs::File;
use std::io;

use crate::Terminal;
pub(crate) use crate::handle::Handle;

/// Where one of the three standard streams of a command leads, as [`std::process::Stdio`].
///
/// The command never gets a file itself: it gets a copy, or a pipe that kennel forwards, so that it can neither
/// change the file's mode nor open it again. Pipes and sockets are handed over.
#[derive(Debug)]
pub struct Stdio(pub(crate) Leads);

#[derive(Debug)]
pub(crate) enum Leads {
    Nowhere,
    Here,
    Piped,
    To(Handle),
}

impl Stdio {
    /// Nothing to read, and nowhere to write.
    #[must_use]
    pub fn null() -> Stdio {
        Stdio(Leads::Nowhere)
    }

    /// The caller's own.
    #[must_use]
    pub fn inherit() -> Stdio {
        Stdio(Leads::Here)
    }

    /// A pipe to the caller.
    #[must_use]
    pub fn piped() -> Stdio {
        Stdio(Leads::Piped)
    }

    pub(crate) fn try_clone(&self) -> io::Result<Stdio> {
        Ok(Stdio(match &self.0 {
            Leads::Nowhere => Leads::Nowhere,
            Leads::Here => Leads::Here,
            Leads::Piped => Leads::Piped,
            Leads::To(handle) => Leads::To(handle.try_clone()?),
        }))
    }
}

impl From<File> for Stdio {
    fn from(file: File) -> Stdio {
        Stdio(Leads::To(file.into()))
    }
}

impl From<Handle> for Stdio {
    fn from(handle: Handle) -> Stdio {
        Stdio(Leads::To(handle))
    }
}

impl From<io::PipeReader> for Stdio {
    fn from(pipe: io::PipeReader) -> Stdio {
        Stdio(Leads::To(pipe.into()))
    }
}

impl From<io::PipeWriter> for Stdio {
    fn from(pipe: io::PipeWriter) -> Stdio {
        Stdio(Leads::To(pipe.into()))
    }
}

/// The caller's ends of pipes to a command.
#[derive(Debug, Default)]
pub(crate) struct Pipes {
    pub(crate) stdin: Option<io::PipeWriter>,
    pub(crate) stdout: Option<io::PipeReader>,
    pub(crate) stderr: Option<io::PipeReader>,
    pub(crate) terminal: Option<Terminal>,
}

impl Pipes {
    /// Makes a pipe for a stream; returns the command's end.
    #[cfg_attr(
        not(any(target_os = "linux", target_os = "macos", windows)),
        expect(dead_code, reason = "no command starts here yet")
    )]
    pub(crate) fn make(&mut self, index: usize) -> io::Result<Handle> {
        let (reader, writer) = io::pipe()?;
        Ok(match index {
            0 => {
                self.stdin = Some(writer);
                reader.into()
            }
            1 => {
                self.stdout = Some(reader);
                writer.into()
            }
            _ => {
                self.stderr = Some(reader);
                writer.into()
            }
        })
    }
}

/// A bell that tells whoever attends to a sandbox to end it. Not a pipe that is closed: where the program has forked, the copy of
/// a closed end stays open.
#[derive(Debug)]
pub(crate) struct Bell(Ringer);

#[cfg(unix)]
type Ringer = std::os::unix::net::UnixStream;
#[cfg(windows)]
type Ringer = std::sync::Mutex<Option<io::PipeWriter>>;

impl Bell {
    /// A bell, and what is ready to read when it was rung.
    #[cfg(unix)]
    pub(crate) fn new() -> io::Result<(Handle, Bell)> {
        let (heard, ringer) = std::os::unix::net::UnixStream::pair()?;
        Ok((heard.into(), Bell(ringer)))
    }

    /// Rings it; once is enough.
    #[cfg(unix)]
    pub(crate) fn ring(&self) {
        let _ = self.0.shutdown(std::net::Shutdown::Both);
    }

    /// A bell, and what is ready to read when it was rung.
    #[cfg(windows)]
    pub(crate) fn new() -> io::Result<(Handle, Bell)> {
        let (heard, ringer) = io::pipe()?;
        Ok((heard.into(), Bell(std::sync::Mutex::new(Some(ringer)))))
    }

    /// Rings it; once is enough.
    #[cfg(windows)]
    pub(crate) fn ring(&self) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = None;
    }
}
