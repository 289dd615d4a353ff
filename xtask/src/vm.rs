//! `cargo xtask vm-test`: the limits suite on a machine of its own, with another kernel and the unified
//! cgroup v2 hierarchy that the developer's host may not have.
//!
//! A Debian cloud kernel is booted in qemu with an initramfs that this file writes: busybox, `vm/init.sh`,
//! and the test programs, which are static and need nothing else. Nothing is installed on the host except, as
//! root and where it is missing, qemu itself; packages are unpacked into the user's cache folder. Where
//! something cannot be had, the lane is skipped and says why.

use std::collections::BTreeSet;
use std::error::Error;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::cache;
use crate::cpio::Archive;
use crate::debian::{run, unpacked, unpacked_with_dependencies};
use crate::packages::in_path;

type Failure = Box<dyn Error>;

/// Who runs a job, which decides where a cgroup is to be had; `vm/init.sh` says how each is placed.
type Who = &'static str;

/// What runs in the machine: the tests of a package whose names hold `filter`.
struct Suite {
    package: &'static str,
    /// Which of the package's test programs, in cargo's words.
    target: &'static [&'static str],
    filter: &'static str,
    by: &'static [Who],
}

const SUITES: &[Suite] = &[
    Suite {
        package: "kennel-linux",
        target: &["--lib"],
        filter: "cgroup::",
        by: &["root", "user", "crowded", "container", "stranger", "systemd"],
    },
    // The real command and the library.
    Suite { package: "kennel-tests", target: &["--test", "limits"], filter: "", by: &["root", "user"] },
    Suite { package: "kennel-tests", target: &["--test", "limits"], filter: "refusals::", by: &["stranger"] },
    Suite { package: "kennel-tests", target: &["--test", "limits"], filter: "memory::", by: &["systemd"] },
];

/// One program to run in the machine.
pub struct Job {
    /// The program on the host; static.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Those who run it, one after the other.
    pub by: &'static [Who],
}

/// Runs the suites in the machine.
///
/// # Errors
///
/// A test that failed, or a machine that did not come to an end.
pub fn vm_test() -> Result<(), Failure> {
    let machine = match Machine::prepare() {
        Ok(machine) => machine,
        Err(reason) => {
            println!("SKIPPED: vm-test: {reason}");
            return Ok(());
        }
    };
    let mut jobs = Vec::new();
    for suite in SUITES {
        for program in cargo_build(&["test", "--no-run", "--package", suite.package], suite.target)? {
            let arguments = [suite.filter, "--nocapture", "--test-threads=1"];
            let arguments =
                arguments.into_iter().filter(|argument| !argument.is_empty()).map(str::to_owned).collect();
            jobs.push(Job { program, arguments, by: suite.by });
        }
    }
    let kennel = cargo_build(&["build", "--package", "kennel-cli"], &[])?;
    machine.run(&jobs, &kennel)
}

/// Builds and returns the programs that came of it.
fn cargo_build(command: &[&str], target: &[&str]) -> Result<Vec<PathBuf>, Failure> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(command)
        .args(target)
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(
            format!("building for the machine: cargo {}: {}", command.join(" "), output.status).into()
        );
    }
    let messages = String::from_utf8(output.stdout)?;
    let programs: Vec<PathBuf> = messages.lines().filter_map(executable_of).collect();
    if programs.is_empty() {
        return Err(
            format!("building for the machine: cargo {}: no program came of it", command.join(" ")).into()
        );
    }
    Ok(programs)
}

/// The program that one of cargo's JSON messages speaks of. A path with a quote or a backslash in it is not
/// one.
fn executable_of(message: &str) -> Option<PathBuf> {
    let (_, rest) = message.split_once(r#""executable":""#)?;
    let (path, _) = rest.split_once('"')?;
    (!path.contains('\\')).then(|| PathBuf::from(path))
}

/// A kernel, a busybox and a qemu.
pub struct Machine {
    state: PathBuf,
    qemu: PathBuf,
    kernel: PathBuf,
    busybox: PathBuf,
    /// The folder with systemd and all it needs, or why there is none.
    systemd: Result<PathBuf, String>,
}

/// How a machine is run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Accelerator {
    Kvm,
    Emulation,
}

/// How a machine ended.
enum Ending {
    Exit(i32),
    /// It did not come up; what its console said.
    NoBoot(Vec<String>),
    /// It came up and did not come to an end.
    NoEnd(String),
    /// A program had no test to run: a filter that fits nothing would pass for ever.
    NoTests,
}

impl Machine {
    /// Gets together what is needed; what cannot be had is the reason to skip.
    pub fn prepare() -> Result<Self, String> {
        if std::env::consts::ARCH != "x86_64" {
            return Err(format!("the lane has no kernel for {}", std::env::consts::ARCH));
        }
        let state = cache::folder("vm")?;
        fs::create_dir_all(&state).map_err(|error| format!("{}: {error}", state.display()))?;
        let qemu = qemu()?;
        // 6.12 on Debian 12: recent enough for every cgroup file that kennel reads.
        let suite = std::env::var("KENNEL_VM_SUITE").unwrap_or_else(|_| "bookworm-backports".to_owned());
        let kernel = unpacked(&state, &suite, "linux-image-cloud-amd64", is_kernel)?;
        let base = suite.trim_end_matches("-backports");
        let busybox = unpacked(&state, base, "busybox-static", |path| path.ends_with("bin/busybox"))?;
        let systemd = unpacked_with_dependencies(&state, base, &["systemd", "dbus-user-session"]);
        Ok(Self { state, qemu, kernel, busybox, systemd })
    }

    /// Boots and runs every job; `tools` are programs that the jobs use.
    pub fn run(&self, jobs: &[Job], tools: &[PathBuf]) -> Result<(), Failure> {
        let initramfs = self.state.join(format!("initramfs-{}", std::process::id()));
        fs::write(&initramfs, self.initramfs(jobs, tools)?)?;
        let ending = self.boot_best(&initramfs);
        fs::remove_file(&initramfs)?;
        match ending? {
            Ending::Exit(0) => Ok(()),
            Ending::Exit(status) => {
                Err(format!("vm-test: jobs failed in the machine (status {status})").into())
            }
            Ending::NoBoot(console) => {
                let last = &console[console.len().saturating_sub(40)..];
                Err(format!("vm-test: the machine did not come up:\n{}", last.join("\n")).into())
            }
            Ending::NoTests => Err("vm-test: a suite has no tests in the machine".into()),
            Ending::NoEnd(why) => Err(format!("vm-test: the machine did not come to an end: {why}").into()),
        }
    }

    /// With KVM where it works, else by emulation. `/dev/kvm` alone tells little: inside of another virtual
    /// machine it may be there and boot nothing, so the first failure is remembered.
    fn boot_best(&self, initramfs: &Path) -> Result<Ending, Failure> {
        let no_kvm = self.state.join("kvm-does-not-boot");
        let device = fs::OpenOptions::new().read(true).write(true).open("/dev/kvm");
        if device.is_ok() && !no_kvm.exists() {
            match self.boot(initramfs, Accelerator::Kvm)? {
                Ending::NoBoot(_) => fs::write(&no_kvm, "remove this file to try KVM again\n")?,
                ending => return Ok(ending),
            }
        }
        self.boot(initramfs, Accelerator::Emulation)
    }

    fn boot(&self, initramfs: &Path, accelerator: Accelerator) -> Result<Ending, Failure> {
        let (accel, cpu, boot_time, word) = match accelerator {
            Accelerator::Kvm => ("kvm", "host", Duration::from_secs(15), ""),
            // Two things that qemu 7.2 gets wrong now and then, and the guest's kernel dies of: cmpxchg16b,
            // and code that one processor changes (the kernel's jump labels) while another one, in a thread
            // of its own, runs it.
            Accelerator::Emulation => {
                ("tcg,thread=single", "max,-cx16", Duration::from_secs(120), " kennel.emulated")
            }
        };
        let mut qemu = Command::new(&self.qemu)
            .args(["-accel", accel, "-cpu", cpu, "-M", "q35", "-m", "2048", "-smp", "2"])
            .args(["-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio", "-no-reboot"])
            .arg("-append")
            .arg(format!("console=ttyS0 quiet loglevel=3 panic=-1 rdinit=/init{word}"))
            .arg("-kernel")
            .arg(&self.kernel)
            .arg("-initrd")
            .arg(initramfs)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            // With KVM that boots nothing qemu prints the registers of the processor.
            .stderr(if accelerator == Accelerator::Kvm { Stdio::null() } else { Stdio::inherit() })
            .spawn()?;
        let lines = lines_of(&mut qemu)?;
        let ending = watch(&lines, boot_time, Duration::from_secs(900));
        // After its last line the machine powers off, but it is not needed any more.
        qemu.kill()?;
        qemu.wait()?;
        Ok(ending)
    }

    /// The machine's root file system, as an archive that the kernel unpacks.
    fn initramfs(&self, jobs: &[Job], tools: &[PathBuf]) -> io::Result<Vec<u8>> {
        let mut archive = Archive::default();
        for folder in ["bin", "etc", "home", "vm", "vm/bin"] {
            archive.folder(folder, 0);
        }
        archive.folder("home/u", 1000);
        archive.file("init", 0o755, include_bytes!("../vm/init.sh"));
        archive.file("bin/busybox", 0o755, &fs::read(&self.busybox)?);
        archive.file("etc/passwd", 0o644, b"root:x:0:0::/root:/bin/sh\nu:x:1000:1000::/home/u:/bin/sh\n");
        archive.file("etc/group", 0o644, b"root:x:0:\nu:x:1000:\n");
        match &self.systemd {
            Ok(folder) => archive.tree(folder, "")?,
            Err(reason) => println!("SKIPPED: vm-test: no systemd for the machine: {reason}"),
        }
        // A program can have several jobs.
        let programs: BTreeSet<&PathBuf> = jobs.iter().map(|job| &job.program).chain(tools).collect();
        for program in programs {
            archive.file(&format!("vm/bin/{}", name_of(program)), 0o755, &fs::read(program)?);
        }
        let mut script = String::new();
        let mut turns: Vec<(&Job, Who)> =
            jobs.iter().flat_map(|job| job.by.iter().map(move |who| (job, *who))).collect();
        // Once a systemd runs, it is asked by everybody.
        turns.sort_by_key(|(_, who)| *who == "systemd");
        for (job, who) in turns {
            let name = name_of(&job.program);
            let _ = write!(script, "job {} {who} /vm/bin/{}", quoted(&name), quoted(&name));
            for argument in &job.arguments {
                let _ = write!(script, " {}", quoted(argument));
            }
            script.push('\n');
        }
        archive.file("vm/jobs", 0o644, script.as_bytes());
        Ok(archive.finish())
    }
}

fn name_of(program: &Path) -> String {
    program.file_name().unwrap_or(OsStr::new("program")).to_string_lossy().into_owned()
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The machine's console, line by line, so that it can be waited for with a limit.
fn lines_of(qemu: &mut Child) -> Result<Receiver<String>, Failure> {
    let console = qemu.stdout.take().ok_or("qemu without a console")?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(console).split(b'\n') {
            let Ok(line) = line else { break };
            if sender.send(String::from_utf8_lossy(&line).trim_end().to_owned()).is_err() {
                break;
            }
        }
    });
    Ok(receiver)
}

/// Prints what the machine says until it says how it ended.
fn watch(lines: &Receiver<String>, boot_time: Duration, run_time: Duration) -> Ending {
    let started = Instant::now();
    let mut deadline = started + boot_time;
    let mut is_up = false;
    let mut console = Vec::new();
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                if line == "running 0 tests" {
                    return Ending::NoTests;
                }
                if let Some(status) = line.strip_prefix("KENNEL-VM-EXIT ") {
                    println!("the machine ended after {:.1} s", started.elapsed().as_secs_f64());
                    return Ending::Exit(status.parse().unwrap_or(1));
                }
                if let Some(kernel) = line.strip_prefix("KENNEL-VM-UP ") {
                    is_up = true;
                    deadline = Instant::now() + run_time;
                    println!("Linux {kernel} is up after {:.1} s", started.elapsed().as_secs_f64());
                } else if is_up {
                    println!("{line}");
                } else {
                    console.push(line);
                }
            }
            Err(_) if !is_up => return Ending::NoBoot(console),
            Err(RecvTimeoutError::Timeout) => return Ending::NoEnd(format!("no end after {run_time:?}")),
            Err(RecvTimeoutError::Disconnected) => {
                return Ending::NoEnd("it stopped without a status".to_owned());
            }
        }
    }
}

fn qemu() -> Result<PathBuf, String> {
    const PROGRAM: &str = "qemu-system-x86_64";
    if let Some(path) = in_path(PROGRAM) {
        return Ok(path);
    }
    // Only root can install, and only where there is an apt-get; anywhere else this fails and is the reason.
    run(Command::new("apt-get").args(["install", "-y", "-qq", "--no-install-recommends", "qemu-system-x86"]))
        .map_err(|error| format!("no {PROGRAM}, and it could not be installed: {error}"))?;
    in_path(PROGRAM).ok_or_else(|| format!("no {PROGRAM}"))
}

fn is_kernel(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_in_cargos_message() {
        let message = r#"{"reason":"compiler-artifact","executable":"/t/debug/deps/x-1","fresh":true}"#;
        assert_eq!(executable_of(message), Some(PathBuf::from("/t/debug/deps/x-1")));
        assert_eq!(executable_of(r#"{"reason":"compiler-artifact","executable":null}"#), None);
    }

    #[test]
    fn a_word_is_quoted_for_the_machines_shell() {
        assert_eq!(quoted("a'b c"), r"'a'\''b c'");
    }
}
