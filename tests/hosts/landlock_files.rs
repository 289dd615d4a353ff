//! The file rules where only Landlock is there to hold them: what it can express holds, what it cannot is an error.

use std::ffi::OsString;
use std::os::unix::fs::OpenOptionsExt;

use kennel_tests::{Ran, Scratch, ran, role};

use crate::hosts::world::{Lack, best_effort_in, kennel_in, landlock_at_least};

const LACK: &[Lack] = &[Lack::UserNamespaces];

/// The role, inside: tries every way to change or read a file, and prints the errno of each, 0 for success.
pub fn attempt(arguments: &[OsString]) -> i32 {
    let folder = std::path::Path::new(&arguments[0]);
    let file = folder.join("file");
    let errno = |result: std::io::Result<()>| match result {
        Ok(()) => 0,
        Err(error) => error.raw_os_error().unwrap_or(-1),
    };
    let open = |options: &mut std::fs::OpenOptions| options.open(&file).map(drop);
    let tries = [
        ("read", errno(std::fs::read(&file).map(drop))),
        ("list", errno(std::fs::read_dir(folder).map(drop))),
        ("write", errno(open(std::fs::OpenOptions::new().write(true)))),
        ("append", errno(open(std::fs::OpenOptions::new().append(true)))),
        ("truncate", errno(open(std::fs::OpenOptions::new().write(true).custom_flags(libc::O_TRUNC)))),
        ("make", errno(std::fs::write(folder.join("new"), ""))),
        ("mkdir", errno(std::fs::create_dir(folder.join("new-folder")))),
        ("symlink", errno(std::os::unix::fs::symlink("/etc", folder.join("new-link")))),
        ("link", errno(std::fs::hard_link(&file, folder.join("new-name")))),
        ("rename", errno(std::fs::rename(&file, folder.join("renamed")))),
        ("remove", errno(std::fs::remove_file(folder.join("spare")))),
    ];
    for (name, errno) in tries {
        println!("{name} {errno}");
    }
    0
}

fn folder(scratch: &Scratch, name: &str) -> String {
    scratch.write(&format!("{name}/file"), "text\n");
    scratch.write(&format!("{name}/spare"), "text\n");
    scratch.join(name).display().to_string()
}

fn attempts(flags: &[&str], folder: &str) -> Option<Vec<(String, i32)>> {
    let mut all = vec!["--no-settings", "--best-effort"];
    all.extend(flags);
    let mut words = vec![OsString::from("run")];
    words.extend(role::inside("attempt", &all, &[folder]));
    let run = ran(&mut kennel_in(LACK, words)?).ok();
    let pairs = run.stdout.lines().filter_map(|line| line.split_once(' '));
    Some(pairs.map(|(name, errno)| (name.to_owned(), errno.parse().expect("a number"))).collect())
}

fn run(flags: &[&str], script: &str) -> Option<Ran> {
    Some(ran(&mut best_effort_in(LACK, flags.iter().copied(), script)?))
}

#[test]
fn a_write_root_can_be_changed_in_every_way() {
    let scratch = Scratch::new();
    let inside = folder(&scratch, "inside");
    if !landlock_at_least(2) {
        return;
    }
    let Some(tries) = attempts(&["--allow-write", &inside], &inside) else { return };
    assert_eq!(tries.len(), 11);
    for (name, errno) in tries {
        assert_eq!(errno, 0, "{name}");
    }
}

#[test]
fn outside_of_it_nothing_can_be_changed() {
    let scratch = Scratch::new();
    let (inside, outside) = (folder(&scratch, "inside"), folder(&scratch, "outside"));
    if !landlock_at_least(3) {
        return;
    }
    let before = scratch.listing();
    let Some(tries) = attempts(&["--allow-write", &inside], &outside) else { return };
    assert_eq!(tries.len(), 11);
    for (name, errno) in tries {
        let expected = if ["read", "list"].contains(&name.as_str()) { 0 } else { libc::EACCES };
        assert_eq!(errno, expected, "{name}");
    }
    assert_eq!(scratch.listing(), before);
    assert_eq!(std::fs::read_to_string(scratch.join("outside/file")).expect("it stayed"), "text\n");
}

#[test]
fn a_symlink_out_of_the_write_root_gives_no_write() {
    let scratch = Scratch::new();
    let inside = folder(&scratch, "inside");
    let target = scratch.write("outside/file", "text\n");
    if !landlock_at_least(1) {
        return;
    }
    std::os::unix::fs::symlink(&target, scratch.join("inside/link")).expect("a link");
    let Some(run) = run(
        &["--allow-write", &inside, "-C", &inside],
        "echo x > link || echo refused; echo x > file && echo written",
    ) else {
        return;
    };
    assert_eq!(run.ok().stdout, "refused\nwritten\n");
    assert_eq!(std::fs::read_to_string(target).expect("it stayed"), "text\n");
}

#[test]
fn a_file_cannot_be_moved_or_linked_out_of_the_write_root() {
    let scratch = Scratch::new();
    let inside = folder(&scratch, "inside");
    scratch.dir("outside");
    if !landlock_at_least(2) {
        return;
    }
    let script = "mv file ../outside/ || echo unmoved; ln file ../outside/name || echo unlinked";
    let Some(run) = run(&["--allow-write", &inside, "-C", &inside], script) else { return };
    assert_eq!(run.ok().stdout, "unmoved\nunlinked\n");
}

#[test]
fn the_host_s_tmp_cannot_be_written_unless_a_rule_says_so() {
    if !landlock_at_least(1) {
        return;
    }
    let name = format!("/tmp/kennel-test-{}", std::process::id());
    let Some(run) = run(&[], &format!("echo x > {name} || echo refused")) else { return };
    assert_eq!(run.ok().stdout, "refused\n");
    assert!(!std::path::Path::new(&name).exists());
}

#[test]
fn devices_that_every_program_needs_work() {
    if !landlock_at_least(1) {
        return;
    }
    let Some(run) =
        run(&[], "echo x > /dev/null && head -c 4 /dev/zero | wc -c && head -c 4 /dev/urandom | wc -c")
    else {
        return;
    };
    assert_eq!(run.ok().stdout.split_whitespace().collect::<Vec<_>>(), ["4", "4"]);
}

#[test]
fn under_listed_reads_what_is_not_listed_cannot_be_read() {
    let scratch = Scratch::new();
    let (listed, other) = (folder(&scratch, "listed"), folder(&scratch, "other"));
    if !landlock_at_least(1) {
        return;
    }
    let script = format!(
        "cat {listed}/file; cat {other}/file || echo refused; ls {other} || echo refused; echo x > {listed}/file || echo kept"
    );
    let flags = ["--reads", "listed", "--allow-read", &listed, "-C", "/"];
    let Some(run) = run(&flags, &script) else { return };
    assert_eq!(run.ok().stdout, "text\nrefused\nrefused\nkept\n");
}

/// Fails unless these flags are refused with a message that says why and holds every word.
fn refused(flags: &[&str], words: &[&str]) {
    let Some(run) = run(flags, "echo ran") else { return };
    let run = run.expect_code(125);
    assert_eq!(run.stdout, "");
    for word in words.iter().chain(&["Landlock cannot express", "help: "]) {
        assert!(run.stderr.contains(word), "{flags:?}: {word} is not in {}", run.stderr);
    }
}

#[test]
#[kennel_claim::claim("itself/fails-closed")]
fn a_deny_inside_an_allow_is_a_clear_error() {
    let scratch = Scratch::new();
    let inside = folder(&scratch, "inside");
    let file = format!("{inside}/file");
    if !landlock_at_least(1) {
        return;
    }
    refused(&["--allow-write", &inside, "--deny-write", &file], &["--deny-write"]);
    refused(&["--allow-write", &inside, "--deny-read", &file], &["--deny-read"]);
    refused(&["--deny-read", &inside], &["--deny-read"]);
    refused(
        &["--reads", "listed", "--allow-read", &inside, "--deny-read", &file, "-C", "/"],
        &["--deny-read"],
    );
    refused(&["--deny-read", &format!("{}/**/file", scratch.path().display())], &["--deny-read"]);
}

#[test]
fn what_needs_a_mount_is_a_clear_error() {
    let scratch = Scratch::new();
    let inside = folder(&scratch, "inside");
    if !landlock_at_least(1) {
        return;
    }
    refused(&["--mount", &format!("{inside}:/elsewhere")], &["--mount"]);
    refused(&["--tmpfs", "/scratch"], &["--tmpfs"]);
}

#[test]
fn a_denied_path_that_does_not_exist_cannot_be_made() {
    let scratch = Scratch::new();
    let inside = folder(&scratch, "inside");
    if !landlock_at_least(1) {
        return;
    }
    let denied = format!("{inside}/sub/.git");
    let script = "mkdir sub && mkdir sub/.git || echo refused; echo x > sub/git && mv sub/git sub/.git || echo refused";
    let flags = ["--allow-write", &inside, "--deny-write", &denied, "-C", &inside];
    let Some(run) = run(&flags, script) else { return };
    let run = run.ok();
    assert_eq!(run.stdout, "refused\nrefused\n", "{}", run.stderr);
    assert!(
        run.stderr.contains(&format!("kennel: refused to create {denied} (mkdir or mknod)")),
        "{}",
        run.stderr
    );
    assert!(!scratch.join("inside/sub/.git").exists() && scratch.join("inside/sub/git").is_file());
}

/// Without a PID namespace init has to end what is inside.
#[test]
fn a_denied_path_that_appears_all_the_same_ends_everything_inside() {
    let scratch = Scratch::new();
    let inside = folder(&scratch, "inside");
    if !landlock_at_least(1) {
        return;
    }
    let denied = format!("{inside}/.git");
    let sleep = kennel_tests::leftovers::unique_sleep();
    let script = format!("sleep {sleep} & touch go; exec sleep {sleep}");
    let words = [
        "run",
        "--no-settings",
        "--best-effort",
        "--allow-write",
        &inside,
        "--deny-write",
        &denied,
        "-C",
        &inside,
    ];
    let Some(mut command) = kennel_in(LACK, words) else { return };
    let child =
        command.args(["--", "sh", "-c", &script]).stderr(std::process::Stdio::piped()).spawn().unwrap();
    kennel_tests::eventually("the command runs", || scratch.join("inside/go").exists().then_some(()));
    std::fs::create_dir(&denied).unwrap();
    let run = Ran::from(child.wait_with_output().unwrap()).expect_code(123);
    assert!(run.stderr.contains("was created despite the guard, and removed again"), "{}", run.stderr);
    assert!(!scratch.join("inside/.git").exists());
    assert_eq!(kennel_tests::leftovers::processes_left_with(&sleep), [""; 0]);
}

#[test]
fn a_listed_unix_socket_can_be_connected_to_and_no_other() {
    let scratch = Scratch::new();
    if !landlock_at_least(1) {
        return;
    }
    if !std::path::Path::new("/usr/bin/python3").is_file() {
        return kennel_tests::skipped("/usr/bin/python3 is not installed");
    }
    let [listed, other] = ["listed", "other"].map(|name| scratch.join(name));
    let _listeners = [&listed, &other].map(|path| std::os::unix::net::UnixListener::bind(path).unwrap());
    let script = format!(
        "/usr/bin/python3 -c '
import socket
for path in \"{}\", \"{}\", \"\\0kennel-test\":
    try:
        socket.socket(socket.AF_UNIX).connect(path)
        print(\"connected\")
    except OSError as error:
        print(error.errno)
'",
        listed.display(),
        other.display()
    );
    let flags = ["--allow-unix-socket", listed.to_str().unwrap()];
    let Some(run) = run(&flags, &script) else { return };
    assert_eq!(run.ok().stdout, "connected\n13\n13\n");
    // The guard connects on the command's behalf, where Landlock cannot say to which hosts.
    refused(&[&flags[..], &["--allow-domain", "example.com"]].concat(), &["listed unix sockets"]);
}

/// Landlock has no right for these, so the filter refuses them where nothing can be written; where something can, the
/// outcome says what is not held.
#[test]
#[kennel_claim::claim("itself/without-namespaces-files-keep-modes")]
fn modes_owners_times_and_attributes_are_kept_or_the_outcome_says_that_they_are_not() {
    if !landlock_at_least(1) {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.write("file", "text\n");
    let folder = scratch.dir("work");
    let path = file.display().to_string();
    let script = format!(
        "for try in 'chmod 640 {path}' 'chown {}:{} {path}' 'touch -d @1 {path}' 'chmod u+s {path}'; do
             $try 2>/dev/null && echo \"$try\"
         done; exit 0",
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    let attributes = || {
        use std::os::unix::fs::MetadataExt;
        let data = std::fs::metadata(&file).unwrap();
        (data.mode(), data.uid(), data.mtime())
    };
    let before = attributes();
    const SAID: &str = "not enforced: modes, owners, times and extended attributes";
    for flags in [
        &[][..],
        &["--seccomp", "permissive"],
        &["--seccomp", "strict"],
        &["--reads", "listed", "--allow-read", "/var/tmp"],
    ] {
        let Some(told) = run(flags, &script) else { return };
        assert_eq!(told.stdout, "", "{flags:?}: {}", told.stderr);
        assert!(!told.stderr.contains(SAID), "{flags:?}: {}", told.stderr);
        assert_eq!(attributes(), before, "{flags:?}");
    }
    // With the protection off the same attempt works, which is what has to be told.
    let work = folder.display().to_string();
    for flags in [&["--seccomp", "none"][..], &["--allow-write", &work]] {
        let Some(told) = run(flags, &script) else { return };
        assert!(told.stdout.contains("touch -d @1"), "{flags:?}: {told:?}");
        assert!(told.stderr.contains(SAID), "{flags:?}: {}", told.stderr);
    }
}

#[test]
#[kennel_claim::claim("itself/without-namespaces-files-keep-modes")]
fn a_write_root_that_is_the_whole_disk_is_refused_because_the_kernels_files_would_be_in_it() {
    if !landlock_at_least(1) {
        return;
    }
    let Some(told) = run(&["--allow-write", "/"], "echo it ran") else { return };
    let told = told.expect_code(125);
    assert!(told.stderr.contains("that stays read-only in a writable folder"), "{}", told.stderr);
}
