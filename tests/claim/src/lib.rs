//! `#[kennel_claim::claim("SECTION/ID")]` on a test says which claims of `tests/claim/claims.toml` it tries to break.
//!
//! The attribute changes nothing of the test: `cargo xtask claims` reads it from the source, and writes docs/claims.md.
//! Only tests depend on this crate.

use proc_macro::TokenStream;

/// Returns the test as it is. One test can name several claims.
#[proc_macro_attribute]
pub fn claim(_claims: TokenStream, test: TokenStream) -> TokenStream {
    test
}
