//! clone3 on a stack of its own: the vfork-like clone that shares the parent's memory.
//!
//! The parent thread stays suspended (CLONE_VFORK) until the child execs or exits, so the child may borrow
//! anything of the caller's; but it runs in the caller's memory, so it may not allocate, lock, panic or return.

use super::sys::{Errno, Result, nr, nr_common, returned};

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
#[derive(Default)]
#[allow(missing_docs, reason = "the kernel's own names")]
pub struct CloneArgs {
    pub flags: u64,
    pub pidfd: u64,
    pub child_tid: u64,
    pub parent_tid: u64,
    pub exit_signal: u64,
    pub stack: u64,
    pub stack_size: u64,
    pub tls: u64,
    pub set_tid: u64,
    pub set_tid_size: u64,
    pub cgroup: u64,
}

/// What the child of a clone runs: never returns.
pub type Entry = unsafe extern "C" fn(*mut u8) -> !;

/// Clones a child that calls `entry(argument)` on the stack named in `args`. Returns its pid.
///
/// # Safety
/// `args.stack` and `args.stack_size` must describe writable memory, 16-byte aligned at its end, that nothing else
/// uses while the child lives. `entry` must never return. With CLONE_VM, `entry` must keep to what may be done in
/// somebody else's memory: no allocation, no locks, no panics, no libc.
pub unsafe fn clone_on_stack(args: &CloneArgs, entry: Entry, argument: *mut u8) -> Result<i32> {
    // SAFETY: the caller's promise.
    match unsafe { numbered_on_stack(args, entry, argument) } {
        Err(error) if args.old_call_may_do(error) => {
            let stack_end = (args.stack + args.stack_size) as usize;
            // SAFETY: the same in the old call's order.
            unsafe { enter(nr::CLONE, args.old_flags(), stack_end, args.pidfd as usize, entry, argument) }
        }
        other => other,
    }
}

/// [`clone_on_stack`] by clone3 alone: for a child that is to have the number that `args` names, which the old call cannot
/// give.
///
/// # Safety
/// As [`clone_on_stack`].
pub unsafe fn numbered_on_stack(args: &CloneArgs, entry: Entry, argument: *mut u8) -> Result<i32> {
    // SAFETY: a valid clone_args; the rest is the caller's promise.
    unsafe { enter(nr_common::CLONE3, &raw const *args as usize, size_of::<CloneArgs>(), 0, entry, argument) }
}

impl CloneArgs {
    /// Container engines answer clone3 with ENOSYS or EPERM, because its flags are hidden from their filters. The old
    /// call takes all of these flags but the cgroup's.
    fn old_call_may_do(&self, error: Errno) -> bool {
        matches!(error, Errno::ENOSYS | Errno::EPERM) && self.flags & flag::INTO_CGROUP == 0
    }

    fn old_flags(&self) -> usize {
        (self.flags | self.exit_signal) as usize
    }
}

/// [`clone_on_stack`] for a vfork-like child without namespaces, by the old call: a process whose filter lets it make no
/// namespaces has no clone3.
///
/// # Safety
/// As [`clone_on_stack`]; `stack_end` is the upper end of the stack.
pub unsafe fn vfork_on_stack(stack_end: *mut u8, entry: Entry, argument: *mut u8) -> Result<i32> {
    const SIGCHLD: u64 = 17;
    // SAFETY: flags and a stack, as the call takes them; the rest is the caller's promise.
    unsafe {
        enter(nr::CLONE, (flag::VM | flag::VFORK | SIGCHLD) as usize, stack_end as usize, 0, entry, argument)
    }
}

/// [`clone_on_stack`] for a child that shares this process's memory and runs beside it, by the old call, as
/// [`vfork_on_stack`].
///
/// # Safety
/// As [`clone_on_stack`]; `stack_end` is the upper end of the stack. What the child uses of this process's memory must be
/// nobody else's until it has ended.
pub unsafe fn beside_on_stack(stack_end: *mut u8, entry: Entry, argument: *mut u8) -> Result<i32> {
    const SIGCHLD: u64 = 17;
    // SAFETY: flags and a stack, as the call takes them; the rest is the caller's promise.
    unsafe { enter(nr::CLONE, (flag::VM | SIGCHLD) as usize, stack_end as usize, 0, entry, argument) }
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

/// Clones a child with a copy of this process's memory, as fork does: returns 0 in the child.
///
/// # Safety
/// The process must have a single thread: the child has only this one, and whatever lock another held stays held.
pub unsafe fn clone_copy(args: &CloneArgs) -> Result<i32> {
    let call = |number, a: [usize; 3]| {
        // SAFETY: a clone call without CLONE_VM, so the child runs on its own copy of this stack.
        unsafe { super::sys::syscall(number, [a[0], a[1], a[2], 0, 0, 0]) }.map(|pid| pid as i32)
    };
    match call(nr_common::CLONE3, [&raw const *args as usize, size_of::<CloneArgs>(), 0]) {
        Err(error) if args.old_call_may_do(error) => {
            call(nr::CLONE, [args.old_flags(), 0, args.pidfd as usize])
        }
        other => other,
    }
}
