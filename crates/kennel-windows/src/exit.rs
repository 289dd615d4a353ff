//! What the number that a process ended with says. Windows has no signals: a process that crashed, or that Ctrl-C ended, has
//! an exit code of the system's, and any process can exit with the same number by itself.

/// Ctrl-C or Ctrl-Break ended it (`STATUS_CONTROL_C_EXIT`).
pub const CONTROL_C: u32 = 0xC000_013A;
/// What Windows ends a process with whose limit of CPU time is used up (`ERROR_NOT_ENOUGH_QUOTA`).
pub const QUOTA: u32 = 1816;

/// The numbers that mean something by themselves.
const MEANINGS: &[(u32, &str)] = &[
    (0xC000_0005, "it crashed: access violation"),
    (0xC000_0006, "it crashed: a page could not be read from disk"),
    (0xC000_0017, "memory ran out"),
    (0xC000_001D, "it crashed: illegal instruction"),
    (0xC000_0022, "access was denied while it started"),
    (0xC000_0025, "it crashed: an exception that cannot be continued"),
    (0xC000_0094, "it crashed: division by zero"),
    (0xC000_00FD, "it crashed: stack overflow"),
    (0xC000_012D, "memory ran out"),
    (0xC000_0135, "a DLL that it needs was not found"),
    (0xC000_0139, "a function that it needs was not found in a DLL"),
    (CONTROL_C, "Ctrl-C ended it"),
    (0xC000_0142, "a DLL that it needs could not be initialised; programs with windows need the desktop"),
    (0xC000_0374, "it crashed: the heap was damaged"),
    (0xC000_0409, "it ended itself after a fatal error (abort, or a damaged stack)"),
    (0xC000_0602, "it ended itself after a fatal error"),
    (0x8000_0003, "it crashed: a breakpoint without a debugger"),
];

/// What a number means, where it is one of the system's.
#[must_use]
pub fn meaning(code: u32) -> Option<&'static str> {
    MEANINGS.iter().find(|(own, _)| *own == code).map(|(_, meaning)| *meaning)
}

/// Whether a process that ends so had no memory left.
#[must_use]
pub fn is_out_of_memory(code: u32) -> bool {
    matches!(code, 0xC000_0017 | 0xC000_012D)
}

/// The number as other systems have it: the same bits, so that it reaches a Windows shell unchanged.
#[must_use]
pub fn signed(code: u32) -> i32 {
    code.cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_system_have_words_and_others_do_not() {
        assert!(meaning(0xC000_0005).is_some_and(|words| words.contains("access violation")));
        assert_eq!(meaning(CONTROL_C), Some("Ctrl-C ended it"));
        for ordinary in [0, 1, 2, 259, 0xFFFF_FFFF] {
            assert_eq!(meaning(ordinary), None);
        }
        assert!(is_out_of_memory(0xC000_0017) && !is_out_of_memory(1));
    }

    #[test]
    fn a_number_keeps_its_bits() {
        assert_eq!(signed(0xC000_0005).cast_unsigned(), 0xC000_0005);
        assert_eq!(signed(3), 3);
    }
}
