//! The sandbox's own /sys: what programs ask of the machine, and nothing that tells it from others.
//!
//! The host's shows its network interfaces with their hardware addresses, the serial numbers of its disks, and to root what
//! only root may read: the slab allocator, firmware tables, parameters of modules. All of that lies in other parts than those
//! that ordinary programs look at to learn how many processors and how much memory they have. So these parts are shown,
//! and there is nothing else.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::locate::locate_plain;
use super::path_rules::{PathAccess, Resolver};
use super::{WrittenFile, Zone};
use crate::read::read_whole;

/// What is shown: processors and memory nodes, limits, and the size of pages.
const SHOWN: &[&str] = &["devices/system", "fs/cgroup", "kernel/mm"];

/// What is shown to root. The other parts hold files that only root may read, such as the physical addresses of a processor's
/// crash notes.
const SHOWN_TO_ROOT: &[&str] = &["fs/cgroup"];

/// What root's sandboxes have besides: copies of what everybody may read of the processors, and C libraries do.
const PROCESSORS: &str = "devices/system/cpu";
const COPIED: &[&str] = &["online", "possible"];

fn shown() -> &'static [&'static str] {
    if rustix::process::geteuid().is_root() { SHOWN_TO_ROOT } else { SHOWN }
}

/// Whether the sandbox's own /sys has what a path below /sys names, or a part of it.
pub(super) fn shown_in_sys(below: &Path) -> bool {
    let covers = |shown: &Path| below.starts_with(shown) || shown.starts_with(below);
    shown().iter().any(|shown| covers(Path::new(shown))) || covers(Path::new(PROCESSORS))
}

impl Resolver<'_> {
    /// Puts into /sys what programs need. In the host's network its interfaces are the sandbox's own.
    pub(super) fn fill_sys(&mut self, hosts_network: bool) {
        for shown in shown() {
            self.show_in_sys(&Path::new("/sys").join(shown));
        }
        if rustix::process::geteuid().is_root() {
            self.copy_processors();
        } else {
            // Root could read all of a card's memory there.
            super::gpus::told_of(&self.files.gpus).iter().for_each(|path| self.show_in_sys(path));
        }
        if hosts_network {
            interfaces().iter().for_each(|path| self.show_in_sys(path));
        }
    }

    fn show_in_sys(&mut self, path: &Path) {
        // Rules that people wrote come first.
        if self.verdict(path) == PathAccess::Fresh(Zone::Sys)
            && let Ok(Some(found)) = locate_plain(path)
        {
            let said = self.at(path);
            said.allow_read = Some(Zone::Sys.reason().into());
            said.found = Some(found);
        }
    }

    /// The numbers of the processors, for root.
    pub(super) fn copy_processors(&mut self) {
        let folder = Path::new("/sys").join(PROCESSORS);
        for name in COPIED {
            let path: PathBuf = folder.join(name);
            let hidden = matches!(self.verdict(&path), PathAccess::Hidden(_));
            if self.written.iter().any(|own| own.path == path) {
                continue;
            }
            if let (false, Some(Ok(text))) = (hidden, path.to_str().map(read_whole)) {
                self.written.push(WrittenFile {
                    path,
                    contents: text,
                    mode: 0o444,
                    reason: Zone::Sys.reason().into(),
                });
            }
        }
    }
}

/// Where the network interfaces are: the folder of links to them, and what these lead to.
fn interfaces() -> BTreeSet<PathBuf> {
    const LINKS: &str = "/sys/class/net";
    const VIRTUAL: &str = "/sys/devices/virtual/net";
    let links = std::fs::read_dir(LINKS).into_iter().flatten().flatten();
    let folders = links.filter_map(|link| link.path().canonicalize().ok());
    // A host of containers has hundreds of these.
    let folders = folders.map(|folder| if folder.starts_with(VIRTUAL) { VIRTUAL.into() } else { folder });
    folders.chain([LINKS.into()]).filter(|path| path.starts_with("/sys")).collect()
}
