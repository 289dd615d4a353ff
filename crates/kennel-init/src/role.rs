//! What a descriptor is for that init hands to its controller.
//!
//! Everywhere but on the link between the two a role is one of these values. As a number it travels with its kind in the upper half.
//! Of a socket of the network the number is the controller's own: init makes the socket and does not look at what it is for.

/// What a descriptor is for that travels from init to its controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DescriptorRole {
    /// A socket of the sandbox's network, and the number that the plan has for it, which is less than [`FIRST_OF_INIT`].
    Socket(u32),
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

/// The first number that is none of a socket of the network.
pub const FIRST_OF_INIT: u32 = 16 << 16;

impl DescriptorRole {
    /// As it travels.
    #[must_use]
    pub const fn encode(self) -> u32 {
        match self {
            DescriptorRole::Socket(number) => number,
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
            _ if number < FIRST_OF_INIT => DescriptorRole::Socket(number),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{DescriptorRole, FIRST_OF_INIT};

    #[test]
    fn every_number_means_one_role_or_none() {
        let mut known = 0;
        for kind in 0..64 {
            for low in [0, 1, 443, 0xffff] {
                let number = kind << 16 | low;
                if let Some(role) = DescriptorRole::decode(number) {
                    assert_eq!(role.encode(), number, "{role:?}");
                    assert_eq!(matches!(role, DescriptorRole::Socket(_)), number < FIRST_OF_INIT);
                    known += 1;
                }
            }
        }
        // Four numbers of each kind that is the controller's, and seven roles of init's own.
        assert_eq!(known, 16 * 4 + 7);
        assert_eq!(DescriptorRole::decode(u32::MAX), None);
    }
}
