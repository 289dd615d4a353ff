//! A job: one command in one sandbox, with everything that it needs. Whoever asks for a sandbox, the library's
//! [`Command`](crate::Command), a command line or another program's name, ends in one of these.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use kennel_policy::outcome::{Explain, UsageSink};
use kennel_policy::policy::Policy;

use crate::Stdio;
pub use crate::backend::InheritedMemory;
use crate::backend::{Backend, Native};
use crate::control::{AskAboutHosts, ControlLines};
use crate::network::Published;
use crate::terminal::Questions;

/// Variables of the caller's.
pub type Environment = Vec<(Cow<'static, OsStr>, Cow<'static, OsStr>)>;

/// One command in one sandbox.
pub struct Job {
    /// What is allowed.
    pub policy: Arc<Policy>,
    /// The command and its arguments.
    pub command: Vec<OsString>,
    /// The caller's variables; what the command gets of them is up to the policy.
    pub environment: Environment,
    /// The caller's working directory.
    pub cwd: PathBuf,
    /// Where the standard streams lead.
    pub streams: Streams,
    /// Who has a say, and who is told something.
    pub hooks: Hooks,
    /// The session that the command runs in, where it has no sandbox of its own.
    pub(crate) session: Option<Arc<<Native as Backend>::Session>>,
    /// Where it starts in its session, inside.
    pub(crate) workdir: Option<PathBuf>,
    /// Set where PID 1 is to be a clone of this process.
    pub(crate) memory: Option<InheritedMemory>,
    /// Where a sandbox may wait that was prepared for it.
    pub(crate) pool: Option<<Native as Backend>::Pool>,
    /// Whether this process has no other children.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux's backend asks"))]
    pub(crate) alone: bool,
}

/// Where the standard streams of a command lead.
#[derive(Debug)]
#[non_exhaustive]
pub enum Streams {
    /// To this process's own streams and terminal. Signals to this process are forwarded, and Ctrl-Z stops it with the job.
    Attached,
    /// To these.
    Given([Stdio; 3]),
    /// To a terminal of the sandbox's own, of this many rows and columns, whose other side is the caller's.
    Terminal {
        /// How many lines it shows.
        rows: u16,
        /// How many characters fit into one.
        columns: u16,
    },
    /// To these, but what is [`Stdio::piped`] is fed and captured: [`Running::take_output`](crate::Running::take_output) has it in the end.
    Captured {
        /// Input, output and errors.
        streams: [Stdio; 3],
        /// What the command reads.
        input: Option<Vec<u8>>,
    },
}

/// Who has a say while a job runs, and who is told something.
#[derive(Default)]
pub struct Hooks {
    /// Count what is used even if nothing limits it.
    pub count: bool,
    /// Who is told what is used, and how often.
    pub audience: Option<(Box<dyn UsageSink>, Duration)>,
    /// What the user is asked meanwhile, on the terminal.
    pub questions: Option<Questions>,
    /// Who is shown the steps that are about to be performed, each with the reason for it.
    pub show: Option<Box<Show>>,
    /// Brings new rules for the network.
    pub control: Option<ControlLines>,
    /// Function to ask about hosts that no rule covers.
    pub ask: Option<AskAboutHosts>,
    /// Is told, before the command starts, which free port was chosen for a published one.
    pub published: Option<fn(&Published)>,
    /// Is told which ports something inside listens on, where none is published and the network is the sandbox's own.
    pub listening: Option<Box<dyn FnMut(u16) + Send>>,
    /// Is told, before the command starts, each of [`Outcome::warnings`](crate::outcome::Outcome::warnings).
    pub warn: Option<fn(&str)>,
    /// Which calls that fail because of the sandbox are told in [`Outcome::denials`](crate::outcome::Outcome::denials). Only
    /// Linux looks.
    pub explain: Explain,
    /// How the caller allows a host that was blocked; the host follows.
    pub advice: &'static str,
}

/// Shows steps.
pub type Show = dyn FnMut(&[PlannedStep]) + Send;

/// A step of a plan, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlannedStep {
    /// What is done, on what.
    pub step: String,
    /// The rule behind it.
    pub reason: String,
}

impl Job {
    /// A job with the caller's variables and working directory, on the caller's own streams.
    #[must_use]
    pub fn new(policy: Arc<Policy>, command: Vec<OsString>) -> Job {
        let environment = std::env::vars_os().map(|(name, value)| (name.into(), value.into())).collect();
        let cwd = std::env::current_dir().unwrap_or_else(|_| "/".into());
        Job { environment, cwd, ..Job::bare(policy, command) }
    }

    /// A job without variables, in the root folder, on the caller's own streams.
    #[must_use]
    pub fn bare(policy: Arc<Policy>, command: Vec<OsString>) -> Job {
        Job {
            policy,
            command,
            environment: Environment::new(),
            cwd: "/".into(),
            streams: Streams::Attached,
            hooks: Hooks::default(),
            session: None,
            workdir: None,
            memory: None,
            pool: None,
            alone: false,
        }
    }

    /// Makes PID 1 a clone of this process, which is quicker than a program of its own, where there is `memory`: this process
    /// has a single thread then, and PID 1 wipes what is named there.
    pub fn clone_this_process(&mut self, memory: Option<InheritedMemory>) {
        self.memory = memory;
    }
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Neither the policy nor the variables: they may hold secrets.
        f.debug_struct("Job").field("cwd", &self.cwd).field("streams", &self.streams).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Hooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hooks").field("count", &self.count).finish_non_exhaustive()
    }
}
