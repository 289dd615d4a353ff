//! What a profile's text permits, asked of the evaluator.

#[cfg(target_os = "linux")]
mod agreement;
#[cfg(target_os = "linux")]
mod generated;
#[cfg(target_os = "linux")]
mod mistakes;
