//! Filling folders up.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// `bytes FILE…` writes each until nothing more fits; `files FOLDER` makes empty files until no more can be made.
/// Both print how much it was, at most a gigabyte or two million.
pub fn fill(words: &[OsString]) -> i32 {
    for place in &words[1..] {
        let amount = if words[0] == "bytes" { bytes(Path::new(place)) } else { files(Path::new(place)) };
        println!("{amount}");
    }
    0
}

fn bytes(path: &Path) -> u64 {
    let Ok(mut file) = File::create(path) else { return 0 };
    let block = vec![1; 64 << 10];
    let mut written = 0;
    while written < 1 << 30 {
        match file.write(&block) {
            Ok(0) | Err(_) => break,
            Ok(n) => written += n as u64,
        }
    }
    written
}

fn files(folder: &Path) -> u64 {
    (0..2_000_000).take_while(|index| File::create_new(folder.join(index.to_string())).is_ok()).count() as u64
}
