//! The entrypoint for real: PID 1 of a new PID namespace, with a root file system of its own, as root and as an
//! ordinary user. Every row of every table in `docs/containers.md` has a test here.
//!
//! The agents are the host's own `sh`, `cat` and so on, bound into the new root.
//!
//! `KENNEL_ENTRYPOINT=path` tests another binary than the one that cargo built for the tests, such as a release: only
//! that one is free of the standard library (see `src/start.rs`).
#![cfg(target_os = "linux")]

mod binary;
mod command;
mod container;
mod init;
mod launch;
mod residue;
mod strict;
mod user;
mod variables;
mod workdir;
