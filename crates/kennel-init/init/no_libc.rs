//! What the compiler calls by name for copies and comparisons, where there is no C library to bring it. kennel-entrypoint has it
//! from here too.
//!
//! The accesses are volatile, so that no loop is compiled into a call of itself.

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    let mut at = 0;
    while at < count {
        // SAFETY: the caller's promise.
        unsafe { core::ptr::write_volatile(to.add(at), *from.add(at)) };
        at += 1;
    }
    to
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    if from.cast_mut() >= to {
        // SAFETY: copying upwards is right when the source lies above.
        return unsafe { memcpy(to, from, count) };
    }
    let mut at = count;
    while at > 0 {
        at -= 1;
        // SAFETY: the caller's promise.
        unsafe { core::ptr::write_volatile(to.add(at), *from.add(at)) };
    }
    to
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, count: usize) -> *mut u8 {
    let mut at = 0;
    while at < count {
        // SAFETY: the caller's promise.
        unsafe { core::ptr::write_volatile(to.add(at), byte as u8) };
        at += 1;
    }
    to
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, count: usize) -> i32 {
    let mut at = 0;
    while at < count {
        // SAFETY: the caller's promise.
        let (x, y) = unsafe { (core::ptr::read_volatile(a.add(at)), core::ptr::read_volatile(b.add(at))) };
        if x != y {
            return i32::from(x) - i32::from(y);
        }
        at += 1;
    }
    0
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, count: usize) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { memcmp(a, b, count) }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn strlen(text: *const u8) -> usize {
    let mut at = 0;
    // SAFETY: the caller's promise: the text ends in NUL.
    while unsafe { core::ptr::read_volatile(text.add(at)) } != 0 {
        at += 1;
    }
    at
}

/// The precompiled core library names this in its unwind tables; nothing here unwinds.
#[cfg(panic = "abort")]
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
