//! The mount steps: with the descriptor-based calls of Linux 5.2, so that what was checked is what is mounted.

use core::ffi::CStr;

use super::files::place;
use super::sys::{self, AT_FDCWD, Errno, Fd, Identity, Result, mount, open, resolve};
use super::wire::Reader;
use super::{Setup, remount, tag};

/// A child user namespace gets its copy of the host's mounts as slaves: what the host mounts later would show up
/// inside, writable. Private ends that.
pub(super) fn make_private() -> Result<()> {
    sys::mount(c"/", mount::MS_REC | mount::MS_PRIVATE)
}

const READ_ONLY: u64 = mount::ATTR_RDONLY | mount::ATTR_NOSUID | mount::ATTR_NODEV;
const WRITABLE: u64 = mount::ATTR_NOSUID | mount::ATTR_NODEV;
const DEVICE: u64 = mount::ATTR_NOSUID | mount::ATTR_NOEXEC;

fn attributes(access: u8) -> u64 {
    match access {
        tag::ACCESS_WRITE => WRITABLE,
        tag::ACCESS_DEVICE => DEVICE,
        _ => READ_ONLY,
    }
}

impl Setup<'_> {
    pub(super) fn host_root(&mut self, fields: &mut Reader) -> Result<()> {
        let (access, masks) = (fields.u8()?, fields.u8()? != 0);
        // Copied before the masks are attached over `/`, or it would hold them too.
        let tree = sys::clone_tree(AT_FDCWD, c"/", true)?;
        if masks {
            self.make_masks()?;
        }
        self.set_attributes(&tree, attributes(access), true)?;
        self.new_root(tree)
    }

    pub(super) fn tmpfs_root(&mut self, fields: &mut Reader) -> Result<()> {
        let (masks, size) = (fields.u8()? != 0, fields.u64()?);
        if masks {
            self.make_masks()?;
        }
        let tree = new_tmpfs(size, 0, 0o755)?;
        self.new_root(tree)
    }

    /// Attaches the new root over `/`. Paths of this process still start from the old root, below it, until
    /// [`Setup::pivot_root`]; no folder on the host's disk is needed to mount on.
    fn new_root(&mut self, tree: Fd) -> Result<()> {
        sys::attach(tree.raw(), AT_FDCWD, c"/")?;
        self.root = tree;
        Ok(())
    }

    fn make_masks(&mut self) -> Result<()> {
        let masks = new_tmpfs(4096, 8, 0o755)?;
        sys::mkdirat(masks.raw(), c"d", 0o555)?;
        sys::openat2(masks.raw(), c"f", open::WRONLY | open::CREAT | open::EXCL, 0, resolve::NO_SYMLINKS)?;
        self.set_attributes(&masks, READ_ONLY | mount::ATTR_NOEXEC, false)?;
        // A detached mount cannot be copied before Linux 6.15; attached below the new root it can, and goes away
        // with the old one.
        sys::attach(masks.raw(), AT_FDCWD, c"/")?;
        self.masks = Some(masks);
        Ok(())
    }

    pub(super) fn mask(&self, fields: &mut Reader, which: &CStr) -> Result<()> {
        let target = place(self.root.raw(), fields.string()?)?;
        let masks = self.masks.as_ref().ok_or(Errno::EPROTO)?;
        let tree = sys::clone_tree(masks.raw(), which, false)?;
        sys::attach(tree.raw(), target.raw(), c"")
    }

    pub(super) fn bind(&mut self, fields: &mut Reader) -> Result<()> {
        let (target, access, source) = (fields.string()?, fields.u8()?, fields.string()?);
        let expected = fields.identity()?;
        let found = sys::openat2(
            AT_FDCWD,
            source,
            open::PATH | open::NOFOLLOW,
            0,
            resolve::NO_SYMLINKS | resolve::NO_MAGICLINKS,
        )?;
        if expected != Identity::default() && sys::identity(found.raw())? != expected {
            return Err(Errno::ESTALE);
        }
        let tree = sys::clone_tree(found.raw(), c"", access != tag::ACCESS_DEVICE)?;
        self.set_attributes(&tree, attributes(access), access != tag::ACCESS_DEVICE)?;
        let target = place(self.root.raw(), target)?;
        sys::attach(tree.raw(), target.raw(), c"")
    }

    pub(super) fn tmpfs(&self, fields: &mut Reader) -> Result<()> {
        let (target, size, inodes, mode) = (fields.string()?, fields.u64()?, fields.u64()?, fields.u32()?);
        let tree = new_tmpfs(size, inodes, mode)?;
        let target = place(self.root.raw(), target)?;
        sys::attach(tree.raw(), target.raw(), c"")
    }

    /// Read-only as a whole: /proc/sys checks for user 0 of the host, not for capabilities, so that a sandbox
    /// started by root could otherwise write core_pattern; and /proc/self/mem writes around page protections.
    pub(super) fn proc(&self, fields: &mut Reader) -> Result<()> {
        let target = place(self.root.raw(), fields.string()?)?;
        let proc = sys::fsopen(c"proc")?;
        let tree = sys::fsmount(&proc, READ_ONLY | mount::ATTR_NOEXEC)?;
        sys::attach(tree.raw(), target.raw(), c"")
    }

    pub(super) fn devpts(&self, fields: &mut Reader) -> Result<()> {
        let target = place(self.root.raw(), fields.string()?)?;
        let devpts = sys::fsopen(c"devpts")?;
        sys::fsconfig_flag(&devpts, c"newinstance")?;
        sys::fsconfig_string(&devpts, c"ptmxmode", c"0666")?;
        sys::fsconfig_string(&devpts, c"mode", c"0620")?;
        let tree = sys::fsmount(&devpts, DEVICE)?;
        sys::attach(tree.raw(), target.raw(), c"")
    }

    pub(super) fn read_only(&mut self, fields: &mut Reader) -> Result<()> {
        let target = place(self.root.raw(), fields.string()?)?;
        self.set_attributes(&target, mount::ATTR_RDONLY, false)
    }

    fn set_attributes(&mut self, tree: &Fd, attributes: u64, recursive: bool) -> Result<()> {
        match sys::mount_setattr(tree.raw(), attributes, recursive) {
            // Before 5.12: each mount is remounted once the new root stands.
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
        self.masks = None;
        if self.remount { remount::read_only(self.steps, self.step_count) } else { Ok(()) }
    }
}

fn new_tmpfs(size: u64, inodes: u64, mode: u32) -> Result<Fd> {
    let fs = sys::fsopen(c"tmpfs")?;
    sys::fsconfig_string(&fs, c"mode", number(u64::from(mode), 8, &mut [0; 24]))?;
    if size != 0 {
        sys::fsconfig_string(&fs, c"size", number(size, 10, &mut [0; 24]))?;
    }
    if inodes != 0 {
        sys::fsconfig_string(&fs, c"nr_inodes", number(inodes, 10, &mut [0; 24]))?;
    }
    sys::fsmount(&fs, WRITABLE)
}

/// Writes a number without the formatting machinery, which may panic and is large.
fn number(mut value: u64, base: u64, buffer: &mut [u8; 24]) -> &CStr {
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
