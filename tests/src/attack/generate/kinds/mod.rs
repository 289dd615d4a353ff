//! What each kind of attack adds to a history.

mod git;
mod meanwhile;
mod names;
mod reach;
mod rules;
mod twice;
