//! Sandboxes all day long: `/bin/true` from start to end by each way of starting it, one at a time and by two workers without
//! a pause; from a large program; what an idle sandbox takes; and five hundred at once.
//!
//! Everything is started by callers, processes of their own that wait for orders (`caller.rs`), so that all ways can take
//! turns: with and without a zygote, small and large.

mod caller;
mod memory;
mod sandlock;

use std::cell::RefCell;
use std::time::Duration;

use caller::{Caller, Kind};
use kennel_bench::rounds::{Sample, Way, take_turns};
use kennel_bench::{Failure, programs, quick, table};
use sandlock::Sandlock;

fn main() -> std::process::ExitCode {
    kennel_bench::run(pool)
}

fn pool() -> Result<(), Failure> {
    match caller::role() {
        Some(kind) => caller::serve(kind),
        None => {
            starts()?;
            throughput()?;
            memory::idle()?;
            memory::five_hundred()
        }
    }
}

/// How the ways of starting `/bin/true` are called, which caller is asked, and what for.
fn ways() -> Vec<(&'static str, Kind, &'static str)> {
    let mut ways = vec![("plain", Kind::Small, "plain")];
    if programs::bwrap(&[]).is_some() {
        ways.push(("bwrap", Kind::Small, "bwrap"));
    }
    ways.push(("Sandbox::run", Kind::Small, "sandbox"));
    ways.push(("zygote", Kind::SmallWithZygote, "sandbox"));
    ways.push(("pooled", Kind::SmallWithZygote, "pooled"));
    ways.push(("in a session", Kind::SmallWithZygote, "session"));
    ways
}

/// The ways of a large caller, each beside the same of a small one.
const LARGE: &[(&str, Kind, &str)] = &[
    ("large, plain", Kind::Large, "plain"),
    ("large, Sandbox::run", Kind::Large, "sandbox"),
    ("large, zygote", Kind::LargeWithZygote, "sandbox"),
    ("large, pooled", Kind::LargeWithZygote, "pooled"),
    ("large, in a session", Kind::LargeWithZygote, "session"),
];

/// One at a time.
fn starts() -> Result<(), Failure> {
    let large = memory::has_room_for_large_callers();
    let mut all = ways();
    if large {
        all.extend(LARGE);
    } else {
        println!("SKIPPED: this machine has no room for callers of {} GiB\n", caller::LARGE_GIB);
    }
    let mut callers = Callers::default();
    let sandlock = Sandlock::start().map(RefCell::new);
    let mut ways: Vec<Way> = Vec::new();
    for (name, kind, order) in &all {
        let mut orders = callers.get(*kind)?.orders()?;
        let run = move || Ok(Sample { time: orders.run(order)?, peak_memory: None });
        ways.push(Way::new(name, run));
    }
    if let Some(sandlock) = &sandlock {
        for (name, way) in [("sandlock, run", "run"), ("sandlock, a clone", "clone")] {
            let run = move || Ok(Sample { time: sandlock.borrow_mut().run(way)?, peak_memory: None });
            ways.push(Way::new(name, run));
        }
    } else {
        println!("SKIPPED: sandlock is not installed, or does not run here\n");
    }
    let rounds = if quick() { 20 } else { 1000 };
    take_turns(&mut ways, rounds)?;

    println!(
        "`/bin/true` with its output captured, {rounds} rounds; large: {} GiB in 4 KiB pages, {} threads.\n",
        caller::LARGE_GIB,
        caller::LARGE_THREADS
    );
    let at = |name: &str| ways.iter().position(|way| way.name == name);
    let against: Vec<usize> = [at("plain"), at("bwrap")].into_iter().flatten().collect();
    println!("{}", table::with_tail(&ways, &against));
    for (name, other, limit) in
        [("zygote", "bwrap", 0.45), ("pooled", "plain", 1.25), ("in a session", "plain", 1.15)]
    {
        if let (Some(one), Some(other_at)) = (at(name), at(other)) {
            let ratio = table::ratio(&ways[one], &ways[other_at]);
            print!("{}", table::goal(&format!("{name} × {other}"), ratio, limit));
        }
    }
    if let (Some(pooled), Some(plain)) = (at("pooled"), at("plain")) {
        let tails = ways[pooled].percentile(99).as_secs_f64() / ways[plain].percentile(99).as_secs_f64();
        print!("{}", table::goal("pooled × plain at the 99th percentile", tails, 2.0));
    }
    for (name, ..) in LARGE.iter().filter(|(name, ..)| !name.ends_with("plain")) {
        let small = name.trim_start_matches("large, ");
        if let (Some(large), Some(small_at)) = (at(name), at(small)) {
            let ratio = table::ratio(&ways[large], &ways[small_at]);
            print!("{}", table::goal(&format!("{name} × {small}"), ratio, 1.1));
        }
    }
    println!();
    Ok(())
}

/// Two workers without a pause.
fn throughput() -> Result<(), Failure> {
    let mut all = ways();
    if programs::installed("unshare").is_some() {
        all.push(("unshare", Kind::Small, "unshare"));
    }
    all.push(("kennel run", Kind::Small, "kennel"));
    let mut callers = Callers::default();
    let (rounds, span) = if quick() { (3, Duration::from_millis(200)) } else { (15, Duration::from_secs(1)) };
    let mut rates = vec![Vec::new(); all.len()];
    let mut processor_times = vec![Vec::new(); all.len()];
    for round in 0..rounds {
        for turn in 0..all.len() {
            let way = (turn + round) % all.len();
            let (name, kind, order) = all[way];
            let asked = callers.get(kind)?.orders()?.repeat(order, 2, span);
            let (rate, processor_time) = asked.map_err(|error| format!("{name}: {error}"))?;
            rates[way].push(rate);
            processor_times[way].push(processor_time);
        }
    }
    let median = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let rates: Vec<f64> = rates.iter_mut().map(median).collect();
    let processor_times: Vec<f64> = processor_times.iter_mut().map(median).collect();
    let rate = |name: &str| all.iter().position(|(own, ..)| *own == name).map(|at| rates[at]);
    let (plain, bwrap) = (rate("plain").unwrap_or(f64::NAN), rate("bwrap"));
    println!(
        "`/bin/true` by two workers without a pause, {rounds} rounds of {span:?} each after a fifth as long to warm up. CPU is \
         what the whole machine was busy with, divided by the runs.\n"
    );
    println!("| | per second | × plain | × bwrap | CPU per run |\n|---|---|---|---|---|");
    for (((name, ..), rate), time) in all.iter().zip(&rates).zip(&processor_times) {
        let beside = bwrap.map_or(String::new(), |bwrap| format!("{:.2}", rate / bwrap));
        println!("| {name} | {rate:.0} | {:.2} | {beside} | {time:.2} ms |", rate / plain);
    }
    println!();
    if let Some(pooled) = rate("pooled") {
        print!("{}", table::goal_at_least("pooled × plain", pooled / plain, 0.6));
    }
    if let Some(bwrap) = bwrap {
        for (name, least) in [("pooled", 5.0), ("kennel run", 2.0)] {
            if let Some(rate) = rate(name) {
                print!("{}", table::goal_at_least(&format!("{name} × bwrap"), rate / bwrap, least));
            }
        }
    }
    println!();
    Ok(())
}

/// The callers that were asked so far.
#[derive(Default)]
struct Callers(Vec<(Kind, Caller)>);

impl Callers {
    fn get(&mut self, kind: Kind) -> Result<&Caller, Failure> {
        let known = self.0.iter().position(|(own, _)| *own == kind);
        let at = match known {
            Some(at) => at,
            None => {
                self.0.push((kind, Caller::start(kind)?));
                self.0.len() - 1
            }
        };
        Ok(&self.0[at].1)
    }
}
