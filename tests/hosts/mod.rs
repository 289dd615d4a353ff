//! Hosts that cannot do everything: `kennel doctor` says so, `kennel run` fails closed with the same words, and
//! `--best-effort` goes on with what there is and lists what is not enforced. Every lack is made for real.

mod best_effort;
mod clone3;
mod doctor;
mod embedding;
mod fail_closed;
mod landlock_files;
mod landlock_processes;
mod landlock_terminal;
mod masked_proc;
mod world;

kennel_tests::roles! {
    "world" => world::enter,
    "attempt" => landlock_files::attempt,
    "sockets" => landlock_processes::sockets,
    "tier-killer" => landlock_processes::killer,
    "hosts-embedder" => embedding::embedder,
}
