//! macOS: where a job, a Seatbelt profile, the executor of kennel-macos and the network gate meet.

mod private_folder;
#[cfg_attr(not(feature = "network"), path = "macos/no_secrets.rs")]
mod secrets;

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kennel_macos::command_line::{self, HandOver, Program, SANDBOX_EXEC};
use kennel_macos::exit::{Fate, Reason};
use kennel_macos::ledger::with_marker;
use kennel_macos::limits::{Exceeded, LimitPlan, limit_plan};
use kennel_macos::process::{self, Sandboxed};
use kennel_macos::profile::{
    Access, HostDisk, MissingFolders, Network, Point, Profile, Resolved, Surroundings, profile, resolve,
};
use kennel_macos::spawn::Start;
use kennel_macos::terminal::{self, Pair, Raw};
use kennel_macos::violation_log::ViolationLog;
use kennel_macos::{host, support, violations};
use kennel_policy::environment::environment;
use kennel_policy::host::Finding;
use kennel_policy::outcome::{Ended, Outcome};
use kennel_policy::policy::{Policy, TmpMode};
use kennel_policy::printed::show;
use private_folder::PrivateFolder;

use super::portable::streams::{Arranged, arrange};
use super::portable::{Exit, Portable, Process, RunOptions};
use super::{Backend, Lasting, Signaller};
use crate::backend::PoolKind;
use crate::error::Cause;
use crate::home::Homes;
use crate::job::{Environment, Hooks, Job, PlannedStep, Streams};
use crate::network::{HostGate, Published};
use crate::{NetworkControl, Result, SandboxError, Stdio, Terminal, Usage};

pub(crate) struct MacOs;

fn unsupported(what: &str) -> SandboxError {
    SandboxError::UnsupportedPlatform(format!("{what} are not supported on macOS").into())
}

impl Backend for MacOs {
    type Running = Portable<Command>;
    type Zygote = Arc<Infallible>;

    fn start_zygote() -> Result<Self::Zygote> {
        Err(unsupported("zygotes"))
    }

    type Pool = Arc<Infallible>;

    fn start_pool(zygote: &Self::Zygote, _: PoolKind) -> Result<Self::Pool> {
        match **zygote {}
    }

    fn pool_ready(pool: &Self::Pool) -> usize {
        match **pool {}
    }

    fn zygote_pids(zygote: &Self::Zygote) -> Vec<u32> {
        match **zygote {}
    }

    type Session = Infallible;

    fn start_session(_: Job, _: Lasting) -> Result<(Infallible, Self::Running)> {
        Err(unsupported("sessions"))
    }

    fn check() -> Result<()> {
        Ok(())
    }

    fn start(job: Job) -> Result<Self::Running> {
        start(job)
    }

    fn plan(job: Job) -> Result<Vec<PlannedStep>> {
        let Job { policy, environment, cwd, .. } = job;
        not_enforced(&policy, &limit_plan(&policy.limits, 0))?;
        secrets::check(&policy)?;
        let policy = secrets::hiding_secrets(policy, None);
        let gate = HostGate::new(&policy, each(&environment), None, false)?;
        let around = Around::find(&policy, &environment, &cwd, None);
        let (resolved, profile) = around.profile(&policy, &gate, PLANNED_TAG, MissingFolders::Plan)?;
        Ok(steps(&resolved, &profile))
    }

    fn block_signals() {
        process::block_signals();
    }

    fn findings(trial: impl FnOnce() -> std::result::Result<(), String>) -> Vec<Finding> {
        let mut findings = host::findings(trial);
        findings.push(kennel_policy::platforms::finding_on_macos());
        findings
    }
}

/// What everything is killed by.
const SIGKILL: i32 = 9;

/// What stands for a sandbox's tag in a plan.
const PLANNED_TAG: &str = "kennel-0";

/// What is not enforced: an error, unless the policy is content with best effort.
fn not_enforced(policy: &Policy, limits: &LimitPlan) -> Result<Vec<String>> {
    let missing: Vec<&str> =
        support::missing(policy).into_iter().chain(limits.missing.iter().copied()).collect();
    match missing.first() {
        Some(first) if !policy.best_effort => {
            let text =
                format!("{first}\nhelp: remove the setting, or run without it by `best_effort = true`");
            Err(SandboxError::ConfigValidation(text.into()))
        }
        _ => Ok(missing.into_iter().map(str::to_owned).collect()),
    }
}

/// What a profile depends on, as it is on this Mac.
struct Around {
    surroundings: Surroundings,
    tmp: Option<PathBuf>,
}

impl Around {
    /// `tmp` is the command's own folder for temporary files, if it has one.
    fn find(policy: &Policy, variables: &Environment, cwd: &Path, tmp: Option<&Path>) -> Around {
        let variable =
            |name: &str| variables.iter().find(|(own, _)| **own == *name).map(|(_, value)| &**value);
        let homes = Homes::of_caller(variable);
        let base = homes.base("/");
        let set = |name: &str| {
            policy.environment.set.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_os_str())
        };
        let path = set("PATH").or_else(|| variable("PATH"));
        let surroundings = Surroundings {
            cwd: cwd.to_path_buf(),
            homes: base.home.into_iter().chain(base.other_homes).collect(),
            config: variable("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute()),
            tmp: tmp.map(Path::to_path_buf),
            user_temp: host::user_temp(),
            path: path.map(|path| std::env::split_paths(path).collect()).unwrap_or_default(),
            developer: host::developer_folder(),
        };
        Around { surroundings, tmp: tmp.map(Path::to_path_buf) }
    }

    fn profile(
        &self,
        policy: &Policy,
        gate: &HostGate,
        tag: &str,
        missing: MissingFolders,
    ) -> Result<(Resolved, Profile)> {
        let invalid = |cause| SandboxError::ConfigValidation(cause);
        let resolved = resolve(policy, &self.surroundings, &HostDisk, missing)
            .map_err(|error| invalid(Cause::of(error)))?;
        let network =
            Network::of(&policy.network, gate.ports()).map_err(|error| invalid(Cause::of(error)))?;
        let profile = profile(&resolved, &network, tag)
            .map_err(|error| SandboxError::SandboxProfile(Cause::of(error)))?;
        Ok((resolved, with_marker(profile, tag)))
    }

    /// The command's variables.
    fn variables(
        &self,
        policy: &Policy,
        inherited: &Environment,
        gate: &HostGate,
    ) -> Vec<(OsString, OsString)> {
        let tmp = self.tmp.as_ref().map(|tmp| tmp.as_os_str());
        let system: Vec<(&str, &OsStr)> =
            tmp.iter().flat_map(|tmp| ["TMPDIR", "TMP", "TEMP"].map(|name| (name, *tmp))).collect();
        let (network, defaults) = gate.variables();
        environment(policy, each(inherited), &system, network, defaults)
    }
}

fn each(environment: &Environment) -> impl Iterator<Item = (&OsStr, &OsStr)> + Clone {
    environment.iter().map(|(name, value)| (&**name, &**value))
}

/// A plan for a person: what can be done where, and the profile that says so.
fn steps(resolved: &Resolved, profile: &Profile) -> Vec<PlannedStep> {
    let points = resolved.points.iter().map(|point| {
        let may = match point.access {
            Access::None => "hide",
            Access::Read => "allow reading",
            Access::Write => "allow reading and writing",
        };
        let path = show(point.path.as_os_str().as_encoded_bytes());
        PlannedStep { step: format!("{may} {path}"), reason: point.reason.to_string() }
    });
    let lines = profile.text.lines().filter(|line| !line.is_empty());
    let lines = lines.map(|line| PlannedStep { step: line.to_owned(), reason: String::new() });
    points.chain(lines).collect()
}

/// Starts a job.
fn start(job: Job) -> Result<Portable<Command>> {
    let Job { policy, command, environment, cwd, streams, hooks, .. } = job;
    let Hooks { count, audience, show, control, ask, published, warn, advice, .. } = hooks;
    let attached = matches!(streams, Streams::Attached);
    let limits = limit_plan(&policy.limits, process::own_processes());
    let not_enforced = not_enforced(&policy, &limits)?;
    if host::is_sandboxed() {
        let help = "start kennel outside of other sandboxes; see `kennel doctor`";
        return Err(SandboxError::SandboxProfile(format!("{}\nhelp: {help}", host::SANDBOXED).into()));
    }
    if let Some(why) = control.as_ref().and_then(|lines| lines.reachable()) {
        return Err(SandboxError::Setup(why.into()));
    }
    if let Some(fd) = policy.process.keep_fds.iter().find(|fd| !kennel_macos::spawn::is_open(**fd)) {
        return Err(SandboxError::ConfigValidation(
            format!("process.keep_fds: descriptor {fd} is not open").into(),
        ));
    }
    // The caller's streams come first: nothing of kennel's own must pass for one of them.
    let own_terminal = if attached { OwnTerminal::find(policy.limits.output.is_some())? } else { None };
    let (streams, pair) = match (streams, &own_terminal) {
        (Streams::Terminal { rows, columns }, _) => {
            let pair = Pair::new()?;
            pair.resize(rows, columns)?;
            (Streams::Given([Stdio::null(), Stdio::null(), Stdio::null()]), Some((pair, [true; 3])))
        }
        (_, Some(own)) => {
            let pair = Pair::new()?;
            pair.copy_from(own.terminal.as_fd())?;
            let stream = |is_own: bool| if is_own { Stdio::null() } else { Stdio::inherit() };
            (Streams::Given(own.streams.map(stream)), Some((pair, own.streams)))
        }
        (other, None) => (other, None),
    };
    let Arranged { mut ends, mut carried, mut pipes } = arrange(streams, &policy.limits)?;
    let mut controlling = None;
    if let Some((pair, streams)) = &pair {
        for (index, end) in ends.iter_mut().enumerate().filter(|(index, _)| streams[*index]) {
            *end = pair.theirs.try_clone()?;
            controlling = controlling.or(Some(index));
        }
    }
    let folder = |purpose| PrivateFolder::new(host::user_temp().as_deref(), purpose);
    let tmp = (policy.files.tmp == TmpMode::Private).then(|| folder("tmp")).transpose()?;
    let mut gate = HostGate::new(&policy, each(&environment), ask.as_ref(), true)?;
    let secrets = secrets::CommandSecrets::read(policy, environment, &mut gate, attached)?;
    let warnings = secrets.warnings().to_vec();
    if let Some(warn) = warn {
        warnings.iter().for_each(|warning| warn(warning));
    }
    let (policy, environment) = (Arc::clone(&secrets.policy), &secrets.environment);
    let asked = gate.published().iter().zip(&policy.network.publish);
    let chosen = asked.filter(|(_, asked)| asked.host == 0).map(|(published, _)| published);
    published.iter().for_each(|tell| chosen.clone().for_each(tell));
    let tag = private_folder::tag()?;
    let around = Around::find(&policy, environment, &cwd, tmp.as_ref().map(PrivateFolder::path));
    let (resolved, profile) = around.profile(&policy, &gate, &tag, MissingFolders::Create)?;
    if let Some(mut show) = show {
        show(&steps(&resolved, &profile));
    }
    let mut variables = around.variables(&policy, environment, &gate);
    let command = secrets.cleaned(command, &mut variables);
    let workdir = resolved.workdir.clone().unwrap_or_else(|| "/".into());
    let program = program(&command, &variables, &workdir)?;
    let mut wanted = command.clone();
    if let Some(first) = wanted.first_mut() {
        *first = program.into();
    }
    let mut words = command_line::words(&profile, HandOver::Word, &wanted);
    let mut profile_folder = None;
    if !command_line::fits(&words, &variables) {
        let folder = profile_folder.insert(folder("profile")?);
        let file = folder.path().join("profile.sb");
        std::fs::write(&file, &profile.text)?;
        words = command_line::words(&profile, HandOver::File(&file), &wanted);
    }
    gate.open(attached);
    if let Some(lines) = control {
        gate.follow(lines);
    }
    let log = ViolationLog::start(&tag);
    let start = Start {
        words: &words,
        variables: &variables,
        folder: &workdir,
        streams: ends,
        terminal: controlling,
        keep: &policy.process.keep_fds,
        limits: &limits.kernel,
    };
    let mut sandboxed = Sandboxed::start(start, &tag, limits.watched, policy.limits.cpu_time, count)
        .map_err(|error| io::Error::new(error.kind(), format!("starting {SANDBOX_EXEC}: {error}")))?;
    // From here on what fails must end it, which dropping the run does.
    let mut raw = None;
    let mut terminal = None;
    let mut resize: Option<Box<dyn Fn() + Send>> = None;
    if let Some((pair, _)) = pair {
        let Pair { ours, theirs } = pair;
        drop(theirs);
        match own_terminal {
            Some(own) => {
                raw = own.carry(&mut carried, &ours)?;
                resize = Some(own.resizer(ours)?);
            }
            None => terminal = Some(ours),
        }
    }
    let forwarded = if attached { sandboxed.forward_signals(resize) } else { Ok(()) };
    let command = Command {
        sandboxed,
        gate,
        log,
        tag,
        points: resolved.points,
        advice,
        warnings,
        words: show_words(&command),
        tmp,
        _certificates: secrets.folder,
        profile: profile_folder,
        raw,
    };
    let started = carried.start();
    let options =
        RunOptions { limits: &policy.limits, audience, not_enforced, carried, pipes: Default::default() };
    let mut running = Portable::new(command, options)?;
    forwarded?;
    started?;
    pipes.terminal = terminal.map(Terminal::new).transpose()?;
    running.set_pipes(pipes);
    Ok(running)
}

/// The file that a command's name leads to.
fn program(command: &[OsString], variables: &[(OsString, OsString)], folder: &Path) -> Result<PathBuf> {
    let name = command.first().map(OsString::as_os_str).unwrap_or_default();
    let path = variables.iter().find(|(own, _)| own == "PATH").map(|(_, value)| value.as_os_str());
    let looks = |at: &Path| {
        let found = at.metadata().ok()?;
        Some(found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    let shown = || show(name.as_encoded_bytes());
    match command_line::find_program(name, path, folder, looks) {
        Program::Found(at) => Ok(at),
        Program::NotFound => Err(SandboxError::CommandNotFound(shown().into())),
        Program::NotExecutable(at) => {
            let why = if at.is_dir() { "is a directory" } else { "permission denied" };
            Err(SandboxError::PermissionDenied(format!("{}: {why}", shown()).into()))
        }
    }
}

fn show_words(command: &[OsString]) -> String {
    command.first().map(|name| show(name.as_encoded_bytes())).unwrap_or_default()
}

/// The terminal that this process runs on, and which of its streams lead there.
struct OwnTerminal {
    terminal: OwnedFd,
    streams: [bool; 3],
}

impl OwnTerminal {
    /// `capped` output is carried by pipes, so that it can be counted.
    fn find(capped: bool) -> io::Result<Option<OwnTerminal>> {
        let (input, output, errors) = (io::stdin(), io::stdout(), io::stderr());
        let streams = [input.is_terminal(), output.is_terminal() && !capped, errors.is_terminal() && !capped];
        let first = match streams {
            [true, ..] => input.as_fd().try_clone_to_owned(),
            [_, true, _] => output.as_fd().try_clone_to_owned(),
            [_, _, true] => errors.as_fd().try_clone_to_owned(),
            _ => return Ok(None),
        };
        Ok(Some(OwnTerminal { terminal: first?, streams }))
    }

    /// Has everything carried between it and kennel's side of the command's. It is in raw mode from then on, if something is
    /// read from it.
    fn carry(
        &self,
        carried: &mut super::portable::streams::Carried,
        ours: &OwnedFd,
    ) -> io::Result<Option<Raw>> {
        carried.show(ours.try_clone()?, self.terminal.try_clone()?);
        if !self.streams[0] || !terminal::is_foreground(self.terminal.as_fd()) {
            return Ok(None);
        }
        carried.read_terminal(self.terminal.try_clone()?, ours.try_clone()?)?;
        Raw::set(self.terminal.as_fd()).map(Some)
    }

    /// Gives the command's terminal the size that this one has.
    fn resizer(&self, ours: OwnedFd) -> io::Result<Box<dyn Fn() + Send>> {
        let terminal = self.terminal.try_clone()?;
        Ok(Box::new(move || {
            let _ = terminal::copy_size(terminal.as_fd(), ours.as_fd());
        }))
    }
}

/// A command in its sandbox, with what belongs to it.
#[derive(Debug)]
pub(crate) struct Command {
    sandboxed: Sandboxed,
    gate: HostGate,
    log: Option<ViolationLog>,
    tag: String,
    /// For the rules behind what is refused.
    points: Vec<Point>,
    advice: &'static str,
    warnings: Vec<String>,
    /// Its name, for errors.
    words: String,
    tmp: Option<PrivateFolder>,
    /// Where the certificate is that it trusts; removed with it.
    _certificates: Option<PrivateFolder>,
    profile: Option<PrivateFolder>,
    raw: Option<Raw>,
}

impl Command {
    fn not_started(&self, reason: Reason) -> SandboxError {
        match reason {
            Reason::Profile => SandboxError::SandboxProfile(
                "applying the Seatbelt profile: this macOS does not understand it; what it said is on standard error\n\
                 help: `kennel plan` prints the profile; please report it with the version of macOS"
                    .into(),
            ),
            Reason::ApplyOrExecute => SandboxError::PermissionDenied(
                format!(
                    "{}: the profile was not applied or the command not executed; what macOS said is on standard error\n\
                     help: the command must be readable inside; `kennel doctor` tells whether sandboxes work here",
                    self.words
                )
                .into(),
            ),
            Reason::Usage => SandboxError::SandboxProfile(
                "applying the Seatbelt profile: sandbox-exec of this macOS takes other words".into(),
            ),
        }
    }
}

impl Process for Command {
    fn wait(&mut self, until: Option<Instant>) -> Result<Option<Exit>> {
        let Some(end) = self.sandboxed.wait(until)? else { return Ok(None) };
        let ended = match end.fate {
            Fate::Ran(ended) => ended,
            Fate::NotStarted(reason) => {
                self.raw = None;
                return Err(self.not_started(reason));
            }
        };
        Ok(Some(Exit {
            ended,
            cpu_user: end.cpu_user,
            cpu_system: end.cpu_system,
            peak_memory: end.peak_memory,
            memory_counted: end.memory_counted,
            max_pids_seen: end.most_tasks,
            oom_kills: 0,
            pids_refused: end.tasks_refused,
        }))
    }

    /// [`Sandboxed::wait`] has done so.
    fn end_rest(&mut self) -> Option<String> {
        self.sandboxed.take_left()
    }

    fn killer(&self) -> Arc<dyn Fn() + Send + Sync> {
        self.sandboxed.killer()
    }

    fn signaller(&self) -> Signaller {
        let send = self.sandboxed.signaller();
        Box::new(move |signal| Ok(send(signal)?))
    }

    fn meter(&self) -> Arc<dyn Fn() -> Usage + Send + Sync> {
        self.sandboxed.meter()
    }

    fn pid(&self) -> u32 {
        self.sandboxed.pid()
    }

    fn watch_every(&self) -> Option<Duration> {
        self.sandboxed.watch_every()
    }

    fn watch(&mut self) -> Option<Ended> {
        Some(match self.sandboxed.watch()? {
            Exceeded::Memory => Ended::OutOfMemory,
            Exceeded::CpuTime => Ended::CpuTimeUsedUp,
            // Told by `pids_refused`.
            Exceeded::Tasks => Ended::Signalled(SIGKILL),
        })
    }

    fn complete(&mut self, outcome: &mut Outcome) {
        /// Refusals reach the log a moment after they are made.
        const LATE: Duration = Duration::from_millis(300);
        // The caller's terminal is as it was before anything is said.
        self.raw = None;
        self.gate.close();
        outcome.network = self.gate.used(self.advice);
        outcome.gateway = self.gate.gateway_use();
        outcome.warnings = std::mem::take(&mut self.warnings);
        if let Some(mut log) = self.log.take() {
            let failed = outcome.exit_code() != 0;
            let (lines, more) = log.finish(if failed { LATE } else { Duration::ZERO });
            let refusals = lines.iter().filter_map(|line| violations::parse(line, &self.tag));
            let told = refusals.map(|refusal| violations::violation(refusal, &self.points));
            told.for_each(|violation| outcome.violations.add(violation));
            outcome.violations.more += more;
        }
        for folder in [self.tmp.take(), self.profile.take()].into_iter().flatten() {
            let path = show(folder.path().as_os_str().as_encoded_bytes());
            if let Err(error) = folder.remove() {
                outcome.not_enforced.push(format!("removing the temporary folder {path}: {error}"));
            }
        }
    }

    fn network(&self) -> Option<NetworkControl> {
        self.gate.control()
    }

    fn published(&self) -> &[Published] {
        self.gate.published()
    }

    fn descriptor(&mut self) -> io::Result<std::os::fd::BorrowedFd<'_>> {
        Ok(self.sandboxed.descriptor())
    }

    fn wake_at(&mut self, at: Option<Instant>) -> io::Result<()> {
        self.sandboxed.wake_at(at)
    }
}
