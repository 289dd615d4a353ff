//! Routes that deny: without them a connection to an address of another host fails with ENETUNREACH, as where no cable is
//! plugged in; with them it fails with EACCES, as where a rule forbids it.

/// `RTM_NEWROUTE`, for IPv6 where the kernel has it, and for IPv4 with an acknowledgement.
pub(super) fn routes() -> Vec<u8> {
    // See `kennel_init::child`: what is numbered 0 may fail.
    const A_TRY: u32 = 0;
    const THIS: u32 = 1;
    let mut messages = route(libc::AF_INET6, 0, A_TRY);
    messages.extend(route(libc::AF_INET, libc::NLM_F_ACK, THIS));
    messages
}

/// A default route of type *prohibit*: `struct nlmsghdr`, then `struct rtmsg`.
fn route(family: i32, flags: i32, sequence: u32) -> Vec<u8> {
    const LENGTH: u32 = 16 + 12;
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_CREATE | libc::NLM_F_EXCL | flags;
    let mut message = Vec::with_capacity(LENGTH as usize);
    message.extend(LENGTH.to_ne_bytes());
    message.extend(libc::RTM_NEWROUTE.to_ne_bytes());
    message.extend((flags as u16).to_ne_bytes());
    message.extend(sequence.to_ne_bytes());
    message.extend([0; 4]);
    message.extend([
        family as u8,
        0,
        0,
        0,
        libc::RT_TABLE_MAIN,
        libc::RTPROT_STATIC,
        libc::RT_SCOPE_UNIVERSE,
        libc::RTN_PROHIBIT,
    ]);
    message.extend([0; 4]);
    message
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(target_endian = "little")]
    fn the_routes_are_these_bytes() {
        let v4 = [28, 0, 0, 0, 24, 0, 5, 6, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 254, 4, 0, 8, 0, 0, 0, 0];
        let routes = super::routes();
        assert_eq!((routes.len(), &routes[28..]), (56, &v4[..]));
    }
}
