//! What kennel does: one file per command, and here what they share.

mod agents;
mod ask;
mod doctor;
mod inner_sandbox;
mod plan;
mod policy;
mod profiles;
mod report;
mod run;
mod run_as;
mod secrets;
mod stats;

use std::io::Write;

use kennel_policy::printed::{show_json, show_lines};

pub use doctor::doctor;
pub use plan::plan;
pub use profiles::{profile, profiles};
pub use run::run;
pub use run_as::RunAs;
pub use secrets::secrets;

use crate::platform::write_error;

/// The exit code when kennel itself failed, as `env`, `timeout` and their like have it.
pub const FAILED: i32 = 125;

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
    write_error(&format!("{}\n", show_lines(message)));
}

/// The same for lines that end where they should.
fn say_lines(lines: &str) {
    write_error(&show_lines(lines));
}

/// A value as text that shows all of it.
fn json_text(value: &serde_json::Value) -> String {
    format!("{}\n", show_json(&format!("{value:#}")))
}
