//! Where the caller's home is: what `~` stands for in rules.
//!
//! `HOME` says so, where it is the absolute path of a folder, because that is where programs look. The user database says
//! it otherwise; and whoever keeps keys in a home must not lose their protection to a wrong variable, so a deny below `~`
//! holds in every home that is known: that of `HOME`, that of the user database, and below `sudo` that of the user who
//! called it.
//!
//! The database is `/etc/passwd`, read here: a static program cannot load the modules by which a C library would ask
//! other directories (LDAP and the like). A user who is only there has the home that `HOME` says.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use kennel_policy::passwd::home_of;
use kennel_policy::settings::Base;

/// The homes of one person; the first is what `~` opens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Homes(Vec<PathBuf>);

impl Homes {
    /// The homes of this process's user, by its own variables.
    #[must_use]
    pub fn of_this_process() -> Homes {
        let variables = ["HOME", "SUDO_UID"].map(|name| (name, std::env::var_os(name)));
        Homes::of_caller(|name| variables.iter().find(|(own, _)| *own == name)?.1.as_deref())
    }

    /// The homes of whoever has these variables and runs this program.
    pub fn of_caller<'e>(variable: impl Fn(&str) -> Option<&'e OsStr>) -> Homes {
        let database = std::fs::read("/etc/passwd").unwrap_or_default();
        Homes::find(variable, user(), &database)
    }

    /// The home that `HOME` says, if it is a folder; the others are not looked for.
    #[must_use]
    pub fn of_variable(home: Option<&OsStr>) -> Option<PathBuf> {
        let home = Path::new(home?);
        (home.is_absolute() && home.is_dir()).then(|| home.to_path_buf())
    }

    fn find<'e>(variable: impl Fn(&str) -> Option<&'e OsStr>, user: u32, database: &[u8]) -> Homes {
        let number = |text: &OsStr| text.to_str()?.parse().ok();
        // Anybody can set it, but only to have more denied.
        let called_by = variable("SUDO_UID").and_then(number).filter(|_| user == 0);
        let mut homes: Vec<PathBuf> = Homes::of_variable(variable("HOME")).into_iter().collect();
        for user in [Some(user), called_by].into_iter().flatten() {
            homes.extend(home_of(user, database).filter(|home| !homes.contains(home)));
        }
        Homes(homes)
    }

    /// What paths are relative to in `folder`.
    #[must_use]
    pub fn base(&self, folder: impl Into<PathBuf>) -> Base {
        let (home, other_homes) = match self.0.split_first() {
            Some((first, others)) => (Some(first.clone()), others.to_vec()),
            None => (None, Vec::new()),
        };
        Base { folder: folder.into(), home, other_homes }
    }

    /// What `~` opens.
    #[must_use]
    pub fn first(&self) -> Option<&Path> {
        self.0.first().map(PathBuf::as_path)
    }
}

/// Who runs this program.
#[cfg(target_os = "linux")]
fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Elsewhere `HOME` alone says it.
#[cfg(not(target_os = "linux"))]
fn user() -> u32 {
    u32::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATABASE: &[u8] = b"root:x:0:0:root:/root:/bin/sh\n# a note\nme:x:1000:1000:Me,,,:/home/me:/bin/sh\n\
                              odd:x:1001:1001::relative:/bin/sh\nbroken:x:1002\nlast:x:65534:65534::/nonexistent:/x";

    fn homes(variables: &[(&str, &str)], user: u32) -> Vec<String> {
        let variable =
            |name: &str| variables.iter().find(|(own, _)| *own == name).map(|(_, v)| OsStr::new(*v));
        Homes::find(variable, user, DATABASE).0.iter().map(|home| home.display().to_string()).collect()
    }

    #[test]
    fn the_variable_comes_first_and_the_database_is_not_forgotten() {
        assert_eq!(homes(&[("HOME", "/usr")], 1000), ["/usr", "/home/me"]);
        assert_eq!(homes(&[("HOME", "/")], 7), ["/"]);
    }

    #[test]
    fn a_variable_that_is_missing_empty_relative_or_no_folder_says_nothing() {
        for wrong in [
            &[][..],
            &[("HOME", "")],
            &[("HOME", "usr")],
            &[("HOME", "/etc/passwd")],
            &[("HOME", "/no/such")],
        ] {
            assert_eq!(homes(wrong, 1000), ["/home/me"], "{wrong:?}");
        }
        assert_eq!(homes(&[], 65534), ["/nonexistent"]);
        assert_eq!(homes(&[], 1001), [""; 0]);
        assert_eq!(homes(&[], 1002), [""; 0]);
        assert_eq!(homes(&[], 7), [""; 0]);
    }

    #[test]
    fn below_sudo_the_home_of_who_called_it_counts_too() {
        assert_eq!(homes(&[("HOME", "/usr"), ("SUDO_UID", "1000")], 0), ["/usr", "/root", "/home/me"]);
        assert_eq!(homes(&[("HOME", "/usr"), ("SUDO_UID", "0x1")], 0), ["/usr", "/root"]);
        // Others cannot have been called by it.
        assert_eq!(homes(&[("HOME", "/usr"), ("SUDO_UID", "0")], 1000), ["/usr", "/home/me"]);
    }
}
