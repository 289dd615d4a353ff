//! The loop around everything: workers that make, play and judge histories until their time is up.
//!
//! Each worker is a process of its own with a single thread of work: whoever is left of a sandbox becomes its child, so it
//! can tell that nobody is. As root it has a mount namespace of its own, where second mounts harm nobody.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;

use super::canary::Canaries;
use super::generate::{self, Mix};
use super::listener::Listener;
use super::oracle::Finding;
use super::perform::{Session, reserve_descriptors};
use super::rng::Rng;
use super::script::History;
use super::shrink::Shrinker;
use super::tree::Area;
use crate::{am_root, kennel_bin, leftovers, role};

/// The longest time for shrinking one finding.
const SHRINKING: Duration = Duration::from_secs(60);
/// How many findings of the same look are shrunk; more are counted.
const OF_A_LOOK: usize = 2;
/// Names the worker in a process that is one: its number and how many there are.
const WORKER: &str = "KENNEL_ATTACK_WORKER";

/// What to do, from the environment.
#[derive(Clone, Debug)]
struct Wanted {
    seed: u64,
    time: Duration,
    mix: Mix,
    /// Where findings are written.
    folder: PathBuf,
}

impl Wanted {
    fn read() -> Result<Wanted, String> {
        let text = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let number = |name: &str| match text(name).map(|value| value.parse::<u64>()) {
            None => Ok(None),
            Some(Ok(number)) => Ok(Some(number)),
            Some(Err(_)) => Err(format!("{name} is no number")),
        };
        let random = || u64::from(std::process::id()) << 32 ^ super::wire::now();
        // SAFETY: a plain call.
        let user = unsafe { libc::getuid() };
        let folder = text("KENNEL_ATTACK_FINDINGS")
            .unwrap_or_else(|| format!("/var/tmp/kennel-attack-findings-{user}"));
        Ok(Wanted {
            // Short enough to be typed.
            seed: number("KENNEL_ATTACK_SEED")?.unwrap_or_else(|| Rng::new(random()).bits() >> 32),
            time: Duration::from_secs(number("KENNEL_ATTACK_SECONDS")?.unwrap_or(30)),
            mix: Mix::parse(&text("KENNEL_ATTACK_ONLY").unwrap_or_default())?,
            folder: folder.into(),
        })
    }
}

/// The role's name.
pub const ROLE: &str = "attack_files";

/// The role of the whole attack, and of each of its workers.
#[must_use]
pub fn main(_words: &[std::ffi::OsString]) -> i32 {
    // SAFETY: nothing else runs in this process yet. Whatever is started from here is told its own role.
    unsafe { std::env::remove_var(role::VARIABLE) };
    let done = match (std::env::var(WORKER), std::env::var_os("KENNEL_ATTACK_REPLAY")) {
        (Ok(which), _) => Wanted::read().and_then(|wanted| work(&wanted, &which)),
        (_, Some(file)) if !file.is_empty() => replay_file(Path::new(&file)),
        _ => Wanted::read().and_then(|wanted| lead(&wanted)),
    };
    match done {
        Ok(true) => 0,
        Ok(false) => 1,
        Err(error) => {
            eprintln!("attack_files: {error}");
            2
        }
    }
}

/// Starts the workers and sums up.
fn lead(wanted: &Wanted) -> Result<bool, String> {
    let started = Instant::now();
    let jobs = std::thread::available_parallelism().map_or(2, usize::from).clamp(1, 8);
    let jobs = std::env::var("KENNEL_ATTACK_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(jobs);
    println!("attack_files: seed {}, {jobs} workers, {} s", wanted.seed, wanted.time.as_secs());
    let mut workers = Vec::new();
    for index in 0..jobs {
        let mut command = role::play(ROLE);
        // A secret among its arguments: no sandbox may see the host's processes.
        command.arg(Canaries::new(wanted.seed ^ index as u64).make().text());
        command.env(WORKER, format!("{index}/{jobs}")).env("KENNEL_ATTACK_SEED", wanted.seed.to_string());
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        workers.push(child.map_err(|error| format!("starting a worker: {error}"))?);
    }
    let (mut histories, mut operations, mut findings, mut broken) = (0, 0, 0, false);
    let lines: Vec<_> = workers
        .iter_mut()
        .filter_map(|worker| worker.stdout.take())
        .map(|stdout| {
            std::thread::spawn(move || {
                let mut sums = None;
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    match line.strip_prefix("sum ") {
                        Some(rest) => {
                            let numbers: Vec<usize> =
                                rest.split(' ').filter_map(|word| word.parse().ok()).collect();
                            sums = <[usize; 3]>::try_from(numbers).ok();
                        }
                        None => println!("{line}"),
                    }
                }
                sums
            })
        })
        .collect();
    for thread in lines {
        match thread.join() {
            Ok(Some([one, two, three])) => {
                histories += one;
                operations += two;
                findings += three;
            }
            _ => broken = true,
        }
    }
    let _ = std::fs::remove_file(format!("/var/tmp/kennel-attack-lock-{}", std::process::id()));
    for mut worker in workers {
        broken |= !worker.wait().is_ok_and(|status| status.code().is_some_and(|code| code < 2));
    }
    // For whoever counts tests.
    println!(
        "test no_random_history_breaks_a_rule ... {}",
        if findings == 0 && !broken { "ok" } else { "FAILED" }
    );
    println!(
        "attack_files: seed {}, {histories} histories ({operations} operations) in {:.0} s, {findings} findings",
        wanted.seed,
        started.elapsed().as_secs_f64()
    );
    if broken {
        return Err("a worker failed".into());
    }
    Ok(findings == 0)
}

/// What every process that plays histories has to do first.
fn prepare() -> Result<(Session, Area), String> {
    let wrong = |error: std::io::Error| error.to_string();
    // A sandbox that is over before it has heard its script is no reason to die; a role starts without Rust's own setting.
    // SAFETY: to ignore is no handler of ours that could run at a wrong time.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    reserve_descriptors().map_err(wrong)?;
    leftovers::adopt_orphans();
    if am_root() {
        let flags = rustix::thread::UnshareFlags::NEWNS;
        // SAFETY: the process has one thread by now, and no descriptor table is shared.
        unsafe { rustix::thread::unshare_unsafe(flags) }
            .map_err(|error| format!("a mount namespace: {error}"))?;
        let (root, all) = ("/", rustix::mount::MountPropagationFlags::REC);
        // Shared again within: a host's mounts usually are.
        for how in
            [rustix::mount::MountPropagationFlags::PRIVATE, rustix::mount::MountPropagationFlags::SHARED]
        {
            rustix::mount::mount_change(root, how | all)
                .map_err(|error| format!("making mounts private: {error}"))?;
        }
    }
    let text: Vec<u8> = std::env::args().skip(1).collect::<Vec<_>>().join(" ").into_bytes();
    let session = Session {
        kennel: kennel_bin(),
        program: std::env::current_exe().map_err(wrong)?,
        listener: Listener::new().map_err(wrong)?,
        process_canary: super::canary::find(&text).into_iter().next(),
    };
    Ok((session, Area::new().map_err(wrong)?))
}

/// Plays histories until the time is up.
fn work(wanted: &Wanted, which: &str) -> Result<bool, String> {
    let (first, step) = which.split_once('/').ok_or("a worker's number")?;
    let (first, step): (u64, u64) = (first.parse().unwrap_or(0), step.parse().unwrap_or(1));
    let (session, mut area) = prepare()?;
    let exclusion = Exclusion::open()?;
    // Before anything takes of it.
    std::sync::LazyLock::force(&crate::hog::HOST_HAS);
    let deadline = Instant::now() + wanted.time;
    let (mut histories, mut operations, mut found) = (0usize, 0usize, 0usize);
    let (mut started, mut runs) = (0usize, 0usize);
    let mut looks: BTreeMap<String, usize> = BTreeMap::new();
    let mut index = first;
    while Instant::now() < deadline {
        let mut history = generate::history(&mut Rng::of(wanted.seed, index), &wanted.mix, am_root());
        let _alone = exclusion.hold(&history)?;
        let played = session
            .play(&history, &mut area, index)
            .map_err(|error| format!("history {index}: {error}\n{history}"))?;
        histories += 1;
        operations += history.operations();
        runs += history.runs.len();
        started += played.started;
        if let Some(finding) = played.findings.first().cloned() {
            let look = format!("{} {}", finding.kind, history.notes.join(" "));
            let seen = looks.entry(look).or_default();
            *seen += 1;
            found += 1;
            if *seen <= OF_A_LOOK {
                let time = (wanted.time + Duration::from_secs(1))
                    .saturating_sub(deadline.saturating_duration_since(Instant::now()));
                let again = shrink(&session, &mut area, finding.kind, &mut history, SHRINKING);
                let notes = &mut history.notes;
                let name = if am_root() { "root" } else { "an ordinary user" };
                notes.push(format!(
                    "seed {}, history {index}, as {name}, after {:.0} s",
                    wanted.seed,
                    time.as_secs_f64()
                ));
                if again.is_none() {
                    notes.push("seen once, and not again when it was played again".into());
                }
                write_finding(&wanted.folder, &again.unwrap_or(finding), &history, index);
            }
        }
        index += step;
    }
    for (look, count) in looks.iter().filter(|(_, count)| **count > OF_A_LOOK) {
        println!("{count} more or less like this: {look}");
    }
    println!("attack_files: worker {first}: {started} of {runs} runs started their command");
    if started == 0 {
        // Nothing was tried, so nothing was shown.
        return Err(format!(
            "none of {runs} runs started its command; does `{} run` work here?",
            session.kennel.display()
        ));
    }
    println!("sum {histories} {operations} {found}");
    Ok(found == 0)
}

/// Keeps histories alone that use up what all sandboxes of a user share: another worker's would fail for it.
struct Exclusion(std::fs::File);

impl Exclusion {
    /// A file that all workers of one session open, beside their program's own name.
    fn open() -> Result<Exclusion, String> {
        // SAFETY: a plain call.
        let lead = unsafe { libc::getppid() };
        let path = format!("/var/tmp/kennel-attack-lock-{lead}");
        let mut options = std::fs::OpenOptions::new();
        let file = options.create(true).truncate(false).write(true).open(&path);
        file.map(Exclusion).map_err(|error| format!("{path}: {error}"))
    }

    fn hold(&self, history: &History) -> Result<Held<'_>, String> {
        let greedy = history
            .runs
            .iter()
            .flat_map(|run| run.inside.iter().flatten())
            .any(|op| ["inotify", "hog"].contains(&&*op.verb));
        let how = if greedy { FlockOperation::LockExclusive } else { FlockOperation::LockShared };
        rustix::fs::flock(&self.0, how).map_err(|error| format!("locking: {error}"))?;
        Ok(Held(&self.0))
    }
}

struct Held<'l>(&'l std::fs::File);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let _ = rustix::fs::flock(self.0, FlockOperation::Unlock);
    }
}

/// Makes a history smaller, and returns what it finds then; `None` if it could not be found again.
fn shrink(
    session: &Session,
    area: &mut Area,
    kind: &'static str,
    history: &mut History,
    limit: Duration,
) -> Option<Finding> {
    let mut shrinker = Shrinker::new(session, area, kind, history, limit)?;
    shrinker.shrink(history);
    shrinker.last
}

fn write_finding(folder: &Path, finding: &Finding, history: &History, index: u64) {
    let mut history = history.clone();
    history.notes.insert(0, finding.to_string().replace('\n', " "));
    let file = folder.join(format!("{}-{index}.history", finding.kind));
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&file, history.to_string()));
    println!("finding: {finding}");
    match written {
        Ok(()) => println!("  written to {}\n{}", file.display(), indented(&history)),
        Err(error) => {
            println!("  could not be written to {}: {error}\n{}", file.display(), indented(&history));
        }
    }
    let _ = std::io::stdout().flush();
}

fn indented(history: &History) -> String {
    history.to_string().lines().map(|line| format!("    {line}\n")).collect()
}

/// Plays one history some times, and says what came of it.
fn replay_file(file: &Path) -> Result<bool, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let times = std::env::var("KENNEL_ATTACK_TIMES").ok().and_then(|times| times.parse().ok()).unwrap_or(5);
    replay(&text, times)
}

/// The role: `FILE TIMES`, for a process that does nothing else.
pub fn replay_role(words: &[std::ffi::OsString]) -> i32 {
    let times = words.get(1).and_then(|word| word.to_str()?.parse().ok()).unwrap_or(1);
    let file = words.first().map(std::fs::read_to_string);
    match file.map(|text| text.map_err(|error| error.to_string()).and_then(|text| replay(&text, times))) {
        Some(Ok(true)) => 0,
        Some(Ok(false)) => 1,
        Some(Err(error)) => {
            eprintln!("{error}");
            2
        }
        None => 2,
    }
}

/// The same for a text. For processes that do nothing else.
///
/// # Errors
/// When it is no history, or cannot be played here.
pub fn replay(text: &str, times: u64) -> Result<bool, String> {
    let history = History::parse(text)?;
    let (session, mut area) = prepare()?;
    let (mut found, mut kind) = (0, None);
    for time in 0..times {
        let played = session.play(&history, &mut area, time)?;
        if played.findings.is_empty() && time > 0 && std::env::var_os("KENNEL_ATTACK_LOG").is_none() {
            continue;
        }
        played.log.iter().for_each(|log| println!("{log}"));
        for finding in &played.findings {
            println!("finding: {finding}");
            kind = Some(finding.kind);
        }
        found += usize::from(!played.findings.is_empty());
    }
    if let (Some(kind), Some(_)) = (kind, std::env::var_os("KENNEL_ATTACK_SHRINK")) {
        let mut history = history;
        match shrink(&session, &mut area, kind, &mut history, SHRINKING * 10) {
            Some(finding) => println!("finding: {finding}\n{}", indented(&history)),
            None => println!("it was not found again"),
        }
    }
    println!("attack_files: {found} of {times} times");
    Ok(found == 0)
}
