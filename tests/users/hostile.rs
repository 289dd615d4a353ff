//! A root inside that wants out.

use kennel_tests::{Scratch, am_root, program, ran, run_sh, skipped};

use super::{as_root, possible};

/// Calls by their names and numbers on x86-64 and aarch64, and what each is tried with for every mount.
const MOUNTS: &str = r#"
import ctypes, os, platform
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
x = platform.machine() == 'x86_64'
N = dict(mount=165 if x else 40, umount2=166 if x else 39, pivot_root=155 if x else 41, chroot=161 if x else 51,
    unshare=272 if x else 97, setns=308 if x else 268, open_tree=428, move_mount=429, fsopen=430, fsmount=432,
    fspick=433, mount_setattr=442, sethostname=170 if x else 161, bpf=321 if x else 280, keyctl=250 if x else 219,
    open_by_handle_at=304 if x else 265, init_module=175 if x else 105, reboot=169 if x else 142, clone3=435,
    add_key=248 if x else 217, settimeofday=164 if x else 170, swapon=167 if x else 224, ptrace=101 if x else 117,
    mknodat=259 if x else 33, process_vm_readv=310 if x else 270, kcmp=312 if x else 272, perf=298 if x else 241)
def call(name, *args):
    done = []
    for a in args:
        done.append(ctypes.c_char_p(a) if isinstance(a, bytes) else ctypes.c_long(a) if isinstance(a, int) else a)
    r = libc.syscall(ctypes.c_long(N[name]), *done)
    return r if r >= 0 else -ctypes.get_errno()
def refused(what, r):
    if r >= 0:
        print('SUCCEEDED', what, r)
mounts = [line.split()[4].encode().decode('unicode_escape').encode() for line in open('/proc/self/mountinfo')]
for m in mounts:
    for flags in (0, 1, 2, 8):
        refused(('umount', m, flags), call('umount2', m, flags))
    refused(('remount rw', m), call('mount', b'none', m, b'', 32 | 4096, 0))
    refused(('remount suid', m), call('mount', b'none', m, b'', 32, 0))
    refused(('move', m), call('mount', m, b'/tmp', b'', 8192, 0))
    refused(('overmount', m), call('mount', b'x', m, b'tmpfs', 0, 0))
    refused(('bind over', m), call('mount', b'/tmp', m, b'', 4096, 0))
    refused(('propagation', m), call('mount', b'', m, b'', 1 << 20, 0))
    refused(('open_tree', m), call('open_tree', -100, m, 1))
    refused(('fspick', m), call('fspick', -100, m, 0))
    attr = (ctypes.c_uint64 * 4)(0, 1, 0, 0)
    refused(('setattr', m), call('mount_setattr', -100, m, 0, ctypes.byref(attr), 32))
refused('pivot_root', call('pivot_root', b'/tmp', b'/tmp'))
refused('chroot', call('chroot', b'/tmp'))
for fs in (b'tmpfs', b'proc', b'sysfs', b'overlay', b'cgroup2', b'devpts', b'mqueue', b'ext4'):
    refused(('fsopen', fs), call('fsopen', fs, 0))
for flag in (0x20000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000, 0x80):
    refused(('unshare', hex(flag)), call('unshare', flag))
refused('clone3', call('clone3', 0, 0))
for ns in ('mnt', 'user', 'pid', 'net', 'uts', 'ipc', 'cgroup'):
    for pid in ('1', 'self'):
        try:
            fd = os.open('/proc/%s/ns/%s' % (pid, ns), os.O_RDONLY)
        except OSError:
            continue
        refused(('setns', pid, ns), call('setns', fd, 0))
        os.close(fd)
refused('sethostname', call('sethostname', b'x', 1))
for name, mode in (('c', 0o20666), ('b', 0o60666)):
    refused(('mknod', name), call('mknodat', -100, ('/tmp/' + name).encode(), mode, 0x103))
refused('bpf', call('bpf', 0, 0, 0))
refused('keyctl', call('keyctl', 0, -3, 0))
refused('add_key', call('add_key', b'user', b'x', b'y', 1, -3))
refused('handle', call('open_by_handle_at', -100, 0, 0))
refused('module', call('init_module', 0, 0, b''))
refused('reboot', call('reboot', 0xfee1dead, 672274793, 0, 0))
refused('time', call('settimeofday', 0, 0))
refused('swapon', call('swapon', b'/tmp/x', 0))
refused('ptrace 1', call('ptrace', 16, 1, 0, 0))
refused('seize 1', call('ptrace', 0x4206, 1, 0, 0))
refused('perf', call('perf', 0, 0, -1, -1, 0))
for name in ('mem', 'environ', 'maps', 'auxv', 'stack', 'syscall', 'exe', 'root', 'cwd', 'fd/3', 'map_files'):
    path = '/proc/1/' + name
    try:
        if name in ('exe', 'root', 'cwd', 'fd/3'):
            print('SUCCEEDED readlink', path, os.readlink(path))
        elif name == 'map_files':
            for entry in os.listdir(path):
                os.open(path + '/' + entry, os.O_RDONLY)
                print('SUCCEEDED', path, entry)
        else:
            with open(path, 'rb') as f:
                data = f.read(64)
                if data:
                    print('SUCCEEDED read', path, data)
    except OSError:
        pass
for path in ('/proc/sys/kernel/core_pattern', '/proc/sys/kernel/hostname', '/proc/sys/net/ipv4/ip_forward',
             '/proc/sysrq-trigger', '/proc/1/oom_score_adj', '/proc/self/uid_map', '/proc/self/loginuid',
             '/proc/sys/user/max_user_namespaces', '/sys/kernel/mm/ksm/run', '/proc/1/attr/current'):
    try:
        os.open(path, os.O_WRONLY)
        print('SUCCEEDED open for writing', path)
    except OSError:
        pass
for signal in (9, 15, 1, 2, 19):
    try:
        os.kill(1, signal)
    except PermissionError:
        pass
print('mounts', len(mounts) > 5)
"#;

#[test]
#[kennel_claim::claim("users/root-inside-changes-nothing-of-the-kernel", "users/pid-1-is-out-of-reach")]
fn the_root_inside_changes_no_mount_no_namespace_and_nothing_of_the_kernel() {
    if !possible() {
        return;
    }
    if program("python3").is_none() {
        return skipped("python3 is not installed");
    }
    let place = Scratch::new();
    place.write(".env", "secret");
    let script = place.write("attack.py", MOUNTS);
    let (write, script) = (place.path().display().to_string(), format!("python3 {}", script.display()));
    let flags = ["--users", "root,builder", "--allow-write", &write, "--deny-read", "**/.env", "-C", &write];
    for seccomp in ["default", "permissive"] {
        let ran = run_sh(flags.iter().chain(&["--seccomp", seccomp]), &script).ok();
        assert_eq!(ran.stdout, "mounts True\n", "{seccomp}");
    }
    // Listed reads, too: there the root is the sandbox's own.
    let listed = ["--reads", "listed"];
    let ran = run_sh(flags.iter().chain(&listed), &script).ok();
    assert_eq!(ran.stdout, "mounts True\n");
}

#[test]
#[kennel_claim::claim("users/few-capabilities")]
fn its_capabilities_are_few_and_no_program_gives_it_more() {
    if !possible() {
        return;
    }
    let place = Scratch::new();
    let write = place.path().display().to_string();
    // CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID and SETUID.
    let sets = "grep -E 'Cap|NoNewPrivs' /proc/self/status | sort";
    let script = format!("{sets}; setpriv --nnp {sets}");
    let ran = as_root(&[], &script).ok();
    let expected = "CapAmb:\t0000000000000000\nCapBnd:\t00000000000000fb\nCapEff:\t00000000000000fb\n\
                    CapInh:\t0000000000000000\nCapPrm:\t00000000000000fb\nNoNewPrivs:\t1\n";
    assert!(ran.stdout.starts_with(expected), "{}", ran.stdout);
    let python = "import ctypes,sys\nl=ctypes.CDLL(None,use_errno=True)\n\
                  for what in ((47,2,1,0,0),(24,0,0,0,0),(28,0,0,0,0)):\n  r=l.prctl(*what)\n  print(what, r)\n";
    // No ambient capability, nothing dropped from or added to the bounding set, no change of the secure bits.
    let ran = as_root(&[], &format!("python3 -c \"{python}\"")).ok();
    assert_eq!(ran.stdout, "(47, 2, 1, 0, 0) -1\n(24, 0, 0, 0, 0) -1\n(28, 0, 0, 0, 0) -1\n");
    // Programs with set-user-ID bits and file capabilities, of the host's and of its own.
    let script = "su builder -c 'su root -c id </dev/null; sudo -n id; newgrp root </dev/null; mount -t tmpfs x /mnt; \
                  ping -c1 127.0.0.1; passwd -S' 2>/dev/null | grep -c uid=0; cp /bin/id /tmp/id; chmod 4755 /tmp/id 2>/dev/null; \
                  su builder -c /tmp/id; setcap cap_sys_admin+ep /tmp/id 2>/dev/null && echo SUCCEEDED; true";
    for flags in [&[][..], &["--allow-write", &write]] {
        let ran = as_root(flags, script).ok();
        assert!(ran.stdout.starts_with("0\nuid=1000(builder)"), "{}", ran.stdout);
        assert!(!ran.stdout.contains("SUCCEEDED") && !ran.stdout.contains("euid=0"), "{}", ran.stdout);
    }
}

#[test]
#[kennel_claim::claim("users/file-rules-hold")]
fn deny_rules_and_read_only_mounts_hold_against_it() {
    if !possible() {
        return;
    }
    let place = Scratch::new();
    place.write("w/.env", "canary-1");
    place.write("w/hidden/key", "canary-2");
    place.write("w/kept", "kept");
    place.write("out/file", "outside");
    let write = place.join("w").display().to_string();
    let flags = [
        "--allow-write",
        &write,
        "--deny-read",
        ".env",
        "--deny-read",
        "hidden",
        "--deny-write",
        "kept",
        "--deny-read",
        "absent",
        "-C",
        &write,
    ];
    let flags: Vec<String> = flags
        .iter()
        .map(|flag| {
            if [".env", "hidden", "kept", "absent"].contains(flag) {
                format!("{write}/{flag}")
            } else {
                (*flag).to_owned()
            }
        })
        .collect();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let script = "cat .env hidden/key; chmod 777 .env hidden kept; chown 5 .env hidden kept; echo x > kept; echo x >> .env; rm -rf kept .env hidden; \
                  mv hidden h2; mv .env e2; ln .env e3; ln kept k3; touch hidden/x; touch absent; mkdir absent; ln -s x absent; \
                  chmod 000 .; touch absent; chmod 755 .; chown 33:33 .; chmod 700 .; touch absent; cat .env hidden/key; \
                  touch ../out/x; chmod 777 ../out/file; chown 5 ../out/file; echo x > ../out/file; rm ../out/file; \
                  tar cf /tmp/t . ; grep -ac canary /tmp/t; cat kept";
    let ran = as_root(&flags, script);
    assert_eq!(ran.stdout, "0\nkept", "{}", ran.stderr);
    let read = |name: &str| std::fs::read_to_string(place.join(name)).unwrap();
    assert_eq!(
        [read("w/.env"), read("w/hidden/key"), read("w/kept"), read("out/file")],
        ["canary-1", "canary-2", "kept", "outside"]
    );
    assert!(!place.join("w/absent").exists() && !place.join("out/x").exists());
    use std::os::unix::fs::MetadataExt;
    for name in ["w", "w/.env", "w/hidden", "w/kept", "out/file"] {
        let about = std::fs::metadata(place.join(name)).unwrap();
        assert_eq!(about.uid(), rustix::process::geteuid().as_raw(), "{name}");
        assert_ne!(about.mode() & 0o777, 0o777, "{name}");
    }
}

#[test]
#[kennel_claim::claim("users/other-users-files-stay-closed")]
fn files_of_the_hosts_other_users_stay_closed_to_it() {
    if !possible() {
        return;
    }
    // Closed to the caller, and not of an id that is mapped. Root's own sandbox has root's files as the ordinary user.
    let closed = if am_root() {
        let place = Scratch::new();
        let path = place.write("closed", "secret");
        std::os::unix::fs::chown(&path, Some(4242), Some(4242)).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        Some((place, path))
    } else {
        None
    };
    let path = closed.as_ref().map_or("/etc/shadow".into(), |(_, path)| path.display().to_string());
    let script = format!("cat {path}; chown 0 {path}; chmod 644 {path}; su builder -c 'cat {path}'");
    let ran = as_root(&[], &script);
    assert_eq!(ran.stdout, "", "{}", ran.stderr);
}

#[test]
#[kennel_claim::claim("users/network-is-not-configurable")]
fn the_network_is_not_its_to_configure() {
    if !possible() || program("ip").is_none() {
        return;
    }
    let script = "ip link set lo down; ip addr add 10.0.0.1/8 dev lo; ip link add d type dummy; ip route add default dev lo; \
                  python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)'; \
                  python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3)'; \
                  ip -br addr show lo | grep -c 127.0.0.1; ip -br link | wc -l";
    let ran = as_root(&[], script).ok();
    assert_eq!(ran.stdout, "1\n1\n", "{}", ran.stderr);
    // The same calls are those of a root that owns a network.
    let outside = ran_outside("ip link add d type dummy && ip -br link | wc -l");
    assert!(outside.is_none_or(|text| text.trim() == "2"));
}

/// What a root of a namespace without kennel does.
fn ran_outside(script: &str) -> Option<String> {
    let ran = ran(std::process::Command::new("unshare").args(["-Urnm", "sh", "-c", script]));
    (ran.code == 0).then_some(ran.stdout)
}

#[test]
#[kennel_claim::claim("users/root-inside-changes-nothing-of-the-kernel")]
fn a_root_without_the_protection_mounts_what_it_likes() {
    // What the tests above refuse, a root in a namespace of its own may do: the attacks are real.
    match ran_outside("mount -t tmpfs x /mnt && mount --bind /tmp /var && chroot / true && echo done") {
        Some(text) => assert_eq!(text, "done\n"),
        None => skipped("this user can make no namespaces without kennel"),
    }
}

#[test]
#[kennel_claim::claim("users/pid-1-is-out-of-reach")]
fn what_it_leaves_running_ends_with_the_command_and_with_a_time_limit() {
    if !possible() {
        return;
    }
    let began = std::time::Instant::now();
    as_root(
        &[],
        "trap '' TERM HUP; (trap '' TERM; sleep 1000) & su builder -c 'sleep 1000' & sleep 0.1; exit 0",
    )
    .ok();
    let limited = as_root(&["--timeout", "1s"], "su -s /bin/sh www-data -c 'sleep 1000'");
    assert_eq!(limited.code, 124, "{}", limited.stderr);
    assert!(began.elapsed() < std::time::Duration::from_secs(60));
}

#[test]
#[kennel_claim::claim("users/file-rules-hold")]
fn a_name_that_the_host_replaces_is_covered_again_for_it_too() {
    if !possible() {
        return;
    }
    let place = Scratch::new();
    place.write(".env", "first-canary");
    let write = place.path().display().to_string();
    let denied = place.join(".env").display().to_string();
    // Waits for the guard to watch, then for the host to replace the file, then for it to be covered.
    let script = "sleep 1; touch ready; while [ ! -e go ]; do sleep 0.05; done; sleep 2; cat .env; echo end";
    let mut command = kennel_tests::kennel([
        "run",
        "--users",
        "root,builder",
        "--allow-write",
        &write,
        "--deny-read",
        &denied,
        "-C",
        &write,
    ]);
    let child =
        command.args(["--", "sh", "-c", script]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    kennel_tests::eventually("it runs", || place.join("ready").exists().then_some(()));
    place.write("new", "second-canary");
    std::fs::rename(place.join("new"), place.join(".env")).unwrap();
    place.write("go", "");
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "end\n");
}
