//! Attacks the gate: real servers with two hosts each, a sandbox that may reach one of them, and bytes that are requests and
//! hellos for the other in every way that a server may take. Whatever some server takes, the gate must have refused: the
//! other host's page or certificate, or its name in a server's own words, is a finding.
//!
//! There are two sets of the servers. One is for trials without a gate, which show that the attack could find something. The
//! other is reached through the gate only, so whatever it says of the other host came through the gate. Before each set
//! stands a [`recorder`].
//!
//! `KENNEL_ATTACK_SECONDS` says for how long (30), `KENNEL_ATTACK_SEED` with which tries (a random one, which is printed).
//! A finding is made small and written to a file; `KENNEL_ATTACK_REPLAY=FILE` tries it again.

mod client;
mod file;
mod hello;
mod inside;
mod judged;
mod recorder;
mod requests;
pub mod rng;
mod sandbox;
mod servers;
mod shrink;
mod tries;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use client::{Ways, is_canary};
use judged::Judged;
use kennel_tests::world::wire;
use kennel_tests::{Scratch, role, skipped};
use recorder::Recorder;
use sandbox::{Sandbox, kennel_with};
use servers::{ALLOWED_MARK, Kind, Place, Servers};
use tries::{ALLOWED, Door, Part, Try};

kennel_tests::roles! {
    "attack_gate" => attack,
    "attack_gate_inside" => inside::run,
}

const NAME: &str = "the_gate_lets_nobody_through_to_another_host";
/// Numbers of tries that are made without a gate, to see which the servers take.
const WITHOUT_A_GATE: u64 = 1 << 40;
/// How far above the places' ports the servers for trials without a gate listen, and their recorder.
const TRIAL_RECORDER: u16 = 10_000;
const TRIAL_SERVERS: u16 = 20_000;

fn attack(_words: &[OsString]) -> i32 {
    // SAFETY: nothing else runs in this process yet. Whatever is started from here is told its own role.
    unsafe { std::env::remove_var(role::VARIABLE) };
    match the_gate_lets_nobody_through_to_another_host() {
        Ok(0) => println!("test {NAME} ... ok"),
        Ok(_) => {
            println!("test {NAME} ... FAILED");
            return 1;
        }
        Err(Stop::Lacks(reason)) => println!("test {NAME} ... SKIPPED: {reason}"),
        Err(Stop::Broken(error)) => {
            println!("{error}\ntest {NAME} ... FAILED");
            return 1;
        }
    }
    0
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
#[kennel_claim::claim("network/known-protocols-only")]
fn the_gate_lets_nobody_through_to_another_host() -> Result<usize, Stop> {
    leave_the_host().map_err(|error| Stop::Lacks(format!("a network of the test's own: {error}")))?;
    if kennel_tests::program("openssl").is_none() {
        return Err(Stop::Lacks("openssl is not installed".into()));
    }
    let scratch = Scratch::new();
    let seed = number("KENNEL_ATTACK_SEED").unwrap_or_else(random);
    let seconds = number("KENNEL_ATTACK_SECONDS").unwrap_or(30);
    let replayed = std::env::var_os("KENNEL_ATTACK_REPLAY");
    if replayed.is_none() {
        trial(&scratch.join("trial"), seed, seconds)?;
    }
    let mut judged = Judged::start(&scratch.join("judged")).map_err(Stop::Broken)?;
    let mut sandbox = Sandbox::start(&scratch).map_err(|error| Stop::Broken(format!("kennel: {error}")))?;
    if let Some(path) = replayed {
        let attempt = file::read(Path::new(&path)).map_err(Stop::Broken)?;
        let found = judged.reached_by(&mut sandbox, &attempt).map_err(Stop::Broken)?;
        println!("attack_gate: replayed {}, {} findings", Path::new(&path).display(), usize::from(found));
        return Ok(found.into());
    }
    shows_the_allowed_host(&judged.servers, &mut sandbox).map_err(Stop::Broken)?;
    let begun = Instant::now();
    let Fuzzed { count, mut found, serves, first, last } =
        fuzz(&judged.servers, seed, seconds).map_err(Stop::Broken)?;
    let took = begun.elapsed().as_secs_f64();
    // A try may have lost its number on the way, since it is disturbed too. What a server took is a finding all the same.
    let mut nameless = Vec::new();
    let told = judged.told().map_err(|doubt| {
        let known = found.keys().map(|number| format!("\nbut try {number} showed the other host"));
        Stop::Broken(known.fold(doubt, |text, known| text + &known))
    })?;
    for (about, evidence) in told {
        match number_of(&about).filter(|number| *number < count) {
            Some(number) => drop(found.entry(number).or_insert(evidence)),
            None => nameless.push((about, evidence)),
        }
    }
    let findings = found.len() + nameless.len();
    for (number, evidence) in found.iter().take(5) {
        let attempt = tries::make(seed, *number, &judged.servers.places);
        let (path, lasts) =
            keep(&judged, &mut sandbox, seed, *number, &attempt, evidence).map_err(Stop::Broken)?;
        let again = if lasts { "" } else { " (not seen again)" };
        println!("attack_gate: finding {number}: {evidence}{again}: KENNEL_ATTACK_REPLAY={}", path.display());
        if !lasts {
            judged.show_what_was_sent(evidence);
        }
    }
    for (about, evidence) in nameless.iter().take(5) {
        println!("attack_gate: finding: a try that cannot be told from this: {evidence}");
        judged.show_what_was_sent(about);
    }
    let rate = |tenth: u64| tenth as f64 * 10.0 / seconds.max(1) as f64;
    println!(
        "attack_gate: {:.0} tries a second in the first tenth of the time, {:.0} in the last",
        rate(first),
        rate(last)
    );
    println!("attack_gate: seed {seed}, {count} tries in {took:.0} s, {findings} findings");
    // A gate that carries nothing lets nobody through either.
    if !serves {
        return Err(Stop::Broken("the gate came to a stop".into()));
    }
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
    // No connection gets the port of a server that is yet to come.
    std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", "40000 65535")?;
    wire::up(wire::index(c"lo")?)
}

fn random() -> u64 {
    let mut bytes = [0; 8];
    let read = std::fs::File::open("/dev/urandom")
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut bytes));
    read.map_or(1, |()| u64::from_ne_bytes(bytes) >> 16)
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

/// That every server shows the other host to those who ask it without a gate, in this name of it where any will do.
fn show_the_other_host(servers: &Servers, above: u16, label: &str) -> Result<(), String> {
    let ways = Ways::direct(above);
    let name = format!("{label}.other.test");
    for place in &servers.places {
        let other = if place.exact { "other.test" } else { &name };
        let told = || servers.evidence().iter().any(|line| !place.exact && line.contains(other));
        let mut answer = Vec::new();
        // On a busy machine it may take some time.
        let shown = (0..20).any(|turn| {
            answer = ways.send(&once(place, Door::Direct, other));
            std::thread::sleep(Duration::from_millis(20 * turn));
            is_canary(&answer) || told()
        });
        if !shown {
            let said = answer.escape_ascii().to_string();
            return Err(format!(
                "{} on {} does not show the other host: {said:.300}",
                place.name, place.port
            ));
        }
    }
    Ok(())
}

/// That the gate carries what it should to every server.
fn shows_the_allowed_host(servers: &Servers, sandbox: &mut Sandbox) -> Result<(), String> {
    for place in servers.places.iter().filter(|place| !place.proxied) {
        for door in [Door::Connect, Door::Socks, Door::Direct] {
            let attempt = once(place, door, ALLOWED);
            let mut answer = String::new();
            let mut shown = false;
            for _ in 0..20 {
                (_, answer) = sandbox.send(&attempt)?;
                // A handshake of TLS 1.3 hides the certificate, but it is one.
                shown = answer.contains(ALLOWED_MARK) || answer.starts_with("\\x16\\x03\\x03");
                if shown {
                    break;
                }
            }
            if !shown {
                let what = format!("{} on {}", place.name, place.port);
                return Err(format!("{what} does not show the allowed host by {door:?}: {answer:.300}"));
            }
        }
    }
    Ok(())
}

/// Shows that the attack could find something, with servers that no gate stands before and that end with this: says how
/// many of the tries lead to the other host.
fn trial(folder: &Path, seed: u64, seconds: u64) -> Result<(), Stop> {
    const MANY: u64 = 400;
    let servers = Servers::start(folder, TRIAL_SERVERS).map_err(Stop::Broken)?;
    let mut names: Vec<&str> = servers.places.iter().map(|place| place.name).collect();
    names.dedup();
    println!("attack_gate: seed {seed}, for {seconds} s, against {}", names.join(", "));
    let recorder = Recorder::start(&servers.places, TRIAL_RECORDER, TRIAL_SERVERS)
        .map_err(|error| Stop::Broken(error.to_string()))?;
    show_the_other_host(&servers, TRIAL_SERVERS, "check").map_err(Stop::Broken)?;
    let ways = Ways::direct(TRIAL_RECORDER);
    let next = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if number >= MANY {
                        break;
                    }
                    let attempt = tries::make(seed, WITHOUT_A_GATE + number, &servers.places);
                    if attempt.door != Door::Forward {
                        ways.send(&attempt);
                    }
                }
            });
        }
    });
    recorder.rests(Duration::from_secs(10));
    let by_answer = recorder.led().into_iter().map(|sent| String::from_utf8_lossy(&sent.bytes).into_owned());
    let mut shown: Vec<String> = by_answer.chain(servers.evidence()).collect();
    shown.retain(|about| !about.contains("check.other.test"));
    // The same try may be known by its answer and by the server's words.
    shown.sort_by_key(|about| number_of(about));
    shown.dedup_by_key(|about| number_of(about).unwrap_or_else(random));
    println!("attack_gate: of {MANY} tries without a gate, {} led to the other host", shown.len());
    if shown.is_empty() {
        return Err(Stop::Broken("no try leads anywhere".into()));
    }
    Ok(())
}

/// Which try a server's words are about.
fn number_of(evidence: &str) -> Option<u64> {
    let lower = evidence.to_ascii_lowercase();
    let name = &lower[..lower.find(".other.test")?];
    name.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// What one run of tries gave.
struct Fuzzed {
    count: u64,
    found: BTreeMap<u64, String>,
    /// Whether the gate still carried at the end what it should.
    serves: bool,
    /// How many were done in the first tenth of the time, and in the last.
    first: u64,
    last: u64,
}

fn fuzz(servers: &Servers, seed: u64, seconds: u64) -> Result<Fuzzed, String> {
    let list = inside::words(&servers.places);
    let words = ["fuzz", &seed.to_string(), &seconds.to_string(), &list];
    let mut command = kennel_with(&words);
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!("the sandbox ended with {}", output.status));
    }
    let mut fuzzed = Fuzzed { count: 0, found: BTreeMap::new(), serves: false, first: 0, last: 0 };
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let (word, value) = line.split_once(' ').unwrap_or((line, ""));
        let value = value.parse().map_err(|_| format!("the sandbox said: {line:?}"))?;
        match word {
            "found" => drop(fuzzed.found.insert(value, "the other host's page or certificate".into())),
            "tries" => fuzzed.count = value,
            "serves" => fuzzed.serves = value == 1,
            "first" => fuzzed.first = value,
            "last" => fuzzed.last = value,
            _ => return Err(format!("the sandbox said: {line:?}")),
        }
    }
    if fuzzed.count == 0 && seconds > 0 {
        return Err("nothing was tried".into());
    }
    Ok(fuzzed)
}

/// Makes a finding small and writes it down. Says where, and whether it was seen again.
fn keep(
    judged: &Judged,
    sandbox: &mut Sandbox,
    seed: u64,
    number: u64,
    attempt: &Try,
    evidence: &str,
) -> Result<(PathBuf, bool), String> {
    let mut reaches = |attempt: &Try| judged.reached_by(sandbox, attempt);
    // The pauses decide some of them, so it may take a second look.
    let lasts = reaches(attempt)? || reaches(attempt)? || reaches(attempt)?;
    let small = match lasts {
        true => shrink::shrink(attempt, 120, |less| reaches(less).unwrap_or(false)),
        false => attempt.clone(),
    };
    let folder =
        std::env::var_os("KENNEL_ATTACK_FINDINGS").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from);
    // What cannot be made cannot be written below either, and that is told.
    let _ = std::fs::create_dir_all(&folder);
    let path = folder.join(format!("kennel-attack_gate-{seed}-{number}.txt"));
    let places = &judged.servers.places;
    let server = places.iter().find(|place| place.port == small.port).map_or("", |place| place.name);
    if let Err(error) = file::write(&path, &small, &format!("{server}: {evidence}")) {
        skipped(&format!("writing {}: {error}", path.display()));
    }
    Ok((path, lasts))
}
