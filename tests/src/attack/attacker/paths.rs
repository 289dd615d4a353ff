//! Ways to give one path to the kernel: what is denied by one of them has to be denied by all.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::Actor;
use super::call::{Fd, HERE};
use crate::attack::word;

/// A folder's descriptor and a path from there.
pub(super) struct Given {
    pub(super) at: usize,
    pub(super) path: CString,
    /// Open as long as the path is in use.
    _folder: Option<Fd>,
}

impl Actor {
    /// A path of a history, by a way that has a name such as `@procfd`.
    pub(super) fn give(&self, path: &str, way: &str) -> Given {
        let place = word::place(&self.top, path);
        let (Some(folder), Some(name)) = (place.parent(), place.file_name()) else { return plain(&place) };
        let open = || Fd::open(HERE, &c_path(folder), libc::O_PATH | libc::O_DIRECTORY).unwrap_or(Fd(-1));
        let below = |root: &str| Path::new(root).join(place.strip_prefix("/").unwrap_or(&place));
        match way {
            "@dirfd" => {
                let folder = open();
                Given { at: folder.arg(), path: c_path(Path::new(name)), _folder: Some(folder) }
            }
            "@procfd" => {
                let folder = open();
                let path = Path::new("/proc/self/fd").join(folder.0.to_string()).join(name);
                Given { at: HERE, path: c_path(&path), _folder: Some(folder) }
            }
            "@root" => plain(&below("/proc/self/root")),
            "@thread" => plain(&below("/proc/thread-self/root")),
            "@dots" => {
                let twice = folder.file_name().map(|last| folder.join("..").join(last));
                plain(&twice.unwrap_or_else(|| folder.to_path_buf()).join(".").join(name))
            }
            "@slashes" => {
                let text = [b"//".as_slice(), place.as_os_str().as_bytes()].concat();
                Given { at: HERE, path: CString::new(text).unwrap_or_default(), _folder: None }
            }
            _ => plain(&place),
        }
    }

    /// The same without a way.
    pub(super) fn path(&self, path: &str) -> CString {
        c_path(&word::place(&self.top, path))
    }
}

/// A path as it is.
pub(super) fn plain(path: &Path) -> Given {
    Given { at: HERE, path: c_path(path), _folder: None }
}

/// As the kernel takes it.
pub(super) fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap_or_default()
}
