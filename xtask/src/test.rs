//! `cargo xtask test`: everything that has to hold before a change goes in.
//!
//! Checks first, because they are quick to fix; then unit and doc tests; then the end-to-end suites, each as everybody
//! we can be. All of it runs to the end even when something fails, and the last line sums it up.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::agents;
use crate::attack;
use crate::cargo;
use crate::claims;
use crate::clients;
use crate::foreign;
use crate::packages;
use crate::peers;
use crate::stage::Stage;
use crate::subordinate;
use crate::suite::{self, Report};
use crate::tally::{Skip, Tally};
use crate::who::Who;

/// Unit tests that talk to the kernel as its user, and so differ between root, who has run them already, and others:
/// cargo's name of the crate, and which of its tests.
const UNIT_TESTS_AS_NOBODY: &[(&str, &str)] = &[("kennel_linux", "cgroup::")];

/// Does it all, or only the suites that are named. Returns whether all is well.
///
/// # Errors
/// When something could not even be tried.
pub fn test(words: &[String]) -> Result<bool, Failure> {
    let (flags, names): (Vec<&String>, Vec<&String>) = words.iter().partition(|word| word.starts_with("--"));
    if let Some(flag) = flags.iter().find(|flag| **flag != "--no-install") {
        return Err(format!("test: no flag called {flag}").into());
    }
    if flags.is_empty() {
        install(&names);
    }
    let mut reports = Vec::new();
    if names.is_empty() {
        checks(flags.is_empty(), &mut reports)?;
    }
    let started = Instant::now();
    match Suites::build() {
        Ok(suites) => {
            println!("built in {:.0} s", started.elapsed().as_secs_f64());
            if names.is_empty() {
                unit_tests(&mut reports)?;
            }
            let began = reports.len();
            suites.run(&names, &mut reports)?;
            suites.look_again(&mut reports[began..])?;
        }
        // The compiler has said why. What ran before is still worth its summary.
        Err(failure) => {
            println!("{failure}");
            let tally = Tally { failed: 1, ..Tally::default() };
            reports.push(Report { name: "build".into(), time: started.elapsed(), tally });
        }
    }
    sum_up(&reports)
}

/// Installs what the named suites use, or all of them: for the system only as root, and everything else into folders of the
/// workshop's own. All of it is named.
fn install(names: &[&String]) {
    let are_wanted =
        |suites: &[&str]| names.is_empty() || names.iter().any(|name| suites.contains(&name.as_str()));
    if Who::all().contains(&Who::Root) {
        if packages::has_apt() {
            packages::install();
        }
        subordinate::add();
    }
    if are_wanted(&["compat"]) {
        peers::install();
    }
    if are_wanted(&["clients", "secrets"]) {
        clients::install();
    }
    if are_wanted(&["agents", "secrets"]) {
        agents::install();
    }
}

fn checks(install: bool, reports: &mut Vec<Report>) -> Result<(), Failure> {
    let mut docs = cargo::cargo();
    docs.args(["doc", "--workspace", "--no-deps", "--lib", "--quiet"]).env("RUSTDOCFLAGS", "-D warnings");
    let mut lints = cargo::cargo();
    lints.args(["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]);
    let mut format = cargo::cargo();
    format.args(["fmt", "--all", "--check", "--", "--color", "never"]);
    // The library by itself: the tests bring every feature in.
    let mut bare = cargo::cargo();
    bare.args(["clippy", "--package", "kennel", "--no-default-features", "--quiet", "--", "-D", "warnings"]);
    let checks =
        [("format", &mut format), ("lints", &mut lints), ("bare library", &mut bare), ("docs", &mut docs)];
    for (name, command) in checks {
        reports.push(suite::run(name, "", command, suite::BUILD)?);
    }
    reports.push(gate_is_optional()?);
    foreign::check(install, reports)?;
    let lacking = claims::unfounded()?;
    for claim in &lacking {
        println!("{claim}");
    }
    let tally = Tally { failed: lacking.len(), ..Tally::default() };
    reports.push(Report { name: "claims".into(), time: Duration::ZERO, tally });
    Ok(())
}

/// Whether the library stands on neither the gate nor tokio unless it is asked for one of them.
fn gate_is_optional() -> Result<Report, Failure> {
    let began = std::time::Instant::now();
    let mut tree = cargo::cargo();
    tree.args([
        "tree",
        "--package",
        "kennel",
        "--no-default-features",
        "--edges",
        "normal",
        "--prefix",
        "none",
    ]);
    let listed = tree.output()?;
    let text = String::from_utf8_lossy(&listed.stdout);
    let found: Vec<&str> = text
        .lines()
        .filter(|line| ["tokio ", "kennel-proxy "].iter().any(|name| line.starts_with(name)))
        .collect();
    if !listed.status.success() || !found.is_empty() {
        println!("without feature `network` the library stands on {found:?}");
    }
    let failed = usize::from(!listed.status.success()) + found.len();
    Ok(Report { name: "tree".into(), time: began.elapsed(), tally: Tally { failed, ..Tally::default() } })
}

fn unit_tests(reports: &mut Vec<Report>) -> Result<(), Failure> {
    let mut unit = cargo::cargo();
    // By name: asked for all, cargo would also try the entrypoint, whose binary is no harness and has no tests.
    unit.args(["test", "--workspace", "--lib", "--bin", "kennel", "--bin", "xtask"]);
    unit.args(["--no-fail-fast", "--", "--show-output"]);
    let mut doc = cargo::cargo();
    doc.args(["test", "--workspace", "--doc", "--no-fail-fast", "--", "--show-output"]);
    for (name, command) in [("unit tests", &mut unit), ("doc tests", &mut doc)] {
        reports.push(suite::run(name, Who::all()[0].name(), command, suite::BUILD)?);
    }
    Ok(())
}

/// How often a test that failed has to pass by itself to count as unsteady.
const TIMES_AGAIN: usize = 3;

/// Where more tests failed than this, none of them is tried again.
const MOST_UNSTEADY: usize = 2;

/// What the examples are called among the suites.
const EXAMPLES: &str = "examples";

/// The program of the end-to-end suites: a test target of `kennel-cli`.
pub const PROGRAM: &str = "suites";

/// What tests are run by.
struct Suite {
    program: PathBuf,
    /// Which of its tests; all, if it is empty.
    filter: String,
    /// Whether nobody else has to run it.
    is_for_nobody: bool,
}

/// The programs of tests, where everybody can run them.
struct Suites {
    stage: Stage,
    by_name: BTreeMap<String, Suite>,
    /// The library's examples.
    examples: Vec<(String, PathBuf)>,
    kennel: PathBuf,
    entrypoint: PathBuf,
}

impl Suites {
    fn build() -> Result<Suites, Failure> {
        // All in one call: one of its own for the command would build what it stands on with other features, again.
        let built = cargo::build(&["build", "--workspace", "--bins", "--tests", "--examples"])?;
        // Only its release has no standard library, which is what its tests are about.
        let entrypoint = cargo::build(&["build", "--release", "--package", "kennel-entrypoint"])?;
        let stage = Stage::new()?;
        let kennel = stage.add(&cargo::binary(&built, "kennel")?.path, "kennel")?;
        let name = "kennel-entrypoint";
        let entrypoint = stage.add(&cargo::binary(&entrypoint, name)?.path, name)?;
        let (mut by_name, mut examples) = (BTreeMap::new(), Vec::new());
        for program in built {
            let unit =
                UNIT_TESTS_AS_NOBODY.iter().find(|(name, _)| program.name == *name && program.kind == "lib");
            if program.kind == "example" {
                let place = stage.add(&program.path, &format!("example-{}", program.name))?;
                examples.push((program.name, place));
            } else if program.kind == "test" && program.name == PROGRAM {
                let program = stage.add(&program.path, &format!("{PROGRAM}-tests"))?;
                for name in names_of_suites(&program)? {
                    let suite =
                        Suite { program: program.clone(), filter: format!("{name}::"), is_for_nobody: false };
                    by_name.insert(name, suite);
                }
            } else if program.kind == "test" || unit.is_some() {
                let place = stage.add(&program.path, &format!("{}-tests", program.name))?;
                let filter = unit.map_or("", |(_, filter)| filter).to_owned();
                by_name.insert(program.name, Suite { program: place, filter, is_for_nobody: unit.is_some() });
            }
        }
        Ok(Suites { stage, by_name, examples, kennel, entrypoint })
    }

    fn run(&self, names: &[&String], reports: &mut Vec<Report>) -> Result<(), Failure> {
        let is_known = |name: &str| name == EXAMPLES || self.by_name.contains_key(name);
        if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
            let known = self.by_name.keys().map(String::as_str).chain([EXAMPLES]);
            let known: Vec<&str> = known.collect();
            return Err(format!("no suite called {unknown}; there are {}", known.join(", ")).into());
        }
        if names.is_empty() || names.iter().any(|name| **name == EXAMPLES) {
            self.run_examples(reports)?;
        }
        for (name, suite) in &self.by_name {
            if !names.is_empty() && !names.contains(&name) {
                continue;
            }
            for who in Who::all() {
                if suite.is_for_nobody && *who != Who::Nobody {
                    continue;
                }
                let mut command = who.command(&suite.program, &who.home(self.stage.path())?);
                if attack::is_part(name) {
                    // Not a list of tests: it knows none of the runner's flags.
                    let (seconds, seed) = (attack::share_of_time(), attack::seed_of_commit());
                    println!("{name}: {seconds} s with seed {seed}");
                    attack::environment(&mut command, name, *who, &self.stage)?;
                    attack::duration(&mut command, seconds, Some(seed));
                    command.env("KENNEL_BIN", &self.kennel);
                } else {
                    self.arguments(&mut command, &suite.filter);
                    // Of what takes long and need not be done twice each does one half.
                    match who {
                        Who::Root => command.env("KENNEL_TEST_SHARE", "first"),
                        Who::Nobody => command.env("KENNEL_TEST_SHARE", "second"),
                        Who::Caller => &mut command,
                    };
                }
                // The full numbers of `endurance` take as long as they take.
                let longest = match std::env::var_os("KENNEL_ENDURANCE") {
                    Some(word) => {
                        command.env("KENNEL_ENDURANCE", word);
                        suite::BUILD
                    }
                    None => suite::SUITE,
                };
                reports.push(suite::run(name, who.name(), &mut command, longest)?);
                if attack::is_part(name) {
                    attack::keep_findings(name, *who, &self.stage)?;
                }
            }
        }
        Ok(())
    }

    /// Tries a test that failed again by itself: five thousand of them share two cores, and one that lost a race with
    /// the machine is told as unsteady. It has to pass [`TIMES_AGAIN`] times in a row, and where more than [`MOST_UNSTEADY`]
    /// failed nothing is tried again. What an attack finds never is.
    fn look_again(&self, reports: &mut [Report]) -> Result<(), Failure> {
        let failed: usize = reports.iter().map(|report| report.tally.failed).sum();
        if !(1..=MOST_UNSTEADY).contains(&failed) {
            return Ok(());
        }
        for report in reports {
            let found = self.by_name.iter().find_map(|(name, suite)| {
                let who = Who::all().iter().find(|who| report.name == suite::shown(name, who.name()))?;
                (!attack::is_part(name)).then_some((suite, *who))
            });
            let Some((suite, who)) = found else { continue };
            for test in std::mem::take(&mut report.tally.failing) {
                let passes = (1..=TIMES_AGAIN).map(|time| {
                    let mut command = who.command(&suite.program, &who.home(self.stage.path())?);
                    command.arg("--exact");
                    self.arguments(&mut command, &test);
                    let name = format!("{test} again {time}");
                    let again = suite::run(&name, who.name(), &mut command, suite::SUITE)?;
                    Ok::<bool, Failure>(again.tally.failed == 0 && again.tally.passed == 1)
                });
                if passes.collect::<Result<Vec<bool>, Failure>>()?.into_iter().all(|passed| passed) {
                    println!(
                        "UNSTEADY: {test} ({}) failed among the others and passed by itself",
                        who.name()
                    );
                    report.tally.failed -= 1;
                    report.tally.passed += 1;
                } else {
                    report.tally.failing.insert(test);
                }
            }
        }
        Ok(())
    }

    /// Runs every example of the library; it has to succeed.
    fn run_examples(&self, reports: &mut Vec<Report>) -> Result<(), Failure> {
        for (name, program) in &self.examples {
            for who in Who::all() {
                let mut command = who.command(program, &who.home(self.stage.path())?);
                // The judge takes how many submissions it judges.
                command.arg("50");
                reports.push(suite::run(&format!("example {name}"), who.name(), &mut command, suite::SUITE)?);
            }
        }
        Ok(())
    }

    fn arguments(&self, command: &mut Command, filter: &str) {
        // As many as there are cores, and two where there is one: most tests wait for processes of theirs.
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let threads = cores.clamp(2, 8).to_string();
        command.args(["--show-output", "--test-threads", &threads]).arg(filter);
        // How long each test takes, which the runner tells only if it is asked like this.
        command.args(["-Z", "unstable-options", "--report-time"]).env("RUSTC_BOOTSTRAP", "1");
        if let Some(peers) = peers::folder() {
            command.env("KENNEL_PEERS", peers);
        }
        if let Some(clients) = clients::folder() {
            command.env("KENNEL_CLIENTS", clients);
        }
        if let Some(agents) = agents::folder() {
            command.env("KENNEL_AGENTS", agents);
        }
        command.env("KENNEL_BIN", &self.kennel).env("KENNEL_ENTRYPOINT", &self.entrypoint);
    }
}

/// The suites of the program, by the modules of its tests, and the attacks, which are no lists of tests.
fn names_of_suites(program: &Path) -> Result<BTreeSet<String>, Failure> {
    let listed = Command::new(program).args(["--list", "--format", "terse"]).output()?;
    let text = String::from_utf8_lossy(&listed.stdout);
    let of_tests = text.lines().filter_map(|test| test.split_once("::")).map(|(suite, _)| suite);
    let mut names: BTreeSet<String> = of_tests.map(str::to_owned).collect();
    names.extend(attack::targets().map(str::to_owned));
    if listed.status.success() {
        Ok(names)
    } else {
        Err(format!("{} --list: {}", program.display(), listed.status).into())
    }
}

/// How many are named at the end.
const SLOWEST: usize = 10;

/// Prints which suites and tests took longest.
fn tell_slowest(reports: &[Report]) {
    let mut suites: Vec<(Duration, String)> =
        reports.iter().map(|report| (report.time, report.name.clone())).collect();
    let of = |report: &Report| {
        let who = report.name.rsplit_once(' ').map_or("", |(_, who)| who).to_owned();
        report.tally.times.clone().into_iter().map(move |(test, time)| (time, format!("{test} {who}")))
    };
    let mut tests: Vec<(Duration, String)> = reports.iter().flat_map(of).collect();
    for (what, list) in [("suites", &mut suites), ("tests", &mut tests)] {
        if list.len() <= SLOWEST {
            continue;
        }
        list.sort_by(|one, other| other.cmp(one));
        println!("\nthe {SLOWEST} slowest {what}:");
        for (time, name) in &list[..SLOWEST] {
            println!("{:>8.1} s  {name}", time.as_secs_f64());
        }
    }
}

/// Prints why tests were skipped and, as the last line, the sum.
pub fn sum_up(reports: &[Report]) -> Result<bool, Failure> {
    let mut skips: BTreeMap<&Skip, Vec<&str>> = BTreeMap::new();
    let mut total = Tally::default();
    let mut skipped = 0;
    for report in reports {
        for skip in &report.tally.skipped {
            skips.entry(skip).or_default().push(&report.name);
        }
        skipped += report.tally.skipped.len();
        total += report.tally.clone();
    }
    if !skips.is_empty() {
        println!("\nskipped:");
    }
    for (Skip { test, reason }, places) in &skips {
        let blank = if test.is_empty() { "" } else { " " };
        println!("  {reason}: {test}{blank}in {}", places.join(", "));
    }
    tell_slowest(reports);
    let failing: Vec<&str> =
        reports.iter().filter(|report| report.tally.failed > 0).map(|report| report.name.as_str()).collect();
    let time: f64 = reports.iter().map(|report| report.time.as_secs_f64()).sum();
    println!("\nran for {time:.0} s; full outputs are in {}", suite::logs()?.display());
    if !failing.is_empty() {
        println!("failed: {}", failing.join(", "));
    }
    println!("{} passed, {} failed, {skipped} skipped", total.passed, total.failed);
    Ok(failing.is_empty())
}
