//! A terminal with a shell in it, and somebody who types and reads the screen.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::{Scratch, kennel_bin, program, skipped};

const PATIENCE: Duration = Duration::from_secs(20);

/// A tmux server of a test's own with one window of 80 × 24, in which an interactive bash waits. `$K` is kennel.
pub struct Screen {
    name: String,
    /// The shell's working directory; also holds tmux's socket, in `sockets`.
    pub folder: Scratch,
}

impl Screen {
    /// Opens one; `None`, and a line that says why, where there is no tmux or bash.
    pub fn open() -> Option<Screen> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        for name in ["tmux", "bash"] {
            if program(name).is_none() {
                skipped(&format!("{name} is not installed"));
                return None;
            }
        }
        let name = format!("kennel-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let screen = Screen { name, folder: Scratch::new() };
        screen.folder.dir("sockets");
        let shell = ["new-session", "-d", "-x", "80", "-y", "24", "bash", "--norc", "--noprofile", "-i"];
        let started = screen.tmux(&shell);
        assert!(started.status.success(), "tmux: {}", String::from_utf8_lossy(&started.stderr));
        screen.wait_for("ready>");
        Some(screen)
    }

    fn tmux(&self, words: &[&str]) -> std::process::Output {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.name, "-f", "/dev/null"]).args(words);
        // The first of these makes the server, and with it the shell's environment.
        command.env("TMUX_TMPDIR", self.folder.join("sockets")).env_remove("TMUX");
        command.env("K", kennel_bin()).env("PS1", "ready> ").env("XDG_CONFIG_HOME", "/nonexistent");
        command.env("SHELL", "/bin/sh").env("LC_ALL", "C.UTF-8").env("LESS", "").env("HISTFILE", "");
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command.output().expect("tmux can be started")
    }

    /// Types a line, with Enter.
    pub fn line(&self, text: &str) {
        self.text(text);
        self.key("Enter");
    }

    /// Types characters.
    pub fn text(&self, text: &str) {
        assert!(self.tmux(&["send-keys", "-l", "--", text]).status.success());
    }

    /// Presses a key by its name in tmux: `C-c`, `Enter`, `Escape`.
    pub fn key(&self, name: &str) {
        assert!(self.tmux(&["send-keys", name]).status.success());
    }

    /// Changes the window's size.
    pub fn resize(&self, columns: u32, rows: u32) {
        let done = self.tmux(&["resize-window", "-x", &columns.to_string(), "-y", &rows.to_string()]);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    /// What the screen shows, with the lines that have scrolled away.
    pub fn shown(&self) -> String {
        String::from_utf8_lossy(&self.tmux(&["capture-pane", "-p", "-J", "-S", "-200"]).stdout).into_owned()
    }

    /// The program that has the terminal.
    pub fn foreground(&self) -> String {
        let shown = self.tmux(&["display-message", "-p", "#{pane_current_command}"]);
        String::from_utf8_lossy(&shown.stdout).trim().to_owned()
    }

    /// Waits until the screen is as `wanted` says.
    #[track_caller]
    pub fn wait_until(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let shown = self.shown();
            if wanted(&shown) {
                return shown;
            }
            assert!(Instant::now() < deadline, "the screen never showed {what}:\n{}", shown.trim_end());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the screen shows `text`. Typed commands are shown too, so the text must be what only their doing
    /// brings: tests print sums, such as `go-$((1+1))` for `go-2`.
    #[track_caller]
    pub fn wait_for(&self, text: &str) -> String {
        self.wait_until(&format!("{text:?}"), |shown| shown.contains(text))
    }

    /// The shell answers: it has the terminal, and reads from it. Returns the exit code of the line before.
    #[track_caller]
    pub fn exit_code(&self) -> String {
        static COUNT: AtomicU32 = AtomicU32::new(1000);
        // A program that sets the terminal back as it ends throws away what was typed too early. The prompt need not
        // be the last thing shown: a job in the background may have written after it.
        let prompt = Instant::now() + Duration::from_secs(3);
        while !self.shown().trim_end().ends_with("ready>") && Instant::now() < prompt {
            std::thread::sleep(Duration::from_millis(20));
        }
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        self.line(&format!("echo \"code-$?-$(({number}+0))\""));
        let end = format!("-{number}");
        let shown = self.wait_until("the shell's answer", |shown| {
            shown.lines().any(|line| line.starts_with("code-") && line.ends_with(&end))
        });
        let answer = shown.lines().find(|line| line.starts_with("code-") && line.ends_with(&end));
        answer.and_then(|line| line.strip_prefix("code-")?.strip_suffix(&end)).unwrap_or_default().to_owned()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}
