//! What `kennel doctor` says about limits: which hierarchy this host has, which controllers the caller may
//! use there and how, what is missing and how to get it.

use std::fmt;
use std::path::{Path, PathBuf};

use super::controller::{Controller, ControllerSet};
use super::delegate::{Place, find_unified, legacy_lacks, legacy_parents};
use super::dir::Dir;
use super::error::{CgroupError, Lack};
use super::hierarchy::{Hierarchies, Layout, Seat};

/// This host, as far as cgroups go.
#[derive(Clone, Copy, Debug)]
pub struct Host;

/// Which limits the caller can have on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Availability {
    /// How the hierarchies are laid out.
    pub layout: Layout,
    /// The controllers that limits need, each with where it is to be had.
    pub usable: Vec<(Controller, Route)>,
    /// Those that are not to be had.
    pub missing: Vec<Lack>,
}

/// The way to a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// A cgroup of the v2 hierarchy that the caller may write to.
    Unified(PathBuf),
    /// The caller's own cgroup, once the processes in it have been moved into one below it.
    UnifiedAfterClearing(PathBuf),
    /// A scope from the user's systemd, reached at this socket.
    Systemd(String),
    /// A directory of a v1 hierarchy.
    Legacy(PathBuf),
}

impl Host {
    /// Looks, and changes nothing.
    pub fn probe() -> Availability {
        let hierarchies = Hierarchies::of_caller().unwrap_or_default();
        let mut found =
            Availability { layout: hierarchies.layout(), usable: Vec::new(), missing: Vec::new() };
        let mut closed = Vec::new();
        let mut on_v2 = ControllerSet::EMPTY;
        for controller in Controller::LIMITING {
            match hierarchies.legacy_seat(controller) {
                Some(seat) => match legacy_parents(seat).find(|path| is_open(path)) {
                    Some(path) => found.usable.push((controller, Route::Legacy(path))),
                    None => closed.push((controller, Some(rustix::io::Errno::ACCESS.into()))),
                },
                None => on_v2 = on_v2.with(controller),
            }
        }
        found.missing = legacy_lacks(&hierarchies, &closed);
        match &hierarchies.unified {
            Some(seat) if !on_v2.is_empty() => found.add_unified(seat, on_v2),
            _ => {
                let absent: Vec<_> = on_v2.iter().map(|controller| (controller, None)).collect();
                found.missing.extend(legacy_lacks(&hierarchies, &absent));
            }
        }
        found
    }
}

impl Availability {
    /// Whether every limit can be enforced.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// Whether limits of this controller can be enforced.
    pub fn has(&self, controller: Controller) -> bool {
        self.usable.iter().any(|(usable, _)| *usable == controller)
    }

    /// Each controller by itself, since a host can have some and lack others.
    fn add_unified(&mut self, seat: &Seat, controllers: ControllerSet) {
        for controller in controllers.iter() {
            let only = ControllerSet::EMPTY.with(controller);
            match find_unified(seat, only, only) {
                Ok(place) => self.usable.push((controller, Route::to(place))),
                Err(CgroupError::Missing(lacks)) => self.missing.extend(lacks),
                Err(error) => {
                    self.missing.push(Lack { controller, why: error.to_string(), remedy: error.help() });
                }
            }
        }
    }
}

impl Route {
    fn to(place: Place) -> Self {
        match place {
            Place::Directory { dir, .. } => Self::Unified(dir.path().to_owned()),
            Place::Crowded { dir, .. } => Self::UnifiedAfterClearing(dir.path().to_owned()),
            Place::Systemd { manager, .. } => Self::Systemd(manager.bus().to_owned()),
        }
    }
}

fn is_open(path: &Path) -> bool {
    Dir::open(path).is_ok_and(|dir| dir.allows_writing("."))
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unified(path) | Self::Legacy(path) => write!(f, "below {}", path.display()),
            Self::UnifiedAfterClearing(path) => {
                write!(f, "below {}, after moving the processes in it one level down", path.display())
            }
            Self::Systemd(bus) => write!(f, "a scope from the user's systemd at {bus}"),
        }
    }
}

impl fmt::Display for Availability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.layout)?;
        for (controller, route) in &self.usable {
            write!(f, "\n  {:<7} usable: {route}", controller.name())?;
        }
        for lack in &self.missing {
            write!(f, "\n  {:<7} missing: {}", lack.controller.name(), lack.why)?;
        }
        let mut told: Vec<&str> = Vec::new();
        for lack in &self.missing {
            if !told.contains(&lack.remedy.as_str()) {
                told.push(&lack.remedy);
                write!(f, "\n  help: {}", lack.remedy)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_names_what_is_usable_and_how_to_get_the_rest() {
        let lack = |controller| Lack { controller, why: "closed".to_owned(), remedy: "open it".to_owned() };
        let report = Availability {
            layout: Layout::Hybrid,
            usable: vec![(Controller::Memory, Route::Legacy("/sys/fs/cgroup/memory".into()))],
            missing: vec![lack(Controller::Cpu), lack(Controller::Pids)],
        };
        assert_eq!(
            report.to_string(),
            "cgroup v1 controllers beside cgroup v2 (hybrid)\n\
             \x20 memory  usable: below /sys/fs/cgroup/memory\n\
             \x20 cpu     missing: closed\n\
             \x20 pids    missing: closed\n\
             \x20 help: open it"
        );
    }
}
