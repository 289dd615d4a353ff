//! One run of a history: kennel is started, the attacker gets its script, the host does its part meanwhile, and everything
//! that comes back is kept.

mod ear;
mod end;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use self::ear::{Ear, hear};
use self::end::{CLEARING, remains, wait};
use super::attacker::ROLE;
use super::by_library;
use super::canary::Canary;
use super::host::{Host, keeps_shape};
use super::listener::Listener;
use super::oracle::Finding;
use super::script::{Op, Run};
use super::tree::Area;
use super::wire::{About, HEARS, Record, TELLS};
use super::word;
use crate::role;

/// The attacker ends itself long before, also on a busy machine. Who still runs then hangs.
const HANG: Duration = Duration::from_secs(15);
/// How long the host waits at a point for somebody inside who may never come there.
const AWAIT: Duration = Duration::from_secs(3);

/// The variable with a canary that a run with `--secret` starts kennel with.
pub const SECRET: &str = "ATTACK_SECRET";

/// What came of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The exit code; `None` when kennel had to be killed.
    pub code: Option<i32>,
    /// What the attacker told.
    pub records: Vec<Record>,
    /// Standard output, where it was no file.
    pub stdout: Vec<u8>,
    /// Standard error, where it was no file.
    pub stderr: Vec<u8>,
    /// The report.
    pub report: Value,
    /// Its text.
    pub report_text: Vec<u8>,
    /// What arrived at the host's sockets.
    pub network: Vec<u8>,
    /// Canaries that are among the arguments of the host's processes.
    pub process_canaries: BTreeSet<Canary>,
    /// What was found on the way.
    pub findings: Vec<Finding>,
    /// The top of the tree.
    pub top: PathBuf,
}

/// What all runs of a session have in common.
pub struct Session {
    /// The program under test.
    pub kennel: PathBuf,
    /// This program, which is the attacker as well.
    pub program: PathBuf,
    /// The host's sockets.
    pub listener: Listener,
    /// What this process has among its arguments.
    pub process_canary: Option<Canary>,
}

/// Keeps the low descriptors taken: the standard library's own must not be those that the child gets for its use.
///
/// # Errors
/// When /dev/null is not there.
pub fn reserve_descriptors() -> std::io::Result<()> {
    loop {
        let file = OwnedFd::from(fs::File::open("/dev/null")?);
        if file.as_raw_fd() > TELLS {
            return Ok(());
        }
        std::mem::forget(file);
    }
}

impl Session {
    /// Performs a run. One that is performed while another one is (`also`) cannot tell whose a process is that is left.
    ///
    /// # Errors
    /// When the test itself fails: nothing can be learnt from it.
    pub fn perform(&self, run: &Run, area: &Area, host: &mut Host, also: bool) -> std::io::Result<Outcome> {
        let mut outcome = Outcome { top: area.top(), ..Outcome::default() };
        outcome.process_canaries.extend(self.process_canary.clone());
        let report =
            run.report.as_ref().map_or_else(|| area.at("report.json"), |path| word::place(&area.top(), path));
        let report = if also { area.at("also.json") } else { report };
        if run.report.is_none() {
            let _ = fs::remove_file(&report);
        }
        let mounts = fs::read("/proc/self/mountinfo").unwrap_or_default();
        let (hears, speak) = pipe()?;
        let (listen, tells) = pipe()?;
        let mut command = self.command(run, area, &report, hears.as_raw_fd(), tells.as_raw_fd())?;
        let Ok(mut child) = command.spawn() else {
            // An earlier run has shut the folder that this one is to start in, or taken it away.
            return Ok(outcome);
        };
        drop((hears, tells));
        let ear = Arc::new(Ear::default());
        let pipes = [Some(listen), child.stdout.take().map(Into::into), child.stderr.take().map(Into::into)];
        let thread = {
            let ear = ear.clone();
            std::thread::spawn(move || hear(pipes, &ear))
        };
        let mut speak = Some(fs::File::from(speak));
        send_script(run, speak.as_mut());
        for op in &run.host {
            if op.verb == "also" {
                ear.has_started();
                let second = second_run(op);
                let done = self.perform(&second, area, host, true)?;
                host.also.push((second, done));
                continue;
            }
            host_step(op, host, &ear, speak.as_mut());
        }
        // Whoever waits for a word that never came goes on.
        drop(speak.take());
        wait(&mut child, &mut outcome);
        host.unmount();
        if also {
            ear.wait(CLEARING, |_| false);
        } else {
            remains(&child, &ear, &mounts, run, &mut outcome);
        }
        // A thread whose pipes somebody still holds is left to itself.
        if ear.lock().over {
            let _ = thread.join();
        }
        {
            let mut heard = ear.lock();
            outcome.records = std::mem::take(&mut heard.records);
            outcome.stdout = std::mem::take(&mut heard.stdout);
            outcome.stderr = std::mem::take(&mut heard.stderr);
        }
        outcome.network = if also { Vec::new() } else { self.listener.arrived() };
        let may_reach = run.flag("--net") == Some("host")
            || run.all("--allow-domain").any(|host| host.contains("{port}"));
        if !outcome.network.is_empty() && !may_reach {
            outcome.findings.push(Finding::new(
                "reached",
                "127.0.0.1",
                "something arrived at the host's listener",
            ));
        }
        // A FIFO or a device in its place would hold this process up.
        if fs::symlink_metadata(&report).is_ok_and(|stat| stat.is_file()) {
            outcome.report_text = fs::read(&report).unwrap_or_default();
            match serde_json::from_slice(&outcome.report_text) {
                Ok(report) => outcome.report = report,
                // The host has put a file of its own there since.
                Err(_) if host_replaced(run) => outcome.report_text.clear(),
                Err(_) => {}
            }
        }
        outcome.findings.append(&mut host.findings);
        Ok(outcome)
    }

    fn command(
        &self,
        run: &Run,
        area: &Area,
        report: &Path,
        hears: i32,
        tells: i32,
    ) -> std::io::Result<Command> {
        let top = area.top();
        let way = std::env::var_os(by_library::WAY).filter(|way| !way.is_empty());
        let mut command = Command::new(if way.is_some() { &self.program } else { &self.kennel });
        command.arg("run");
        for (name, value) in &run.flags {
            command.arg(name);
            if !value.is_empty() {
                command.arg(self.value(name, value, &top));
            }
        }
        if run.flag("--reads") == Some("listed") {
            command.arg("--allow-read").arg(&self.program);
        }
        command.arg("--report").arg(report);
        command.args(["--keep-fd", &HEARS.to_string(), "--keep-fd", &TELLS.to_string()]);
        command.arg("--env").arg(format!("{}={ROLE}", role::VARIABLE));
        command.arg("--").arg(&self.program).arg(&top).arg(area.at("marks").join("mark"));
        command.arg(self.listener.port().to_string());
        command.env_clear().env("HOME", top.join("home")).env("LANG", "C.UTF-8").env("USER", "somebody");
        if run.flag("--secret").is_some()
            && let Some(canary) = &self.process_canary
        {
            command.env(SECRET, canary.text());
        }
        if let Some(way) = way {
            command.env(role::VARIABLE, by_library::ROLE).env(by_library::WAY, way);
        }
        command.env("PATH", std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into()));
        command.current_dir(if run.cwd.is_empty() { top.clone() } else { word::place(&top, &run.cwd) });
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let append = |path: &String| fs::OpenOptions::new().append(true).open(word::place(&top, path));
        let [input, output, error] = &run.streams;
        if let Some(file) = input.as_ref().and_then(|path| fs::File::open(word::place(&top, path)).ok()) {
            command.stdin(file);
        }
        if let Some(file) = output.as_ref().and_then(|path| append(path).ok()) {
            command.stdout(file);
        }
        if let Some(file) = error.as_ref().and_then(|path| append(path).ok()) {
            command.stderr(file);
        }
        // SAFETY: three plain calls on descriptors that are open.
        unsafe {
            command.pre_exec(move || {
                if libc::dup2(hears, HEARS) < 0 || libc::dup2(tells, TELLS) < 0 || libc::setsid() < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        Ok(command)
    }

    /// A flag's value as kennel takes it.
    fn value(&self, name: &str, value: &str, top: &Path) -> OsString {
        match name {
            "--allow-write"
            | "--deny-write"
            | "--allow-read"
            | "--deny-read"
            | "--workdir"
            | "--allow-unix-socket"
            | "--tmpfs" => word::place(top, value).into_os_string(),
            "--mount" => {
                let mut parts = value.split(':');
                let mut text = OsString::new();
                for part in parts.by_ref().take(2) {
                    if !text.is_empty() {
                        text.push(":");
                    }
                    text.push(word::place(top, part));
                }
                parts.for_each(|part| text.push(format!(":{part}")));
                text
            }
            _ => value.replace("{port}", &self.listener.port().to_string()).into(),
        }
    }
}

/// A second sandbox with one rule, whose command attacks one path.
fn second_run(op: &Op) -> Run {
    let path = op.word(2);
    let lines =
        [format!("write {path}"), format!("create {path}/new"), format!("append {path}"), "sweep".into()];
    Run {
        flags: vec![(op.word(0).to_owned(), op.word(1).to_owned())],
        cwd: "w".into(),
        inside: vec![lines.iter().map(|line| Op::of(line)).collect()],
        ..Run::default()
    }
}

fn pipe() -> std::io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?)
}

fn send_script(run: &Run, speak: Option<&mut fs::File>) {
    let only_inside = Run { inside: run.inside.clone(), ..Run::default() };
    let text = only_inside.to_string();
    let length = u32::try_from(text.len()).unwrap_or(0);
    if let Some(speak) = speak {
        // Nobody may be there to hear it, when kennel refuses to start.
        let _ = speak.write_all(&[&length.to_ne_bytes(), text.as_bytes()].concat());
    }
}

fn host_step(op: &Op, host: &mut Host, ear: &Ear, speak: Option<&mut fs::File>) {
    let point = u8::try_from(op.number(0)).unwrap_or(0);
    match op.verb.as_str() {
        "await" => {
            let there = |record: &Record| record.about == About::Waits && record.result == i32::from(point);
            ear.wait(AWAIT, |heard| heard.records.iter().any(there));
        }
        "go" => {
            if let Some(speak) = speak {
                let _ = speak.write_all(&[point]);
            }
        }
        "pause" => std::thread::sleep(Duration::from_micros(op.number(0))),
        _ => {
            // Rules about the shape of the tree are about what is there when the command starts.
            if keeps_shape(op) && !host.is_link(op.word(0)) || ear.has_started() {
                host.perform(op);
            }
        }
    }
}

/// Whether the host does something to the place of the report while the run goes on.
fn host_replaced(run: &Run) -> bool {
    let Some(report) = &run.report else { return false };
    run.host.iter().any(|op| op.words.iter().any(|word| word::is_within(report, word)))
}
