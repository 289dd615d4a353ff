//! Ctrl-Z, `fg`, `bg`, background starts, and a shell with job control of its own inside.

use kennel_tests::screen::Screen;
use kennel_tests::{file_size, stays_as_it_is};

#[test]
fn ctrl_z_stops_the_command_and_fg_continues_it_with_the_terminal() {
    let Some(screen) = Screen::open() else { return };
    screen.line("$K run -- sh -c 'echo go-$((1+1)); read x; echo got-$x-$((1+2)); exit 5'");
    screen.wait_for("go-2");
    screen.key("C-z");
    screen.wait_for("Stopped");
    assert_eq!(screen.exit_code(), "148");
    screen.line("fg");
    screen.line("hello");
    screen.wait_for("got-hello-3");
    assert_eq!(screen.exit_code(), "5");
}

#[test]
fn a_stopped_command_does_nothing_and_bg_lets_it_go_on() {
    let Some(screen) = Screen::open() else { return };
    let work = screen.folder.dir("work");
    let ticks = work.join("ticks");
    screen.line("$K run --allow-write work -- sh -c 'echo go-$((1+1)); while :; do echo x >> work/ticks; sleep 0.05; [ -e work/end ] && break; done; echo fin-$((1+2))'");
    screen.wait_for("go-2");
    screen.key("C-z");
    screen.wait_for("Stopped");
    // The stop has been told by the shell, so it has happened; what counts is that it lasts.
    let size = || file_size(&ticks);
    let before = size();
    stays_as_it_is(&ticks);
    screen.line("bg");
    kennel_tests::eventually("it goes on in the background", || (size() > before + 4).then_some(()));
    assert_eq!(screen.exit_code(), "0");
    std::fs::write(work.join("end"), "").expect("a scratch folder");
    screen.wait_for("fin-3");
}

#[test]
fn ctrl_z_and_fg_work_again_and_again() {
    let Some(screen) = Screen::open() else { return };
    screen.line("$K run -- sh -c 'echo go-$((1+1)); read x; echo got-$x-$((1+2))'");
    screen.wait_for("go-2");
    for turn in 1..=4 {
        screen.key("C-z");
        screen.wait_until("one more Stopped", |shown| shown.matches("Stopped").count() == turn);
        assert_eq!(screen.exit_code(), "148");
        screen.line("fg");
        // `fg` names the job it continues.
        screen.wait_until("the job's name", |shown| shown.matches("\n$K run").count() >= turn);
    }
    screen.line("end");
    screen.wait_for("got-end-3");
    assert_eq!(screen.exit_code(), "0");
}

#[test]
fn a_command_started_in_the_background_stops_for_input_and_gets_it_with_fg() {
    let Some(screen) = Screen::open() else { return };
    screen.line("$K run -- cat &");
    screen.wait_until("the job stopped for input", |shown| {
        screen.key("Enter");
        shown.contains("Stopped")
    });
    screen.line("fg");
    // What is typed before `fg` has the shell's line goes to the shell.
    screen.wait_until("the job's name", |shown| shown.contains("fg\n$K run -- cat"));
    screen.line("hello-there");
    screen.wait_until("the line and cat's copy", |shown| {
        shown.lines().filter(|line| *line == "hello-there").count() == 2
    });
    screen.key("C-d");
    assert_eq!(screen.exit_code(), "0");
}

#[test]
fn a_command_started_in_the_background_ends_without_taking_the_terminal() {
    let Some(screen) = Screen::open() else { return };
    screen.line("$K run -- sh -c 'sleep 0.3; echo bg-$((1+1))' &");
    assert_eq!(screen.exit_code(), "0");
    screen.wait_for("bg-2");
    screen.line("wait; echo waited-$((1+2))");
    screen.wait_for("waited-3");
}

#[test]
fn a_shell_inside_has_job_control_of_its_own() {
    let Some(screen) = Screen::open() else { return };
    screen.line("$K run --env PS1='inside> ' -- bash --norc --noprofile -i");
    let shown = screen.wait_for("inside> ");
    assert!(!shown.contains("no job control"), "{shown}");
    screen.line("sleep 1000 &");
    screen.line("jobs; echo listed-$((1+1))");
    let shown = screen.wait_for("listed-2");
    assert!(shown.contains("Running"), "{shown}");
    screen.line("fg");
    screen.wait_until("the job in the foreground", |shown| {
        shown.lines().any(|line| line.trim() == "sleep 1000")
    });
    screen.key("C-z");
    screen.wait_for("Stopped");
    screen.line("kill %1; wait; echo killed-$((1+2))");
    screen.wait_for("killed-3");
    // What is typed while the shell still reads its own line would reach cat as the shell's modes have it.
    screen.line("echo cat-$((1+4)); cat");
    screen.wait_for("cat-5");
    screen.line("typed");
    // Once by the terminal, once by cat: now it has the terminal.
    screen
        .wait_until("what cat says", |shown| shown.lines().filter(|line| line.trim() == "typed").count() > 1);
    screen.key("C-c");
    screen.wait_until("the prompt again", |shown| shown.trim_end().ends_with("inside>"));
    screen.line("echo still-inside-$?-$((1+3))");
    screen.wait_for("still-inside-130-4");
    screen.line("exit 9");
    screen.wait_until("the outer shell", |shown| shown.trim_end().ends_with("ready>"));
    assert_eq!(screen.exit_code(), "9");
}

#[test]
fn suspending_a_shell_inside_suspends_kennel() {
    let Some(screen) = Screen::open() else { return };
    screen.line("$K run --env PS1='inside> ' -- bash --norc --noprofile -i");
    screen.wait_for("inside> ");
    screen.line("suspend");
    screen.wait_for("Stopped");
    assert_eq!(screen.exit_code(), "148");
    screen.line("fg");
    screen.line("echo back-$((1+1))");
    screen.wait_for("back-2");
    screen.line("exit");
    screen.wait_until("the outer shell", |shown| shown.trim_end().ends_with("ready>"));
}
