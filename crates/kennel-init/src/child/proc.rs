//! The sandbox's own process file system: limits that are set through it, and what of it can be seen and written.
//!
//! Limits of the sandbox's user namespace are set here and not in the host's: every user namespace has files of its own below
//! `/proc/sys/user`, under the same names, and processors that look them up in one file system wait for each other.
//!
//! What belongs to a process is its own to write. What is the kernel's has to be known: it is left as it is, or can be read
//! only, and whatever else a kernel or a module of it has put there is hidden. The calls are those by path of old, because nobody
//! else is in this namespace who could change what a path leads to, and one does what takes three of the others.

use core::ffi::CStr;

use super::Setup;
use super::files::place;
use super::mounts::{SAFE, number};
use super::sys::{self, AT_FDCWD, Errno, Fd, Result, mount, open};
use super::wire::Reader;

/// What every mount of it has.
const FLAGS: usize = mount::MS_NOSUID | mount::MS_NODEV | mount::MS_NOEXEC;
/// Changes the flags of one mount.
const CHANGE: usize = mount::MS_REMOUNT | mount::MS_BIND | FLAGS;

impl<'a> Setup<'a> {
    pub(super) fn proc(&mut self, fields: &mut Reader) -> Result<()> {
        let target = fields.string()?;
        let proc = sys::fsopen(c"proc")?;
        // What mountinfo calls it by: a program inside knows from this where it is, and nothing outside can see such a one.
        sys::fsconfig_string(&proc, c"source", c"kennel")?;
        let tree = sys::fsmount(&proc, SAFE | mount::ATTR_NOEXEC)?;
        self.attach(&tree, target)?;
        self.proc = Some(tree);
        Ok(())
    }

    /// Lowers a limit of the user namespace that this process is in, through the sandbox's own process file system. Only where
    /// the host allows none it is the host's, in which a container may have made /proc/sys read-only, or hidden it: then the
    /// user's own limit has to do.
    pub(super) fn namespace_limit(&self, fields: &mut Reader) -> Result<()> {
        let (file, value, half_of) = (fields.string()?, fields.u64()?, fields.string()?);
        let hosts = match self.proc {
            Some(_) => None,
            None => Some(sys::openat(AT_FDCWD, c"/proc", open::PATH | open::DIRECTORY)),
        };
        let proc = match (&self.proc, &hosts) {
            (Some(own), _) | (None, Some(Ok(own))) => own.raw(),
            _ => return Ok(()),
        };
        let value =
            if half_of.is_empty() { value } else { number_in(proc, half_of).map_or(value, |most| most / 2) };
        let folder = sys::openat(proc, c"sys/user", open::PATH | open::DIRECTORY);
        match folder.and_then(|folder| sys::openat(folder.raw(), file, open::WRONLY)) {
            Ok(opened) => sys::write_all(opened.raw(), number(value, 10, &mut [0; 24]).to_bytes()),
            Err(Errno::ENOENT | Errno::EACCES | Errno::EROFS) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Hides entries that are not known, and lets processes write what is theirs or nobody anything.
    pub(super) fn proc_entries(&mut self, fields: &mut Reader<'a>) -> Result<()> {
        let (target, write) = (fields.string()?, fields.u8()? != 0);
        let mut left = Names::read(fields)?;
        let mut read_only = Names::read(fields)?;
        sys::fchdir(place(self.root.raw(), target)?.raw())?;
        if write {
            // What is mounted on itself below has the flags that this one has now.
            sys::mount(c".", CHANGE | mount::MS_RDONLY)?;
        }
        let folder = sys::openat(AT_FDCWD, c".", open::RDONLY | open::DIRECTORY)?;
        let mut covers = Covers::default();
        let mut buffer = [0u8; 2048];
        loop {
            let length = sys::getdents(&folder, &mut buffer)?;
            if length == 0 {
                break;
            }
            let mut at = 0;
            // struct linux_dirent64: d_ino, d_off, d_reclen (2 bytes), d_type, d_name.
            while let Some(entry) = buffer.get(at..length).filter(|rest| rest.len() > 19) {
                const LINK: u8 = 10;
                let (size, kind) = (usize::from(u16::from_ne_bytes([entry[16], entry[17]])), entry[18]);
                let name = CStr::from_bytes_until_nul(&entry[19..]).map_err(|_| Errno::EPROTO)?;
                at += size.max(20);
                let is_process = name.to_bytes().iter().all(u8::is_ascii_digit);
                if kind == LINK || name.to_bytes().starts_with(b".") {
                    continue;
                }
                if read_only.contain(name)? {
                    if write {
                        unless_gone(sys::bind_by_path(name, name))?;
                    }
                } else if !is_process && !left.contain(name)? {
                    self.cover(name, kind, &mut covers)?;
                }
            }
        }
        drop(folder);
        // It is needed no more, and its number may be one that the command keeps.
        if self.proc.take().is_some() {
            sys::mount(c".", CHANGE | if write { 0 } else { mount::MS_RDONLY })?;
        }
        sys::fchdir(self.root.raw())
    }

    /// Hides an entry of the working directory.
    fn cover(&self, name: &CStr, kind: u8, covers: &mut Covers) -> Result<()> {
        const FOLDER: u8 = 4;
        let (which, known) = match kind {
            FOLDER => (c"d", &mut covers.folder),
            _ => (c"f", &mut covers.file),
        };
        if let Some(known) = known {
            // It has the flags of the one that is there already.
            return unless_gone(sys::bind_by_path(known.name(), name));
        }
        let store = self.store.as_ref().ok_or(Errno::EPROTO)?;
        let tree = sys::clone_tree(store.raw(), which, false)?;
        match sys::attach(tree.raw(), AT_FDCWD, name) {
            Err(Errno::ENOENT) => return Ok(()),
            other => other?,
        }
        *known = Name::of(name);
        sys::mount(name, CHANGE | mount::MS_RDONLY)
    }
}

/// A module of the kernel may take an entry away at any time.
fn unless_gone(result: Result<()>) -> Result<()> {
    if result == Err(Errno::ENOENT) { Ok(()) } else { result }
}

/// Where a file and a folder are hidden already.
#[derive(Default)]
struct Covers {
    file: Option<Name>,
    folder: Option<Name>,
}

/// The name of an entry.
struct Name([u8; 256]);

impl Name {
    fn of(name: &CStr) -> Option<Name> {
        let bytes = name.to_bytes_with_nul();
        let mut copy = [0; 256];
        copy.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Name(copy))
    }

    fn name(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or(c"")
    }
}

/// Names of a step. The kernel lists its entries by length and then by letters; if these are so too, each is found where the
/// last one was.
struct Names<'a> {
    all: Reader<'a>,
    count: usize,
    next: Reader<'a>,
    left: usize,
}

impl<'a> Names<'a> {
    fn read(fields: &mut Reader<'a>) -> Result<Names<'a>> {
        let count = fields.count()?;
        let all = *fields;
        for _ in 0..count {
            fields.string()?;
        }
        Ok(Names { all, count, next: all, left: count })
    }

    fn contain(&mut self, name: &CStr) -> Result<bool> {
        let (next, left) = (self.next, self.left);
        for _ in 0..self.count {
            if self.left == 0 {
                (self.next, self.left) = (self.all, self.count);
            }
            self.left -= 1;
            if self.next.string()? == name {
                return Ok(true);
            }
        }
        (self.next, self.left) = (next, left);
        Ok(false)
    }
}

/// The number that a file of the kernel's holds.
fn number_in(folder: i32, path: &CStr) -> Option<u64> {
    let file: Fd = sys::openat(folder, path, open::RDONLY).ok()?;
    let mut text = [0u8; 24];
    let length = sys::read(file.raw(), &mut text).ok()?;
    let digits = text.get(..length)?.trim_ascii_end();
    let all = !digits.is_empty() && digits.len() < 20 && digits.iter().all(u8::is_ascii_digit);
    all.then(|| digits.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_order() {
        let mut bytes = alloc::vec::Vec::new();
        bytes.extend(3u32.to_le_bytes());
        for name in [c"fs", c"bus", c"cpuinfo"] {
            bytes.extend((name.to_bytes_with_nul().len() as u32).to_le_bytes());
            bytes.extend(name.to_bytes_with_nul());
        }
        let mut names = Names::read(&mut Reader::new(&bytes)).expect("three names");
        for name in [c"fs", c"cpuinfo", c"bus", c"bus", c"fs", c"cpuinfo"] {
            assert_eq!(names.contain(name), Ok(true), "{name:?}");
            assert_eq!(names.contain(c"kcore"), Ok(false));
        }
        let bytes = 0u32.to_le_bytes();
        let mut none = Names::read(&mut Reader::new(&bytes)).expect("no names");
        assert_eq!(none.contain(c"fs"), Ok(false));
    }
}
