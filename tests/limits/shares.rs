//! What the kernel counts for a user or for the whole machine: one sandbox takes all that it can, and the host goes on.

use kennel_tests::hog::{Hog, RESOURCES, Share, need};
use kennel_tests::probe::{executable, probe_inside};
use kennel_tests::{am_root, kennel, ran_within, run_sh, skipped};

use super::PATIENCE;

/// What the host's programs of the same user need is there, and other sandboxes start.
#[track_caller]
fn the_host_goes_on(what: &str, flags: &[&str]) {
    let could = need(what);
    let hog = Hog::start(what, flags);
    let (name, taken) = (format!("{what} {flags:?}"), hog.taken);
    if could.is_ok() {
        assert_eq!(need(what), Ok(()), "{name}: the host's programs, while a sandbox has {taken:?}");
    }
    let ran = ran_within(PATIENCE, kennel(["run", "--", "true"]).args([""; 0]));
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{name}: another sandbox");
    let share = RESOURCES.iter().find(|(known, _)| *known == what).map(|(_, share)| *share);
    match share.expect("it is in the table") {
        Share::None => assert_eq!(taken.count, 0, "{name}: {taken:?}"),
        Share::UpTo(most) => {
            assert!((1..=most).contains(&taken.count), "{name}: {taken:?}");
            assert_ne!(taken.errno, 0, "{name}: nothing ended it");
        }
    }
}

#[test]
#[kennel_claim::claim("power/shares-of-shared-resources")]
fn one_sandbox_takes_no_more_than_its_share_and_the_host_goes_on() {
    for (what, _) in RESOURCES {
        the_host_goes_on(what, &[]);
    }
}

#[test]
#[kennel_claim::claim("power/shares-of-shared-resources")]
fn a_judged_program_takes_no_more_than_its_share_and_the_host_goes_on() {
    for (what, _) in RESOURCES {
        let own = executable().display().to_string();
        the_host_goes_on(what, &["--best-effort", "--profile", "judge", "--allow-read", &own]);
    }
}

#[test]
#[kennel_claim::claim("power/shares-of-shared-resources")]
fn shares_hold_without_a_filter_with_the_hosts_network_and_with_namespaces() {
    for what in ["signals", "timers", "terminals", "inotify", "in-flight"] {
        the_host_goes_on(what, &["--seccomp", "none"]);
        the_host_goes_on(what, &["--seccomp", "permissive"]);
        the_host_goes_on(what, &["--net", "host"]);
        // Nobody may map user 0 of the host's.
        if !am_root() {
            the_host_goes_on(what, &["--nested"]);
        }
    }
    if am_root() {
        return;
    }
    // Without Landlock's rules there are queues: of 82,000 bytes each, of half of the user's 819,200.
    let hog = Hog::start("queues", &["--nested"]);
    assert!((1..=5).contains(&hog.taken.count), "{:?}", hog.taken);
    assert_eq!(need("queues"), Ok(()));
}

#[test]
fn a_second_sandbox_has_its_own_share() {
    for what in ["signals", "timers", "terminals", "inotify"] {
        let _hog = Hog::start(what, &[]);
        let ran = ran_within(PATIENCE, &mut probe_inside("need", &[], &[what]));
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{what}");
    }
}

#[test]
fn a_limit_that_was_raised_inside_stays_the_sandboxs_share() {
    let script = "ulimit -Hn; ulimit -Sn 100000 2>&1; ulimit -Hn 100000 2>&1; \
                  grep -E 'pending|queue|realtime|nice|processes' /proc/self/limits";
    let told = run_sh([""; 0], script).stdout;
    assert!(told.starts_with("4096\n"), "{told}");
    for (name, most) in
        [("Max pending signals", 4096), ("Max realtime priority", 0), ("Max nice priority", 0)]
    {
        let line =
            told.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {told}"));
        let numbers: Vec<u64> =
            line[name.len()..].split_whitespace().filter_map(|n| n.parse().ok()).collect();
        assert!(numbers.len() == 2 && numbers.iter().all(|number| *number <= most), "{line}");
    }
}

#[test]
fn more_open_files_can_be_asked_for() {
    let mut hard = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes a structure.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut hard) };
    if hard.rlim_max <= 5000 {
        return skipped("the caller's own limit on open files is lower");
    }
    let told = |flags: &[&str]| run_sh(flags, "ulimit -Hn").ok().stdout;
    assert_eq!(told(&["--open-files", "5000"]), "5000\n");
    assert_eq!(told(&["--open-files", "unlimited"]), format!("{}\n", hard.rlim_max));
}

#[test]
fn namespaces_of_a_sandbox_that_may_make_them_are_counted() {
    // In a user namespace of its own, so as to be allowed at all.
    for flags in [["--nested"].as_slice(), &["--seccomp", "permissive"]] {
        let mut words = flags.to_vec();
        words.extend(["--", "sh", "-c", "cat /proc/sys/user/max_*_namespaces"]);
        let ran = ran_within(PATIENCE, kennel(["run"]).args(&words));
        if ran.code != 0 {
            skipped(&format!("{flags:?}: {}", ran.stderr));
            continue;
        }
        let told = ran.stdout;
        assert!(told.lines().count() >= 7 && told.lines().all(|line| line == "1000"), "{flags:?}: {told}");
    }
}

/// What several programs inside have taken together, each as the words before it say.
fn taken_together(flags: &[&str], ways: &[&str]) -> Result<usize, String> {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;
    let own = executable().display();
    let jobs: String = ways.iter().map(|way| format!("{way} {own} timers <&3 & ")).collect();
    let script = format!("exec 3<&0; {jobs} wait");
    let mut command = kennel(["run", "--no-settings", "--env"]);
    command
        .arg(format!("{}=take", kennel_tests::role::VARIABLE))
        .args(flags)
        .args(["--", "sh", "-c", &script]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let (input, output) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
    let mut sum = 0;
    for line in BufReader::new(output).lines().take(ways.len()) {
        let line = line.expect("a line");
        sum += line.split(' ').next().and_then(|count| count.parse::<usize>().ok()).expect("a number");
    }
    drop(input);
    let ran = kennel_tests::Ran::from(child.wait_with_output().expect("it ends"));
    if ran.code == 0 && ran.stderr.is_empty() { Ok(sum) } else { Err(ran.stderr) }
}

#[test]
fn all_users_and_namespaces_inside_share_what_one_sandbox_has() {
    let nested = (["--nested"].as_slice(), ["", "unshare -Ur", "unshare -Ur"]);
    let users = (
        ["--users", "root,builder"].as_slice(),
        ["", "setpriv --reuid 1 --clear-groups", "setpriv --reuid 7 --clear-groups"],
    );
    for (flags, ways) in [nested, users] {
        match taken_together(flags, &ways) {
            Ok(sum) => assert!((1..=4096).contains(&sum), "{flags:?}: {sum}"),
            Err(why) => skipped(&format!("{flags:?}: {why}")),
        }
    }
}
