//! Work that is shared out among threads once it proves to be much.
//!
//! The caller begins alone: most trees are through before a second thread would have started. All threads are joined
//! before the caller goes on, because a program that is about to clone must have one thread only; a scope by itself
//! waits for the end of their work, not for their own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// How long the caller works alone. To start and to join a thread takes some 0.1 ms.
pub const ALONE: Duration = Duration::from_micros(300);
/// As many threads at most; more would mostly wait for each other in the kernel.
const MAX_THREADS: usize = 4;
const STACK: usize = 512 << 10;
/// How often the caller steps aside for the others, so that they get to leave its processor.
const YIELDS: usize = 64;

/// Performs tasks, and those that they lead to, until none is left. Returns what they gave, in no certain order.
///
/// `perform` gets a task, a list for further tasks, and one for results.
pub fn work<T: Send, R: Send>(first: Vec<T>, perform: impl Fn(T, &mut Vec<T>, &mut Vec<R>) + Sync) -> Vec<R> {
    work_alone_for(ALONE, first, perform)
}

/// The same; the caller is alone for so long.
pub fn work_alone_for<T: Send, R: Send>(
    alone: Duration,
    first: Vec<T>,
    perform: impl Fn(T, &mut Vec<T>, &mut Vec<R>) + Sync,
) -> Vec<R> {
    let heap =
        Heap { state: Mutex::new(State { waiting: first, busy: 0, idle: 0 }), changed: Condvar::new() };
    let mut results = Vec::new();
    let started = Instant::now();
    while let Some(mut task) = heap.next() {
        task.perform(&perform, &mut results);
        drop(task);
        if started.elapsed() >= alone {
            break;
        }
    }
    if heap.lock().waiting.is_empty() {
        return results;
    }
    let help = || {
        let mut results = Vec::new();
        while let Some(mut task) = heap.next() {
            task.perform(&perform, &mut results);
        }
        results
    };
    let (here, away) = (sched_getcpu(), AtomicUsize::new(0));
    let help_elsewhere = || {
        leave(here);
        away.fetch_add(1, Ordering::Relaxed);
        help()
    };
    thread::scope(|scope| {
        let others = thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS) - 1;
        let spawn = |_| thread::Builder::new().stack_size(STACK).spawn_scoped(scope, help_elsewhere).ok();
        // Where no thread can be had, the caller does it all.
        let others: Vec<_> = (0..others).map_while(spawn).collect();
        for _ in 0..YIELDS {
            if away.load(Ordering::Relaxed) == others.len() {
                break;
            }
            thread::yield_now();
        }
        results.extend(help());
        for other in others {
            match other.join() {
                Ok(more) => results.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    results
}

/// Has this thread run on another processor than its maker's. The kernel may leave it there for some milliseconds even
/// if another one has nothing to do (seen on Linux 6.18), and that is all the time there is to gain.
fn leave(processor: usize) {
    if let (Ok(mut processors), 0..CpuSet::MAX_CPU) = (sched_getaffinity(None), processor) {
        processors.unset(processor);
        // Refused where no other is left.
        let _ = sched_setaffinity(None, &processors);
    }
}

/// The tasks that wait, and who is at work.
struct Heap<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    waiting: Vec<T>,
    /// Threads with a task: it may lead to others.
    busy: usize,
    /// Threads that wait for one.
    idle: usize,
}

impl<T> Heap<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The task that came last, so that a tree is gone through in depth and few of its folders are open at a time;
    /// `None` when all is done.
    fn next(&self) -> Option<Taken<'_, T>> {
        let mut state = self.lock();
        loop {
            if let Some(task) = state.waiting.pop() {
                state.busy += 1;
                return Some(Taken { heap: self, task: Some(task), further: Vec::new() });
            }
            if state.busy == 0 {
                return None;
            }
            state.idle += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}

/// A task that a thread is at. Put back as what it led to, also if it panics: the others would wait for ever.
struct Taken<'a, T> {
    heap: &'a Heap<T>,
    task: Option<T>,
    further: Vec<T>,
}

impl<T> Taken<'_, T> {
    fn perform<R>(&mut self, perform: impl Fn(T, &mut Vec<T>, &mut Vec<R>), results: &mut Vec<R>) {
        if let Some(task) = self.task.take() {
            perform(task, &mut self.further, results);
        }
    }
}

impl<T> Drop for Taken<'_, T> {
    fn drop(&mut self) {
        let mut state = self.heap.lock();
        state.busy -= 1;
        state.waiting.append(&mut self.further);
        if state.idle > 0 && (!state.waiting.is_empty() || state.busy == 0) {
            self.heap.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::Barrier;

    /// Every number leads to two smaller ones.
    fn halves(number: u32, further: &mut Vec<u32>, results: &mut Vec<u32>) {
        results.push(number);
        if number > 1 {
            further.extend([number / 2, number - number / 2]);
        }
    }

    #[test]
    fn every_task_is_performed_once_on_one_thread_or_several() {
        for alone in [Duration::ZERO, Duration::MAX] {
            let results = work_alone_for(alone, vec![1000, 24], halves);
            let ones = results.iter().filter(|number| **number == 1).count();
            assert_eq!((ones, results.len()), (1024, 2046), "alone for {alone:?}");
            assert!(work_alone_for(alone, Vec::new(), halves).is_empty());
        }
    }

    #[test]
    fn others_help_once_the_caller_has_worked_alone_for_a_while() {
        if thread::available_parallelism().map_or(1, usize::from) < 2 {
            return println!("SKIPPED: there is one processor");
        }
        // The first is the caller's; of the next two none ends before the other has begun.
        let together = Barrier::new(2);
        let who = work_alone_for(Duration::ZERO, vec![true, true, false], |waits, _, results| {
            if waits {
                together.wait();
            }
            results.push(thread::current().id());
        });
        assert_eq!(who.iter().collect::<HashSet<_>>().len(), 2, "{who:?}");
    }

    #[test]
    fn a_panic_of_one_is_the_callers() {
        let broken = |number: u32, _: &mut Vec<u32>, _: &mut Vec<u32>| assert_ne!(number, 7, "it broke");
        let panic = std::panic::catch_unwind(|| work_alone_for(Duration::ZERO, (0..50).collect(), broken));
        assert!(panic.is_err());
    }
}
