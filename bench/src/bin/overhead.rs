//! What a sandbox costs a program while it runs: the same work inside and outside. The start of the sandbox is not in
//! it: the probe keeps the time.

use std::process::Command;
use std::time::Duration;

use kennel_bench::fixture::Folder;
use kennel_bench::rounds::{Sample, Way, take_turns};
use kennel_bench::{Failure, programs, quick, table};

fn main() -> std::process::ExitCode {
    kennel_bench::run(overhead)
}

fn overhead() -> Result<(), Failure> {
    let folder = Folder::new("overhead")?;
    let tree = Folder::new("overhead-tree")?;
    let file = folder.text("file");
    std::fs::write(&file, "")?;
    let rounds = if quick() { 3 } else { 15 };

    let (calls, pairs) = if quick() { ("100000", "20000") } else { ("1000000", "200000") };
    compare(&format!("{calls} × getppid, per call"), &folder, &["getppid", calls], rounds)?;
    compare(&format!("{pairs} × open and close, per pair"), &folder, &["open", pairs, &file], rounds)?;
    guarded("on the disk", &folder, &folder.text(""), &folder.text(""), rounds)?;
    // A sandbox's own /tmp is in memory, where no disk adds noise of its own.
    guarded("in memory", &folder, &Folder::in_memory("overhead")?.text(""), "/tmp", rounds)?;
    build(rounds)?;
    let Some(git) = programs::installed("git") else {
        println!("No git is installed: `git status` was not measured.");
        return Ok(());
    };
    let (folders, per_folder) = if quick() { (100, 20) } else { (400, 100) };
    tree.fill(folders, per_folder)?;
    let git = git.display().to_string();
    let place = tree.text("");
    for words in [&["init", "-q"][..], &["add", "."], &["commit", "-q", "-m", "all"]] {
        let identity = ["-c", "user.name=bench", "-c", "user.email=bench@localhost", "-C", &place];
        let end = Command::new(&git).args(identity).args(words).status()?;
        if !end.success() {
            return Err(format!("git {words:?}: {end}").into());
        }
    }
    let what = format!("git status in {} files, per run", folders * per_folder);
    let ratio = compare(&what, &tree, &["run", "5", &git, "-C", &place, "status", "--porcelain"], rounds)?;
    print!("{}", table::goal("git status inside × outside", ratio, 1.05));
    Ok(())
}

/// Runs the probe everywhere, with `writable` writable, and prints the table. Returns kennel's ratio to outside.
fn compare(what: &str, writable: &Folder, probe: &[&str], rounds: usize) -> Result<f64, Failure> {
    let place = writable.text("");
    let program = programs::beside("probe")?;
    let rules = ["--allow-write", &place];
    let mut ways = vec![
        way("outside", Command::new(&program), probe),
        way("kennel", programs::kennel(&rules)?, probe_in(&program, probe)),
        way(
            "kennel, --seccomp none",
            programs::kennel(&[&rules[..], &["--seccomp", "none"]].concat())?,
            probe_in(&program, probe),
        ),
    ];
    if let Some(bwrap) = programs::bwrap(&["--bind", &place, &place]) {
        ways.push(way("bwrap", bwrap, probe_in(&program, probe)));
    }
    take_turns(&mut ways, rounds)?;
    println!("{what}, {rounds} rounds:\n\n{}", table::of(&ways, &[0]));
    Ok(table::ratio(&ways[1], &ways[0]))
}

/// What the guard of denied paths that do not exist costs whoever makes files: inside with it, and inside without.
/// The rules speak of `writable`, the files are made in `outside` and `inside`.
fn guarded(
    medium: &str,
    writable: &Folder,
    outside: &str,
    inside: &str,
    rounds: usize,
) -> Result<(), Failure> {
    let count = if quick() { "10000" } else { "100000" };
    let place = writable.text("");
    let program = programs::beside("probe")?;
    let words = probe_in(&program, &["create", count, inside]);
    let rules = ["--allow-write", &place];
    let absent: Vec<String> =
        [".git", ".bashrc", ".mcp.json", "deep/er/.git/hooks"].map(|name| writable.text(name)).into();
    let denied = absent.iter().flat_map(|path| ["--deny-write", path]);
    let with: Vec<&str> = rules.into_iter().chain(denied).collect();
    let mut ways = vec![
        way("outside", Command::new(&program), ["create", count, outside]),
        way("kennel", programs::kennel(&rules)?, &words),
        way("kennel, with a guard", programs::kennel(&with)?, &words),
    ];
    if let Some(command) = programs::kennel_before(&with) {
        ways.push(way("kennel, before, with a guard", command, &words));
    }
    take_turns(&mut ways, rounds.min(7))?;
    println!(
        "{count} × making a file {medium}, the median of one, {} rounds:\n\n{}",
        rounds.min(7),
        table::of(&ways, &[0])
    );
    let more = ways[2].median().saturating_sub(ways[1].median());
    println!("The guard costs {:.1} µs per file {medium}; the goal is 15.\n", more.as_secs_f64() * 1e6);
    Ok(())
}

/// `cargo build` of a small crate without dependencies, from nothing: inside with a guard, inside without, and outside.
fn build(rounds: usize) -> Result<(), Failure> {
    let folder = Folder::new("build")?;
    let place = folder.text("");
    let modules = 40;
    std::fs::create_dir_all(folder.path().join("src"))?;
    std::fs::write(
        folder.text("Cargo.toml"),
        "[package]\nname = \"small\"\nedition = \"2021\"\n[workspace]\n",
    )?;
    let mut main = String::new();
    for module in 0..modules {
        main += &format!("mod m{module};\n");
        let text =
            "pub fn sum(of: &[u64]) -> u64 { of.iter().map(|n| n ^ 7).filter(|n| n % 3 != 1).sum() }\n";
        std::fs::write(folder.text(&format!("src/m{module}.rs")), text)?;
    }
    let sums: Vec<String> = (0..modules).map(|module| format!("m{module}::sum(&[{module}])")).collect();
    main += &format!("fn main() {{ println!(\"{{}}\", {}) }}\n", sums.join(" + "));
    std::fs::write(folder.text("src/main.rs"), main)?;
    let words = ["cargo", "build", "--offline", "--quiet", "--manifest-path", &folder.text("Cargo.toml")];
    let dressed = |mut command: Command| {
        // What the caller's own cargo home says of targets and wrappers is not for this crate.
        command.current_dir(folder.path()).env("CARGO_HOME", folder.text("cargo-home"));
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped());
        command
    };
    let mut outside = Command::new(words[0]);
    outside.args(&words[1..]);
    let mut outside = dressed(outside);
    if !outside.output().is_ok_and(|output| output.status.success()) {
        println!("SKIPPED: `cargo build` does not work here outside either\n");
        return Ok(());
    }
    let rules = ["--allow-write", &place];
    let absent = [".git", ".bashrc", ".mcp.json", "src/.vscode"].map(|name| folder.text(name));
    let denied = absent.iter().flat_map(|path| ["--deny-write", path]);
    let with: Vec<&str> = rules.into_iter().chain(denied).collect();
    let inside = |rules: &[&str]| -> Result<Command, Failure> {
        let mut command = programs::kennel(rules)?;
        command.args(words);
        Ok(dressed(command))
    };
    let afresh = |name: &str, mut command: Command| {
        let target = folder.path().join("target");
        Way::new(name, move || {
            std::fs::remove_dir_all(&target)?;
            let started = std::time::Instant::now();
            let output = command.output()?;
            let time = started.elapsed();
            match output.status.success() {
                true => Ok(Sample { time, peak_memory: None }),
                false => Err(String::from_utf8_lossy(&output.stderr).into_owned().into()),
            }
        })
    };
    let mut ways = vec![
        afresh("outside", outside),
        afresh("kennel", inside(&rules)?),
        afresh("kennel, with a guard", inside(&with)?),
    ];
    take_turns(&mut ways, rounds)?;
    println!("`cargo build` of a crate with {modules} files, start included, {rounds} rounds:\n");
    println!("{}", table::of(&ways, &[0]));
    Ok(())
}

fn probe_in(program: &std::path::Path, words: &[&str]) -> Vec<String> {
    std::iter::once(program.display().to_string())
        .chain(words.iter().map(|word| (*word).to_owned()))
        .collect()
}

/// The probe in some surroundings; it says itself what one of its rounds cost.
fn way<'a, S: AsRef<std::ffi::OsStr>>(
    name: &str,
    mut command: Command,
    words: impl IntoIterator<Item = S>,
) -> Way<'a> {
    command.args(words).stdout(std::process::Stdio::piped());
    Way::new(name, move || {
        let output = command.stderr(std::process::Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err(format!("the probe ended with {}", output.status).into());
        }
        let nanoseconds = String::from_utf8(output.stdout)?.trim().parse()?;
        Ok(Sample { time: Duration::from_nanos(nanoseconds), peak_memory: None })
    })
}
