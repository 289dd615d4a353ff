//! A question before something is written outside of any sandbox: what is written has been shown, and a person says yes.

use std::io::{BufRead, IsTerminal, Read};

use crate::platform::write_error;

/// No answer is longer.
const MAX_BYTES: u64 = 1024;

/// Whether the user agrees: by `--yes`, or on the terminal.
///
/// # Errors
/// When there is nobody to ask.
pub fn consent(question: &str, yes: bool) -> Result<bool, String> {
    if yes {
        return Ok(true);
    }
    let stdin = std::io::stdin();
    if !stdin.is_terminal() || !std::io::stderr().is_terminal() {
        return Err("there is no terminal to ask on\nhelp: --yes agrees to what is shown above".to_owned());
    }
    write_error(&format!("{question} [y/N] "));
    let mut answer = Vec::new();
    let read = stdin.lock().take(MAX_BYTES).read_until(b'\n', &mut answer);
    Ok(read.is_ok() && matches!(answer.trim_ascii(), b"y" | b"Y" | b"yes"))
}
