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
        // A machine of many cores is lent for minutes: this part is what it can say more about than two cores.
        None if std::env::args().any(|word| word == "--cores") => cores(),
        None => {
            starts()?;
            throughput()?;
            cores()?;
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

/// All ways, and two that have no library.
fn ways_without_a_pause() -> Vec<(&'static str, Kind, &'static str)> {
    let mut all = ways();
    if programs::installed("unshare").is_some() {
        all.push(("unshare", Kind::Small, "unshare"));
    }
    all.push(("kennel run", Kind::Small, "kennel"));
    all
}

/// What so many workers reach without a pause, for each way: runs per second, and milliseconds of the machine's processors
/// per run. Medians of rounds in which the ways take turns.
fn rates(workers: usize, rounds: usize, span: Duration) -> Result<(Vec<f64>, Vec<f64>), Failure> {
    let all = ways_without_a_pause();
    let mut callers = Callers::default();
    let mut rates = vec![Vec::new(); all.len()];
    let mut processor_times = vec![Vec::new(); all.len()];
    for round in 0..rounds {
        for turn in 0..all.len() {
            let way = (turn + round) % all.len();
            let (name, kind, order) = all[way];
            let asked = callers.get(kind)?.orders()?.repeat(order, workers, span);
            let (rate, processor_time) = asked.map_err(|error| format!("{name}: {error}"))?;
            rates[way].push(rate);
            processor_times[way].push(processor_time);
        }
    }
    let median = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    Ok((rates.iter_mut().map(median).collect(), processor_times.iter_mut().map(median).collect()))
}

/// Two workers without a pause.
fn throughput() -> Result<(), Failure> {
    let all = ways_without_a_pause();
    let (rounds, span) = if quick() { (3, Duration::from_millis(200)) } else { (15, Duration::from_secs(1)) };
    let (rates, processor_times) = rates(2, rounds, span)?;
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

/// How rates grow with the workers, on a machine that has cores for them.
fn cores() -> Result<(), Failure> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores < 4 {
        println!("SKIPPED: how rates grow with the cores: this machine has {cores}\n");
        return Ok(());
    }
    let counts: Vec<usize> = [1, 2, 4, 8, 16, 32, 64].into_iter().filter(|count| *count <= cores).collect();
    let (rounds, span) = if quick() { (1, Duration::from_millis(500)) } else { (3, Duration::from_secs(1)) };
    let by_count = counts.iter().map(|count| Ok(rates(*count, rounds, span)?.0));
    let by_count: Vec<Vec<f64>> = by_count.collect::<Result<_, Failure>>()?;
    println!(
        "`/bin/true` per second, by so many workers without a pause; {rounds} rounds of {span:?} each.\n"
    );
    let heads: Vec<String> = counts.iter().map(usize::to_string).collect();
    println!("| | {} |\n|---|{}", heads.join(" | "), "---|".repeat(counts.len()));
    let all = ways_without_a_pause();
    for (way, (name, ..)) in all.iter().enumerate() {
        let rates: Vec<String> = by_count.iter().map(|rates| format!("{:.0}", rates[way])).collect();
        println!("| {name} | {} |", rates.join(" | "));
    }
    println!();
    let at = |name: &str, count: usize| {
        let way = all.iter().position(|(own, ..)| *own == name)?;
        Some(by_count[counts.iter().position(|own| *own == count)?][way])
    };
    for (name, least) in [("kennel run", 2500.0), ("pooled", 5000.0)] {
        if let Some(rate) = at(name, 16) {
            print!("{}", table::goal_at_least(&format!("{name} by 16 workers, per second"), rate, least));
        }
    }
    if let (Some(one), Some(eight)) = (at("kennel run", 1), at("kennel run", 8)) {
        print!("{}", table::goal_at_least("kennel run, from 1 to 8 workers", eight / one, 6.0));
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
