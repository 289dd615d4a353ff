//! `--ask`: a question on the terminal about a host that no rule speaks of.

use kennel_tests::{kennel, ran_within};

use crate::network::LONG;
use kennel_tests::screen::Screen;
use kennel_tests::world::world;

/// A terminal in this world.
fn terminal() -> Option<Screen> {
    world()?;
    Screen::open()
}

/// A GET whose words on the screen are not those that were typed.
fn get(name: &str) -> String {
    format!("curl -s -o /dev/null -w 'status-%{{http_code}}\\n' http://{name}.web.test/hello")
}

#[test]
fn yes_lets_a_host_through_from_then_on_and_once_only_once() {
    let Some(screen) = terminal() else { return };
    let ask = get("asked");
    screen.line(&format!("$K run --no-settings --ask -- sh -c \"{ask}; {ask}; echo both-\\$((1+1))\""));
    screen.wait_for("connect to asked.web.test:80? [yes/once/No]");
    screen.line("yes");
    let shown = screen.wait_for("both-2");
    assert_eq!(shown.matches("connect to asked.web.test:80?").count(), 1, "{shown}");
    assert_eq!(shown.lines().filter(|line| *line == "status-200").count(), 2, "{shown}");
    assert_eq!(screen.exit_code(), "0");

    let ask = get("once");
    screen.line(&format!("$K run --no-settings --ask -- sh -c \"{ask}; {ask}; echo once-\\$((1+1))\""));
    screen.wait_for("connect to once.web.test:80?");
    screen.line("once");
    screen
        .wait_until("the question again", |shown| shown.matches("connect to once.web.test:80?").count() == 2);
    screen.line("");
    let shown = screen.wait_for("once-2");
    assert!(shown.contains("status-403"), "{shown}");
    assert_eq!(screen.exit_code(), "0");
}

#[test]
#[kennel_claim::claim("network/only-the-user-answers")]
fn no_answer_in_time_and_an_interrupt_are_a_no() {
    let Some(screen) = terminal() else { return };
    screen.folder.write("short.toml", "[network]\nask = true\nask_timeout = \"1s\"\n");
    let run = "$K run --no-settings --settings short.toml";
    screen.line(&format!("{run} -- sh -c \"{}; echo late-\\$((1+1))\"", get("late")));
    let shown = screen.wait_for("late-2");
    assert!(shown.contains("connect to late.web.test:80?") && shown.contains("status-403"), "{shown}");
    screen.wait_for("no answer to the question in time; to allow it: --allow-domain late.web.test:80");
    assert_eq!(screen.exit_code(), "0");
    screen.line(&format!(
        "$K run --no-settings --ask -- sh -c \"{}; echo int-\\$((1+1))\"",
        get("interrupted")
    ));
    screen.wait_for("connect to interrupted.web.test:80?");
    screen.key("C-c");
    screen.wait_for("int-2");
    // The first question is still on the screen, and may have been refused in the same words.
    screen.wait_for("refused when asked; to allow it: --allow-domain interrupted.web.test:80");
    assert_eq!(screen.exit_code(), "0", "the command was not interrupted");
}

#[test]
#[kennel_claim::claim("network/only-the-user-answers")]
fn what_was_typed_before_the_question_is_no_answer() {
    let Some(screen) = terminal() else { return };
    let script = format!("echo typing-\\$((1+1)); sleep 1.5; {}; echo typed-\\$((1+1))", get("typed"));
    screen.line(&format!("$K run --no-settings --ask -- sh -c \"{script}\""));
    screen.wait_for("typing-2");
    screen.line("yes");
    screen.wait_for("connect to typed.web.test:80?");
    screen.line("no");
    let shown = screen.wait_for("typed-2");
    assert!(shown.contains("status-403"), "{shown}");
}

#[test]
fn a_command_that_reads_the_terminal_meanwhile_goes_on_reading_afterwards() {
    let Some(screen) = terminal() else { return };
    let script = format!("{} & read answer; echo got-\\$answer-\\$((1+1)); wait", get("reading"));
    screen.line(&format!("$K run --no-settings --ask -- sh -c \"{script}\""));
    screen.wait_for("connect to reading.web.test:80?");
    screen.line("yes");
    screen.wait_for("status-200");
    screen.line("words");
    screen.wait_for("got-words-2");
    assert_eq!(screen.exit_code(), "0");
}

#[test]
fn a_command_that_ends_while_a_question_stands_leaves_the_terminal_as_it_was() {
    let Some(screen) = terminal() else { return };
    screen.line("stty -a | md5sum; echo before-$((1+1))");
    let before = screen.wait_for("before-2");
    let run = "$K run --no-settings --ask --timeout 2s";
    screen.line(&format!("{run} -- sh -c \"{}; sleep 60\"", get("standing")));
    screen.wait_for("connect to standing.web.test:80?");
    screen.wait_for("timed out");
    assert_eq!(screen.exit_code(), "124");
    screen.line("stty -a | md5sum; echo after-$((1+1))");
    let after = screen.wait_for("after-2");
    let sums = |shown: &str| -> Vec<String> {
        shown.lines().filter(|line| line.ends_with("  -")).map(str::to_owned).collect()
    };
    let (before, after) = (sums(&before), sums(&after));
    assert_eq!((before.len(), after.len()), (1, 2), "{before:?} {after:?}");
    assert_eq!(after[0], after[1]);
}

#[test]
#[kennel_claim::claim("network/only-the-user-answers")]
fn without_a_terminal_nobody_is_asked_and_the_answer_is_no() {
    let Some(world) = world() else { return };
    let mut command = kennel(["run", "--no-settings", "--ask", "--", "sh", "-c", &get("nobody")]);
    // A session of its own has no terminal.
    // SAFETY: a plain call between fork and exec.
    unsafe {
        use std::os::unix::process::CommandExt;
        command.pre_exec(|| {
            libc::setsid();
            Ok(())
        });
    }
    let ran = ran_within(LONG, &mut command).ok();
    assert_eq!(ran.stdout, "status-403\n", "{ran:?}");
    assert!(ran.stderr.contains("there is no terminal to ask on"), "{ran:?}");
    world.saw_nothing_of("nobody.web.test");
}
