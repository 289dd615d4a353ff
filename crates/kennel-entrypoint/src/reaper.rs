//! `AGENT_INIT=1`: staying as PID 1 while the agent runs as a child.
//!
//! An agent that *is* PID 1 has two surprises in store: orphaned processes become its children, and most programs never
//! wait for children they did not start; and the kernel delivers to PID 1 only signals that it has a handler for, so
//! that `docker stop` waits ten seconds and kills. This init has neither: it waits for whatever dies, hands every
//! signal on to the agent's process group, and ends as the agent ends. The kernel then ends what is left in the
//! container.
//!
//! By now this process is the agent's user. It holds no descriptor but the standard ones, its initial environment is
//! wiped, and it cannot be dumped or traced, so that the agent finds nothing in it.

use core::ffi::c_int;

use crate::program::Program;
use crate::report::Trouble;
use crate::sys::{self, Pid, SignalSet};

/// All signals but those that a fault of this program would raise.
const WAITED: SignalSet = SignalSet::FULL
    .without(libc::SIGILL)
    .without(libc::SIGTRAP)
    .without(libc::SIGABRT)
    .without(libc::SIGBUS)
    .without(libc::SIGFPE)
    .without(libc::SIGSEGV)
    .without(libc::SIGSYS);

/// Starts the agent and serves until it ends. Returns its exit code, or 128 plus the number of the signal that ended it.
pub fn run(program: &Program) -> Result<c_int, Trouble> {
    if !sys::is_pid_1() {
        // In a PID namespace shared with others (a pod's, the host's) orphans would pass this process by.
        sys::become_subreaper();
    }
    // From here on signals wait to be fetched: none is lost between the fork and the loop, and the kernel queues even
    // those that PID 1 has no handler for.
    sys::set_signal_mask(&WAITED);

    let agent = match sys::fork() {
        Err(errno) => return Err(Trouble::new("starting the agent", "fork", errno.text())),
        Ok(None) => become_agent(program),
        Ok(Some(agent)) => agent,
    };
    // The child does the same; whoever comes first, the group exists before a signal is handed on to it.
    sys::make_process_group(agent);
    Ok(serve(agent))
}

/// The child: a process group of its own, the terminal if there is one, no signal blocked.
fn become_agent(program: &Program) -> ! {
    sys::make_process_group(Pid::SELF);
    // Without this, reading from the terminal of `docker run -it` would stop the agent as a background job. The signal
    // for that (SIGTTOU) is still blocked here, which is what permits the call.
    sys::pass_on_terminal();
    sys::set_signal_mask(&SignalSet::EMPTY);
    program.exec().report_fatal();
    sys::exit(1)
}

fn serve(agent: Pid) -> c_int {
    loop {
        match sys::next_signal(&WAITED) {
            Some(libc::SIGCHLD) => {
                // One SIGCHLD may stand for many deaths.
                while let Some((pid, ending)) = sys::reap() {
                    if pid == agent {
                        return ending.exit_code();
                    }
                }
            }
            Some(signal) => sys::signal_group(agent, signal),
            None => {}
        }
    }
}
