//! Making a pair of sockets for a sandbox that already runs.
//!
//! The guard answers some calls by handing over sockets that it has made. A socket belongs to the network of whoever made
//! it, and one of the host's would show the host's interfaces and abstract names. So the controller starts this program a
//! second time, as a helper: it enters the caller's user and network namespaces, makes one pair, hands it over and ends.

use super::clone::flag;
use super::sys::{self, Errno, Result};
use crate::report::Report;
use crate::role::DescriptorRole;

/// What the controller passes, as the numbers of descriptors.
const USER_NAMESPACE: i32 = 0;
const NETWORK_NAMESPACE: i32 = 1;

/// Makes a pair and sends it over `link`.
pub fn run(link: i32) -> ! {
    let _ = sys::set_signal_mask(u64::MAX);
    match make(link) {
        Ok(()) => sys::exit(0),
        Err(Errno(errno)) => {
            let _ = sys::send(link, &Report::Failed { step: 0, errno }.encode());
            sys::exit(1)
        }
    }
}

fn make(link: i32) -> Result<()> {
    // The user namespace first: only with its capabilities can the network be entered.
    sys::enter_namespace(USER_NAMESPACE, flag::NEWUSER)?;
    sys::enter_namespace(NETWORK_NAMESPACE, flag::NEWNET)?;
    let pair = sys::packet_pair()?;
    let report = Report::Descriptor { role: DescriptorRole::Pair }.encode();
    pair.iter().try_for_each(|socket| sys::send_with_fd(link, &report, socket.raw()))
}
