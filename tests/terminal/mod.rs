//! Interactive programs on a real terminal, under tmux: job control, full-screen programs, and that the terminal comes
//! back.

mod answers;
mod carried;
mod full_screen;
mod injection;
mod interrupts;
mod job_control;
mod ownership;
mod questions;
mod servers;
mod size;
mod stops;
mod walls;

kennel_tests::roles! {
    "inject" => injection::inject,
    "unpublished-servers" => servers::listen,
    "terminal-commands" => walls::commands,
}
