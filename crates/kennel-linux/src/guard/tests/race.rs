//! A caller that changes its memory between the guard's look and the kernel's: what appears is taken away.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::probe::{HERE, at, c, call};
use super::*;
use crate::guard::watch::AbsentWatch;

/// Threads make names while another flips one letter of the path between harmless and protected.
pub(super) fn attempts(kind: &str, yard: &Path, tell: impl Fn(&str, i32)) {
    let start = Instant::now();
    let harmless = c(yard.join("xgit"));
    let letter = harmless.as_bytes().len() - 4;
    let text: &'static [u8] = Box::leak(harmless.into_bytes_with_nul().into_boxed_slice());
    let address = text.as_ptr() as usize;
    std::thread::spawn(move || {
        loop {
            for byte in [b'.', b'x'] {
                // SAFETY: within the text, which lives for ever; the kernel and the guard read it meanwhile, and that
                // is the point.
                unsafe { std::ptr::write_volatile((address + letter) as *mut u8, byte) };
                std::hint::spin_loop();
            }
        }
    });
    let mut tried = 0;
    while start.elapsed() < Duration::from_secs(10) {
        tried += 1;
        match kind {
            "race by mkdir" => {
                call(libc::SYS_mkdirat, &[HERE, address, 0o700], false);
            }
            "race by open" => {
                call(libc::SYS_openat, &[HERE, address, libc::O_CREAT as usize, 0o600], true);
            }
            "race by rename" => {
                let _ = std::fs::create_dir_all(yard.join("tree/hooks"));
                let _ = std::fs::write(yard.join("tree/hooks/pre-commit"), "evil");
                call(libc::SYS_renameat2, &[HERE, at(&c("tree")), HERE, address, 0], false);
            }
            other => panic!("no such scenario: {other}"),
        }
        let _ = std::fs::remove_dir_all(yard.join("xgit"));
        let _ = std::fs::remove_file(yard.join("xgit"));
        if tried % 100 == 0 {
            tell("tried", 0);
        }
    }
}

/// Looks as fast as it can whether `path` is there; returns how long it was.
fn observe(path: &Path, until: &AtomicBool) -> Duration {
    let (mut seen, mut total) = (None, Duration::ZERO);
    loop {
        let there = rustix::fs::lstat(path).is_ok();
        match (there, seen) {
            (true, None) => seen = Some(Instant::now()),
            (false, Some(since)) => {
                total += Instant::now() - since;
                seen = None;
            }
            (false, None) if until.load(Ordering::SeqCst) => return total,
            // Only a name that stays for ever keeps this going, and the test fails on it elsewhere.
            (true, Some(since)) if until.load(Ordering::SeqCst) => return total + (Instant::now() - since),
            _ => {}
        }
    }
}

fn race(kind: &str, rounds: u32) {
    let (mut won, mut seen, mut longest) = (0, 0, Duration::ZERO);
    let mut times = Vec::new();
    for _ in 0..rounds {
        let yard = Yard::new();
        let path = yard.path(".git");
        let over = Arc::new(AtomicBool::new(false));
        let observer = {
            let (path, over) = (path.clone(), over.clone());
            std::thread::spawn(move || observe(&path, &over))
        };
        let began = Instant::now();
        let told = Guarded::start(kind, &yard.0, Some(yard.absent(&[".git"]))).finish();
        assert!(rustix::fs::lstat(&path).is_err(), "{kind}: the protected name stands after the end");
        over.store(true, Ordering::SeqCst);
        let stood = observer.join().expect("the observer does not fail");
        let broken = told.violations.iter().find_map(|violation| match violation {
            Violation::Broken { path: at, mended, .. } if *at == path => Some(mended),
            _ => None,
        });
        assert_eq!(broken.is_some(), told.ended, "{kind}: {:?}", told.violations);
        assert!(
            stood.is_zero() || broken.is_some(),
            "{kind}: it stood for {stood:?} and nothing was recorded"
        );
        if let Some(mended) = broken {
            won += 1;
            seen += u32::from(!stood.is_zero());
            longest = longest.max(stood);
            times.push(began.elapsed());
            match mended {
                Mended::Removed | Mended::Gone => {}
                Mended::MovedAside(name) => {
                    assert!(rustix::fs::lstat(yard.path(name.to_str().unwrap())).is_ok());
                }
                other => panic!("{kind}: {other:?}"),
            }
        }
    }
    times.sort_unstable();
    println!(
        "{kind}: won {won} of {rounds} rounds, after {:?} at the median; a thread that looked all the time saw the \
         name in {seen} of them, for at most {longest:?}",
        times.get(times.len() / 2)
    );
    // Otherwise this test shows nothing; each round goes on for ten seconds, thousands of attempts.
    assert!(won > 0, "{kind}: the race was never won");
}

#[test]
fn a_folder_made_by_winning_the_race_is_removed_recorded_and_ends_the_sandbox() {
    race("race by mkdir", 5);
}

#[test]
fn a_file_made_by_winning_the_race_is_removed_recorded_and_ends_the_sandbox() {
    race("race by open", 5);
}

#[test]
fn a_tree_moved_by_winning_the_race_is_moved_aside_recorded_and_ends_the_sandbox() {
    race("race by rename", 5);
}

/// The same as winning the race, without the luck: this process is not under the filter.
#[test]
fn what_appears_at_a_protected_name_is_gone_at_once() {
    let yard = Yard::new();
    std::fs::write(yard.path("guarded"), "").unwrap();
    let guarded = Guarded::start("orphaned", &yard.0, Some(yard.absent(&[".git"])));
    let path = yard.path(".git");
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..200 {
        std::fs::create_dir(&path).unwrap();
        let since = Instant::now();
        while rustix::fs::lstat(&path).is_ok() {
            assert!(since.elapsed() < Duration::from_secs(20), "it stays");
        }
        times.push(since.elapsed());
    }
    times.sort_unstable();
    println!("a name that appears is gone after {:?} at the median, {:?} at most", times[100], times[199]);
    std::fs::remove_file(yard.path("guarded")).unwrap();
    let told = guarded.finish();
    assert!(told.ended);
    let broken = |violation: &&Violation| matches!(violation, Violation::Broken { mended: Mended::Removed, path: at, .. } if *at == path);
    assert!(told.violations.iter().filter(broken).count() > 0);
}

#[test]
fn what_was_there_before_the_run_is_moved_aside_and_not_removed() {
    let yard = Yard::new();
    std::fs::write(yard.path("guarded"), "").unwrap();
    std::fs::create_dir(yard.path("mine")).unwrap();
    std::fs::write(yard.path("mine/history"), "years of it").unwrap();
    std::fs::write(yard.path("notes"), "also mine").unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let guarded = Guarded::start("orphaned", &yard.0, Some(yard.absent(&[".git", ".settings"])));
    std::fs::rename(yard.path("mine"), yard.path(".git")).unwrap();
    std::fs::rename(yard.path("notes"), yard.path(".settings")).unwrap();
    std::fs::remove_file(yard.path("guarded")).unwrap();
    guarded.finish();
    assert!(!yard.path(".git").exists() && !yard.path(".settings").exists());
    let aside = |name: &str| {
        let entries = std::fs::read_dir(&yard.0).unwrap().flatten().map(|entry| entry.path());
        let mark = format!("{name}.refused-by-kennel-");
        let mut aside = entries.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(&mark));
        aside.next().unwrap()
    };
    assert_eq!(std::fs::read_to_string(aside(".git").join("history")).unwrap(), "years of it");
    assert_eq!(std::fs::read_to_string(aside(".settings")).unwrap(), "also mine");
}

#[test]
fn a_name_that_appears_in_folders_made_during_the_run_is_seen_too() {
    let yard = Yard::new();
    std::fs::write(yard.path("guarded"), "").unwrap();
    let guarded = Guarded::start("orphaned", &yard.0, Some(yard.absent(&["a/b/c/.git"])));
    std::fs::create_dir_all(yard.path("a/b/c/.git")).unwrap();
    std::fs::remove_file(yard.path("guarded")).unwrap();
    let told = guarded.finish();
    assert!(told.ended && yard.path("a/b/c").is_dir() && !yard.path("a/b/c/.git").exists());
}

/// Root's guard has no trouble with permissions, so it is an ordinary user who sees this fail.
#[test]
fn a_shut_folder_is_not_taken_for_one_where_the_name_comes_back_again_and_again() {
    let yard = Yard::new();
    std::fs::create_dir(yard.path("a")).unwrap();
    let rules = yard.absent(&["a/.git"]);
    let ground = ProtectedPaths::new(&rules.protected).unwrap();
    let mut folders = folders::FolderWatch::new().unwrap();
    let mut watch = AbsentWatch::of_a_run_that_starts();
    watch.begin(&ground, &mut folders).unwrap();
    std::fs::create_dir_all(yard.path("a/.git/hooks")).unwrap();
    let shut =
        |mode| std::fs::set_permissions(yard.path("a"), std::fs::Permissions::from_mode(mode)).unwrap();
    shut(0o000);
    let mended = watch.mend(&ground, 0, &mut folders, &mut || {});
    let again = watch.mend(&ground, 0, &mut folders, &mut || {});
    shut(0o700);
    assert!(matches!(mended, Some(Mended::MovedAside(_))), "{mended:?}");
    assert_eq!(again, None);
}

#[test]
fn what_the_host_had_there_is_left_alone_in_a_folder_that_was_shut() {
    let yard = Yard::new();
    std::fs::create_dir_all(yard.path("a/.git/hooks")).unwrap();
    let ground = ProtectedPaths::new(&yard.absent(&["a/.git"]).protected).unwrap();
    let mut folders = folders::FolderWatch::new().unwrap();
    let mut watch = AbsentWatch::of_a_run_that_starts();
    watch.begin(&ground, &mut folders).unwrap();
    assert!(watch.leave(&ground, 0));
    let shut =
        |mode| std::fs::set_permissions(yard.path("a"), std::fs::Permissions::from_mode(mode)).unwrap();
    shut(0o000);
    let mended = watch.mend(&ground, 0, &mut folders, &mut || {});
    shut(0o700);
    assert_eq!(mended, None);
    assert!(yard.path("a/.git/hooks").is_dir());
}
