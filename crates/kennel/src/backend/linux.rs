//! Linux: where a job, the sandbox of kennel-linux and the network gate meet.

mod pool;
#[cfg_attr(not(feature = "network"), path = "linux/no_secrets.rs")]
mod secrets;
mod start;

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use kennel_linux::guard::Rules;
use kennel_linux::launch::zygote;
use kennel_linux::plan::Plan;
pub use kennel_linux::sandbox::InheritedMemory;
use kennel_linux::sandbox::{self, Given, Late, Started, Wanted, Watch};
use kennel_linux::supervise::Turn;
use kennel_linux::supervise::listening::Told;
use kennel_linux::supervise::streams;
use kennel_linux::supervise::ticker::Ticker;
use kennel_policy::host::Finding;
use kennel_policy::outcome::{GatewayUse, Outcome};
use kennel_policy::policy::Policy;
use kennel_policy::printed::show;
use rustix::process::Signal;

use super::{Attend, Backend, GatewayMeter, Lasting, Signaller};
use crate::backend::PoolKind;
use crate::job::{self, Hooks, Job, PlannedStep, Streams, UsageSink};
use crate::network::{Published, SandboxNetwork, TrafficMeter};
use crate::stdio::{Handle, Leads, Pipes};
use crate::terminal::Questions;
use crate::{NetworkControl, Result, SandboxError, Stdio, Terminal, Usage};

/// Bytes captured of each output stream unless the policy says how many.
const CAPTURED: u64 = 64 << 20;

/// Asking the user on the terminal that a command runs on.
pub(crate) mod terminal {
    pub use kennel_linux::supervise::terminal::{Asker, Questions, Reply, questions};
}

/// A file that is written after a command has run, in a place that was held before.
pub(crate) mod held_file {
    pub use kennel_linux::held::{HeldFile, HoldError};
}

pub(crate) struct Linux;

impl Backend for Linux {
    type Running = Running;
    type Zygote = Arc<zygote::Zygote>;

    fn start_zygote() -> Result<Self::Zygote> {
        zygote::start().map_err(|error| sandbox::Error::from(error).into())
    }

    fn zygote_pids(zygote: &Self::Zygote) -> Vec<u32> {
        zygote.pids().into_iter().map(i32::cast_unsigned).collect()
    }

    fn check() -> Result<()> {
        Ok(())
    }

    type Pool = Arc<pool::Pool>;

    fn start_pool(zygote: &Self::Zygote, kind: PoolKind) -> Result<Self::Pool> {
        Ok(Arc::new(pool::Pool::start(Arc::clone(zygote), kind)?))
    }

    fn pool_ready(pool: &Self::Pool) -> usize {
        pool.ready()
    }

    fn start(mut job: Job) -> Result<Running> {
        if job.session.is_some() {
            return start_in_session(job);
        }
        match job.pool.take() {
            Some(pool) => pool.start_job(job),
            None => start::running(job),
        }
    }

    type Session = sandbox::Session;

    fn start_session(job: Job, lasting: Lasting) -> Result<(sandbox::Session, Running)> {
        start::session(job, lasting)
    }

    fn plan(job: Job) -> Result<Vec<PlannedStep>> {
        start::planned(job)
    }

    fn block_signals() {
        kennel_linux::signals::block_all();
    }

    fn findings(trial: impl FnOnce() -> std::result::Result<(), String>) -> Vec<Finding> {
        kennel_linux::host::findings(trial)
    }
}

/// Starts a command in the session of its job.
fn start_in_session(job: Job) -> Result<Running> {
    let Job { policy, command, environment, workdir, streams, hooks, session, .. } = job;
    let Hooks { count, audience, advice, .. } = hooks;
    let session = session.ok_or_else(|| SandboxError::Internal("a job without a session".into()))?;
    let streams = streams.taken()?;
    let _low = LowNumbers::occupied()?;
    let (streams, mut pipes) = given(streams, &policy, true)?;
    let Started { supervisor, not_enforced, terminal } = session.command(Late {
        policy,
        wanted: Wanted { words: command, environment },
        workdir,
        streams,
        watch: watch(count, audience, None, None, None),
        at_report: true,
        silently: false,
    })?;
    pipes.terminal = terminal.map(Terminal::new).transpose()?;
    let supervisor = pool::Attended::alone(supervisor);
    let warnings = Vec::new();
    Ok(Running { supervisor, gate: None, alone: false, advice, not_enforced, warnings, pipes })
}

/// Tells of traffic, too.
struct WithTraffic {
    audience: Box<dyn UsageSink>,
    traffic: TrafficMeter,
}

impl UsageSink for WithTraffic {
    fn tell(&mut self, usage: &Usage) {
        self.audience.tell(&with_traffic(*usage, Some(&self.traffic)));
    }

    fn pause(&mut self) {
        self.audience.pause();
    }
}

fn with_traffic(usage: Usage, traffic: Option<&TrafficMeter>) -> Usage {
    let Some(traffic) = traffic.map(|traffic| traffic()) else { return usage };
    Usage { egress: Some(traffic.egress), ingress: Some(traffic.ingress), ..usage }
}

/// The audience, told of the traffic by this gate where that is counted.
fn counting(
    audience: Option<(Box<dyn UsageSink>, Duration)>,
    gate: Option<&SandboxNetwork>,
) -> Option<(Box<dyn UsageSink>, Duration)> {
    let (audience, every) = audience?;
    Some(match gate.and_then(SandboxNetwork::traffic_meter) {
        Some(traffic) => (Box::new(WithTraffic { audience, traffic }), every),
        None => (audience, every),
    })
}

fn watch(
    count: bool,
    audience: Option<(Box<dyn UsageSink>, Duration)>,
    questions: Option<Questions>,
    show: Option<Box<job::Show>>,
    listening: Option<Told>,
) -> Watch {
    let show = show.map(|mut show| {
        Box::new(move |plan: &Plan, rules: &Rules| show(&steps(plan, rules))) as Box<sandbox::Show>
    });
    let ticker = audience.map(|(audience, every)| Ticker::new(audience, every));
    Watch { count, ticker, questions, listening, show }
}

/// The steps of a plan and what is guarded, each with the reason for it.
fn steps(plan: &Plan, rules: &Rules) -> Vec<PlannedStep> {
    let shown = |path: &std::path::Path| show(path.as_os_str().as_encoded_bytes());
    let steps = plan
        .opening
        .iter()
        .chain(&plan.steps)
        .map(|planned| (kennel_linux::describe::describe_step(&planned.step), planned.reason.clone()));
    let absent = rules.protected.iter().map(|protected| {
        (format!("guard: refuse to create {}", shown(&protected.path())), protected.rule.to_string())
    });
    let rewritten = rules.rewritten.iter().map(|kept| {
        (format!("guard: refuse to move anything over {}", shown(&kept.path())), kept.rule.to_string())
    });
    let sockets = rules.sockets.iter().flat_map(|sockets| &sockets.allowed).map(|socket| {
        (format!("guard: connect to {} on behalf of the command", shown(&socket.path)), socket.rule.clone())
    });
    let all = steps.chain(absent).chain(rewritten).chain(sockets);
    all.map(|(step, reason)| PlannedStep { step, reason }).collect()
}

/// The command's streams, and the other ends of its pipes. `stands` says that the sandbox is there already.
fn given(streams: Streams, policy: &Policy, stands: bool) -> Result<(Given, Pipes)> {
    let mut pipes = Pipes::default();
    match streams {
        Streams::Attached => Ok((Given::Callers, pipes)),
        Streams::Terminal { rows, columns } => Ok((Given::Terminal(rows, columns), pipes)),
        Streams::Given(streams) => {
            let mut index = 0;
            let ends = streams.map(|stream| {
                index += 1;
                match stream.0 {
                    Leads::Piped => pipes.make(index - 1),
                    leads => descriptor(leads),
                }
            });
            let [input, output, errors] = ends;
            Ok((Given::Streams { ends: [input?, output?, errors?], captured: None }, pipes))
        }
        Streams::Captured { streams, input } => {
            let cap = usize::try_from(policy.limits.output.unwrap_or(CAPTURED)).unwrap_or(usize::MAX);
            let feeds = input.is_some();
            let mut index = 0;
            let wanted = streams.each_ref().map(|Stdio(leads)| {
                index += 1;
                match leads {
                    Leads::Piped => true,
                    // Something to read comes by a pipe; and an empty one is as good as nothing, where a device of the
                    // sandbox's own has yet to be opened.
                    Leads::Nowhere => index == 1 && (feeds || !stands),
                    Leads::To(_) | Leads::Here => index == 1 && feeds,
                }
            });
            let (captured, ends) = streams::Streams::some(input, cap, wanted)?;
            let mut ends = ends.into_iter();
            let ends = streams.map(|Stdio(leads)| match ends.next().flatten() {
                Some(end) => Ok(end),
                None => descriptor(leads),
            });
            let [input, output, errors] = ends;
            let ends = [input?, output?, errors?];
            Ok((Given::Streams { ends, captured: Some(captured) }, pipes))
        }
    }
}

/// The descriptor behind a stream that is no pipe.
fn descriptor(leads: Leads) -> io::Result<OwnedFd> {
    match leads {
        Leads::To(fd) => Ok(fd),
        Leads::Nowhere | Leads::Piped | Leads::Here => nowhere(),
    }
}

/// Opened each time: one that is kept may have become another file's number, in a program that closes what it does not know.
fn nowhere() -> io::Result<OwnedFd> {
    Ok(File::options().read(true).write(true).open("/dev/null")?.into())
}

impl Streams {
    /// Takes hold of those of the caller's own streams that are wanted. One that is closed leads nowhere.
    fn taken(self) -> io::Result<Streams> {
        let own = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
        let take = |streams: [Stdio; 3]| {
            let mut own = own.iter();
            streams.map(|Stdio(leads)| match (leads, own.next()) {
                (Leads::Here, Some(own)) => Stdio(own.try_clone_to_owned().map_or(Leads::Nowhere, Leads::To)),
                (leads, _) => Stdio(leads),
            })
        };
        Ok(match self {
            Streams::Given(streams) => Streams::Given(take(streams)),
            Streams::Captured { streams, input } => Streams::Captured { streams: take(streams), input },
            other => other,
        })
    }
}

/// Occupies the numbers of standard streams that the caller has closed, so that nothing that is opened while this lives gets
/// one of them.
struct LowNumbers(#[expect(dead_code, reason = "held, not used")] Vec<OwnedFd>);

impl LowNumbers {
    fn occupied() -> io::Result<LowNumbers> {
        let mut held = Vec::new();
        let own = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
        while own.iter().any(|fd| rustix::io::fcntl_getfd(fd).is_err()) {
            let fd = rustix::fs::open(
                "/dev/null",
                rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC,
                0.into(),
            )
            .map_err(io::Error::from)?;
            let is_low = fd.as_raw_fd() < 3;
            held.push(fd);
            if !is_low {
                break;
            }
        }
        Ok(LowNumbers(held))
    }
}

/// A sandbox that runs, and the gate of its network.
#[derive(Debug)]
pub(crate) struct Running {
    supervisor: pool::Attended,
    gate: Option<SandboxNetwork>,
    /// Whether this process has no other sandbox.
    alone: bool,
    advice: &'static str,
    not_enforced: Vec<String>,
    warnings: Vec<String>,
    pipes: Pipes,
}

impl Running {
    /// The one place where a sandbox and its gate are put together: it opens with the first client, and in the end what it
    /// decided becomes a part of the outcome.
    fn follow(&mut self, turn: Turn) -> Result<Option<Outcome>> {
        Ok(match turn {
            Turn::GoesOn => None,
            Turn::NotStarted(error) => return Err(sandbox::Error::from(error).into()),
            Turn::Knocked(doors) => {
                if self.alone {
                    // PID 1 was cloned before, so what is inside keeps the limit that the caller has.
                    use_all_descriptors();
                }
                let init = self.supervisor.running().init_pid();
                if let Some(gate) = &mut self.gate {
                    gate.open(doors, init, self.alone);
                }
                None
            }
            Turn::Ended(mut outcome) => {
                outcome.not_enforced.extend(std::mem::take(&mut self.not_enforced));
                outcome.warnings = std::mem::take(&mut self.warnings);
                if let Some(gate) = &mut self.gate {
                    gate.close();
                }
                outcome.network = self.gate.as_ref().map(|gate| gate.used(self.advice)).unwrap_or_default();
                outcome.gateway = self.gate.as_ref().map(SandboxNetwork::gateway_use).unwrap_or_default();
                Some(*outcome)
            }
        })
    }
}

impl Attend for Running {
    fn turn(&mut self) -> Result<Option<Outcome>> {
        let turn = self.supervisor.wait()?;
        self.follow(turn)
    }

    fn on_ready(&mut self) -> Result<Option<Outcome>> {
        let turn = self.supervisor.on_ready()?;
        self.follow(turn)
    }

    fn descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        Ok(self.supervisor.descriptor()?)
    }

    fn end_by(&mut self, end: Handle) {
        self.supervisor.end_by(end);
    }

    fn process(&self) -> Result<Handle> {
        Ok(self.supervisor.running().pidfd().try_clone_to_owned()?)
    }

    fn signaller(&self) -> Result<Signaller> {
        let process = self.process()?;
        // Through the process that ends last.
        Ok(Box::new(move |signal| {
            let signal = Signal::from_named_raw(signal)
                .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "there is no such signal"))?;
            Ok(rustix::process::pidfd_send_signal(&process, signal).map_err(io::Error::from)?)
        }))
    }

    fn init_pid(&self) -> u32 {
        self.supervisor.running().init_pid().cast_unsigned()
    }

    fn kill(&mut self) {
        self.supervisor.end();
    }

    fn killer(&self) -> Option<Handle> {
        self.supervisor.running().killer()
    }

    fn meter(&self) -> Box<dyn Fn() -> Usage + Send + Sync> {
        let meter = self.supervisor.running().meter();
        let traffic = self.gate.as_ref().and_then(SandboxNetwork::traffic_meter);
        Box::new(move || with_traffic(meter.usage().unwrap_or_default(), traffic.as_ref()))
    }

    fn gateway_meter(&self) -> GatewayMeter {
        self.gate
            .as_ref()
            .map_or_else(|| Box::new(GatewayUse::default) as GatewayMeter, SandboxNetwork::gateway_meter)
    }

    fn network(&self) -> Option<NetworkControl> {
        self.gate.as_ref().and_then(SandboxNetwork::control)
    }

    fn published(&self) -> &[Published] {
        self.gate.as_ref().map(SandboxNetwork::published).unwrap_or_default()
    }

    fn take_pipes(&mut self) -> Pipes {
        std::mem::take(&mut self.pipes)
    }

    fn take_output(&mut self) -> [Vec<u8>; 2] {
        let streams = self.supervisor.take_streams();
        streams.map(streams::Streams::into_captured).unwrap_or_default().map(|captured| captured.bytes)
    }
}

/// Each connection through the gate takes two descriptors, and shells give their programs 1,024.
fn use_all_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
