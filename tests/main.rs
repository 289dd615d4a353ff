//! The end-to-end suites, as one program that Cargo builds together with the binary under test.
//!
//! Each module is a suite, and a process of its own when its tests run: see `kennel_tests::suite`. This file is a test target of the
//! package `kennel-cli`, since Cargo tells the binary to nobody else.

#![cfg(target_os = "linux")]

mod agents;
mod attack_budget;
mod attack_files;
mod attack_gate;
mod attack_guess;
#[path = "attack_files/kept.rs"]
mod attack_kept;
mod attack_rules;
mod cli;
mod clients;
mod compat;
mod endurance;
mod escape;
mod filesystem;
mod git;
mod gpu;
mod guard;
mod hosts;
mod install;
mod isolation;
mod library;
mod lifecycle;
mod limits;
mod network;
mod profiles;
mod public;
mod replaced;
mod rootfs;
mod secrets;
mod sessions;
mod terminal;
mod users;
mod zygote;

use kennel_tests::suite::Suite;

kennel_tests::suites! { env!("CARGO_BIN_EXE_kennel"), SUITES }

const SUITES: &[Suite] = &[
    Suite::new("agents"),
    Suite::new("attack_budget").with_roles(attack_budget::ROLES),
    Suite::new("attack_files").with_roles(attack_files::ROLES),
    Suite::new("attack_gate").with_roles(attack_gate::ROLES),
    Suite::new("attack_guess").with_roles(attack_guess::ROLES),
    Suite::new("attack_kept"),
    Suite::new("attack_rules").with_roles(attack_rules::ROLES),
    Suite::new("cli"),
    Suite::new("clients").entered_by(clients::enter),
    Suite::new("compat"),
    Suite::new("endurance").with_roles(endurance::ROLES),
    Suite::new("escape").with_roles(escape::ROLES),
    Suite::new("filesystem"),
    Suite::new("git"),
    Suite::new("gpu"),
    Suite::new("guard").with_roles(guard::ROLES),
    Suite::new("hosts").with_roles(hosts::ROLES),
    Suite::new("install"),
    Suite::new("isolation").with_roles(isolation::ROLES),
    Suite::new("library").with_roles(library::ROLES),
    Suite::new("lifecycle").with_roles(lifecycle::ROLES),
    Suite::new("limits").with_roles(limits::ROLES),
    Suite::new("network").with_roles(network::ROLES).entered_by(network::enter),
    Suite::new("profiles"),
    Suite::new("public").entered_by(public::enter),
    Suite::new("replaced").with_roles(replaced::ROLES),
    Suite::new("rootfs").with_roles(rootfs::ROLES),
    Suite::new("secrets").entered_by(secrets::enter),
    Suite::new("sessions").with_roles(sessions::ROLES),
    Suite::new("terminal").with_roles(terminal::ROLES),
    Suite::new("users"),
    Suite::new("zygote").with_roles(zygote::ROLES),
];
