//! Denied paths that do not exist yet, and unix sockets by path: rules with nothing to mount on, which the guard keeps.

mod cost;
mod creation;
mod endings;
mod own_sockets;
mod places;
mod programs;
mod race;
mod sockets;
mod told;

use std::path::PathBuf;

use kennel_tests::{Scratch, text};

kennel_tests::roles! {
    "race" => race::flip,
    "interrupted" => programs::interrupted,
    "not-dumpable" => programs::not_dumpable,
    "connect" => sockets::connect,
    "flip-address" => sockets::flip,
    "listen" => own_sockets::listen,
    "listen-on-what-was-passed" => own_sockets::listen_on_what_was_passed,
    "connect-what-was-passed" => own_sockets::connect_what_was_passed,
    "other-families" => sockets::other_families,
}

/// A project in which these paths are denied and do not exist.
struct Project {
    scratch: Scratch,
    flags: Vec<String>,
}

impl Project {
    fn denying(absent: &[&str]) -> Project {
        let scratch = Scratch::new();
        let top = scratch.dir("project");
        scratch.write("project/mine/file", "mine");
        let mut flags = vec!["--no-settings".into(), "--allow-write".into(), text(&top)];
        for path in absent {
            flags.extend(["--deny-write".into(), text(&top.join(path))]);
        }
        Project { scratch, flags }
    }

    fn flags(&self) -> Vec<&str> {
        self.flags.iter().map(String::as_str).collect()
    }

    fn at(&self, name: &str) -> PathBuf {
        self.scratch.join("project").join(name)
    }

    /// Fails unless `work` leaves every name below the scratch folder as it was.
    #[track_caller]
    fn unchanged_by<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = self.scratch.listing();
        let result = work();
        assert_eq!(before, self.scratch.listing(), "names came or went");
        result
    }
}
