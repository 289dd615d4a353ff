//! Pools: sandboxes that were prepared before their commands were known. They are handed out once, only while the disk looks
//! as it did, and are otherwise what they are without a pool.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use kennel::{Ended, GitLevel, Pool, Sandbox, SandboxBuilder, SandboxError, Stdio, Zygote};
use kennel_tests::{Scratch, eventually, role};

const LIMIT: Duration = Duration::from_secs(90);

fn plain() -> SandboxBuilder {
    Sandbox::builder()
}

#[track_caller]
fn plays(name: &str) {
    role::plays(name, LIMIT);
}

fn filled(sandbox: SandboxBuilder, size: usize) -> (Zygote, Pool) {
    let zygote = Zygote::start().expect("a zygote");
    let pool = zygote.pool(&sandbox.build().expect("a sandbox"), size).expect("a pool");
    fill(&pool, size);
    (zygote, pool)
}

fn fill(pool: &Pool, size: usize) {
    eventually("the pool is full", || (pool.ready() == size).then_some(()));
}

/// The children of this process: the zygote, and the inits that wait.
fn children() -> HashSet<u32> {
    let mut all = HashSet::new();
    for task in fs::read_dir("/proc/self/task").expect("a thread").flatten() {
        let list = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        all.extend(list.split_whitespace().map(|pid| pid.parse::<u32>().expect("a number")));
    }
    all
}

/// The role: streams, variables, arguments, folders and descriptors come with the command.
pub fn late(_: &[OsString]) -> i32 {
    let scratch = Scratch::new();
    let folder = scratch.dir("start here");
    let (_zygote, pool) = filled(plain().env("FIXED", "1"), 3);
    let result = pool
        .command("sh")
        .args(["-c", "echo $FIXED $LATE; pwd; cat; echo oops >&2; exit 7"])
        .env("LATE", "2")
        .current_dir(&folder)
        .input("typed")
        .output()
        .expect("it runs");
    assert_eq!(result.stdout, format!("1 2\n{}\ntyped", folder.display()));
    assert_eq!((result.stderr.as_str(), result.exit_code), ("oops\n", 7));
    let mut child =
        pool.command("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    child.take_stdin().expect("a pipe").write_all(b"through").expect("it reads");
    let mut text = String::new();
    child.take_stdout().expect("a pipe").read_to_string(&mut text).expect("it writes");
    assert_eq!((text.as_str(), child.wait().expect("it ends").exit_code), ("through", 0));
    let mut child =
        pool.command("sh").args(["-c", "tty; stty size"]).terminal(30, 100).spawn().expect("it starts");
    let mut shown = String::new();
    child.terminal.take().expect("it has one").read_to_string(&mut shown).expect("it ends");
    assert_eq!(shown, "/dev/pts/0\r\n30 100\r\n");
    assert!(child.wait().expect("it ends").success());
    // A file behind a stream is carried, and nothing inside has it open.
    let input = scratch.write("input", "from a file");
    let output = fs::File::create(scratch.join("output")).expect("a file");
    let script = "cat; readlink /proc/self/fd/0 /proc/self/fd/1 | cut -c1-5";
    let file = fs::File::open(input).expect("a file");
    let mut command = pool.command("sh");
    command.args(["-c", script]).stdin(Stdio::from(file)).stdout(Stdio::from(output));
    assert!(command.spawn().expect("it starts").wait().expect("it ends").success());
    let text = fs::read_to_string(scratch.join("output")).expect("a file");
    assert!(text.starts_with("from a file") && !text.contains("kennel"), "{text}");
    0
}

#[test]
fn what_belongs_to_the_command_comes_with_it() {
    plays("pool-late");
}

/// The role: each sandbox is used once, and nothing of one job is found by the next.
pub fn once(_: &[OsString]) -> i32 {
    let (_zygote, pool) = filled(plain(), 2);
    let script = "ls -A /tmp /dev/shm; ipcs -m 2>/dev/null | grep -c 0x; keyctl show 2>/dev/null; ls /dev/pts; set -- /proc/[0-9]*; echo $#; \
         echo x > /tmp/left; echo x > /dev/shm/left; ipcmk -M 4096 >/dev/null 2>&1; sleep 60 & exit 0";
    let mut seen = HashSet::new();
    let mut shown = Vec::new();
    for _ in 0..6 {
        fill(&pool, 2);
        let waiting = children();
        let result = pool.command("sh").args(["-c", script]).output().expect("it runs");
        assert!(result.success(), "{result:?}");
        seen.insert(waiting.iter().min().copied());
        shown.push(result.stdout);
    }
    assert!(shown.iter().all(|one| *one == shown[0]), "{shown:#?}");
    assert!(!shown[0].contains("left"), "{shown:#?}");
    0
}

#[test]
#[kennel_claim::claim("zygote/one-command-per-sandbox")]
fn a_sandbox_is_used_for_one_command_and_leaves_nothing_to_the_next() {
    plays("pool-once");
}

/// The role: what the disk looks like when the command starts counts, and not what it looked like before.
pub fn changing(_: &[OsString]) -> i32 {
    let scratch = Scratch::new();
    let (work, secret) = (scratch.dir("work"), scratch.write("secret", "old"));
    let sandbox = || {
        plain()
            .allow_write(&work)
            .deny_read(&secret)
            .deny_write(work.join("kept"))
            .git(GitLevel::HooksReadOnly)
    };
    let (zygote, pool) = filled(sandbox(), 3);
    let first = children();
    let hidden = |pool: &Pool| {
        let result = pool.command("cat").arg(&secret).output().expect("it runs");
        assert!(!result.success() && result.stdout.is_empty(), "{result:?}");
    };
    hidden(&pool);
    // A file in the place of the one that is covered.
    fill(&pool, 3);
    fs::write(scratch.join("new"), "new").expect("a file");
    fs::rename(scratch.join("new"), &secret).expect("a file");
    hidden(&pool);
    // The same file, whose only name was away for a moment: the kernel has taken the cover with it.
    fill(&pool, 3);
    fs::hard_link(&secret, scratch.join("other name")).expect("a link");
    fs::remove_file(&secret).expect("a file");
    fs::hard_link(scratch.join("other name"), &secret).expect("a link");
    fs::remove_file(scratch.join("other name")).expect("a file");
    hidden(&pool);
    // A repository that was not there.
    fill(&pool, 3);
    fs::create_dir_all(work.join("repo/.git/hooks")).expect("a folder");
    fs::write(work.join("repo/.git/HEAD"), "ref: refs/heads/main\n").expect("a file");
    fs::create_dir_all(work.join("repo/.git/objects")).expect("a folder");
    fs::create_dir_all(work.join("repo/.git/refs")).expect("a folder");
    let hook = work.join("repo/.git/hooks/post-checkout");
    let planted = pool.command("sh").args(["-c", "echo x > \"$0\""]).arg(&hook).output().expect("it runs");
    assert!(!planted.success() && !hook.exists(), "{planted:?}");
    // The write root itself, replaced.
    fill(&pool, 3);
    fs::rename(&work, scratch.join("away")).expect("a folder");
    fs::create_dir(&work).expect("a folder");
    let written = pool.command("touch").arg(work.join("here")).output().expect("it runs");
    assert!(written.success() && work.join("here").exists(), "{written:?}");
    assert!(!scratch.join("away/here").exists());
    // None of those that were there at first is left.
    fill(&pool, 3);
    let still: HashSet<u32> = first.intersection(&children()).copied().collect();
    assert_eq!(still, zygote.ids().into_iter().collect(), "only the zygote is");
    0
}

#[test]
#[kennel_claim::claim("zygote/changed-disks-are-noticed")]
fn a_sandbox_whose_ground_has_changed_is_never_handed_out() {
    plays("pool-changing");
}

/// The role: what goes wrong is told as it is without a pool, and the pool goes on.
pub fn failing(_: &[OsString]) -> i32 {
    let scratch = Scratch::new();
    let (_zygote, pool) = filled(plain(), 2);
    let error = pool.command("no-such-program").output().expect_err("there is none");
    assert!(error.to_string().contains("no-such-program"), "{error}");
    let error = pool.command("no-such-program").spawn().expect_err("there is none");
    assert!(error.to_string().contains("no-such-program"), "{error}");
    let script = scratch.write("script", "#!/no/such/interpreter\n");
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a file");
    assert!(pool.command(&script).output().is_err());
    let error = pool.command("true").current_dir("/no/such/folder").output().expect_err("there is none");
    assert!(error.to_string().contains("/no/such/folder"), "{error}");
    assert!(pool.run("true", &[]).expect("it runs").success());
    let killed = pool.command("sh").args(["-c", "kill -9 $$"]).output().expect("it runs");
    assert_eq!(killed.ended, Ended::Signalled(9));
    0
}

#[test]
fn what_goes_wrong_is_told_as_without_a_pool() {
    plays("pool-failing");
}

/// The role: sandboxes that wait are killed, and the pool finds out.
pub fn losing(_: &[OsString]) -> i32 {
    let (zygote, pool) = filled(plain(), 3);
    for _ in 0..5 {
        for pid in children().into_iter().filter(|pid| !zygote.ids().contains(pid)) {
            // SAFETY: a plain call to children of this process, which nobody has waited for.
            unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) };
            eventually("it is dead", || {
                let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
                (stat.is_empty() || stat.contains(") Z ")).then_some(())
            });
        }
        assert!(pool.run("true", &[]).expect("it runs").success());
        fill(&pool, 3);
    }
    drop(pool);
    assert_eq!(children(), zygote.ids().into_iter().collect(), "only the zygote is left");
    0
}

#[test]
fn sandboxes_that_die_while_they_wait_are_replaced() {
    plays("pool-losing");
}

/// The role: limits hold, of time from the command's start on.
pub fn limited(_: &[OsString]) -> i32 {
    let builder = plain().wall_time_limit(Duration::from_secs(1)).max_output(1000);
    let (_zygote, pool) = filled(builder, 2);
    std::thread::sleep(Duration::from_millis(1200));
    assert!(pool.run("true", &[]).expect("it runs").success(), "the clock starts with the command");
    fill(&pool, 2);
    assert_eq!(pool.run("sleep", &["30"]).expect("it runs").ended, Ended::TimedOut);
    let flood = pool.command("sh").args(["-c", "yes | head -c 100000"]).output().expect("it runs");
    assert!(flood.stdout.len() <= 1000, "{}", flood.stdout.len());
    0
}

#[test]
fn limits_hold_in_pooled_sandboxes() {
    plays("pool-limited");
}

/// The role: a pool of sandboxes that each have a gate.
pub fn networked(_: &[OsString]) -> i32 {
    let server = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = server.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for client in server.incoming().flatten() {
            let mut client = client;
            let _ = client.read(&mut [0; 1024]);
            let _ = client.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi");
        }
    });
    let builder = plain().allow_domain(format!("127.0.0.1:{port}"));
    let (_zygote, pool) = filled(builder, 2);
    let url = format!("http://127.0.0.1:{port}/");
    for _ in 0..3 {
        let result =
            pool.command("curl").args(["-sS", "-m", "20", "--noproxy", "", &url]).output().expect("it runs");
        assert_eq!(result.stdout, "hi", "{result:?}");
        let refused = pool
            .command("curl")
            .args(["-sS", "-m", "20", "http://example.invalid/"])
            .output()
            .expect("it runs");
        assert!(refused.stdout.contains("example.invalid"), "{refused:?}");
        assert_eq!(refused.network.len(), 1, "{refused:?}");
    }
    0
}

#[test]
fn each_pooled_sandbox_has_a_gate_of_its_own() {
    if kennel_tests::program("curl").is_none() {
        return kennel_tests::skipped("there is no curl");
    }
    plays("pool-networked");
}

/// The role: pools that cannot be.
pub fn refused(_: &[OsString]) -> i32 {
    let zygote = Zygote::start().expect("a zygote");
    let sandbox = plain().build().expect("a sandbox");
    for size in [0, 1001] {
        let error = zygote.pool(&sandbox, size).expect_err("no such size");
        assert!(matches!(&error, SandboxError::ConfigValidation(_)), "{error}");
    }
    let published = plain().publish(18_080, 80).build().expect("a sandbox");
    let error = zygote.pool(&published, 2).expect_err("one port, two sandboxes");
    assert!(error.to_string().contains("18080"), "{error}");
    0
}

#[test]
fn a_pool_that_cannot_be_is_refused() {
    plays("pool-refused");
}

/// The role: each command brings a folder to work in.
pub fn workspaces(_: &[OsString]) -> i32 {
    let scratch = Scratch::new();
    let secret = scratch.write("secret", "word");
    let zygote = Zygote::start().expect("a zygote");
    for listed in [false, true] {
        let mut builder = plain().deny_read(&secret).git(GitLevel::HooksReadOnly).protect_dotfiles(true);
        if listed {
            builder = builder.reads(kennel::ReadModel::Listed);
        }
        let pool = zygote.workspace_pool(&builder.build().expect("a sandbox"), 3).expect("a pool");
        fill(&pool, 3);
        for place in ["one", "two", "deep/er/three"] {
            let folder = scratch.dir(&format!("{place} {listed}"));
            fs::create_dir_all(folder.join(".git/hooks")).expect("a folder");
            for name in ["objects", "refs"] {
                fs::create_dir_all(folder.join(".git").join(name)).expect("a folder");
            }
            fs::write(folder.join(".git/HEAD"), "ref: refs/heads/main\n").expect("a file");
            let waiting = children();
            let script = "pwd; echo done > result; echo x > .git/hooks/pre-commit; echo x > \"$0/../above\"; cat \"$1\"; \
                 mount 2>/dev/null | grep -c x; ls \"$2\"";
            let other = scratch.join("one false");
            let mut command = pool.command("sh");
            command.args(["-c", script]).arg(&folder).arg(&secret).arg(&other).workspace(&folder);
            let result = command.output().expect("it runs");
            assert!(result.stdout.starts_with(&format!("{}\n", folder.display())), "{result:?}");
            assert_eq!(fs::read_to_string(folder.join("result")).expect("it was written"), "done\n");
            assert!(!folder.join(".git/hooks/pre-commit").exists() && !folder.join("../above").exists());
            assert!(!result.stdout.contains("word"), "{result:?}");
            assert_eq!(
                listed && place == "two",
                listed && place == "two" && !result.stdout.contains("result")
            );
            // It was one of those that waited: they are fewer by one, and no other was made for it.
            eventually("the pool is full again", || (pool.ready() == 3).then_some(()));
            assert_eq!(waiting.difference(&children()).count(), 1, "{place}");
        }
        // Without one it is an ordinary sandbox.
        assert!(pool.run("true", &[]).expect("it runs").success());
        // A folder that holds what is hidden cannot be mounted late, and is protected all the same.
        let result = pool.command("cat").arg(&secret).workspace(scratch.path()).output().expect("it runs");
        assert!(!result.success() && result.stdout.is_empty(), "{result:?}");
        let error =
            pool.command("true").workspace(scratch.join("missing")).output().expect_err("there is none");
        assert!(error.to_string().contains("missing"), "{error}");
    }
    0
}

#[test]
#[kennel_claim::claim("zygote/late-workspaces-are-protected")]
fn a_workspace_is_mounted_into_a_sandbox_that_waited() {
    plays("pool-workspaces");
}

/// The role: a network that a command has used in any way is never lent to another; one that was not used may be.
pub fn networks(_: &[OsString]) -> i32 {
    let _zygote = Zygote::start().expect("a zygote");
    let sandbox = plain().build().expect("a sandbox");
    let network = |script: &str| {
        let script = format!("readlink /proc/self/ns/net; {script}");
        let result = sandbox.run("sh", &["-c", &script]).expect("it runs");
        result.stdout.lines().next().expect("a line").to_owned()
    };
    let outside = fs::read_link("/proc/self/ns/net").expect("a link").to_string_lossy().into_owned();
    let mut unused = HashSet::new();
    for _ in 0..12 {
        let own = network("cat /proc/net/dev > /dev/null");
        assert_ne!(own, outside);
        unused.insert(own);
    }
    assert!(unused.len() < 12, "none was lent twice: {unused:?}");
    let python = kennel_tests::program("python3").is_some();
    let connect = "import socket,sys\ns=socket.socket(socket.AF_INET,socket.SOCK_STREAM)\ns.settimeout(5)\ntry: s.connect(('127.0.0.1',9))\nexcept OSError as e: print(e)";
    let udp = "import socket\nsocket.socket(socket.AF_INET,socket.SOCK_DGRAM).sendto(b'x',('127.0.0.1',9))";
    let out = "import socket\ntry: socket.socket(socket.AF_INET,socket.SOCK_DGRAM).sendto(b'x',('192.0.2.1',9))\nexcept OSError as e: print(e)";
    let six = "import socket\ntry: socket.socket(socket.AF_INET6,socket.SOCK_DGRAM).sendto(b'x',('2001:db8::1',9))\nexcept OSError as e: print(e)";
    let talk = "import socket\nl=socket.socket();l.bind(('127.0.0.1',0));l.listen()\nc=socket.create_connection(l.getsockname());a,_=l.accept();a.send(b'x');print(c.recv(1))";
    // A flow label outlives its socket, and no packet is needed for it.
    let label = "import socket,struct\ns=socket.socket(socket.AF_INET6,socket.SOCK_DGRAM)\nr=socket.inet_pton(socket.AF_INET6,'::1')+struct.pack('!I',0x12345)+struct.pack('BBHHHI',0,255,1,0,30,0)\ntry: s.setsockopt(41,32,r)\nexcept OSError as e: print(e)";
    // Groups that were joined are reported later.
    let group = "import socket,struct\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\ns.setsockopt(0,35,socket.inet_aton('239.1.2.3')+socket.inet_aton('127.0.0.1'))";
    let six_group = "import socket,struct\ns=socket.socket(socket.AF_INET6,socket.SOCK_DGRAM)\ntry: s.setsockopt(41,20,socket.inet_pton(socket.AF_INET6,'ff02::1234')+struct.pack('I',1))\nexcept OSError as e: print(e)";
    // Nothing is done with these.
    let idle = "import socket\nsocket.socket(socket.AF_INET6,socket.SOCK_STREAM)";
    let asking = "import socket\nsocket.socket(socket.AF_NETLINK,socket.SOCK_RAW,0)";
    // A socket outlives its sandbox when it was handed to somebody outside.
    let handed = "import socket,array\nl=socket.socket();l.bind(('127.0.0.1',7007));l.listen()\nsocket.socket(fileno=0).sendmsg([b'x'],[(1,1,array.array('i',[l.fileno()]))])";
    let counts = "cat /proc/net/snmp /proc/net/snmp6 /proc/net/netstat /proc/net/dev /proc/net/ip6_flowlabel";
    let fresh = sandbox.run("sh", &["-c", counts]).expect("it runs").stdout;
    if python {
        for script in [connect, udp, out, six, talk, label, group, six_group, idle, asking] {
            let used = network(&format!("python3 -c \"{script}\""));
            for _ in 0..6 {
                assert_ne!(network(":"), used, "a network that was used was lent again: {script}");
            }
            assert_eq!(sandbox.run("sh", &["-c", counts]).expect("it runs").stdout, fresh);
        }
    }
    if python {
        // The message is never read: the kernel keeps the socket that is in it.
        let (_outside, inside) = UnixStream::pair().expect("a pair");
        let script = format!("readlink /proc/self/ns/net; python3 -c \"{handed}\"");
        let mut command = sandbox.command("sh");
        command.args(["-c", &script]).stdin(Stdio::from(OwnedFd::from(inside))).stdout(Stdio::piped());
        let result = command.spawn().expect("it starts").wait_with_output().expect("it ends");
        assert!(result.success(), "{result:?}");
        for _ in 0..6 {
            assert_ne!(network(":"), result.stdout.trim(), "a network with a socket in it was lent again");
        }
    }
    // Two at once have two.
    let script = "readlink /proc/self/ns/net; cat";
    let mut one = sandbox.spawn("sh", &["-c", script]).expect("it starts");
    let other = network(":");
    drop(one.take_stdin());
    assert_ne!(one.wait_with_output().expect("it ends").stdout.trim(), other);
    // It is told that a command tried to reach what is not there, as without a zygote.
    if python {
        let result = sandbox
            .command("python3")
            .args(["-c", &format!("{out}\nsys_exit=1/0")])
            .output()
            .expect("it runs");
        assert!(result.tried_network, "{result:?}");
    }
    // Nobody inside has power over it, root included.
    let result =
        sandbox.run("sh", &["-c", "ip link add x type dummy || ip link set lo down; cat /proc/self/status"]);
    let result = result.expect("it runs");
    assert!(result.stdout.contains("CapEff:\t0000000000000000"), "{result:?}");
    0
}

#[test]
#[kennel_claim::claim("zygote/used-networks-are-not-lent")]
fn a_network_that_was_used_is_never_used_again() {
    plays("pool-networks");
}
