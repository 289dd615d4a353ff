//! Against the guard: a path that another thread changes between the guard's look and the kernel's, and names that stand
//! in the way of what the guard does about it.

use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::call::{Fd, HERE, call, text};
use super::{Actor, Answer};
use crate::attack::script::Op;
use crate::attack::wire::now;
use crate::attack::word;

impl Actor {
    pub(super) fn race(&mut self, op: &Op) -> Answer {
        match op.verb.as_str() {
            "flood" => return self.flood(op),
            "deep" => return self.deep(op),
            "flip" => return self.flip(op),
            "repeat" => return self.repeat(op),
            _ => {}
        }
        let takes_source = matches!(op.word(0), "rename" | "link");
        let from = self.path(op.word(1));
        let shift = usize::from(takes_source);
        let (harmless, denied) = (self.path(op.word(1 + shift)), self.path(op.word(2 + shift)));
        let end = now() + op.number(3 + shift) * 1_000_000;
        let Some((place, byte)) = difference(&harmless, &denied) else {
            return Answer::of(-i64::from(libc::EINVAL));
        };
        // Never freed: the other thread writes to it until the process ends.
        let path: &'static mut [u8] = Box::leak(harmless.clone().into_bytes_with_nul().into_boxed_slice());
        let (address, harmless_byte) = (path.as_mut_ptr() as usize, path[place]);
        let over = Arc::new(AtomicBool::new(false));
        let flipper = {
            let over = over.clone();
            std::thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    for byte in [byte, harmless_byte] {
                        // SAFETY: within the text, which is never freed. That others read it meanwhile is the point.
                        unsafe { std::ptr::write_volatile((address + place) as *mut u8, byte) };
                        std::hint::spin_loop();
                    }
                }
            })
        };
        let mut won = -1;
        while now() < end && won < 0 {
            let source = text(&from);
            let result = match op.word(0) {
                "mkdir" => call(libc::SYS_mkdirat, &[HERE, address, 0o755]),
                "create" => call(
                    libc::SYS_openat,
                    &[HERE, address, (libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY) as usize, 0o644],
                ),
                "symlink" => call(libc::SYS_symlinkat, &[text(c"x"), HERE, address]),
                "fifo" => call(libc::SYS_mknodat, &[HERE, address, (libc::S_IFIFO | 0o600) as usize, 0]),
                "rename" => call(libc::SYS_renameat2, &[HERE, source, HERE, address, 0]),
                _ => call(libc::SYS_linkat, &[HERE, source, HERE, address, 0]),
            };
            if result >= 0 && op.word(0) == "create" {
                call(libc::SYS_close, &[result as usize]);
            }
            if call(libc::SYS_faccessat, &[HERE, text(&denied), 0]) == 0 {
                won = 0;
                break;
            }
            // Back to the beginning.
            let harmless = text(&harmless);
            match op.word(0) {
                "rename" => call(libc::SYS_renameat2, &[HERE, harmless, HERE, source, 0]),
                "mkdir" => call(libc::SYS_unlinkat, &[HERE, harmless, libc::AT_REMOVEDIR as usize]),
                _ => call(libc::SYS_unlinkat, &[HERE, harmless, 0]),
            };
        }
        over.store(true, Ordering::Relaxed);
        let _ = flipper.join();
        Answer::of(won)
    }

    /// Exchanges two names again and again, so that others meet now the one and now the other.
    fn flip(&mut self, op: &Op) -> Answer {
        let (one, two) = (self.path(op.word(0)), self.path(op.word(1)));
        let end = now() + op.number(2) * 1_000_000;
        let mut done = 0;
        while now() < end {
            let result = call(
                libc::SYS_renameat2,
                &[HERE, text(&one), HERE, text(&two), libc::RENAME_EXCHANGE as usize],
            );
            if result < 0 {
                return Answer::of(result);
            }
            done += 1;
        }
        Answer::of(done)
    }

    /// Tries something until it succeeds.
    fn repeat(&mut self, op: &Op) -> Answer {
        let again = Op { verb: op.word(1).to_owned(), words: op.words.get(2..).unwrap_or_default().to_vec() };
        let mut last = Answer::of(-1);
        for _ in 0..op.number(0) {
            last = self.act(&again);
            if last.result >= 0 {
                break;
            }
        }
        last
    }

    /// Makes folders in each other, each entered before the next: no path is long enough for them.
    fn deep(&mut self, op: &Op) -> Answer {
        let Ok(mut at) = Fd::open(HERE, &self.path(op.word(0)), libc::O_RDONLY | libc::O_DIRECTORY) else {
            return Answer::of(-1);
        };
        for number in 0..op.number(1) {
            call(libc::SYS_mkdirat, &[at.arg(), text(c"d"), 0o755]);
            match Fd::open(at.arg(), c"d", libc::O_RDONLY | libc::O_DIRECTORY) {
                Ok(next) => at = next,
                Err(_) => return Answer::of(i64::try_from(number).unwrap_or(0)),
            }
        }
        Answer::of(0)
    }

    /// Makes files whose names are a prefix and a number.
    fn flood(&mut self, op: &Op) -> Answer {
        let mut made = 0;
        for number in 1..=op.number(1) {
            let name = word::place(&self.top, &format!("{}{number}", op.word(0)));
            let name = CString::new(name.into_os_string().into_vec()).unwrap_or_default();
            made += i64::from(Fd::open(HERE, &name, libc::O_WRONLY | libc::O_CREAT).is_ok());
        }
        Answer::of(made)
    }
}

/// The one place where two texts differ, and what the second has there.
fn difference(one: &CString, two: &CString) -> Option<(usize, u8)> {
    let (one, two) = (one.as_bytes(), two.as_bytes());
    let mut places = (0..one.len()).filter(|place| one.get(*place) != two.get(*place));
    let place = places.next()?;
    (one.len() == two.len() && places.next().is_none()).then(|| (place, two[place]))
}
