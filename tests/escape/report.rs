//! The report is written after the command ran, by the controller: whatever the command put in the way, it lands in its
//! folder, under its name, and nowhere else.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

use kennel_tests::{Ran, Scratch, kennel, ran_within};

/// What a command that may write the report's folder can put in the report's way, and a name for it.
const PLANTED: &[(&str, &str)] = &[
    ("a link to a file", "ln -s ../victim r.json"),
    ("a link in two steps", "ln -s ../victim x; ln -s x r.json"),
    ("a link to a file that is not there", "ln -s ../made r.json"),
    ("a FIFO", "mkfifo r.json"),
    ("a link to a FIFO", "mkfifo f; ln -s f r.json"),
    ("a hard link", "echo mine > x; ln x r.json"),
    ("a link through /proc", "ln -s /proc/self/cwd/../victim r.json"),
];

/// A folder `work` that the command may write, and beside it a file that it may not.
fn yard() -> Scratch {
    let yard = Scratch::new();
    yard.dir("work");
    yard.write("victim", "precious");
    yard
}

fn run(yard: &Scratch, report: &str, script: &str) -> Ran {
    let mut command = kennel(["run", "--allow-write", "."]);
    if !report.is_empty() {
        command.args(["--report", report]);
    }
    command.args(["--", "sh", "-c", script]).current_dir(yard.join("work"));
    ran_within(Duration::from_secs(20), &mut command)
}

fn is_report(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_file())
        && std::fs::read_to_string(path).is_ok_and(|text| text.contains("\"exit_code\": 0"))
}

#[test]
fn a_controller_that_opened_the_reports_path_at_the_end_would_write_where_the_command_wants() {
    let yard = yard();
    run(&yard, "", PLANTED[0].1).ok();
    std::fs::write(yard.join("work/r.json"), "a report").unwrap();
    assert_eq!(std::fs::read_to_string(yard.join("victim")).unwrap(), "a report");
    run(&yard, "", "rm r.json; mkfifo r.json").ok();
    assert!(yard.join("work/r.json").metadata().unwrap().file_type().is_fifo());
}

#[test]
#[kennel_claim::claim("itself/reports-land-in-place")]
fn nothing_that_the_command_puts_in_the_reports_place_is_written_through_or_waited_for() {
    for (what, script) in PLANTED {
        let yard = yard();
        run(&yard, "r.json", script).ok();
        assert_eq!(std::fs::read_to_string(yard.join("victim")).unwrap(), "precious", "{what}");
        assert!(!yard.join("made").exists(), "{what}");
        assert!(is_report(&yard.join("work/r.json")), "{what}");
    }
}

#[test]
#[kennel_claim::claim("itself/reports-land-in-place")]
fn a_folder_that_the_command_swapped_does_not_lead_the_report_elsewhere() {
    let yard = yard();
    yard.dir("work/out");
    yard.dir("home");
    run(&yard, "out/r.json", "mv out gone; ln -s ../home out").ok();
    assert!(!yard.join("home/r.json").exists());
    assert!(is_report(&yard.join("work/gone/r.json")));
}

#[test]
fn a_folder_in_the_reports_place_is_told_and_nothing_else_is_left() {
    let yard = yard();
    let ran = run(&yard, "r.json", "mkdir r.json").expect_code(125);
    assert!(ran.stderr.contains("writing the report"), "{}", ran.stderr);
    assert_eq!(yard.listing().len(), 3, "{:?}", yard.listing());
}

#[test]
#[kennel_claim::claim("itself/reports-land-in-place")]
fn a_link_that_an_earlier_run_left_on_the_way_to_the_report_is_refused_before_the_start() {
    let yard = yard();
    yard.dir("home");
    run(&yard, "", "ln -s ../home out").ok();
    let ran = run(&yard, "out/r.json", "touch ran").expect_code(125);
    assert!(ran.stderr.contains("leads through the symlink"), "{}", ran.stderr);
    assert!(!yard.join("work/ran").exists() && !yard.join("home/r.json").exists());
}

#[test]
#[kennel_claim::claim("itself/reports-land-in-place")]
fn a_report_path_that_is_no_file_is_an_error_before_the_start() {
    let yard = yard();
    run(&yard, "", "ln -s ../victim link; mkfifo fifo; mkdir folder").ok();
    for name in ["link", "fifo", "folder", "/dev/null", "/dev/stdout", "/"] {
        let ran = run(&yard, name, "touch ran").expect_code(125);
        assert!(ran.stderr.contains("preparing the report"), "{name}: {}", ran.stderr);
        assert!(!yard.join("work/ran").exists(), "{name}");
    }
    assert_eq!(std::fs::read_to_string(yard.join("victim")).unwrap(), "precious");
}
