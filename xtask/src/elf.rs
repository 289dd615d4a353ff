//! Whether a program is one static file: reads the headers that the kernel reads to start it.

use std::path::Path;

use crate::Failure;

/// Fails unless the program can be started without a dynamic loader and needs no library.
///
/// # Errors
/// When it is not static, or no 64-bit little-endian ELF file at all.
pub fn expect_static(path: &Path) -> Result<(), Failure> {
    let file = std::fs::read(path).map_err(|error| format!("reading {}: {error}", path.display()))?;
    match lack(&file) {
        None => Ok(()),
        Some(lack) => Err(format!("{}: {lack}", path.display()).into()),
    }
}

/// Fails unless the program is for this architecture, as Rust calls it.
///
/// # Errors
/// When it is for another, or an architecture that is not known here.
pub fn expect_architecture(path: &Path, architecture: &str) -> Result<(), Failure> {
    let expected = match architecture {
        "x86_64" => 62,
        "aarch64" => 183,
        other => return Err(format!("no ELF number is known here for {other}").into()),
    };
    let file = std::fs::read(path).map_err(|error| format!("reading {}: {error}", path.display()))?;
    if number::<2>(&file, 18) == Some(expected) {
        return Ok(());
    }
    Err(format!("{}: not a program for {architecture}", path.display()).into())
}

/// What is wrong with it.
fn lack(file: &[u8]) -> Option<&'static str> {
    const PT_DYNAMIC: u64 = 2;
    const PT_INTERP: u64 = 3;
    const CUT_SHORT: Option<&str> = Some("an ELF file that is cut short");
    if !file.starts_with(b"\x7fELF\x02\x01") {
        return Some("not a 64-bit little-endian ELF file");
    }
    let (Some(start), Some(size), Some(count)) =
        (number::<8>(file, 32), number::<2>(file, 54), number::<2>(file, 56))
    else {
        return CUT_SHORT;
    };
    for header in (0..count).map(|index| start + index * size) {
        let (Some(kind), Some(entry)) = (number::<4>(file, header), number::<8>(file, header + 8)) else {
            return CUT_SHORT;
        };
        if kind == PT_INTERP {
            return Some("asks for a dynamic loader");
        }
        if kind == PT_DYNAMIC && asks_for_a_library(file, entry) {
            return Some("asks for a library");
        }
    }
    None
}

/// Goes through the entries for a dynamic loader. A static program that can be loaded anywhere has them too, for its
/// own relocation.
fn asks_for_a_library(file: &[u8], entries: u64) -> bool {
    const DT_NULL: u64 = 0;
    const DT_NEEDED: u64 = 1;
    let tags = (0..).map_while(|index: u64| number::<8>(file, entries + 16 * index));
    tags.take_while(|tag| *tag != DT_NULL).any(|tag| tag == DT_NEEDED)
}

/// A number of `N` bytes.
fn number<const N: usize>(file: &[u8], at: u64) -> Option<u64> {
    let at = usize::try_from(at).ok()?;
    let mut wide = [0; 8];
    wide[..N].copy_from_slice(file.get(at..at.checked_add(N)?)?);
    Some(u64::from_le_bytes(wide))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_itself_is_static() {
        let me = std::env::current_exe().unwrap();
        expect_static(&me).unwrap();
        expect_architecture(&me, std::env::consts::ARCH).unwrap();
        assert!(
            expect_architecture(&me, if cfg!(target_arch = "x86_64") { "aarch64" } else { "x86_64" })
                .is_err()
        );
    }

    #[test]
    fn a_program_with_a_loader_is_found_out() {
        let mut file = vec![0; 64 + 56];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[32] = 64;
        file[54] = 56;
        file[56] = 1;
        file[64] = 3;
        assert_eq!(lack(&file), Some("asks for a dynamic loader"));
        file.truncate(100);
        file[64] = 2;
        assert_eq!(lack(&file[..70]), Some("an ELF file that is cut short"));
        assert_eq!(lack(b"#!/bin/sh"), Some("not a 64-bit little-endian ELF file"));
    }
}
