//! What a host supports for sandboxes, as reported to the user.

use std::fmt;

/// Something that a host has or lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was checked.
    pub subject: &'static str,
    /// How it stands.
    pub state: State,
    /// In words.
    pub detail: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

/// How something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// There.
    Good,
    /// Missing, but kennel's promises hold without it.
    Weaker,
    /// Missing, and sandboxes need it.
    Missing,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            State::Good => "ok",
            State::Weaker => "weaker",
            State::Missing => "missing",
        })
    }
}
