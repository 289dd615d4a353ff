//! What a descriptor is for that init hands to its controller.
//!
//! Everywhere but on the link between the two, and in the bytes of a plan, a role is one of these values. As a number it
//! travels with its kind in the upper half and, of a published or carried port, the port in the lower half, or a
//! provider's number.

/// What a socket of the sandbox's network is for. Init makes the sockets and does not look at this; the controller serves
/// them by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SocketRole {
    /// Listens for clients of the HTTP and SOCKS proxy.
    Proxy,
    /// Listens for TCP connections of programs that know no proxy.
    Transparent,
    /// Receives questions for the name server.
    DnsUdp,
    /// Listens for clients of the name server.
    DnsTcp,
    /// Connects to published ports inside. Each family has one, and its [`SocketRole::MeetingPlace`] comes behind it.
    Connector,
    /// The socket that the connector connects to first.
    MeetingPlace,
    /// Listens for clients of a port of the host's loopback.
    Relay {
        /// The port.
        port: u16,
    },
    /// Listens for clients of the model gateway.
    Gateway {
        /// The number of the provider.
        provider: u16,
    },
    /// Listens outside for clients of a port inside. The controller makes it itself.
    Published {
        /// The port inside.
        inside: u16,
    },
}

/// What a descriptor is for that travels from init to its controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DescriptorRole {
    /// A socket of the sandbox's network.
    Socket(SocketRole),
    /// Hears of the seccomp filter's notifications.
    Notifications,
    /// The file system that holds what hides files.
    Store,
    /// The controller's side of the sandbox's terminal.
    Terminal,
    /// The regular file behind standard input, as it was opened again inside.
    InputFile,
    /// The end of a pipe by which the controller has to feed standard input, because the file could not be opened again.
    InputPipe,
    /// The root of a sandbox that can write to it.
    Root,
    /// One of a pair of sockets that a helper has made.
    Pair,
}

impl SocketRole {
    /// As it travels.
    #[must_use]
    pub const fn encode(self) -> u32 {
        match self {
            SocketRole::Proxy => 1 << 16,
            SocketRole::Transparent => 2 << 16,
            SocketRole::DnsUdp => 3 << 16,
            SocketRole::DnsTcp => 4 << 16,
            SocketRole::Connector => 5 << 16,
            SocketRole::MeetingPlace => 6 << 16,
            SocketRole::Published { inside } => 7 << 16 | inside as u32,
            SocketRole::Relay { port } => 8 << 16 | port as u32,
            SocketRole::Gateway { provider } => 9 << 16 | provider as u32,
        }
    }

    /// From what arrived; `None` if it is not the role of a socket.
    #[must_use]
    pub const fn decode(number: u32) -> Option<SocketRole> {
        let inside = (number & 0xffff) as u16;
        Some(match (number >> 16, inside) {
            (1, 0) => SocketRole::Proxy,
            (2, 0) => SocketRole::Transparent,
            (3, 0) => SocketRole::DnsUdp,
            (4, 0) => SocketRole::DnsTcp,
            (5, 0) => SocketRole::Connector,
            (6, 0) => SocketRole::MeetingPlace,
            (7, _) => SocketRole::Published { inside },
            (8, _) => SocketRole::Relay { port: inside },
            (9, _) => SocketRole::Gateway { provider: inside },
            _ => return None,
        })
    }
}

impl DescriptorRole {
    /// As it travels.
    #[must_use]
    pub const fn encode(self) -> u32 {
        match self {
            DescriptorRole::Socket(role) => role.encode(),
            DescriptorRole::Notifications => 16 << 16,
            DescriptorRole::Store => 17 << 16,
            DescriptorRole::Terminal => 18 << 16,
            DescriptorRole::InputFile => 19 << 16,
            DescriptorRole::InputPipe => 20 << 16,
            DescriptorRole::Pair => 21 << 16,
            DescriptorRole::Root => 30 << 16,
        }
    }

    /// From what arrived; `None` if it is no role.
    #[must_use]
    pub const fn decode(number: u32) -> Option<DescriptorRole> {
        Some(match (number >> 16, number & 0xffff) {
            (16, 0) => DescriptorRole::Notifications,
            (17, 0) => DescriptorRole::Store,
            (18, 0) => DescriptorRole::Terminal,
            (19, 0) => DescriptorRole::InputFile,
            (20, 0) => DescriptorRole::InputPipe,
            (21, 0) => DescriptorRole::Pair,
            (30, 0) => DescriptorRole::Root,
            _ => match SocketRole::decode(number) {
                Some(role) => DescriptorRole::Socket(role),
                None => return None,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{DescriptorRole, SocketRole};

    #[test]
    fn every_number_means_one_role_or_none() {
        let mut known = 0;
        for kind in 0..64 {
            for low in [0, 1, 443, 0xffff] {
                let number = kind << 16 | low;
                if let Some(role) = DescriptorRole::decode(number) {
                    assert_eq!(role.encode(), number, "{role:?}");
                    known += 1;
                }
            }
        }
        // Thirteen roles without a number, and four numbers of three.
        assert_eq!(known, 25);
        assert_eq!(DescriptorRole::decode(u32::MAX), None);
    }

    #[test]
    fn a_port_travels_with_its_role() {
        for role in [SocketRole::Published { inside: 8080 }, SocketRole::Relay { port: 8080 }] {
            assert_eq!(SocketRole::decode(role.encode()), Some(role));
        }
    }
}
