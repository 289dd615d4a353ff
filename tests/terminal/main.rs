//! Interactive programs on a real terminal, under tmux: job control, full-screen programs, and that the terminal comes
//! back.

mod full_screen;
mod injection;
mod interrupts;
mod job_control;
mod ownership;
mod screen;
mod size;

kennel_tests::roles! {
    "inject" => injection::inject,
}
