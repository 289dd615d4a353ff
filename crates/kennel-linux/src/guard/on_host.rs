//! Whether the host would have let something through that failed inside, and what would let it through inside.
//!
//! Looked at when nothing inside is left, on a thread without capabilities: with the rights that the command had. Only the
//! names of files are looked at, none is opened. A file system that does not answer keeps nobody: what was found out by then
//! is told.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use kennel_policy::credentials::is_credential;
use kennel_policy::dotfiles::{self, Hold};
use kennel_policy::outcome::{Denials, FileDenial, Remedy, Tried};
use rustix::fs::{Access, AtFlags, CWD};

use super::denials::{Layout, Suspect, Suspects};
use crate::home::homes;
use crate::resolve::{OWN_SETTINGS, Point, State, Zone};

/// As long is waited for file systems.
const PATIENCE: Duration = Duration::from_secs(1);

/// What of the suspects the sandbox alone kept from working: the likeliest cause first.
#[must_use]
pub fn denials(suspects: Suspects, layout: Arc<Layout>, traced: bool) -> Denials {
    let Suspects { list, more } = suspects;
    let mut denials = Denials { list: Vec::new(), more, traced };
    if list.is_empty() {
        return denials;
    }
    let (found, finds) = sync_channel(list.len());
    let expected = list.len();
    let started =
        std::thread::Builder::new().name("guard-host".into()).stack_size(256 * 1024).spawn(move || {
            super::drop_capabilities();
            let view = HostView { layout: &layout, homes: homes() };
            for suspect in list {
                if found.send(view.denial(suspect)).is_err() {
                    return;
                }
            }
        });
    let until = Instant::now() + PATIENCE;
    let mut heard = 0;
    while started.is_ok() && heard < expected {
        let Ok(denial) = finds.recv_timeout(until.saturating_duration_since(Instant::now())) else { break };
        heard += 1;
        denials.list.extend(denial);
    }
    denials.more += (expected - heard) as u64;
    // Of those that are alike the latest first: what a program fails at is the last that it tries.
    denials.list.reverse();
    denials.list.sort_by_key(|denial| denial.tried);
    denials
}

struct HostView<'a> {
    layout: &'a Layout,
    homes: Vec<PathBuf>,
}

impl HostView<'_> {
    /// What is told of a suspect; `None` where the host would not have let it through either.
    fn denial(&self, suspect: Suspect) -> Option<FileDenial> {
        let Suspect { tried, path, point, program, times } = suspect;
        let at = point.and_then(|index| self.layout.point(index));
        let host = match at.map(|point| (&point.path, &point.state)) {
            Some((inside, State::Host { source, .. })) => {
                match path.strip_prefix(inside) {
                    // An empty path that is joined would make a folder of the file.
                    Ok(rest) if !rest.as_os_str().is_empty() => source.path.join(rest),
                    _ => source.path.clone(),
                }
            }
            // A root of its own has other files, of which the host says nothing.
            Some((_, State::Layer(_) | State::Cache { .. } | State::Frozen { .. })) => return None,
            _ => path.clone(),
        };
        if !is_allowed(tried, &host) {
            return None;
        }
        let closed_by_rule = match at {
            None => None,
            Some(Point { state: State::Hidden { .. } | State::Masked { .. }, reason, .. }) => Some(reason),
            Some(Point { state: State::Host { write: false, .. }, reason, .. }) if is_denial(reason) => {
                Some(reason)
            }
            Some(Point { state: State::Host { .. }, reason, .. })
                if self.layout.is_kept_in_writable(&path) =>
            {
                Some(reason)
            }
            Some(_) => None,
        };
        let zone = at.and_then(|point| match point.state {
            State::Fresh(zone) => Some(zone),
            _ => None,
        });
        let rule = match (closed_by_rule, zone) {
            (Some(reason), _) => in_words(reason),
            (None, Some(zone)) => zone.reason().to_owned(),
            (None, None) => "no rule allows writing there".to_owned(),
        };
        let remedy = match closed_by_rule {
            _ if is_credential(&host, self.homes.iter().map(PathBuf::as_path)) => Remedy::Credential,
            // Some of these rules are kennel's own, and nobody can drop them.
            Some(_) if tried.changes() && self.is_obeyed(&host) => Remedy::Outside,
            Some(_) => Remedy::DropRule,
            None if tried.changes() => self.to_write(tried, &host),
            None if matches!(zone, Some(Zone::Dev)) => Remedy::AllowDevice(host),
            None => Remedy::AllowRead(host),
        };
        Some(FileDenial { tried, path, program, rule, remedy, times })
    }

    /// The folder to allow, so that what the program does next works too; but none that holds more than one thing of the user's.
    fn to_write(&self, tried: Tried, host: &Path) -> Remedy {
        if is_system(host) || self.is_obeyed(host) {
            return Remedy::Outside;
        }
        // Who asks whether a folder can be written wants to write in it.
        let itself = matches!(tried, Tried::Write | Tried::Change) && host.is_dir();
        let folder = if itself { host } else { host.parent().unwrap_or(host) };
        let holds_home = self.homes.iter().any(|home| home.starts_with(folder));
        if !holds_home && !is_top(folder) {
            return Remedy::AllowWrite(folder.to_path_buf());
        }
        match tried {
            Tried::Create | Tried::Move if host.symlink_metadata().is_err() => {
                Remedy::MakeFirst(host.to_path_buf())
            }
            // A home, say.
            _ if self.homes.iter().any(|home| home.starts_with(host)) || is_top(host) => Remedy::Outside,
            _ => Remedy::AllowWrite(host.to_path_buf()),
        }
    }

    /// Whether programs on the host take commands from it, or kennel does.
    fn is_obeyed(&self, host: &Path) -> bool {
        let names: Vec<&[u8]> = host.components().map(|part| part.as_os_str().as_bytes()).collect();
        let kept = |above: &[u8], name: &[u8]| {
            dotfiles::look(above, name).is_some_and(|known| known.hold == Hold::Keep)
        };
        let named = names.windows(2).any(|two| kept(two[0], two[1]) || kept(b"", two[1]));
        let own = self.homes.iter().any(|home| {
            [".config/kennel", ".local/state/kennel"].iter().any(|own| host.starts_with(home.join(own)))
        });
        named || own
    }
}

/// Whether this user could do that on the host, with no more rights than a sandbox of theirs.
fn is_allowed(tried: Tried, host: &Path) -> bool {
    let may = |path: &Path, how: Access| rustix::fs::accessat(CWD, path, how, AtFlags::EACCESS).is_ok();
    let changes_folder =
        || host.parent().is_some_and(|folder| may(folder, Access::WRITE_OK | Access::EXEC_OK));
    match tried {
        Tried::Write => may(host, Access::WRITE_OK),
        Tried::Create => changes_folder(),
        Tried::Move | Tried::Remove => changes_folder(),
        Tried::Change => rustix::fs::lstat(host).is_ok_and(|stat| {
            let user = rustix::process::geteuid();
            user.is_root() || stat.st_uid == user.as_raw()
        }),
        Tried::Run => may(host, Access::EXEC_OK),
        Tried::Read => may(host, Access::READ_OK),
        _ => rustix::fs::lstat(host).is_ok(),
    }
}

/// Whether a path is part of the system, on which everything else on the host runs.
fn is_system(path: &Path) -> bool {
    const SYSTEM: &[&str] = &[
        "/usr", "/etc", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/boot", "/dev", "/proc", "/sys",
        "/run", "/var/lib",
    ];
    SYSTEM.iter().any(|system| path.starts_with(system))
}

/// Whether a path is the root or right below it.
fn is_top(path: &Path) -> bool {
    path.components().count() <= 2
}

/// Whether a reason is a rule that closes something. All others only say why something shows.
fn is_denial(reason: &str) -> bool {
    let reason = bare(reason);
    reason.starts_with("deny_")
        || reason == OWN_SETTINGS
        || reason.starts_with("git")
        || reason.starts_with("a name that programs obey")
}

/// A reason without what it is for in the plan.
fn bare(reason: &str) -> &str {
    let reason = reason.strip_prefix("keeps it in its place: ").unwrap_or(reason);
    reason.strip_prefix("holds the link: ").unwrap_or(reason)
}

/// A rule in the words of whoever said it: `deny_read /x (--deny-read)` is what they typed as `--deny-read /x`.
fn in_words(reason: &str) -> String {
    let reason = bare(reason);
    let Some((rule, origin)) = reason.strip_suffix(')').and_then(|reason| reason.rsplit_once(" (")) else {
        return reason.to_owned();
    };
    match rule.split_once(' ') {
        Some((list, path)) if list.starts_with("deny_") => match origin.starts_with("--") {
            true => format!("closed by {origin} {path}"),
            false => format!("closed by {list} {path}, from {origin}"),
        },
        _ => reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(layout: &Layout) -> HostView<'_> {
        HostView { layout, homes: vec!["/home/me".into()] }
    }

    #[test]
    fn the_folder_that_is_suggested_holds_nothing_else_of_the_users() {
        let layout = Layout::new(Arc::new([]));
        let view = view(&layout);
        for (tried, path, remedy) in [
            (Tried::Create, "/home/me/project/out/x", Remedy::AllowWrite("/home/me/project/out".into())),
            (Tried::Write, "/home/me/notes.txt", Remedy::AllowWrite("/home/me/notes.txt".into())),
            (Tried::Create, "/home/me/new", Remedy::MakeFirst("/home/me/new".into())),
            (Tried::Create, "/data/new", Remedy::MakeFirst("/data/new".into())),
            (Tried::Change, "/home/me", Remedy::Outside),
            (Tried::Change, "/home", Remedy::Outside),
            (Tried::Write, "/etc/hosts", Remedy::Outside),
            (Tried::Write, "/home/me/.bashrc", Remedy::Outside),
            (Tried::Create, "/home/me/.config/kennel/x", Remedy::Outside),
            (Tried::Create, "/srv/a/b", Remedy::AllowWrite("/srv/a".into())),
        ] {
            assert_eq!(view.to_write(tried, Path::new(path)), remedy, "{path}");
        }
    }

    #[test]
    fn a_rule_is_told_as_it_was_said() {
        for (reason, words) in [
            ("deny_read /etc/x (--deny-read)", "closed by --deny-read /etc/x"),
            ("deny_write /w/a b (kennel.toml:4)", "closed by deny_write /w/a b, from kennel.toml:4"),
            (
                "keeps it in its place: deny_write /w/.git/config (--deny-write)",
                "closed by --deny-write /w/.git/config",
            ),
            ("other users' homes", "other users' homes"),
        ] {
            assert_eq!(in_words(reason), words);
        }
    }
}
