//! What every Unix offers alike: programs in the place of this one, files with an owner.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Has a program take the place of this one. Returns only when it could not.
pub fn become_program(program: &Path, called: &OsStr, arguments: &[OsString]) -> io::Error {
    Command::new(program).arg0(called).args(arguments).exec()
}

/// Whether a file may be executed by somebody.
pub fn is_executable(data: &Metadata) -> bool {
    data.is_file() && data.permissions().mode() & 0o111 != 0
}

/// Whether a file has one name only, so that it can be replaced by rename.
pub fn has_one_name(data: &Metadata) -> bool {
    data.nlink() == 1
}

/// Writes a file as a whole: others see what was there before, or all of it. It gets the mode and the owner of `like`, or `mode`.
pub fn write_whole(path: &Path, contents: &[u8], like: Option<&Metadata>, mode: u32) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".kennel-{}", std::process::id()));
    let beside = path.with_file_name(name);
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(if like.is_some() { 0o600 } else { mode })
        .open(&beside)?;
    let written = fill(&file, contents, like).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

fn fill(mut file: &File, contents: &[u8], like: Option<&Metadata>) -> io::Result<()> {
    file.write_all(contents)?;
    if let Some(like) = like {
        let own = file.metadata()?;
        if (own.uid(), own.gid()) != (like.uid(), like.gid()) {
            fchown(file, Some(like.uid()), Some(like.gid()))?;
        }
        // After the owner, whose change takes bits away.
        file.set_permissions(like.permissions())?;
    }
    file.sync_all()
}

/// Whether a file or folder can be a stranger's work: it belongs to somebody else than this process's user and root, or everybody
/// may write it. Of a folder with the sticky bit everybody may only make new names.
pub fn is_strangers(data: &Metadata, user: u32) -> bool {
    const OTHERS_WRITE: u32 = 0o002;
    const STICKY: u32 = 0o1000;
    let open = data.mode() & OTHERS_WRITE != 0 && (data.is_file() || data.mode() & STICKY == 0);
    open || (data.uid() != 0 && data.uid() != user)
}

/// A path that was noted as its bytes.
pub fn path_of(bytes: Vec<u8>) -> Option<PathBuf> {
    Some(OsString::from_vec(bytes).into())
}

/// The file system that a file is on.
pub fn device(data: &Metadata) -> u64 {
    data.dev()
}

/// Who runs this program.
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}
