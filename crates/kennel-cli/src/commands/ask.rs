//! `--ask`: a question on the terminal about a host that no rule speaks of.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use kennel::attached::{AskAboutHosts, HostAnswer, HostQuestion, converse};

/// Asks on the controlling terminal. A question without a terminal, or without an answer in `limit`, is answered no.
pub fn on_terminal(limit: Option<Duration>) -> AskAboutHosts {
    AskAboutHosts::new(move |question| {
        converse(|terminal| put(question, terminal, limit).unwrap_or(HostAnswer::Deny))
            .unwrap_or(HostAnswer::Deny)
    })
}

fn put(question: &HostQuestion, terminal: &OwnedFd, limit: Option<Duration>) -> std::io::Result<HostAnswer> {
    let mut screen = std::fs::File::from(terminal.try_clone()?);
    // The host is in its one spelling, which holds no character that a terminal would obey.
    let HostQuestion { host, port } = question;
    write!(screen, "\r\nkennel: connect to {host}:{port}? [yes/once/No] ")?;
    let answer = match line(terminal, limit)? {
        Some(text) => {
            if !text.ends_with('\n') {
                write!(screen, "\r\n")?;
            }
            match text.trim() {
                "y" | "yes" => HostAnswer::Allow,
                "o" | "once" => HostAnswer::AllowOnce,
                _ => HostAnswer::Deny,
            }
        }
        None => {
            write!(screen, "\r\nkennel: no answer, so no\r\n")?;
            HostAnswer::NoAnswer
        }
    };
    Ok(answer)
}

/// A line that is typed in time.
fn line(terminal: &OwnedFd, limit: Option<Duration>) -> std::io::Result<Option<String>> {
    use std::os::fd::AsRawFd;
    let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    let wait = |deadline: Instant| {
        let left = deadline.saturating_duration_since(Instant::now()).as_millis();
        // Rounded up: a wait of 0 would end before its time.
        i32::try_from(left + 1).unwrap_or(i32::MAX)
    };
    let mut ready = libc::pollfd { fd: terminal.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    loop {
        // SAFETY: one structure, which the kernel fills in.
        match unsafe { libc::poll(&raw mut ready, 1, deadline.map_or(-1, wait)) } {
            0 => return Ok(None),
            1.. => break,
            _ => {
                let error = std::io::Error::last_os_error();
                if error.kind() != std::io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    let mut bytes = [0u8; 256];
    // SAFETY: the buffer is as long as it is said to be. The terminal hands out whole lines.
    let count = unsafe { libc::read(terminal.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len()) };
    let count = usize::try_from(count).map_err(|_| std::io::Error::last_os_error())?;
    Ok(Some(String::from_utf8_lossy(&bytes[..count]).into_owned()))
}
