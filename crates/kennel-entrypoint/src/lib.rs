//! PID 1 for containers that run an agent: strip the control plane's variables, drop root, become the agent.
//!
//! The whole program is [`boot`], and `boot` is the list of its steps:
//!
//! 1. let go of what was inherited: descriptors above 2, blocked and ignored signals, the right to be dumped;
//! 2. take the environment, leaving the control plane's and the agent configuration's variables behind, and wipe
//!    those where the kernel had put them;
//! 3. decide which command to run, with which arguments;
//! 4. change to the working directory;
//! 5. drop to the agent's user, and prove that the way back is closed; leave the caller's keys;
//! 6. find the program and replace this process by it (or, with `AGENT_INIT=1`, start it and stay as its init).
//!
//! It runs before anything in the container is trusted less than the image, so the image's files (`/etc/passwd`,
//! the programs in `PATH`) and the variables are taken at their word, but read with bounds. What it protects is the
//! control plane's values from the agent, and root from the agent.
//!
//! No standard library, because there is no C library: see the binary's `start.rs` for the reason.
#![cfg(target_os = "linux")]
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod command;
mod environment;
mod identity;
mod inherited;
mod json;
mod passwd;
mod program;
mod reaper;
mod report;
mod sys;
mod words;

use alloc::vec::Vec;
use core::ffi::{CStr, c_int};

use command::Command;
use environment::Environment;
use program::Program;
use report::Trouble;
use sys::InitialString;

pub use sys::Strings;

/// Runs the boot sequence with the kernel's arguments and environment of this process, which has a single thread. Returns an exit
/// code only if the agent could not be started or, with `AGENT_INIT=1`, has ended; otherwise this process has become the agent.
#[must_use]
pub fn boot(arguments: Strings, environment: Strings) -> c_int {
    // Before the first look at a secret: nobody may attach to this process from here on.
    sys::forbid_dumping();
    inherited::close_descriptors();
    inherited::reset_signals();
    // Since Linux 5.18 there is at least the program's own name; before, there could be nothing.
    let own_arguments = arguments.skip(1).map(InitialString::keep).collect();
    match start(own_arguments, Environment::take(environment)) {
        Ok(code) => code,
        Err(trouble) => {
            trouble.report_fatal();
            1
        }
    }
}

/// Ends this process.
pub fn exit(code: c_int) -> ! {
    sys::exit(code)
}

/// What a release does on a panic.
pub fn die_of_panic() -> ! {
    Trouble::new("running", "kennel-entrypoint", "a bug, or out of memory").report_fatal();
    sys::exit(1)
}

fn start(own_arguments: Vec<&CStr>, environment: Environment) -> Result<c_int, Trouble> {
    let Environment { kept, configuration } = environment;
    let strict = configuration.strict()?;
    let stay_as_init = configuration.init()?;

    let command = Command::resolve(&configuration, own_arguments)?;
    change_directory(configuration.workdir(), strict)?;
    identity::drop_to(configuration.user(), strict)?;
    inherited::leave_keyring();

    let program = Program::find(command, kept)?;
    if stay_as_init { reaper::run(&program) } else { Err(program.exec()) }
}

/// Goes to the agent's working directory, still as root: the directory need not be one that the agent could have
/// reached by itself.
fn change_directory(workdir: &CStr, strict: bool) -> Result<(), Trouble> {
    sys::chdir(workdir).or_else(|errno| {
        Trouble::new("changing to the working directory", workdir.to_bytes(), errno.text())
            .help("create it in the image or mount it, or set AGENT_WORKDIR to a directory that exists")
            .tolerate(strict, "the agent starts in the current one")
    })
}
