//! Netlink messages and their attributes, as bytes.
//!
//! Headers and the attributes of routes are in the machine's byte order, those of netfilter in the network's.

/// The bit that says that an attribute holds attributes.
const NESTED: u16 = 0x8000;
/// `NLM_F_REQUEST`.
pub(super) const REQUEST: u16 = 0x01;
/// `NLM_F_ACK`.
pub(super) const ACK: u16 = 0x04;
/// `NLM_F_EXCL | NLM_F_CREATE`.
pub(super) const CREATE: u16 = 0x200 | 0x400;
/// `NLM_F_CREATE | NLM_F_APPEND`.
pub(super) const APPEND: u16 = 0x400 | 0x800;

/// Messages one behind the other, each aligned to four bytes.
#[derive(Default)]
pub(super) struct Messages {
    bytes: Vec<u8>,
    sequence: u32,
}

impl Messages {
    /// Adds a message: its type, its flags, the fixed part and the attributes.
    pub(super) fn push(&mut self, kind: u16, flags: u16, fixed: &[u8], attributes: &Attributes) {
        self.sequence += 1;
        self.append(self.sequence, kind, flags, fixed, attributes);
    }

    /// The same for one that may fail: whoever reads the answers passes over those to this number.
    pub(super) fn push_try(&mut self, kind: u16, flags: u16, fixed: &[u8], attributes: &Attributes) {
        self.append(super::A_TRY, kind, flags, fixed, attributes);
    }

    fn append(&mut self, sequence: u32, kind: u16, flags: u16, fixed: &[u8], attributes: &Attributes) {
        let length = 16 + fixed.len() + attributes.0.len();
        self.bytes.extend_from_slice(&(length as u32).to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(&(flags | REQUEST).to_ne_bytes());
        self.bytes.extend_from_slice(&sequence.to_ne_bytes());
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(fixed);
        self.bytes.extend_from_slice(&attributes.0);
        debug_assert!(self.bytes.len().is_multiple_of(4), "every part is padded");
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Attributes one behind the other, each padded to four bytes.
#[derive(Clone, Default)]
pub(super) struct Attributes(Vec<u8>);

impl Attributes {
    pub(super) fn with(mut self, kind: u16, value: &[u8]) -> Self {
        self.0.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub(super) fn with_text(self, kind: u16, text: &str) -> Self {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        self.with(kind, &bytes)
    }

    /// A number in the network's byte order.
    pub(super) fn with_u32(self, kind: u16, number: u32) -> Self {
        self.with(kind, &number.to_be_bytes())
    }

    pub(super) fn with_nested(self, kind: u16, inner: &Attributes) -> Self {
        self.with(kind | NESTED, &inner.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_their_lengths_are_not() {
        let inner = Attributes::default().with_u32(1, 7);
        let all = Attributes::default().with_text(2, "lo").with_nested(3, &inner);
        let mut expected = Vec::new();
        expected.extend_from_slice(&7u16.to_ne_bytes());
        expected.extend_from_slice(&2u16.to_ne_bytes());
        expected.extend_from_slice(b"lo\0\0");
        expected.extend_from_slice(&12u16.to_ne_bytes());
        expected.extend_from_slice(&0x8003u16.to_ne_bytes());
        expected.extend_from_slice(&8u16.to_ne_bytes());
        expected.extend_from_slice(&1u16.to_ne_bytes());
        expected.extend_from_slice(&[0, 0, 0, 7]);
        assert_eq!(all.0, expected);
    }

    #[test]
    fn a_message_has_its_length_and_the_next_number() {
        let mut messages = Messages::default();
        messages.push(16, ACK, &[0; 16], &Attributes::default());
        messages.push(20, CREATE, &[0; 8], &Attributes::default());
        let bytes = messages.into_bytes();
        assert_eq!(bytes.len(), 32 + 24);
        assert_eq!(bytes[..4], 32u32.to_ne_bytes());
        assert_eq!(bytes[4..8], [&16u16.to_ne_bytes()[..], &5u16.to_ne_bytes()[..]].concat());
        assert_eq!(bytes[8..12], 1u32.to_ne_bytes());
        assert_eq!(bytes[40..44], 2u32.to_ne_bytes());
    }
}
