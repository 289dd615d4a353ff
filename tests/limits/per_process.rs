//! Limits that each process has for itself.

use crate::limits::{told_of, told_of_sh};

#[test]
fn open_files_end_at_their_limit() {
    let told = told_of::<&str>("open-until-refused", &["--open-files", "32"], &[]).ended(0, "");
    assert_eq!(told.ran.stdout, format!("31 {}\n", libc::EMFILE));
}

#[test]
fn the_limit_on_open_files_cannot_be_raised_inside() {
    let script = "ulimit -n; ulimit -Hn; ulimit -n 33 2> /dev/null && exit 9; exit 7";
    assert_eq!(told_of_sh(&["--open-files", "32"], script).ended(7, "").ran.stdout, "32\n32\n");
}

#[test]
fn a_limit_that_is_lower_outside_stays() {
    let mut command = std::process::Command::new("sh");
    let script = "ulimit -n 100; ulimit -t 50; exec \"$0\" run --no-settings --open-files 200 --cpu-time 60s -- \
                  sh -c 'ulimit -n; ulimit -Hn; ulimit -t'";
    command.args(["-c", script]).arg(kennel_tests::kennel_bin());
    assert_eq!(kennel_tests::ran(&mut command).ok().stdout, "100\n100\n50\n");
}

#[test]
fn a_file_grows_no_larger_than_its_limit() {
    let script =
        "trap '' XFSZ; head -c 3000000 /dev/zero > /tmp/file 2> /dev/null && exit 9; wc -c < /tmp/file";
    let told = told_of_sh(&["--file-size", "1M"], script).ended(0, "");
    assert_eq!(told.ran.stdout.trim(), (1 << 20).to_string());
    let told = told_of_sh(&["--file-size", "1M"], "exec head -c 3000000 /dev/zero > /tmp/file");
    assert_eq!(told.ended(128 + libc::SIGXFSZ, "").report["signal"], libc::SIGXFSZ);
}

#[test]
fn there_are_no_core_dumps() {
    assert_eq!(told_of_sh(&[], "ulimit -c; ulimit -Hc").ended(0, "").ran.stdout, "0\n0\n");
}
