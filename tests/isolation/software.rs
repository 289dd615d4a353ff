//! Normal software runs under the default profile, and what only computes runs under the strict one. Programs that are
//! not installed are skipped, by name.

use std::path::PathBuf;
use std::time::Duration;

use kennel_tests::{Ran, Scratch, kennel, program, ran_within, skipped};

/// A program that everybody may run: root's own installations are of no use to an ordinary user.
fn installed(name: &str) -> Option<PathBuf> {
    let system = ["/usr/bin", "/usr/local/bin", "/bin"].iter().map(|folder| PathBuf::from(folder).join(name));
    let found = system.into_iter().find(|path| path.is_file()).or_else(|| program(name));
    if found.is_none() {
        skipped(&format!("{name} is not installed"));
    }
    found
}

/// Runs a program in a scratch folder that it may write.
fn run(scratch: &Scratch, flags: &[&str], name: &str, words: &[&str]) -> Option<Ran> {
    let program = installed(name)?;
    let mut command = kennel(["run", "--allow-write", "."]);
    command.args(flags).arg("--").arg(program).args(words).current_dir(scratch.path());
    Some(ran_within(Duration::from_secs(60), &mut command))
}

/// The same, and its output.
#[track_caller]
fn output(flags: &[&str], name: &str, words: &[&str]) -> Option<String> {
    Some(run(&Scratch::new(), flags, name, words)?.ok().stdout)
}

#[test]
fn python_runs_threads_processes_and_pools() {
    let code = "
import threading, subprocess, multiprocessing, tempfile, os, socket
seen = []
threads = [threading.Thread(target=seen.append, args=(n,)) for n in range(10)]
[t.start() for t in threads]; [t.join() for t in threads]
assert sorted(seen) == list(range(10))
assert subprocess.run(['echo', 'hi'], capture_output=True, text=True).stdout == 'hi\\n'
if __name__ == '__main__':
    with multiprocessing.get_context('fork').Pool(3) as pool:
        assert pool.map(abs, [-1, -2, -3]) == [1, 2, 3]
    with tempfile.NamedTemporaryFile() as f:
        f.write(b'x'); assert f.name.startswith('/tmp')
    a, b = socket.socketpair(); a.send(b'x'); assert b.recv(1) == b'x'
    print('all well')
";
    if let Some(text) = output(&[], "python3", &["-c", code]) {
        assert_eq!(text, "all well\n");
    }
}

#[test]
fn python_computes_under_strict() {
    let code = "import hashlib, json, math; print(sum(range(1000)), math.isqrt(10**10), len(hashlib.sha256(b'x').hexdigest()))";
    if let Some(text) = output(&["--seccomp", "strict"], "python3", &["-c", code]) {
        assert_eq!(text, "499500 100000 64\n");
    }
}

#[test]
fn a_shell_with_pipes_and_substitutions_runs_under_strict() {
    let script = "f() { echo $(($1 * 2)); }; x=$(f 21); printf '%s\\n' b a $x | sort | tr a-z A-Z | { read l; echo $l; cat; } > out; cat out; wait";
    assert_eq!(output(&["--seccomp", "strict"], "sh", &["-c", script]).unwrap(), "42\nA\nB\n");
}

#[test]
fn node_runs_workers_and_children() {
    let code = "
const { Worker } = require('worker_threads'), { execFileSync } = require('child_process'), fs = require('fs');
fs.writeFileSync('file', execFileSync('echo', ['hi']));
new Worker(\"require('worker_threads').parentPort.postMessage(6 * 7)\", { eval: true })
  .on('message', n => console.log(n, fs.readFileSync('file', 'utf8').trim()));
";
    if let Some(text) = output(&[], "node", &["-e", code]) {
        assert_eq!(text, "42 hi\n");
    }
}

#[test]
fn git_makes_a_repository_and_commits() {
    let scratch = Scratch::new();
    let script = "set -e; export HOME=/tmp GIT_CONFIG_NOSYSTEM=1; git init -q -b main .; git config user.name t; git config user.email t@example.org
echo one > file; git add file; git commit -q -m one; git clone -q . /tmp/copy; git -C /tmp/copy log --format=%s; git gc -q; git status --short";
    if installed("git").is_some() {
        let told = run(&scratch, &[], "sh", &["-c", script]).unwrap().ok();
        assert_eq!(told.stdout, "one\n");
        assert!(scratch.join(".git/HEAD").exists(), "on the host's disk");
    }
}

#[test]
fn a_c_compiler_compiles_and_its_program_runs() {
    let scratch = Scratch::new();
    scratch.write("hello.c", "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n");
    if installed("gcc").is_some() {
        let told = run(&scratch, &[], "sh", &["-c", "gcc -O2 -o hello hello.c && ./hello"]).unwrap();
        assert_eq!(told.ok().stdout, "hello\n");
    }
}

#[test]
fn a_make_with_parallel_jobs_runs() {
    let scratch = Scratch::new();
    scratch.write("Makefile", "all: a b c\na b c:\n\t@sleep 0.1; echo $@ > $@\n");
    if installed("make").is_some() {
        run(&scratch, &[], "make", &["-j4", "-s"]).unwrap().ok();
        assert_eq!(std::fs::read_to_string(scratch.join("c")).unwrap(), "c\n");
    }
}

#[test]
fn a_debugger_and_a_tracer_follow_a_child_of_their_own() {
    if let Some(strace) = installed("strace") {
        let script = format!(
            "{} -f -o trace -e trace=execve sh -c 'true; /bin/true'; grep -c execve trace",
            strace.display()
        );
        let told = run(&Scratch::new(), &[], "sh", &["-c", &script]).unwrap().ok();
        assert_eq!(told.stdout, "2\n");
    }
    if let Some(told) = run(&Scratch::new(), &[], "gdb", &["-batch", "-nx", "-ex", "run", "/bin/true"]) {
        assert!(told.ok().stdout.contains("exited normally"));
    }
}

#[test]
fn other_languages_and_tools_start_and_work() {
    let tries: [(&str, &[&str], &str); 9] = [
        (
            "perl",
            &["-e", "print join(',', map { $_ * $_ } 1..5), qq(\n); system('true') == 0 or die"],
            "1,4,9,16,25",
        ),
        (
            "sqlite3",
            &["base.db", "create table t (n); insert into t values (1), (2); select sum(n) from t;"],
            "3",
        ),
        ("ruby", &["-e", "puts Thread.new { 6 * 7 }.value"], "42"),
        ("curl", &["--version"], "curl"),
        ("go", &["version"], "go version"),
        ("tar", &["-cf", "archive.tar", "--totals", "/etc/passwd"], ""),
        ("awk", &["BEGIN { print 6 * 7 }"], "42"),
        ("ssh", &["-V"], ""),
        ("find", &[".", "-maxdepth", "0"], "."),
    ];
    for (name, words, expected) in tries {
        if let Some(text) = output(&[], name, words) {
            assert!(text.starts_with(expected), "{name}: {text:?}");
        }
    }
}

#[test]
fn java_starts() {
    if let Some(told) = run(&Scratch::new(), &[], "java", &["-XX:+UseSerialGC", "-version"]) {
        assert!(told.ok().stderr.contains("version"));
    }
}

#[test]
fn cargo_and_rustc_start() {
    for name in ["cargo", "rustc"] {
        if let Some(text) = output(&[], name, &["--version"]) {
            assert!(text.starts_with(name), "{text}");
        }
    }
}
