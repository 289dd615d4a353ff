//! Landlock: a second lock on the same doors as the mounts, and the only one where namespaces are denied.
//!
//! What a kernel can restrict is its [`Abi`]; rights and scopes that it does not know are left out of the ruleset,
//! because an unknown bit would be refused.

use std::ffi::CString;

use kennel_init::plan::Step;
use kennel_policy::policy::UnixSockets;

use crate::sys::processes::landlock_version;

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
    /// Linux 6.12: signals and abstract unix sockets.
    V6,
    /// Linux 6.15: flags about the audit log. Not used: denials are logged until the first exec unless a flag says
    /// otherwise, and init makes none before it, so a command fills nobody's log.
    V7,
    /// Linux 7.0: a flag that restricts all threads at once. Not used: init has one.
    V8,
    /// Linux 7.1: connecting to the unix sockets of others by path. The lock behind the filter and the guard, wherever not
    /// all of them are allowed: neither the ones that a policy lists need the right, because the guard connects to
    /// those, nor the sandbox's own, which the kernel exempts.
    V9,
    /// Linux 7.2: UDP bind, connect and send. Refused where only one TCP port may be connected to; the filter refuses the
    /// sockets themselves. Its rules that keep denials out of the log are not used: see [`Abi::V7`].
    V10,
    /// Linux 7.3: a flag that forbids gaining privileges. Not used: that is a step of its own, which older kernels take
    /// too.
    V11,
}

impl Abi {
    /// Asks the kernel.
    #[must_use]
    pub fn of_this_kernel() -> Abi {
        Abi::of_version(landlock_version())
    }

    /// The kernel's number of it; 0 for none.
    #[must_use]
    pub fn number(self) -> u32 {
        self as u32
    }

    fn of_version(version: i64) -> Abi {
        match version {
            ..=0 => Abi::None,
            1 => Abi::V1,
            2 => Abi::V2,
            3 => Abi::V3,
            4 => Abi::V4,
            5 => Abi::V5,
            6 => Abi::V6,
            7 => Abi::V7,
            8 => Abi::V8,
            9 => Abi::V9,
            10 => Abi::V10,
            // What a later one adds is unknown here, and all that is known still holds: an ABI takes nothing back.
            11.. => Abi::V11,
        }
    }
}

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const REMOVE_DIR: u64 = 1 << 4;
const REMOVE_FILE: u64 = 1 << 5;
const MAKE_DIR: u64 = 1 << 7;
const MAKE_REG: u64 = 1 << 8;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEV: u64 = 1 << 15;
const RESOLVE_UNIX: u64 = 1 << 16;
/// Remove and make, of every kind of file.
const REMOVE_AND_MAKE: u64 = 0b1_1111_1111 << 4;

const CONNECT_TCP: u64 = 1 << 1;
const BIND_TCP: u64 = 1;
const BIND_UDP: u64 = 1 << 2;
const CONNECT_SEND_UDP: u64 = 1 << 3;

const SCOPE_ABSTRACT_UNIX: u64 = 1;
const SCOPE_SIGNAL: u64 = 1 << 1;

/// What a path may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Read and execute.
    Read,
    /// Also write, and make and remove files and folders, but nothing else: no links, sockets, pipes or devices.
    Files,
    /// Also make and remove everything else.
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

fn handled(abi: Abi, unix_sockets: UnixSockets) -> u64 {
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
    if abi >= Abi::V9 && unix_sockets != UnixSockets::All {
        rights |= RESOLVE_UNIX;
    }
    rights
}

fn rights(place: &Place) -> u64 {
    let read = EXECUTE | READ_FILE | READ_DIR;
    let write = read | WRITE_FILE | TRUNCATE | REMOVE_AND_MAKE | REFER;
    let rights = match place.right {
        Right::Read => read,
        Right::Files => write & !(REMOVE_AND_MAKE & !(REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG)),
        Right::Write => write,
        Right::Devices => write | IOCTL_DEV,
    };
    let for_files = EXECUTE | READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV;
    if place.folder { rights } else { rights & for_files }
}

/// The network rights of a sandbox that shares the host's network and may connect only to these ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpPorts {
    /// Ports that can be connected to; everything else, every bind, and all of UDP where the kernel knows it, is refused.
    pub connect: Vec<u16>,
}

/// The step that restricts; `None` without Landlock. Signals and abstract sockets are shut in as well.
#[must_use]
pub fn step(abi: Abi, places: &[Place], ports: Option<&TcpPorts>, unix_sockets: UnixSockets) -> Option<Step> {
    if abi == Abi::None {
        return None;
    }
    let handled_files = handled(abi, unix_sockets);
    let mut attributes = vec![handled_files];
    if abi >= Abi::V4 {
        let udp = if abi >= Abi::V10 { BIND_UDP | CONNECT_SEND_UDP } else { 0 };
        attributes.push(if ports.is_some() { CONNECT_TCP | BIND_TCP | udp } else { 0 });
    }
    if abi >= Abi::V6 {
        attributes.push(SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL);
    }
    let paths = places.iter().map(|place| (place.path.clone(), rights(place) & handled_files)).collect();
    let ports = match ports {
        Some(ports) if abi >= Abi::V4 => ports.connect.iter().map(|port| (*port, CONNECT_TCP)).collect(),
        _ => Vec::new(),
    };
    Some(Step::Landlock { attributes, paths, ports })
}

/// The rights of a layer that takes nothing away where it allows them everywhere: a domain of its own for whoever has one. 0
/// without Landlock.
#[must_use]
pub fn harmless_layer(abi: Abi) -> u64 {
    const MAKE_BLOCK: u64 = 1 << 11;
    match abi {
        Abi::None => 0,
        Abi::V1 => MAKE_BLOCK,
        // Which every layer denies that does not allow it, whether it names it or not.
        _ => MAKE_BLOCK | REFER,
    }
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
        for (abi, length) in [(Abi::V1, 1), (Abi::V3, 1), (Abi::V4, 2), (Abi::V6, 3), (Abi::V11, 3)] {
            let Some(Step::Landlock { attributes, paths, .. }) = step(abi, &places, None, UnixSockets::None)
            else {
                panic!("no step for {abi:?}");
            };
            assert_eq!(attributes.len(), length);
            assert_eq!(paths[0].1 & !attributes[0], 0);
        }
        assert_eq!(step(Abi::None, &places, None, UnixSockets::None), None);
    }

    #[test]
    fn every_version_is_known_and_a_later_one_is_taken_for_the_last() {
        let versions = [Abi::V1, Abi::V2, Abi::V3, Abi::V4, Abi::V5, Abi::V6, Abi::V7, Abi::V8, Abi::V9];
        for (number, abi) in (1..).zip(versions.into_iter().chain([Abi::V10, Abi::V11, Abi::V11])) {
            assert_eq!(Abi::of_version(number), abi);
        }
        assert_eq!((Abi::of_version(-1), Abi::of_version(99)), (Abi::None, Abi::V11));
    }

    #[test]
    fn what_a_version_adds_is_asked_for_from_that_version_on() {
        let ports = TcpPorts { connect: vec![3128] };
        let of = |abi, unix_sockets| match step(abi, &[], Some(&ports), unix_sockets) {
            Some(Step::Landlock { attributes, ports, .. }) => (attributes, ports),
            other => panic!("{other:?}"),
        };
        let (older, _) = of(Abi::V8, UnixSockets::None);
        assert_eq!((older[0] & RESOLVE_UNIX, older[1]), (0, BIND_TCP | CONNECT_TCP));
        for (unix_sockets, right) in
            [(UnixSockets::None, RESOLVE_UNIX), (UnixSockets::Listed, RESOLVE_UNIX), (UnixSockets::All, 0)]
        {
            assert_eq!(of(Abi::V9, unix_sockets).0[0] & RESOLVE_UNIX, right, "{unix_sockets:?}");
        }
        let (newest, allowed) = of(Abi::V10, UnixSockets::All);
        assert_eq!(newest[1], BIND_TCP | CONNECT_TCP | BIND_UDP | CONNECT_SEND_UDP);
        assert_eq!(allowed, [(3128, CONNECT_TCP)], "no port may be used by UDP");
    }

    #[test]
    fn this_kernel_takes_what_it_is_asked_for() {
        let abi = Abi::of_this_kernel();
        let ports = TcpPorts { connect: vec![3128] };
        let Some(Step::Landlock { attributes, .. }) = step(abi, &[], Some(&ports), UnixSockets::None) else {
            println!("SKIPPED: this kernel has no Landlock");
            return;
        };
        let size = std::mem::size_of_val(attributes.as_slice());
        // SAFETY: the kernel reads that many bytes of the attributes, and returns a descriptor.
        let rules =
            unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, attributes.as_ptr(), size, 0usize) };
        assert!(rules >= 0, "{}", std::io::Error::last_os_error());
        // SAFETY: it was made here, and nobody else has it.
        drop(unsafe { <std::os::fd::OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(rules as i32) });
    }
}
