//! Ordinary programs under a guard: they go on as they do without.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use kennel_tests::probe::probe_inside;
use kennel_tests::{kennel, program, ran, ran_within, run_sh, skipped, text};

use crate::guard::Project;

/// What a script makes of a project inside and outside: the same names.
fn same_as_outside(script: &str) {
    let (inside, outside) = (Project::denying(&[".mcp.json", "deep/.git/hooks"]), Project::denying(&[]));
    let listing = |project: &Project| {
        let top = text(project.scratch.path());
        project.scratch.listing().iter().map(|path| path.replacen(&top, "", 1)).collect::<Vec<_>>()
    };
    let mut plain = Command::new("sh");
    plain.args(["-ec", script]).current_dir(outside.at("")).env("HOME", outside.at(""));
    ran(&mut plain).ok();
    let mut guarded = kennel(["run"]);
    guarded.args(inside.flags()).args(["--", "sh", "-ec", script]);
    let told = ran(guarded.current_dir(inside.at("")).env("HOME", inside.at(""))).ok();
    assert!(!told.stderr.contains("kennel:"), "{}", told.stderr);
    assert_eq!(listing(&inside), listing(&outside));
}

#[test]
fn a_shell_and_tar_make_what_they_make_outside() {
    same_as_outside(
        "mkdir -p src/a/b && for n in 1 2 3 4 5 6 7 8 9; do echo $n > src/a/b/$n; done
         ln -s a src/link && ln src/a/b/1 src/hard && mkfifo src/pipe
         tar cf all.tar src && mkdir out && tar xf all.tar -C out && mv out/src out/moved && cp -a out/moved again
         rm -r src && mv again src",
    );
}

#[test]
fn git_works() {
    if program("git").is_none() {
        return skipped("git is not installed");
    }
    // Objects have names by their time; the working tree is compared, and git's own check is believed.
    let project = Project::denying(&[".mcp.json", "repo/.git/modules/evil"]);
    let script = "export HOME=$PWD GIT_CONFIG_NOSYSTEM=1
        git config --global user.email a@b.c && git config --global user.name me
        git init -q repo && cd repo && echo one > file && git add file && git commit -qm one
        git branch side && git worktree add -q ../tree side && cd ../tree && echo two > two && git add two
        git commit -qm two && cd ../repo && git merge -q side && git stash list && git gc -q
        cd .. && git clone -q repo copy && cd copy && test -f two && git fsck --strict && git log --oneline | wc -l";
    let told = run_sh(project.flags(), &format!("cd {} && set -e; {script}", text(&project.at("")))).ok();
    assert_eq!(told.stdout.trim(), "2", "{}", told.stderr);
    assert!(!told.stderr.contains("kennel:"), "{}", told.stderr);
}

#[test]
fn git_init_is_refused_where_its_folder_is_denied_and_leaves_nothing() {
    if program("git").is_none() {
        return skipped("git is not installed");
    }
    let project = Project::denying(&[".git"]);
    let told = project.unchanged_by(|| {
        run_sh(project.flags(), &format!("git init {} && exit 9; exit 7", text(&project.at(""))))
    });
    assert!(told.expect_code(7).stderr.contains("Read-only file system"));
}

#[test]
fn npm_installs() {
    let Some(npm) = program("npm") else { return skipped("npm is not installed") };
    if ran(Command::new(&npm).arg("--version")).code != 0 {
        return skipped("this user cannot run npm");
    }
    let project = Project::denying(&[".mcp.json"]);
    project.scratch.write("project/lib/package.json", "{\"name\":\"lib\",\"version\":\"1.0.0\"}");
    project.scratch.write("project/lib/index.js", "module.exports = 7");
    project.scratch.write("project/app/package.json", "{\"name\":\"app\",\"version\":\"1.0.0\"}");
    let script = format!(
        "cd {}/app && export HOME=$PWD && npm install --offline --no-audit --no-fund --install-links ../lib 2>&1 \
         && node -p 'require(\"lib\")'",
        text(&project.at("")).trim_end_matches('/')
    );
    let told = run_sh(project.flags(), &script).ok();
    assert!(told.stdout.ends_with("7\n"), "{}", told.stdout);
    assert!(project.at("app/node_modules/lib/index.js").is_file());
}

/// The role: makes and removes files while a timer interrupts it all the time, as runtimes preempt their threads.
pub fn interrupted(words: &[OsString]) -> i32 {
    extern "C" fn nothing(_: i32) {}
    let every = libc::timeval { tv_sec: 0, tv_usec: 100 };
    let timer = libc::itimerval { it_interval: every, it_value: every };
    // SAFETY: the handler does nothing; the structures are live for their calls.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut());
        libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut());
    }
    for number in 0..300 {
        let path = Path::new(&words[0]).join(format!("file{number}"));
        if let Err(error) = std::fs::write(&path, "x").and_then(|()| std::fs::remove_file(&path)) {
            println!("{number}: {error}");
            return 1;
        }
    }
    0
}

#[test]
fn a_program_that_is_interrupted_ten_thousand_times_a_second_gets_on() {
    let project = Project::denying(&[".git"]);
    let began = Instant::now();
    let top = text(&project.at(""));
    let mut command = probe_inside("interrupted", &project.flags(), &[&top]);
    project.unchanged_by(|| ran_within(Duration::from_secs(60), &mut command)).ok();
    println!("300 files in {:?}", began.elapsed());
}

/// The role: a program that does not let itself be looked into, as ssh-agent and gpg do.
pub fn not_dumpable(words: &[OsString]) -> i32 {
    // SAFETY: takes no pointers.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
    let top = Path::new(&words[0]);
    let made = std::fs::write(top.join("made"), "x");
    let denied = std::fs::create_dir(top.join(".git")).map_err(|error| error.raw_os_error());
    println!("{made:?} {denied:?}");
    0
}

#[test]
fn a_program_that_is_not_dumpable_is_held_and_not_hindered() {
    let project = Project::denying(&[".git"]);
    let told = ran(&mut probe_inside("not-dumpable", &project.flags(), &[&text(&project.at(""))])).ok();
    assert_eq!(told.stdout, format!("Ok(()) Err(Some({}))\n", libc::EROFS));
    assert!(project.at("made").is_file());
}

/// The kernel takes one listener per process, and a sandbox inside has its outer one's.
#[test]
fn a_sandbox_inside_a_guarded_one_needs_names_that_the_outer_guard_keeps() {
    let project = Project::denying(&[".git", ".bashrc"]);
    // Its /proc cannot be written, so the inner one has Landlock and the filter only.
    let inner = format!(
        "{} run --no-settings --best-effort --allow-write {top} --deny-write {top}/.profile -- true",
        kennel_tests::kennel_bin().display(),
        top = text(&project.at("")).trim_end_matches('/')
    );
    let told = run_sh(project.flags(), &inner);
    if told.stderr.contains("no Landlock") {
        return skipped("no sandbox inside a sandbox without Landlock");
    }
    assert!(told.clone().expect_code(125).stderr.contains("there is no second guard"), "{told:?}");
    // One whose rules need no guard is welcome, and so is one whose names the outer guard keeps.
    run_sh(project.flags(), &inner.replace("/.profile -- true", "/../absent -- true")).ok();
    run_sh(project.flags(), &inner.replace("/.profile -- true", "/.bashrc -- true")).ok();
}
