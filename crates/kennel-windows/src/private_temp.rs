//! The command's private folder for temporary files: the one place that it can write. It is new, so no access list of the
//! host's is changed, and it is removed at the end. What a kennel that was killed has left is removed by the next one.

use std::ffi::OsStr;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::path::{Path, PathBuf};

use windows_sys::Win32::Foundation::{ERROR_INVALID_PARAMETER, LocalFree, WAIT_OBJECT_0};
use windows_sys::Win32::Security::Authorization::{
    ConvertStringSecurityDescriptorToSecurityDescriptorW, SDDL_REVISION_1,
};
use windows_sys::Win32::Security::{PSECURITY_DESCRIPTOR, SECURITY_ATTRIBUTES};
use windows_sys::Win32::Storage::FileSystem::CreateDirectoryW;
use windows_sys::Win32::System::Threading::{OpenProcess, PROCESS_SYNCHRONIZE, WaitForSingleObject};

use crate::error::{Error, check, failed};
use crate::token::Token;
use crate::verdict::TokenKind;
use crate::wide::terminated;

/// What the names of such folders begin with; the number of their kennel's process follows.
const PREFIX: &str = "kennel-tmp-";

/// The folder. Dropping it removes it, which has to happen when no process of the sandbox is left.
#[derive(Debug)]
pub(crate) struct PrivateTemp {
    path: PathBuf,
}

impl PrivateTemp {
    /// Makes one below the caller's own folder for temporary files.
    pub(crate) fn new(token: &Token, kind: TokenKind) -> Result<PrivateTemp, Error> {
        let parent = std::env::temp_dir();
        remove_left(&parent);
        let random = RandomState::new().hash_one(std::process::id());
        let path = parent.join(format!("{PREFIX}{}-{random:016x}", std::process::id()));
        let (user, own) = (&token.user, &token.own);
        // For the system and the user, and nobody else; nothing is inherited from the folder around it.
        let mut access = format!("D:P(A;OICI;FA;;;SY)(A;OICI;FA;;;{user})");
        if kind == TokenKind::NoWrites {
            // Also for the identifier that restricts the token, and at the level that the token has.
            access.push_str(&format!("(A;OICI;FA;;;{own})S:(ML;OICI;NW;;;LW)"));
        }
        let doing = format!("creating {}", path.display());
        let mut descriptor: PSECURITY_DESCRIPTOR = std::ptr::null_mut();
        // SAFETY: the text ends with a zero, and `descriptor` is where the result goes.
        let read = unsafe {
            ConvertStringSecurityDescriptorToSecurityDescriptorW(
                terminated(&access).as_ptr(),
                SDDL_REVISION_1,
                &mut descriptor,
                std::ptr::null_mut(),
            )
        };
        check(read, "preparing the access list of the private folder")?;
        let attributes = SECURITY_ATTRIBUTES {
            nLength: size_of::<SECURITY_ATTRIBUTES>() as u32,
            lpSecurityDescriptor: descriptor,
            bInheritHandle: 0,
        };
        // SAFETY: the path ends with a zero, and the attributes live until the call has returned.
        let made = unsafe { CreateDirectoryW(terminated(&path).as_ptr(), &attributes) };
        let result = if made == 0 { Err(failed(doing)) } else { Ok(PrivateTemp { path }) };
        // SAFETY: it was allocated for us, and is not used any more.
        unsafe { LocalFree(descriptor) };
        result
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PrivateTemp {
    fn drop(&mut self) {
        // It follows no link that the command has left in it.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes the folders of processes that are gone.
fn remove_left(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && process_of(&entry.file_name()).is_some_and(is_gone) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Whose folder it is, by its name.
fn process_of(name: &OsStr) -> Option<u32> {
    let (process, random) = name.to_str()?.strip_prefix(PREFIX)?.split_once('-')?;
    let is_random = random.len() == 16 && random.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_random.then(|| process.parse().ok())?
}

/// Whether there is no such process. One with the same number may be another: its folder stays until that one is gone too.
fn is_gone(process: u32) -> bool {
    // SAFETY: no memory is involved.
    let handle = unsafe { OpenProcess(PROCESS_SYNCHRONIZE, 0, process) };
    if handle.is_null() {
        return io::Error::last_os_error().raw_os_error() == Some(ERROR_INVALID_PARAMETER.cast_signed());
    }
    // SAFETY: it was just opened for us.
    let handle = unsafe { OwnedHandle::from_raw_handle(handle) };
    // One that has ended is known for as long as somebody has a handle to it.
    // SAFETY: the handle is of a process.
    unsafe { WaitForSingleObject(handle.as_raw_handle(), 0) == WAIT_OBJECT_0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_known_by_its_whole_name() {
        assert_eq!(process_of(OsStr::new("kennel-tmp-12-0123456789abcdef")), Some(12));
        for other in ["kennel-tmp-12", "kennel-tmp-x-0123456789abcdef", "kennel-tmp-12-xyz", "kennel", "tmp"]
        {
            assert_eq!(process_of(OsStr::new(other)), None);
        }
    }

    #[test]
    fn a_process_that_runs_is_not_gone() {
        assert!(!is_gone(std::process::id()));
        let mut child = std::process::Command::new("cmd").args(["/c", "exit"]).spawn().expect("it starts");
        let process = child.id();
        child.wait().expect("it ends");
        drop(child);
        assert!(is_gone(process));
    }

    #[test]
    fn what_a_killed_kennel_left_is_removed_and_nothing_else() {
        let parent = std::env::temp_dir().join(format!("kennel-test-left-{}", std::process::id()));
        // No process has an odd number.
        let left = parent.join("kennel-tmp-4294967295-0123456789abcdef");
        let other = parent.join("kennel-tmp-mine");
        let own = parent.join(format!("kennel-tmp-{}-0123456789abcdef", std::process::id()));
        for folder in [&left, &other, &own] {
            fs::create_dir_all(folder.join("deep")).expect("made");
        }
        remove_left(&parent);
        assert!(!left.exists() && other.exists() && own.exists());
        fs::remove_dir_all(&parent).expect("removed");
    }
}
