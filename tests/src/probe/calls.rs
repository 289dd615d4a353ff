//! The role `calls`: makes the system calls of a [`super::Script`] and writes one line for each, its answer and what
//! its buffer holds.

use std::ffi::OsString;
use std::io::Write;

use super::{hex, nul_terminated, unhex, word};

/// The role.
pub fn run(words: &[OsString]) -> i32 {
    let mut answers: Vec<i64> = Vec::new();
    // Kept to the end: a later call may be given the buffer of an earlier one.
    let mut buffers: Vec<Vec<u8>> = Vec::new();
    for call in words.split(|word| word == ";").filter(|call| !call.is_empty()) {
        let mut shown = None;
        let answer = if call[0] == "fork" {
            fork()
        } else {
            let mut registers = [0usize; 6];
            for (register, argument) in registers.iter_mut().zip(&call[1..]) {
                let (kind, rest) = word(argument);
                let text = rest.to_string_lossy();
                *register = match kind {
                    b'i' => text.parse::<i64>().unwrap_or(0) as usize,
                    b'a' => answers[text.parse::<usize>().unwrap_or(0)] as usize,
                    b'p' => buffers[text.parse::<usize>().unwrap_or(0)].as_ptr() as usize,
                    _ => {
                        let mut bytes = match kind {
                            b'z' => vec![0; text.parse().unwrap_or(0)],
                            b'b' => unhex(&text),
                            _ => nul_terminated(rest),
                        };
                        let place = bytes.as_mut_ptr() as usize;
                        if kind != b's' {
                            shown = Some(answers.len());
                        }
                        // A string's bytes live as long, but only a buffer is found again by its call's number.
                        match buffers.len() {
                            length if length == answers.len() && kind != b's' => buffers.push(bytes),
                            _ => std::mem::forget(bytes),
                        }
                        place
                    }
                };
            }
            make(&call[0].to_string_lossy(), registers)
        };
        if buffers.len() == answers.len() {
            buffers.push(Vec::new());
        }
        answers.push(answer);
        let buffer = shown.map(|index| format!(" {}", hex(&buffers[index]))).unwrap_or_default();
        let mut out = std::io::stdout();
        let _ = writeln!(out, "{answer}{buffer}");
        let _ = out.flush();
    }
    0
}

fn make(number: &str, [a, b, c, d, e, f]: [usize; 6]) -> i64 {
    let number: libc::c_long = number.parse().unwrap_or(-1);
    // SAFETY: whatever the kernel writes goes to the buffers above. The calls that scripts make change this process
    // only in ways that the rest of the script expects.
    match unsafe { libc::syscall(number, a, b, c, d, e, f) } {
        -1 => -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)),
        answer => answer,
    }
}

/// The parent waits and ends as its child does.
fn fork() -> i64 {
    // SAFETY: this process has a single thread.
    match unsafe { libc::fork() } {
        0 => 0,
        -1 => -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)),
        child => {
            let mut status = 0;
            // SAFETY: the kernel writes one integer.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            let code = if libc::WIFSIGNALED(status) {
                128 + libc::WTERMSIG(status)
            } else {
                libc::WEXITSTATUS(status)
            };
            std::process::exit(code)
        }
    }
}
