//! Rules on places that kennel provides itself, and the host's mounts of the kernel's file systems: what they mean is the
//! sandbox's own, or they are refused; they never show the host's.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use kennel_tests::{Ran, Scratch, am_root, eventually, kennel, ran};

use crate::filesystem::host_mounts::{Host, among};

/// A process of the host's that a sandbox must not see.
struct Victim(Child);

impl Victim {
    fn new() -> Victim {
        let child = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
        let line = format!("/proc/{}/cmdline", child.id());
        eventually("its command line", || {
            std::fs::read_to_string(&line).ok()?.starts_with("sleep").then_some(())
        });
        Victim(child)
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `kennel run WORDS -- sh -c SCRIPT sh ARGUMENT`. Words are split at blanks.
fn run(words: &str, script: &str, argument: &str) -> Ran {
    let words: Vec<&str> = words.split_whitespace().collect();
    ran(kennel(["run"]).args(words).args(["--", "sh", "-c", script, "sh", argument]))
}

#[test]
#[kennel_claim::claim("processes/rules-on-own-folders")]
fn a_rule_on_proc_by_any_spelling_never_shows_the_hosts() {
    let victim = Victim::new();
    let scratch = Scratch::new();
    symlink("/proc", scratch.join("link")).unwrap();
    symlink("/proc/self/..", scratch.join("dots")).unwrap();
    let (link, dots) = (scratch.join("link"), scratch.join("dots"));
    // Wherever the sandbox could find it, and by its own number too.
    let script = "for proc in /proc /host/proc /mnt/proc; do
                      test -e \"$proc/$1\" && echo \"$proc/$1 shows\"
                      set -- \"$1\" \"$proc\"/[0-9]*
                      test $# -gt 12 && echo \"$proc shows $# processes\"
                  done; exit 0";
    let outside = Command::new("sh").args(["-c", script, "sh", &victim.pid()]).output().unwrap();
    assert!(!outside.stdout.is_empty(), "outside it shows");
    for words in [
        "--deny-read /proc",
        "--deny-read /proc/",
        "--deny-read //proc",
        "--deny-read /./proc/.",
        "--deny-read /proc/self/..",
        "--deny-read /etc/../proc",
        "--deny-read /pro[c]",
        "--deny-read /*/sys",
        "--deny-read /proc/sys",
        "--deny-read /proc/kcore",
        "--deny-write /proc",
        "--allow-read /proc",
        "--allow-read /proc/cpuinfo",
        "--allow-read /pro[c]",
        "--allow-read /*",
        "--allow-write /",
        "--allow-write / --deny-write /proc",
        "--reads listed",
        "--reads listed --allow-read /",
        "--reads listed --allow-read /proc",
        "--reads listed --allow-read /*",
        "--reads listed --deny-read /proc",
        "--reads listed --allow-read / --deny-read /proc",
        "--workdir /proc",
        "--mount /:/host",
        "--mount /:/mnt",
        "--mount /:/mnt:rw",
        "--reads listed --mount /:/host",
        &format!("--deny-read {}", link.display()),
        &format!("--deny-read {}", dots.display()),
        &format!("--allow-read {}", link.display()),
        &format!("--reads listed --allow-read {}", dots.display()),
        &format!("--workdir {}", link.display()),
    ] {
        let told = run(words, script, &victim.pid());
        // The host may have settings or layers of kennel's, which a mount of all in itself cannot keep.
        if words.ends_with("/mnt:rw")
            && told.stderr.contains("is in a mounted folder that a rule partly denies")
        {
            continue;
        }
        assert_eq!(told.ok().stdout, "", "{words}");
    }
}

#[test]
#[kennel_claim::claim("processes/rules-on-own-folders")]
fn what_a_rule_on_the_sandboxes_own_cannot_mean_is_refused_plainly() {
    let victim = Victim::new();
    for words in [
        "--allow-write /proc",
        "--allow-write /proc/sys",
        "--allow-write /proc/sys/kernel/core_pattern",
        "--allow-write /proc/self/..",
        "--allow-write /dev",
        "--allow-write /dev/kmsg",
        "--allow-write /dev/absent",
        "--allow-read /dev/kmsg",
        "--deny-write /dev/null",
        "--device /dev/shm",
        "--device /dev/pts",
        "--device /dev",
        "--allow-write /sys",
        "--allow-write /sys/fs/cgroup",
        "--allow-write /sys/fs/cgroup/absent",
        "--allow-read /run",
        "--allow-write /run",
        "--allow-read /tmp",
        "--allow-write /tmp",
        "--deny-read /proc/self/environ",
        "--deny-read /proc/thread-self",
        "--deny-read /proc --allow-read /proc/cpuinfo",
        "--mount /proc:/x",
        "--mount /proc/sys:/x",
        "--mount /dev:/x",
        "--mount /dev/null:/x",
        "--mount /sys:/x",
        "--mount /sys/fs/cgroup:/x:rw",
        "--mount /etc:/proc",
        "--mount /etc:/proc/x",
        "--mount /etc:/sys/x",
        "--mount /etc:/dev",
        "--tmpfs /proc",
        "--tmpfs /proc/x",
        "--tmpfs /sys",
        "--tmpfs /dev",
        "--workdir /proc/self",
        &format!("--allow-read /proc/{}", victim.pid()),
        &format!("--deny-read /proc/{}/environ", victim.pid()),
        &format!("--reads listed --allow-read /proc/{}", victim.pid()),
        &format!("--workdir /proc/{}", victim.pid()),
    ] {
        let told = run(words, "echo it ran", "");
        assert_eq!((told.code, told.stdout.as_str()), (125, ""), "{words}");
        assert!(told.stderr.starts_with("kennel: resolving "), "{words}: {}", told.stderr);
        assert!(
            told.stderr.contains("\nhelp: ") || words.contains("workdir") || words.ends_with("/dev"),
            "{words}: {}",
            told.stderr
        );
    }
}

#[test]
#[kennel_claim::claim("processes/rules-on-own-folders")]
fn what_is_denied_of_the_sandboxes_own_is_not_there() {
    for (words, script) in [
        ("--deny-read /proc", "test ! -e /proc/self && test ! -e /proc/cpuinfo"),
        ("--reads listed --deny-read /proc", "test ! -e /proc/self"),
        ("--deny-read /dev", "test ! -e /dev/null && test ! -e /dev/pts && test ! -e /dev/shm"),
        ("--reads listed --deny-read /dev", "test ! -e /dev/null"),
        ("--deny-read /de[v]", "test ! -e /dev/null"),
        ("--deny-read /dev/shm", "test ! -w /dev/shm && test -c /dev/null"),
        ("--deny-write /dev/shm", "test -d /dev/shm && ! test -w /dev/shm"),
        ("--deny-read /dev/pts", "test ! -e /dev/pts/ptmx"),
        ("--deny-read /dev/nul?", "! cat /dev/null"),
        ("--deny-read /tmp", "test -d /tmp && ! test -w /tmp"),
        ("--deny-write /tmp", "test -d /tmp && ! test -w /tmp"),
        ("--deny-read /run", "test -d /run && ! test -w /run"),
        ("--deny-read /sys", "test ! -e /sys/fs"),
        ("--reads listed --deny-read /sys", "test ! -e /sys/devices"),
        ("--deny-read /sys/fs", "test ! -e /sys/fs/cgroup"),
        (
            "--deny-read /sys/fs/cgroup",
            "test ! -e /sys/fs/cgroup/cgroup.procs && test ! -e /sys/fs/cgroup/memory",
        ),
        ("--deny-read /sys/devices/system/cpu/online", "! cat /sys/devices/system/cpu/online"),
    ] {
        let told = run(words, script, "");
        assert_eq!(told.code, 0, "{words}: {told:?}");
        // And without the rule it is there.
        let plain = if words.contains("listed") { "--reads listed" } else { "" };
        let told = run(plain, script, "");
        assert!(words.contains("/run") || told.code != 0, "{words} changes nothing");
    }
}

#[test]
#[kennel_claim::claim("processes/no-second-kernel-file-systems")]
fn a_write_root_that_is_the_whole_disk_makes_nothing_of_the_kernels_writable() {
    // For root most of these can be written outside.
    let script = "find /proc /sys /dev/mqueue -maxdepth 5 -type f -writable 2>/dev/null | grep -v '^/proc/[0-9]' | head -3";
    if am_root() {
        let outside = Command::new("sh").args(["-c", script]).output().unwrap();
        assert!(!outside.stdout.is_empty(), "outside root can write there");
    }
    for words in ["--allow-write /", "--allow-write / --user root", "--allow-write / --seccomp none"] {
        let told = run(words, &format!("echo x > \"$1\" && {script}"), "/var/tmp/kennel-test-written").ok();
        assert_eq!(told.stdout, "", "{words}");
    }
    std::fs::remove_file("/var/tmp/kennel-test-written").unwrap();
}

/// A chroot as distributions make them: the kernel's file systems are mounted in it once more.
struct Chroot {
    scratch: Scratch,
}

impl Chroot {
    fn parts() -> [(&'static str, String); 5] {
        let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        // Where there are several hierarchies, that of /sys/fs/cgroup is only a folder for them.
        let cgroup =
            table.lines().find(|line| line.contains(" - cgroup")).and_then(|line| line.split(' ').nth(4));
        [
            ("proc", "/proc".to_owned()),
            ("sys", "/sys".to_owned()),
            ("cgroup", cgroup.unwrap_or("/sys").to_owned()),
            ("dev", "/dev".to_owned()),
            // Not the top, and not its own name.
            ("odd/kernel", "/proc/sys".to_owned()),
        ]
    }

    fn new() -> Chroot {
        let scratch = Scratch::new();
        for (name, _) in Chroot::parts() {
            scratch.dir(&format!("chroot/{name}"));
        }
        scratch.write("chroot/etc/file", "x");
        Chroot { scratch }
    }

    fn at(&self, name: &str) -> String {
        self.scratch.join("chroot").join(name).display().to_string()
    }

    fn run(&self, command: &mut Command) -> Option<Ran> {
        among(command, Chroot::parts().map(|(name, of)| (self.at(name), Host::Bind(of.into()))))
    }
}

/// What a look at the parts of the chroot at `$1` finds.
const LOOK: &str = "cd \"$1\" && cat etc/file > /dev/null || exit 8
    for part in proc sys cgroup dev odd/kernel; do
        for entry in \"$part\"/*; do test -e \"$entry\" && echo \"$entry\" && break; done
        (> \"$part/new\") 2>/dev/null && echo \"$part can be written\"
    done; exit 0";

#[test]
#[kennel_claim::claim("processes/no-second-kernel-file-systems")]
fn a_second_mount_of_a_kernels_file_system_does_not_show() {
    let chroot = Chroot::new();
    let top = chroot.at("");
    let mut bare = Command::new("sh");
    let Some(outside) = chroot.run(bare.args(["-c", LOOK, "sh", &top])) else { return };
    assert!(outside.ok().stdout.lines().count() >= 5, "without a sandbox all five show something");
    let rw = format!("--mount {top}:/mnt:rw");
    for (words, seen_at) in [
        (String::new(), top.as_str()),
        (format!("--allow-write {top}"), &top),
        ("--allow-write /".to_owned(), &top),
        (format!("--reads listed --allow-read {top}"), &top),
        (format!("--allow-read {top}"), &top),
        (format!("--deny-read {}", chroot.at("etc/absent")), &top),
        (rw, "/mnt"),
        (format!("--workdir {top}"), &top),
    ] {
        let mut command = kennel(["run"]);
        command.args(words.split_whitespace()).args(["--", "sh", "-c", LOOK, "sh", seen_at]);
        let Some(told) = chroot.run(&mut command) else { return };
        assert_eq!(told.ok().stdout, "", "{words}");
    }
}

#[test]
#[kennel_claim::claim("processes/no-second-kernel-file-systems")]
fn a_rule_that_leads_into_a_second_mount_is_refused() {
    let chroot = Chroot::new();
    symlink("chroot/proc", chroot.scratch.join("link")).unwrap();
    let link = chroot.scratch.join("link").display().to_string();
    for words in [
        format!("--allow-read {}", chroot.at("proc")),
        format!("--allow-read {}", chroot.at("proc/1")),
        format!("--allow-read {}", chroot.at("odd/kernel/kernel")),
        format!("--allow-write {}", chroot.at("cgroup")),
        format!("--allow-write {}", chroot.at("sys")),
        format!("--allow-write {link}"),
        format!("--mount {}:/mnt", chroot.at("proc")),
        format!("--mount {}:/mnt:rw", chroot.at("cgroup")),
        format!("--reads listed --allow-read {link}"),
    ] {
        let mut command = kennel(["run"]);
        command.args(words.split_whitespace()).args(["--", "echo", "it ran"]);
        let Some(told) = chroot.run(&mut command) else { return };
        assert_eq!(told.code, 125, "{words}");
        assert!(told.stderr.contains("is on a file system of the host's kernel"), "{words}: {told:?}");
    }
}

#[test]
#[kennel_claim::claim("processes/rules-on-own-folders")]
fn starting_in_tmp_or_run_is_starting_in_the_sandboxes_own() {
    let name = format!("kennel-test-{}-start", std::process::id());
    let host = Path::new("/tmp").join(&name);
    std::fs::write(&host, "x").unwrap();
    let mut here = kennel(["run", "--", "sh", "-c", "pwd; test ! -e \"$1\"", "sh", &name]);
    let told = ran(here.current_dir("/tmp"));
    let shown = ran(kennel(["run", "--host-tmp", "--", "cat", &name]).current_dir("/tmp"));
    std::fs::remove_file(&host).unwrap();
    assert_eq!(told.ok().stdout, "/tmp\n");
    assert_eq!(shown.ok().stdout, "x");
    let told = ran(kennel(["run", "--", "pwd"]).current_dir("/run")).ok();
    assert_eq!(told.stdout, "/run\n");
}
