//! `--ask` against a program that wants to answer by itself, to have the terminal answer, or to hide the question.
//!
//! The terminal here is played by the test, so that it says things which few real ones do; and it is tmux, which is one.

use std::process::Command;
use std::time::Duration;

use kennel_tests::pty::{Pty, Replies, exit_code};
use kennel_tests::{kennel, kennel_bin, program, skipped, stays};

use kennel_tests::screen::Screen;

/// What kennel says in the end of who was told no.
const REFUSED: &str = "evil.example:80 (by curl): refused when asked";
const PROMPT: &str = "kennel: connect to evil.example:80? [yes/once/No] ";

/// A terminal that says yes to everything: to enquiries in plain letters, to others in the frame that belongs to it.
const YES: Replies = &[
    (b"\x05", b"yes\r"),
    (b"\x1b[>q", b"\x1bP>|yes\r\x1b\\"),
    (b"\x1b[21t", b"\x1b]lyes\r\x1b\\"),
    (b"\x1b[c", b"\x1b[?yes\rc"),
    (b"\x1b[5n", b"\x1b[0nyes\r"),
    (b"\x1b]52;c;?\x07", b"\x1b]52;c;yes\r\x07"),
    (b"\x1bP$qm\x1b\\", b"\x1bP1$ryes\rm\x1b\\"),
];

/// Asks the terminal for everything, again and again.
const ASK_TERMINAL: &str =
    r"while :; do printf '\005\033[>q\033[21t\033[c\033[5n\033[6n\033]52;c;?\007\033P$qm\033\\'; done";

/// Paints over the line above, again and again.
const PAINT: &str = r"while :; do printf '\033[A\r\033[KOverwrite the file? [y/N] '; done";

/// A connection that kennel has to ask about. What it prints is not what was typed.
const CONNECT: &str = "curl -s -o /dev/null -w 'status-%{http_code}.' http://evil.example/";

fn has_curl() -> bool {
    let there = program("curl").is_some();
    if !there {
        skipped("curl is not installed");
    }
    there
}

/// Nobody has answered, and nothing has come over the question. The user says no, and the command hears it.
#[track_caller]
fn stands_until_answered(terminal: &Pty) {
    terminal.wait_for(PROMPT);
    // What comes without the user comes at once.
    stays("the question is the last thing shown", Duration::from_millis(700), || {
        terminal.shown().ends_with(PROMPT)
    });
    terminal.type_bytes(b"no\r");
    terminal.wait_for(REFUSED);
}

/// That the terminal of these tests does answer for whoever lets it.
#[test]
fn a_plain_program_takes_the_terminals_word_for_its_users() {
    let terminal = Pty::new(YES);
    let script = r"printf 'Sure? \005'; read answer; echo got-$answer-$((1+1))";
    let mut child = terminal.spawn(Command::new("sh").args(["-c", script]), [true; 3]);
    terminal.wait_for("got-yes-2");
    assert_eq!(exit_code(&mut child), 0);
}

#[test]
#[kennel_claim::claim("network/only-the-user-answers")]
fn the_terminal_does_not_answer_whatever_it_is_asked() {
    if !has_curl() {
        return;
    }
    for user in ["setsid", ""] {
        let terminal = Pty::new(YES);
        let script = format!("{user} sh -c \"$1\" & sleep 0.3; {CONNECT}");
        let mut command =
            kennel(["run", "--no-settings", "--ask", "--", "sh", "-c", &script, "sh", ASK_TERMINAL]);
        let mut child = terminal.spawn(&mut command, [true; 3]);
        stands_until_answered(&terminal);
        assert_eq!(exit_code(&mut child), 0);
    }
}

/// Neither is its reply waited for for ever, nor does it hold the question up.
#[test]
#[kennel_claim::claim("network/only-the-user-answers")]
fn a_terminal_that_never_replies_shows_the_question_all_the_same() {
    if !has_curl() {
        return;
    }
    let terminal = Pty::new(&[(b"\x1b[6n", b"")]);
    let mut command = kennel(["run", "--no-settings", "--ask", "--", "sh", "-c", CONNECT]);
    let mut child = terminal.spawn(&mut command, [true; 3]);
    stands_until_answered(&terminal);
    exit_code(&mut child);
}

#[test]
#[kennel_claim::claim("network/questions-are-seen")]
fn nobody_paints_over_the_question() {
    if !has_curl() {
        return;
    }
    let terminal = Pty::new(&[]);
    let script = format!("setsid sh -c \"$1\" & sleep 0.3; {CONNECT}");
    let mut command = kennel(["run", "--no-settings", "--ask", "--", "sh", "-c", &script, "sh", PAINT]);
    let mut child = terminal.spawn(&mut command, [true; 3]);
    stands_until_answered(&terminal);
    assert_eq!(exit_code(&mut child), 0);
}

/// Not by way of another member of the pipeline either, which has the terminal for itself.
#[test]
#[kennel_claim::claim("network/questions-are-seen")]
fn nobody_paints_over_the_question_through_a_pipeline() {
    if !has_curl() {
        return;
    }
    let terminal = Pty::new(&[]);
    // The status goes where the pipeline does not.
    let inside = format!("setsid sh -c \"$1\" & sleep 0.3; {CONNECT} >&2");
    let mut command = Command::new("sh");
    command
        .args(["-c", "\"$0\" run --no-settings --ask -- sh -c \"$1\" sh \"$2\" | cat; echo ended-$((1+1))"]);
    command.arg(kennel_bin()).args([&inside, PAINT]).env("XDG_CONFIG_HOME", "/nonexistent");
    let mut child = terminal.spawn(&mut command, [true; 3]);
    stands_until_answered(&terminal);
    terminal.wait_for("ended-2");
    assert_eq!(exit_code(&mut child), 0);
}

/// The inside changes what keys mean, and what a line is; but its own terminal's, and the question is asked on another.
#[test]
#[kennel_claim::claim("network/only-the-user-answers")]
fn keys_mean_in_a_question_what_they_always_do() {
    if !has_curl() {
        return;
    }
    let terminal = Pty::new(&[]);
    // `t` kills the line, `(` ends the input, and `s` is the erase key.
    let script = format!(
        "setsid sh -c 'while :; do stty kill t eof \\( erase s intr y <$1; done' sh $(tty) & sleep 0.3; {CONNECT}"
    );
    let mut command = kennel(["run", "--no-settings", "--ask", "--", "sh", "-c", &script]);
    let mut child = terminal.spawn(&mut command, [true; 3]);
    terminal.wait_for(PROMPT);
    terminal.type_bytes(b"yes\r");
    // It may be reached now; that it cannot be found is something else.
    let shown = terminal.wait_for("status-");
    assert!(!shown.contains("status-403."), "{shown:?}");
    assert_eq!(exit_code(&mut child), 0);
}

#[test]
#[kennel_claim::claim("network/only-the-user-answers")]
fn a_line_with_a_sequence_in_it_is_no_answer_and_the_next_one_is() {
    if !has_curl() {
        return;
    }
    let terminal = Pty::new(&[]);
    let mut command = kennel(["run", "--no-settings", "--ask", "--", "sh", "-c", CONNECT]);
    let mut child = terminal.spawn(&mut command, [true; 3]);
    terminal.wait_for(PROMPT);
    // A paste that is bracketed, a key with a sequence, a reply in eight bits.
    for (turn, line) in
        [b"\x1b[200~yes\r".as_slice(), b"\x1b[Ayes\r", b"\x9b?1;2cyes\r"].into_iter().enumerate()
    {
        terminal.type_bytes(line);
        terminal.wait_until("the question again", |shown| shown.matches(PROMPT).count() == turn + 2);
    }
    terminal.type_bytes(b"yes\r");
    // It may be reached now; that it cannot be found is something else.
    let shown = terminal.wait_for("status-");
    assert!(!shown.contains("status-403."), "{shown:?}");
    assert_eq!(exit_code(&mut child), 0);
}

/// What is typed at a question does not reach the inside, which waits for it as well.
#[test]
#[kennel_claim::claim("network/only-the-user-answers")]
fn the_inside_does_not_hear_the_answer() {
    if !has_curl() {
        return;
    }
    let terminal = Pty::new(&[]);
    let script = format!(
        "setsid sh -c 'cat $1 > /tmp/heard' sh $(tty) & (sleep 0.5; {CONNECT}; echo; echo done-$((1+1))) & read a; wait %2; read b; cat /tmp/heard; echo a-$a b-$b."
    );
    let mut command = kennel(["run", "--no-settings", "--ask", "--", "sh", "-c", &script]);
    let mut child = terminal.spawn(&mut command, [true; 3]);
    terminal.wait_for(PROMPT);
    terminal.type_bytes(b"secretly-no\r");
    terminal.wait_for("done-2");
    // Three readers want these, and none of them the answer.
    for _ in 0..6 {
        terminal.type_bytes(b"later\r");
        std::thread::sleep(Duration::from_millis(100));
    }
    terminal.wait_for("a-later b-later.");
    assert_eq!(exit_code(&mut child), 0);
    let shown = terminal.shown();
    assert_eq!(shown.matches("secretly-no").count(), 1, "only the question shows it: {shown:?}");
}

/// A terminal in the middle of a string would take the question for a part of it.
#[test]
#[kennel_claim::claim("network/questions-are-seen")]
fn the_question_shows_in_a_terminal_that_was_left_in_the_middle_of_something() {
    if !has_curl() {
        return;
    }
    let Some(screen) = Screen::open() else { return };
    // A title, a device control string, a region of two rows that scrolls, hidden text, a drawing character set.
    let before = r"printf '\033[2;3r\033[8m\033(0\033[4h'; printf";
    for (turn, begin) in
        [r"'\033]0;title'", r"'\033P1$t'", r"'\033_string'", r"'\033[38;5'"].iter().enumerate()
    {
        let name = format!("host{turn}.example");
        let connect = CONNECT.replace("evil.example", &name);
        screen.folder.write("inside.sh", &format!("{before} {begin}; {connect}; printf '\\033[r'"));
        screen.line("clear; $K run --no-settings --ask -- sh inside.sh");
        screen.wait_for(&format!("kennel: connect to {name}:80? [yes/once/No]"));
        screen.line("");
        screen.wait_until("the shell's prompt", |shown| shown.trim_end().ends_with("ready>"));
        screen.line("reset");
    }
}

#[test]
fn a_program_that_draws_the_whole_screen_is_there_again_after_a_question() {
    if !has_curl() {
        return;
    }
    let Some(screen) = Screen::open() else { return };
    if program("vim").is_none() {
        return skipped("vim is not installed");
    }
    screen.folder.write("file", "some-text\n");
    let script = format!("(sleep 1; {CONNECT} >/dev/null) & exec vim -u NONE -n file");
    screen.folder.write("inside.sh", &script);
    screen.line("$K run --no-settings --ask -- sh inside.sh");
    screen.wait_for(PROMPT.trim_end());
    screen.line("no");
    screen.wait_until("vim, and no question", |shown| {
        let lines = shown.lines().filter(|line| line.starts_with('~')).count();
        lines > 5 && shown.contains("some-text") && !shown.contains("connect to")
    });
    // And it has the keyboard.
    screen.text(":q");
    screen.key("Enter");
    screen.wait_until("the shell's prompt", |shown| shown.trim_end().ends_with("ready>"));
}

/// tmux says its version in plain letters within a sequence, and its state.
#[test]
#[kennel_claim::claim("network/only-the-user-answers")]
fn a_real_terminal_does_not_answer_either() {
    if !has_curl() {
        return;
    }
    let Some(screen) = Screen::open() else { return };
    let script = format!("setsid sh -c \"$1\" & sleep 0.3; {CONNECT}; echo; echo end-$((1+1))");
    screen.folder.write("inside.sh", &script);
    screen.folder.write("ask.sh", ASK_TERMINAL);
    screen.line("$K run --no-settings --ask -- sh inside.sh \"$(cat ask.sh)\"");
    screen.wait_for(PROMPT.trim_end());
    let is_last = || screen.shown().trim_end().ends_with(PROMPT.trim_end());
    stays("the question is the last thing shown", Duration::from_millis(700), is_last);
    screen.line("");
    screen.wait_for(REFUSED);
}

#[test]
fn what_programs_ask_the_terminal_is_answered_when_there_is_no_question() {
    let terminal = Pty::new(&[(b"\x1b[c", b"\x1b[?62;c"), (b"\x1b[>q", b"\x1bP>|played 1\x1b\\")]);
    let script = r"stty -icanon -echo min 1; printf '\033[c\033[>q'; dd bs=1 count=21 2>/dev/null | od -c; echo end-$((1+1))";
    let mut child =
        terminal.spawn(&mut kennel(["run", "--no-settings", "--", "sh", "-c", script]), [true; 3]);
    let shown = terminal.wait_for("end-2");
    assert!(shown.contains("[   ?   6   2   ;   c") && shown.contains("p   l   a   y   e"), "{shown:?}");
    assert_eq!(exit_code(&mut child), 0);
}
