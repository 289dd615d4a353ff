//! What comes after the sandbox is ready: a further part with steps, and descriptors that were not there at birth.

use super::files::Folder;
use super::orders::Part;
use super::sys::memory::Memory;
use super::sys::{self, Errno, Fd, MAX_FDS, Result};
use super::wire::Reader;
use super::{Setup, begin};
use crate::report::Report;

impl<'a> Setup<'a> {
    /// Reports that everything so far is done, and waits for the part with the rest.
    pub(super) fn await_part<'m>(&self, memory: &'m Memory) -> Result<Part<'m>> {
        sys::send(self.link, &Report::Ready.encode())?;
        Part::receive(self.link, memory)
    }

    /// Performs the steps of a late part, the first of which counts as step `done`; an error names the step. Returns how many
    /// steps there have been in all.
    pub(super) fn perform_late(
        &mut self,
        mut reader: Reader<'a>,
        done: u32,
    ) -> core::result::Result<u32, (u32, Errno)> {
        self.before += self.step_count;
        self.earlier = Some((self.part, self.step_count));
        self.step_count = begin(&mut reader).map_err(|errno| (done, errno))?;
        (self.part, self.held) = (reader, None);
        for index in 0..self.step_count {
            self.index = index;
            let at = done + index as u32;
            let (tag, fields) = reader.step().map_err(|errno| (at, errno))?;
            self.step(tag, fields).map_err(|errno| (at, errno))?;
        }
        Ok(done + self.step_count as u32)
    }

    /// Takes descriptors from the link and puts them at the numbers that the step names. Whatever of this process's own has
    /// one of these numbers makes way.
    pub(super) fn take_descriptors(&mut self, fields: &mut Reader) -> Result<()> {
        let mut numbers = [-1i32; MAX_FDS];
        let count = fields.count()?;
        let numbers = numbers.get_mut(..count).ok_or(Errno::EPROTO)?;
        for number in numbers.iter_mut() {
            *number = i32::try_from(fields.u32()?).map_err(|_| Errno::EPROTO)?;
        }
        let mut taken = receive(self.link)?;
        if taken.iter().flatten().count() != count {
            return Err(Errno::EPROTO);
        }
        self.make_way(numbers)?;
        // Those that stand on another's number first, so that none is overwritten before it has been put where it belongs.
        for (fd, number) in taken.iter_mut().flatten().zip(numbers.iter()) {
            if fd.raw() != *number {
                step_aside(&mut fd.0, numbers)?;
            }
        }
        for (fd, number) in taken.into_iter().flatten().zip(numbers.iter()) {
            if fd.raw() == *number {
                sys::set_cloexec(fd.into_raw(), false)?;
            } else {
                sys::dup3(fd.raw(), *number, false)?;
            }
        }
        Ok(())
    }

    /// Moves what the set-up itself holds away from these numbers.
    fn make_way(&mut self, numbers: &[i32]) -> Result<()> {
        self.folder = Folder::none();
        step_aside(&mut self.link, numbers)?;
        step_aside(&mut self.root.0, numbers)?;
        if let Some(store) = &mut self.store {
            step_aside(&mut store.0, numbers)?;
        }
        if let Some(terminal) = &mut self.terminal {
            step_aside(terminal.number(), numbers)?;
        }
        Ok(())
    }
}

/// One message with descriptors. The end of the link means that the controller is gone.
fn receive(link: i32) -> Result<[Option<Fd>; MAX_FDS]> {
    let mut message = [0u8; 1];
    loop {
        match sys::recv_with_fds(link, &mut message) {
            Ok((0, _)) => return Err(Errno::ECANCELED),
            Ok((_, fds)) => return Ok(fds),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Gives a descriptor another number if its own is one of `numbers`. The lowest that is free and none of them: a limit on open
/// files may leave few.
fn step_aside(fd: &mut i32, numbers: &[i32]) -> Result<()> {
    if !numbers.contains(fd) {
        return Ok(());
    }
    let mut lowest = 3;
    loop {
        let copy = sys::dup_above(*fd, lowest)?;
        if !numbers.contains(&copy) {
            sys::close(*fd);
            *fd = copy;
            return Ok(());
        }
        sys::close(copy);
        lowest = copy + 1;
    }
}
