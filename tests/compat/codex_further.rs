//! What Codex's helper 0.166 does beside its policies, in both programs: where a command starts, shared memory, pairs of
//! sockets, files with several names, and what its own tests try.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use kennel_tests::{Ran, program, ran_within, skipped};

use crate::compat::peers::Codex;
use crate::compat::world::{Place, Which, codex_helper, installed};

/// Everything can be read.
pub const ALL: &str = r#"{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}"#;
/// What both programs need to start at all.
pub const LEAST: &str = r#"{"path":{"type":"special","value":{"kind":"minimal"}},"access":"read"},
    {"path":{"type":"path","path":"TOP/real"},"access":"read","missing_path_behavior":"skip"},
    {"path":{"type":"path","path":"PEERS"},"access":"read","missing_path_behavior":"skip"}"#;
/// The workspace can be written.
pub const WORK: &str = r#"{"path":{"type":"special","value":{"kind":"project_roots"}},"access":"write"}"#;

pub fn entry(path: &str, access: &str) -> String {
    format!(r#"{{"path":{{"type":"path","path":"{path}"}},"access":"{access}"}}"#)
}

pub fn profile(entries: &[&str], network: &str) -> String {
    let entries = entries.join(",");
    format!(
        r#"{{"type":"managed","file_system":{{"type":"restricted","entries":[{entries}]}},"network":"{network}"}}"#
    )
}

/// What one of the programs is called with, and in which place.
pub struct Trial<'a> {
    pub place: &'a Place,
    pub profile: &'a str,
    pub flags: &'a [&'a str],
    pub variables: &'a [(&'a str, &'a str)],
}

impl Trial<'_> {
    /// Runs a command; `None` where the real program is not installed.
    pub fn run(&self, which: Which, command: &[&str]) -> Option<Ran> {
        let mut helper = codex_helper(which, Codex::Profile, self.place)?;
        helper.arg("--permission-profile").arg(self.place.fill_in(self.profile));
        helper.args(self.flags.iter().map(|word| self.place.fill_in(word))).arg("--").args(command);
        for (name, value) in self.variables {
            helper.env(name, self.place.fill_in(value));
        }
        Some(ran_within(Duration::from_secs(60), &mut helper))
    }

    /// What a script prints in a program, with what it says of errors.
    fn prints(&self, which: Which, script: &str) -> Option<String> {
        let ran = self.run(which, &["bash", "-c", script])?;
        let top = self.place.top().display().to_string();
        Some((ran.stdout + &ran.stderr).replace(&top, "TOP"))
    }
}

/// Where something was tried: a fresh place for each program.
fn both(make: impl Fn(&Place), profile: &str, flags: &[&str], script: &str) -> (String, Option<String>) {
    let told = |which| {
        let place = Place::new();
        make(&place);
        Trial { place: &place, profile, flags, variables: &[] }.prints(which, script)
    };
    (told(Which::Kennel).expect("kennel is there"), told(Which::Real))
}

#[test]
fn the_command_starts_where_the_real_one_starts() {
    if !installed(&["bash"]) {
        return;
    }
    let make = |place: &Place| {
        place.dir("target");
        place.link("alias", "target");
    };
    let (open, hidden) = (profile(&[ALL, WORK], "restricted"), profile(&[LEAST], "restricted"));
    let home = profile(&[LEAST, &entry("TOP/home", "read")], "restricted");
    for (profile, flags, expected) in [
        (&open, &[][..], "TOP/work"),
        (&open, &["--command-cwd", "TOP/work"], "TOP/work"),
        (&open, &["--command-cwd", "TOP/not-there"], "TOP/work"),
        (&open, &["--command-cwd", "/etc/passwd"], "TOP/work"),
        (&open, &["--command-cwd", "not-there"], "TOP/work"),
        (&open, &["--command-cwd", "/etc"], "TOP/work"),
        (&open, &["--command-cwd", "TOP/alias"], "TOP/target"),
        (&hidden, &[], "/"),
        (&hidden, &["--command-cwd", "TOP/work"], "/"),
        (&hidden, &["--command-cwd", "TOP/not-there"], "/"),
        (&home, &[], "TOP/home"),
        (&home, &["--command-cwd", "TOP/work"], "TOP/home"),
    ] {
        let (kennel, real) = both(make, profile, flags, "/bin/pwd");
        assert_eq!(kennel.trim_end(), expected, "{flags:?} {profile}");
        if let Some(real) = real {
            assert_eq!(real.trim_end(), expected, "the real one: {flags:?} {profile}");
        }
    }
    // The one case in which the real one refuses.
    let (kennel, real) = both(make, &hidden, &["--command-cwd", "TOP/alias"], "/bin/pwd");
    assert_eq!(kennel.trim_end(), "/");
    if let Some(real) = real {
        assert!(real.contains("Can't chdir"), "{real}");
    }
}

#[test]
fn a_folder_that_is_gone_is_started_without() {
    let place = Place::new();
    let gone = place.dir("gone");
    let mut bash = std::process::Command::new("bash");
    let helper = codex_helper(Which::Kennel, Codex::Profile, &place).expect("kennel is there");
    bash.args([
        "-c",
        r#"rmdir "$PWD"; exec "$0" --sandbox-policy-cwd / --permission-profile "$1" -- /bin/pwd"#,
    ]);
    bash.arg(helper.get_program()).arg(profile(&[ALL], "restricted"));
    place.dressed(&mut bash).current_dir(gone);
    let ran = ran_within(Duration::from_secs(60), &mut bash).ok();
    assert_eq!(ran.stdout.trim_end(), place.top().join("home").to_str().expect("a name"));
}

/// Shared memory of the host's, with a file and a folder, for one test.
struct Shared(std::path::PathBuf);

impl Shared {
    fn new(which: Which) -> Option<Shared> {
        let path = Path::new("/dev/shm").join(format!("kennel-compat-{}-{which:?}", std::process::id()));
        let made = std::fs::create_dir_all(path.join("folder"))
            .and_then(|()| std::fs::write(path.join("file"), "host\n"))
            .and_then(|()| std::fs::write(path.join("folder/file"), "host\n"));
        if made.is_err() {
            skipped("/dev/shm cannot be written");
            return None;
        }
        Some(Shared(path))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn shared_memory_is_the_hosts_where_an_entry_is_about_it() {
    if !installed(&["bash"]) {
        return;
    }
    let script = "word() { if (eval \"$2\") >/dev/null 2>&1; then echo -n \" $1\"; fi; }
        word reads 'cat SHM/file'; word reads-in-folder 'cat SHM/folder/file'
        word writes 'echo new > SHM/new'; word writes-in-folder 'echo new > SHM/folder/new'
        word overwrites 'echo new > SHM/file'; word has-some 'echo x > /dev/shm/kennel-compat-some'";
    let written = r#"{"path":{"type":"special","value":{"kind":"root"}},"access":"write"}"#;
    let (shm, folder) = (|access| entry("SHM", access), |access| entry("SHM/folder", access));
    let all = entry("/dev/shm", "write");
    let managed = |entries: &[&str]| profile(entries, "restricted");
    for profile in [
        managed(&[ALL]),
        managed(&[ALL, &all]),
        managed(&[ALL, &shm("write")]),
        managed(&[ALL, &folder("write")]),
        managed(&[LEAST, &folder("write")]),
        managed(&[ALL, &shm("read")]),
        managed(&[LEAST, &shm("read")]),
        managed(&[ALL, &entry("/dev/shm", "read")]),
        managed(&[LEAST, &entry("/dev/shm", "read")]),
        managed(&[written]),
        managed(&[written, &entry("/dev/shm", "read")]),
        managed(&[written, &entry("/dev/shm", "deny")]),
        managed(&[ALL, &all, &folder("deny")]),
        managed(&[ALL, &all, &entry("SHM/file", "deny")]),
        managed(&[ALL, &all, &folder("read")]),
        managed(&[ALL, &entry("/dev/shm", "deny"), &folder("write")]),
        r#"{"type":"disabled"}"#.to_owned(),
    ] {
        let told = |which| {
            let (place, shared) = (Place::new(), Shared::new(which)?);
            let at = shared.0.display().to_string();
            let (profile, script) = (profile.replace("SHM", &at), script.replace("SHM", &at));
            let trial = Trial { place: &place, profile: &profile, flags: &[], variables: &[] };
            let inside = trial.prints(which, &script)?.replace(&at, "SHM");
            let _ = std::fs::remove_file("/dev/shm/kennel-compat-some");
            let file = |name| std::fs::read_to_string(shared.0.join(name)).unwrap_or_else(|_| "none".into());
            Some((inside, ["file", "new", "folder/new"].map(file)))
        };
        let Some(kennel) = told(Which::Kennel) else { return };
        if profile.contains(&all) && !profile.contains("SHM") {
            assert_eq!(kennel.1, ["new\n"; 3], "what was written is there afterwards");
        }
        match told(Which::Real) {
            // It wants to put something into the root folder, which an ordinary user cannot.
            Some((said, _)) if said.contains("Can't mkdir /.git") => {}
            Some(real) => assert_eq!(kennel, real, "{profile}"),
            None => {}
        }
    }
}

#[test]
fn a_pair_of_datagram_sockets_works_and_reaches_nobody_else() {
    let Some(python) = program("python3").filter(|_| Path::new("/usr/bin/python3").exists()) else {
        return skipped("there is no /usr/bin/python3");
    };
    drop(python);
    // What a pair is for.
    let talks = "import os, socket
for kind in socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_STREAM, socket.SOCK_SEQPACKET:
    a, b = socket.socketpair(socket.AF_UNIX, kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    for text in b'one', b'two and three': os.write(a.fileno(), text)
    got = b.recv(100)
    print(got if kind != socket.SOCK_STREAM else len(got), a.getblocking(), a.get_inheritable())
    if kind != socket.SOCK_STREAM: print(b.recvmsg(100)[0])
";
    // And what it must not be used for.
    let reaches = "
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
for name in 'TOP/daemon', '\\0kennel-compat':
    for way in lambda: a.sendto(b'out', name), lambda: a.sendmsg([b'out'], [], 0, name), lambda: a.connect(name):
        try: way()
        except OSError: pass
        else: a.send(b'out')
    try: a.connect(name); print('connected')
    except OSError: pass
import fcntl, struct
SIOCGIFCONF = 0x8912
print(struct.unpack('i', fcntl.ioctl(a, SIOCGIFCONF, struct.pack('iLL', 0, 0, 0))[:4])[0] // 40)
";
    let restricted = profile(&[ALL, WORK], "restricted");
    for (profile, flags) in [
        (&restricted, &[][..]),
        (&profile(&[ALL, WORK], "enabled"), &["--managed-network", "{}"]),
        (&restricted, &["--managed-network", "{}"]),
    ] {
        let place = Place::new();
        let trial =
            Trial { place: &place, profile, flags, variables: &[("HTTP_PROXY", "http://127.0.0.1:9")] };
        let told =
            |which, script: &str| Some(trial.run(which, &["/usr/bin/python3", "-c", script])?.ok().stdout);
        let kennel = told(Which::Kennel, talks).expect("kennel is there");
        assert!(kennel.starts_with("b'one' False False\nb'two and three'\n"), "{kennel}");
        if let Some(real) = told(Which::Real, talks) {
            assert_eq!(kennel, real, "{flags:?}");
        }
        let daemon = UnixDatagram::bind(place.top().join("daemon")).expect("a scratch folder takes a socket");
        daemon.set_read_timeout(Some(Duration::from_millis(300))).expect("a time limit");
        let script = place.fill_in(&format!("{talks}{reaches}"));
        let told = told(Which::Kennel, &script).expect("kennel is there");
        assert!(daemon.recv(&mut [0; 16]).is_err(), "{flags:?}: the host's socket was reached");
        assert!(!told.contains("connected"), "{told}");
        assert!(told.ends_with("\n1\n"), "the sockets are of a network with a loopback alone: {told}");
    }
}

#[test]
#[kennel_claim::claim("files/no-second-name")]
fn the_other_names_of_a_denied_file_stop_nothing_and_are_denied_in_the_workspace() {
    if !installed(&["bash"]) {
        return;
    }
    let make = |place: &Place| {
        place.host(
            "mkdir sub; echo secret > a.key; ln a.key sub/copy; ln a.key ../elsewhere; echo x > kept; ln kept sub/kept",
        );
    };
    let glob = r#"{"path":{"type":"glob_pattern","pattern":"TOP/work/**/*.key"},"access":"deny"}"#;
    let profile = profile(&[ALL, WORK, glob, &entry("TOP/work/kept", "read")], "restricted");
    let script = "try() { if (eval \"$1\") >/dev/null 2>&1; then echo \"$1\"; fi; }
        try 'cat a.key'; try 'cat sub/copy'; try 'cat ../elsewhere'; try 'echo x > kept'; try 'echo x > sub/kept'
        try 'cat sub/kept'; try 'echo x > new'";
    let (kennel, real) = both(make, &profile, &[], script);
    assert_eq!(kennel, "cat ../elsewhere\ncat sub/kept\necho x > new\n");
    if let Some(real) = real {
        let all = "cat sub/copy\ncat ../elsewhere\necho x > sub/kept\ncat sub/kept\necho x > new\n";
        assert_eq!(real, all, "the real one is about one name");
    }
}

/// Root looks into every folder; an ordinary user does not, but can open its own again from inside.
#[test]
fn the_other_names_of_a_denied_file_are_denied_in_folders_that_an_earlier_run_shut() {
    if !installed(&["bash"]) {
        return;
    }
    let makes: [fn(&Place); 4] = [
        |place| drop(place.host("mkdir sub; echo secret > a.key; ln a.key sub/copy; chmod 0000 sub")),
        |place| drop(place.host("mkdir sub; echo secret > a.key; ln a.key sub/copy; chmod 0100 sub")),
        |place| drop(place.host("mkdir sub; echo secret > a.key; ln a.key sub/copy; chmod 0300 sub")),
        |place| drop(place.host("mkdir sub; echo secret > a.key; ln a.key sub/copy; chmod 0400 sub")),
    ];
    let profile = profile(&[ALL, WORK, &entry("TOP/work/a.key", "deny")], "restricted");
    for make in makes {
        let (kennel, _) = both(make, &profile, &[], "chmod 755 sub; cat sub/copy; echo done");
        assert!(!kennel.contains("secret") && kennel.contains("done"), "{kennel}");
    }
}

/// Codex offers to run a command anew, without a sandbox, if what failed says one of these.
const DENIED: [&str; 3] = ["Operation not permitted", "Permission denied", "EACCES"];

#[test]
fn a_connection_that_is_denied_says_so() {
    let closed = profile(&[ALL], "restricted");
    let mut tries = vec![
        "exec 3<>/dev/tcp/192.0.2.1/80".to_owned(),
        "exec 3<>/dev/tcp/2001:db8::1/80".to_owned(),
        "echo x > /dev/udp/192.0.2.1/53".to_owned(),
    ];
    if Path::new("/usr/bin/python3").exists() {
        tries.push(
            "/usr/bin/python3 -c 'import urllib.request as u; u.urlopen(\"http://192.0.2.1/\")'".into(),
        );
    }
    for script in &tries {
        let (kennel, real) = both(|_| {}, &closed, &[], script);
        assert!(DENIED.iter().any(|word| kennel.contains(word)), "{script}: {kennel}");
        if let Some(real) = real {
            assert!(DENIED.iter().any(|word| real.contains(word)), "the real one: {script}: {real}");
        }
    }
}

#[test]
fn temporary_folders_are_kept_from_what_tools_take_orders_from() {
    if !installed(&["bash"]) {
        return;
    }
    let tmpdir = r#"{"path":{"type":"special","value":{"kind":"tmpdir"}},"access":"write"}"#;
    let profile = profile(&[ALL, WORK, tmpdir], "restricted");
    let script = "for name in .git .codex .agents .aws .ssh; do
            mkdir \"$TMPDIR/$name\" 2>/dev/null && echo \"$name\"; done
        (echo x > \"$TMPDIR/.aws/config\") 2>/dev/null && echo written
        mkdir -p \"$TMPDIR/sub/.git\" && echo x > \"$TMPDIR/sub/.git/config\" && echo below";
    let told = |which| {
        let place = Place::new();
        place.dir("tmp");
        let variables = &[("TMPDIR", "TOP/tmp")];
        Trial { place: &place, profile: &profile, flags: &[], variables }.prints(which, script)
    };
    let kennel = told(Which::Kennel).expect("kennel is there");
    assert_eq!(kennel, ".ssh\nbelow\n");
    if let Some(real) = told(Which::Real) {
        assert_eq!(real, kennel);
    }
}

/// Others share these folders; what they make there at any time is no business of the command's.
#[test]
fn what_others_make_in_a_temporary_folder_ends_nothing() {
    let place = Place::new();
    let tmp = place.dir("tmp");
    let tmpdir = r#"{"path":{"type":"special","value":{"kind":"tmpdir"}},"access":"write"}"#;
    let mut helper = codex_helper(Which::Kennel, Codex::Profile, &place).expect("kennel is there");
    let script = "mkdir $TMPDIR/ready; while ! test -e $TMPDIR/.git; do sleep 0.05; done
        mkdir $TMPDIR/more; mv $TMPDIR/more $TMPDIR/.codex 2>/dev/null || echo still here";
    helper
        .arg("--permission-profile")
        .arg(profile(&[ALL, WORK, tmpdir], "restricted"))
        .args(["--", "bash", "-c", script]);
    let helper =
        helper.env("TMPDIR", &tmp).stdout(std::process::Stdio::piped()).spawn().expect("kennel is there");
    kennel_tests::eventually("the command", || tmp.join("ready").exists().then_some(()));
    std::fs::create_dir(tmp.join(".git")).expect("a scratch folder is writable");
    let told = helper.wait_with_output().expect("it is ours");
    assert!(told.status.success(), "{told:?}");
    assert_eq!(String::from_utf8_lossy(&told.stdout), "still here\n");
    assert!(tmp.join(".git").exists() && !tmp.join(".codex").exists());
}

/// What the tests of Codex's own helper try, each in one line: what it prints is the same in both.
#[test]
fn what_its_own_tests_try() {
    if !installed(&["git", "bash"]) {
        return;
    }
    let make = |place: &Place| {
        place.host(
            "git init -q .. && mkdir -p blocked/allowed decoy .aws && echo secret > blocked/file && echo x > .aws/config
             mkdir ../denied && echo private > ../denied/file && ln -s ../outside link-out && mkdir ../outside",
        );
    };
    let work = &[ALL, WORK][..];
    let (open, closed) = (profile(work, "enabled"), profile(work, "restricted"));
    let blocked = entry("TOP/work/blocked", "deny");
    let denied = entry("TOP/denied", "deny");
    let missing = entry("TOP/missing", "write");
    let deny = [ALL, WORK, &blocked];
    let allowed = entry("TOP/work/blocked/allowed", "write");
    for (profile, script) in [
        (&closed, "ls -l /bin > /dev/null && echo read"),
        (&closed, "echo x > /var/tmp/kennel-compat-x || echo refused"),
        (&open, "echo x > /dev/null && echo written"),
        (&open, "for node in null zero full random urandom tty; do test -c /dev/$node || echo $node; done"),
        (&open, "echo x > test && cat test"),
        (&profile(&[ALL, WORK, &missing], "enabled"), "echo started; test -e ../missing && echo made"),
        (&closed, "grep NoNewPrivs /proc/self/status; grep -E '^Cap(Prm|Eff)' /proc/self/status"),
        (&open, "grep NoNewPrivs /proc/self/status"),
        (&open, "echo x > link-out/new 2>/dev/null || echo refused"),
        // A repository above the workspace is found, and none can be made in it.
        (&open, "git rev-parse --show-toplevel; git init -q . 2>/dev/null || echo refused"),
        (&open, "mkdir .codex 2>/dev/null || echo refused"),
        (&open, "echo x > .aws/config 2>/dev/null || echo refused; cat .aws/config; ls .aws"),
        (&open, "rm -rf .aws 2>/dev/null || echo refused; mv .aws gone 2>/dev/null || echo refused; ls .aws"),
        // Entries in entries.
        (&profile(&deny, "enabled"), "cat blocked/file 2>/dev/null || echo refused"),
        (&profile(&deny, "enabled"), "echo x > blocked/new 2>/dev/null || echo refused"),
        (&profile(&[ALL, WORK, &blocked, &allowed], "enabled"), "echo x > blocked/allowed/new && cat blocked/allowed/new"),
        (&profile(&[LEAST, WORK, &blocked, &allowed], "enabled"), "echo x > blocked/allowed/new && cat blocked/allowed/new"),
        (&profile(&[ALL, &denied], "enabled"), "cat ../denied/file 2>/dev/null || echo refused"),
        (&profile(&[LEAST, WORK, &denied], "enabled"), "cat ../denied/file 2>/dev/null || echo refused; echo x > new && echo made"),
        // No network, whoever asks.
        (&closed, "curl -sS -m 9 -I http://openai.com >/dev/null 2>&1 || echo refused"),
        (&closed, "wget -T 9 -t 1 -qO- http://openai.com 2>/dev/null || echo refused"),
        (&closed, "ping -c 1 -W 3 192.0.2.1 >/dev/null 2>&1 || echo refused"),
        (&closed, "ssh -o BatchMode=yes -o ConnectTimeout=3 192.0.2.1 2>/dev/null || echo refused"),
        (&closed, "getent ahosts openai.com || echo refused"),
        (&closed, "(echo hi > /dev/tcp/127.0.0.1/80) 2>/dev/null || echo refused"),
        // Orphans are reaped, and nothing of the host's is there to see.
        (&closed, "orphan=$(bash -c 'sleep 0.05 </dev/null >/dev/null 2>&1 & echo $!')
            for _ in $(seq 100); do test -e /proc/$orphan || { echo reaped; exit; }; sleep 0.05; done; echo left"),
        (&closed, "exit 7"),
        (&closed, "kill -TERM $$"),
    ] {
        let told = |which| {
            let place = Place::new();
            make(&place);
            let trial = Trial { place: &place, profile, flags: &[], variables: &[] };
            let ran = trial.run(which, &["bash", "-c", script])?;
            Some((ran.code, ran.stdout.replace(&place.top().display().to_string(), "TOP")))
        };
        let kennel = told(Which::Kennel).expect("kennel is there");
        if let Some(real) = told(Which::Real) {
            assert_eq!(kennel, real, "{profile}\n{script}");
        }
    }
}

#[test]
fn a_protected_folder_that_is_a_link_is_kept() {
    let make = |place: &Place| drop(place.host("mkdir decoy && ln -s decoy .codex"));
    let profile = profile(&[ALL, WORK], "restricted");
    let script =
        "(echo x > .codex/config.toml) 2>/dev/null || echo refused; rm .codex 2>/dev/null || echo refused";
    let (kennel, real) = both(make, &profile, &[], script);
    assert_eq!(kennel, "refused\nrefused\n");
    if let Some(real) = real {
        assert!(
            real.contains("cannot enforce sandbox read-only path"),
            "the real one does not start: {real}"
        );
    }
}
