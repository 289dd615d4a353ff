//! The main line: from a policy to the outcome.

mod prepared;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

pub use kennel_init::child::Inherited as Memory;
use kennel_init::plan::Plan;
use kennel_policy::policy::Policy;

use crate::cgroup::CgroupError;
use crate::guard::Rules;
use crate::launch::{self, IdMaps, Init, Launch, LaunchError};
use crate::network::{Doors, NetworkPlan};
use crate::outcome::Outcome;
use crate::plan::{PlanError, Tier};
use crate::resolve::ResolveError;
use crate::supervise::carry::Carried;
use crate::supervise::signals::{Signals, WritesFailQuietly};
use crate::supervise::standard::{Standard, StreamRules};
use crate::supervise::terminal::Questions;
use crate::supervise::ticker::Ticker;
use crate::supervise::{Attended, Running, StartError};
pub use prepared::{Prepared, Request};

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
    #[error("{error}: {why}\nhelp: {remedy}\nhelp: `kennel doctor` shows what this host offers")]
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
    /// The system failed this process.
    #[error("{doing}: {source}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// What it said.
        source: io::Error,
    },
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
            "keeping descriptor {fd}: {}\nhelp: open it before kennel starts, or drop --keep-fd {fd}",
            io::Error::from(error)
        ))
    })?;
    let folder = rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory;
    let path_only =
        rustix::fs::fcntl_getfl(borrowed).is_ok_and(|flags| flags.contains(rustix::fs::OFlags::PATH));
    if folder || path_only {
        return Err(Error::NotEnforced(format!(
            "descriptor {fd} is {}, which would lead past the file rules\nhelp: open it inside, or close it",
            if folder { "an open folder" } else { "an O_PATH handle" }
        )));
    }
    Ok(())
}

/// A filtered network: what is made inside, and who serves it.
pub struct Network<'a> {
    /// What is made inside.
    pub plan: &'a NetworkPlan,
    /// Listeners of this side, which the sandbox's are served with.
    pub outside: Doors,
    /// The one that takes the place of those inside where there are no namespaces.
    pub unconfined: Doors,
    /// Called with the sockets when the first client knocks.
    pub open: &'a mut dyn FnMut(Doors, i32),
}

/// What the caller wants to know while a sandbox runs.
#[derive(Default)]
pub struct Watch<'a> {
    /// Count what is used even if nothing limits it.
    pub count: bool,
    /// Who is told meanwhile.
    pub ticker: Option<Ticker<'a>>,
    /// What the user is asked meanwhile, on the terminal.
    pub questions: Option<Questions>,
    /// Who is shown the plan that is being performed, and what is guarded.
    pub show: Option<&'a mut Show>,
}

/// Shows a plan.
pub type Show = dyn FnMut(&Plan, &Rules);

/// Runs a command attached to this process's terminal and standard streams, and waits for it. With `inherited` PID 1 is a
/// clone of this process, which is the quicker way; without, it is a program of its own and holds nothing of this one's
/// memory.
///
/// # Safety
/// With `inherited` this process must have a single thread, and `inherited` must describe its own memory (see
/// [`launch::copy::launch`]).
///
/// # Errors
/// When there is no sandbox; nothing is left of it then.
pub unsafe fn run_attached<'e>(
    policy: &Policy,
    command: &[OsString],
    cwd: &Path,
    environment: impl Iterator<Item = (&'e OsStr, &'e OsStr)> + Clone,
    inherited: Option<Memory>,
    network: Option<Network>,
    mut watch: Watch,
) -> Result<Outcome, Error> {
    (0..3).try_for_each(refuse_folder)?;
    let mut standard = standard_streams(policy)?;
    let caller = std::mem::take(&mut standard.caller);
    let (network, outside, unconfined, mut open_doors) = match network {
        Some(network) => (Some(network.plan), network.outside, network.unconfined, Some(network.open)),
        None => (None, Doors::new(), Doors::new(), None),
    };
    let request = Request::new(policy, network, watch.count)?;
    // Before the clone: a signal that comes meanwhile is forwarded once the command runs.
    let signals = Signals::take().map_err(system("taking signals over"))?;
    let ends = std::mem::take(&mut standard.ends);
    let around = launch::copy::Surroundings {
        streams: ends.each_ref().map(|end| end.as_ref().map(AsFd::as_fd)),
        session: standard.terminal.is_some(),
    };
    let keep = kept(policy);
    let mut launch = |launch: &Launch| {
        if launch.namespaces == 0 {
            adopt_orphans();
        }
        match inherited {
            // SAFETY: the caller's promises.
            Some(memory) => unsafe { launch::copy::launch(launch, memory, around) },
            None => launch_program(launch, around, &keep),
        }
    };
    // PID 1 makes its network while this process looks at the disk and plans the rest.
    let born = request.bear(Tier::Full, &mut launch);
    let prepared = Prepared::new(request, command, cwd, environment, caller)?;
    let (mut running, not_enforced) = prepared.start(born, launch, watch.show.take())?;
    drop(ends);
    let _quietly = (standard.carried.is_some() || standard.terminal.is_some()).then(WritesFailQuietly::new);
    running.watch_too(if running.namespaced() { outside } else { unconfined });
    let mut open = |doors, init| {
        if let Some(open) = &mut open_doors {
            open(doors, init);
        }
    };
    let Watch { ticker, mut questions, .. } = watch;
    let attended = Attended {
        signals: Some(&signals),
        terminal: standard.terminal.as_mut(),
        carried: standard.carried.as_mut(),
        questions: questions.as_mut(),
        open_doors: network.is_some().then_some(&mut open),
        ticker,
        ..Attended::default()
    };
    let waited = running.wait(attended);
    // Whoever still waits for an answer is told that there is none.
    drop(questions);
    let mut outcome = waited.map_err(system("waiting for the sandbox"))?;
    if let Some((doing, source)) = standard.carried.as_mut().and_then(Carried::failure) {
        return Err(Error::System { doing, source });
    }
    if !running.namespaced() {
        // What init left because it was killed itself.
        kennel_init::child::reaper::kill_descendants(|_| {});
        running.finish_without_namespace(&mut outcome);
    }
    outcome.not_enforced = not_enforced;
    Ok(outcome)
}

/// Launches init as a program, with what the copy of this process would have.
fn launch_program(
    how: &Launch,
    around: launch::copy::Surroundings,
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
    match around.session {
        // Whoever is to lead a session cannot lead a group.
        true => launch::exec::launch(how, streams, keep),
        false => launch::exec::launch_apart(how, streams, keep),
    }
}

/// The descriptors that the command is to keep.
fn kept(policy: &Policy) -> Vec<i32> {
    policy.process.keep_fds.iter().filter_map(|fd| i32::try_from(*fd).ok()).collect()
}

/// What the command gets in the place of this process's standard streams.
///
/// # Errors
/// When the system has no descriptors left.
pub fn standard_streams(policy: &Policy) -> Result<Standard, Error> {
    Standard::of_this_process(&stream_rules(policy)).map_err(system("looking at the standard streams"))
}

fn stream_rules(policy: &Policy) -> StreamRules {
    StreamRules {
        output: policy.limits.output,
        file_size: policy.limits.file_size,
        keep: policy.process.keep_fds.clone(),
    }
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

/// A sandbox that a program has started.
#[derive(Debug)]
pub struct Started {
    /// The sandbox.
    pub running: Running,
    /// What is to be carried to and from the program's own streams, while somebody waits.
    pub carried: Option<Carried>,
    /// What is not enforced.
    pub not_enforced: Vec<String>,
}

/// Starts a command from a program of any size and number of threads. What it needs of `stdio` becomes its standard
/// streams: pipes and sockets themselves, files and devices by way of the controller.
///
/// # Errors
/// When there is no sandbox; nothing is left of it then.
pub fn start<'e>(
    policy: &Policy,
    command: &[OsString],
    cwd: &Path,
    environment: impl Iterator<Item = (&'e OsStr, &'e OsStr)> + Clone,
    stdio: [BorrowedFd; 3],
    network: Option<&NetworkPlan>,
    count: bool,
) -> Result<Started, Error> {
    for fd in &stdio {
        refuse_folder(std::os::fd::AsRawFd::as_raw_fd(fd).cast_unsigned())?;
    }
    // How much output is captured is the program's business.
    let rules = StreamRules { output: None, ..stream_rules(policy) };
    let mut standard = Standard::of(stdio, &rules).map_err(system("looking at the standard streams"))?;
    let ends = std::mem::take(&mut standard.ends);
    let mut streams = stdio;
    for (stream, end) in streams.iter_mut().zip(&ends) {
        *stream = end.as_ref().map_or(*stream, AsFd::as_fd);
    }
    let keep = kept(policy);
    let mut launch = |launch: &Launch| launch::exec::launch(launch, streams, &keep);
    let request = Request::new(policy, network, count)?;
    let born = request.bear(Tier::Full, &mut launch);
    let prepared = Prepared::new(request, command, cwd, environment, standard.caller)?;
    let (running, not_enforced) = prepared.start(born, launch, None)?;
    Ok(Started { running, carried: standard.carried, not_enforced })
}

/// Tries whether this host lets this process make every namespace that a sandbox has.
///
/// # Errors
/// What the kernel said when it did not.
pub fn try_namespaces() -> Result<(), LaunchError> {
    let policy = Policy::default();
    let ids = IdMaps::of_caller(policy.process.user);
    let namespaces = launch::namespaces(Tier::Full) | kennel_init::child::clone::flag::NEWNET;
    let stdio = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    let init = launch::exec::launch(&Launch { namespaces, ids: &ids, cgroup: None }, stdio, &[])?;
    // It waits for a plan; dropping ends it.
    drop(Running::new(init));
    Ok(())
}
