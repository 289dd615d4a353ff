//! Limits and the network, asked for on the command line: enforced, or refused in clear words; never ignored.

use kennel_tests::{Ran, program, skipped};

use crate::cli::run;

/// Whether the run went ahead. Where it did not, the message has to say what is missing and what to do.
#[track_caller]
fn enforced(ran: &Ran) -> bool {
    if ran.code != 125 {
        return true;
    }
    let mut lines = ran.stderr.lines();
    let first = lines.next().unwrap_or_default();
    assert!(first.starts_with("kennel: ") && first.len() > 20, "{}", ran.stderr);
    assert!(lines.any(|line| line.starts_with("help: ")), "no advice: {}", ran.stderr);
    skipped(&format!("refused here: {first}"));
    false
}

#[test]
fn memory_is_limited_or_refused() {
    let script = "head -c 200000000 /dev/zero | tail -c 200000000 | wc -c";
    assert_eq!(run(["--", "sh", "-c", script]).ok().stdout.trim(), "200000000");
    let ran = run(["--memory", "50M", "--", "sh", "-c", script]);
    if enforced(&ran) {
        assert_ne!(ran.stdout.trim(), "200000000", "200 MB were held in 50 MB");
    }
}

#[test]
fn cpus_are_limited_or_refused() {
    enforced(&run(["--cpus", "0.5", "--", "true"]));
}

#[test]
fn processes_are_limited_or_refused() {
    let script = "for i in $(seq 30); do sleep 5 & done 2>&1; wait; echo all";
    let ran = run(["--pids", "10", "--", "sh", "-c", script]);
    if enforced(&ran) {
        assert!(
            !ran.stdout.ends_with("all\n") || ran.stdout.to_lowercase().contains("fork"),
            "30 processes ran as 10: {ran:?}"
        );
    }
}

#[test]
fn an_allow_list_of_hosts_is_enforced_or_refused() {
    let ran = run(["--allow-domain", "example.com", "--", "sh", "-c", "exit 0"]);
    enforced(&ran);
}

#[test]
fn open_files_file_size_and_cpu_time_are_limited() {
    let ran = run(["--open-files", "32", "--", "sh", "-c", "ulimit -n; ulimit -Hn"]).ok();
    assert_eq!(ran.stdout, "32\n32\n");
    let ran =
        run(["--file-size", "4096", "--", "sh", "-c", "head -c 10000 /dev/zero > /tmp/f; stat -c %s /tmp/f"]);
    assert_eq!(ran.stdout, "4096\n", "{}", ran.stderr);
    let ran = run(["--cpu-time", "1s", "--timeout", "60s", "--", "sh", "-c", "while :; do :; done"]);
    assert!(ran.code == 128 + libc::SIGXCPU || ran.code == 137, "{ran:?}");
}

#[test]
fn there_is_no_network_but_a_loopback_by_default() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    if program("bash").is_none() {
        return skipped("bash, which can connect, is not installed");
    }
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
    run(["--net", "host", "--", "bash", "-c", &connect]).ok();
    let ran = run(["--", "bash", "-c", &connect]).expect_code(1);
    assert!(ran.stderr.contains("refused"), "{}", ran.stderr);
}

#[test]
fn a_tmp_size_too_small_for_kennel_itself_is_named_as_the_reason() {
    for size in ["1", "4K"] {
        let ran = run(["--tmp-size", size, "--", "true"]);
        if ran.code == 0 {
            // What kennel makes for an ordinary user may fit into a page.
            assert!(!kennel_tests::am_root(), "{ran:?}");
            continue;
        }
        assert!(ran.stderr.contains("--tmp-size") && ran.stderr.contains("No space left"), "{}", ran.stderr);
        assert!(!ran.stderr.contains("seccomp") && !ran.stderr.contains("AppArmor"), "{}", ran.stderr);
    }
    run(["--tmp-size", "1M", "--", "true"]).ok();
}
