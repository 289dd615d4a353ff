//! The mount steps: with the descriptor-based calls of Linux 5.2, so that what was checked is what is mounted.

use core::ffi::CStr;

use super::files::place;
use super::steps::Tag;
use super::sys::memory::List;
use super::sys::{self, AT_FDCWD, Errno, Fd, Identity, Result, mount, open, resolve};
use super::wire::Reader;
use super::{MAX_HELD, Setup, remount, tag};
use crate::report::Report;
use crate::role::DescriptorRole;

/// A child user namespace gets its copy of the host's mounts as slaves: what the host mounts later would show up
/// inside, writable. Private ends that.
pub(super) fn make_private() -> Result<()> {
    sys::mount(c"/", mount::MS_REC | mount::MS_PRIVATE)
}

pub(super) const SAFE: u64 = mount::ATTR_NOSUID | mount::ATTR_NODEV;
pub(super) const READ_ONLY: u64 = mount::ATTR_RDONLY | SAFE;

impl<'a> Setup<'a> {
    /// Takes hold of a folder of the host's before it is covered.
    pub(super) fn hold_host(&mut self, fields: &mut Reader<'a>) -> Result<()> {
        let path = fields.string()?;
        let folder = sys::openat2(AT_FDCWD, path, open::PATH | open::DIRECTORY, 0, resolve::NO_SYMLINKS)?;
        let place = self.host.iter_mut().find(|place| place.is_none()).ok_or(Errno::EPROTO)?;
        *place = Some((path, folder));
        Ok(())
    }

    /// Keeps the tree that this namespace was born with. Later steps mount over parts of it; those mounts, and the
    /// ones that are there already, cannot be taken off again by anyone inside: that needs CAP_SYS_ADMIN.
    pub(super) fn host_root(&mut self, fields: &mut Reader) -> Result<()> {
        self.hold_early()?;
        self.over_host = true;
        let set = if fields.u8()? == tag::ACCESS_WRITE { SAFE } else { READ_ONLY };
        self.set_attributes(self.root.raw(), set, 0, true)
    }

    /// Attaches an empty root over `/`. Paths of this process still start from the old one, below it, until
    /// [`Setup::pivot_root`]; no folder on the host's disk is needed to mount on.
    pub(super) fn tmpfs_root(&mut self, fields: &mut Reader) -> Result<()> {
        self.hold_early()?;
        let tree = self.new_tmpfs(fields.u64()?, 0, 0o755)?;
        sys::attach(tree.raw(), AT_FDCWD, c"/")?;
        self.root = tree;
        Ok(())
    }

    pub(super) fn make_store(&mut self, fields: &mut Reader) -> Result<()> {
        let (target, size, inodes) = (fields.string()?, fields.u64()?, fields.u64()?);
        let store = self.new_tmpfs(size, inodes, 0o755)?;
        sys::mkdirat(store.raw(), c"d", 0o555)?;
        sys::mknod_file(store.raw(), c"f", 0)?;
        self.give_to_root(store.raw(), c"d")?;
        if self.root_owns {
            sys::chown(store.raw(), c"f", self.masks.0, self.masks.1)?;
        }
        // Attached, because a detached mount cannot be copied before Linux 6.15; a later step covers it.
        self.attach(&store, target)?;
        self.store = Some(store);
        Ok(())
    }

    /// Lets the controller hide things later with what hides them now.
    pub(super) fn hand_over_store(&self) -> Result<()> {
        let store = self.store.as_ref().ok_or(Errno::EPROTO)?;
        let report = Report::Descriptor { role: DescriptorRole::Store };
        sys::send_with_fd(self.link, &report.encode(), store.raw())
    }

    pub(super) fn private(&mut self, fields: &mut Reader) -> Result<()> {
        let (target, name, mode) = (fields.string()?, fields.string()?, fields.u32()?);
        let store = self.store.as_ref().ok_or(Errno::EPROTO)?.raw();
        self.make_or_keep_dir(store, name, mode)?;
        let tree = sys::clone_tree(store, name, false)?;
        self.attach(&tree, target)
    }

    pub(super) fn mask(&mut self, fields: &mut Reader, which: &CStr) -> Result<()> {
        let store = self.store.as_ref().ok_or(Errno::EPROTO)?;
        let tree = sys::clone_tree(store.raw(), which, false)?;
        self.set_attributes(tree.raw(), READ_ONLY | mount::ATTR_NOEXEC, 0, false)?;
        self.attach(&tree, fields.string()?)
    }

    pub(super) fn cover_file(&mut self, fields: &mut Reader) -> Result<()> {
        let (target, contents) = (fields.string()?, fields.bytes()?);
        let store = self.store.as_ref().ok_or(Errno::EPROTO)?;
        // Each cover is a file of its own, named by its step.
        let mut buffer = [0; 24];
        let name = number((self.before + self.index) as u64, 10, &mut buffer);
        let flags = open::WRONLY | open::CREAT | open::EXCL;
        let file = sys::openat2(store.raw(), name, flags, 0o444, resolve::NO_SYMLINKS)?;
        sys::write_all(file.raw(), contents)?;
        sys::fchmod(file.raw(), 0o444)?;
        self.give_to_root(store.raw(), name)?;
        let tree = sys::clone_tree(store.raw(), name, false)?;
        self.set_attributes(tree.raw(), READ_ONLY | mount::ATTR_NOEXEC, 0, false)?;
        self.attach(&tree, target)
    }

    pub(super) fn bind(&mut self, fields: &mut Reader) -> Result<()> {
        let (target, access) = (fields.string()?, fields.u8()?);
        let on_itself = self.over_host && { *fields }.string()? == target;
        let (tree, found) = match self.held() {
            Some(tree) => (tree, None),
            None => self.source(fields, access)?,
        };
        match access {
            tag::ACCESS_WRITE => self.make_writable(&tree)?,
            tag::ACCESS_DEVICE => {
                // A device on a read-only mount can be written to; but the node stays as it is. The host's root could
                // otherwise change the mode of the host's /dev/null from inside.
                self.set_attributes(tree.raw(), mount::ATTR_RDONLY, mount::ATTR_NODEV, false)?;
            }
            _ => self.set_attributes(tree.raw(), READ_ONLY, 0, true)?,
        }
        match found.filter(|_| on_itself) {
            // The place was found when the source was: the path is not walked again, of hundreds.
            Some(found) => {
                sys::attach(tree.raw(), found.raw(), c"")?;
                self.folder.covered(target.to_bytes());
                Ok(())
            }
            None => self.attach(&tree, target),
        }
    }

    /// Takes hold of the sources that later steps cover.
    pub(super) fn hold_early(&mut self) -> Result<()> {
        let mut steps = self.part;
        for index in 0..self.step_count {
            let (step, mut fields) = steps.step()?;
            match step {
                Tag::Bind => {
                    let (_, access) = (fields.string()?, fields.u8()?);
                    let mut last = fields;
                    let (_, _, early) = (last.string()?, last.identity()?, last.u8()? != 0);
                    if early {
                        self.hold_source(index, &mut fields, access)?;
                    }
                }
                Tag::LayeredFolder => {
                    fields.string()?;
                    self.hold_source(index, &mut fields, tag::ACCESS_READ)?;
                    self.hold_source(index, &mut fields, tag::ACCESS_WRITE)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn hold_source(&mut self, index: usize, fields: &mut Reader, access: u8) -> Result<()> {
        let (tree, _) = self.source(fields, access)?;
        let held = match &mut self.held {
            Some(held) => held,
            // A step has two at most.
            none => none.insert(List::with_room(2 * self.step_count)?),
        };
        held.push((index, tree.into_raw()))
    }

    /// A copy of the tree that a bind names, if it is still what the planner saw, and what was found there, unless that is
    /// covered by now.
    pub(super) fn source(&self, fields: &mut Reader, access: u8) -> Result<(Fd, Option<Fd>)> {
        let (source, expected) = (fields.string()?, fields.identity()?);
        let recursive = access != tag::ACCESS_DEVICE;
        if expected == Identity::default() {
            return Ok((sys::clone_tree(AT_FDCWD, source, recursive)?, None));
        }
        let strict = resolve::NO_SYMLINKS | resolve::NO_MAGICLINKS;
        let held = self.host.iter().flatten().find_map(|(path, folder)| below(source, path, folder));
        let (folder, path) = held.unwrap_or((AT_FDCWD, source));
        let found = sys::openat2(folder, path, open::PATH | open::NOFOLLOW, 0, strict)?;
        if sys::identity(found.raw())? != expected {
            return Err(Errno::ESTALE);
        }
        let tree = sys::clone_tree(found.raw(), c"", recursive)?;
        Ok((tree, held.is_none().then_some(found)))
    }

    pub(super) fn held(&mut self) -> Option<Fd> {
        let (_, fd) = self.held.as_mut()?.iter_mut().find(|(index, fd)| *index == self.index && *fd >= 0)?;
        Some(Fd(core::mem::replace(fd, -1)))
    }

    /// The copy may have been taken after the root became read-only. What the host itself has mounted read-only is
    /// locked in this namespace, and one such mount makes the call fail for the whole tree: then each is asked by
    /// itself, once all of them stand.
    fn make_writable(&mut self, tree: &Fd) -> Result<()> {
        match self.set_attributes(tree.raw(), SAFE, mount::ATTR_RDONLY, true) {
            Err(Errno::EPERM) => {
                self.one_by_one = true;
                self.set_attributes(tree.raw(), SAFE, 0, true)
            }
            other => other,
        }
    }

    pub(super) fn tmpfs(&mut self, fields: &mut Reader) -> Result<()> {
        let (target, size, inodes, mode) = (fields.string()?, fields.u64()?, fields.u64()?, fields.u32()?);
        let tree = self.new_tmpfs(size, inodes, mode)?;
        self.attach(&tree, target)
    }

    pub(super) fn devpts(&mut self, fields: &mut Reader) -> Result<()> {
        let devpts = sys::fsopen(c"devpts")?;
        sys::fsconfig_flag(&devpts, c"newinstance")?;
        sys::fsconfig_string(&devpts, c"ptmxmode", c"0666")?;
        sys::fsconfig_string(&devpts, c"mode", c"0620")?;
        let (target, most) = (fields.string()?, fields.u32()?);
        sys::fsconfig_string(&devpts, c"max", number(u64::from(most), 10, &mut [0; 24]))?;
        let tree = sys::fsmount(&devpts, mount::ATTR_NOSUID | mount::ATTR_NOEXEC)?;
        self.attach(&tree, target)
    }

    pub(super) fn read_only(&mut self, fields: &mut Reader) -> Result<()> {
        let target = place(self.root.raw(), fields.string()?)?;
        self.set_attributes(target.raw(), mount::ATTR_RDONLY, 0, false)
    }

    pub(super) fn attach(&mut self, tree: &Fd, target: &CStr) -> Result<()> {
        let (folder, name) = self.folder_of(target, false)?;
        sys::attach(tree.raw(), folder, name)?;
        self.folder.covered(target.to_bytes());
        Ok(())
    }

    pub(super) fn set_attributes(&mut self, tree: i32, set: u64, clear: u64, recursive: bool) -> Result<()> {
        match sys::mount_setattr(tree, set, clear, recursive) {
            // Before 5.12: each mount is remounted once all of them stand.
            Err(Errno::ENOSYS) => {
                self.remount = true;
                Ok(())
            }
            other => other,
        }
    }

    pub(super) fn pivot_root(&mut self) -> Result<()> {
        sys::fchdir(self.root.raw())?;
        sys::pivot_root_here()?;
        // The old root now lies on top of the new one, at the working directory.
        sys::unmount_detached(c".")?;
        sys::chdir(c"/")?;
        // Whatever lies on the root still is what `..` leads to.
        let above = sys::openat2(AT_FDCWD, c"/..", open::PATH, 0, 0)?;
        let is_alone = sys::identity(above.raw())? == sys::identity(self.root.raw())?;
        if is_alone { Ok(()) } else { Err(Errno::EPROTO) }
    }

    pub(super) fn new_tmpfs(&self, size: u64, inodes: u64, mode: u32) -> Result<Fd> {
        let fs = sys::fsopen(c"tmpfs")?;
        sys::fsconfig_string(&fs, c"mode", number(u64::from(mode), 8, &mut [0; 24]))?;
        if size != 0 {
            sys::fsconfig_string(&fs, c"size", number(size, 10, &mut [0; 24]))?;
        }
        if inodes != 0 {
            sys::fsconfig_string(&fs, c"nr_inodes", number(inodes, 10, &mut [0; 24]))?;
        }
        if self.root_owns {
            sys::fsconfig_string(&fs, c"uid", c"0")?;
            sys::fsconfig_string(&fs, c"gid", c"0")?;
        }
        sys::fsmount(&fs, SAFE)
    }

    /// The home folder of one of several users.
    pub(super) fn home(&mut self, fields: &mut Reader) -> Result<()> {
        let (target, name) = (fields.string()?, fields.string()?);
        let store = self.store.as_ref().ok_or(Errno::EPROTO)?.raw();
        sys::mkdirat(store, name, 0o700)?;
        sys::chown(store, name, fields.u32()?, fields.u32()?)?;
        let tree = sys::clone_tree(store, name, false)?;
        self.attach(&tree, target)
    }

    /// All mounts stand; what only a remount can do is done now.
    pub(super) fn seal(&mut self) -> Result<()> {
        // Nothing binds from the host after this.
        self.host = [const { None }; MAX_HELD];
        self.proc = None;
        if self.remount {
            remount::read_only(self.part, self.step_count)?;
        }
        if self.one_by_one {
            if let Some((part, count)) = self.earlier {
                remount::writable(part, count)?;
            }
            remount::writable(self.part, self.step_count)?;
        }
        Ok(())
    }
}

/// Where `source` lies below a folder that is held: the folder, and the rest of the path.
fn below<'s>(source: &'s CStr, path: &CStr, folder: &Fd) -> Option<(i32, &'s CStr)> {
    let rest = source.to_bytes_with_nul().strip_prefix(path.to_bytes())?.strip_prefix(b"/")?;
    Some((folder.raw(), CStr::from_bytes_with_nul(rest).ok()?))
}

/// Takes hold of a path of the host's, if it is still what the planner saw.
pub(super) fn open_expected(source: &CStr, expected: Identity) -> Result<Fd> {
    let strict = resolve::NO_SYMLINKS | resolve::NO_MAGICLINKS;
    let found = sys::openat2(AT_FDCWD, source, open::PATH | open::NOFOLLOW, 0, strict)?;
    if sys::identity(found.raw())? != expected { Err(Errno::ESTALE) } else { Ok(found) }
}

/// Writes a number without the formatting machinery, which may panic and is large.
pub(super) fn number(mut value: u64, base: u64, buffer: &mut [u8; 24]) -> &CStr {
    let mut at = buffer.len() - 1;
    buffer[at] = 0;
    loop {
        at -= 1;
        buffer[at] = b'0' + (value % base) as u8;
        value /= base;
        if value == 0 {
            break;
        }
    }
    CStr::from_bytes_until_nul(&buffer[at..]).unwrap_or(c"0")
}
