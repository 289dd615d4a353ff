//! Whose the terminal is: the command's while it runs, the caller's before and after.

use kennel_tests::screen::Screen;

#[test]
fn tty_names_a_device_that_is_this_terminal() {
    let Some(screen) = Screen::open() else { return };
    screen.line("$K run -- sh -c 'test -t 0 && test -t 1 && test -t 2 && echo all-$((1+1))'");
    screen.wait_for("all-2");
    screen.line("$K run -- sh -c 'name=$(tty) && echo \"name is $name\" && echo wrote-$((1+2)) > \"$name\" </dev/null'");
    let shown = screen.wait_for("wrote-3");
    assert!(shown.contains("name is /dev/"), "{shown}");
}

#[test]
fn the_controlling_terminal_can_be_opened_by_its_general_name() {
    let Some(screen) = Screen::open() else { return };
    screen.line("$K run -- sh -c 'read x < /dev/tty; echo got-$x-$((1+1)) > /dev/tty' < /dev/null > /dev/null; echo end-$((1+2))");
    screen.line("secret");
    let shown = screen.wait_for("end-3");
    assert!(shown.contains("got-secret-2"), "{shown}");
}

#[test]
fn a_script_can_read_from_the_terminal_after_kennel() {
    let Some(screen) = Screen::open() else { return };
    screen.line("sh -c '$K run -- true; read x; echo got-$x-$((1+1))'");
    screen.line("hello");
    screen.wait_for("got-hello-2");
    assert_eq!(screen.exit_code(), "0");
}

#[test]
fn the_terminal_comes_back_when_the_command_is_killed_by_the_clock() {
    let Some(screen) = Screen::open() else { return };
    screen.line("sh -c '$K run --timeout 500ms -- cat; echo ended-$?; read x; echo got-$x-$((1+1))'");
    screen.wait_for("ended-124");
    screen.line("hello");
    screen.wait_for("got-hello-2");
}

#[test]
fn the_terminal_comes_back_when_the_command_cannot_be_started() {
    let Some(screen) = Screen::open() else { return };
    screen.line("sh -c '$K run -- /no/such/command; echo ended-$?; read x; echo got-$x-$((1+1))'");
    screen.wait_for("ended-127");
    screen.line("hello");
    screen.wait_for("got-hello-2");
}

#[test]
fn the_terminal_comes_back_when_pid_1_is_killed() {
    let Some(screen) = Screen::open() else { return };
    screen.line("sh -c '$K run -- sh -c \"echo go-\\$((1+1)); cat\"; echo ended-$?; read x; echo got-$x-$((1+1))' & fg");
    screen.wait_for("go-2");
    let marker = "run -- sh -c echo go-";
    let controller = kennel_tests::leftovers::processes_with(marker)
        .iter()
        .filter_map(|line| line.split(':').next()?.parse::<u32>().ok())
        .find(|pid| {
            std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == screen.folder.path())
                && is_kennel(*pid)
        });
    let controller = controller.expect("kennel runs in the folder of this screen");
    let children =
        std::fs::read_to_string(format!("/proc/{controller}/task/{controller}/children")).expect("/proc");
    let init: i32 = children.trim().parse().expect("one child");
    // SAFETY: a plain call on a process that this test caused.
    unsafe { libc::kill(init, libc::SIGKILL) };
    screen.wait_for("ended-137");
    screen.line("hello");
    screen.wait_for("got-hello-2");
}

fn is_kennel(pid: u32) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.starts_with(kennel_tests::kennel_bin().as_os_str().as_encoded_bytes())
}

#[test]
#[kennel_claim::claim("processes/kill-reaches-only-inside")]
fn kill_0_inside_does_not_reach_the_caller() {
    let Some(screen) = Screen::open() else { return };
    // The script and kennel share a process group: a signal that got out would end both.
    screen.line("sh -c '$K run -- sh -c \"kill -TERM 0; sleep 60\"; echo ended-$?; $K run -- sh -c \"kill -KILL 0\"; echo ended-$?-$((1+1))'");
    let shown = screen.wait_for("ended-137-2");
    assert!(shown.contains("ended-143"), "{shown}");
    assert_eq!(screen.exit_code(), "0");
}

#[test]
fn without_any_stream_on_the_terminal_the_command_has_none() {
    let Some(screen) = Screen::open() else { return };
    screen.line(
        "$K run -- sh -c 'tty; (: < /dev/tty) && echo opened' < /dev/null > log 2>&1; echo end-$((1+1))",
    );
    screen.wait_for("end-2");
    let log = std::fs::read_to_string(screen.folder.join("log")).expect("the shell wrote it");
    assert!(log.contains("not a tty") && !log.contains("opened"), "{log}");
}
