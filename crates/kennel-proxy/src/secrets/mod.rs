//! Secrets that stay outside: where their values live, what stands for them inside, and how one is put for the other on the way.

mod encodings;
mod jwt;
mod locked;
mod mask;
mod redact;
mod replace;
mod sigv4;
mod stand_in;
mod swap;

pub use locked::SecretValue;
pub use mask::{Holder, MaskError, Masked, MaskedPart, mask_parts};
pub(crate) use redact::{RedactedStream, Redaction};
pub use replace::{Pair, Replacements, Stream};
pub use sigv4::{AwsKey, AwsKeys};
pub(crate) use sigv4::{AwsRefusal, MOST_BODY, Signing};
pub use stand_in::{StandInError, stand_in_for};
pub use swap::Swap;
pub(crate) use swap::{SwapError, SwapRefusal, SwapStream, Swaps};
