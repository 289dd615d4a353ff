//! Clones: a copy of this process, and children that share its memory, each on a stack of its own.
//!
//! A child that shares memory may not allocate, lock, panic or return, and makes raw calls alone: what libc keeps belongs to its
//! parent. Of a vfork-like clone the parent thread stays suspended until the child execs or exits, so the child may borrow
//! anything of the caller's; others run beside their parent.

use super::sys::memory::{InheritedMemory, map};
use super::sys::nr::{SYS_clone, SYS_clone3};
use super::sys::{self, ChildState, Errno, Fd, Result, returned, syscall};

const SIGCHLD: u64 = 17;

/// Flags of clone3.
#[allow(missing_docs, reason = "the kernel's own names")]
pub mod flag {
    pub const VM: u64 = 0x100;
    pub const FS: u64 = 0x200;
    pub const FILES: u64 = 0x400;
    pub const PIDFD: u64 = 0x1000;
    pub const VFORK: u64 = 0x4000;
    pub const PARENT: u64 = 0x8000;
    pub const NEWNS: u64 = 0x0002_0000;
    pub const NEWCGROUP: u64 = 0x0200_0000;
    pub const NEWUTS: u64 = 0x0400_0000;
    pub const NEWIPC: u64 = 0x0800_0000;
    pub const NEWUSER: u64 = 0x1000_0000;
    pub const NEWPID: u64 = 0x2000_0000;
    pub const NEWNET: u64 = 0x4000_0000;
    pub const INTO_CGROUP: u64 = 0x2_0000_0000;
}

/// `struct clone_args` of linux/sched.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

impl CloneArgs {
    fn new(flags: u64, cgroup: Option<i32>) -> CloneArgs {
        let (flags, cgroup) = match cgroup {
            Some(cgroup) => (flags | flag::INTO_CGROUP, u64::from(cgroup.cast_unsigned())),
            None => (flags, 0),
        };
        CloneArgs { flags, cgroup, ..CloneArgs::default() }
    }

    fn on(mut self, stack: &mut [u8]) -> CloneArgs {
        let stack = stack.as_mut_ptr_range();
        self.stack = stack.start as u64;
        self.stack_size = (stack.end as u64 & !15) - self.stack;
        self
    }

    /// Container engines answer clone3 with ENOSYS or EPERM, because its flags are hidden from their filters. The old
    /// call takes all of these flags but the cgroup's, and gives no number.
    fn old_call_may_do(&self, error: Errno) -> bool {
        matches!(error, Errno::ENOSYS | Errno::EPERM) && self.flags & flag::INTO_CGROUP == 0
    }

    fn old_flags(&self) -> usize {
        (self.flags | self.exit_signal) as usize
    }

    fn stack_end(&self) -> usize {
        (self.stack + self.stack_size) as usize
    }
}

/// Clones a child with a copy of this process's memory, as fork does: `None` in the child; its number and the descriptor that
/// refers to it here. It is born in the cgroup that is open as `cgroup`.
///
/// That this process has a single thread, so that no lock stays held in the child, is what the maker of `this` promised.
pub fn clone_copy(flags: u64, cgroup: Option<i32>, _this: &InheritedMemory) -> Result<Option<(i32, Fd)>> {
    let mut pidfd: i32 = -1;
    let mut args = CloneArgs::new((flags | flag::PIDFD) & !(flag::VM | flag::VFORK), cgroup);
    args.pidfd = &raw mut pidfd as u64;
    let call = |number, a: [usize; 3]| {
        // SAFETY: a clone call without CLONE_VM, so the child runs on its own copy of this stack.
        unsafe { syscall(number, [a[0], a[1], a[2], 0, 0, 0]) }.map(|pid| pid as i32)
    };
    let cloned = match call(SYS_clone3, [&raw const args as usize, size_of::<CloneArgs>(), 0]) {
        Err(error) if args.old_call_may_do(error) => {
            call(SYS_clone, [args.old_flags(), 0, args.pidfd as usize])
        }
        other => other,
    };
    cloned.map(|pid| (pid != 0).then(|| (pid, Fd(pidfd))))
}

/// Clones a child that shares this process's memory and calls `entry` on a stack of its own, while this thread is suspended
/// until the child execs or exits. Returns its number and the descriptor that refers to it. There is no signal at its end.
///
/// # Safety
/// `entry` must keep to what may be done in somebody else's memory: no allocation, no locks, no panics, no libc.
pub unsafe fn vfork<T>(
    flags: u64,
    cgroup: Option<i32>,
    stack: &mut [u8],
    argument: &mut T,
    entry: fn(&mut T) -> !,
) -> Result<(i32, Fd)> {
    let mut pidfd: i32 = -1;
    let mut args = CloneArgs::new(flags | flag::PIDFD | flag::VM | flag::VFORK, cgroup).on(stack);
    args.pidfd = &raw mut pidfd as u64;
    let mut start = Start { entry, argument };
    // SAFETY: the stack and what the child is handed are this caller's alone, who waits until the child uses neither; the rest
    // is the caller's promise.
    let pid = unsafe { on_stack(&args, begin::<T>, (&raw mut start).cast()) }?;
    Ok((pid, Fd(pidfd)))
}

/// The same within init: without namespaces, by the old call, because a process whose filter lets it make no namespaces has no
/// clone3, and with a signal at its end. Returns its number.
pub(super) fn vfork_here<T>(stack: &mut [u8], argument: &mut T, entry: fn(&mut T) -> !) -> Result<i32> {
    let args = CloneArgs::new(flag::VM | flag::VFORK | SIGCHLD, None).on(stack);
    let mut start = Start { entry, argument };
    // SAFETY: as above; everything in init keeps to raw calls.
    unsafe { enter(SYS_clone, args.old_flags(), args.stack_end(), 0, begin::<T>, (&raw mut start).cast()) }
}

/// What the child of a vfork-like clone calls, and with what.
struct Start<'a, T> {
    entry: fn(&mut T) -> !,
    argument: &'a mut T,
}

/// # Safety
/// `start` must point to a [`Start`] that nobody else uses.
unsafe extern "C" fn begin<T>(start: *mut u8) -> ! {
    // SAFETY: the caller's promise.
    let start = unsafe { &mut *start.cast::<Start<T>>() };
    (start.entry)(start.argument)
}

/// Has a second process do `work` with what both share, and does `meanwhile` here; then waits for the other's end. `meanwhile`
/// is told the number of the process, or why there is none.
///
/// The process gets the number `number` in its PID namespace, where the kernel can give it one (from Linux 5.5 on, and not where
/// clone3 is filtered); otherwise there is none, unless `or_any`.
pub(super) fn while_beside<T: Sync, R>(
    flags: u64,
    (number, or_any): (i32, bool),
    shared: &T,
    work: fn(&T),
    meanwhile: impl FnOnce(Result<i32>) -> R,
) -> R {
    const STACK: usize = 64 * 1024;
    let stack = match map(STACK) {
        Ok(stack) => stack,
        Err(errno) => return meanwhile(Err(errno)),
    };
    let plain = CloneArgs::new(flags | flag::VM, None).on(stack);
    let numbered = CloneArgs { set_tid: &raw const number as u64, set_tid_size: 1, ..plain };
    let beside = Beside { work, shared };
    let argument = (&raw const beside).cast_mut().cast();
    // SAFETY: the stack is fresh and never used again; what is shared stays where it is until the process has been waited for;
    // everything in init keeps to raw calls.
    let started = unsafe {
        match by_clone3(&numbered, work_beside::<T>, argument) {
            Err(_) if or_any => on_stack(&plain, work_beside::<T>, argument),
            other => other,
        }
    };
    let done = meanwhile(started);
    if let Ok(process) = started {
        // It may have been waited for already.
        let _ = sys::wait_for(process);
    }
    done
}

/// What a process beside this one does.
struct Beside<'a, T> {
    work: fn(&T),
    shared: &'a T,
}

/// # Safety
/// `beside` must point to a [`Beside`] that outlives this process.
unsafe extern "C" fn work_beside<T>(beside: *mut u8) -> ! {
    // SAFETY: the caller's promise.
    let beside = unsafe { &*beside.cast::<Beside<T>>() };
    (beside.work)(beside.shared);
    sys::exit(0)
}

/// Room for a process that runs beside this one in the same memory: its stack, and a stretch that is its own. When it has
/// ended the next one uses it again.
#[derive(Clone, Copy)]
pub(super) struct Room {
    /// Null before the first.
    start: *mut u8,
    /// Who is in it; 0 for nobody.
    process: i32,
}

impl Room {
    const STACK: usize = 64 * 1024;
    const STRETCH: usize = 512 * 1024;

    pub(super) const EMPTY: Room = Room { start: core::ptr::null_mut(), process: 0 };

    pub(super) fn is_free(&self) -> bool {
        self.process == 0
    }

    /// Whether it has memory already.
    pub(super) fn is_mapped(&self) -> bool {
        !self.start.is_null()
    }

    /// Starts a process here that calls `entry` with the stretch.
    pub(super) fn start<T: Copy>(&mut self, argument: T, entry: fn(T, &'static mut [u8]) -> !) -> Result<()> {
        if !self.is_free() {
            return Err(Errno::EAGAIN);
        }
        if self.start.is_null() {
            self.start = map(Room::STACK + Room::STRETCH)?.as_mut_ptr();
        }
        let lodger = Lodger { entry, argument, room: self.start };
        // By the old call, because a process whose filter lets it make no namespaces has no clone3.
        // SAFETY: the memory is nobody's, since the one before has been waited for. The lodger lies at the far end of the stack,
        // which has room for it and begins below.
        self.process = unsafe {
            let end = self.start.add(Room::STACK - size_of::<Lodger<T>>().next_multiple_of(16));
            end.cast::<Lodger<T>>().write(lodger);
            enter(SYS_clone, (flag::VM | SIGCHLD) as usize, end as usize, 0, lodge::<T>, end)
        }?;
        Ok(())
    }

    /// Notes the end of a child. Whether it was in here.
    pub(super) fn is_left_by(&mut self, child: &ChildState) -> bool {
        let own = self.process != 0 && child.pid == self.process && child.has_ended();
        if own {
            self.process = 0;
        }
        own
    }

    pub(super) fn is_of(&self, process: i32) -> bool {
        !self.is_free() && self.process == process
    }
}

/// Who moves into a [`Room`].
struct Lodger<T> {
    entry: fn(T, &'static mut [u8]) -> !,
    argument: T,
    room: *mut u8,
}

/// # Safety
/// `lodger` must point to a [`Lodger`] whose room is its own.
unsafe extern "C" fn lodge<T: Copy>(lodger: *mut u8) -> ! {
    // SAFETY: the caller's promise.
    let (Lodger { entry, argument, .. }, stretch) = unsafe {
        let lodger = lodger.cast::<Lodger<T>>().read();
        let stretch = lodger.room.add(Room::STACK);
        (lodger, core::slice::from_raw_parts_mut(stretch, Room::STRETCH))
    };
    entry(argument, stretch)
}

/// What the child of a clone runs: never returns.
type Entry = unsafe extern "C" fn(*mut u8) -> !;

/// Clones a child that calls `entry(argument)` on the stack named in `args`. Returns its pid.
///
/// # Safety
/// The stack in `args` must be writable memory, 16-byte aligned at its end, that nothing else uses while the child lives.
/// `entry` must never return. With CLONE_VM, `entry` must keep to what may be done in somebody else's memory.
unsafe fn on_stack(args: &CloneArgs, entry: Entry, argument: *mut u8) -> Result<i32> {
    // SAFETY: the caller's promise.
    match unsafe { by_clone3(args, entry, argument) } {
        Err(error) if args.old_call_may_do(error) => {
            // SAFETY: the same in the old call's order.
            unsafe {
                enter(SYS_clone, args.old_flags(), args.stack_end(), args.pidfd as usize, entry, argument)
            }
        }
        other => other,
    }
}

/// [`on_stack`] by clone3 alone.
///
/// # Safety
/// As [`on_stack`].
unsafe fn by_clone3(args: &CloneArgs, entry: Entry, argument: *mut u8) -> Result<i32> {
    // SAFETY: a valid clone_args; the rest is the caller's promise.
    unsafe { enter(SYS_clone3, &raw const *args as usize, size_of::<CloneArgs>(), 0, entry, argument) }
}

/// Makes a clone call; the child calls `entry` on its fresh stack.
///
/// # Safety
/// `number` and what follows must be a clone call that gives the child a stack of its own.
unsafe fn enter(
    number: usize,
    first: usize,
    second: usize,
    third: usize,
    entry: Entry,
    argument: *mut u8,
) -> Result<i32> {
    let ret: isize;
    // SAFETY: in the parent only rax, rcx and r11 (x0 on arm64) change. The child gets the same registers but a
    // fresh, aligned stack, and calls `entry`, which never comes back.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r13",
            "call r12",
            "ud2",
            "2:",
            inlateout("rax") number as isize => ret,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            in("r10") 0,
            in("r8") 0,
            in("r12") entry,
            in("r13") argument,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        core::arch::asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, x21",
            "blr x20",
            "brk 1",
            "2:",
            in("x8") number,
            inlateout("x0") first as isize => ret,
            in("x1") second,
            in("x2") third,
            in("x3") 0,
            in("x4") 0,
            in("x20") entry,
            in("x21") argument,
        );
    }
    returned(ret).map(|pid| pid as i32)
}
