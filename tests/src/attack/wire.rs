//! What the attacker tells the host, over a pipe that kennel keeps open for it: one record for each operation.
//!
//! Records are shorter than `PIPE_BUF`, so several processes can write to the pipe at once.

/// The descriptor by which the attacker hears: its script, then the numbers of the points where it may go on.
pub const HEARS: i32 = 3;
/// The descriptor by which it tells.
pub const TELLS: i32 = 4;
/// The most bytes of data in one record.
pub const MAX_DATA: usize = 2048;
const HEAD: usize = 28;

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum About {
    /// The command runs.
    Started = 0,
    /// An operation was done.
    Done = 1,
    /// A process waits at a point; its number is the result.
    Waits = 2,
    /// All processes inside have done what they were told to.
    Ended = 3,
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What it is about.
    pub about: About,
    /// Which process inside, and which of its operations.
    pub actor: u8,
    /// Counted from 0.
    pub op: u16,
    /// What the call returned, or an error number below zero.
    pub result: i32,
    /// When the call began that decided, on the monotonic clock, in nanoseconds: for a read the `open`.
    pub since: u64,
    /// When it was over.
    pub until: u64,
    /// What was read.
    pub data: Vec<u8>,
}

impl Record {
    /// As bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let data = &self.data[..self.data.len().min(MAX_DATA)];
        let mut bytes = Vec::with_capacity(HEAD + data.len());
        bytes.extend(u32::try_from(HEAD + data.len()).unwrap_or(0).to_ne_bytes());
        bytes.extend([self.about as u8, self.actor]);
        bytes.extend(self.op.to_ne_bytes());
        bytes.extend(self.result.to_ne_bytes());
        bytes.extend(self.since.to_ne_bytes());
        bytes.extend(self.until.to_ne_bytes());
        bytes.extend(data);
        bytes
    }

    /// Takes the first record off a buffer, if it is there as a whole.
    pub fn decode(buffer: &mut Vec<u8>) -> Option<Record> {
        fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
            bytes[at..at + N].try_into().expect("the length was checked")
        }
        let length = u32::from_ne_bytes(buffer.get(..4)?.try_into().ok()?) as usize;
        if !(HEAD..=HEAD + MAX_DATA).contains(&length) {
            // Whoever writes here is ours; what is no record ends the reading.
            buffer.clear();
            return None;
        }
        let bytes: Vec<u8> = buffer.get(..length)?.to_vec();
        buffer.drain(..length);
        let about = [About::Started, About::Done, About::Waits, About::Ended];
        Some(Record {
            about: *about.get(usize::from(bytes[4]))?,
            actor: bytes[5],
            op: u16::from_ne_bytes(part(&bytes, 6)),
            result: i32::from_ne_bytes(part(&bytes, 8)),
            since: u64::from_ne_bytes(part(&bytes, 12)),
            until: u64::from_ne_bytes(part(&bytes, 20)),
            data: bytes[HEAD..].to_vec(),
        })
    }
}

/// The monotonic clock in nanoseconds: the same inside and outside, since no sandbox has a clock of its own.
#[must_use]
pub fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_one_by_one_and_only_whole() {
        let record = Record {
            about: About::Done,
            actor: 1,
            op: 2,
            result: -13,
            since: 5,
            until: 6,
            data: b"x".into(),
        };
        let mut buffer = [record.encode(), record.encode()].concat();
        buffer.pop();
        assert_eq!(Record::decode(&mut buffer), Some(record));
        assert_eq!(Record::decode(&mut buffer), None);
        assert_eq!(buffer.len(), HEAD);
    }
}
