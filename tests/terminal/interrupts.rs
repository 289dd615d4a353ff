//! Ctrl-C and Ctrl-\: who they reach, and what a shell makes of it.

use kennel_tests::screen::Screen;

#[test]
fn ctrl_c_ends_the_command_with_130() {
    let Some(screen) = Screen::open() else { return };
    screen.line("$K run -- sh -c 'echo go-$((1+1)); exec sleep 1000'");
    screen.wait_for("go-2");
    screen.key("C-c");
    assert_eq!(screen.exit_code(), "130");
}

#[test]
fn ctrl_c_stops_a_shell_loop_around_kennel() {
    let Some(screen) = Screen::open() else { return };
    screen.line(
        "for i in 1 2 3; do $K run -- sh -c 'echo go-$((1+1)); exec sleep 1000'; echo turn-$((4+5)); done",
    );
    screen.wait_for("go-2");
    screen.key("C-c");
    assert_eq!(screen.exit_code(), "130");
    assert!(!screen.shown().contains("turn-9"), "{}", screen.shown());
}

#[test]
fn a_command_that_handles_ctrl_c_has_the_last_word_and_the_loop_goes_on() {
    let Some(screen) = Screen::open() else { return };
    screen.line(
        "for i in 1 2; do $K run -- sh -c 'trap \"exit 7\" INT; echo go-$((1+1)); while :; do sleep 0.1; done'; echo turn-$?-$((4+5)); done",
    );
    screen.wait_for("go-2");
    screen.key("C-c");
    let shown = screen.wait_for("turn-7-9");
    assert_eq!(shown.matches("turn-7-9").count(), 1);
    // The second turn has begun: the loop was not stopped.
    screen.wait_until("a second go-2", |shown| shown.matches("go-2").count() == 2);
    screen.key("C-c");
    screen.wait_until("a second turn-7-9", |shown| shown.matches("turn-7-9").count() == 2);
}

#[test]
fn ctrl_c_reaches_the_command_once() {
    let Some(screen) = Screen::open() else { return };
    screen.line("$K run -- bash -c 'n=0; trap \"n=\\$((n+1)); echo hit-\\$((n+10))\" INT; echo go-$((1+1)); while [ $n -lt 2 ]; do sleep 0.1; done; echo end-$((n+20))'");
    screen.wait_for("go-2");
    screen.key("C-c");
    screen.wait_for("hit-11");
    let half_a_second = std::time::Duration::from_millis(500);
    kennel_tests::stays("one Ctrl-C is one", half_a_second, || !screen.shown().contains("hit-12"));
    screen.key("C-c");
    screen.wait_for("end-22");
}

#[test]
fn ctrl_backslash_ends_the_command_with_131() {
    let Some(screen) = Screen::open() else { return };
    screen.line("$K run -- sh -c 'echo go-$((1+1)); exec sleep 1000'");
    screen.wait_for("go-2");
    screen.key("C-\\");
    assert_eq!(screen.exit_code(), "131");
}

#[test]
fn ctrl_c_in_a_pipeline_ends_the_whole_pipeline() {
    let Some(screen) = Screen::open() else { return };
    screen.line("$K run -- sh -c 'echo go-$((1+1)) >&2; exec sleep 1000' | cat");
    screen.wait_for("go-2");
    screen.key("C-c");
    assert_eq!(screen.exit_code(), "130");
}

#[test]
#[kennel_claim::claim("ends/hang-ups")]
fn closing_the_terminal_ends_the_sandbox() {
    let Some(screen) = Screen::open() else { return };
    let sleep = kennel_tests::leftovers::unique_sleep();
    screen.line(&format!("$K run -- sh -c 'echo go-$((1+1)); exec sleep {sleep}'"));
    screen.wait_for("go-2");
    drop(screen);
    assert_eq!(kennel_tests::leftovers::processes_left_with(&sleep), Vec::<String>::new());
}
