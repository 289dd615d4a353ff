//! What comes out of a sandbox while it runs: the attacker's records, and kennel's own output.

use std::fs;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use super::HANG;
use crate::attack::wire::{About, Record};

/// More of any stream is not kept.
const MAX: usize = 4 << 20;

/// What is heard from inside while the host works.
#[derive(Default)]
pub(super) struct Heard {
    pub(super) records: Vec<Record>,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    /// All pipes have come to their ends.
    pub(super) over: bool,
}

/// Those who listen wait for each other here.
#[derive(Default)]
pub(super) struct Ear {
    heard: Mutex<Heard>,
    changed: Condvar,
}

impl Ear {
    pub(super) fn lock(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Waits until something was heard, or everything is over.
    pub(super) fn wait(&self, limit: Duration, is_it: impl Fn(&Heard) -> bool) -> bool {
        let heard = self.lock();
        let wait = self.changed.wait_timeout_while(heard, limit, |heard| !is_it(heard) && !heard.over);
        wait.is_ok_and(|(heard, _)| is_it(&heard))
    }

    pub(super) fn has_started(&self) -> bool {
        self.wait(HANG, |heard| heard.records.iter().any(|record| record.about == About::Started))
    }
}

/// Reads all pipes until nobody can write to them any more.
pub(super) fn hear(pipes: [Option<OwnedFd>; 3], ear: &Ear) {
    let mut pipes: Vec<(usize, fs::File)> =
        pipes.into_iter().enumerate().filter_map(|(index, pipe)| Some((index, pipe?.into()))).collect();
    let mut records = Vec::new();
    let mut buffer = vec![0u8; 64 << 10];
    while !pipes.is_empty() {
        let mut polled: Vec<PollFd> =
            pipes.iter().map(|(_, pipe)| PollFd::new(pipe, PollFlags::IN)).collect();
        if poll(&mut polled, None).is_err() {
            continue;
        }
        let ready: Vec<bool> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
        let mut heard = ear.lock();
        let mut ready = ready.into_iter();
        pipes.retain_mut(|(index, pipe)| {
            if !ready.next().unwrap_or(false) {
                return true;
            }
            let length = pipe.read(&mut buffer).unwrap_or(0);
            let bytes = &buffer[..length];
            match index {
                0 => {
                    records.extend_from_slice(bytes);
                    while let Some(record) = Record::decode(&mut records) {
                        heard.records.push(record);
                    }
                }
                1 => keep(&mut heard.stdout, bytes),
                _ => keep(&mut heard.stderr, bytes),
            }
            length > 0
        });
        ear.changed.notify_all();
    }
    ear.lock().over = true;
    ear.changed.notify_all();
}

fn keep(all: &mut Vec<u8>, bytes: &[u8]) {
    all.extend_from_slice(&bytes[..bytes.len().min(MAX.saturating_sub(all.len()))]);
}
