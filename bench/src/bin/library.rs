//! What a sandbox costs a program that uses the library: a small one, and one with a gigabyte of memory in use and a
//! hundred threads, which a forking library would have to copy the page tables of.
//!
//! Both are processes of their own that wait for orders, so that all ways can take turns.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kennel::Sandbox;
use kennel_bench::rounds::{Sample, Way, take_turns};
use kennel_bench::{Failure, large, programs, quick, table};

const TRUE: &str = "/bin/true";
const GIGABYTE: usize = 1 << 30;
const THREADS: usize = 100;

fn main() -> std::process::ExitCode {
    kennel_bench::run(library)
}

fn library() -> Result<(), Failure> {
    match std::env::args().nth(1).as_deref() {
        Some("small") => serve(),
        Some("large") => {
            large::grow(GIGABYTE, THREADS)?;
            serve()
        }
        _ => compare(),
    }
}

fn compare() -> Result<(), Failure> {
    let (small, large) = (Caller::start("small")?, Caller::start("large")?);
    let way = |name: &str, caller: &Caller, order: &'static str| {
        let mut caller = caller.clone_streams()?;
        Ok::<_, Failure>(Way::new(name, move || caller.order(order)))
    };
    let mut ways =
        vec![way("small, Sandbox::run", &small, "kennel")?, way("large, Sandbox::run", &large, "kennel")?];
    if programs::bwrap(&[]).is_some() {
        ways.push(way("small, Command bwrap", &small, "bwrap")?);
        ways.push(way("large, Command bwrap", &large, "bwrap")?);
    }
    ways.push(way("small, Command without a sandbox", &small, "plain")?);
    ways.push(way("large, Command without a sandbox", &large, "plain")?);
    let rounds = if quick() { 20 } else { 500 };
    take_turns(&mut ways, rounds)?;

    println!(
        "`{TRUE}` with its output captured, {rounds} rounds; large: 1 GiB in 4 KiB pages, {THREADS} threads.\n"
    );
    println!("{}", table::of(&ways, &[0]));
    print!("{}", table::goal("large × small", table::ratio(&ways[1], &ways[0]), 1.2));
    if ways[2].name.ends_with("bwrap") {
        print!("{}", table::goal("small × Command bwrap", table::ratio(&ways[0], &ways[2]), 0.6));
        print!("{}", table::goal("large × Command bwrap", table::ratio(&ways[1], &ways[3]), 0.6));
    }
    Ok(())
}

/// A process that runs commands when it is told to. It ends when its standard input does.
struct Caller {
    child: Child,
}

/// The way to tell it.
struct Orders {
    to: std::fs::File,
    from: BufReader<std::fs::File>,
}

impl Caller {
    fn start(size: &str) -> Result<Caller, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        let child = command.arg(size).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        Ok(Caller { child })
    }

    fn clone_streams(&self) -> Result<Orders, Failure> {
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
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Orders {
    /// Has it run something; it answers with the time that took it, in nanoseconds.
    fn order(&mut self, what: &str) -> Result<Sample, Failure> {
        writeln!(self.to, "{what}")?;
        let mut answer = String::new();
        // One answer is one write, so nothing of another's is ever read ahead.
        self.from.read_line(&mut answer)?;
        let time = Duration::from_nanos(answer.trim().parse().map_err(|_| "the caller did not answer")?);
        Ok(Sample { time, peak_memory: None })
    }
}

/// The life of a caller.
fn serve() -> Result<(), Failure> {
    let sandbox = Sandbox::builder().build()?;
    for order in io::stdin().lock().lines() {
        let started = Instant::now();
        match order?.as_str() {
            "kennel" => expect(sandbox.run(TRUE, &[])?.success())?,
            "bwrap" => {
                let mut command = programs::bwrap(&[TRUE]).ok_or("bwrap is gone")?;
                expect(command.stdout(Stdio::piped()).output()?.status.success())?;
            }
            _ => expect(Command::new(TRUE).stdin(Stdio::null()).output()?.status.success())?,
        }
        println!("{}", started.elapsed().as_nanos());
    }
    Ok(())
}

fn expect(success: bool) -> Result<(), Failure> {
    if success { Ok(()) } else { Err(format!("{TRUE} failed").into()) }
}
