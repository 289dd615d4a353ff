//! One question and its answer, as bytes to a terminal and from it.
//!
//! An answer has to come from the user, and not from the terminal: programs can have it send its version, its title or
//! whatever it was told to. So before the question comes a fence: the cursor is sent to a few places that nobody can guess,
//! the terminal is asked where it is, and everything up to its replies is dropped. What earlier output has provoked comes
//! before these. An answer is a line of plain characters: one with an escape or a control character in it is dropped as a
//! whole. The line is edited here, in modes that nobody else sets.
//!
//! The question must also be seen. Output from before may have left the terminal in the middle of a sequence that swallows
//! what follows, with colours that hide it, or with a region that scrolls it away.

use std::io::Write;
use std::time::{Duration, Instant};

/// How long the terminal may say nothing before it replies. One that does not reply is not waited for; but one that is still
/// busy with what it was sent before is.
const PATIENCE: Duration = Duration::from_secs(1);
/// The most characters of an answer.
const MAX: usize = 64;

/// Ends whatever sequence or string is unfinished (CAN, ST), and shows what is drawn at once. Then the whole screen scrolls,
/// in its whole width, with the cursor where it was; plain characters in plain colours, inserted nowhere, wrapped at the
/// edge, and a cursor that shows.
const RESET: &[u8] =
    b"\x18\x1b\\\x1b[?2026l\x1b7\x1b[?69l\x1b[r\x1b8\x0f\x1b(B\x1b[m\x1b[4l\x1b[?7h\x1b[?25h";
/// The colours of plain text and of its background are the user's again: of Linux's console, and of others.
const COLOURS_OF_CONSOLE: &[u8] = b"\x1b]R";
const COLOURS: &[u8] = b"\x1b]110\x1b\\\x1b]111\x1b\\";
/// Nothing stands below the question.
const ERASE_BELOW: &[u8] = b"\x1b[J";

/// What a terminal understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It would print what another obeys.
    Dumb,
    /// Linux's own console.
    Console,
    /// What most others do.
    Other,
}

impl Kind {
    pub(super) fn of_this_process() -> Kind {
        match std::env::var_os("TERM") {
            None => Kind::Dumb,
            Some(term) if term == "dumb" => Kind::Dumb,
            Some(term) if term == "linux" => Kind::Console,
            Some(_) => Kind::Other,
        }
    }
}

/// What came of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// A line was typed.
    Line(String),
    /// Ctrl-C or Ctrl-D.
    No,
    /// Nothing in time.
    Silence,
}

/// What the terminal is asked before a question, and the only reply to it.
#[derive(Clone, Debug)]
pub(super) struct Fence {
    request: Vec<u8>,
    reply: Vec<u8>,
}

impl Fence {
    /// For a screen of this size; of one that does not tell its size little is assumed.
    pub(super) fn new(rows: u16, columns: u16) -> Fence {
        let mut chance = [0u8; 12];
        // Without chance the places are always the same ones, and the question is as safe as its line makes it.
        let _ = rustix::rand::getrandom(&mut chance, rustix::rand::GetRandomFlags::empty());
        let (rows, columns) = (if rows > 8 { rows } else { 8 }, if columns > 16 { columns } else { 16 });
        let (mut request, mut reply) = (b"\x1b7".to_vec(), Vec::new());
        for four in chance.chunks_exact(4) {
            // Not the first row: the reply would be that of a function key.
            let row = 2 + u16::from_ne_bytes([four[0], four[1]]) % (rows - 2);
            let column = 1 + u16::from_ne_bytes([four[2], four[3]]) % (columns - 1);
            let _ = write!(request, "\x1b[{row};{column}H\x1b[6n");
            let _ = write!(reply, "\x1b[{row};{column}R");
        }
        request.extend_from_slice(b"\x1b8");
        Fence { request, reply }
    }
}

/// A question that stands on the screen, or is about to.
#[derive(Debug)]
pub(super) struct Dialogue {
    prompt: String,
    kind: Kind,
    fence: Fence,
    stage: Stage,
    /// When silence is an answer.
    deadline: Option<Instant>,
    /// What is to be written.
    pub(super) out: Vec<u8>,
    /// What was typed after the answer.
    pub(super) rest: Vec<u8>,
    line: Line,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Until the terminal has replied; the time starts when it has been asked.
    Fence(Option<Instant>),
    /// Until a line has been typed. The terminal may still owe its reply.
    Typing { owed: bool },
}

impl Dialogue {
    pub(super) fn new(prompt: String, deadline: Option<Instant>, kind: Kind, fence: Fence) -> Dialogue {
        let (stage, out, rest, line) = (Stage::Fence(None), Vec::new(), Vec::new(), Line::default());
        let mut dialogue = Dialogue { prompt, kind, fence, stage, deadline, out, rest, line };
        if kind == Kind::Dumb {
            dialogue.put(false);
        } else {
            dialogue.out.extend_from_slice(RESET);
            dialogue.out.extend_from_slice(if kind == Kind::Console { COLOURS_OF_CONSOLE } else { COLOURS });
            dialogue.out.extend_from_slice(&dialogue.fence.request);
        }
        dialogue
    }

    /// When [`Dialogue::go_on`] is due in any case.
    pub(super) fn next(&self) -> Option<Instant> {
        let fence = match self.stage {
            Stage::Fence(until) => until,
            Stage::Typing { .. } => None,
        };
        fence.into_iter().chain(self.deadline).min()
    }

    /// The reply that the terminal still owes.
    pub(super) fn owed(&self) -> Option<Vec<u8>> {
        let owed = matches!(self.stage, Stage::Fence(Some(_)) | Stage::Typing { owed: true });
        owed.then(|| self.fence.reply.clone())
    }

    /// Goes on, after `typed` has come from the terminal, if anything has.
    pub(super) fn go_on(&mut self, typed: &[u8], now: Instant) -> Option<Answer> {
        match self.stage {
            Stage::Fence(until) => {
                self.line.raw.extend_from_slice(typed);
                let reply = self.fence.reply.as_slice();
                let replied = self.line.raw.windows(reply.len()).any(|part| part == reply);
                if replied || until.is_some_and(|until| now >= until) && typed.is_empty() {
                    self.put(!replied);
                } else if (until.is_none() && self.out.is_empty()) || !typed.is_empty() {
                    self.line.forget(self.fence.reply.len());
                    self.stage = Stage::Fence(Some(now + PATIENCE));
                }
            }
            Stage::Typing { .. } => {
                for (at, byte) in typed.iter().enumerate() {
                    if let Some(answer) = self.take(*byte) {
                        self.rest = typed[at + 1..].to_vec();
                        return Some(answer);
                    }
                }
            }
        }
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            if let Stage::Typing { .. } = self.stage {
                self.out.extend_from_slice(b"\r\nkennel: no answer, so no\r\n");
            }
            return Some(Answer::Silence);
        }
        None
    }

    /// Puts the question itself, at the beginning of a line.
    fn put(&mut self, owed: bool) {
        self.stage = Stage::Typing { owed };
        self.line = Line::default();
        self.out.extend_from_slice(b"\r\n");
        if self.kind != Kind::Dumb {
            self.out.extend_from_slice(ERASE_BELOW);
        }
        self.out.extend_from_slice(self.prompt.as_bytes());
    }

    fn take(&mut self, byte: u8) -> Option<Answer> {
        const END: u8 = 4;
        const INTERRUPT: u8 = 3;
        const BACKSPACE: u8 = 8;
        const KILL: u8 = 0x15;
        const DELETE: u8 = 0x7f;
        match byte {
            b'\r' | b'\n' if self.line.dropped => {
                self.out.extend_from_slice(b"\r\nkennel: only plain characters are an answer; type it again");
                let Stage::Typing { owed } = self.stage else { return None };
                self.put(owed);
            }
            b'\r' | b'\n' => {
                self.out.extend_from_slice(b"\r\n");
                return Some(Answer::Line(std::mem::take(&mut self.line.text)));
            }
            INTERRUPT | END => {
                self.out.extend_from_slice(b"\r\n");
                return Some(Answer::No);
            }
            _ if self.line.dropped => self.late_reply(byte),
            BACKSPACE | DELETE => {
                if self.line.text.pop().is_some() {
                    self.out.extend_from_slice(b"\x08 \x08");
                }
            }
            KILL => {
                for _ in 0..std::mem::take(&mut self.line.text).len() {
                    self.out.extend_from_slice(b"\x08 \x08");
                }
            }
            b' '..=b'~' if self.line.text.len() < MAX => {
                self.line.text.push(byte.into());
                self.out.push(byte);
            }
            _ => {
                self.line.dropped = true;
                self.late_reply(byte);
            }
        }
        None
    }

    /// A reply that the terminal owes does not spoil a line that has not been begun.
    fn late_reply(&mut self, byte: u8) {
        self.line.raw.push(byte);
        let owed = self.stage == Stage::Typing { owed: true };
        if owed && self.line.text.is_empty() && self.line.raw == self.fence.reply {
            self.line = Line::default();
            self.stage = Stage::Typing { owed: false };
        }
        self.line.raw.truncate(self.fence.reply.len());
    }
}

impl Line {
    /// Forgets all but the end of what came before the reply, in which that may have begun.
    fn forget(&mut self, reply: usize) {
        let old = self.raw.len().saturating_sub(reply);
        self.raw.drain(..old);
    }
}

/// The line that is being typed.
#[derive(Debug, Default)]
struct Line {
    text: String,
    /// Something came that is no character: none of the line counts.
    dropped: bool,
    /// What came that is no character, and all that followed.
    raw: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLY: &[u8] = b"\x1b[7;9R\x1b[3;4R";

    fn fence() -> Fence {
        Fence { request: b"where?".to_vec(), reply: REPLY.to_vec() }
    }

    /// A question that has been put, after the terminal's reply.
    fn asked() -> (Dialogue, Instant) {
        let now = Instant::now();
        let deadline = Some(now + Duration::from_secs(60));
        let mut dialogue = Dialogue::new("really? ".into(), deadline, Kind::Other, fence());
        assert!(dialogue.out.ends_with(b"where?"));
        dialogue.out.clear();
        assert_eq!(dialogue.go_on(b"", now), None);
        assert_eq!(dialogue.go_on(&[b"junk", REPLY].concat(), now), None);
        assert!(dialogue.out.ends_with(b"really? "));
        (dialogue, now)
    }

    fn answer(typed: &[u8]) -> Option<Answer> {
        let (mut dialogue, now) = asked();
        dialogue.go_on(typed, now)
    }

    #[test]
    fn a_plain_line_is_an_answer() {
        assert_eq!(answer(b"yes\r"), Some(Answer::Line("yes".into())));
        assert_eq!(answer(b"yep\x7fs\x15no\n"), Some(Answer::Line("no".into())));
        assert_eq!(answer(b"yes"), None);
        assert_eq!(answer(b"yes\x03"), Some(Answer::No));
        let (mut dialogue, now) = asked();
        assert_eq!(dialogue.go_on(b"no\rnext\r", now), Some(Answer::Line("no".into())));
        assert_eq!(dialogue.rest, b"next\r");
    }

    #[test]
    fn a_line_with_anything_else_in_it_is_dropped_and_the_next_one_counts() {
        for reply in [
            b"\x1bP>|tmux 3.3a\x1b\\yes\r".as_slice(),
            b"\x1b[?1;2cyes\r",
            b"\x1b[200~yes\r",
            b"y\x05es\r",
            b"\x9b0nyes\r",
            b"\xc2\x9b0nyes\r",
            b"ye\x00s\r",
        ] {
            let (mut dialogue, now) = asked();
            assert_eq!(dialogue.go_on(reply, now), None, "{reply:?}");
            assert!(dialogue.out.ends_with(b"really? "), "{reply:?}");
            assert_eq!(dialogue.go_on(b"no\r", now), Some(Answer::Line("no".into())));
        }
    }

    #[test]
    fn what_comes_before_the_terminals_reply_is_dropped() {
        let now = Instant::now();
        let mut dialogue = Dialogue::new("really? ".into(), None, Kind::Other, fence());
        dialogue.out.clear();
        // Another's request, or a flood of them, gets other replies.
        assert_eq!(dialogue.go_on(b"yes\r\x1b[>0;95;0c\x1b[7;9R", now), None);
        assert_eq!(dialogue.go_on(b"\x1b[7;9R\x1b[3;", now), None);
        assert!(dialogue.out.is_empty());
        assert_eq!(dialogue.go_on(b"4Ryes\r", now), None);
        assert!(dialogue.out.ends_with(b"really? ") && dialogue.owed().is_none());
    }

    #[test]
    fn a_terminal_that_does_not_reply_is_not_waited_for_and_its_late_reply_spoils_nothing() {
        let now = Instant::now();
        let mut dialogue = Dialogue::new("really? ".into(), None, Kind::Other, fence());
        dialogue.out.clear();
        assert_eq!(dialogue.go_on(b"", now), None);
        // Still busy with what came before.
        assert_eq!(dialogue.go_on(b"\x1b[0n", now + PATIENCE), None);
        assert!(dialogue.out.is_empty());
        let now = now + PATIENCE;
        assert_eq!(dialogue.go_on(b"", now + PATIENCE), None);
        assert!(dialogue.out.ends_with(b"really? ") && dialogue.owed().as_deref() == Some(REPLY));
        assert_eq!(dialogue.go_on(REPLY, now + PATIENCE), None);
        assert_eq!(dialogue.owed(), None);
        assert_eq!(dialogue.go_on(b"yes\r", now + PATIENCE), Some(Answer::Line("yes".into())));
    }

    #[test]
    fn silence_ends_in_time_and_a_dumb_terminal_gets_no_sequences() {
        let (mut dialogue, now) = asked();
        assert_eq!(dialogue.go_on(b"ye", now + Duration::from_secs(60)), Some(Answer::Silence));
        let dumb = Dialogue::new("really? ".into(), None, Kind::Dumb, fence());
        assert_eq!(dumb.out, b"\r\nreally? ");
    }

    #[test]
    fn the_fence_stays_on_the_screen_and_off_its_first_row() {
        for (rows, columns) in [(0, 0), (1, 1), (24, 80), (u16::MAX, u16::MAX)] {
            let Fence { request, reply } = Fence::new(rows, columns);
            let text = String::from_utf8(reply).unwrap();
            let places: Vec<(u16, u16)> = text
                .split_terminator('R')
                .map(|place| {
                    let (row, column) = place.strip_prefix("\x1b[").unwrap().split_once(';').unwrap();
                    (row.parse().unwrap(), column.parse().unwrap())
                })
                .collect();
            assert_eq!(places.len(), 3);
            for (row, column) in places {
                assert!(row >= 2 && row <= rows.max(8) && column >= 1 && column <= columns.max(16));
                let asks = format!("\x1b[{row};{column}H\x1b[6n");
                assert!(String::from_utf8_lossy(&request).contains(&asks));
            }
        }
    }
}
