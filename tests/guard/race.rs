//! A program that changes the path in its memory after the guard has read it and before the kernel does. It may win;
//! then what it made is taken away at once and its sandbox ended.

use std::ffi::OsString;
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kennel_tests::probe::probe_inside;
use kennel_tests::{ran_within, text};

use crate::guard::Project;

/// How long a round goes on if nobody ends it.
const ROUND: Duration = Duration::from_secs(6);

/// The role: threads make a name while another thread flips one letter of it between harmless and denied. Prints how
/// often it was tried, over and over.
pub fn flip(words: &[OsString]) -> i32 {
    let (kind, folder) = (words[0].to_string_lossy().into_owned(), Path::new(&words[1]).to_path_buf());
    let mut path = text(&folder.join("xgit")).into_bytes();
    path.push(0);
    let letter = path.len() - 5;
    let address = path.leak().as_mut_ptr() as usize;
    let tried: &'static AtomicU64 = Box::leak(Box::default());
    let began = Instant::now();
    std::thread::spawn(move || {
        loop {
            for byte in [b'.', b'x'] {
                // SAFETY: within the text, which lives for ever. Others read it meanwhile, and that is the point.
                unsafe { std::ptr::write_volatile((address + letter) as *mut u8, byte) };
                std::hint::spin_loop();
            }
        }
    });
    for number in 0..2 {
        let (kind, folder) = (kind.clone(), folder.clone());
        std::thread::spawn(move || {
            loop {
                make(&kind, &folder, number, address);
                tried.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    while began.elapsed() < ROUND {
        std::thread::sleep(Duration::from_millis(1));
        let _ = writeln!(std::io::stdout(), "{}", tried.load(Ordering::Relaxed));
    }
    0
}

fn make(kind: &str, folder: &Path, number: u32, address: usize) {
    let at = libc::AT_FDCWD;
    // SAFETY: the address is that of a NUL-terminated text that lives for ever; the other path is live for its call.
    unsafe {
        match kind {
            "mkdir" => libc::syscall(libc::SYS_mkdirat, at, address, 0o700),
            "open" => {
                let fd = libc::syscall(libc::SYS_openat, at, address, libc::O_CREAT | libc::O_WRONLY, 0o600);
                libc::close(fd as i32);
                fd
            }
            _ => {
                if kind == "shut" {
                    let _ = std::fs::set_permissions(folder, Permissions::from_mode(0o700));
                }
                let tree = folder.join(format!("tree{number}"));
                let _ = std::fs::create_dir_all(tree.join("hooks"));
                let _ = std::fs::write(tree.join("hooks/pre-commit"), "evil");
                let tree = std::ffi::CString::new(text(&tree)).expect("no NUL in a scratch folder's path");
                libc::syscall(libc::SYS_renameat2, at, tree.as_ptr(), at, address, 0)
            }
        }
    };
    if kind == "shut" {
        // Neither to be listed, nor passed, nor changed, not even by its owner.
        let _ = std::fs::set_permissions(folder, Permissions::from_mode(0o000));
        return;
    }
    let _ = std::fs::remove_dir_all(folder.join("xgit"));
    let _ = std::fs::remove_file(folder.join("xgit"));
}

/// Looks as fast as it can whether `path` is there, until told to stop; returns for how long it was.
fn observe(path: &Path, over: &AtomicBool) -> Duration {
    let (mut since, mut total) = (None, Duration::ZERO);
    while !over.load(Ordering::SeqCst) {
        match (path.symlink_metadata().is_ok(), since) {
            (true, None) => since = Some(Instant::now()),
            (false, Some(seen)) => {
                total += Instant::now() - seen;
                since = None;
            }
            _ => {}
        }
    }
    total
}

fn race(kind: &str, rounds: u32) {
    let (mut won, mut seen, mut longest, mut attempts) = (0, 0, Duration::ZERO, Vec::new());
    for _ in 0..rounds {
        let project = Project::denying(&["a/.git"]);
        let (path, folder) = (project.at("a/.git"), text(&project.at("a")));
        std::fs::create_dir_all(&folder).expect("a project can be written");
        // What a program that has read the guard's code might take first.
        for number in 1..if kind == "rename" { 1000 } else { 1 } {
            std::fs::write(project.at(&format!("a/.git.refused-by-kennel-{number}")), "").unwrap();
        }
        let over = Arc::new(AtomicBool::new(false));
        let observer = {
            let (path, over) = (path.clone(), over.clone());
            std::thread::spawn(move || observe(&path, &over))
        };
        let mut command = probe_inside("race", &project.flags(), &[kind, &folder]);
        let ran = ran_within(ROUND + Duration::from_secs(60), &mut command);
        over.store(true, Ordering::SeqCst);
        let stood = observer.join().expect("the observer does not fail");
        let _ = std::fs::set_permissions(&folder, Permissions::from_mode(0o700));
        assert!(path.symlink_metadata().is_err(), "{kind}: the denied name stands after the end: {ran:?}");
        let told = ran.stderr.contains(&format!("{} was created despite the guard, and ", path.display()));
        match ran.code {
            123 => {
                assert!(told, "{}", ran.stderr);
                won += 1;
                attempts
                    .push(ran.stdout.lines().last().and_then(|line| line.parse::<u64>().ok()).unwrap_or(0));
                seen += u32::from(!stood.is_zero());
                longest = longest.max(stood);
                if let Some((_, rest)) = ran.stderr.split_once("moved aside to ") {
                    let name = rest.split(';').next().unwrap_or_default();
                    assert!(project.at("a").join(name).exists(), "{}", ran.stderr);
                }
                assert!(!ran.stderr.contains("could not be removed"), "{}", ran.stderr);
            }
            0 => assert!(!told && stood.is_zero(), "it stood for {stood:?} and nothing came of it"),
            _ => panic!("{kind}: {ran:?}"),
        }
    }
    attempts.sort_unstable();
    println!(
        "{kind}: won in {won} of {rounds} rounds of {ROUND:?}, after {} attempts at the median; a thread that looked all \
         the time saw the name in {seen} of them, for at most {longest:?}",
        attempts.get(attempts.len() / 2).copied().unwrap_or(0)
    );
    assert!(won > 0, "{kind}: the race was never won, so nothing was shown");
}

#[test]
#[kennel_claim::claim("files/lost-races-end-the-sandbox")]
fn a_folder_made_by_winning_the_race_is_removed_and_ends_the_sandbox() {
    race("mkdir", 4);
}

#[test]
fn a_file_made_by_winning_the_race_is_removed_and_ends_the_sandbox() {
    race("open", 4);
}

#[test]
#[kennel_claim::claim("files/lost-races-end-the-sandbox")]
fn a_tree_renamed_by_winning_the_race_is_moved_aside_and_ends_the_sandbox() {
    race("rename", 4);
}

#[test]
#[kennel_claim::claim("files/lost-races-end-the-sandbox")]
fn a_folder_that_the_winner_of_the_race_shuts_is_opened_and_cleared() {
    race("shut", 4);
}

/// The same for a name that somebody outside makes: the sandbox may be behind it.
#[test]
fn a_denied_name_that_appears_during_the_run_is_taken_away_recorded_and_ends_the_sandbox() {
    let project = Project::denying(&["a/.git"]);
    let report = text(&project.scratch.join("report.json"));
    let flags = [&project.flags()[..], &["--report", &report]].concat();
    let go = text(&project.at("go"));
    let mut command = kennel_tests::kennel(["run"]);
    command.args(flags).args(["--", "sh", "-c", &format!(": > {go}; exec sleep 60")]);
    let child = command.stderr(std::process::Stdio::piped()).spawn().expect("kennel can be started");
    kennel_tests::eventually("the command runs", || project.at("go").exists().then_some(()));
    std::fs::create_dir_all(project.at("a/.git")).unwrap();
    let ran = kennel_tests::Ran::from(child.wait_with_output().unwrap()).expect_code(123);
    assert!(!project.at("a/.git").exists() && project.at("a").is_dir());
    assert!(
        ran.stderr
            .contains("was created despite the guard, and removed again; the sandbox was killed: deny_write")
    );
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(report).unwrap()).expect("the report is JSON");
    assert_eq!((&report["ended"], &report["exit_code"]), (&"rule-broken".into(), &123.into()));
    assert_eq!(report["violations"][0]["what"], "removed");
    assert_eq!(report["violations"][0]["path"], text(&project.at("a/.git")).as_str());
}

/// A file of the user's that bears a denied name, made while an agent runs, is never lost: not when it is there at once, and not
/// when it is still to be written.
#[test]
#[kennel_claim::claim("files/lost-races-end-the-sandbox")]
fn what_the_user_makes_at_a_denied_name_during_the_run_is_kept_beside_it() {
    type Make = fn(&Path) -> Option<std::fs::File>;
    let ways: &[(&str, Make, &str)] = &[
        (
            "written at once",
            |path| {
                std::fs::write(path, "the user's").unwrap();
                None
            },
            "the user's",
        ),
        (
            "renamed there",
            |path| {
                let beside = path.with_extension("tmp");
                std::fs::write(&beside, "the user's").unwrap();
                std::fs::rename(beside, path).unwrap();
                None
            },
            "the user's",
        ),
        // What was written goes to the file, wherever it is by then.
        ("empty, and open", |path| Some(std::fs::File::create(path).unwrap()), "the user's"),
        (
            "a link",
            |path| {
                std::os::unix::fs::symlink("somewhere", path).unwrap();
                None
            },
            "-> somewhere",
        ),
        (
            "a folder with a file",
            |path| {
                let beside = path.with_extension("tmp");
                std::fs::create_dir(&beside).unwrap();
                std::fs::write(beside.join("file"), "the user's").unwrap();
                std::fs::rename(beside, path).unwrap();
                None
            },
            "file",
        ),
    ];
    for (what, make, content) in ways {
        let project = Project::denying(&["a/.mcp.json"]);
        std::fs::create_dir_all(project.at("a")).unwrap();
        let go = text(&project.at("go"));
        let mut command = kennel_tests::kennel(["run"]);
        command.args(project.flags()).args(["--", "sh", "-c", &format!(": > {go}; exec sleep 60")]);
        let child = command.stderr(std::process::Stdio::piped()).spawn().expect("kennel can be started");
        kennel_tests::eventually("the command runs", || project.at("go").exists().then_some(()));
        let open = make(&project.at("a/.mcp.json"));
        let ran = kennel_tests::Ran::from(child.wait_with_output().unwrap()).expect_code(123);
        if let Some(mut file) = open {
            file.write_all(b"the user's").unwrap();
        }
        assert!(!project.at("a/.mcp.json").exists(), "{what}");
        let names: Vec<String> = std::fs::read_dir(project.at("a"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert!(
            names.len() == 1 && names[0].starts_with(".mcp.json.refused-by-kennel-"),
            "{what}: {names:?}"
        );
        assert!(ran.stderr.contains("moved aside to .mcp.json.refused-by-kennel-"), "{what}: {}", ran.stderr);
        let aside = project.at("a").join(&names[0]);
        let found = match aside.symlink_metadata().unwrap().file_type() {
            kind if kind.is_symlink() => format!("-> {}", aside.read_link().unwrap().display()),
            kind if kind.is_dir() => std::fs::read_dir(&aside)
                .unwrap()
                .map(|it| it.unwrap().file_name().into_string().unwrap())
                .collect(),
            _ => std::fs::read_to_string(&aside).unwrap(),
        };
        assert_eq!(found, *content, "{what}");
    }
}
