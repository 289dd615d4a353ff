//! How long it takes to start and end a sandbox: `/bin/true`, by itself and in each kind of sandbox.

use kennel_bench::fixture::Folder;
use kennel_bench::rounds::{Way, take_turns};
use kennel_bench::{Failure, programs, quick, table};

const TRUE: &str = "/bin/true";

fn main() -> std::process::ExitCode {
    kennel_bench::run(startup)
}

fn startup() -> Result<(), Failure> {
    let folder = Folder::new("startup")?;
    std::fs::create_dir(folder.path().join("locked"))?;
    std::fs::write(folder.path().join("secret"), "")?;
    let rules = [
        "--allow-write",
        &folder.text(""),
        "--deny-write",
        &folder.text("locked"),
        "--deny-read",
        &folder.text("secret"),
    ];
    let kennel = |flags: &[&str]| -> Result<_, Failure> {
        let mut command = programs::kennel(flags)?;
        command.arg(TRUE);
        Ok(command)
    };
    let mut ways = vec![
        Way::command("plain", programs::quiet(TRUE.as_ref(), &[])),
        Way::command("kennel", kennel(&[])?),
        Way::command("kennel, a write root with denies", kennel(&rules)?),
        Way::command("kennel, listed reads", kennel(&["--reads", "listed"])?),
        Way::command("kennel, an allow list of hosts", kennel(&["--allow-domain", "example.com"])?),
    ];
    let hosts = ways.len() - 1;
    // What `cargo build --release` makes of a fresh clone, with the C library that is there.
    let plain_build = programs::beside("kennel-plain-build").ok().map(|program| {
        let words = ["run", "--no-settings", "--", TRUE];
        ways.push(Way::command("kennel, built as README says", programs::quiet(&program, &words)));
        ways.len() - 1
    });
    let before = programs::kennel_before::<&str>(&[]).map(|mut command| {
        command.arg(TRUE);
        ways.push(Way::command("kennel, before", command));
        ways.len() - 1
    });
    // Only who can have a cgroup here.
    let limits = kennel(&["--memory", "256M", "--pids", "64", "--cpus", "1"]);
    let limits = limits.ok().filter(can_run).map(|command| {
        ways.push(Way::command("kennel, limits", command));
        ways.len() - 1
    });
    if let Some(unshare) = programs::installed("unshare") {
        ways.push(Way::command("unshare", programs::quiet(&unshare, &["-Urmpfn", TRUE])));
    }
    let bwrap = programs::bwrap(&[TRUE]).map(|command| {
        ways.push(Way::command("bwrap", command));
        ways.len() - 1
    });
    let rounds = if quick() { 20 } else { 1000 };
    take_turns(&mut ways, rounds)?;

    println!("`{TRUE}`, {rounds} rounds.\n");
    let against: Vec<usize> = [Some(0), bwrap].into_iter().flatten().collect();
    println!("{}", table::of(&ways, &against));
    print!("{}", table::goal("kennel × plain", table::ratio(&ways[1], &ways[0]), 3.5));
    if let Some(bwrap) = bwrap {
        print!("{}", table::goal("kennel × bwrap", table::ratio(&ways[1], &ways[bwrap]), 0.55));
        if let Some(plain_build) = plain_build {
            let ratio = table::ratio(&ways[plain_build], &ways[bwrap]);
            print!("{}", table::goal("built as README says × bwrap", ratio, 0.65));
        }
        print!(
            "{}",
            table::goal("with an allow list × bwrap", table::ratio(&ways[hosts], &ways[bwrap]), 0.7)
        );
    }
    if let Some(before) = before {
        print!("{}", table::goal("kennel × before", table::ratio(&ways[1], &ways[before]), 1.05));
    }
    if let Some(limits) = limits {
        let more = ways[limits].median().saturating_sub(ways[1].median());
        print!("{}", table::goal("what limits add, in ms", more.as_secs_f64() * 1e3, 0.4));
    }
    let memory = ways[1].peak_memory().unwrap_or(0) as f64 / 1e6;
    print!("{}", table::goal("kennel's peak memory in MB", memory, 4.0));
    Ok(())
}

fn can_run(command: &std::process::Command) -> bool {
    let mut once = std::process::Command::new(command.get_program());
    once.args(command.get_args()).stdin(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    once.status().is_ok_and(|status| status.success())
}
