//! What runs inside: the code of PID 1, from its first instruction to the end of the sandbox.
//!
//! PID 1 exists because a PID namespace needs a first process: the kernel kills everything inside when it ends,
//! it inherits orphans, and signals from inside cannot end it. It performs the plan with the full capabilities of
//! the new user namespace, drops them all, starts the command, and from then on only reaps, forwards signals, and
//! watches the socket to its controller, whose closing is its own end.
//!
//! Everything below this module is free of allocation, locks and libc, so that it can run in a clone of the
//! caller as well as in the tiny static program.

pub mod clone;
pub mod command;
pub mod files;
mod hold;
pub mod mend;
pub mod mounts;
pub mod network;
mod network_helper;
pub mod orders;
mod outbound;
pub mod owners;
pub mod pair;
pub mod reaper;
pub mod remount;
pub mod restrict;
mod streams;
pub mod sys;
pub mod tag;
mod terminal;
mod users;
pub mod wire;

use crate::report::Report;
use hold::Hold;
use network_helper::NetworkHelper;
use reaper::Reaper;
use sys::{Errno, Fd, Result};
use terminal::Terminal;
use wire::Reader;

/// Memory that PID 1 was born with and does not need: the caller's arguments, environment and heap.
#[derive(Clone, Copy, Debug, Default)]
pub struct InheritedMemory {
    /// Where the strings of the arguments and the environment lie.
    pub strings: (usize, usize),
    /// Where the heap lies, to be given back as a whole.
    pub heap: (usize, usize),
    /// Above which the C library has put what it allocated; 0 to leave it alone.
    pub program_break: usize,
}

impl InheritedMemory {
    /// Forgets all of it, before there is a command: it could read this process's arguments, because
    /// /proc/1/cmdline asks no permission.
    ///
    /// # Safety
    /// The ranges must belong to nobody who still runs in this process.
    unsafe fn give_up(self) {
        // SAFETY: the caller's promise.
        unsafe {
            wipe(self.strings);
            sys::unmap(self.heap);
        }
        if self.program_break != 0 {
            // What the C library put in front of the mark may lie in the same page.
            let page = self.program_break.next_multiple_of(4096);
            // SAFETY: the caller's promise. A break that has not moved leaves nothing mapped there to wipe.
            unsafe {
                if sys::program_break() > self.program_break {
                    wipe((self.program_break, page));
                }
            }
            sys::brk(page);
        }
    }
}

/// PID 1's view of the plan and what it has built so far.
pub struct Setup<'a> {
    /// The socket to the controller.
    link: i32,
    /// The top of the new root, or of the only one.
    root: Fd,
    /// Whether that is the host's tree: then a source and a target of the same path are the same place.
    over_host: bool,
    /// Whether what is made belongs to user 0, who is not this process.
    root_owns: bool,
    /// Who has what hides files, then.
    masks: (u32, u32),
    /// Holds an empty folder `d` and an unreadable file `f` to bind over what is hidden, and the private folders.
    store: Option<Fd>,
    /// The folder that the last step worked in; the next often works in the same.
    folder: files::Folder,
    /// For each step, the tree it is to bind, where that was taken hold of early; 0 elsewhere. Null when none was.
    held: *mut i32,
    /// The step being performed, counted within its part.
    index: usize,
    /// The sandbox's terminal, once there is one.
    terminal: Option<Terminal>,
    /// Whether this kernel lacks mount_setattr (before 5.12).
    remount: bool,
    /// Whether writable trees hold mounts that must stay read-only.
    one_by_one: bool,
    /// All steps of this part, for what looks ahead.
    part: Reader<'a>,
    /// How many.
    step_count: usize,
}

/// Performs the plan that arrives over `link`, starts its command and stays until it ends.
///
/// The plan comes in three parts. The controller sends the second, the set-up, when it has looked at the disk; by then the
/// first, which needs nothing of the disk, is mostly done. The third is the command, which the set-up does not depend on.
///
/// # Safety
/// This must be a process of its own, with a single thread, that the caller has given up: it never returns. The
/// ranges in `inherited` must belong to nobody who still runs here.
pub unsafe fn run(link: i32, inherited: InheritedMemory) -> ! {
    const SIGCHLD: i32 = 17;
    // Blocked from the start: a signal that arrives during set-up waits for the reaper.
    let _ = sys::set_signal_mask(u64::MAX);
    // What the caller ignores stays ignored across a clone and an exec. Of SIGCHLD that would leave this process without
    // a word of its children's ends; of the others, which come later, the command would have to know.
    sys::default_action(SIGCHLD);
    // What is made during the set-up has the permissions that the plan says. The command has the caller's mask again.
    let umask = sys::umask(0);
    // SAFETY: the caller's own promise.
    unsafe { inherited.give_up() };
    let opening = receive(link, 0);
    let mut steps = opening.reader();
    let helper = match begin(&mut steps) {
        Ok(count) => NetworkHelper::new(steps, count, link),
        Err(errno) => fail(link, 0, errno),
    };
    // SAFETY: it stays where it is, because this function never returns.
    unsafe { helper.begin() };
    // The rest of the plan is on its way; what takes time and does not need it is done meanwhile.
    (1..=sys::LAST_SIGNAL).for_each(sys::default_action);
    if let Err((step, errno)) = helper.meanwhile() {
        fail(link, step, errno);
    }
    let main = receive(link, helper.count());
    let (past, terminal) = match perform(main.reader(), link, &helper) {
        Ok(performed) => performed,
        Err((step, errno)) => fail(link, step, errno),
    };
    // Last, because a process that is not dumpable owns nothing in /proc any more. From here on neither ptrace nor
    // /proc/1/mem nor a core dump shows what PID 1 holds.
    const PR_SET_DUMPABLE: usize = 4;
    if let Err(errno) = sys::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) {
        fail(link, past, errno);
    }
    reaper::adopt_orphans();
    let last = receive(link, past);
    let (command, deadline, outside_only) =
        match command::start(last.reader(), link, terminal.as_ref(), umask) {
            Ok(started) => started,
            Err(errno) => fail(link, past, errno),
        };
    let own_network = helper.count() > 0;
    // SAFETY: nothing of the plan is used from here on.
    unsafe {
        opening.wipe();
        main.wipe();
        last.wipe();
    }
    let (used, hold) = (sys::Usage::default(), Hold::none());
    Reaper { command, terminal, deadline, hold, owes_stop: false, outside_only, link, own_network, used }
        .serve()
}

/// [`run`] for a process whose id maps somebody else writes: it waits until they are.
///
/// # Safety
/// As [`run`].
pub unsafe fn run_when_mapped(link: i32, inherited: InheritedMemory) -> ! {
    if orders::await_go(link).is_err() {
        sys::exit(1);
    }
    // SAFETY: the caller's own promise.
    unsafe { run(link, inherited) }
}

fn fail(link: i32, step: u32, Errno(errno): Errno) -> ! {
    let _ = sys::send(link, &Report::Failed { step, errno }.encode());
    sys::exit(1)
}

fn receive(link: i32, done: u32) -> orders::Part {
    match orders::Part::receive(link) {
        Ok(part) => part,
        Err(errno) => fail(link, done, errno),
    }
}

/// Reads the beginning of a part with steps: how many follow.
fn begin(reader: &mut Reader) -> Result<usize> {
    reader.magic()?;
    reader.count()
}

/// Goes through the steps of the main part while `aside` takes care of the opening's. Returns how many steps there were,
/// the opening's included, and the terminal, if one of them made it; an error names the step.
fn perform(
    mut reader: Reader,
    link: i32,
    helper: &NetworkHelper,
) -> core::result::Result<(u32, Option<Terminal>), (u32, Errno)> {
    let done = helper.count();
    let step_count = begin(&mut reader).map_err(|errno| (done, errno))?;
    let root = sys::openat2(sys::AT_FDCWD, c"/", sys::open::PATH | sys::open::DIRECTORY, 0, 0)
        .map_err(|errno| (done, errno))?;
    let folder = files::Folder::none();
    let held = core::ptr::null_mut();
    let part = reader;
    let mut setup = Setup {
        link,
        root,
        root_owns: false,
        masks: (0, 0),
        over_host: false,
        store: None,
        folder,
        held,
        index: 0,
        terminal: None,
        remount: false,
        one_by_one: false,
        part,
        step_count,
    };
    for index in 0..step_count {
        setup.index = index;
        let at = done + index as u32;
        match reader.step() {
            Ok((tag::ENTER_NETWORK, _)) => helper.enter()?,
            Ok((tag, fields)) => setup.step(tag, fields).map_err(|errno| (at, errno))?,
            Err(errno) => return Err((at, errno)),
        }
    }
    let past = done + step_count as u32;
    // Or the command would find itself in the network that PID 1 was born in.
    helper.entered().map_err(|errno| (past, errno))?;
    Ok((past, setup.terminal))
}

impl Setup<'_> {
    /// Goes over to the namespace of several users. What was held of the mounts before is gone: nobody is left in their
    /// namespace, unless the controller holds it.
    fn nest(&mut self, fields: &mut Reader) -> Result<()> {
        users::nest(fields)?;
        self.folder = files::Folder::none();
        self.store = None;
        self.root = sys::openat2(sys::AT_FDCWD, c"/", sys::open::PATH | sys::open::DIRECTORY, 0, 0)?;
        Ok(())
    }

    fn step(&mut self, tag: u8, mut fields: Reader) -> Result<()> {
        match tag {
            tag::PRIVATE_MOUNTS => mounts::make_private(),
            tag::HOST_ROOT => self.host_root(&mut fields),
            tag::TMPFS_ROOT => self.tmpfs_root(&mut fields),
            tag::TMPFS => self.tmpfs(&mut fields),
            tag::BIND => self.bind(&mut fields),
            tag::STORE => self.make_store(&mut fields),
            tag::HAND_OVER_STORE => self.hand_over_store(),
            tag::PRIVATE => self.private(&mut fields),
            tag::MASK_DIR => self.mask(&mut fields, c"d"),
            tag::MASK_FILE => self.mask(&mut fields, c"f"),
            tag::COVER_FILE => self.cover_file(&mut fields),
            tag::PROC => self.proc(&mut fields),
            tag::DEVPTS => self.devpts(&mut fields),
            tag::READ_ONLY => self.read_only(&mut fields),
            tag::PIVOT_ROOT => self.pivot_root(),
            tag::MAKE_DIR => self.make_dir(&mut fields),
            tag::MAKE_FILE => self.make_file(&mut fields),
            tag::SYMLINK => self.symlink(&mut fields),
            tag::WRITE_FILE => self.write_file(&mut fields),
            tag::HOSTNAME => sys::sethostname(fields.string()?.to_bytes()),
            tag::SEAL_MOUNTS => self.seal(),
            tag::TERMINAL | tag::DEVICE_STREAM | tag::INPUT_FILE => self.stream(tag, &mut fields),
            tag::CHANGE_DIR => self.change_dir(&mut fields),
            tag::LIMIT => restrict::limit(&mut fields),
            tag::NAMESPACE_LIMIT => restrict::namespace_limit(&mut fields),
            tag::OWN_KEYRING => sys::join_new_session_keyring(),
            tag::OWN_CGROUPS => sys::unshare_cgroups(),
            tag::AWAIT_CONTROLLER => orders::await_go(self.link),
            tag::NO_NEW_PRIVILEGES => restrict::no_new_privileges(),
            tag::LANDLOCK => restrict::landlock(&mut fields, self.root.raw()),
            tag::DROP_CAPABILITIES => restrict::drop_capabilities(),
            tag::ROOT_OWNS => {
                self.root_owns = true;
                self.masks = (fields.u32()?, fields.u32()?);
                Ok(())
            }
            tag::HOME => self.home(&mut fields),
            tag::NEST_USERS => self.nest(&mut fields),
            tag::LIMIT_CAPABILITIES => users::limit_capabilities(&mut fields),
            tag::FILTER => restrict::filter(&mut fields, self.link),
            _ => Err(Errno::EPROTO),
        }
    }
}

/// Wipes strings that PID 1 was cloned with, so that whoever takes it over finds none of the caller's secrets.
///
/// # Safety
/// The range must be mapped, writable, and used by nobody in this process.
unsafe fn wipe((start, end): (usize, usize)) {
    if start != 0 && end > start {
        // SAFETY: the caller says that these bytes are ours and unused. Volatile, so that the loop is not dropped
        // as a store that nobody reads.
        unsafe { (start..end).for_each(|at| core::ptr::write_volatile(at as *mut u8, 0)) };
    }
}
