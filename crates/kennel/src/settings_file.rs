//! Settings files as they are found on a disk that others write to.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

use kennel_policy::settings::{Base, Format, Provenance, Settings, parse};

use crate::error::Cause;
use crate::home::Homes;
use crate::{Result, SandboxError};

/// A little over what the parsers accept, so that they can say that a file is too large.
const MAX_BYTES: u64 = (1 << 20) + 1;

/// The bytes of a settings file; `None` when it is not there.
///
/// # Errors
/// When it cannot be read, or is no regular file: whoever wrote its folder may have put a FIFO there, which a plain open
/// would wait for.
pub fn bytes(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = match open(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut text = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut text)?;
    Ok(Some(text))
}

#[cfg(unix)]
fn open(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

#[cfg(not(unix))]
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).open(path)
}

/// The settings in a file; relative paths in it are relative to its own folder.
pub(crate) fn settings(path: &Path) -> Result<(Settings, Base)> {
    let shown = path.display();
    let said = |error: io::Error| {
        SandboxError::ConfigValidation(format!("reading settings: {shown}: {error}").into())
    };
    let text = bytes(path).map_err(said)?.ok_or_else(|| said(io::ErrorKind::NotFound.into()))?;
    let whole = std::path::absolute(path).map_err(said)?;
    let base = Homes::of_this_process().base(whole.parent().unwrap_or(&whole));
    read(&text, Format::of(path, &text), &shown.to_string(), base)
}

/// The settings in a text; relative paths in it are relative to the working directory.
pub(crate) fn settings_text(text: &str) -> Result<(Settings, Base)> {
    let base = Homes::of_this_process().base(std::env::current_dir()?);
    read(text.as_bytes(), Format::of(Path::new(""), text.as_bytes()), "settings", base)
}

fn read(text: &[u8], format: Format, name: &str, base: Base) -> Result<(Settings, Base)> {
    let settings = parse(text, format, Provenance::File(name), &base)
        .map_err(|error| SandboxError::ConfigValidation(Cause::of(error)))?;
    Ok((settings, base))
}
