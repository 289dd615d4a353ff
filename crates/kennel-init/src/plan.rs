//! The plan: the exact, ordered steps that turn a fresh set of namespaces into the sandbox, as a plain value.
//!
//! Nothing in it refers to the process that made it: no descriptors, no pointers. A test can compare it, a person
//! can read it (`kennel plan`), and [`encode`](crate::encode) turns it into the bytes that init performs.

use alloc::ffi::CString;
use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::time::Duration;

use crate::child::steps::each_step;
pub use crate::child::sys::Identity;

/// All that init does before the command runs, and the command: three parts, sent one by one. The first two can be performed
/// before the third is known. Where the set-up ends in [`Step::Later`], a further part with steps comes before the command.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Plan {
    /// Performed first: what needs nothing of the host's disk. Init does it while its controller plans the rest.
    pub opening: Vec<Planned>,
    /// Performed then, in this order. Each step is done completely, or the sandbox does not start.
    pub steps: Vec<Planned>,
    /// What is started at the end.
    pub command: Command,
}

impl Plan {
    /// The step that init counts as this one.
    #[must_use]
    pub fn step(&self, index: u32) -> Option<&Planned> {
        self.opening.iter().chain(&self.steps).nth(index as usize)
    }
}

/// A step and why it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// What is done.
    pub step: Step,
    /// The policy rule behind it, in the user's words.
    pub reason: String,
}

macro_rules! step {
    ($($(#[doc = $what:literal])+ $name:ident $({ $($field:ident: $kind:ty = $about:literal),+ $(,)? })?,)*) => {
        /// One thing init does.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Step {
            $(
                $(#[doc = $what])+
                $name $({ $(#[doc = $about] $field: $kind,)+ })?,
            )*
        }
    };
}

each_step!(step);

/// A folder from which names to cover are looked up, wherever the host moves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// Where it is inside, when it is taken hold of.
    pub path: CString,
    /// Which folder it is.
    pub identity: Identity,
}

/// A name to cover again in a sandbox that runs, because the host has put something else there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Covering {
    /// Where `target` starts: 0 for the root, otherwise the base with this number, counted from 1.
    pub base: u32,
    /// Where, inside.
    pub target: CString,
    /// How.
    pub cover: Cover,
    /// The mounts that are known to cover the name. Any other may have been moved there with a file of the host's.
    pub known: Vec<u64>,
    /// What else counts as its cover.
    pub first: FirstLook,
}

/// Which mount covers a name that nobody has looked at yet: the one that was placed when the sandbox was set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstLook {
    /// None; the name has been looked at before.
    Over,
    /// The one on this file, which stood there when the sandbox was planned.
    On(Identity),
    /// Any of a file system of kennel's own; the host has this file there.
    Own(Identity),
}

/// How a name is covered, so that what the host puts there is as protected as what was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cover {
    /// It is hidden.
    Hide,
    /// It can be read, and not written.
    Keep,
    /// It can be written, but not moved: something protected lies below it.
    Hold,
}

/// What may be done below a bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read.
    Read,
    /// Read and write.
    Write,
    /// Use a device node.
    Device,
}

/// The limit on open descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OpenFiles {
    /// The caller's.
    #[default]
    Inherit,
    /// The caller's, which cannot be raised beyond this.
    AtMost(u64),
    /// This, as far as the caller's can be raised.
    Exactly(u64),
}

/// What is started, and how.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Command {
    /// Paths to try in turn, as a shell goes through `PATH`.
    pub candidates: Vec<CString>,
    /// Arguments, the name first.
    pub arguments: Vec<CString>,
    /// `NAME=value` pairs.
    pub environment: Vec<CString>,
    /// How the command stands to the sandbox's terminal.
    pub terminal: Terminal,
    /// After which time init ends everything by itself, whatever becomes of the controller's clock.
    pub time_limit: Option<Duration>,
    /// Descriptors above 2 that the command gets.
    pub keep: Vec<i32>,
    /// How many descriptors each of its processes may have open. Not a step: init itself sends descriptors, and the kernel
    /// compares how many of the user's are on their way with the sender's limit.
    pub open_files: OpenFiles,
    /// Whether init says nothing when the command starts, and only how it ends, or why it could not be started.
    pub starts_silently: bool,
    /// Which of several users it starts as.
    pub user: Option<CommandUser>,
}

/// Who a command is, of several users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CommandUser {
    /// Its uid inside.
    pub uid: u32,
    /// Its gid inside.
    pub gid: u32,
    /// Whether it has the caller's other groups.
    pub groups: bool,
    /// A bit for each capability that it has.
    pub capabilities: u64,
}

/// How the command stands to the sandbox's terminal, whose session is init's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Terminal {
    /// There is none: a session of its own.
    #[default]
    Detached,
    /// A process group of its own, in the background until it asks for the terminal.
    Background,
    /// A process group of its own that has the terminal from the start.
    Foreground,
}
