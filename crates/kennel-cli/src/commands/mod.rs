//! What kennel does: one file per command, and here what they share.

mod agents;
mod answers;
mod ask;
mod bypass;
mod caches;
mod consent;
mod denials;
mod doctor;
mod enable;
mod inner_sandbox;
mod not_found;
mod noted;
mod plan;
mod policy;
mod private_home;
mod profiles;
mod project;
mod registries;
mod report;
mod run;
mod run_as;
mod secrets;
mod shims;
mod startup_files;
mod stats;
mod summary;
mod trust;

use std::io::Write;

use kennel_policy::printed::{show_json, show_lines};

pub use answers::{answers, remove_answers};
pub use bypass::{bypass, shim};
pub use caches::{cache_table, caches, clear_caches};
pub use doctor::doctor;
pub use enable::{disable, enable};
pub use plan::plan;
pub use profiles::{profile, profiles};
pub use registries::registries;
pub use run::run;
pub use run_as::RunAs;
pub use secrets::secrets;
pub use shims::variables;
pub use trust::trust;

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
