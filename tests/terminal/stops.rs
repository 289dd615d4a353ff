//! Stopping: everything inside stands still, the clock goes on, and nothing inside hears what is typed meanwhile.

use std::process::Command;
use std::time::Duration;

use kennel_tests::leftovers::{processes_left_with, processes_with, unique_sleep};
use kennel_tests::{eventually, file_size, program, skipped, stays_as_it_is};

use kennel_tests::screen::Screen;

/// The controller of the run that has `marker` among its arguments.
fn controller(marker: &str) -> i32 {
    let kennel = kennel_tests::kennel_bin();
    eventually("kennel runs", || {
        let found = processes_with(marker);
        let mut pids = found.iter().filter_map(|line| line.split(':').next()?.parse::<i32>().ok());
        // PID 1 of the sandbox has wiped its arguments.
        pids.find(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.starts_with(kennel.as_os_str().as_encoded_bytes())
        })
    })
}

fn send(pid: i32, signal: i32) {
    // SAFETY: a plain call on a process that the test caused.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

#[test]
#[kennel_claim::claim("ends/timeout-while-stopped")]
fn a_command_that_stops_itself_evades_neither_the_clock_nor_listens_afterwards() {
    let Some(screen) = Screen::open() else { return };
    let work = screen.folder.dir("work");
    let sleep = unique_sleep();
    // One that would live on, write later, and read what the user types at the shell.
    let script = format!(
        "setsid sh -c 'cat <$1 >work/heard & sleep 5; date >work/late; sleep {sleep}' sh $(tty) & sleep 0.2; echo go-$((1+1)); kill -STOP $$"
    );
    screen.folder.write("inside.sh", &script);
    screen.line("$K run --allow-write work --timeout 3s -- sh inside.sh");
    screen.wait_for("Stopped");
    assert_eq!(screen.exit_code(), "148");
    screen.line("echo typed-$((1+1)) password");
    screen.wait_for("typed-2 password");
    // The controller is stopped; the time is up all the same, and nothing is left.
    let left = || processes_with(&sleep).is_empty().then_some(());
    eventually("everything inside has ended", left);
    assert_eq!(file_size(&work.join("late")), 0, "it ran past its time");
    assert_eq!(std::fs::read_to_string(work.join("heard")).unwrap_or_default(), "");
    screen.line("fg");
    screen.wait_for("timed out");
    assert_eq!(screen.exit_code(), "124");
}

#[test]
#[kennel_claim::claim("ends/timeout-while-stopped")]
fn a_stop_from_outside_does_not_stop_the_clock() {
    let Some(screen) = Screen::open() else { return };
    let sleep = unique_sleep();
    screen.line(&format!(
        "$K run --timeout 3s -- sh -c 'echo go-$((1+1)); setsid sleep {sleep} & sleep {sleep}'"
    ));
    screen.wait_for("go-2");
    let kennel = controller(&sleep);
    send(kennel, libc::SIGSTOP);
    screen.wait_for("Stopped");
    let inside = || {
        let found = processes_with(&sleep);
        found.iter().filter(|line| line.contains("sleep 86399")).all(|line| line.contains("run --timeout"))
    };
    eventually("everything inside has ended", || inside().then_some(()));
    screen.line("fg");
    screen.wait_for("timed out");
    assert_eq!(screen.exit_code(), "124");
}

#[test]
#[kennel_claim::claim("ends/stops-stop-everything")]
fn a_stop_stops_sessions_of_their_own_too_and_fg_continues_them() {
    let Some(screen) = Screen::open() else { return };
    let ticks = screen.folder.dir("work").join("ticks");
    let script = "setsid sh -c 'while :; do echo x >>work/ticks; sleep 0.02; done' & echo go-$((1+1)); while [ ! -e work/go ]; do sleep 0.02; done; read x; echo got-$x-$((1+2))";
    screen.folder.write("inside.sh", script);
    screen.line("$K run --allow-write work -- sh inside.sh");
    screen.wait_for("go-2");
    eventually("it runs", || (file_size(&ticks) > 4).then_some(()));
    screen.key("C-z");
    screen.wait_for("Stopped");
    assert_eq!(screen.exit_code(), "148");
    stays_as_it_is(&ticks);
    let before = file_size(&ticks);
    screen.line("bg");
    eventually("it goes on in the background", || (file_size(&ticks) > before + 4).then_some(()));
    // Then the command wants the keyboard, which is the shell's.
    screen.folder.write("work/go", "");
    screen.wait_until("stopped for input", |shown| {
        screen.key("Enter");
        shown.matches("Stopped").count() >= 2
    });
    stays_as_it_is(&ticks);
    screen.line("fg");
    screen.line("hello");
    screen.wait_for("got-hello-3");
    assert_eq!(screen.exit_code(), "0");
}

#[test]
#[kennel_claim::claim("ends/stops-stop-everything")]
fn a_command_that_ignores_the_stop_is_stopped_all_the_same() {
    let Some(screen) = Screen::open() else { return };
    let ticks = screen.folder.dir("work").join("ticks");
    let sleep = unique_sleep();
    let script = "trap '' TSTP; while :; do echo x >>work/ticks; sleep 0.02; done";
    screen.folder.write("inside.sh", script);
    // In the foreground of a pipeline, where Ctrl-Z comes from the caller's terminal; and without any terminal.
    for line in [
        format!("$K run --allow-write work -- sh inside.sh {sleep} | cat"),
        format!("$K run --allow-write work -- sh inside.sh {sleep} </dev/null >log 2>&1"),
    ] {
        screen.line(&line);
        let before = file_size(&ticks);
        eventually("it runs", || (file_size(&ticks) > before + 4).then_some(()));
        screen.key("C-z");
        screen.wait_for("Stopped");
        assert_eq!(screen.exit_code(), "148");
        stays_as_it_is(&ticks);
        let before = file_size(&ticks);
        screen.line("bg; clear");
        eventually("it goes on", || (file_size(&ticks) > before + 4).then_some(()));
        screen.line("kill %%; wait; clear");
        assert_eq!(processes_left_with(&sleep), Vec::<String>::new());
    }
}

#[test]
#[kennel_claim::claim("ends/stops-stop-everything")]
fn what_was_stopped_before_stays_stopped_after() {
    let Some(screen) = Screen::open() else { return };
    if program("ps").is_none() {
        return skipped("ps is not installed");
    }
    screen.line("$K run --env PS1='inside> ' -- bash --norc --noprofile -i");
    screen.wait_for("inside> ");
    screen.line("sleep 1000 & sleep 2000 & sleep 0.3; kill -STOP %1; jobs; echo set-$((1+1))");
    screen.wait_for("set-2");
    screen.line("suspend");
    screen.wait_until("the outer shell", |shown| shown.trim_end().ends_with("ready>"));
    screen.line("fg");
    screen.line("clear; ps -o stat=,args= | sed 's/^\\(.\\)[^ ]* */state-\\1 /'; echo seen-$((1+2))");
    let shown = screen.wait_for("seen-3");
    assert!(shown.contains("state-T sleep 1000") && shown.contains("state-S sleep 2000"), "{shown}");
    // And the shell inside knows of nothing but what it did itself.
    screen.line("clear; jobs; echo listed-$((1+3))");
    let shown = screen.wait_for("listed-4");
    assert!(shown.contains("Running                 sleep 2000"), "{shown}");
    screen.line("exit 4; exit 4");
    screen.wait_until("the outer shell", |shown| shown.trim_end().ends_with("ready>"));
    assert_eq!(screen.exit_code(), "4");
}

/// Everything is held while a question stands; a shell inside must not take that for a stop of its job.
#[test]
fn a_job_of_a_shell_inside_survives_a_question() {
    let Some(screen) = Screen::open() else { return };
    if program("curl").is_none() {
        return skipped("curl is not installed");
    }
    screen.line("$K run --no-settings --ask --env PS1='inside> ' -- bash --norc --noprofile -i");
    screen.wait_for("inside> ");
    for turn in 1..=3 {
        screen.line(&format!(
            "(sleep 0.5; curl -s -o /dev/null http://host{turn}.example/) & echo cat-$(({turn}+10)); cat"
        ));
        screen.wait_for(&format!("connect to host{turn}.example:80?"));
        screen.line("no");
        let line = format!("line-{turn}");
        screen.line(&line);
        screen.wait_until("cat's copy", |shown| shown.lines().filter(|shown| *shown == line).count() > 1);
        screen.key("C-d");
        screen.line(&format!("echo back-$(({turn}+20))"));
        let shown = screen.wait_for(&format!("back-{}", turn + 20));
        assert!(!shown.contains("Stopped"), "{shown}");
    }
    screen.line("exit 0");
    screen.wait_until("the outer shell", |shown| shown.trim_end().ends_with("ready>"));
}

#[test]
fn output_in_the_background_stops_the_job_where_the_user_wants_that() {
    let Some(screen) = Screen::open() else { return };
    screen.line("stty tostop");
    screen.line("$K run -- sh -c 'sleep 0.3; echo out-$((1+1)); echo more-$((1+2))' &");
    screen.wait_until("the job stopped for output", |shown| {
        screen.key("Enter");
        shown.contains("Stopped")
    });
    assert!(!screen.shown().contains("out-2"));
    screen.line("fg");
    screen.wait_for("more-3");
    assert!(screen.shown().contains("out-2"));
    assert_eq!(screen.exit_code(), "0");
    screen.line("stty -tostop");
    screen.line("$K run -- sh -c 'sleep 0.3; echo free-$((1+1))' &");
    screen.wait_for("free-2");
}

#[test]
fn a_running_job_that_is_brought_to_the_foreground_gets_the_keyboard_when_it_reads() {
    let Some(screen) = Screen::open() else { return };
    let work = screen.folder.dir("work");
    // bash sends no SIGCONT to a job that runs.
    screen.line("$K run --allow-write work -- sh -c 'until [ -e work/go ]; do sleep 0.05; done; echo > work/reads; read x; echo got-$x-$((1+1))' &");
    screen.line("fg");
    eventually("it has the terminal", || (screen.foreground() == "kennel").then_some(()));
    std::fs::write(work.join("go"), "").expect("a scratch folder");
    eventually("it is about to read", || work.join("reads").exists().then_some(()));
    screen.line("hello");
    screen.wait_for("got-hello-2");
    assert_eq!(screen.exit_code(), "0");
    // And the whole job can be interrupted before it reads.
    screen.line("$K run -- sh -c 'sleep 1000; read x' &");
    screen.line("fg");
    // The shell says its name before it gives the terminal away.
    eventually("it has the terminal", || (screen.foreground() == "kennel").then_some(()));
    screen.key("C-c");
    assert_eq!(screen.exit_code(), "130");
}

#[test]
fn a_script_without_job_control_is_not_stopped_by_a_command_that_stops() {
    // Nobody could continue it: the command goes on.
    let mut command = Command::new("setsid");
    command.args(["-w", "script", "-qc"]);
    if program("script").is_none() || program("setsid").is_none() {
        return skipped("script or setsid is not installed");
    }
    let kennel = kennel_tests::kennel_bin();
    command.arg(format!("{} run --no-settings -- sh -c 'kill -STOP $$; echo on-$((1+1))'", kennel.display()));
    command.arg("/dev/null").stdin(std::process::Stdio::null());
    let told = kennel_tests::ran_within(Duration::from_secs(20), &mut command);
    assert!(told.stdout.contains("on-2"), "{told:?}");
}
