//! What is left of a sandbox's cgroup: nothing, however the sandbox or its controller ended.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use kennel::Sandbox;
use kennel_tests::leftovers::{cgroups, processes_left_with, unique_sleep};
use kennel_tests::probe::probe_outside;
use kennel_tests::{eventually, kennel, ran_within};

use crate::limits::{PATIENCE, cannot_limit, scaled};

/// The cgroups that a controller has made and not removed.
fn of_controller(pid: u32) -> Vec<PathBuf> {
    let mut found = cgroups(Path::new("/sys/fs/cgroup"));
    found.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("kennel-sandbox-") && name.contains(&format!("-{pid}-"))
    });
    found
}

/// `many COUNT`: so many sandboxes from four threads.
pub fn many(words: &[OsString]) -> i32 {
    let count: usize = words[0].to_string_lossy().parse().expect("a number");
    let sandbox =
        Sandbox::builder().memory_limit(64 << 20).max_pids(20).cpu_limit(1.0).build().expect("limits");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..count / 4).for_each(|_| assert!(sandbox.run("true", &[]).unwrap().success())));
        }
    });
    0
}

#[test]
fn a_thousand_runs_leave_no_cgroup_behind() {
    if cannot_limit() {
        return;
    }
    let mut controller =
        probe_outside("many", &[scaled(1000).to_string()]).spawn().expect("a test can be run");
    let pid = controller.id();
    assert!(controller.wait().expect("a child can be waited for").success());
    assert_eq!(of_controller(pid), [] as [PathBuf; 0]);
}

/// A sandbox that sleeps, once its command runs, and its cgroups.
fn sleeper(marker: &str) -> (Child, Vec<PathBuf>) {
    let script = format!("echo ready; exec sleep {marker}");
    let mut command = kennel(["run", "--memory", "64M", "--", "sh", "-c", &script]);
    let mut controller = command.stdout(Stdio::piped()).spawn().expect("kennel can be started");
    let mut line = [0; 6];
    let stdout = controller.stdout.as_mut().expect("it is a pipe");
    std::io::Read::read_exact(stdout, &mut line).expect("the command runs");
    let made = of_controller(controller.id());
    assert!(!made.is_empty(), "a sandbox with a limit has a cgroup");
    (controller, made)
}

fn kill(mut child: Child) {
    child.kill().and_then(|()| child.wait()).expect("a child can be killed");
}

fn run_with_limit() {
    ran_within(PATIENCE, &mut kennel(["run", "--memory", "64M", "--", "true"])).ok();
}

#[test]
fn what_a_killed_controller_leaves_is_removed_by_the_next_run() {
    if cannot_limit() {
        return;
    }
    let marker = unique_sleep();
    let (controller, _) = sleeper(&marker);
    let pid = controller.id();
    kill(controller);
    assert!(processes_left_with(&marker).is_empty());
    eventually("the next run removes what is left", || {
        run_with_limit();
        of_controller(pid).is_empty().then_some(())
    });
}

#[test]
fn a_run_removes_nothing_that_is_in_use_or_not_its_own() {
    if cannot_limit() {
        return;
    }
    let (marker, other) = (unique_sleep(), unique_sleep());
    let (living, in_use) = sleeper(&marker);
    let (dead, mut stale) = sleeper(&other);
    kill(dead);
    assert!(processes_left_with(&other).is_empty());
    eventually("what was left is removed", || {
        run_with_limit();
        stale.iter().all(|path| !path.exists()).then_some(())
    });
    // The same name again, with a process in it that has nothing to do with kennel.
    let crowded = stale.swap_remove(0);
    let place = crowded.parent().expect("a cgroup is below another");
    let strange = place.join(format!("kennel-sandbox-of-somebody-{}", std::process::id()));
    if let Err(error) = fs::create_dir(&crowded).and_then(|()| fs::create_dir(&strange)) {
        kill(living);
        // Where systemd makes the cgroups, nobody else does.
        return kennel_tests::skipped(&format!("{}: {error}", place.display()));
    }
    let mut resident = Command::new("sleep").arg("600").spawn().expect("there is a sleep");
    fs::write(crowded.join("cgroup.procs"), resident.id().to_string()).expect("a process can be moved");
    run_with_limit();
    assert!(crowded.exists() && strange.exists());
    assert!(in_use.iter().all(|path| path.exists()), "{in_use:?}");
    assert_eq!(resident.try_wait().expect("a child can be asked"), None, "it still sleeps");
    kill(resident);
    eventually("empty now, it is removed", || {
        run_with_limit();
        (!crowded.exists()).then_some(())
    });
    assert!(strange.exists());
    fs::remove_dir(&strange).expect("it is ours");
    kill(living);
    assert!(processes_left_with(&marker).is_empty());
}

/// It holds the number of the process that made it.
#[test]
#[kennel_claim::claim("ends/cgroup-has-no-name-inside")]
fn the_name_of_its_cgroup_is_not_told_inside() {
    if cannot_limit() {
        return;
    }
    let script = "cat /proc/self/cgroup /proc/1/cgroup /proc/self/task/*/cgroup; grep -o 'kennel-sandbox[^ ]*' /proc/self/mountinfo";
    for flags in [
        &["--memory", "64M"][..],
        &["--pids", "20", "--memory", "64M"],
        &["--stats"],
        &["--memory", "64M", "--user", "root"],
    ] {
        let mut command = kennel(["run"]);
        let told = ran_within(PATIENCE, command.args(flags).args(["--", "sh", "-c", script]));
        assert!(told.stdout.contains(":/") && !told.stdout.contains("kennel-sandbox"), "{flags:?}: {told:?}");
    }
    // A library's too, whose PID 1 is a program of its own.
    let sandbox = Sandbox::builder().memory_limit(64 << 20).build().expect("a limit");
    let told = sandbox.run("sh", &["-c", script]).expect("it runs");
    assert!(told.stdout.contains(":/") && !told.stdout.contains("kennel-sandbox"), "{told:?}");
    // Outside it is what tells whose it is.
    let marker = unique_sleep();
    let (controller, made) = sleeper(&marker);
    kill(controller);
    assert!(made.iter().all(|path| path.display().to_string().contains("kennel-sandbox-")), "{made:?}");
}
