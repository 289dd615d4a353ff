//! What sandboxes take while they wait: the share of memory that is theirs (PSS), which only root may read of PID 1.

use std::fs;

use kennel_bench::{Failure, quick, table};

use crate::caller::{Caller, Kind, LARGE_GIB};

/// What an idle sandbox takes that waits for its command.
pub fn idle() -> Result<(), Failure> {
    const COUNT: usize = 20;
    let caller = Caller::start(Kind::SmallWithZygote)?;
    let mut orders = caller.orders()?;
    // What the first pool allocates once and for all is not its sandboxes'.
    orders.hold("prepared", 2)?;
    orders.hold("nothing", 0)?;
    let (own, before) = (share(caller.pid()), below(caller.pid()));
    orders.hold("prepared", COUNT)?;
    let inside: Vec<u32> = below(caller.pid()).into_iter().filter(|pid| !before.contains(pid)).collect();
    let shares: Option<Vec<u64>> = inside.iter().map(|pid| share(*pid)).collect();
    println!("A pool of {COUNT} sandboxes that wait for their commands: {} processes.\n", inside.len());
    match (shares, own, share(caller.pid())) {
        (Some(shares), Some(before), Some(after)) => {
            let each = |kilobytes: u64| kilobytes as f64 / COUNT as f64;
            let of_caller = each(after.saturating_sub(before));
            print!("{}", table::goal("PSS of one, in kB", each(shares.iter().sum()), 300.0));
            println!("- what the caller's own PSS has grown by for one: {of_caller:.0} kB\n");
        }
        _ => println!("- PSS: only root may read it of PID 1\n"),
    }
    Ok(())
}

/// Five hundred sandboxes of `sleep` at once.
pub fn five_hundred() -> Result<(), Failure> {
    let count = if quick() { 50 } else { 500 };
    let caller = Caller::start(Kind::SmallWithZygote)?;
    let mut orders = caller.orders()?;
    // What the first ones allocate once and for all is not theirs.
    orders.hold("sleepers", 2)?;
    orders.hold("nothing", 0)?;
    let (own, available, before) = (share(caller.pid()), available(), below(caller.pid()));
    let others = || below(caller.pid()).into_iter().filter(|pid| !before.contains(pid)).collect::<Vec<u32>>();
    let took = orders.hold("sleepers", count)?;
    let inside = others();
    let each = |kilobytes: u64| kilobytes as f64 / count as f64;
    println!("{count} sandboxes of `sleep` at once, started one after the other with a zygote.\n");
    println!(
        "- until all have started: {:.2} s, {:.2} ms each",
        took.as_secs_f64(),
        each(took.as_micros() as u64) / 1e3
    );
    println!(
        "- what the host has less of, the kernel's own memory included: {:.0} kB each",
        each(available.saturating_sub(self::available()))
    );
    let shares: Option<Vec<(String, u64)>> =
        inside.iter().map(|pid| share(*pid).map(|share| (name(*pid), share))).collect();
    match (shares, own, share(caller.pid())) {
        (Some(shares), Some(before), Some(after)) => {
            let sum = |command: bool| -> u64 {
                shares.iter().filter(|(name, _)| (name == "sleep") == command).map(|(_, share)| share).sum()
            };
            println!("- PSS of the command: {:.0} kB each", each(sum(true)));
            let beyond = each(sum(false)) + each(after.saturating_sub(before));
            print!("{}", table::goal("PSS beyond the command, in kB each", beyond, 700.0));
        }
        _ => println!("- PSS: only root may read it of PID 1"),
    }
    let took = orders.hold("nothing", 0)?;
    let left = others().len();
    println!("- until all have ended: {:.2} s; processes left: {left}", took.as_secs_f64());
    if left == 0 { Ok(()) } else { Err(format!("{left} processes are left").into()) }
}

/// Whether there is memory for two large callers, and some for everybody else.
pub fn has_room_for_large_callers() -> bool {
    available() > (3 * LARGE_GIB as u64) << 20
}

fn available() -> u64 {
    kilobytes(&fs::read_to_string("/proc/meminfo").unwrap_or_default(), "MemAvailable:").unwrap_or(0)
}

fn share(pid: u32) -> Option<u64> {
    kilobytes(&fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?, "Pss:")
}

fn name(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

fn kilobytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(key))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// All processes below one.
fn below(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut left = vec![pid];
    while let Some(pid) = left.pop() {
        for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            let children = children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok());
            left.extend(children.inspect(|pid| found.push(*pid)));
        }
    }
    found
}
