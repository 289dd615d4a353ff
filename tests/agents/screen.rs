//! A terminal whose screen is rendered: a tmux of the test's own, with one window.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Agents start slowly on a busy machine.
const PATIENCE: Duration = Duration::from_secs(150);

/// The terminal. It ends with the value, and what runs in it gets SIGHUP.
pub struct Screen {
    socket: PathBuf,
    /// Where the command's exit code is, once it has ended.
    code: PathBuf,
    /// Ends of lines that are questions, and what is typed then.
    answers: &'static [(&'static str, &'static str)],
}

impl Screen {
    /// Starts a command in a window of 60 rows and 110 columns.
    pub fn start(
        folder: &Path,
        command: &Command,
        answers: &'static [(&'static str, &'static str)],
    ) -> Screen {
        let screen = Screen { socket: folder.join("tmux"), code: folder.join("code"), answers };
        let mut tmux = screen.tmux(["-f", "/dev/null", "new-session", "-d", "-x", "110", "-y", "60"]);
        if let Some(place) = command.get_current_dir() {
            tmux.arg("-c").arg(place);
        }
        // The window has only the variables that the command names.
        tmux.args(["--", "env", "-i"]);
        for (name, value) in command.get_envs() {
            let mut word = name.to_owned();
            word.push("=");
            word.push(value.unwrap_or_default());
            tmux.arg(word);
        }
        // tmux 3.3 does not always notice that its child has ended: the shell writes the code down.
        tmux.args(["sh", "-c", r#"code=$1; shift; "$@"; echo $? > "$code""#, "sh"]).arg(&screen.code);
        tmux.arg(command.get_program()).args(command.get_args());
        tmux.args([";", "set", "-g", "remain-on-exit", "on", ";", "set", "-g", "status", "off"]);
        let end = tmux.output().expect("tmux can be started");
        assert!(end.status.success(), "tmux: {}", String::from_utf8_lossy(&end.stderr));
        screen
    }

    fn tmux<I: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = I>) -> Command {
        let mut tmux = Command::new("tmux");
        tmux.arg("-S").arg(&self.socket).args(args).stdin(Stdio::null());
        tmux.env_remove("TMUX").env("LANG", "C.UTF-8").env("LC_ALL", "C.UTF-8");
        tmux
    }

    fn said<I: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = I>) -> String {
        let output = self.tmux(args).output().expect("tmux can be started");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What is on the screen now, without empty lines.
    pub fn rendered(&self) -> String {
        let shown = self.said(["capture-pane", "-p"]);
        shown
            .lines()
            .filter(|line| !line.trim().is_empty())
            .map(|line| format!("{}\n", line.trim_end()))
            .collect()
    }

    /// The exit code of the command, once it has ended; 128 and the signal when one ended it.
    pub fn ended(&self) -> Option<i32> {
        let code = std::fs::read_to_string(&self.code).ok()?;
        code.strip_suffix('\n')?.parse().ok()
    }

    /// Types.
    pub fn type_text(&self, text: &str) {
        self.said(["send-keys", "-l", "--", text]);
    }

    /// Presses a key, by tmux's name for it.
    pub fn press(&self, key: &str) {
        self.said(["send-keys", key]);
    }

    /// Waits until the screen shows a text, and answers questions meanwhile. Returns the screen.
    #[track_caller]
    pub fn wait_for(&self, text: &str) -> String {
        self.wait(&format!("{text:?}"), |screen| screen.contains(text))
    }

    /// Waits until the screen is as wanted, and answers questions meanwhile.
    #[track_caller]
    pub fn wait(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let screen = self.rendered();
            let line = screen.lines().last().unwrap_or_default();
            if let Some((_, answer)) = self.answers.iter().find(|(question, _)| line.ends_with(question)) {
                self.type_text(answer);
                self.press("Enter");
            } else if wanted(&screen) {
                return screen;
            }
            let ended = self.ended();
            assert!(
                Instant::now() < deadline && ended.is_none(),
                "the screen never showed {what} (ended: {ended:?}):\n{screen}"
            );
            std::thread::sleep(Duration::from_millis(150));
        }
    }

    /// Waits for the end of the command. Returns its exit code and the last screen.
    #[track_caller]
    pub fn end(&self) -> (i32, String) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(code) = self.ended() {
                return (code, self.rendered());
            }
            assert!(Instant::now() < deadline, "it still ran:\n{}", self.rendered());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.said(["kill-server"]);
    }
}
