//! Attacks the budgets of the model gateway: a provider that lies, hangs up and never ends, clients in parallel that ask for what
//! they may not have, and a book of its own about what all of it is worth.
//!
//! Each round is a sandbox with a random policy (`policy.rs`). What is asked and what is answered comes from numbers (`tries.rs`), so
//! the book need not read what kennel reads: it knows what was meant. `judge.rs` compares it with what reached the provider, what the
//! clients were told, the log and the report.
//!
//! `KENNEL_ATTACK_SECONDS` says for how long (30), `KENNEL_ATTACK_SEED` with which tries, and `KENNEL_ATTACK_ROUND` one round of it.

mod inside;
mod judge;
mod policy;
mod provider;
mod tries;

use std::ffi::OsString;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kennel_tests::{Scratch, kennel, role};
use policy::Policy;
use provider::Provider;
use serde_json::Value;

use crate::attack_gate::rng::Rng;

kennel_tests::roles! {
    "attack_budget" => attack,
    "attack_budget_inside" => inside::run,
}

const NAME: &str = "no_provider_and_no_client_gets_past_a_budget";
/// So many findings are enough.
const MAX_FINDINGS: usize = 20;
/// A round that takes longer hangs.
const LONG: Duration = Duration::from_secs(150);
/// What kennel may take of memory in a round, in KiB: bodies here are small, and answers are read without being kept.
const MAX_MEMORY: u64 = 64 << 10;

fn attack(_words: &[OsString]) -> i32 {
    // SAFETY: nothing else runs in this process yet. Whatever is started from here is told its own role.
    unsafe { std::env::remove_var(role::VARIABLE) };
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.trim().parse::<u64>().ok());
    let time = Duration::from_secs(number("KENNEL_ATTACK_SECONDS").unwrap_or(30).min(36_000));
    let seed = number("KENNEL_ATTACK_SEED").unwrap_or(7);
    let only = number("KENNEL_ATTACK_ROUND");
    println!("attack_budget: seed {seed}");
    let (end, mut rounds, mut asked, mut passed, mut memory) = (Instant::now() + time, 0, 0, 0, 0);
    let mut findings = Vec::new();
    // Two rounds at least: a busy machine has to try something too.
    while only.map_or(rounds < 2 || Instant::now() < end, |_| rounds == 0) && findings.len() < MAX_FINDINGS {
        let round = only.unwrap_or(rounds);
        rounds += 1;
        match play(seed, round) {
            Ok(judged) => {
                asked += judged.asked;
                passed += judged.passed;
                memory = memory.max(judged.memory);
                findings.extend(judged.findings.into_iter().map(|what| format!("round {round}: {what}")));
            }
            Err(error) => {
                println!("round {round}: {error}");
                println!("test {NAME} ... FAILED");
                return 1;
            }
        }
    }
    findings.truncate(MAX_FINDINGS);
    for finding in &findings {
        println!("finding: KENNEL_ATTACK_SEED={seed} KENNEL_ATTACK_ROUND: {finding}");
    }
    if only.is_none() && passed * 10 < asked {
        findings.push("nearly all is refused, so nothing is tried".into());
        println!("{}", findings[findings.len() - 1]);
    }
    let verdict = if findings.is_empty() { "ok" } else { "FAILED" };
    println!("test {NAME} ... {verdict}");
    println!(
        "attack_budget: seed {seed}, {rounds} rounds, {asked} requests, {passed} reached the provider, kennel took {} MiB at most, {} findings",
        memory >> 10,
        findings.len()
    );
    i32::from(!findings.is_empty())
}

/// One sandbox with one policy.
fn play(seed: u64, round: u64) -> Result<judge::Judged, String> {
    let mut rng = Rng::new(seed, round);
    let policy = Policy::make(&mut rng);
    let told = |error: std::io::Error| error.to_string();
    let seed = rng.next();
    let provider = Provider::start(seed, policy.protocol).map_err(told)?;
    let home = Scratch::new();
    let (log, report) = (home.join("log.jsonl"), home.join("report.json"));
    let settings = home.write("settings.json", &policy.settings(provider.port, &log).to_string());
    let mut command: Command = kennel(["run", "--no-settings", "--settings"]);
    command.arg(settings).arg("--report").arg(&report);
    let words =
        [policy.protocol.word(), &seed.to_string(), &policy.tries.to_string(), &policy.threads.to_string()];
    command.args(role::inside("attack_budget_inside", &[], &words)).current_dir(home.path());
    command.env(policy.protocol.key(), "sk-real-0123456789abcdefghijklmnopqrstuvwxyz");
    for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
        command.env_remove(name).env_remove(name.to_uppercase());
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().map_err(told)?;
    let ran = wait(child)?;
    let clients = inside::read(&ran.stdout);
    let clients = clients.filter(|_| ran.code == Some(0)).ok_or_else(|| {
        format!("kennel ended with {:?}: {:.2000}\n{:.2000}", ran.code, ran.stderr, ran.stdout)
    })?;
    let lines = std::fs::read_to_string(&log).unwrap_or_default();
    let log: Result<Vec<Value>, _> = lines.lines().map(serde_json::from_str).collect();
    let report = std::fs::read_to_string(&report).map_err(told)?;
    let evidence = judge::Evidence {
        seed,
        policy: &policy,
        clients,
        seen: provider.seen(),
        log: log.map_err(|error| format!("the log: {error}"))?,
        log_bytes: lines.len(),
        report: serde_json::from_str(&report).map_err(|error| format!("the report: {error}"))?,
    };
    let mut judged = judge::judge(&evidence);
    judged.memory = ran.memory;
    if ran.memory > MAX_MEMORY {
        judged.findings.push(format!("kennel took {} KiB of memory", ran.memory));
    }
    Ok(judged)
}

struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
    /// The most that kennel itself had, in KiB.
    memory: u64,
}

/// Waits for kennel, and looks at its memory meanwhile. One that hangs is ended.
fn wait(mut child: Child) -> Result<Ended, String> {
    let all = |from: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut text = String::new();
            let _ = from.map(|mut from| from.read_to_string(&mut text));
            text
        })
    };
    let stdout = all(child.stdout.take().map(|out| Box::new(out) as Box<dyn Read + Send>));
    let stderr = all(child.stderr.take().map(|out| Box::new(out) as Box<dyn Read + Send>));
    let status = format!("/proc/{}/status", child.id());
    let (begun, mut memory) = (Instant::now(), 0);
    let ended = loop {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let most = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let most = most.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse().ok());
        memory = memory.max(most.unwrap_or(0));
        if let Some(ended) = child.try_wait().map_err(|error| error.to_string())? {
            break Some(ended);
        }
        if begun.elapsed() > LONG {
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let text = |thread: std::thread::JoinHandle<String>| thread.join().unwrap_or_default();
    let (stdout, stderr) = (text(stdout), text(stderr));
    let ended = ended.ok_or_else(|| format!("kennel hangs: {stderr:.2000}"))?;
    Ok(Ended { code: ended.code(), stdout, stderr, memory })
}
