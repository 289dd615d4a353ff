//! The window's size, and its changes.

use kennel_tests::screen::Screen;

#[test]
fn stty_size_is_the_window_s() {
    let Some(screen) = Screen::open() else { return };
    screen.line("$K run -- stty size");
    screen.wait_until("24 80", |shown| shown.lines().any(|line| line.trim() == "24 80"));
}

#[test]
fn a_resized_window_tells_the_command() {
    let Some(screen) = Screen::open() else { return };
    screen
        .line("$K run -- bash -c 'trap \"stty size\" WINCH; echo go-$((1+1)); while :; do sleep 0.05; done'");
    screen.wait_for("go-2");
    screen.resize(100, 30);
    screen.wait_until("30 100", |shown| shown.lines().any(|line| line.trim() == "30 100"));
    screen.resize(60, 20);
    screen.wait_until("20 60", |shown| shown.lines().any(|line| line.trim() == "20 60"));
    screen.key("C-c");
    assert_eq!(screen.exit_code(), "130");
}

#[test]
fn a_command_in_a_pipeline_is_told_too() {
    let Some(screen) = Screen::open() else { return };
    screen.line("$K run -- bash -c 'trap \"stty size < /dev/tty\" WINCH; echo go-$((1+1)); while :; do sleep 0.05; done' | cat");
    screen.wait_for("go-2");
    screen.resize(100, 30);
    screen.wait_until("30 100", |shown| shown.lines().any(|line| line.trim() == "30 100"));
}
