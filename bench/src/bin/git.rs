//! What git costs in a sandbox that may write the repository, from the start of the sandbox to the end of the look that it
//! gets when the run is over: a clone, a hundred commits, a rebase of fifty, checkouts of twenty thousand files.

use std::path::PathBuf;
use std::process::Command;

use kennel_bench::fixture::Folder;
use kennel_bench::rounds::{Way, take_turns};
use kennel_bench::{Failure, programs, quick, table};

fn main() -> std::process::ExitCode {
    kennel_bench::run(git)
}

/// A workload: what it is called, what makes its repository `repo`, and what is measured.
struct Workload {
    name: &'static str,
    setup: &'static str,
    script: &'static str,
    /// At most so many times as long inside.
    goal: f64,
}

const WORKLOADS: &[Workload] = &[
    Workload {
        name: "git commit",
        setup: "git init -q repo; cd repo; echo > f; git add f; git commit -q -m first",
        script: "cd repo; echo line >> f; git commit -q -a -m next",
        goal: 1.5,
    },
    Workload {
        name: "a clone of 2,000 files",
        setup: "git init -q repo; cd repo; mkdir d; seq 2000 | split -l 1 -a 3 - d/f; git add .; git commit -q -m all",
        script: "rm -rf clone; git clone -q --no-hardlinks repo clone",
        goal: 1.05,
    },
    Workload {
        name: "100 commits",
        setup: "git init -q repo; cd repo; echo > f; git add f; git commit -q -m first",
        script: "cd repo; for n in $(seq 100); do echo $n >> f; git commit -q -a -m $n; done",
        goal: 1.05,
    },
    Workload {
        name: "a rebase of 50 commits",
        setup: "git init -q -b main repo; cd repo; echo > f; git add f; git commit -q -m first; git checkout -q -b topic; \
                for n in $(seq 50); do echo $n >> g; git add g; git commit -q -m $n; done; \
                git checkout -q main; echo more >> f; git commit -q -a -m second",
        script: "cd repo; git checkout -q --detach topic; git rebase -q main",
        goal: 1.05,
    },
    Workload {
        name: "two checkouts of 20,000 files",
        setup: "git init -q -b one repo; cd repo; mkdir d; seq 20000 | split -l 1 -a 4 - d/f; git add .; git commit -q -m one; \
                git checkout -q -b other; for f in d/*; do echo other > $f; done; git commit -q -a -m other",
        script: "cd repo; git checkout -q one; git checkout -q other",
        goal: 1.05,
    },
];

fn git() -> Result<(), Failure> {
    if programs::installed("git").is_none() {
        println!("SKIPPED: git is not installed\n");
        return Ok(());
    }
    for workload in WORKLOADS {
        let rounds = match (quick(), workload.name) {
            (true, _) => 2,
            (false, "git commit") => 100,
            (false, _) => 10,
        };
        let folders = [Folder::new("git-outside")?, Folder::new("git-inside")?, Folder::new("git-before")?];
        for folder in &folders {
            let end = identified(Command::new("sh"), folder).args(["-ec", workload.setup]).status()?;
            if !end.success() {
                return Err(format!("making a repository for {}: {end}", workload.name).into());
            }
        }
        let script = ["sh", "-ec", workload.script];
        let mut outside = programs::quiet(&PathBuf::from(script[0]), &script[1..]);
        outside = identified(outside, &folders[0]);
        let mut inside = programs::kennel(&["--allow-write", "."])?;
        inside.args(script);
        let mut ways =
            vec![Way::command("outside", outside), Way::command("kennel", identified(inside, &folders[1]))];
        if let Some(mut command) = programs::kennel_before(&["--allow-write", "."]) {
            command.args(script);
            ways.push(Way::command("kennel, before", identified(command, &folders[2])));
        }
        take_turns(&mut ways, rounds)?;
        println!("{}, {rounds} rounds:\n\n{}", workload.name, table::of(&ways, &[0]));
        let ratio = table::ratio(&ways[1], &ways[0]);
        println!("{}", table::goal(&format!("{}, inside × outside", workload.name), ratio, workload.goal));
    }
    Ok(())
}

/// In `folder`, with a name to commit by and no settings of the caller's.
fn identified(mut command: Command, folder: &Folder) -> Command {
    command.current_dir(folder.path());
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "bench").env(format!("GIT_{role}_EMAIL"), "bench@localhost");
    }
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    command
}
