//! The command line's part played by the library: a run's command in a sandbox that waited for it in a pool, or as a command of a
//! session. It takes the words that `kennel run` takes, as far as histories use them, and writes what the oracle asks of a
//! report.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kennel::held::HeldFile;
use kennel::{Ended, ExecutionResult, Sandbox, SandboxBuilder, SandboxError, Stdio, Violation, Zygote};
use serde_json::{Value, json};

use crate::role;

/// The role's name.
pub const ROLE: &str = "kennel-by-library";
/// The variable that says how.
pub const WAY: &str = "KENNEL_ATTACK_WAY";

/// What a run says.
struct Wanted {
    builder: SandboxBuilder,
    report: Option<PathBuf>,
    command: Vec<OsString>,
}

/// The role: `run FLAGS -- COMMAND`.
pub fn run(words: &[OsString]) -> i32 {
    // SAFETY: nothing else runs in this process yet. The command gets its role by a flag, and this one is not for it.
    unsafe { std::env::remove_var(role::VARIABLE) };
    let wanted = match read(words) {
        Ok(wanted) => wanted,
        Err(what) => {
            let named = words.iter().skip_while(|word| *word != "--report").nth(1);
            let held = named.and_then(|path| HeldFile::new(Path::new(path), |_| false).ok());
            let _ = held.map(|report| report.write(b"{}"));
            return refuse(&what);
        }
    };
    // Its place is taken before anything runs: the command may have put a pipe or a link there by the end.
    let report = match wanted.report.map(|path| HeldFile::new(&path, |_| false)).transpose() {
        Ok(report) => report,
        Err(error) => return refuse(&format!("the report: {error}")),
    };
    let way = std::env::var(WAY).unwrap_or_default();
    let ran = wanted.builder.build().and_then(|sandbox| match way.as_str() {
        "session" => in_a_session(&sandbox, &wanted.command),
        _ => pooled(&sandbox, &wanted.command),
    });
    match ran {
        Ok((result, broken)) => {
            let list: Vec<Value> = result.violations.iter().map(violation).collect();
            let text = json!({ "violations": list }).to_string();
            if let Some(Err(error)) = report.map(|report| report.write(text.as_bytes())) {
                return refuse(&format!("the report: {error}"));
            }
            if broken || result.ended == Ended::RuleBroken { 123 } else { result.exit_code }
        }
        Err(error) => {
            // It says so in its report too, as the command line does.
            let told = json!({ "error": error.to_string() }).to_string();
            let _ = report.map(|report| report.write(told.as_bytes()));
            match error {
                SandboxError::CommandNotFound(_) => 127,
                error => refuse(&error.to_string()),
            }
        }
    }
}

fn refuse(what: &str) -> i32 {
    eprintln!("kennel: {what}");
    125
}

fn read(words: &[OsString]) -> Result<Wanted, String> {
    let mut builder = Sandbox::builder();
    let mut report = None;
    let mut words = words.iter().skip(1);
    while let Some(word) = words.next() {
        let flag = word.to_str().ok_or("a flag that is no text")?;
        if flag == "--" {
            break;
        }
        let mut value = || words.next().cloned().ok_or_else(|| format!("{flag} without a value"));
        builder = match flag {
            "--allow-write" => builder.allow_write(value()?),
            "--deny-write" => builder.deny_write(value()?),
            "--allow-read" => builder.allow_read(value()?),
            "--deny-read" => builder.deny_read(value()?),
            "--profile" => builder.profile(&value()?.to_string_lossy()),
            "--tmpfs" => builder.tmpfs(value()?),
            "--reads" => builder.setting("files.reads", value()?),
            "--precedence" => builder.setting("files.precedence", value()?),
            "--git" => builder.setting("files.git", value()?),
            "--on-replace" => builder.setting("files.on_replace", value()?),
            "--seccomp" => builder.setting("process.seccomp", value()?),
            "--user" => builder.setting("process.user", value()?),
            "--workdir" => builder.setting("process.workdir", value()?),
            "--unix-sockets" => builder.setting("network.unix_sockets", value()?),
            "--allow-unix-socket" => builder.setting("network.allow_unix", value()?),
            "--keep-fd" => {
                let number = value()?.to_string_lossy().parse().map_err(|_| "--keep-fd")?;
                builder.keep_fd(number)
            }
            "--timeout" => builder.setting("limits.timeout", value()?),
            "--memory" => builder.setting("limits.memory", value()?),
            "--pids" => builder.setting("limits.pids", value()?),
            "--cpu-time" => builder.setting("limits.cpu_time", value()?),
            "--open-files" => builder.setting("limits.open_files", value()?),
            "--file-size" => builder.setting("limits.file_size", value()?),
            "--protect-dotfiles" => builder.protect_dotfiles(true),
            "--env" => {
                let said = value()?;
                let (name, value) = said.to_str().and_then(|said| said.split_once('=')).ok_or("--env")?;
                builder.env(name, value)
            }
            "--report" => {
                report = Some(PathBuf::from(value()?));
                builder
            }
            "--host-tmp" => builder.tmp(kennel::TmpMode::Host),
            "--mount" => builder.setting("files.mounts", value()?),
            other => return Err(format!("the library's part does not know {other}")),
        };
    }
    Ok(Wanted { builder, report, command: words.cloned().collect() })
}

fn pooled(sandbox: &Sandbox, command: &[OsString]) -> Result<(ExecutionResult, bool), SandboxError> {
    let zygote = Zygote::start()?;
    let pool = zygote.pool(sandbox, 1)?;
    let deadline = Instant::now() + Duration::from_millis(300);
    // What cannot be prepared is told by the command.
    while pool.ready() == 0 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut command_in_pool = pool.command(program(command));
    command_in_pool.args(command.iter().skip(1));
    command_in_pool.stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
    let result = command_in_pool.spawn()?.wait()?;
    drop(pool);
    Ok((result, false))
}

fn in_a_session(sandbox: &Sandbox, command: &[OsString]) -> Result<(ExecutionResult, bool), SandboxError> {
    let session = sandbox.session()?;
    let mut command_in_session = session.command(program(command));
    command_in_session.args(command.iter().skip(1));
    command_in_session.stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
    let mut result = command_in_session.spawn()?.wait()?;
    let end = session.end()?;
    let broken = end.ended == Ended::RuleBroken;
    result.violations.extend(end.violations.list);
    Ok((result, broken))
}

fn program(command: &[OsString]) -> &OsStr {
    command.first().map_or(OsStr::new("true"), OsString::as_os_str)
}

fn violation(violation: &Violation) -> Value {
    let what = violation.word();
    let shown = |path: &Path| path.to_string_lossy().into_owned();
    match violation {
        Violation::Refused { path, .. } => json!({ "what": what, "path": path.as_deref().map(shown) }),
        Violation::Broken { path, .. } => json!({ "what": what, "path": shown(path) }),
        Violation::Exposed { path, longest, .. } => {
            let longest = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
            json!({ "what": what, "path": shown(path), "longest_us": longest })
        }
        _ => json!({ "what": what }),
    }
}
