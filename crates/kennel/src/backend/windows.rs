//! Windows: a job object and a restricted token of kennel-windows, attended to by the portable run loop.
//!
//! What a policy asks and Windows cannot enforce is an error that names each key, or with best effort a part of the outcome.
//! The network gate is advisory: variables lead to it, and a program can ignore them.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kennel_policy::environment::environment;
use kennel_policy::host::{Finding, State};
use kennel_policy::outcome::{Ended, Outcome};
use kennel_policy::policy::{NetworkMode, Policy, TmpMode};
use kennel_windows::verdict::{self, Lack, TokenKind, Verdict};
use kennel_windows::{End, Launch, Prepared, Sandboxed, console, exit, host, limits};

use super::portable::streams::{self, Arranged};
use super::portable::{Exit, KILLED, Portable, Process, RunOptions};
use super::{Backend, Lasting, Signaller};
use crate::backend::PoolKind;
use crate::job::{Environment, Hooks, Job, PlannedStep, Streams};
use crate::network::{HostGate, Published};
use crate::stdio::Handle;
use crate::{AskAboutHosts, ControlLines, NetworkControl, Result, SandboxError, Stdio, Usage};

/// Where proxies are found that lead nowhere: nobody serves this port (`discard`).
const NOWHERE: &str = "http://127.0.0.1:9";

pub(crate) struct Windows;

fn no_clones(what: &str) -> SandboxError {
    SandboxError::UnsupportedPlatform(
        format!("{what} need Linux: there is nothing to clone on Windows").into(),
    )
}

impl Backend for Windows {
    type Running = Portable<WindowsProcess>;
    type Zygote = Arc<Infallible>;

    fn start_zygote() -> Result<Self::Zygote> {
        Err(no_clones("zygotes"))
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
        Err(no_clones("sessions"))
    }

    fn check() -> Result<()> {
        Ok(())
    }

    fn start(job: Job) -> Result<Self::Running> {
        start(job)
    }

    fn plan(job: Job) -> Result<Vec<PlannedStep>> {
        let Job { policy, command, environment, cwd, .. } = job;
        let lacks = lacks(&policy)?;
        HostGate::new(&policy, pairs(&environment), None, false)?;
        Ok(steps(&policy, &command, &folder(&policy, cwd), &lacks))
    }

    /// Windows sends no signals to threads.
    fn block_signals() {}

    fn findings(_: impl FnOnce() -> std::result::Result<(), String>) -> Vec<Finding> {
        findings()
    }
}

/// What is not enforced; an error unless the policy is content with best effort.
fn lacks(policy: &Policy) -> Result<Vec<Lack>> {
    let lacks = verdict::lacks(policy);
    if lacks.is_empty() || policy.best_effort {
        return Ok(lacks);
    }
    let list: String = lacks.iter().map(|lack| format!("\n  {lack}")).collect();
    let text = format!(
        "Windows cannot enforce all of the policy:{list}\n\
         help: change these settings, or use `best_effort` to run without them"
    );
    Err(SandboxError::ConfigValidation(text.into()))
}

fn start(job: Job) -> Result<Portable<WindowsProcess>> {
    let Job { policy, command, environment: inherited, cwd, streams, hooks, .. } = job;
    // No secret is read here, so there is nothing to warn of.
    let Hooks {
        audience,
        show,
        control,
        ask,
        published,
        advice,
        warn: _,
        count: _,
        questions: _,
        explain: _,
        listening: _,
    } = hooks;
    let lacks = lacks(&policy)?;
    let cwd = folder(&policy, cwd);
    if let Some(mut show) = show {
        show(&steps(&policy, &command, &cwd, &lacks));
    }
    let is_attached = matches!(streams, Streams::Attached);
    let Arranged { ends, mut carried, pipes } = streams::arrange(streams, &policy.limits)?;
    let mut gate = gate(&policy, &inherited, control, ask.as_ref(), published)?;
    let prepared = Prepared::new(&policy)?;
    let variables = {
        let temp = prepared.temp().map(|folder| folder.as_os_str());
        let system: Vec<(&str, &OsStr)> =
            temp.into_iter().flat_map(|temp| [("TEMP", temp), ("TMP", temp), ("TMPDIR", temp)]).collect();
        let (to_gate, defaults) = gate.variables();
        let mut network = to_gate.to_vec();
        if policy.network.mode == NetworkMode::None {
            network.extend(to_nowhere());
        }
        environment(&policy, pairs(&inherited), &system, &network, defaults)
    };
    // Before the command is there, which may get a Ctrl-C at once.
    let attached = is_attached.then(console::Attached::new);
    let sandboxed = kennel_windows::start(
        prepared,
        Launch { words: &command, variables, cwd, streams: ends, shares_ctrl_c: is_attached },
    )?;
    gate.open(is_attached);
    carried.start()?;
    let process = WindowsProcess { sandboxed, gate, advice, left: 0, _attached: attached };
    let not_enforced = lacks.iter().map(Lack::to_string).collect();
    Portable::new(process, RunOptions { limits: &policy.limits, audience, not_enforced, carried, pipes })
}

/// Where the command starts.
fn folder(policy: &Policy, cwd: PathBuf) -> PathBuf {
    if let Some(folder) = &policy.process.workdir {
        return folder.clone();
    }
    if cwd.is_dir() {
        return cwd;
    }
    policy.process.start_instead.iter().find(|folder| folder.is_dir()).cloned().unwrap_or(cwd)
}

fn pairs(environment: &Environment) -> impl Iterator<Item = (&OsStr, &OsStr)> + Clone {
    environment.iter().map(|(name, value)| (name.as_ref(), value.as_ref()))
}

/// Variables for programs that heed them: there is no network.
fn to_nowhere() -> impl Iterator<Item = (OsString, OsString)> {
    ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "FTP_PROXY"]
        .into_iter()
        .map(|name| (name.into(), NOWHERE.into()))
}

/// The gate that a policy asks for. It listens, and serves once the command is there.
fn gate(
    policy: &Policy,
    environment: &Environment,
    control: Option<ControlLines>,
    ask: Option<&AskAboutHosts>,
    tell: Option<fn(&Published)>,
) -> Result<HostGate> {
    if let Some(why) = control.as_ref().and_then(|lines| lines.reachable(policy)) {
        return Err(SandboxError::Setup(why.into()));
    }
    let gate = HostGate::new(policy, pairs(environment), ask, true)?;
    if let Some(lines) = control {
        gate.follow(lines);
    }
    let chosen = gate.published().iter().zip(&policy.network.publish).filter(|(_, asked)| asked.host == 0);
    tell.iter().for_each(|tell| chosen.clone().for_each(|(published, _)| tell(published)));
    Ok(gate)
}

/// What is done for a policy, step by step, and what is not.
fn steps(policy: &Policy, command: &[OsString], cwd: &Path, lacks: &[Lack]) -> Vec<PlannedStep> {
    let mut steps = Vec::new();
    let mut add = |step: String, reason: &str| steps.push(PlannedStep { step, reason: reason.to_owned() });
    add("create a token without privileges, with administrators to deny only".into(), "always");
    if verdict::token_kind(policy) == TokenKind::NoWrites {
        add("restrict writes of the token and lower it to low integrity".into(), "no files.allow_write");
    }
    if policy.files.tmp == TmpMode::Private {
        add("create a private folder, which TEMP and TMP name, and remove it at the end".into(), "files.tmp");
    }
    add("create a job object that nothing leaves and that ends with kennel".into(), "always");
    if host::is_in_job() {
        add("leave the job object without limits on the desktop".into(), "kennel is in a job object itself");
    } else {
        add("keep the job object from the clipboard, the display and other windows".into(), "always");
    }
    let set = limits::job_limits(&policy.limits, host::processors());
    let limits = [
        (set.job_memory.map(|bytes| format!("limit committed memory to {bytes} bytes")), "limits.memory"),
        (set.processes.map(|count| format!("limit processes to {count}")), "limits.pids"),
        (
            set.process_time
                .map(|time| format!("limit user time of each process to {:?}", limits::duration(time))),
            "limits.cpu_time",
        ),
        (
            set.cpu_rate
                .map(|rate| format!("limit CPU to {}.{:02} % of the machine", rate / 100, rate % 100)),
            "limits.cpus",
        ),
        (policy.limits.wall_time.map(|time| format!("kill everything after {time:?}")), "limits.timeout"),
    ];
    for (step, reason) in limits {
        step.into_iter().for_each(|step| add(step, reason));
    }
    match policy.network.mode {
        NetworkMode::AllowList | NetworkMode::Public => {
            add("listen on the host's loopback for the network gate".into(), "network.mode");
        }
        NetworkMode::None => add(format!("set proxy variables to {NOWHERE}"), "network.mode"),
        NetworkMode::Host => {}
    }
    let name = command.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    add(format!("start {name} suspended, in the job, with its standard streams alone"), "the command");
    add(format!("let it run in {}", cwd.display()), "process.workdir");
    for lack in lacks {
        let verdict = verdict::find(lack.key).map_or(Verdict::Unavailable, |row| row.verdict);
        add(format!("not enforced: {}", lack.what), &format!("{} ({})", lack.key, verdict.word()));
    }
    steps
}

/// A command in its job.
#[derive(Debug)]
pub(crate) struct WindowsProcess {
    sandboxed: Sandboxed,
    gate: HostGate,
    advice: &'static str,
    /// How many processes could not be ended.
    left: u32,
    /// Keeps Ctrl-C from ending this process while the command has the console.
    _attached: Option<console::Attached>,
}

impl Process for WindowsProcess {
    fn wait(&mut self, until: Option<Instant>) -> Result<Option<Exit>> {
        let Some(end) = self.sandboxed.wait(until)? else { return Ok(None) };
        self.left = end.left;
        Ok(Some(Exit {
            ended: ended(&end),
            cpu_user: end.cpu_user,
            cpu_system: end.cpu_system,
            peak_memory: end.peak_memory,
            memory_counted: true,
            max_pids_seen: Some(end.most_processes),
            oom_kills: u64::from(end.out_of_memory),
            pids_refused: end.refused,
        }))
    }

    /// The job was emptied when the command ended.
    fn end_rest(&mut self) -> Option<String> {
        (self.left > 0).then(|| format!("{} processes of the sandbox could not be ended", self.left))
    }

    fn killer(&self) -> Arc<dyn Fn() + Send + Sync> {
        Arc::new(self.sandboxed.killer())
    }

    /// Windows has no signals. What interrupts becomes Ctrl-Break, and what ends a process ends the job.
    fn signaller(&self) -> Signaller {
        const SIGINT: i32 = 2;
        const SIGKILL: i32 = 9;
        const SIGTERM: i32 = 15;
        const SIGBREAK: i32 = 21;
        let (kill, group) = (self.killer(), self.sandboxed.pid());
        let meter = self.meter();
        Box::new(move |signal| {
            if meter().processes == Some(0) {
                return Err(io::Error::new(io::ErrorKind::NotFound, "the command has ended").into());
            }
            match signal {
                SIGINT | SIGBREAK => Ok(console::send_break(group)?),
                SIGKILL | SIGTERM => {
                    kill();
                    Ok(())
                }
                _ => {
                    Err(io::Error::new(io::ErrorKind::InvalidInput, "there is no such signal on Windows")
                        .into())
                }
            }
        })
    }

    fn meter(&self) -> Arc<dyn Fn() -> Usage + Send + Sync> {
        Arc::new(self.sandboxed.meter())
    }

    fn pid(&self) -> u32 {
        self.sandboxed.pid()
    }

    fn complete(&mut self, outcome: &mut Outcome) {
        self.gate.close();
        outcome.network = self.gate.used(self.advice);
    }

    fn network(&self) -> Option<NetworkControl> {
        self.gate.control()
    }

    fn published(&self) -> &[Published] {
        self.gate.published()
    }

    fn handle(&self) -> io::Result<Handle> {
        self.sandboxed.process()
    }
}

/// How it ended, as every system tells it. A crash keeps its number, which shells on Windows know.
fn ended(end: &End) -> Ended {
    if end.out_of_memory {
        Ended::OutOfMemory
    } else if end.time_used_up {
        Ended::CpuTimeUsedUp
    } else {
        Ended::Exited(exit::signed(end.code))
    }
}

const _: () = assert!(KILLED.cast_unsigned() == kennel_windows::KILLED);

/// What this host supports, and what kennel keeps of a policy here.
fn findings() -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut add = |subject, state, detail: String, remedy: Option<&str>| {
        findings.push(Finding { subject, state, detail, remedy: remedy.map(str::to_owned) });
    };
    match (host::wine_version(), host::version()) {
        (Some(version), _) => add(
            "system",
            State::Weaker,
            format!("Wine {version}: limits, integrity levels and restricting SIDs have no effect here"),
            Some("use it to try kennel, not to confine anything"),
        ),
        (None, Some((major, minor, build))) if build >= host::FIRST_BUILD => {
            add("system", State::Good, format!("Windows {major}.{minor}, build {build}"), None);
        }
        (None, version) => {
            let build = version.map_or(0, |(_, _, build)| build);
            let why = format!("build {build}: a process cannot be started in a job object before Windows 10");
            add("system", State::Missing, why, Some("use Windows 10 or later"));
        }
    }
    if host::is_in_job() {
        let why = "kennel runs in a job object itself, so commands can use the clipboard and other windows' messages";
        add("desktop", State::Weaker, why.into(), Some("start kennel from a console of its own"));
    } else {
        add("desktop", State::Good, "closed to commands by limits of the job object".into(), None);
    }
    match trial() {
        Ok(()) => add("sandbox", State::Good, "a command ran in its job object".into(), None),
        Err(why) => add("sandbox", State::Missing, why, None),
    }
    findings.push(kennel_policy::platforms::finding_on_windows());
    findings
}

/// Runs a command that does nothing, with a policy that Windows can keep.
fn trial() -> std::result::Result<(), String> {
    let mut policy = Policy::default();
    policy.network.mode = NetworkMode::Host;
    policy.limits.wall_time = Some(Duration::from_secs(60));
    let words = ["cmd.exe", "/d", "/c", "exit 0"].map(OsString::from).to_vec();
    let mut job = Job::new(policy.into(), words);
    job.streams = Streams::Given([Stdio::null(), Stdio::null(), Stdio::null()]);
    match job.start().and_then(|mut running| running.wait()) {
        Ok(outcome) if outcome.exit_code() == 0 => Ok(()),
        Ok(outcome) => Err(format!("`cmd /c exit 0` ended with {}", outcome.exit_code())),
        Err(error) => Err(error.to_string()),
    }
}
