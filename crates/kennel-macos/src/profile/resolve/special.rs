//! Places that are not the host's as they stand, what Seatbelt has nothing for, and the minimal system set.

use std::path::Path;

use kennel_policy::policy::{FilePolicy, Missing, MountAccess, PathRule, ReadModel};
use kennel_resolve::disk::{Kind, Location};
use kennel_resolve::precedence::{List, PathAccess};
use kennel_resolve::resolver::PathResolver;

use super::{Resolver, Seatbelt, Zone};
use crate::profile::error::{ResolveError, shown};
use crate::profile::services::DEVICES;

/// A path of the minimal system set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemPath {
    /// The path.
    pub path: &'static str,
    /// What needs it.
    pub reason: &'static str,
}

const fn needed(path: &'static str, reason: &'static str) -> SystemPath {
    SystemPath { path, reason }
}

/// The minimal system set of listed reads: what a dynamically linked program, a shell and an interpreter need.
pub const SYSTEM: &[SystemPath] = &[
    needed("/usr", "programs, libraries and their data"),
    needed("/bin", "programs"),
    needed("/sbin", "programs"),
    needed("/System", "frameworks, the shared cache of libraries, time zones, fonts"),
    needed("/Library/Apple", "frameworks that the system updates apart, Rosetta among them"),
    needed("/Library/Developer/CommandLineTools", "git, cc and python3 lead there"),
    needed("/Library/Preferences/com.apple.networkd.plist", "asked for by the network libraries"),
    needed("/opt/homebrew", "programs of Homebrew"),
    needed("/opt/local", "programs of MacPorts"),
    needed("/nix/store", "programs of Nix"),
    needed("/run/current-system/sw", "programs of nix-darwin"),
    needed("/private/etc/bashrc", "shells read it"),
    needed("/private/etc/hosts", "look-ups of names"),
    needed("/private/etc/localtime", "the time zone"),
    needed("/private/etc/passwd", "look-ups of users"),
    needed("/private/etc/group", "look-ups of groups"),
    needed("/private/etc/paths", "shells put PATH together from it"),
    needed("/private/etc/paths.d", "shells put PATH together from it"),
    needed("/private/etc/profile", "shells read it"),
    needed("/private/etc/protocols", "look-ups of protocols"),
    needed("/private/etc/services", "look-ups of ports"),
    needed("/private/etc/shells", "look-ups of shells"),
    needed("/private/etc/ssl", "certificates"),
    needed("/private/etc/zprofile", "shells read it"),
    needed("/private/etc/zshrc", "shells read it"),
    needed("/private/var/db/dyld", "the shared cache of libraries, before macOS 13"),
    needed("/private/var/db/oah", "what Rosetta translated"),
    needed("/private/var/db/timezone", "time zones"),
    needed("/private/var/select", "which shell sh is"),
];

const PRIVATE_TMP: &str = "is not the sandbox's: it has a private folder for temporary files\nhelp: drop the rule, or use `files.tmp = \"host\"` to apply the rule to the host's";
const HIDDEN_RUN: &str =
    "is hidden in every sandbox\nhelp: drop the rule, or use `files.host_run = true` to show it";
const NO_OWN_DEVICE: &str =
    "is not among the devices that every sandbox has\nhelp: add it with `files.devices`";
const ALL_DEVICES: &str = "all devices at once; name those that are needed";

/// Refuses what needs a tree of the sandbox's own: Seatbelt judges paths of the host's, and shows nothing elsewhere.
pub(super) fn refuse_what_needs_mounts(files: &FilePolicy) -> Result<(), ResolveError> {
    let no = |rule, what, help| Err(ResolveError::NotOnMacos { rule, what, help });
    const SHOWS_NOTHING_ELSEWHERE: &str = "there are no mounts of a sandbox's own";
    if let Some(rootfs) = &files.rootfs {
        let rule = format!("rootfs {} ({})", shown(&rootfs.path), rootfs.origin);
        return no(rule, SHOWS_NOTHING_ELSEWHERE, "run it on Linux, or in a virtual machine");
    }
    if let Some(mount) = files.mounts.iter().find(|mount| mount.source != mount.target) {
        let (source, target) = (shown(&mount.source), shown(&mount.target));
        let rule = format!("mount {source} at {target} ({})", mount.origin);
        let help = "use the folder at its own path, with `files.allow_read` or `files.allow_write`";
        return no(rule, SHOWS_NOTHING_ELSEWHERE, help);
    }
    if let Some(tmpfs) = files.tmpfs.first() {
        let rule = format!("tmpfs {} ({})", shown(&tmpfs.target), tmpfs.origin);
        let help = "drop it; the command has a private folder for temporary files";
        return no(rule, "there are no file systems in memory", help);
    }
    Ok(())
}

/// The zone whose top a path is.
fn zone_at(resolver: &PathResolver<Seatbelt>, place: &Path) -> Option<Zone> {
    resolver.said.get(place).and_then(|said| said.zone)
}

/// Whether the folder that the command starts in is hidden whatever it is.
pub(super) fn is_zone(resolver: &PathResolver<Seatbelt>, place: &Path) -> bool {
    matches!(zone_at(resolver, place), Some(Zone::Tmp | Zone::Run | Zone::Home)) || place.starts_with("/dev")
}

/// Whether a rule is to be applied to a place, and as which; an error where it cannot mean what it says.
pub(super) fn admit(
    resolver: &PathResolver<Seatbelt>,
    list: List,
    rule: &PathRule,
    reason: &str,
    place: &Path,
) -> Result<Option<List>, ResolveError> {
    let own_device = |place: &Path| DEVICES.iter().any(|device| place == Path::new(device.path));
    let refused = match (zone_at(resolver, place), list) {
        (_, List::AllowRead | List::AllowWrite) if place.starts_with("/dev") => {
            let listed = |device: &PathRule| place.starts_with(device.pattern.as_path());
            let is_all = place == Path::new("/dev");
            match () {
                () if is_all && list == List::AllowRead => return Ok(None),
                () if own_device(place) || resolver.files.devices.iter().any(listed) => return Ok(None),
                () if is_all => ALL_DEVICES,
                () => NO_OWN_DEVICE,
            }
        }
        (Some(Zone::Tmp), List::AllowRead | List::AllowWrite) => PRIVATE_TMP,
        (Some(Zone::Run), List::AllowRead | List::AllowWrite) => HIDDEN_RUN,
        // Nobody can write what is hidden.
        (Some(Zone::Tmp), List::DenyWrite) => return Ok(Some(List::DenyRead)),
        _ => return Ok(Some(list)),
    };
    // The lists of others name such places for systems that are not this one.
    if rule.lenient {
        return Ok(None);
    }
    let (rule, path) = (reason.to_owned(), place.to_path_buf());
    Err(ResolveError::Unfit { rule, path, what: refused })
}

impl Resolver<'_> {
    /// Folders that show at their own paths.
    pub(super) fn mounts(&mut self) -> Result<(), ResolveError> {
        let files = self.files;
        for mount in &files.mounts {
            let reason = format!("mount {} ({})", shown(&mount.source), mount.origin);
            let found = match self.locate(&reason, &mount.source)? {
                Location::Found(found) => found,
                Location::Missing(path) => return Err(ResolveError::Missing { rule: reason, path }),
                Location::Forbidden => {
                    return Err(ResolveError::Forbidden { rule: reason, path: mount.source.clone() });
                }
            };
            if found.path != mount.source {
                self.refuse_planted(&reason, &mount.source, &found.path)?;
            }
            let denied = self.said.upwards(&found.path).any(|said| said.deny_write.is_some());
            if mount.access == MountAccess::ReadWrite && !denied {
                self.say(List::AllowWrite, found.clone(), reason.clone());
            }
            self.say(List::AllowRead, found, reason);
        }
        Ok(())
    }

    /// The command's own folder for temporary files.
    pub(super) fn private_tmp(&mut self) -> Result<(), ResolveError> {
        const REASON: &str = "the command's own folder for temporary files";
        if let Some(tmp) = &self.around.tmp
            && let Location::Found(found) = self.locate(REASON, tmp)?
        {
            self.say(List::AllowWrite, found.clone(), REASON);
            self.say(List::AllowRead, found, REASON);
        }
        Ok(())
    }

    pub(super) fn system(&mut self) -> Result<(), ResolveError> {
        const REASON: &str = "the minimal system set";
        let developer = self.around.developer.as_deref();
        for path in SYSTEM.iter().map(|row| Path::new(row.path)).chain(developer) {
            // Nobody wrote this list; what somebody denied stays denied.
            if let Location::Found(found) = self.locate(REASON, path)?
                && !matches!(self.verdict(&found.path), PathAccess::Hidden(_))
            {
                self.say(List::AllowRead, found, REASON);
            }
        }
        Ok(())
    }

    /// /etc/resolv.conf is a link into /var/run, which is hidden: that one file shows through.
    pub(super) fn name_servers(&mut self) -> Result<(), ResolveError> {
        const REASON: &str = "the network needs /etc/resolv.conf";
        if let Location::Found(found) = self.locate(REASON, Path::new("/etc/resolv.conf"))?
            && self.said.upwards(&found.path).any(|said| said.zone == Some(Zone::Run))
            && !matches!(self.verdict(&found.path), PathAccess::Hidden(_))
        {
            self.say(List::AllowRead, found, REASON);
        }
        Ok(())
    }

    /// Devices besides those that every sandbox has.
    pub(super) fn devices(&mut self) -> Result<(), ResolveError> {
        let files = self.files;
        for rule in &files.devices {
            let path = rule.pattern.as_path();
            let reason = format!("device {} ({})", shown(path), rule.origin);
            let unfit = |path, what| Err(ResolveError::Unfit { rule: reason.clone(), path, what });
            match self.locate(&reason, path)? {
                Location::Found(found) if found.path == Path::new("/dev") => {
                    return unfit(found.path, ALL_DEVICES);
                }
                Location::Found(found) if found.path.starts_with("/dev") => {
                    if found.path != path
                        && let Err(error) = self.refuse_planted(&reason, path, &found.path)
                    {
                        if rule.lenient {
                            continue;
                        }
                        return Err(error);
                    }
                    self.devices.push(found.path);
                }
                Location::Found(found) if rule.missing == Missing::Error => {
                    return unfit(found.path, "not below /dev");
                }
                _ if rule.missing != Missing::Error => {}
                _ => return Err(ResolveError::Missing { rule: reason, path: path.to_path_buf() }),
            }
        }
        Ok(())
    }

    /// The folders of `PATH`, where only what is listed exists: a shell that is refused the question whether a program is
    /// there looks no further.
    pub(super) fn metadata(&self) -> Result<Vec<std::path::PathBuf>, ResolveError> {
        let mut folders = Vec::new();
        for folder in self.around.path.iter().filter(|_| self.files.reads == ReadModel::Listed) {
            if let Location::Found(found) = self.locate("PATH", folder)?
                && found.kind == Kind::Folder
                && !matches!(self.verdict(&found.path), PathAccess::Hidden(_))
                && !folders.contains(&found.path)
            {
                folders.push(found.path);
            }
        }
        Ok(folders)
    }
}
