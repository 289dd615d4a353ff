//! The file itself, and the host's tools that the tests use.

use std::fs;
use std::path::PathBuf;

/// The binary under test.
pub fn entrypoint() -> PathBuf {
    std::env::var_os("KENNEL_ENTRYPOINT")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_kennel-entrypoint")), PathBuf::from)
}

/// Whether a program is installed here; if not, says that what needs it is skipped.
pub fn host_has(program: &str) -> bool {
    let found =
        ["/usr/bin", "/bin"].iter().any(|directory| fs::exists(format!("{directory}/{program}")).unwrap());
    if !found {
        crate::container::skipped(&format!("no {program} on this host"));
    }
    found
}

/// A number of `N` bytes, little-endian, as on every machine that this is built for so far.
fn number<const N: usize>(bytes: &[u8], at: u64) -> u64 {
    let at = usize::try_from(at).unwrap();
    let mut wide = [0; 8];
    wide[..N].copy_from_slice(&bytes[at..at + N]);
    u64::from_le_bytes(wide)
}

#[test]
fn the_binary_needs_no_loader_and_no_library() {
    const PT_DYNAMIC: u64 = 2;
    const PT_INTERP: u64 = 3;
    const PT_GNU_STACK: u64 = 0x6474_e551;
    const PF_X: u64 = 1;
    const DT_NULL: u64 = 0;
    const DT_NEEDED: u64 = 1;
    let file = fs::read(entrypoint()).unwrap();
    assert_eq!(file[..6], *b"\x7fELF\x02\x01", "64 bits, little-endian");
    let (offset, size, count) = (number::<8>(&file, 32), number::<2>(&file, 54), number::<2>(&file, 56));
    assert!(count > 0);
    for header in (0..count).map(|index| offset + index * size) {
        let kind = number::<4>(&file, header);
        assert_ne!(kind, PT_INTERP, "it asks for a dynamic loader");
        if kind == PT_GNU_STACK {
            assert_eq!(number::<4>(&file, header + 4) & PF_X, 0, "its stack is executable");
        }
        if kind == PT_DYNAMIC {
            // A static executable that can be loaded anywhere has this for its own relocation only.
            let mut entry = number::<8>(&file, header + 8);
            while number::<8>(&file, entry) != DT_NULL {
                assert_ne!(number::<8>(&file, entry), DT_NEEDED, "it asks for a library");
                entry += 16;
            }
        }
    }
}
