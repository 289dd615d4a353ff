//! Other processes: daemons that stay behind, siblings and PID 1 that could be taken over, programs that are executed.

use std::process::{Command, Stdio};

use super::call::{call, fd};
use super::{Actor, Answer, PATIENCE};
use crate::attack::script::Op;
use crate::attack::wire::now;
use crate::attack::word;

impl Actor {
    pub(super) fn processes(&mut self, op: &Op) -> Answer {
        match op.verb.as_str() {
            "daemon" => self.daemon(op),
            "ptrace" => others(),
            "kill" => {
                let parent = usize::try_from(call(libc::SYS_getppid, &[])).unwrap_or(1);
                let (target, signal) = match op.word(0) {
                    "init" => (1, libc::SIGKILL),
                    "stop" => (parent, libc::SIGSTOP),
                    _ => (usize::MAX, libc::SIGKILL),
                };
                Answer::of(call(libc::SYS_kill, &[target, signal as usize]))
            }
            "git" => self.git(op),
            "gitindex" => self.index(op),
            _ => Answer::of(-i64::from(libc::ENOSYS)),
        }
    }

    /// Leaves the session and does its work later: the command may be over by then.
    fn daemon(&mut self, op: &Op) -> Answer {
        // SAFETY: this process has a single thread; the child goes on as it would.
        let child = unsafe { libc::fork() };
        if child != 0 {
            return Answer::of(i64::from(child).min(0));
        }
        call(libc::SYS_setsid, &[]);
        std::thread::sleep(std::time::Duration::from_micros(op.number(0)));
        let later = Op { verb: op.word(1).to_owned(), words: op.words.get(2..).unwrap_or_default().to_vec() };
        self.act(&later);
        // It stays, to be found by whoever looks for what is left.
        std::thread::sleep(std::time::Duration::from_secs(u64::from(PATIENCE)));
        // SAFETY: ends the child without its parent's handlers.
        unsafe { libc::_exit(0) };
    }

    /// The real git, with what it prints thrown away.
    fn git(&mut self, op: &Op) -> Answer {
        let since = now();
        let mut command = Command::new("git");
        command.current_dir(word::place(&self.top, op.word(0))).args(&op.words[1..]);
        command.stdin(Stdio::null()).stderr(Stdio::null()).stdout(Stdio::piped());
        for (name, value) in super::super::tree::GIT_ENVIRONMENT {
            command.env(name, value);
        }
        match command.output() {
            Ok(output) => Answer::read(since, i64::from(output.status.code().unwrap_or(-1)), output.stdout),
            Err(error) => Answer::of(-i64::from(error.raw_os_error().unwrap_or(1))),
        }
    }
}

/// Tries to take over every process that shows: by its memory, its descriptors, its root.
fn others() -> Answer {
    let own = std::process::id();
    let mut data = Vec::new();
    let since = now();
    for pid in (1..64).filter(|pid| *pid != own) {
        let pid_word = pid as usize;
        // Two attackers that trace each other would both stand still for ever: the younger one is traced.
        if (pid == 1 || pid > own)
            && call(libc::SYS_ptrace, &[libc::PTRACE_SEIZE as usize, pid_word, 0, 0]) == 0
        {
            call(libc::SYS_ptrace, &[libc::PTRACE_DETACH as usize, pid_word, 0, 0]);
        }
        let pidfd = call(libc::SYS_pidfd_open, &[pid_word, 0]);
        if let Ok(pidfd) = i32::try_from(pidfd)
            && pidfd >= 0
        {
            for number in 0..16 {
                let taken = call(libc::SYS_pidfd_getfd, &[fd(pidfd), number, 0]);
                if taken >= 0 {
                    data.extend(super::call::contents(taken as usize));
                    call(libc::SYS_close, &[taken as usize]);
                }
            }
            call(libc::SYS_close, &[fd(pidfd)]);
        }
        for name in ["environ", "cmdline", "mem", "maps"] {
            data.extend(std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default().iter().take(512));
        }
    }
    data.truncate(crate::attack::wire::MAX_DATA);
    Answer::read(since, 0, data)
}
