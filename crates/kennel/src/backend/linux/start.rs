//! The start of a sandbox, whoever asks: for a command, for a plan, for a pool, for a session.

use std::sync::Arc;

use kennel_linux::resolve::created::missing_folders;
use kennel_linux::sandbox::{
    self, Beginning, Birth, Looked, Purpose, Ready, Session, Started, Wanted, Watch, each_variable,
};
use kennel_policy::printed::show;

use super::secrets::{self, Found};
use super::{Lasting, LowNumbers, Running, counting, given, pool, steps, watch};
use crate::backend::PoolKind;
use crate::job::{Hooks, Job, PlannedStep, Streams};
use crate::network::{Doors, SandboxNetwork};
use crate::stdio::Pipes;
use crate::{ControlLines, Result, SandboxError, Terminal};

/// What a sandbox is started for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    /// The command of its job.
    Command,
    /// Commands that come later.
    Later,
    /// Nothing: what would be done is told.
    Plan,
}

/// A sandbox of which everything is known but how far it is to be brought.
struct Opened {
    looked: Looked,
    wanted: Wanted,
    watch: Watch,
    gate: Option<SandboxNetwork>,
    control: Option<ControlLines>,
    pipes: Pipes,
    /// Whether the command has this process's own streams: then this process is there for it alone.
    attached: bool,
    advice: &'static str,
    warnings: Vec<String>,
}

/// The whole start, in its order. What is left is to perform the plan, which `run`, `wait` and `serve` of [`Looked`] do.
fn open(job: Job, start: Start) -> Result<Opened> {
    let Job { policy, command, environment, cwd, streams, hooks, memory, alone, .. } = job;
    let Hooks { count, audience, questions, show, control, ask, published, listening, warn, explain, advice } =
        hooks;
    // Before anything else is opened: a descriptor of kennel's own must never pass for one of the caller's streams.
    let streams = streams.taken()?;
    let _low = LowNumbers::occupied()?;
    let attached = matches!(streams, Streams::Attached);
    let (purpose, pipes) = match start {
        Start::Command => {
            let (streams, pipes) = given(streams, &policy, false)?;
            (Purpose::Command(streams), pipes)
        }
        Start::Later => (Purpose::Later, Pipes::default()),
        Start::Plan => (Purpose::Plan, Pipes::default()),
    };
    if let Some(why) = control.as_ref().and_then(|lines| lines.reachable(&policy)) {
        return Err(SandboxError::Setup(why.into()));
    }
    secrets::check(&policy)?;
    let mut doors = match start {
        Start::Plan => Doors::planned(&policy, each_variable(&environment))?,
        Start::Command | Start::Later => Doors::new(&policy, each_variable(&environment), ask.as_ref())?,
    };
    if let (Some(doors), Some(tell)) = (&doors, published) {
        let asked = doors.published().iter().zip(&policy.network.publish);
        asked.filter(|(_, asked)| asked.host == 0).for_each(|(chosen, _)| tell(chosen));
    }
    let network = doors.as_mut().map(Doors::take_network);
    let own_process = memory.is_some();
    let birth = match memory {
        Some(memory) => Birth::copy(memory),
        None if alone => Birth::only_child(),
        None => Birth::program(),
    };
    let begun = sandbox::begin(Beginning {
        policy: Arc::clone(&policy),
        cwd,
        birth,
        purpose,
        network,
        count,
        explain,
    })?;
    // PID 1 makes its network meanwhile. What is read from here on is not in the memory that it is a copy of.
    let Found { additions, reads, warnings } = match start {
        Start::Plan => secrets::planned(&policy),
        Start::Command | Start::Later => secrets::read(&policy, &environment, own_process)?,
    };
    if let Some(warn) = warn {
        warnings.iter().for_each(|warning| warn(warning));
    }
    let gate = doors.and_then(|doors| reads.gate(doors));
    let looked = begun.look(additions)?;
    let wanted = Wanted { words: command, environment };
    let reachable =
        policy.network.mode == kennel_policy::policy::NetworkMode::Host || !policy.network.publish.is_empty();
    let watch =
        watch(count, counting(audience, gate.as_ref()), questions, show, listening.filter(|_| !reachable));
    Ok(Opened { looked, wanted, watch, gate, control, pipes, attached, advice, warnings })
}

/// Starts a job in a sandbox of its own.
pub(super) fn running(job: Job) -> Result<Running> {
    let Opened { looked, wanted, watch, gate, control, mut pipes, attached, advice, warnings } =
        open(job, Start::Command)?;
    let started = looked.run(&wanted, watch)?;
    follow(gate.as_ref(), control);
    let Started { supervisor, not_enforced, terminal } = started;
    pipes.terminal = terminal.map(Terminal::new).transpose()?;
    let supervisor = pool::Attended::alone(supervisor);
    Ok(Running { supervisor, gate, alone: attached, advice, not_enforced, warnings, pipes })
}

/// What starting a job would do.
pub(super) fn planned(job: Job) -> Result<Vec<PlannedStep>> {
    let created = missing_folders(&job.policy).into_iter().map(|(path, reason)| {
        let path = show(path.as_os_str().as_encoded_bytes());
        PlannedStep { step: format!("create {path}"), reason }
    });
    let created: Vec<PlannedStep> = created.collect();
    let Opened { looked, wanted, .. } = open(job, Start::Plan)?;
    let (plan, rules) = looked.plan(&wanted)?;
    Ok(created.into_iter().chain(steps(&plan, &rules)).collect())
}

/// A sandbox that waits for its command, the gate of its network, and warnings.
pub(super) fn ready(kind: &PoolKind) -> Result<(Ready, Option<SandboxNetwork>, Vec<String>)> {
    let PoolKind { policy, ask, count_usage, workspaces, .. } = kind;
    let mut job = Job::new(Arc::clone(policy), Vec::new());
    job.hooks = Hooks { count: *count_usage, ask: ask.clone(), ..Hooks::default() };
    let Opened { looked, gate, warnings, .. } = open(job, Start::Later)?;
    Ok((looked.wait(*workspaces)?, gate, warnings))
}

/// Starts a session for the policy of a job.
pub(super) fn session(job: Job, lasting: Lasting) -> Result<(Session, Running)> {
    let Lasting { timeout, idle } = lasting;
    let Opened { looked, gate, control, pipes, advice, warnings, .. } = open(job, Start::Later)?;
    let (session, started) = looked.serve(sandbox::Lasting { timeout, idle })?;
    follow(gate.as_ref(), control);
    let Started { supervisor, not_enforced, .. } = started;
    let supervisor = pool::Attended::alone(supervisor);
    Ok((session, Running { supervisor, gate, alone: false, advice, not_enforced, warnings, pipes }))
}

fn follow(gate: Option<&SandboxNetwork>, control: Option<ControlLines>) {
    if let (Some(gate), Some(lines)) = (gate, control) {
        gate.follow(lines);
    }
}
