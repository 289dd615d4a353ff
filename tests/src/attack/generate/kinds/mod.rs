//! What each kind of attack adds to a history.

mod git;
mod git_raw;
mod meanwhile;
mod names;
mod reach;
mod rules;
mod twice;
