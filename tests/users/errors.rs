//! What a caller is told that has no ids, or not the tools. As root, who can hide files from an ordinary user.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use kennel_tests::{Ran, Scratch, am_root, kennel, kennel_bin, ran, skipped};

const NOBODY: u32 = 65534;

/// Runs kennel as an ordinary user after `prepare`, in a mount namespace of its own.
fn as_nobody(prepare: &str, words: &str) -> Option<Ran> {
    if !am_root() {
        skipped("only root hides files from an ordinary user");
        return None;
    }
    let place = Scratch::new();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    std::fs::copy(kennel_bin(), place.join("kennel")).unwrap();
    let script = format!(
        "set -e; cd {}; {prepare}; exec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups $EXTRA env -i PATH=$PATH ./kennel {words}",
        place.path().display()
    );
    Some(ran(Command::new("unshare").args(["-m", "sh", "-c", &script])))
}

const RUN: &str = "run --users root,builder -- id -u";
const LINES: &str =
    "echo nobody:200000:65536 > ids; mount --bind ids /etc/subuid; mount --bind ids /etc/subgid";

#[test]
#[kennel_claim::claim("users/several-users-or-an-error")]
fn without_subordinate_ids_the_error_names_the_line_and_the_file() {
    let Some(ran) = as_nobody(
        "echo other:100000:65536 > ids; mount --bind ids /etc/subuid; mount --bind ids /etc/subgid",
        RUN,
    ) else {
        return;
    };
    assert_eq!(ran.code, 125, "{}", ran.stderr);
    assert_eq!(
        ran.stderr,
        "kennel: mapping the users root, builder: /etc/subuid gives nobody 0 subordinate uids, and 1 is needed\n\
         help: as root, add the line `nobody:165536:65536` to /etc/subuid\n"
    );
}

#[test]
fn with_too_few_ids_for_the_groups_it_is_the_other_file() {
    let prepare = "echo nobody:200000:65536 > uids; echo > gids; mount --bind uids /etc/subuid; mount --bind gids /etc/subgid";
    let Some(ran) = as_nobody(prepare, RUN) else { return };
    assert!(ran.stderr.contains("/etc/subgid gives nobody 0 subordinate gids"), "{}", ran.stderr);
    let prepare = "echo 65534:200000:1 > ids; mount --bind ids /etc/subuid; mount --bind ids /etc/subgid";
    let Some(few) = as_nobody(prepare, "run --users root,builder,web -- id -u") else { return };
    assert!(few.stderr.contains("gives nobody 1 subordinate uids, and 2 are needed"), "{}", few.stderr);
}

#[test]
fn two_ids_suffice_for_two_users() {
    if kennel_tests::program("newuidmap").is_none() {
        return skipped("newuidmap is not installed");
    }
    let prepare = "echo 65534:200000:1 > ids; mount --bind ids /etc/subuid; mount --bind ids /etc/subgid";
    let script = "run --users root,builder -- sh -c 'id -u; touch /tmp/x; chown builder /tmp/x; su builder -c \"id -u\"'";
    let Some(ran) = as_nobody(prepare, script) else { return };
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("0\n1000\n", ""));
}

#[test]
#[kennel_claim::claim("users/several-users-or-an-error")]
fn a_missing_or_powerless_tool_is_named() {
    if kennel_tests::program("newuidmap").is_none() {
        return skipped("newuidmap is not installed");
    }
    let hide = "mkdir none; for d in /usr/bin; do mkdir upper work; done; cp $(command -v newuidmap) plain; chmod 755 plain";
    let Some(ran) = as_nobody(&format!("{LINES}; {hide}; mount --bind plain /usr/bin/newuidmap"), RUN) else {
        return;
    };
    assert_eq!(
        ran.stderr,
        "kennel: mapping the users root, builder: /usr/bin/newuidmap is neither set-user-ID root nor has file capabilities\n\
         help: as root, run `chmod u+s /usr/bin/newuidmap`, or install its package again\n"
    );
    let Some(ran) = as_nobody(&format!("{LINES}; EXTRA=--no-new-privs"), RUN) else { return };
    assert!(ran.stderr.contains("because this process has no_new_privs set"), "{}", ran.stderr);
    // A device in the place of the program is no program.
    let Some(ran) = as_nobody(&format!("{LINES}; mount --bind /dev/null /usr/bin/newgidmap"), RUN) else {
        return;
    };
    assert!(ran.stderr.contains("newgidmap does not exist in /usr/bin, "), "{}", ran.stderr);
    assert!(ran.stderr.contains("the package `uidmap`"), "{}", ran.stderr);
}

#[test]
#[kennel_claim::claim("users/several-users-or-an-error")]
fn what_a_tool_says_is_told() {
    if kennel_tests::program("newuidmap").is_none() {
        return skipped("newuidmap is not installed");
    }
    // The file that kennel reads says more than the one that the tool will read: as when a directory server has the ids.
    let tool =
        "printf '#!/bin/sh\\necho no such luck >&2; exit 1\\n' > tool; chown root tool; chmod 4755 tool";
    let Some(ran) = as_nobody(&format!("{LINES}; {tool}; mount --bind tool /usr/bin/newuidmap"), RUN) else {
        return;
    };
    assert_eq!(ran.stderr, "kennel: mapping the users root, builder: /usr/bin/newuidmap: no such luck\n");
}

#[test]
fn the_doctor_knows_about_several_users() {
    let text = ran(&mut kennel(["doctor"])).stdout;
    assert!(
        text.lines().any(|line| line.contains("users") && line.contains("several users inside")),
        "{text}"
    );
    let Some(without) = as_nobody("echo > ids; mount --bind ids /etc/subuid", "doctor") else { return };
    assert!(without.stdout.contains("add the line `nobody:"), "{}", without.stdout);
}

#[test]
fn best_effort_is_no_reason_to_have_one_user_only() {
    let ran = kennel_tests::ran(&mut kennel(["run", "--users", "root,builder", "--nested", "--", "true"]));
    assert!(
        ran.stderr.contains("process.users (--users) cannot be used with process.nested (--nested)"),
        "{}",
        ran.stderr
    );
}
