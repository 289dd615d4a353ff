//! What serves requests that are read: inspection, and the model gateway.
//!
//! Sandboxes whose policy asks for neither never come here.

mod body;
pub(crate) mod gateway;
pub(crate) mod http1;
pub(crate) mod inspect;
mod last_words;
mod stream;
mod upstream;
