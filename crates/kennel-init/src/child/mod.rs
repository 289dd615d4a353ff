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
pub mod mend;
pub mod mounts;
pub mod network;
mod network_helper;
pub mod orders;
mod outbound;
pub mod owners;
pub mod pair;
mod proc;
pub mod reaper;
pub mod remount;
pub mod restrict;
mod rootfs;
pub mod session;
pub mod steps;
mod streams;
pub mod sys;
pub mod tag;
mod terminal;
pub mod users;
pub mod wire;
pub mod zygote;

use crate::report::Report;
use hold::Hold;
use network_helper::NetworkHelper;
use reaper::Reaper;
use steps::Tag;
pub use sys::memory::InheritedMemory;
use sys::memory::{List, Memory};
use sys::{Errno, Fd, Result};
use terminal::Terminal;
use wire::Reader;

/// How many folders of the host's a sandbox holds for late steps.
pub const MAX_HELD: usize = 8;
/// The most folders that the helper which covers names takes hold of.
pub const MAX_BASES: usize = 64;

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
    /// The sandbox's own process file system, once it is there.
    proc: Option<Fd>,
    /// The folder that the last step worked in; the next often works in the same.
    folder: files::Folder,
    /// The trees that were taken hold of early: which step is to bind each, and its descriptor until then.
    held: Option<List<(usize, i32)>>,
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
    host: [Option<(&'a core::ffi::CStr, Fd)>; MAX_HELD],
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
/// This process, of a single thread, is given up: what the maker of `inherited` promised.
pub fn run(link: i32, inherited: InheritedMemory) -> ! {
    const SIGCHLD: i32 = 17;
    // Blocked from the start: a signal that arrives during set-up waits for the reaper.
    let _ = sys::set_signal_mask(u64::MAX);
    // What the caller ignores stays ignored across a clone and an exec. Of SIGCHLD that would leave this process without
    // a word of its children's ends; of the others, which come later, the command would have to know.
    sys::default_action(SIGCHLD);
    // What is made during the set-up has the permissions that the plan says. The command has the caller's mask again.
    let umask = sys::umask(0);
    inherited.give_up();
    let memory = Memory::of_init();
    let opening = receive(link, 0, &memory);
    let mut steps = opening.reader();
    let helper = match begin(&mut steps) {
        Ok(count) => NetworkHelper::new(steps, count, link),
        Err(errno) => fail(link, 0, errno),
    };
    let (mut main, mut late) = (None, None);
    let performed = helper.while_it_works(|| {
        // The rest of the plan is on its way; what takes time and does not need it is done meanwhile.
        (1..=sys::LAST_SIGNAL).for_each(sys::default_action);
        let main = main.insert(receive(link, helper.count(), &memory));
        match perform(main.reader(), link, &helper, &memory, &mut late) {
            Ok(performed) => performed,
            Err((step, errno)) => fail(link, step, errno),
        }
    });
    let link = performed.link;
    // Last, because a process that is not dumpable owns nothing in /proc any more. From here on neither ptrace nor
    // /proc/1/mem nor a core dump shows what PID 1 holds.
    if let Err(errno) = sys::set_dumpable(false) {
        fail(link, performed.past, errno);
    }
    let own_network = helper.count() > 0 || performed.own_network;
    if let Some(layer) = &performed.session {
        [Some(opening), main].into_iter().flatten().for_each(orders::Part::wipe);
        session::serve(link, layer.as_ref(), umask)
    }
    reaper::adopt_orphans();
    let (past, terminal) = (performed.past, performed.terminal);
    Leading { link, past, terminal, umask, own_network, leads: false, stays: false }
        .start(&memory, [Some(opening), main, late])
        .serve()
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
    /// Takes the part with the command and starts it; the reaper then stays until it ends. `parts` have been performed.
    fn start(self, memory: &Memory, parts: [Option<orders::Part>; 3]) -> Reaper {
        let Leading { link, past, terminal, umask, own_network, leads, stays } = self;
        let last = receive(link, past, memory);
        let how = command::How { link, umask, leads, stays };
        let (command, deadline, outside_only) =
            match command::start(last.reader(), &how, terminal.as_ref(), memory) {
                Ok(started) => started,
                Err(errno) => fail(link, past, errno),
            };
        // Nothing of the plan is used from here on, and the child that used it has executed its program.
        parts.into_iter().flatten().for_each(orders::Part::wipe);
        last.wipe();
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
    }
}

/// [`run`] for a process whose id maps somebody else writes: it waits until they are.
pub fn run_when_mapped(link: i32, inherited: InheritedMemory) -> ! {
    if orders::await_go(link).is_err() {
        sys::exit(1);
    }
    run(link, inherited)
}

fn fail(link: i32, step: u32, Errno(errno): Errno) -> ! {
    let _ = sys::send(link, &Report::Failed { step, errno }.encode());
    sys::exit(1)
}

fn receive<'m>(link: i32, done: u32, memory: &'m Memory) -> orders::Part<'m> {
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
fn perform<'a, 'm: 'a>(
    mut reader: Reader<'a>,
    link: i32,
    helper: &NetworkHelper,
    memory: &'m Memory,
    late: &'a mut Option<orders::Part<'m>>,
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
            Ok((Tag::EnterNetwork, _)) => helper.enter()?,
            Ok((Tag::Later, _)) => {
                helper.entered().map_err(|errno| (at, errno))?;
                let late = late.take().ok_or((at, Errno::EPROTO))?;
                let part = setup.await_part(memory).map_err(|errno| (at, errno))?;
                past = setup.perform_late(late.insert(part).reader(), past)?;
            }
            Ok((Tag::Session, mut fields)) => {
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
            proc: None,
            folder: files::Folder::none(),
            held: None,
            index: 0,
            before: 0,
            terminal: None,
            own_network: false,
            remount: false,
            one_by_one: false,
            host: [const { None }; MAX_HELD],
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

    fn step(&mut self, tag: Tag, mut fields: Reader<'a>) -> Result<()> {
        match tag {
            Tag::PrivateMounts => mounts::make_private(),
            Tag::HostRoot => self.host_root(&mut fields),
            Tag::TmpfsRoot => self.tmpfs_root(&mut fields),
            Tag::Layer => self.make_layer(&mut fields),
            Tag::LayeredRoot => self.layered_root(&mut fields),
            Tag::BoundRoot => self.bound_root(&mut fields),
            Tag::HandOverRoot => self.hand_over_root(),
            Tag::Freeze => self.freeze(&mut fields),
            Tag::Tmpfs => self.tmpfs(&mut fields),
            Tag::Bind => self.bind(&mut fields),
            Tag::LayeredFolder => self.layered_folder(&mut fields),
            Tag::Store => self.make_store(&mut fields),
            Tag::HandOverStore => self.hand_over_store(),
            Tag::Private => self.private(&mut fields),
            Tag::MaskDir => self.mask(&mut fields, c"d"),
            Tag::MaskFile => self.mask(&mut fields, c"f"),
            Tag::CoverFile => self.cover_file(&mut fields),
            Tag::Proc => self.proc(&mut fields),
            Tag::ProcEntries => self.proc_entries(&mut fields),
            Tag::Devpts => self.devpts(&mut fields),
            Tag::ReadOnly => self.read_only(&mut fields),
            Tag::PivotRoot => self.pivot_root(),
            Tag::MakeDir => self.make_dir(&mut fields),
            Tag::MakeFile => self.make_file(&mut fields),
            Tag::Symlink => self.symlink(&mut fields),
            Tag::WriteFile => self.write_file(&mut fields),
            Tag::Hostname => sys::sethostname(fields.string()?.to_bytes()),
            Tag::SealMounts => self.seal(),
            Tag::Terminal | Tag::DeviceStream | Tag::InputFile => self.stream(tag, &mut fields),
            Tag::ChangeDir => self.change_dir(&mut fields),
            Tag::Limit => restrict::limit(&mut fields),
            Tag::Share => restrict::share(&mut fields),
            Tag::NamespaceLimit => self.namespace_limit(&mut fields),
            Tag::OwnKeyring => sys::join_new_session_keyring(),
            Tag::OwnCgroups => sys::unshare_cgroups(),
            Tag::AwaitController => orders::await_go(self.link),
            Tag::NoNewPrivileges => restrict::no_new_privileges(),
            Tag::Landlock => restrict::landlock(&mut fields, self.root.raw()),
            Tag::DropCapabilities => restrict::drop_capabilities(),
            Tag::RootOwns => {
                self.root_owns = true;
                self.masks = (fields.u32()?, fields.u32()?);
                Ok(())
            }
            Tag::Home => self.home(&mut fields),
            Tag::NestUsers => self.nest(&mut fields),
            Tag::LimitCapabilities => users::limit_capabilities(&mut fields),
            Tag::Filter => restrict::filter(&mut fields, self.link),
            Tag::BornInNetwork => {
                self.own_network = true;
                Ok(())
            }
            Tag::HoldHost => self.hold_host(&mut fields),
            Tag::TakeDescriptors => self.take_descriptors(&mut fields),
            // The opening's, and those that `perform` looks at.
            Tag::OwnNetwork
            | Tag::EnterNetwork
            | Tag::LoopbackUp
            | Tag::Netlink
            | Tag::Listen
            | Tag::Later
            | Tag::Session => Err(Errno::EPROTO),
        }
    }
}
