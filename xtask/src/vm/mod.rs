//! `cargo xtask vm-test`: the end-to-end suites on other kernels than this host's, in virtual machines.
//!
//! A machine boots a kernel of Debian with the programs of a Debian release ([`guest`]) and runs the same static test
//! programs as `cargo xtask test`, as root and as an ordinary user, with the unified cgroup v2 hierarchy that the
//! developer's host may not have. Without KVM it is emulated and some twenty times slower, so there are two matrices: a
//! quick one, and with `--all` everything. Where something cannot be had, the machine is skipped and says why.

mod console;
mod guest;
mod guests;
mod kernels;
mod machine;
pub mod package;
mod suites;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::Failure;
use crate::cache;
use crate::cargo;
use crate::foreign::standard_library;
use crate::suite::Report;
use crate::tally::{Skip, Tally};
use crate::test;
use guest::{Guest, Job, Land};
use guests::{TROUBLES, Trouble};
use kernels::{Arch, KERNELS, Kernel};
use machine::Machines;
use suites::{CGROUPS, Quick, SUITES, Suite, UNIT_TESTS};

/// What was asked for.
struct Choice {
    all: bool,
    arch: Arch,
    kernels: Vec<&'static Kernel>,
    /// Only these suites or guests, if any are named.
    names: Vec<String>,
    /// Only tests whose names hold this.
    filter: Option<String>,
    who: Option<String>,
}

impl Choice {
    fn read(words: &[String]) -> Result<Choice, Failure> {
        let mut choice = Choice {
            all: false,
            arch: Arch::X86_64,
            kernels: Vec::new(),
            names: Vec::new(),
            filter: None,
            who: None,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("vm-test: {word} requires a value"));
            match word.as_str() {
                "--all" => choice.all = true,
                "--arch" => {
                    let name = value()?;
                    choice.arch = Arch::from_word(name).ok_or_else(|| {
                        format!("vm-test: no machine for {name}; there are x86_64 and arm64")
                    })?;
                }
                "--kernel" => {
                    let name = value()?;
                    let known = || KERNELS.iter().map(|kernel| kernel.name).collect::<Vec<_>>().join(", ");
                    let found = kernels::kernel(name);
                    choice.kernels.push(
                        found.ok_or_else(|| format!("vm-test: no kernel {name}; there are {}", known()))?,
                    );
                }
                "--filter" => choice.filter = Some(value()?.clone()),
                "--as" => choice.who = Some(value()?.clone()),
                flag if flag.starts_with('-') => return Err(format!("vm-test: no flag called {flag}").into()),
                name => choice.names.push(name.to_owned()),
            }
        }
        if choice.kernels.is_empty() {
            // The emulated arm64 machine is slower still.
            let all = (choice.all || !choice.names.is_empty()) && choice.arch == Arch::X86_64;
            let only = (choice.arch == Arch::Arm64).then_some(KERNEL_OF_CGROUPS);
            let is_wanted =
                |kernel: &&Kernel| only.map_or(all || kernel.is_quick, |only| only == kernel.name);
            choice.kernels = KERNELS.iter().filter(is_wanted).collect();
        }
        Ok(choice)
    }

    fn wants(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|wanted| wanted == name)
    }
}

/// A machine that will be booted.
struct Boot {
    /// What tables call it: a kernel, or what is special about it.
    name: String,
    /// What tells it from others of the same name.
    part: &'static str,
    kernel: &'static Kernel,
    land: Land,
    kernel_words: &'static str,
    jobs: Vec<Job>,
}

/// Runs the suites in the machines. Returns whether all is well.
///
/// # Errors
/// When something could not even be tried.
pub fn vm_test(words: &[String]) -> Result<bool, Failure> {
    let choice = Choice::read(words)?;
    let state = match cache::folder("vm") {
        Ok(state) => state,
        Err(reason) => return skipped(&reason),
    };
    let machines = match Machines::prepare(&state, choice.arch) {
        Ok(machines) => machines,
        Err(reason) => return skipped(&reason),
    };
    if let Err(reason) = cross_tools(choice.arch) {
        return skipped(&reason);
    }
    let programs = build(choice.arch)?;
    let boots = boots(&choice);
    let stage = state.join(format!("programs-{}", std::process::id()));
    fs::create_dir_all(&stage)?;
    let stripped = programs
        .iter()
        .map(|(name, path)| Ok((name.clone(), guest::stripped(path, name, &stage, choice.arch)?)))
        .collect::<Result<BTreeMap<String, PathBuf>, String>>()?;
    let reports = run_all(&machines, &choice, &boots, &stripped);
    let _ = fs::remove_dir_all(&stage);
    test::sum_up(&reports)
}

fn skipped(reason: &str) -> Result<bool, Failure> {
    println!("SKIPPED: vm-test: {reason}");
    Ok(true)
}

/// The machines, as many at a time as there are cores: an emulated one keeps one of them busy.
fn run_all(
    machines: &Machines,
    choice: &Choice,
    boots: &[Boot],
    programs: &BTreeMap<String, PathBuf>,
) -> Vec<Report> {
    let (next, reports) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let cores = std::thread::available_parallelism().map_or(1, usize::from).min(boots.len());
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some(boot) = boots.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut of_this = Vec::new();
                    run_one(machines, choice, boot, programs, &mut of_this);
                    reports.lock().unwrap_or_else(std::sync::PoisonError::into_inner).extend(of_this);
                }
            });
        }
    });
    reports.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// One machine, from its packages to its reports.
fn run_one(
    machines: &Machines,
    choice: &Choice,
    boot: &Boot,
    programs: &BTreeMap<String, PathBuf>,
    reports: &mut Vec<Report>,
) {
    let started = Instant::now();
    let failed = |tally: Tally| Report { name: boot.name.clone(), time: started.elapsed(), tally };
    match prepare(&machines.state, choice, boot, programs) {
        Ok(guest) => {
            if let Err(failure) = machines.run(&guest, reports) {
                println!("{failure}");
                reports.push(failed(Tally { failed: 1, ..Tally::default() }));
            }
        }
        Err(reason) => {
            println!("{:<28} SKIPPED: {reason}", boot.name);
            let skip = Skip { reason, test: "machine".to_owned() };
            reports.push(failed(Tally { skipped: [skip].into(), ..Tally::default() }));
        }
    }
}

fn prepare(
    state: &Path,
    choice: &Choice,
    boot: &Boot,
    programs: &BTreeMap<String, PathBuf>,
) -> Result<Guest, String> {
    /// Two machines may need the same packages, and the first has to fetch them.
    static FETCHING: Mutex<()> = Mutex::new(());
    let _one = FETCHING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let land = match boot.land {
        Land::Debian(suite) => Some(guest::land_archive(state, suite, choice.arch)?),
        Land::Busybox => None,
    };
    let mut files: BTreeMap<String, PathBuf> = BTreeMap::new();
    let named = boot.jobs.iter().flat_map(|job| job.words.iter());
    for name in named.chain([&"kennel".to_owned()]) {
        let name = name.strip_prefix(guest::PROGRAMS).unwrap_or(name);
        if let Some(path) = programs.get(name) {
            files.insert(name.to_owned(), path.clone());
        }
    }
    Ok(Guest {
        name: boot.name.clone(),
        part: boot.part,
        kernel_image: guest::kernel_image(state, boot.kernel, choice.arch)?,
        kernel_words: boot.kernel_words,
        land,
        machine: guest::machine_archive(state, boot.kernel, choice.arch, boot.land)?,
        files: files.into_iter().collect(),
        jobs: boot.jobs.clone(),
        longest: Duration::from_secs(if choice.all { 4 * 3600 } else { 1500 }),
    })
}

/// The kernel that all of the ways to a cgroup are tried on.
const KERNEL_OF_CGROUPS: &str = "6.12";

/// Which machines, with which jobs. Those that take longest come first.
fn boots(choice: &Choice) -> Vec<Boot> {
    let mut boots = Vec::new();
    for kernel in choice.kernels.iter().filter(|kernel| {
        kernel.name == KERNEL_OF_CGROUPS && choice.arch == Arch::X86_64 && choice.wants("cgroups")
    }) {
        let everybody = ["root", "user", "crowded", "container", "stranger", "systemd"];
        // Once a systemd runs, it is asked by everybody, so it comes last.
        let jobs =
            everybody.iter().flat_map(|who| CGROUPS.iter().filter_map(|suite| job(choice, suite, who)));
        boots.push(Boot::of(kernel, "cgroups", jobs.collect()));
    }
    for kernel in &choice.kernels {
        for who in ["root", "user"] {
            let suites = SUITES.iter().filter(|suite| choice.wants(suite.name));
            let jobs = suites.filter_map(|suite| job(choice, suite, who)).collect();
            boots.push(Boot::of(kernel, who, jobs));
        }
    }
    let is_wanted = |trouble: &&Trouble| {
        let is_x86 = choice.arch == Arch::X86_64;
        let is_chosen =
            if choice.names.is_empty() { choice.all || trouble.is_quick } else { choice.wants(trouble.name) };
        is_x86 && is_chosen && choice.kernels.iter().any(|kernel| kernel.name == trouble.kernel)
    };
    boots.extend(TROUBLES.iter().filter(is_wanted).filter_map(|trouble| trouble_boot(choice, trouble)));
    boots.retain(|boot| !boot.jobs.is_empty());
    boots
}

impl Boot {
    fn of(kernel: &'static Kernel, part: &'static str, jobs: Vec<Job>) -> Boot {
        let land = Land::Debian(kernel.land);
        Boot { name: kernel.name.to_owned(), part, kernel, land, kernel_words: "", jobs }
    }
}

fn trouble_boot(choice: &Choice, trouble: &Trouble) -> Option<Boot> {
    let kernel = kernels::kernel(trouble.kernel)?;
    let is_wanted = |who: &str| choice.who.as_deref().is_none_or(|wanted| wanted == who);
    let scripts = trouble.scripts.iter().filter(|(_, who)| is_wanted(who)).map(|(name, who)| Job {
        name: (*name).to_owned(),
        who,
        words: ["/vm/busybox", "sh", &format!("/vm/guests/{name}.sh")].map(str::to_owned).to_vec(),
    });
    let suites = trouble.suites.iter().filter(|(_, _, who)| is_wanted(who)).map(|(name, filters, who)| Job {
        name: (*name).to_owned(),
        who,
        words: words(name, filters),
    });
    Some(Boot {
        name: trouble.name.to_owned(),
        part: "guest",
        kernel,
        land: trouble.land,
        kernel_words: trouble.kernel_words,
        jobs: scripts.chain(suites).collect(),
    })
}

fn job(choice: &Choice, suite: &Suite, who: &'static str) -> Option<Job> {
    let is_wanted = suite.by.contains(&who) && choice.who.as_deref().is_none_or(|wanted| wanted == who);
    let mut filters = suite.filters;
    if !choice.all && choice.names.is_empty() {
        match suite.quick {
            Quick::Nothing => return None,
            Quick::Everything => {}
            Quick::Only(only) => filters = only,
        }
    }
    let filter = choice.filter.as_deref().map(|filter| [filter]);
    let filters = filter.as_ref().map_or(filters, |filter| filter);
    is_wanted.then(|| Job { name: suite.name.to_owned(), who, words: words(suite.name, filters) })
}

/// How a program of tests is called.
fn words(suite: &str, filters: &[&str]) -> Vec<String> {
    let is_module = suite != UNIT_TESTS;
    let program = if is_module { test::PROGRAM } else { suite };
    let mut words = vec![format!("{}{program}", guest::PROGRAMS)];
    let of_suite =
        |filter: &&str| if is_module { format!("{suite}::{filter}") } else { (*filter).to_owned() };
    words.extend(filters.iter().map(of_suite));
    if filters.is_empty() && is_module {
        words.push(of_suite(&""));
    }
    words.extend(["--show-output", "--color=never", "--test-threads=2"].map(str::to_owned));
    words
}

/// Builds everything that runs in a machine: by name, the test programs and the command.
fn build(arch: Arch) -> Result<BTreeMap<String, PathBuf>, Failure> {
    let built = if arch.rust().starts_with(std::env::consts::ARCH) {
        // As `cargo xtask test` does it, so that there is nothing to build after that.
        cargo::build(&["build", "--workspace", "--bins", "--tests", "--examples"])?
    } else {
        let mut command = cargo::cargo();
        command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc");
        let packages = ["--package", "kennel-cli", "--package", "kennel-linux"];
        let words = [&["build", "--target", arch.rust(), "--bins", "--tests"][..], &packages].concat();
        cargo::build_by(command, &words)?
    };
    let mut programs = BTreeMap::new();
    for program in built {
        let is_command = !program.has_tests && program.name == "kennel";
        let is_suite = program.has_tests && (program.kind == "test" || program.name == UNIT_TESTS);
        if is_command || is_suite {
            programs.insert(program.name, program.path);
        }
    }
    Ok(programs)
}

/// What it takes to build for another processor: the standard library, a linker, and a C library to link in.
fn cross_tools(arch: Arch) -> Result<(), String> {
    if arch.rust().starts_with(std::env::consts::ARCH) {
        return Ok(());
    }
    if arch != Arch::Arm64 {
        return Err(format!("no tools to build for {} here", arch.rust()));
    }
    standard_library::find_installed(arch.rust(), true)?;
    machine::installed("aarch64-linux-gnu-gcc", &["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"]).map(drop)
}
