//! Bytes on their way from one side to the other: a bounded queue. When it is full nothing more is read, so that whoever
//! writes waits, as for a slow terminal.

use rustix::io::Errno;

/// What a queue takes at first.
const AT_FIRST: usize = 4096;

#[derive(Debug)]
pub(crate) struct Queue {
    /// Grows with what is read at once: most commands say little, and what is not there need not be cleared.
    memory: Vec<u8>,
    most: usize,
    start: usize,
    end: usize,
    /// Whether the last read took all that there was room for.
    was_filled: bool,
}

impl Queue {
    /// An empty one that takes up to `most` bytes.
    pub(crate) const fn new(most: usize) -> Queue {
        Queue { memory: Vec::new(), most, start: 0, end: 0, was_filled: true }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    pub(crate) fn waiting(&self) -> &[u8] {
        &self.memory[self.start..self.end]
    }

    pub(crate) fn room(&self) -> usize {
        self.most - (self.end - self.start)
    }

    pub(crate) fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    /// Has `read` fill in what there is room for; returns what it returned.
    pub(crate) fn fill<T>(&mut self, read: impl FnOnce(&mut [u8]) -> (usize, T)) -> T {
        if self.start > 0 {
            self.memory.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.was_filled || self.end == self.memory.len() {
            let more = self.memory.len().saturating_mul(4).max(AT_FIRST).min(self.most);
            self.memory.resize(more, 0);
        }
        let (count, result) = read(&mut self.memory[self.end..]);
        self.end = (self.end + count).min(self.memory.len());
        self.was_filled = self.end == self.memory.len();
        result
    }

    /// Has `write` take bytes off the front until it takes no more; an error other than that is returned.
    pub(crate) fn drain(
        &mut self,
        mut write: impl FnMut(&[u8]) -> rustix::io::Result<usize>,
    ) -> rustix::io::Result<()> {
        while !self.is_empty() {
            match write(self.waiting()) {
                Ok(0) | Err(Errno::AGAIN) => break,
                Ok(count) => self.start += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        if self.is_empty() {
            self.clear();
        }
        Ok(())
    }

    /// The same with one write.
    pub(crate) fn drain_once(
        &mut self,
        write: impl FnOnce(&[u8]) -> rustix::io::Result<usize>,
    ) -> rustix::io::Result<()> {
        let mut write = Some(write);
        self.drain(|bytes| write.take().map_or(Ok(0), |write| write(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(queue: &mut Queue, bytes: &[u8]) {
        queue.fill(|buffer| {
            buffer[..bytes.len()].copy_from_slice(bytes);
            (bytes.len(), ())
        });
    }

    #[test]
    fn memory_grows_with_what_is_read_at_once_up_to_the_most() {
        let mut queue = Queue::new(20_000);
        let offered = |queue: &mut Queue, take: usize| {
            let offered = queue.fill(|room| (take.min(room.len()), room.len()));
            queue.clear();
            offered
        };
        assert_eq!(offered(&mut queue, 10), AT_FIRST);
        assert_eq!(offered(&mut queue, AT_FIRST), AT_FIRST);
        assert_eq!(offered(&mut queue, usize::MAX), 4 * AT_FIRST);
        assert_eq!([offered(&mut queue, usize::MAX), offered(&mut queue, 0)], [20_000; 2]);
    }

    #[test]
    fn it_takes_no_more_than_it_has_room_for_and_keeps_the_order() {
        let mut queue = Queue::new(4);
        push(&mut queue, b"ab");
        let filled = queue.fill(|buffer| {
            assert_eq!(buffer.len(), 2);
            buffer.copy_from_slice(b"cd");
            (2, "read")
        });
        assert_eq!((filled, queue.room(), queue.waiting()), ("read", 0, b"abcd".as_slice()));
        queue.drain_once(|bytes| Ok(bytes.len().min(1))).unwrap();
        assert_eq!((queue.waiting(), queue.room()), (b"bcd".as_slice(), 1));
        queue.fill(|buffer| {
            buffer[0] = b'e';
            (1, ())
        });
        let mut shown = Vec::new();
        queue
            .drain(|bytes| {
                shown.push(bytes[0]);
                Ok(1)
            })
            .unwrap();
        assert_eq!((shown.as_slice(), queue.is_empty()), (b"bcde".as_slice(), true));
    }

    #[test]
    fn what_is_not_taken_stays_and_errors_are_told() {
        let mut queue = Queue::new(8);
        push(&mut queue, b"abc");
        assert_eq!(queue.drain(|_| Err(Errno::AGAIN)), Ok(()));
        assert_eq!(queue.drain(|_| Err(Errno::IO)), Err(Errno::IO));
        assert_eq!(queue.waiting(), b"abc");
    }
}
