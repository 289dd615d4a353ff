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
mod late;
mod memory;
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
mod rootfs;
pub mod session;
mod streams;
pub mod sys;
pub mod tag;
mod terminal;
pub mod users;
pub mod wire;
pub mod zygote;

use crate::report::Report;
use hold::Hold;
use memory::Memory;
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

/// How many folders of the host's a sandbox holds for late steps.
pub const MOST_HELD: usize = 8;

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
    /// The file system in memory that holds the layer of a root, until that root is there.
    layer: Option<Fd>,
    /// The folder that the last step worked in; the next often works in the same.
    folder: files::Folder,
    /// For each step, the tree it is to bind, where that was taken hold of early; 0 elsewhere. Null when none was.
    held: *mut i32,
    /// The step being performed, counted within its part.
    index: usize,
    /// How many steps this value has performed in parts before this one.
    before: usize,
    /// The sandbox's terminal, once there is one.
    terminal: Option<Terminal>,
    /// Whether the network that it was born in is the sandbox's own.
    own_network: bool,
    /// Whether this kernel lacks mount_setattr (before 5.12).
    remount: bool,
    /// Whether writable trees hold mounts that must stay read-only.
    one_by_one: bool,
    /// Folders of the host's that are covered, and from which late steps may bind.
    host: [Option<(&'a core::ffi::CStr, Fd)>; MOST_HELD],
    /// The steps of the part before this one, and how many.
    earlier: Option<(Reader<'a>, usize)>,
    /// All steps of this part, for what looks ahead.
    part: Reader<'a>,
    /// How many.
    step_count: usize,
}

/// Performs the plan that arrives over `link`, starts its command and stays until it ends.
///
/// The plan comes in three parts. The controller sends the second, the set-up, when it has looked at the disk; by then the
/// first, which needs nothing of the disk, is mostly done. The third is the command, which the set-up does not depend on. A
/// sandbox that is prepared ahead of its command gets a further part with steps in between.
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
    let memory = Memory::of_init();
    let opening = receive(link, 0, &memory);
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
    let main = receive(link, helper.count(), &memory);
    let mut late = None;
    let performed = match perform(main.reader(), link, &helper, &memory, &mut late) {
        Ok(performed) => performed,
        Err((step, errno)) => fail(link, step, errno),
    };
    let link = performed.link;
    // Last, because a process that is not dumpable owns nothing in /proc any more. From here on neither ptrace nor
    // /proc/1/mem nor a core dump shows what PID 1 holds.
    const PR_SET_DUMPABLE: usize = 4;
    if let Err(errno) = sys::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) {
        fail(link, performed.past, errno);
    }
    let own_network = helper.count() > 0 || performed.own_network;
    if let Some(layer) = &performed.session {
        // SAFETY: neither is read any more.
        unsafe {
            opening.wipe();
            main.wipe();
        }
        session::serve(link, layer.as_ref(), umask)
    }
    reaper::adopt_orphans();
    let (past, terminal) = (performed.past, performed.terminal);
    Leading { link, past, terminal, umask, own_network, leads: false, stays: false }
        .lead(&memory, [Some(opening), Some(main), late])
}

/// A process that is about to start a command and to look after it: init, or the leader of a command of a session.
struct Leading {
    /// The socket to the controller.
    link: i32,
    /// How many steps have been performed.
    past: u32,
    /// The terminal, if one of them made it.
    terminal: Option<Terminal>,
    /// The caller's mask of permissions.
    umask: u32,
    /// Whether the network is the sandbox's own, and nobody else's inside.
    own_network: bool,
    /// Whether this is the leader of a command of a session.
    leads: bool,
    /// See [`command::How`].
    stays: bool,
}

impl Leading {
    /// Takes the part with the command, starts it and stays until it ends. `parts` have been performed.
    fn lead(self, memory: &Memory, parts: [Option<orders::Part>; 3]) -> ! {
        let Leading { link, past, terminal, umask, own_network, leads, stays } = self;
        let last = receive(link, past, memory);
        let how = command::How { link, umask, leads, stays };
        let (command, deadline, outside_only) =
            match command::start(last.reader(), &how, terminal.as_ref(), memory) {
                Ok(started) => started,
                Err(errno) => fail(link, past, errno),
            };
        // SAFETY: nothing of the plan is used from here on, and the child that used it has executed its program.
        unsafe {
            parts.into_iter().flatten().for_each(|part| part.wipe());
            last.wipe();
            memory.give_back();
        }
        let (used, hold) = (sys::Usage::default(), Hold::none());
        Reaper {
            command,
            terminal,
            deadline,
            hold,
            owes_stop: false,
            outside_only,
            link,
            own_network,
            leads,
            used,
        }
        .serve()
    }
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

fn receive(link: i32, done: u32, memory: &Memory) -> orders::Part {
    match orders::Part::receive(link, memory) {
        Ok(part) => part,
        Err(errno) => fail(link, done, errno),
    }
}

/// Reads the beginning of a part with steps: how many follow.
fn begin(reader: &mut Reader) -> Result<usize> {
    reader.magic()?;
    reader.count()
}

/// What is there when all steps are done.
struct Performed {
    /// How many steps there were, the opening's included.
    past: u32,
    /// The terminal, if one of them made it.
    terminal: Option<Terminal>,
    /// The link, which may have another number by now.
    link: i32,
    /// Set where any number of commands are to be run: the Landlock layer of each, if there is one.
    session: Option<Option<Fd>>,
    /// Whether the network that it was born in is the sandbox's own.
    own_network: bool,
}

/// Goes through the steps of the main part while `helper` takes care of the opening's, and through those of a late part, which
/// is put into `late`. An error names the step.
fn perform<'a>(
    mut reader: Reader<'a>,
    link: i32,
    helper: &NetworkHelper,
    memory: &Memory,
    late: &'a mut Option<orders::Part>,
) -> core::result::Result<Performed, (u32, Errno)> {
    let done = helper.count();
    let step_count = begin(&mut reader).map_err(|errno| (done, errno))?;
    let root = sys::openat2(sys::AT_FDCWD, c"/", sys::open::PATH | sys::open::DIRECTORY, 0, 0)
        .map_err(|errno| (done, errno))?;
    let mut setup = Setup::new(link, root, reader, step_count);
    let mut late = Some(late);
    let (mut past, mut session) = (done + step_count as u32, None);
    for index in 0..step_count {
        setup.index = index;
        let at = done + index as u32;
        match reader.step() {
            Ok((tag::ENTER_NETWORK, _)) => helper.enter()?,
            Ok((tag::LATER, _)) => {
                helper.entered().map_err(|errno| (at, errno))?;
                let late = late.take().ok_or((at, Errno::EPROTO))?;
                let part = setup.await_part(memory).map_err(|errno| (at, errno))?;
                past = setup.perform_late(late.insert(part).reader(), past)?;
            }
            Ok((tag::SESSION, mut fields)) => {
                session = Some(session::layer(&mut fields, &setup.root).map_err(|errno| (at, errno))?);
            }
            Ok((tag, fields)) => setup.step(tag, fields).map_err(|errno| (at, errno))?,
            Err(errno) => return Err((at, errno)),
        }
    }
    // Or the command would find itself in the network that PID 1 was born in.
    helper.entered().map_err(|errno| (past, errno))?;
    let Setup { terminal, link, own_network, .. } = setup;
    Ok(Performed { past, terminal, link, session, own_network })
}

impl<'a> Setup<'a> {
    /// Nothing is built yet.
    fn new(link: i32, root: Fd, part: Reader<'a>, step_count: usize) -> Setup<'a> {
        Setup {
            link,
            root,
            over_host: false,
            root_owns: false,
            masks: (0, 0),
            store: None,
            layer: None,
            folder: files::Folder::none(),
            held: core::ptr::null_mut(),
            index: 0,
            before: 0,
            terminal: None,
            own_network: false,
            remount: false,
            one_by_one: false,
            host: [const { None }; MOST_HELD],
            earlier: None,
            part,
            step_count,
        }
    }

    /// Goes over to the namespace of several users. What was held of the mounts before is gone: nobody is left in their
    /// namespace, unless the controller holds it.
    fn nest(&mut self, fields: &mut Reader) -> Result<()> {
        users::nest(fields)?;
        self.folder = files::Folder::none();
        self.store = None;
        self.root = sys::openat2(sys::AT_FDCWD, c"/", sys::open::PATH | sys::open::DIRECTORY, 0, 0)?;
        Ok(())
    }

    fn step(&mut self, tag: u8, mut fields: Reader<'a>) -> Result<()> {
        match tag {
            tag::PRIVATE_MOUNTS => mounts::make_private(),
            tag::HOST_ROOT => self.host_root(&mut fields),
            tag::TMPFS_ROOT => self.tmpfs_root(&mut fields),
            tag::LAYER => self.make_layer(&mut fields),
            tag::LAYERED_ROOT => self.layered_root(&mut fields),
            tag::BOUND_ROOT => self.bound_root(&mut fields),
            tag::HAND_OVER_ROOT => self.hand_over_root(),
            tag::FREEZE => self.freeze(&mut fields),
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
            tag::BORN_IN_NETWORK => {
                self.own_network = true;
                Ok(())
            }
            tag::HOLD_HOST => self.hold_host(&mut fields),
            tag::TAKE_DESCRIPTORS => self.take_descriptors(&mut fields),
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
