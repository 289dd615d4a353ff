//! One file per command; here is the table of contents.

mod ask;
mod doctor;
mod plan;
mod policy;
mod report;
mod run;
mod stats;

use std::ffi::OsString;
use std::io::Write;

use kennel_policy::printed::{show_json, show_lines};
pub use run::{end_like, not_started, tell};

use crate::flags::{self, Invocation};

/// The exit code when kennel itself failed, as `env`, `timeout` and their like have it.
pub const FAILED: i32 = 125;

/// Does what the words ask for and returns the exit code.
pub fn dispatch(words: impl Iterator<Item = OsString>) -> i32 {
    match flags::parse(words) {
        Ok(Invocation::Run(args)) => run::run(&args),
        Ok(Invocation::Plan { args, json }) => plan::plan(&args, json),
        Ok(Invocation::Doctor { json }) => doctor::doctor(json),
        Ok(Invocation::Codex(words)) => crate::codex::main(words.into_iter()),
        Ok(Invocation::Srt(words)) => crate::srt::main(words.into_iter()),
        Ok(Invocation::Schema) => print(&format!("{:#}\n", kennel_policy::settings::schema())),
        Ok(Invocation::Completions(shell)) => print(&flags::completions::script(shell)),
        Ok(Invocation::Man) => print(&flags::man::page()),
        Ok(Invocation::Help(topic)) => print(&flags::help::render(topic)),
        Ok(Invocation::Version) => print(concat!("kennel ", env!("CARGO_PKG_VERSION"), "\n")),
        Err(error) => {
            say(&error.to_string());
            error.exit_code().into()
        }
    }
}

/// Writes to standard output. A reader that went away is no error of ours.
pub fn print(text: &str) -> i32 {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => 0,
        Err(_) => 1,
    }
}

/// Writes a message to standard error. What it quotes may be a stranger's: a settings file that was found, a name on
/// the disk. Nothing of it reaches the terminal as a control sequence.
pub fn say(message: &str) {
    put(&format!("{}\n", show_lines(message)));
}

/// The same for lines that end where they should.
fn say_lines(lines: &str) {
    put(&show_lines(lines));
}

/// A value as text that shows all of it.
fn json_text(value: &serde_json::Value) -> String {
    format!("{}\n", show_json(&format!("{value:#}")))
}

/// Writes to standard error. A terminal that hangs is not waited for: whoever waits for kennel's end would wait for it too.
fn put(text: &str) {
    use std::io::IsTerminal;
    use std::os::unix::fs::OpenOptionsExt;
    let mut stderr = std::io::stderr();
    let own = stderr.is_terminal().then(|| {
        // An open file of this process's own: the flag would hold for everybody who shares the caller's.
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        std::fs::OpenOptions::new().write(true).custom_flags(flags).open("/proc/self/fd/2")
    });
    match own {
        Some(Ok(terminal)) => put_in_time(&terminal, text.as_bytes()),
        _ => drop(stderr.write_all(text.as_bytes())),
    }
}

fn put_in_time(mut terminal: &std::fs::File, mut text: &[u8]) {
    use std::os::fd::AsRawFd;
    const PATIENCE: libc::c_int = 1000;
    while !text.is_empty() {
        match terminal.write(text) {
            Ok(count) => text = &text[count..],
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                let mut ready = libc::pollfd { fd: terminal.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
                // SAFETY: one structure, which the kernel fills in.
                if unsafe { libc::poll(&raw mut ready, 1, PATIENCE) } == 0 {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}
