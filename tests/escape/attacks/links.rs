//! A link that changes while it is opened.

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Reads `link` for a second while another thread turns it between two targets; says what was seen.
pub fn read_while_swapping(words: &[OsString]) -> i32 {
    let [link, open, hidden] = words else { return 2 };
    let (link, other) = (PathBuf::from(link), PathBuf::from(link).with_extension("other"));
    symlink(open, &link).unwrap();
    symlink(hidden, &other).unwrap();
    let over = AtomicBool::new(false);
    let (mut opened, mut refused) = (false, false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let cwd = rustix::fs::CWD;
                rustix::fs::renameat_with(cwd, &link, cwd, &other, rustix::fs::RenameFlags::EXCHANGE)
                    .unwrap();
            }
        });
        let until = Instant::now() + Duration::from_secs(1);
        while Instant::now() < until {
            match std::fs::read_to_string(&link) {
                Ok(text) if text.starts_with("anybody") => opened = true,
                Ok(text) => println!("{text}"),
                Err(_) => refused = true,
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    std::fs::remove_file(&link).unwrap();
    std::fs::remove_file(&other).unwrap();
    println!("{} {}", if opened { "opened" } else { "" }, if refused { "refused" } else { "" });
    0
}
