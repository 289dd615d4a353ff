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
    let _ = writeln!(std::io::stderr(), "{}", show_lines(message));
}

/// The same for lines that end where they should.
fn say_lines(lines: &str) {
    let _ = std::io::stderr().write_all(show_lines(lines).as_bytes());
}

/// A value as text that shows all of it.
fn json_text(value: &serde_json::Value) -> String {
    format!("{}\n", show_json(&format!("{value:#}")))
}
