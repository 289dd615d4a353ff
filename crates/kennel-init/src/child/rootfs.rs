//! A folder of the host's with a layer above it: as the root, with a layer in memory, or elsewhere, with one that is kept. And one as
//! the root that is read-only.
//!
//! The layer of a root is an overlay whose upper folder lies in a file system of the sandbox's own. Nothing is made on the host's
//! disk, so nothing has to be cleaned up: the kernel drops all of it with the mount namespace, whoever dies first.

use super::files::{Folder, place};
use super::mounts::{READ_ONLY, SAFE, open_expected};
use super::sys::{self, AT_FDCWD, Errno, Fd, Result, open, resolve};
use super::wire::Reader;
use super::{Setup, tag};
use crate::report::Report;
use crate::role::DescriptorRole;

/// The names of the lower, the upper and the work folder in the file system that holds the layer.
const LOWER: &core::ffi::CStr = c"l";
const UPPER: &core::ffi::CStr = c"u";
const WORK: &core::ffi::CStr = c"w";
/// And that of a layer that is kept, while its overlay is made.
const KEPT: &core::ffi::CStr = c"k";

impl Setup<'_> {
    /// Makes the layer. Until the root stands, what steps make is made in its upper folder: in the root itself it could not
    /// be, where a folder belongs to somebody who has no number in this user namespace.
    pub(super) fn make_layer(&mut self, fields: &mut Reader) -> Result<()> {
        self.hold_early()?;
        let (size, inodes) = (fields.u64()?, fields.u64()?);
        let layer = self.new_tmpfs(size, inodes, 0o755)?;
        for name in [LOWER, UPPER, WORK] {
            sys::mkdirat(layer.raw(), name, 0o755)?;
        }
        // Attached, because an overlay takes no folders of a detached mount; the root will lie over it.
        sys::attach(layer.raw(), AT_FDCWD, c"/")?;
        let flags = open::RDONLY | open::DIRECTORY | open::NOFOLLOW;
        let upper = sys::openat2(layer.raw(), UPPER, flags, 0, resolve::NO_SYMLINKS)?;
        // Before Linux 6.6 a tmpfs keeps no such attributes. The overlay would mount all the same, and folders of the lower
        // could neither be removed nor replaced.
        sys::set_attribute(upper.raw(), c"user.overlay.kennel")?;
        self.layer = Some(layer);
        self.new_root(upper);
        Ok(())
    }

    /// Attaches the folder with the layer above it over `/`. Neither what a file system in the folder says of redirects nor
    /// the host's defaults for overlays matter: with `userxattr` they are off.
    pub(super) fn layered_root(&mut self, fields: &mut Reader) -> Result<()> {
        let folder = open_expected(fields.string()?, fields.identity()?)?;
        let layer = self.layer.take().ok_or(Errno::EPROTO)?;
        // Without what is mounted below it: the kernel refuses to uncover what it hides.
        let lower = sys::clone_tree(folder.raw(), c"", false)?;
        sys::attach(lower.raw(), layer.raw(), LOWER)?;
        // By short names, because the kernel takes 255 bytes and reads colons and commas in them.
        sys::fchdir(layer.raw())?;
        let overlay = sys::fsopen(c"overlay")?;
        sys::fsconfig_string(&overlay, c"lowerdir", LOWER)?;
        sys::fsconfig_string(&overlay, c"upperdir", UPPER)?;
        sys::fsconfig_string(&overlay, c"workdir", WORK)?;
        sys::fsconfig_flag(&overlay, c"userxattr")?;
        // One device number for files and folders, or `du -x` and `find -xdev` would pass over the files.
        sys::fsconfig_string(&overlay, c"xino", c"on")?;
        let tree = sys::fsmount(&overlay, SAFE)?;
        // The overlay has mounts of its own of both. Left between it and the old root, this one would be what is unmounted in
        // the end, and the host's tree would stay.
        sys::unmount_detached(c".")?;
        sys::chdir(c"/")?;
        sys::attach(tree.raw(), AT_FDCWD, c"/")?;
        self.new_root(tree);
        Ok(())
    }

    /// Attaches the folder over `/`, read-only, with all that is mounted below it: later steps hide what is the kernel's.
    pub(super) fn bound_root(&mut self, fields: &mut Reader) -> Result<()> {
        self.hold_early()?;
        let folder = open_expected(fields.string()?, fields.identity()?)?;
        let tree = sys::clone_tree(folder.raw(), c"", true)?;
        self.set_attributes(tree.raw(), READ_ONLY, 0, true)?;
        sys::attach(tree.raw(), AT_FDCWD, c"/")?;
        self.new_root(tree);
        Ok(())
    }

    /// Mounts a folder of the host's with a kept layer above it. Where the kernel makes no overlay of the two, the layer's plain folder
    /// stands there alone: never what is the upper folder of an overlay, whose attributes the sandbox could then write as it likes.
    pub(super) fn layered_folder(&mut self, fields: &mut Reader) -> Result<()> {
        let target = fields.string()?;
        let (lower, layer) = match (self.held(), self.held()) {
            (Some(lower), Some(layer)) => (lower, layer),
            _ => (self.source(fields, tag::ACCESS_READ)?.0, self.source(fields, tag::ACCESS_WRITE)?.0),
        };
        // The overlay takes its folders by short paths, and none of a detached mount. Attached for so long only.
        let stage = self.new_tmpfs(0, 0, 0o700)?;
        for name in [LOWER, KEPT] {
            sys::mkdirat(stage.raw(), name, 0o700)?;
        }
        sys::attach(stage.raw(), AT_FDCWD, c"/")?;
        sys::attach(lower.raw(), stage.raw(), LOWER)?;
        sys::attach(layer.raw(), stage.raw(), KEPT)?;
        sys::fchdir(stage.raw())?;
        let overlay = over_kept();
        let tree = match overlay {
            Ok(tree) => Ok(tree),
            Err(_) => sys::clone_tree(layer.raw(), c"p", false),
        };
        sys::unmount_detached(c".")?;
        sys::chdir(c"/")?;
        let tree = tree?;
        self.set_attributes(tree.raw(), SAFE, 0, false)?;
        self.attach(&tree, target)
    }

    /// Lets the controller watch over names in the layer, which the host's paths do not lead to.
    pub(super) fn hand_over_root(&self) -> Result<()> {
        let report = Report::Descriptor { role: DescriptorRole::Root };
        sys::send_with_fd(self.link, &report.encode(), self.root.raw())
    }

    /// Mounts a part of the root on itself, read-only.
    pub(super) fn freeze(&mut self, fields: &mut Reader) -> Result<()> {
        let target = fields.string()?;
        let found = place(self.root.raw(), target)?;
        let tree = sys::clone_tree(found.raw(), c"", false)?;
        self.set_attributes(tree.raw(), READ_ONLY, 0, false)?;
        self.attach(&tree, target)
    }

    /// What was open in the root before is no part of this one.
    fn new_root(&mut self, root: Fd) {
        (self.root, self.folder) = (root, Folder::none());
    }
}

/// The overlay of what is attached in the working directory.
fn over_kept() -> Result<Fd> {
    let overlay = sys::fsopen(c"overlay")?;
    sys::fsconfig_string(&overlay, c"lowerdir", LOWER)?;
    sys::fsconfig_string(&overlay, c"upperdir", c"k/u")?;
    sys::fsconfig_string(&overlay, c"workdir", c"k/w")?;
    sys::fsconfig_flag(&overlay, c"userxattr")?;
    // With either of these the host could not change its cache between two runs.
    sys::fsconfig_string(&overlay, c"index", c"off")?;
    sys::fsconfig_string(&overlay, c"xino", c"off")?;
    sys::fsmount(&overlay, SAFE)
}
