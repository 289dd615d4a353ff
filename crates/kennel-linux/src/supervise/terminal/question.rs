//! Questions to the user, on the caller's terminal, while a sandbox runs.
//!
//! While one stands, everything inside is held, nothing from inside is shown, and nothing that is typed goes inside. The loop
//! that carries the terminal also asks: nobody else touches the caller's terminal, and a question ends with the run.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFlags, eventfd};

use super::Terminal;
use super::dialogue::{Answer, Dialogue, Fence, Kind};
use super::modes::Output;
use super::outer::{CallerTerminal, Read};
use crate::supervise::readiness::Interest;

/// How long what was written before the question may take to be shown.
const DRAIN: Duration = Duration::from_secs(2);
/// For how long a pipe to another member of the pipeline has to be empty, until that has probably written what it read; and
/// how often that is looked at.
const QUIET: Duration = Duration::from_millis(50);
const LOOK: Duration = Duration::from_millis(5);

/// Puts questions to the user of a sandbox, from any thread.
#[derive(Clone, Debug)]
pub struct Asker {
    sender: Sender<Question>,
    wake: Arc<OwnedFd>,
}

#[derive(Debug)]
struct Question {
    prompt: String,
    deadline: Option<Instant>,
    answer: Sender<Reply>,
}

/// What became of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// What the user typed.
    Line(String),
    /// The user would not say: Ctrl-C, Ctrl-D. Or there is nobody to ask: no terminal, or it is somebody else's at the
    /// moment.
    Refused,
    /// Nobody said anything in time.
    Silence,
}

impl Asker {
    /// Puts a question and waits for the line that the user types: at most for `limit`, and as long as the sandbox runs.
    ///
    /// `prompt` goes to the terminal as it is, and must hold nothing that one obeys.
    #[must_use]
    pub fn ask(&self, prompt: &str, limit: Option<Duration>) -> Reply {
        let (answer, line) = channel();
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        if self.sender.send(Question { prompt: prompt.to_owned(), deadline, answer }).is_err() {
            return Reply::Refused;
        }
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        line.recv().unwrap_or(Reply::Refused)
    }
}

/// The questions that are put while a sandbox runs.
#[derive(Debug)]
pub struct Questions {
    receiver: Receiver<Question>,
    wake: Arc<OwnedFd>,
    current: Option<Current>,
    /// The caller's terminal, where the command has none.
    own: Option<CallerTerminal>,
    /// What was typed after the last answer.
    typed_after: Vec<u8>,
}

#[derive(Debug)]
struct Current {
    question: Question,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Until everything inside is held.
    Holding,
    /// Until what was written before has been shown: at the latest then, and pipes are empty since.
    Draining(Instant, Option<Instant>),
    /// Until there is an answer.
    Asking(Dialogue),
}

/// A place to ask, and the questions for whoever runs the sandbox.
///
/// # Errors
/// When the system has no descriptor left.
pub fn questions() -> io::Result<(Asker, Questions)> {
    let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let (sender, receiver) = channel();
    let asker = Asker { sender, wake: Arc::clone(&wake) };
    Ok((asker, Questions { receiver, wake, current: None, own: None, typed_after: Vec::new() }))
}

impl Questions {
    /// When something is due.
    pub(in crate::supervise) fn next(&self) -> Option<Instant> {
        let Current { question, stage } = self.current.as_ref()?;
        match stage {
            Stage::Holding => question.deadline,
            Stage::Draining(..) => Some(Instant::now() + LOOK),
            Stage::Asking(dialogue) => dialogue.next(),
        }
    }

    /// What wakes the loop, and the terminal while a question has it; that comes last.
    pub(in crate::supervise) fn register<'a>(
        &'a self,
        fds: &mut Vec<Interest<'a>>,
        terminal: Option<&'a Terminal>,
    ) {
        fds.push(Interest::new(&self.wake, PollFlags::IN));
        let wants = match self.current.as_ref().map(|current| &current.stage) {
            None | Some(Stage::Holding) => return,
            Some(Stage::Draining(..)) => PollFlags::empty(),
            Some(Stage::Asking(dialogue)) if dialogue.out.is_empty() => PollFlags::IN,
            Some(Stage::Asking(_)) => PollFlags::IN | PollFlags::OUT,
        };
        let tty = terminal.map(|terminal| &terminal.outer).or(self.own.as_ref());
        fds.extend(tty.map(|tty| Interest::new(tty, wants)));
    }

    /// Takes the next question up, if none is being asked. Returns whether one was: everything inside is to be held then.
    pub(in crate::supervise) fn begin(&mut self, woken: bool, terminal: Option<&Terminal>) -> bool {
        if woken {
            let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
        }
        while self.current.is_none() {
            let Ok(question) = self.receiver.try_recv() else { break };
            if terminal.is_none() && self.own.is_none() {
                self.own = CallerTerminal::of_session();
            }
            let tty = terminal.map(|terminal| &terminal.outer).or(self.own.as_ref());
            if tty.is_some_and(|tty| tty.is_foreground() && !tty.is_gone()) {
                self.current = Some(Current { question, stage: Stage::Holding });
                return true;
            }
            let _ = question.answer.send(Reply::Refused);
        }
        false
    }

    /// Everything inside is held.
    pub(in crate::supervise) fn held(&mut self) {
        if let Some(Current { stage: stage @ Stage::Holding, .. }) = &mut self.current {
            *stage = Stage::Draining(Instant::now() + DRAIN, None);
        }
    }

    /// What was typed after the last answer, and was not for it.
    pub(in crate::supervise) fn take_typed(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.typed_after)
    }

    /// Goes on as far as that is possible now. `ready` is what poll said of the terminal. Returns whether the question is
    /// over: everything inside is to be released then.
    pub(in crate::supervise) fn go_on(&mut self, ready: PollFlags, terminal: Option<&mut Terminal>) -> bool {
        let Some(mut current) = self.current.take() else { return false };
        let (now, shared) = (Instant::now(), terminal.is_some());
        let (tty, drained) = match terminal {
            Some(terminal) => {
                let drained = matches!(current.stage, Stage::Asking(_)) || terminal.show_rest(ready);
                (Some(&mut terminal.outer), drained)
            }
            None => (self.own.as_mut(), true),
        };
        let Some(tty) = tty else { return true };
        let answer = match &mut current.stage {
            Stage::Holding => {
                current.question.deadline.is_some_and(|deadline| now >= deadline).then_some(Answer::Silence)
            }
            Stage::Draining(until, since) => {
                let empty = drained && pipes_are_empty();
                let since = if empty { *since.get_or_insert(now) } else { *since.insert(now) };
                if now >= *until || (empty && (no_pipes() || now >= since + QUIET)) {
                    // Only what is typed from now on is an answer, in modes that are set here.
                    tty.change(|before| before.raw(Output::Processed));
                    tty.flush_input();
                    let Question { prompt, deadline, .. } = &current.question;
                    let [rows, columns, ..] = tty.size().unwrap_or_default();
                    let (kind, fence) = (Kind::of_this_process(), Fence::new(rows, columns));
                    let mut dialogue = Dialogue::new(prompt.clone(), *deadline, kind, fence);
                    write(&mut dialogue, tty, tty.never_waits());
                    // A terminal that never replies wakes nobody: its time runs from now on.
                    let answer = dialogue.go_on(&[], now);
                    current.stage = Stage::Asking(dialogue);
                    answer
                } else {
                    None
                }
            }
            Stage::Asking(dialogue) => {
                write(dialogue, tty, ready.contains(PollFlags::OUT));
                let answer = match read(tty, ready) {
                    Ok(typed) => dialogue.go_on(&typed, now),
                    Err(()) => Some(Answer::No),
                };
                // The last word too; one that the terminal does not take now is lost, and nobody waits for it.
                write(dialogue, tty, tty.never_waits());
                answer
            }
        };
        match answer {
            None => {
                self.current = Some(current);
                false
            }
            Some(answer) => {
                let mut rest = Vec::new();
                if let Stage::Asking(dialogue) = &mut current.stage {
                    tty.owes_reply(dialogue.owed());
                    rest = std::mem::take(&mut dialogue.rest);
                }
                if !shared {
                    tty.restore();
                }
                self.typed_after = rest;
                let reply = match answer {
                    Answer::Line(line) => Reply::Line(line),
                    Answer::No => Reply::Refused,
                    Answer::Silence => Reply::Silence,
                };
                let _ = current.question.answer.send(reply);
                true
            }
        }
    }
}

/// What this process's outputs are, if they are pipes.
fn output_pipes() -> impl Iterator<Item = std::os::fd::BorrowedFd<'static>> {
    use rustix::fs::{FileType, fstat};
    [rustix::stdio::stdout(), rustix::stdio::stderr()].into_iter().filter(|stream| {
        fstat(stream).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo)
    })
}

fn no_pipes() -> bool {
    output_pipes().next().is_none()
}

/// Whether those who read the outputs have read all of it. They may show it on the same terminal.
fn pipes_are_empty() -> bool {
    output_pipes().all(|pipe| rustix::io::ioctl_fionread(pipe).is_ok_and(|waiting| waiting == 0))
}

fn write(dialogue: &mut Dialogue, tty: &CallerTerminal, now: bool) {
    if now
        && !dialogue.out.is_empty()
        && let Ok(count) = tty.write(&dialogue.out)
    {
        dialogue.out.drain(..count);
    }
}

/// What was typed; an error when there is nobody who could type.
fn read(tty: &CallerTerminal, ready: PollFlags) -> Result<Vec<u8>, ()> {
    let mut typed = vec![0; 256];
    if !ready.contains(PollFlags::IN) {
        return if ready.intersects(PollFlags::HUP | PollFlags::ERR) { Err(()) } else { Ok(Vec::new()) };
    }
    match tty.read(&mut typed) {
        Read::Bytes(count) => typed.truncate(count),
        Read::Nothing => typed.clear(),
        Read::NotOurs | Read::Gone => return Err(()),
    }
    Ok(typed)
}
