//! Secrets that stay outside: where their values live, what stands for them inside, and how one is put for the other on the way.

mod echo;
mod encodings;
mod jwt;
mod locked;
mod mask;
mod negotiation;
mod redact;
mod replace;
mod sigv4;
mod stand_in;
mod swap;

pub(crate) use echo::{EchoStream, Echoes, PAUSE, SplitEcho};
pub use locked::SecretValue;
pub use mask::{Holder, MaskError, Masked, MaskedPart, mask_parts};
pub(crate) use negotiation::{ask_for_searchable, unsearchable};
pub(crate) use redact::Redaction;
pub use replace::{Pair, Replacements, Stream};
pub use sigv4::{AwsKey, AwsKeys};
pub(crate) use sigv4::{AwsRefusal, MAX_BODY, Signing};
pub use stand_in::{StandInError, stand_in_for};
pub use swap::Swap;
pub(crate) use swap::{SwapError, SwapRefusal, SwapStream, Swaps};

/// What puts stand-ins for real values in texts, in every encoding that is looked for.
///
/// # Errors
/// When the system has no memory.
pub fn replacements(swaps: &[Swap]) -> std::io::Result<Replacements> {
    let pairs = |swap: &Swap| encodings::pairs(swap.value.expose(), swap.stand_in.as_bytes());
    Replacements::new(swaps.iter().flat_map(pairs))
}
