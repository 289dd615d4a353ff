//! What the entrypoint says: lines on stderr that start with `[entrypoint]`, so that they can be told from the
//! agent's own.
//!
//! It says nothing when all is well, and never a control plane value nor an argument: stderr is often the agent's
//! log, and the agent may be able to read it. (So no `format!` of whole structures here; each message is put
//! together from parts that are known to be harmless.)

use alloc::vec::Vec;

use crate::sys;

/// One thing that went wrong: what was being done, on what, and what the system said.
#[derive(Debug, PartialEq)]
pub struct Trouble {
    doing: &'static str,
    on: Vec<u8>,
    said: Vec<u8>,
    help: &'static str,
}

impl Trouble {
    pub fn new(doing: &'static str, on: impl Into<Vec<u8>>, said: impl Into<Vec<u8>>) -> Self {
        Self { doing, on: on.into(), said: said.into(), help: "" }
    }

    /// One line on what the reader can do about it.
    pub fn help(self, help: &'static str) -> Self {
        Self { help, ..self }
    }

    /// Warns, says what follows, and goes on; with `AGENT_STRICT=1` it is an error like any other.
    pub fn tolerate(mut self, strict: bool, consequence: &str) -> Result<(), Self> {
        if strict {
            return Err(self);
        }
        self.said.extend_from_slice(b"; ");
        self.said.extend_from_slice(consequence.as_bytes());
        sys::write_stderr(&self.lines("warning"));
        Ok(())
    }

    pub fn report_fatal(&self) {
        sys::write_stderr(&self.lines("fatal"));
    }

    fn lines(&self, severity: &str) -> Vec<u8> {
        let mut text = Vec::new();
        text.extend_from_slice(b"[entrypoint] ");
        text.extend_from_slice(severity.as_bytes());
        for part in [self.doing.as_bytes(), &self.on, &self.said] {
            if !part.is_empty() {
                text.extend_from_slice(b": ");
                text.extend(part.iter().map(|&byte| if byte.is_ascii_control() { b'?' } else { byte }));
            }
        }
        text.push(b'\n');
        if !self.help.is_empty() {
            text.extend_from_slice(b"[entrypoint] help: ");
            text.extend_from_slice(self.help.as_bytes());
            text.push(b'\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_a_message_has_the_prefix_even_if_a_name_holds_a_line_break() {
        let trouble = Trouble::new("finding", *b"a\nb\x1b[31m", "not there").help("look elsewhere");
        assert_eq!(
            trouble.lines("fatal"),
            b"[entrypoint] fatal: finding: a?b?[31m: not there\n[entrypoint] help: look elsewhere\n"
        );
    }

    #[test]
    fn a_warning_becomes_an_error_when_strict() {
        let trouble = || Trouble::new("a", "b", "c");
        assert_eq!(trouble().tolerate(true, "d"), Err(trouble()));
    }
}
