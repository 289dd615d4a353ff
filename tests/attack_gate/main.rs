//! Attacks the gate: real servers with two hosts each, a sandbox that may reach one of them, and bytes that are requests and
//! hellos for the other in every way that a server may take. Whatever some server takes, the gate must have refused: the
//! other host's page or certificate, or its name in a server's own words, is a finding.
//!
//! `KENNEL_ATTACK_SECONDS` says for how long (30), `KENNEL_ATTACK_SEED` with which tries (a random one, which is printed).
//! A finding is made small and written to a file; `KENNEL_ATTACK_REPLAY=FILE` tries it again.

mod client;
mod file;
mod hello;
mod inside;
mod requests;
mod rng;
mod servers;
mod shrink;
mod tries;

#[path = "../network/wire.rs"]
#[allow(dead_code, reason = "another suite uses the rest")]
mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use client::{Ways, is_canary};
use kennel_tests::{Scratch, kennel, skipped};
use servers::{ALLOWED_MARK, Kind, Place, Servers};
use tries::{ALLOWED, Door, Part, Try};

const ROLE: &str = "KENNEL_ATTACK_GATE_INSIDE";
const NAME: &str = "the_gate_lets_nobody_through_to_another_host";
/// Numbers of tries that are sent past the gate, to see which the servers take.
const PAST_THE_GATE: u64 = 1 << 40;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if std::env::var_os(ROLE).is_some() {
        std::process::exit(inside::run(&arguments));
    }
    if arguments.iter().any(|word| word == "--list") {
        return println!("{NAME}: test");
    }
    match the_gate_lets_nobody_through_to_another_host() {
        Ok(0) => println!("test {NAME} ... ok"),
        Ok(_) => {
            println!("test {NAME} ... FAILED");
            std::process::exit(1);
        }
        Err(Stop::Lacks(reason)) => println!("test {NAME} ... SKIPPED: {reason}"),
        Err(Stop::Broken(error)) => {
            println!("{error}\ntest {NAME} ... FAILED");
            std::process::exit(1);
        }
    }
}

/// Why there was no attack.
enum Stop {
    /// This host lacks something.
    Lacks(String),
    /// It would have found nothing, whatever there is.
    Broken(String),
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.trim().parse().ok()
}

/// How many tries led to the other host.
fn the_gate_lets_nobody_through_to_another_host() -> Result<usize, Stop> {
    leave_the_host().map_err(|error| Stop::Lacks(format!("a network of the test's own: {error}")))?;
    if kennel_tests::program("openssl").is_none() {
        return Err(Stop::Lacks("openssl is not installed".into()));
    }
    let scratch = Scratch::new();
    let servers = Servers::start(scratch.path()).map_err(Stop::Broken)?;
    let mut sandbox = Sandbox::start(&scratch).map_err(|error| Stop::Broken(format!("kennel: {error}")))?;
    if let Some(path) = std::env::var_os("KENNEL_ATTACK_REPLAY") {
        let attempt = file::read(Path::new(&path)).map_err(Stop::Broken)?;
        let found = reaches(&servers, &mut sandbox, &attempt);
        println!("attack_gate: replayed {}, {} findings", Path::new(&path).display(), usize::from(found));
        return Ok(found.into());
    }
    check(&servers, &mut sandbox)?;
    let seed = number("KENNEL_ATTACK_SEED").unwrap_or_else(random);
    let seconds = number("KENNEL_ATTACK_SECONDS").unwrap_or(30);
    let names: Vec<&str> = servers.places.iter().map(|place| place.name).collect();
    let mut names = names;
    names.dedup();
    println!("attack_gate: seed {seed}, for {seconds} s, against {}", names.join(", "));
    teeth(&servers, seed);
    let before = settled(&servers);
    let begun = Instant::now();
    let (count, mut found) = fuzz(&servers, seed, seconds).map_err(Stop::Broken)?;
    let took = begun.elapsed().as_secs_f64();
    // A try may have lost its number on the way, since it is disturbed too. What a server took is a finding all the same.
    let mut nameless = Vec::new();
    for evidence in new_among(&settled(&servers), &before) {
        match number_of(&evidence).filter(|number| *number < count) {
            Some(number) => drop(found.entry(number).or_insert(evidence)),
            None => nameless.push(evidence),
        }
    }
    let findings = found.len() + nameless.len();
    for (number, evidence) in found.iter().take(5) {
        let attempt = tries::make(seed, *number, &servers.places);
        let (path, lasts) = keep(&servers, &mut sandbox, seed, *number, &attempt, evidence);
        let again = if lasts { "" } else { " (not seen again)" };
        println!("attack_gate: finding {number}: {evidence}{again}: KENNEL_ATTACK_REPLAY={}", path.display());
    }
    for evidence in nameless.iter().take(5) {
        println!("attack_gate: finding: a try that cannot be told from this: {evidence}");
    }
    println!("attack_gate: seed {seed}, {count} tries in {took:.0} s, {findings} findings");
    Ok(findings)
}

/// A network of this process's own, in which every port is free.
fn leave_the_host() -> std::io::Result<()> {
    let checked = |result: i32| if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) };
    let wanted = libc::CLONE_NEWNET | libc::CLONE_NEWNS;
    // SAFETY: plain calls in a process of one thread.
    unsafe {
        let (user, group) = (libc::geteuid(), libc::getegid());
        if libc::unshare(wanted) != 0 {
            checked(libc::unshare(wanted | libc::CLONE_NEWUSER))?;
            std::fs::write("/proc/self/setgroups", "deny")?;
            std::fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
            std::fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
        }
        let private = libc::MS_REC | libc::MS_PRIVATE;
        let none = std::ptr::null();
        checked(libc::mount(none, c"/".as_ptr(), none, private, none.cast()))?;
        libc::prctl(libc::PR_SET_PDEATHSIG, 0);
    }
    std::fs::write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0")?;
    wire::up(wire::index(c"lo")?)
}

fn random() -> u64 {
    let mut bytes = [0; 8];
    let read = std::fs::File::open("/dev/urandom")
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut bytes));
    read.map_or(1, |()| u64::from_ne_bytes(bytes) >> 16)
}

/// `kennel run` with the allowed host, and this program in it.
fn kennel_with(words: &[&str]) -> std::io::Result<Command> {
    let me = std::env::current_exe()?;
    let mut command = kennel(["run", "--no-settings", "--quiet", "--allow-domain", ALLOWED, "--env"]);
    command.arg(format!("{ROLE}=1")).arg("--").arg(me).args(words);
    for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
        command.env_remove(name).env_remove(name.to_uppercase());
    }
    Ok(command)
}

/// A sandbox that sends what it is told to.
struct Sandbox {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
    file: PathBuf,
}

impl Sandbox {
    fn start(scratch: &Scratch) -> std::io::Result<Sandbox> {
        let mut child = kennel_with(&["serve"])?.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().ok_or(std::io::ErrorKind::BrokenPipe)?;
        Ok(Sandbox { child, lines: BufReader::new(stdout), file: scratch.join("try.txt") })
    }

    /// What came back, and whether it was the other host's.
    fn send(&mut self, attempt: &Try) -> Option<(bool, String)> {
        file::write(&self.file, attempt, "").ok()?;
        writeln!(self.child.stdin.as_mut()?, "{}", self.file.display()).ok()?;
        let mut line = String::new();
        self.lines.read_line(&mut line).ok()?;
        let (word, answer) = line.trim_end().split_once(' ')?;
        Some((word == "canary", answer.to_owned()))
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn once(place: &Place, door: Door, host: &str) -> Try {
    let proxy = if place.proxied { "PROXY TCP4 192.0.2.1 192.0.2.2 1111 443\r\n" } else { "" };
    let port = if place.port == 80 || host != ALLOWED { String::new() } else { format!(":{}", place.port) };
    let bytes = match place.kind {
        Kind::Tls => hello::plain(host),
        Kind::Http | Kind::Both => format!("GET / HTTP/1.1\r\nHost: {host}{port}\r\n\r\n").into_bytes(),
    };
    Try { port: place.port, door, parts: vec![Part { bytes: [proxy.as_bytes(), &bytes].concat(), pause: 0 }] }
}

/// That the attack could find something: every server shows the other host to those who ask it without a gate, and the
/// allowed one through it.
fn check(servers: &Servers, sandbox: &mut Sandbox) -> Result<(), Stop> {
    let ways = Ways::direct();
    for place in &servers.places {
        let before = servers.evidence().len();
        let other = if place.exact { "other.test" } else { "check.other.test" };
        let answer = ways.send(&once(place, Door::Direct, other));
        std::thread::sleep(Duration::from_millis(20));
        if !is_canary(&answer) && servers.evidence().len() == before {
            let said = answer.escape_ascii().to_string();
            return Err(Stop::Broken(format!(
                "{} on {} does not show the other host: {said:.300}",
                place.name, place.port
            )));
        }
        for door in [Door::Connect, Door::Socks, Door::Direct] {
            if place.proxied {
                continue;
            }
            let attempt = once(place, door, ALLOWED);
            let (_, answer) =
                sandbox.send(&attempt).ok_or_else(|| Stop::Broken("the sandbox ended".into()))?;
            // A handshake of TLS 1.3 hides the certificate, but it is one.
            let shown = answer.contains(ALLOWED_MARK) || answer.starts_with("\\x16\\x03\\x03");
            if !shown {
                let what =
                    format!("{} on {} does not show the allowed host by {door:?}", place.name, place.port);
                return Err(Stop::Broken(format!("{what}: {answer:.300}")));
            }
        }
    }
    Ok(())
}

/// Says how many of the tries lead to the other host where nobody stands in between.
fn teeth(servers: &Servers, seed: u64) {
    const MANY: u64 = 400;
    let ways = Ways::direct();
    let next = std::sync::atomic::AtomicU64::new(0);
    let shown = std::sync::Mutex::new(BTreeSet::new());
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                loop {
                    let number = PAST_THE_GATE + next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if number >= PAST_THE_GATE + MANY {
                        break;
                    }
                    let attempt = tries::make(seed, number, &servers.places);
                    if attempt.door != Door::Forward && is_canary(&ways.send(&attempt)) {
                        shown.lock().expect("no panics").insert(number);
                    }
                }
            });
        }
    });
    let mut shown = shown.into_inner().expect("no panics");
    let is_past = |number: &u64| *number >= PAST_THE_GATE;
    shown.extend(servers.evidence().iter().filter_map(|line| number_of(line)).filter(is_past));
    println!("attack_gate: of {MANY} tries without a gate, {} led to the other host", shown.len());
}

/// What the servers have told, once they tell no more: on a busy machine they are behind, and OpenSSL's keeps what it has to
/// say of a handshake that failed until it has another visitor.
fn settled(servers: &Servers) -> Vec<String> {
    let ways = Ways::direct();
    for place in &servers.places {
        let _ = ways.send(&once(place, Door::Direct, ALLOWED));
    }
    let mut told = servers.evidence();
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(250));
        let now = servers.evidence();
        if now.len() == told.len() {
            break;
        }
        told = now;
    }
    told
}

/// The lines that were not there before. The same line may well be there twice.
fn new_among(now: &[String], before: &[String]) -> Vec<String> {
    let mut known: BTreeMap<&String, usize> = BTreeMap::new();
    for line in before {
        *known.entry(line).or_default() += 1;
    }
    let is_new = |line: &&String| match known.get_mut(*line) {
        Some(left) if *left > 0 => {
            *left -= 1;
            false
        }
        _ => true,
    };
    now.iter().filter(is_new).cloned().collect()
}

/// Which try a server's words are about.
fn number_of(evidence: &str) -> Option<u64> {
    let lower = evidence.to_ascii_lowercase();
    let name = &lower[..lower.find(".other.test")?];
    name.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn fuzz(servers: &Servers, seed: u64, seconds: u64) -> Result<(u64, BTreeMap<u64, String>), String> {
    let list = inside::words(&servers.places);
    let words = ["fuzz", &seed.to_string(), &seconds.to_string(), &list];
    let mut command = kennel_with(&words).map_err(|error| error.to_string())?;
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!("the sandbox ended with {}", output.status));
    }
    let (mut count, mut found) = (0, BTreeMap::new());
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        match line.split_once(' ') {
            Some(("found", number)) => {
                drop(
                    found.insert(number.parse().unwrap_or(0), "the other host's page or certificate".into()),
                );
            }
            Some(("tries", number)) => count = number.parse().unwrap_or(0),
            _ => {}
        }
    }
    if count == 0 && seconds > 0 {
        return Err("nothing was tried".into());
    }
    Ok((count, found))
}

/// Whether a try leads to the other host.
fn reaches(servers: &Servers, sandbox: &mut Sandbox, attempt: &Try) -> bool {
    let before = servers.evidence().len();
    let canary = sandbox.send(attempt).is_some_and(|(canary, _)| canary);
    std::thread::sleep(Duration::from_millis(20));
    canary || servers.evidence().len() > before
}

/// Makes a finding small and writes it down. Says where, and whether it was seen again.
fn keep(
    servers: &Servers,
    sandbox: &mut Sandbox,
    seed: u64,
    number: u64,
    attempt: &Try,
    evidence: &str,
) -> (PathBuf, bool) {
    // The pauses decide some of them, so it may take a second look.
    let lasts = (0..3).any(|_| reaches(servers, sandbox, attempt));
    let small = match lasts {
        true => shrink::shrink(attempt, 120, |less| reaches(servers, sandbox, less)),
        false => attempt.clone(),
    };
    let folder =
        std::env::var_os("KENNEL_ATTACK_FINDINGS").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from);
    // What cannot be made cannot be written below either, and that is told.
    let _ = std::fs::create_dir_all(&folder);
    let path = folder.join(format!("kennel-attack_gate-{seed}-{number}.txt"));
    let server = servers.places.iter().find(|place| place.port == small.port).map_or("", |place| place.name);
    if let Err(error) = file::write(&path, &small, &format!("{server}: {evidence}")) {
        skipped(&format!("writing {}: {error}", path.display()));
    }
    (path, lasts)
}
