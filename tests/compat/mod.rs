//! kennel under the names of others, beside the others: the same settings, the same tries, and what comes of them.
//!
//! Each world is a tree, settings and a list of tries. It is made twice, once for the real program and once for kennel;
//! every try ends in a word (`ok`, or the error that it met), and afterwards the disks are compared. Where the words
//! differ, the difference has to be listed here and explained in `docs/compat.md`.

mod codex_beside;
mod codex_cli;
mod codex_further;
mod codex_network;
mod codex_older;
mod codex_policies;
mod peers;
mod seatbelt;
mod srt_cli;
mod srt_credentials;
mod srt_external;
mod srt_files;
mod srt_further;
mod srt_git;
mod srt_git_further;
mod srt_nested;
mod srt_network;
mod srt_patterns;
mod srt_processes;
mod srt_schema;
mod srt_words;
mod world;
