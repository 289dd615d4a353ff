//! The main line: from a policy to the outcome.

mod ground;
pub mod late;
mod prepared;
mod request;
pub mod session;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use kennel_init::child::InheritedMemory;
use kennel_init::plan::Plan;
use kennel_policy::policy::Policy;

use crate::additions::Additions;
use crate::cgroup::CgroupError;
use crate::guard::Rules;
use crate::launch::{self, Init, Launch, LaunchError};
use crate::network::{NetworkPlan, TaggedSockets};
use crate::plan::{PlanError, Tier};
use crate::resolve::ResolveError;
use crate::resolve::created::MissingFolders;
use crate::supervise::signals::{Signals, WritesFailQuietly};
use crate::supervise::standard::{Standard, StreamRules};
use crate::supervise::streams::Streams;
use crate::supervise::terminal::Questions;
use crate::supervise::ticker::Ticker;
use crate::supervise::{Running, StartError, Supervisor, WaitOptions};
pub use late::{Fit, Late, Preparation, Ready};
pub use prepared::{Environment, Prepared, Wanted, each_variable};
use prepared::{Goal, Staged};
pub use request::Request;
pub use session::{Lasting, Session};

/// Why there is no sandbox.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The policy asks for what kennel cannot enforce yet.
    #[error("{0}")]
    NotEnforced(String),
    /// The policy does not fit this disk.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// The policy cannot be planned.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The host denies namespaces.
    #[error("{error}: {why}\nhelp: {remedy}")]
    Denied {
        /// What the system said.
        error: String,
        /// Why, probably.
        why: String,
        /// What to do.
        remedy: String,
    },
    /// A limit cannot be enforced.
    #[error("{}\nhelp: {}", .0, .0.help())]
    Cgroup(#[from] CgroupError),
    /// PID 1 could not be made.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// PID 1 could not set the sandbox up, or not start the command.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The network could not be arranged.
    #[error("{0}")]
    Network(String),
    /// What the sandbox gets in the place of secrets could not be found out.
    #[error("{0}")]
    Secrets(String),
    /// The system failed this process.
    #[error("{doing}: {source}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// What it said.
        source: io::Error,
    },
}

impl Error {
    /// Whether this host lacks something that the policy asks for, or this process may not use it: then the findings of
    /// [`crate::host`] say more.
    #[must_use]
    pub fn lacks_of_host(&self) -> bool {
        match self {
            Error::Denied { .. } => true,
            Error::Plan(error) => !matches!(error, PlanError::Nul { .. }),
            Error::Cgroup(error) => !matches!(error, CgroupError::InvalidLimit { .. }),
            _ => false,
        }
    }
}

fn system(doing: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::System { doing, source }
}

/// A descriptor of a folder leads past every mount: what is opened below it is opened in the host's tree.
fn refuse_folder(fd: u32) -> Result<(), Error> {
    let raw = i32::try_from(fd).unwrap_or(-1);
    // SAFETY: only asked about; a number that is not open makes the call fail.
    let borrowed = unsafe { BorrowedFd::borrow_raw(raw.max(0)) };
    let stat = if raw < 0 { Err(rustix::io::Errno::BADF) } else { rustix::fs::fstat(borrowed) };
    let stat = stat.map_err(|error| {
        Error::NotEnforced(format!(
            "keeping descriptor {fd}: {}\nhelp: open it before the sandbox starts, or leave it out of `keep_fds`",
            io::Error::from(error)
        ))
    })?;
    let folder = rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory;
    let path_only =
        rustix::fs::fcntl_getfl(borrowed).is_ok_and(|flags| flags.contains(rustix::fs::OFlags::PATH));
    if folder || path_only {
        return Err(Error::NotEnforced(format!(
            "descriptor {fd} is {}, which would bypass the file rules\nhelp: open it inside, or close it",
            if folder { "an open folder" } else { "an O_PATH handle" }
        )));
    }
    Ok(())
}

/// Finds out what a sandbox gets in the place of secrets, when PID 1 is born.
pub type FindAdditions<'a> = Box<dyn FnOnce() -> Result<Additions, Error> + 'a>;

/// What was found out, where there is somebody to.
fn additions(find: Option<FindAdditions>) -> Result<Additions, Error> {
    find.map_or_else(|| Ok(Additions::default()), |find| find())
}

/// A sandbox to be started, with all that this takes.
pub struct Job<'a> {
    /// What is allowed.
    pub policy: Arc<Policy>,
    /// What is to run.
    pub wanted: Wanted,
    /// The caller's working directory.
    pub cwd: PathBuf,
    /// Where the standard streams lead.
    pub streams: Given,
    /// How PID 1 is made.
    pub birth: Birth,
    /// The network, where it is filtered.
    pub network: Option<Network>,
    /// What it gets in the place of secrets.
    pub additions: Option<FindAdditions<'a>>,
    /// What the caller wants to know meanwhile.
    pub watch: Watch,
}

/// Where the standard streams of a command lead.
pub enum Given {
    /// To this process's own streams and terminal; signals to this process are forwarded.
    Callers,
    /// Elsewhere. What is needed of these becomes the command's: pipes and sockets themselves, files and devices by way of
    /// the controller.
    Streams {
        /// Input, output and errors.
        ends: [OwnedFd; 3],
        /// The other ends, where the controller feeds and captures.
        captured: Option<Streams>,
    },
    /// To a terminal of the sandbox's own, of this many rows and columns, whose other side is the caller's.
    Terminal(u16, u16),
}

/// How PID 1 is made.
pub struct Birth {
    memory: Option<InheritedMemory>,
    /// Whether everything that this process inherits is the sandbox's.
    adopts: bool,
}

impl Birth {
    /// It is a program of its own, and holds nothing of this process's memory. For callers of any size and number of
    /// threads.
    #[must_use]
    pub fn program() -> Birth {
        Birth { memory: None, adopts: false }
    }

    /// The same for a process that has no other children: without a PID namespace it inherits what the sandbox leaves, and
    /// ends it.
    #[must_use]
    pub fn only_child() -> Birth {
        Birth { memory: None, adopts: true }
    }

    /// It is a clone of this process, which is the quicker way.
    ///
    /// # Safety
    /// This process must have a single thread until the sandbox has been started, and `memory` must describe its own (see
    /// [`launch::copy::launch`]).
    #[must_use]
    pub unsafe fn copy(memory: InheritedMemory) -> Birth {
        Birth { memory: Some(memory), adopts: true }
    }
}

/// A filtered network: what is made inside, and who serves it.
pub struct Network {
    /// What is made inside.
    pub plan: NetworkPlan,
    /// Listeners of this side, which the sandbox's are served with.
    pub outside: TaggedSockets,
    /// The one that takes the place of those inside where there are no namespaces.
    pub shared: TaggedSockets,
}

/// What the caller wants to know while a sandbox runs.
#[derive(Default)]
pub struct Watch {
    /// Count what is used even if nothing limits it.
    pub count: bool,
    /// Who is told meanwhile.
    pub ticker: Option<Ticker>,
    /// What the user is asked meanwhile, on the terminal.
    pub questions: Option<Questions>,
    /// Who is shown the plan that is being performed, and what is guarded.
    pub show: Option<Box<Show>>,
}

/// Shows a plan.
pub type Show = dyn FnMut(&Plan, &Rules) + Send;

/// A sandbox that has been started.
#[derive(Debug)]
pub struct Started {
    /// The sandbox.
    pub supervisor: Supervisor,
    /// What is not enforced.
    pub not_enforced: Vec<String>,
    /// The other side of the sandbox's terminal, if it is the caller's.
    pub terminal: Option<OwnedFd>,
}

/// Starts a sandbox: the one way, whoever asks.
///
/// # Errors
/// When there is no sandbox; nothing is left of it then.
pub fn start(job: Job) -> Result<Started, Error> {
    let Job { policy, wanted, cwd, streams, birth, network, additions: find, mut watch } = job;
    let mut streams = Arranged::new(&policy, streams, false)?;
    let caller = std::mem::take(&mut streams.standard.caller);
    let network = NetworkSides::of(network);
    policy.process.keep_fds.iter().try_for_each(|fd| refuse_folder(*fd))?;
    let keep = kept(&policy);
    let mut request = Request::new(policy, network.plan, watch.count)?;
    if birth.memory.is_none() && !streams.attached && keep.is_empty() {
        request.borrow_network();
    }
    // Before the clone: a signal that comes meanwhile is forwarded once the command runs.
    let signals = streams.take_signals()?;
    let ends = std::mem::take(&mut streams.standard.ends);
    let around = around(streams.given.as_ref(), &ends, caller.tty.is_some());
    let launcher = Launcher { birth: &birth, around, attached: streams.attached, keep: &keep };
    // PID 1 makes its network while this process looks at the disk and plans the rest.
    let early = request.launch_early(Tier::Full, &mut |how| launcher.launch(how));
    // What it reads is not in the memory that PID 1 is a copy of.
    let additions = additions(find)?;
    let mut prepared = Prepared::new(request, &cwd, caller, MissingFolders::Create, additions)?;
    let goal = Goal::Command(&wanted);
    let staged = prepared.start(early, goal, |how| launcher.launch(how), watch.show.as_deref_mut())?;
    let Staged { mut running, tier, .. } = staged;
    drop((ends, streams.given.take()));
    running.watch_too(if running.namespaced() { network.outside } else { network.shared });
    let adopts_orphans = streams.attached && birth.adopts;
    let options = WaitOptions { serves: network.serves, adopts_orphans, signals, ..WaitOptions::default() };
    Ok(streams.attend(running, watch, options, prepared.not_enforced(tier)))
}

/// The two sides of a network, where it is filtered.
struct NetworkSides {
    plan: Option<NetworkPlan>,
    outside: TaggedSockets,
    shared: TaggedSockets,
    serves: bool,
}

impl NetworkSides {
    fn of(network: Option<Network>) -> NetworkSides {
        let serves = network.is_some();
        let (plan, outside, shared) = match network {
            Some(network) => (Some(network.plan), network.outside, network.shared),
            None => (None, TaggedSockets::new(), TaggedSockets::new()),
        };
        NetworkSides { plan, outside, shared, serves }
    }
}

/// The streams of a command, as far as they are arranged outside.
struct Arranged {
    /// Whether they are this process's own.
    attached: bool,
    /// What was given, where they are not.
    given: Option<[OwnedFd; 3]>,
    captured: Option<Streams>,
    standard: Standard,
}

impl Arranged {
    /// `late` says that the sandbox stands already.
    fn new(policy: &Policy, streams: Given, late: bool) -> Result<Arranged, Error> {
        let attached = matches!(streams, Given::Callers);
        let (given, captured, standard) = match streams {
            Given::Callers => (None, None, standard_streams(policy, None, late)?),
            Given::Streams { ends, captured } => {
                let standard = standard_streams(policy, Some(&ends), late)?;
                (Some(ends), captured, standard)
            }
            Given::Terminal(rows, columns) => {
                // Until the terminal is there.
                let ends = match late {
                    true => None,
                    false => Some(nothing_thrice().map_err(system("opening /dev/null"))?),
                };
                (ends, None, Standard::terminal((rows, columns)))
            }
        };
        Ok(Arranged { attached, given, captured, standard })
    }

    fn take_signals(&self) -> Result<Option<Signals>, Error> {
        self.attached.then(Signals::take).transpose().map_err(system("taking over signals"))
    }

    /// Takes part in all that the streams and `watch` ask for while it runs.
    fn attend(
        self,
        mut running: Running,
        watch: Watch,
        options: WaitOptions,
        not_enforced: Vec<String>,
    ) -> Started {
        let Arranged { attached, captured, standard, .. } = self;
        let terminal = if attached { None } else { running.take_terminal() };
        let carries = standard.carried.is_some() || standard.terminal.is_some();
        let options = WaitOptions {
            quietly: (attached && carries).then(WritesFailQuietly::new),
            terminal: standard.terminal,
            carried: standard.carried,
            streams: captured,
            questions: watch.questions,
            ticker: watch.ticker,
            ..options
        };
        Started { supervisor: Supervisor::new(running, options), not_enforced, terminal }
    }
}

/// Makes PID 1, with what is around it.
#[derive(Clone, Copy)]
struct Launcher<'a> {
    birth: &'a Birth,
    around: launch::copy::Surroundings<'a>,
    attached: bool,
    keep: &'a [i32],
}

impl Launcher<'_> {
    fn launch(&self, how: &Launch) -> Result<Init, LaunchError> {
        if self.attached && self.birth.adopts && how.namespaces == 0 {
            adopt_orphans();
        }
        match self.birth.memory {
            // SAFETY: what the maker of a `Birth` promised.
            Some(memory) => unsafe { launch::copy::launch(how, memory, self.around) },
            None => launch_program(how, self.around, self.attached, self.keep),
        }
    }
}

fn nothing_thrice() -> io::Result<[OwnedFd; 3]> {
    let nothing = OwnedFd::from(std::fs::File::options().read(true).write(true).open("/dev/null")?);
    Ok([nothing.try_clone()?, nothing.try_clone()?, nothing])
}

/// What PID 1 gets for standard streams, where they are not this process's.
fn around<'a>(
    given: Option<&'a [OwnedFd; 3]>,
    ends: &'a [Option<OwnedFd>; 3],
    session: bool,
) -> launch::copy::Surroundings<'a> {
    let mut streams = ends.each_ref().map(|end| end.as_ref().map(AsFd::as_fd));
    if let Some(given) = given {
        for (stream, given) in streams.iter_mut().zip(given) {
            stream.get_or_insert(given.as_fd());
        }
    }
    launch::copy::Surroundings { streams, session }
}

/// Launches init as a program, with what the copy of this process would have.
fn launch_program(
    how: &Launch,
    around: launch::copy::Surroundings,
    attached: bool,
    keep: &[i32],
) -> Result<Init, LaunchError> {
    // A stream that is closed here has to be something there.
    let nothing = std::fs::File::open("/dev/null")?;
    let own = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    let mut streams = [nothing.as_fd(); 3];
    for ((stream, own), other) in streams.iter_mut().zip(own).zip(around.streams) {
        let is_open = rustix::io::fcntl_getfd(own).is_ok();
        *stream = other.or(is_open.then_some(own)).unwrap_or(nothing.as_fd());
    }
    // What is attached to this process's terminal has to be its own child from the start, and a descriptor that is kept has
    // its number only here.
    if !attached
        && keep.is_empty()
        && how.namespaces != 0
        && launch::zygote::Zygote::serves(how)
        && let Some(zygote) = launch::zygote::current()
    {
        return zygote.launch(how, streams);
    }
    // Whoever is to lead a session cannot lead a group.
    match attached && !around.session {
        true => launch::exec::launch_apart(how, streams, keep),
        false => launch::exec::launch(how, streams, keep),
    }
}

/// The descriptors that the command is to keep.
fn kept(policy: &Policy) -> Vec<i32> {
    policy.process.keep_fds.iter().filter_map(|fd| i32::try_from(*fd).ok()).collect()
}

/// What the command gets in the place of the streams that were given, or of this process's own.
fn standard_streams(policy: &Policy, given: Option<&[OwnedFd; 3]>, late: bool) -> Result<Standard, Error> {
    let rules = StreamRules {
        // How much is captured of what is given is the business of whoever gave it.
        output: policy.limits.output.filter(|_| given.is_none()),
        file_size: policy.limits.file_size,
        keep: policy.process.keep_fds.clone(),
        late,
    };
    let standard = match given {
        None => {
            (0..3).try_for_each(refuse_folder)?;
            Standard::of_this_process(&rules)
        }
        Some(given) => {
            for fd in given {
                refuse_folder(fd.as_raw_fd().cast_unsigned())?;
            }
            Standard::of(given.each_ref().map(AsFd::as_fd), &rules)
        }
    };
    standard.map_err(system("looking at the standard streams"))
}

/// The plan of a command on this process's own streams, and what would be guarded. Nothing is made for it.
///
/// # Errors
/// When the policy does not fit this host.
pub fn plan(
    policy: Arc<Policy>,
    wanted: &Wanted,
    cwd: &Path,
    network: Option<NetworkPlan>,
    additions: Additions,
) -> Result<(Plan, Rules), Error> {
    let caller = standard_streams(&policy, None, false)?.caller;
    policy.process.keep_fds.iter().try_for_each(|fd| refuse_folder(*fd))?;
    let request = Request::new(policy, network, false)?;
    let prepared = Prepared::new(request, cwd, caller, MissingFolders::Plan, additions)?;
    Ok((prepared.plan(Tier::Full, wanted)?, prepared.into_guarded()))
}

/// Without a PID namespace nobody but its parent notices when init is killed: what was inside becomes this process's.
fn adopt_orphans() {
    // SAFETY: plain calls; the set is memory that they fill in.
    unsafe {
        let mut child = std::mem::zeroed();
        libc::sigemptyset(&raw mut child);
        libc::sigaddset(&raw mut child, libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const child, std::ptr::null_mut());
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    }
}
