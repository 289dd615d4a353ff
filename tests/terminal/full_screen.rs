//! Programs that take the whole screen: vim and less.

use kennel_tests::{program, skipped};

use kennel_tests::screen::Screen;

#[test]
fn vim_edits_and_saves_a_file_in_a_write_root() {
    let Some(screen) = Screen::open() else { return };
    if program("vim").is_none() {
        return skipped("vim is not installed");
    }
    let file = screen.folder.write("work/file", "first\n");
    screen.line("$K run --allow-write work -- vim -u NONE -n work/file");
    screen.wait_until("vim's empty lines", |shown| {
        shown.lines().filter(|line| line.starts_with('~')).count() > 5
    });
    screen.text("osecond line");
    screen.key("Escape");
    screen.text(":wq");
    screen.key("Enter");
    assert_eq!(screen.exit_code(), "0");
    assert_eq!(std::fs::read_to_string(file).expect("the file"), "first\nsecond line\n");
}

#[test]
fn vim_cannot_save_elsewhere_and_can_still_be_left() {
    let Some(screen) = Screen::open() else { return };
    if program("vim").is_none() {
        return skipped("vim is not installed");
    }
    let file = screen.folder.write("file", "first\n");
    screen.line("$K run -- vim -u NONE -n file");
    screen.wait_until("vim's empty lines", |shown| {
        shown.lines().filter(|line| line.starts_with('~')).count() > 5
    });
    screen.text("osecond line");
    screen.key("Escape");
    screen.text(":w!");
    screen.key("Enter");
    screen.wait_until("an error", |shown| {
        shown.contains("E212") || shown.contains("E505") || shown.contains("E45")
    });
    screen.key("Enter");
    screen.text(":q!");
    screen.key("Enter");
    assert_eq!(screen.exit_code(), "0");
    assert_eq!(std::fs::read_to_string(file).expect("the file"), "first\n");
}

#[test]
fn vim_is_suspended_and_drawn_again() {
    let Some(screen) = Screen::open() else { return };
    if program("vim").is_none() {
        return skipped("vim is not installed");
    }
    screen.folder.write("file", "some-text\n");
    screen.line("$K run -- vim -u NONE -n file");
    let drawn = |shown: &str| shown.lines().filter(|line| line.starts_with('~')).count() > 5;
    screen.wait_until("vim's empty lines", drawn);
    screen.key("C-z");
    screen.wait_for("Stopped");
    assert_eq!(screen.exit_code(), "148");
    screen.line("clear; fg");
    screen.wait_until("vim again", |shown| drawn(shown) && shown.contains("some-text"));
    screen.text(":q");
    screen.key("Enter");
    assert_eq!(screen.exit_code(), "0");
}

#[test]
fn less_in_kennel_at_the_end_of_a_pipeline_gets_its_keys() {
    let Some(screen) = Screen::open() else { return };
    if program("less").is_none() {
        return skipped("less is not installed");
    }
    screen.line("seq 1000 | $K run -- less");
    screen.wait_until("the first page", |shown| {
        shown.lines().any(|line| line == "20") && shown.trim_end().ends_with(':')
    });
    screen.text("G");
    screen.wait_until("the last page", |shown| shown.lines().any(|line| line == "1000"));
    screen.text("g");
    screen.wait_until("the first page again", |shown| !shown.lines().any(|line| line == "1000"));
    screen.text("q");
    assert_eq!(screen.exit_code(), "0");
}

#[test]
fn less_outside_shows_what_a_command_inside_writes() {
    let Some(screen) = Screen::open() else { return };
    if program("less").is_none() {
        return skipped("less is not installed");
    }
    screen.line("$K run -- seq 1000 | less");
    screen.wait_until("the first page", |shown| {
        shown.lines().any(|line| line == "20") && shown.trim_end().ends_with(':')
    });
    screen.text("G");
    screen.wait_until("the last page", |shown| shown.lines().any(|line| line == "1000"));
    screen.text("q");
    assert_eq!(screen.exit_code(), "0");
}

#[test]
fn less_outside_keeps_the_keyboard_while_the_command_inside_still_writes() {
    let Some(screen) = Screen::open() else { return };
    if program("less").is_none() {
        return skipped("less is not installed");
    }
    screen.line("$K run -- sh -c 'seq 1000; exec sleep 1000' | less");
    screen.wait_until("the first page", |shown| {
        shown.lines().any(|line| line == "20") && shown.trim_end().ends_with(':')
    });
    screen.text("f");
    screen.wait_until("the second page", |shown| shown.lines().any(|line| line == "40"));
    screen.text("q");
    screen.wait_until("that less is gone", |shown| {
        shown.contains("$K run") && !shown.lines().any(|line| line == "40")
    });
    screen.key("C-c");
    assert_eq!(screen.exit_code(), "0", "less ended well, and is the pipeline's last");
}
