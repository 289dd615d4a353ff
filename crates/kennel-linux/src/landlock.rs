//! Landlock: a second lock on the same doors as the mounts, and the only one where namespaces are denied.
//!
//! What a kernel can restrict is its [`Abi`]; rights and scopes that it does not know are left out of the ruleset,
//! because an unknown bit would be refused.

use kennel_init::plan::Step;
use std::ffi::CString;

/// What this kernel's Landlock can restrict: <https://docs.kernel.org/userspace-api/landlock.html>.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Abi {
    /// Not built in, or not switched on.
    None,
    /// Linux 5.13: files.
    V1,
    /// Linux 5.19: renaming and linking between folders.
    V2,
    /// Linux 6.2: truncation.
    V3,
    /// Linux 6.7: TCP bind and connect.
    V4,
    /// Linux 6.10: ioctl on devices.
    V5,
    /// Linux 6.12 and later: signals and abstract unix sockets.
    V6,
}

impl Abi {
    /// Asks the kernel.
    #[must_use]
    pub fn of_this_kernel() -> Abi {
        const VERSION: usize = 1;
        // SAFETY: with the version flag the kernel takes no pointer and makes nothing.
        let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0usize, 0usize, VERSION) };
        match version {
            ..=0 => Abi::None,
            1 => Abi::V1,
            2 => Abi::V2,
            3 => Abi::V3,
            4 => Abi::V4,
            5 => Abi::V5,
            6.. => Abi::V6,
        }
    }
}

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEV: u64 = 1 << 15;
/// Remove and make, of every kind of file.
const REMOVE_AND_MAKE: u64 = 0b1_1111_1111 << 4;

const CONNECT_TCP: u64 = 1 << 1;
const BIND_TCP: u64 = 1;

const SCOPE_ABSTRACT_UNIX: u64 = 1;
const SCOPE_SIGNAL: u64 = 1 << 1;

/// What a path may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Read and execute.
    Read,
    /// Also write, make and remove.
    Write,
    /// Also send commands to devices.
    Devices,
}

/// A path and what may be done there. Whether it is a folder decides which rights the kernel accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The path inside.
    pub path: CString,
    /// Whether it is a folder.
    pub folder: bool,
    /// What may be done.
    pub right: Right,
}

fn handled(abi: Abi) -> u64 {
    let mut rights = EXECUTE | WRITE_FILE | READ_FILE | READ_DIR | REMOVE_AND_MAKE;
    if abi >= Abi::V2 {
        rights |= REFER;
    }
    if abi >= Abi::V3 {
        rights |= TRUNCATE;
    }
    if abi >= Abi::V5 {
        rights |= IOCTL_DEV;
    }
    rights
}

fn rights(place: &Place) -> u64 {
    let read = EXECUTE | READ_FILE | READ_DIR;
    let write = read | WRITE_FILE | TRUNCATE | REMOVE_AND_MAKE | REFER;
    let rights = match place.right {
        Right::Read => read,
        Right::Write => write,
        Right::Devices => write | IOCTL_DEV,
    };
    let for_files = EXECUTE | READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV;
    if place.folder { rights } else { rights & for_files }
}

/// The network rights of a sandbox that shares the host's network and may connect only to these ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpPorts {
    /// Ports that can be connected to; everything else, and every bind, is refused.
    pub connect: Vec<u16>,
}

/// The step that restricts; `None` without Landlock. `scoped` shuts signals and abstract sockets in as well.
#[must_use]
pub fn step(abi: Abi, places: &[Place], ports: Option<&TcpPorts>, scoped: bool) -> Option<Step> {
    if abi == Abi::None {
        return None;
    }
    let handled_files = handled(abi);
    let mut attributes = vec![handled_files];
    if abi >= Abi::V4 {
        attributes.push(if ports.is_some() { CONNECT_TCP | BIND_TCP } else { 0 });
    }
    if abi >= Abi::V6 {
        attributes.push(if scoped { SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL } else { 0 });
    }
    let paths = places.iter().map(|place| (place.path.clone(), rights(place) & handled_files)).collect();
    let ports = match ports {
        Some(ports) if abi >= Abi::V4 => ports.connect.iter().map(|port| (*port, CONNECT_TCP)).collect(),
        _ => Vec::new(),
    };
    Some(Step::Landlock { attributes, paths, ports })
}

/// The step that only shuts signals and abstract sockets in; `None` for a kernel that cannot (before 6.12).
#[must_use]
pub fn scopes(abi: Abi) -> Option<Step> {
    let attributes = vec![0, 0, SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL];
    (abi >= Abi::V6).then(|| Step::Landlock { attributes, paths: Vec::new(), ports: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gets_no_rights_of_folders() {
        let file = Place { path: c"/f".into(), folder: false, right: Right::Write };
        assert_eq!(rights(&file) & (READ_DIR | REMOVE_AND_MAKE | REFER), 0);
    }

    #[test]
    fn an_old_kernel_is_asked_only_for_what_it_knows() {
        let places = [Place { path: c"/".into(), folder: true, right: Right::Devices }];
        for (abi, length) in [(Abi::V1, 1), (Abi::V3, 1), (Abi::V4, 2), (Abi::V6, 3)] {
            let Some(Step::Landlock { attributes, paths, .. }) = step(abi, &places, None, true) else {
                panic!("no step for {abi:?}");
            };
            assert_eq!(attributes.len(), length);
            assert_eq!(paths[0].1 & !attributes[0], 0);
        }
        assert_eq!(step(Abi::None, &places, None, true), None);
    }
}
