//! Profiles: those for known agents, those of the user's own, and what `kennel run` says about them. The agents themselves
//! are not started here: a shell does what an agent that was talked into something would do.

mod browser;
mod caches;
mod created;
mod hints;
mod mirrors;
mod own;
mod package_managers;
mod private_home;
mod state;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use kennel_policy::caches::caches;
use kennel_tests::{Ran, Scratch, kennel, ran};

/// A home with a project in it.
struct Home {
    scratch: Scratch,
}

impl Home {
    fn new() -> Home {
        let home = Home { scratch: Scratch::new() };
        home.scratch.dir("home/project");
        home
    }

    /// A path below the home.
    fn at(&self, name: &str) -> PathBuf {
        self.scratch.join("home").join(name)
    }

    fn write(&self, name: &str, contents: &str) -> PathBuf {
        self.scratch.write(&format!("home/{name}"), contents)
    }

    fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.at(name)).ok()
    }

    /// kennel as the owner of this home calls it, in the project.
    fn kennel<I: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = I>) -> Command {
        let mut command = kennel(words);
        command.env("HOME", self.at("")).env_remove("XDG_CONFIG_HOME").env("LC_ALL", "C");
        // Those of who runs the tests are somebody else's.
        for name in
            caches().iter().filter_map(|cache| cache.moved.split('/').next()).filter(|name| !name.is_empty())
        {
            command.env_remove(name);
        }
        command.env_remove("XDG_CACHE_HOME").env_remove("XDG_DATA_HOME");
        command.current_dir(self.at("project"));
        command
    }

    /// A script inside, with these flags.
    fn inside(&self, flags: &[&str], script: &str) -> Ran {
        ran(self.kennel(["run"]).args(flags).args(["--", "sh", "-c", script]))
    }

    /// A script on the host.
    #[track_caller]
    fn outside(&self, script: &str) -> Ran {
        let mut command = Command::new("sh");
        ran(command.args(["-ec", script]).env("HOME", self.at("")).current_dir(self.at("project"))).ok()
    }
}
