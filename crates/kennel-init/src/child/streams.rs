//! Standard streams that lead nowhere: descriptors of the caller's belong to the host's mounts, whose permissions are not
//! the sandbox's. By one of them the mode, the times or the attributes of the host's file could be changed, or the file be
//! opened again with more rights. So what the command gets is opened anew, inside.

use super::Setup;
use super::steps::Tag;
use super::sys::{self, AT_FDCWD, Errno, Fd, Result, mount, open, resolve};
use super::wire::Reader;
use crate::report::Report;
use crate::role::DescriptorRole;

/// The place in the store that the file behind standard input is mounted on. The store lies under the sandbox's /dev, so
/// that /proc shows it as /dev/stdin, and nothing but that leads to it.
const PLACE: &core::ffi::CStr = c"stdin";

impl Setup<'_> {
    pub(super) fn stream(&mut self, tag: Tag, fields: &mut Reader) -> Result<()> {
        match tag {
            Tag::Terminal => self.terminal = Some(super::terminal::Terminal::open(fields, self.link)?),
            Tag::DeviceStream => self.device_stream(fields)?,
            _ => self.input_file(fields)?,
        }
        Ok(())
    }

    fn device_stream(&self, fields: &mut Reader) -> Result<()> {
        let (flags, strict) = (open::RDWR | open::NOCTTY, resolve::IN_ROOT | resolve::NO_SYMLINKS);
        let device = sys::openat2(self.root.raw(), fields.string()?, flags, 0, strict)?;
        for _ in 0..fields.count()? {
            sys::dup3(device.raw(), fields.u32()?.cast_signed(), false)?;
        }
        Ok(())
    }

    fn input_file(&self, fields: &mut Reader) -> Result<()> {
        const STANDARD_INPUT: i32 = 0;
        let (role, theirs) = match self.open_again(fields) {
            Ok(file) => {
                sys::dup3(file.raw(), STANDARD_INPUT, false)?;
                (DescriptorRole::InputFile, file)
            }
            // The caller could read it by means that this process does not have: as the host's root, or before a rename.
            Err(_) => {
                let (from, to) = sys::pipe()?;
                sys::dup3(from.raw(), STANDARD_INPUT, false)?;
                (DescriptorRole::InputPipe, to)
            }
        };
        sys::send_with_fd(self.link, &Report::Descriptor { role }.encode(), theirs.raw())
    }

    fn open_again(&self, fields: &mut Reader) -> Result<Fd> {
        let store = self.store.as_ref().ok_or(Errno::EPROTO)?;
        let (source, expected, offset) = (fields.string()?, fields.identity()?, fields.u64()?);
        let strict = resolve::NO_SYMLINKS | resolve::NO_MAGICLINKS;
        let found = sys::openat2(AT_FDCWD, source, open::PATH | open::NOFOLLOW, 0, strict)?;
        if sys::identity(found.raw())? != expected {
            return Err(Errno::ESTALE);
        }
        let tree = sys::clone_tree(found.raw(), c"", false)?;
        let attributes = mount::ATTR_RDONLY | mount::ATTR_NOSUID | mount::ATTR_NODEV;
        // Before 5.12 the mount could only be made read-only later, by a path that it does not have then.
        sys::mount_setattr(tree.raw(), attributes, 0, false)?;
        sys::mknod_file(store.raw(), PLACE, 0)?;
        // Attached, because Landlock lets nobody open anything below a mount that hangs in the air.
        sys::attach(tree.raw(), store.raw(), PLACE)?;
        let file = sys::openat2(store.raw(), PLACE, open::RDONLY, 0, resolve::NO_SYMLINKS)?;
        sys::seek(&file, offset)?;
        Ok(file)
    }
}
