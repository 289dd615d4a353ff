//! The sockets of a sandbox's network, by what they are for: one list for who plans them, who makes them inside and who serves them.
//!
//! In the bytes of a plan, and on the link by which the sockets come out, a role is a number: its kind in the upper half and, of a
//! published or carried port, the port in the lower half, or a provider's number.

/// What a socket of a sandbox's network is for.
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
    /// Connects to published ports inside. Each address family has one, and its [`SocketRole::ConnectTarget`] comes behind it.
    OutboundSocket,
    /// What the outbound socket connects to first.
    ConnectTarget,
    /// Listens for clients inside of a port of the host's loopback.
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

impl SocketRole {
    /// As it travels.
    #[must_use]
    pub const fn encode(self) -> u32 {
        match self {
            SocketRole::Proxy => 1 << 16,
            SocketRole::Transparent => 2 << 16,
            SocketRole::DnsUdp => 3 << 16,
            SocketRole::DnsTcp => 4 << 16,
            SocketRole::OutboundSocket => 5 << 16,
            SocketRole::ConnectTarget => 6 << 16,
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
            (5, 0) => SocketRole::OutboundSocket,
            (6, 0) => SocketRole::ConnectTarget,
            (7, _) => SocketRole::Published { inside },
            (8, _) => SocketRole::Relay { port: inside },
            (9, _) => SocketRole::Gateway { provider: inside },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::SocketRole;

    #[test]
    fn every_number_means_one_role_or_none() {
        let mut known = 0;
        for kind in 0..64 {
            for low in [0, 1, 443, 0xffff] {
                let number = kind << 16 | low;
                if let Some(role) = SocketRole::decode(number) {
                    assert_eq!(role.encode(), number, "{role:?}");
                    known += 1;
                }
            }
        }
        // Six roles without a number, and four numbers of three.
        assert_eq!(known, 18);
        assert_eq!(SocketRole::decode(u32::MAX), None);
    }

    #[test]
    fn a_port_travels_with_its_role() {
        for role in [SocketRole::Published { inside: 8080 }, SocketRole::Relay { port: 8080 }] {
            assert_eq!(SocketRole::decode(role.encode()), Some(role));
        }
    }
}
