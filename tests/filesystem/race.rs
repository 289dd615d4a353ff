//! A path that somebody swaps while it is being set up: what was checked is what is mounted, or there is no sandbox.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::filesystem::{Tree, flags, inside};

/// Enough for both to meet many times; each run takes milliseconds.
const RUNS: usize = 150;

/// Exchanges `a` and `b` over and over while `work` runs.
fn while_swapping(a: &Path, b: &Path, work: impl FnOnce()) {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let swapping = scope.spawn(|| {
            let mut swaps = 0;
            while !over.load(Ordering::Relaxed) {
                renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE)
                    .expect("a scratch folder takes an exchange");
                swaps += 1;
                std::thread::yield_now();
            }
            swaps
        });
        // A failing test still has to stop the swapper, or the scope would wait for it for ever.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        over.store(true, Ordering::Relaxed);
        if let Err(failure) = outcome {
            std::panic::resume_unwind(failure);
        }
        assert!(swapping.join().unwrap() > RUNS, "the swapper hardly ran");
    });
}

/// A glob in an allow list leaves out symlinks, so nothing outside can be meant by it, whenever the link is swapped in.
#[test]
fn a_folder_swapped_for_a_link_never_makes_a_glob_write_outside() {
    let tree = Tree::new();
    tree.scratch.write("other/sub/file", "as it was");
    symlink(tree.at("other"), tree.at("bait")).unwrap();
    let mut ran_well = 0;
    // The last component that the glob finds, then one in the middle.
    for glob in ["projec[t]", "p*/su?"] {
        let rules = flags([("--allow-write", tree.at(glob))]);
        while_swapping(&tree.at("project"), &tree.at("bait"), || {
            for _ in 0..RUNS {
                let script = "echo evil > \"$1/file\"; echo evil > \"$1/sub/file\"; exit 0";
                let ran = inside(&rules, script, &[&tree.at("other")]);
                assert!([0, 125].contains(&ran.code), "{ran:?}");
                ran_well += usize::from(ran.code == 0);
                let untouched =
                    |name, text| assert_eq!(std::fs::read_to_string(tree.at(name)).unwrap(), text, "{glob}");
                untouched("other/file", "other/file");
                untouched("other/sub/file", "as it was");
            }
        });
    }
    assert!(ran_well > 0, "no run got through, so nothing was tried");
}

/// A named link is followed, so either folder may be meant; but what is mounted at a place is what was found there.
#[test]
fn what_is_mounted_is_what_was_resolved() {
    let tree = Tree::new();
    tree.scratch.write("other/sub/file", "x");
    symlink(tree.at("other"), tree.at("bait")).unwrap();
    let rules = flags([("--allow-write", tree.at("project/sub"))]);
    let (mut kept, mut followed, mut refused) = (0, 0, 0);
    while_swapping(&tree.at("project"), &tree.at("bait"), || {
        for _ in 0..RUNS {
            let ran = inside(&rules, "cat /proc/self/mountinfo", &[]);
            if ran.code == 125 {
                refused += 1;
                continue;
            }
            let place = tree.scratch.path().to_str().unwrap();
            let ran = ran.ok();
            for line in ran
                .stdout
                .lines()
                .filter(|line| line.split(' ').nth(4).is_some_and(|at| at.starts_with(place)))
            {
                let columns: Vec<&str> = line.split(' ').collect();
                // The folder goes by two names, since it is being renamed all the time.
                let source_is_other = columns[3].ends_with("/other/sub");
                match columns[4].strip_prefix(place).unwrap() {
                    "/project/sub" => kept += usize::from(!source_is_other),
                    "/other/sub" => followed += usize::from(source_is_other),
                    "/bait/sub" => assert!(!source_is_other, "{line}"),
                    _ => panic!("a mount where no rule put one: {line}"),
                }
                assert!(source_is_other == columns[4].ends_with("/other/sub"), "redirected: {line}");
            }
        }
    });
    println!("as a folder {kept}, as a link {followed}, refused {refused}");
    assert!(kept + followed > 0, "no run got through, so nothing was seen");
}
