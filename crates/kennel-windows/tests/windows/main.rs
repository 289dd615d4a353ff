//! Behaviour on Windows, with real processes.
#![cfg(windows)]
