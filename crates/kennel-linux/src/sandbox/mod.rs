//! The main line: from a policy to the outcome.
//!
//! [`begin`] has PID 1 born, which makes its network; meanwhile the caller finds out what takes time. [`Begun::look`] takes
//! that and looks at the disk. What comes of it is [planned](Looked::plan), [runs a command](Looked::run), [waits for
//! one](Looked::wait) or [takes any number](Looked::serve).

mod attempt;
mod begin;
mod ground;
pub mod late;
mod launcher;
mod prepared;
mod request;
pub mod session;
mod streams;

use std::io;
use std::os::fd::OwnedFd;

pub use kennel_init::child::InheritedMemory;
use kennel_init::plan::Plan;

use crate::cgroup::CgroupError;
use crate::guard::Rules;
use crate::launch::LaunchError;
use crate::network::{NetworkPlan, TaggedSockets};
use crate::plan::PlanError;
use crate::resolve::ResolveError;
use crate::supervise::listening::Told;
use crate::supervise::terminal::Questions;
use crate::supervise::ticker::Ticker;
use crate::supervise::{StartError, Supervisor};
pub use begin::{Beginning, Begun, Looked, Purpose, begin};
pub use late::{Fit, Late, Ready};
pub use launcher::Birth;
pub use prepared::{Environment, Wanted, each_variable};
pub use session::{Lasting, Session};
pub use streams::Given;

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
    #[error("{}\nhelp: {}{}", .0, .0.help(), .0.or_best_effort())]
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
    /// Who is told which ports something inside listens on.
    pub listening: Option<Told>,
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
