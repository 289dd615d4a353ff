//! A real key in memory.

use std::fmt;

use zeroize::Zeroizing;

/// A value that is wiped when it is dropped and never shown.
pub struct SecretValue(Zeroizing<Vec<u8>>);

impl SecretValue {
    /// Takes a value over.
    #[must_use]
    pub fn from_bytes(bytes: Vec<u8>) -> SecretValue {
        SecretValue(Zeroizing::new(bytes))
    }

    /// The value itself.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretValue(…)")
    }
}
