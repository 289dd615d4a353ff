//! A process that starts sandboxes when it is told to, and ends when its standard input does.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kennel::{Pool, Sandbox, Session, Zygote};
use kennel_bench::{Failure, large, programs};

pub const LARGE_GIB: usize = 4;
pub const LARGE_THREADS: usize = 200;
/// How many sandboxes a pool keeps ready.
pub const POOL: usize = 16;
const TRUE: &str = "/bin/true";

/// What a caller is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A small program.
    Small,
    /// One with a zygote.
    SmallWithZygote,
    /// One with a large heap and many threads.
    Large,
    /// One like that, which started its zygote before it grew.
    LargeWithZygote,
}

impl Kind {
    const ALL: [(Kind, &'static str); 4] = [
        (Kind::Small, "small"),
        (Kind::SmallWithZygote, "small-with-zygote"),
        (Kind::Large, "large"),
        (Kind::LargeWithZygote, "large-with-zygote"),
    ];

    fn is_large(self) -> bool {
        matches!(self, Kind::Large | Kind::LargeWithZygote)
    }

    fn has_zygote(self) -> bool {
        matches!(self, Kind::SmallWithZygote | Kind::LargeWithZygote)
    }
}

/// What this process was started as, if it is a caller.
pub fn role() -> Option<Kind> {
    let word = std::env::args().nth(1)?;
    Kind::ALL.into_iter().find(|(_, name)| *name == word).map(|(kind, _)| kind)
}

/// A caller that runs.
pub struct Caller {
    child: Child,
}

/// The way to give it orders.
pub struct Orders {
    to: std::fs::File,
    from: BufReader<std::fs::File>,
}

impl Caller {
    pub fn start(kind: Kind) -> Result<Caller, Failure> {
        let name = Kind::ALL.into_iter().find(|(known, _)| *known == kind).map_or("", |(_, name)| name);
        let mut command = Command::new(std::env::current_exe()?);
        let child = command.arg(name).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        Ok(Caller { child })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn orders(&self) -> Result<Orders, Failure> {
        use std::os::fd::AsFd;
        let (Some(to), Some(from)) = (&self.child.stdin, &self.child.stdout) else {
            return Err("a caller without streams".into());
        };
        let (to, from) = (to.as_fd().try_clone_to_owned()?, from.as_fd().try_clone_to_owned()?);
        Ok(Orders { to: to.into(), from: BufReader::new(from.into()) })
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        // The end of its input ends it, and with it whatever it has started.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

impl Orders {
    /// Has it start `/bin/true` one way, and wait for the end. Returns how long that took it.
    pub fn run(&mut self, way: &str) -> Result<Duration, Failure> {
        let [nanoseconds] = self.give(&format!("run {way}"))?;
        Ok(Duration::from_nanos(nanoseconds as u64))
    }

    /// Has so many workers do that without a pause for `span`. Returns how often per second, and for how many milliseconds
    /// the machine was busy with each.
    pub fn repeat(&mut self, way: &str, workers: usize, span: Duration) -> Result<(f64, f64), Failure> {
        let [rate, processor_time] = self.give(&format!("repeat {way} {workers} {}", span.as_millis()))?;
        Ok((rate, processor_time))
    }

    /// Has it start so many sandboxes that stay, or end all of them. Returns how long that took it.
    pub fn hold(&mut self, what: &str, count: usize) -> Result<Duration, Failure> {
        let [nanoseconds] = self.give(&format!("hold {what} {count}"))?;
        Ok(Duration::from_nanos(nanoseconds as u64))
    }

    fn give<const N: usize>(&mut self, order: &str) -> Result<[f64; N], Failure> {
        writeln!(self.to, "{order}")?;
        let mut answer = String::new();
        // One answer is one write, so nothing of another's is ever read ahead.
        self.from.read_line(&mut answer)?;
        let mut numbers = answer.split_whitespace().map(str::parse::<f64>);
        let mut read = [0.0; N];
        for number in &mut read {
            *number = numbers.next().and_then(Result::ok).ok_or_else(|| format!("`{order}` failed"))?;
        }
        Ok(read)
    }
}

/// The life of a caller.
pub fn serve(kind: Kind) -> Result<(), Failure> {
    let zygote = if kind.has_zygote() { Some(Zygote::start()?) } else { None };
    if kind.is_large() {
        large::grow(LARGE_GIB << 30, LARGE_THREADS)?;
    }
    let mut starter = Starter { sandbox: Sandbox::builder().build()?, pool: None, session: None };
    let (mut held, mut prepared) = (Vec::new(), None);
    for order in io::stdin().lock().lines() {
        let order = order?;
        let words: Vec<&str> = order.split(' ').collect();
        if let (Some(zygote), None, true) = (&zygote, &starter.pool, order.contains("pooled")) {
            starter.pool = Some(zygote.pool(&starter.sandbox, POOL)?);
        }
        if starter.session.is_none() && order.contains("session") {
            starter.session = Some(starter.sandbox.session()?);
        }
        // What a pool does in the background after one run is not to meet the next, which is somebody else's.
        starter.await_full_pool()?;
        let began = Instant::now();
        match words[..] {
            ["run", way] => {
                starter.run(way)?;
                let took = began.elapsed();
                starter.await_full_pool()?;
                println!("{}", took.as_nanos());
            }
            ["repeat", way, workers, span] => {
                let span = Duration::from_millis(span.parse()?);
                let (rate, processor_time) = repeat(&starter, way, workers.parse()?, span)?;
                println!("{rate} {processor_time}");
            }
            ["hold", "sleepers", count] => {
                for _ in 0..count.parse()? {
                    let mut command = starter.sandbox.command("sleep");
                    command.arg("86399").stdin(kennel::Stdio::null());
                    held.push(command.stdout(kennel::Stdio::null()).stderr(kennel::Stdio::null()).spawn()?);
                }
                println!("{}", began.elapsed().as_nanos());
            }
            ["hold", "prepared", count] => {
                let count = count.parse()?;
                let zygote = zygote.as_ref().ok_or("there is no zygote")?;
                let pool = prepared.insert(zygote.pool(&starter.sandbox, count)?);
                await_ready(pool, count)?;
                println!("{}", began.elapsed().as_nanos());
            }
            ["hold", "nothing", _] => {
                prepared = None;
                held.iter().for_each(kennel::Child::kill);
                for mut child in held.drain(..) {
                    child.wait()?;
                }
                println!("{}", began.elapsed().as_nanos());
            }
            _ => return Err(format!("no such order: {order}").into()),
        }
    }
    Ok(())
}

/// Starts `/bin/true` by each of the ways.
struct Starter {
    sandbox: Sandbox,
    pool: Option<Pool>,
    session: Option<Session>,
}

impl Starter {
    fn await_full_pool(&self) -> Result<(), Failure> {
        self.pool.as_ref().map_or(Ok(()), |pool| await_ready(pool, POOL))
    }

    fn run(&self, way: &str) -> Result<(), Failure> {
        let captured = |mut command: Command| -> Result<bool, Failure> {
            Ok(command.stdin(Stdio::null()).stdout(Stdio::piped()).output()?.status.success())
        };
        let success = match way {
            "plain" => captured(Command::new(TRUE))?,
            "bwrap" => captured(programs::bwrap(&[TRUE]).ok_or("bwrap is gone")?)?,
            "unshare" => {
                let mut command = Command::new("unshare");
                command.args(["-Urmpfn", TRUE]);
                captured(command)?
            }
            "kennel" => {
                let mut command = programs::kennel::<&str>(&[])?;
                command.arg(TRUE);
                captured(command)?
            }
            "sandbox" => self.sandbox.run(TRUE, &[])?.success(),
            "pooled" => self.pool.as_ref().ok_or("there is no pool")?.run(TRUE, &[])?.success(),
            "session" => self.session.as_ref().ok_or("there is no session")?.run(TRUE, &[])?.success(),
            _ => return Err(format!("no such way: {way}").into()),
        };
        if success { Ok(()) } else { Err(format!("{TRUE} failed").into()) }
    }
}

fn await_ready(pool: &Pool, count: usize) -> Result<(), Failure> {
    let deadline = Instant::now() + Duration::from_secs(30);
    while pool.ready() < count {
        if Instant::now() > deadline {
            return Err(
                format!("of {count} sandboxes only {} are ready after half a minute", pool.ready()).into()
            );
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}

fn repeat(starter: &Starter, way: &str, workers: usize, span: Duration) -> Result<(f64, f64), Failure> {
    let (runs, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let failure = std::sync::Mutex::new(None);
    let measured = std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    match starter.run(way) {
                        Ok(()) => drop(runs.fetch_add(1, Ordering::Relaxed)),
                        Err(error) => {
                            let mut failure =
                                failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                            *failure = Some(error.to_string());
                            return;
                        }
                    }
                }
            });
        }
        // What was ready before the start is used up first.
        std::thread::sleep(span / 5);
        let (began, before, busy) = (Instant::now(), runs.load(Ordering::Relaxed), busy_time());
        std::thread::sleep(span);
        let done = (runs.load(Ordering::Relaxed) - before) as f64;
        let measured =
            (done / began.elapsed().as_secs_f64(), (busy_time() - busy).as_secs_f64() * 1e3 / done);
        over.store(true, Ordering::Relaxed);
        measured
    });
    let failure = failure.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    failure.map_or(Ok(measured), |failure| Err(failure.into()))
}

/// For how long the processors of this machine have not been idle.
fn busy_time() -> Duration {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks: Vec<u64> = text
        .lines()
        .next()
        .unwrap_or("")
        .split_whitespace()
        .skip(1)
        .map(|n| n.parse().unwrap_or(0))
        .collect();
    // user, nice, system, idle, waiting for the disk, interrupts, soft interrupts; a hundred ticks are a second.
    let busy: u64 = [0, 1, 2, 5, 6].iter().filter_map(|at| ticks.get(*at)).sum();
    Duration::from_millis(busy * 10)
}
