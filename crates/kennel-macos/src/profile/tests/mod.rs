//! What a profile's text permits, asked of the evaluator.

#[cfg(target_os = "linux")]
mod agreement;
mod attacks;
#[cfg(target_os = "linux")]
mod generated;
mod mac;
#[cfg(target_os = "linux")]
mod mistakes;
mod page;
