//! PID 1 of a sandbox, and the plan that it performs.
//!
//! Two things live here. [`plan`] holds the types of a plan, which the planner builds and a person can read.
//! [`child`] is the program that performs one: without allocation, without libc. It is compiled twice: into this
//! library, for callers that clone themselves and call [`child::run`]; and into [`PROGRAM`], a static executable of a
//! few kilobytes that a large caller carries and executes instead.

#![no_std]

extern crate alloc;

pub mod child;
pub mod encode;
pub mod plan;
pub mod report;
pub mod role;

/// The executable: init as a program of its own. Its argument is the number of the descriptor of the link to its
/// controller; a second one has it cover names again in a sandbox that runs.
pub static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kennel-init"));
