//! The numbers that init has of its own, compared with libc's when this crate is compiled for a target.
//!
//! Init makes its calls without a C library and so has the numbers of system calls, and the flags that differ between
//! processors, in a table for each. A wrong one would call something else.

use kennel_init::child::sys::{nr, open};

macro_rules! same_numbers {
    ($($name:ident $x86_64:literal $aarch64:literal,)*) => {
        $(const _: () = assert!(nr::$name as i64 == libc::$name as i64);)*
    };
}

kennel_init::each_system_call!(same_numbers);

const _: () = assert!(open::CREAT == libc::O_CREAT as u64 && open::EXCL == libc::O_EXCL as u64);
const _: () = assert!(open::NOCTTY == libc::O_NOCTTY as u64 && open::NONBLOCK == libc::O_NONBLOCK as u64);
const _: () =
    assert!(open::DIRECTORY == libc::O_DIRECTORY as u64 && open::NOFOLLOW == libc::O_NOFOLLOW as u64);
const _: () = assert!(open::CLOEXEC == libc::O_CLOEXEC as u64 && open::PATH == libc::O_PATH as u64);
