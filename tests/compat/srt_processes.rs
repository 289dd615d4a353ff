//! What a command under srt can do besides files and hosts.

use crate::compat::world::{Place, Told, Which, World, installed, run, srt};

#[test]
fn privileges_and_calls() {
    if !installed(&["bash", "unshare", "/usr/bin/python3"]) {
        return;
    }
    World {
        told: Told::Srt(r#"{"network": {"allowedDomains": [], "deniedDomains": []},
            "filesystem": {"denyRead": [], "allowWrite": ["."], "denyWrite": []}}"#),
        make: |_| {},
        tries: &[
            ("26 setuid gains nothing", "/usr/bin/python3 -c 'import os; os.setuid(1234 if os.getuid() != 1234 else 1)'"),
            ("28 a unix socket", "/usr/bin/python3 -c 'import socket; socket.socket(socket.AF_UNIX)'"),
            ("28 a socket pair", "/usr/bin/python3 -c 'import socket; socket.socketpair()'"),
            ("29 io_uring", "/usr/bin/python3 -c 'import ctypes, os; l = ctypes.CDLL(None, use_errno=True); r = l.syscall(425, 1, 0); exit(0 if r >= 0 else 1)'"),
            ("29 the memory of PID 1", "head -c1 /proc/1/mem"),
            ("29 ptrace of PID 1", "/usr/bin/python3 -c 'import ctypes; l = ctypes.CDLL(None); exit(0 if l.ptrace(16, 1, 0, 0) == 0 else 1)'"),
            ("new user namespaces", "unshare -U true"),
            ("mounts", "unshare -Urm mount -t tmpfs x /mnt"),
            ("a socket of the network", "/usr/bin/python3 -c 'import socket; socket.socket(socket.AF_INET)'"),
            ("listening on its own loopback", "/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind((\"127.0.0.1\", 0)); s.listen(); c = socket.create_connection(s.getsockname())'"),
            ("threads", "/usr/bin/python3 -c 'import threading; t = threading.Thread(target=int); t.start(); t.join()'"),
            ("SANDBOX_RUNTIME", "test \"$SANDBOX_RUNTIME\" = 1"),
            ("HTTP_PROXY", "test -n \"$HTTP_PROXY$http_proxy\""),
            ("ALL_PROXY", "case \"$ALL_PROXY $all_proxy\" in http://*\\ http://*) true;; *) false;; esac"),
            ("GRPC_PROXY", "case \"$GRPC_PROXY $grpc_proxy\" in http://*\\ http://*) true;; *) false;; esac"),
            ("FTP_PROXY", "case \"$FTP_PROXY $ftp_proxy\" in socks5h://*\\ socks5h://*) true;; *) false;; esac"),
            (".local goes to the proxy", "case \"$NO_PROXY$no_proxy\" in *.local*) false;; *) true;; esac"),
            ("GIT_SSH_COMMAND", "test -n \"$GIT_SSH_COMMAND\""),
            ("GIT_SSH_COMMAND shares no connection", "case \"$GIT_SSH_COMMAND\" in *ControlMaster=no*ControlPath=none*) true;; *) false;; esac"),
            ("GIT_SSH_COMMAND takes options", "eval \"$GIT_SSH_COMMAND -o LogLevel=QUIET -G host.test\" | grep -q 'loglevel QUIET'"),
            ("RSYNC_RSH", "test -n \"$RSYNC_RSH\""),
            ("NO_PROXY", "case \",$NO_PROXY,\" in *,localhost,*127.0.0.1,*) true;; *) false;; esac"),
            ("CLOUDSDK_PROXY_PORT", "test -n \"$CLOUDSDK_PROXY_PORT\""),
            ("DOCKER_HTTP_PROXY", "test -n \"$DOCKER_HTTP_PROXY\""),
            ("git asks its proxy", "case \"$GIT_CONFIG_PARAMETERS\" in *http.proxyAuthMethod=basic*) true;; *) false;; esac"),
            ("TMPDIR is set", "test -n \"$TMPDIR\""),
            ("TMPDIR is there", "test -d \"$TMPDIR\" && touch \"$TMPDIR/x\""),
        ],
        differences: &[("TMPDIR is there", "fails", "ok"), ("RSYNC_RSH", "fails", "ok")],
        disk_differs: &[],
    }
    .compare();
}

/// 27
#[test]
fn background_jobs_end_with_the_command() {
    for which in [Which::Kennel, Which::Real] {
        let place = Place::new();
        let settings = r#"{"network": {"allowedDomains": [], "deniedDomains": []},
            "filesystem": {"denyRead": [], "allowWrite": ["."], "denyWrite": []}}"#;
        let Some(mut command) = srt(which, &place, Some(settings)) else { return };
        run(command.args(["-c", "(sleep 2; echo late > late) >/dev/null 2>&1 & true"])).ok();
        let late = place.work().join("late");
        kennel_tests::stays(
            &format!("{which:?}: the job is gone"),
            std::time::Duration::from_secs(3),
            || !late.exists(),
        );
    }
}

#[test]
fn nested_namespaces_can_be_allowed() {
    if !installed(&["bash", "unshare"]) {
        return;
    }
    let settings = |nested: &str| {
        format!(
            r#"{{"network": {{"allowedDomains": [], "deniedDomains": []}}, "allowNestedUserNamespaces": {nested},
                "filesystem": {{"denyRead": [], "allowWrite": ["."], "denyWrite": []}}}}"#
        )
    };
    for (nested, works) in [("true", true), ("false", false)] {
        let place = Place::new();
        let mut command = srt(Which::Kennel, &place, Some(&settings(nested))).expect("kennel");
        let ran = run(command.args(["-c", "unshare -U true"]));
        assert_eq!(ran.code == 0, works, "{nested}: {}", ran.stderr);
    }
}

#[test]
fn unix_sockets_by_path() {
    if !installed(&["bash", "/usr/bin/python3"]) {
        return;
    }
    let place = Place::new();
    let allowed = std::os::unix::net::UnixListener::bind(place.top().join("allowed.sock")).unwrap();
    let other = std::os::unix::net::UnixListener::bind(place.top().join("other.sock")).unwrap();
    std::thread::spawn(move || while allowed.accept().is_ok() {});
    std::thread::spawn(move || while other.accept().is_ok() {});
    let connect = |name: &str| {
        format!(
            "/usr/bin/python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect(\"{}\")'",
            place.top().join(name).display()
        )
    };
    let settings = |keys: &str| {
        format!(
            r#"{{"network": {{"allowedDomains": [], "deniedDomains": [] {keys}}},
                "filesystem": {{"denyRead": [], "allowWrite": ["."], "denyWrite": []}}}}"#
        )
    };
    let by_path = r#", "allowUnixSockets": ["TOP/allowed.sock"]"#;
    let all = r#", "allowAllUnixSockets": true"#;
    for (keys, name, works) in [
        ("", "allowed.sock", false),
        (by_path, "allowed.sock", true),
        (by_path, "other.sock", false),
        (all, "allowed.sock", true),
        (all, "other.sock", true),
    ] {
        let mut command = srt(Which::Kennel, &place, Some(&settings(keys))).expect("kennel");
        let ran = run(command.args(["-c", &connect(name)]));
        assert_eq!(ran.code == 0, works, "{keys} {name}: {}", ran.stderr);
    }
}

#[test]
fn denied_credentials_are_not_there() {
    let place = Place::new();
    place.write("home/token", "secret");
    let settings = r#"{"network": {"allowedDomains": [], "deniedDomains": []},
        "filesystem": {"denyRead": [], "allowWrite": ["."], "denyWrite": []},
        "credentials": {"files": [{"path": "~/token", "mode": "deny"}], "envVars": [{"name": "MY_TOKEN", "mode": "deny"}]}}"#;
    for which in [Which::Kennel, Which::Real] {
        let Some(mut command) = srt(which, &place, Some(settings)) else { return };
        let script = "test -z \"$MY_TOKEN\" && ! test -s ~/token && test -n \"$OTHER\"";
        run(command.args(["-c", script]).env("MY_TOKEN", "x").env("OTHER", "x")).ok();
    }
}

#[test]
fn safe_directories_reach_git() {
    if !installed(&["bash", "git"]) {
        return;
    }
    let place = Place::new();
    let settings = r#"{"network": {"allowedDomains": [], "deniedDomains": []}, "git": {"safeDirectories": ["/some/where", "/else"]},
        "filesystem": {"denyRead": [], "allowWrite": ["."], "denyWrite": []}}"#;
    for which in [Which::Kennel, Which::Real] {
        let Some(mut command) = srt(which, &place, Some(settings)) else { return };
        let ran = run(command.args(["-c", "git config --get-all safe.directory"])).ok();
        let safe = "/some/where\n/some/where/*\n/else\n/else/*\n";
        assert_eq!(ran.stdout, safe, "{which:?}");
    }
}

/// Which srt does not show, whatever its settings say.
#[test]
fn a_device_is_there_when_it_is_named() {
    let Some(device) = crate::compat::codex_policies::device() else { return };
    for (named, is_there) in
        [(format!(r#""{device}", "/dev/null", "/dev/not-there""#), true), (String::new(), false)]
    {
        let place = Place::new();
        let settings = format!(
            r#"{{"network": {{"allowedDomains": [], "deniedDomains": []}},
                "filesystem": {{"denyRead": [], "allowWrite": [{named}], "denyWrite": []}}}}"#
        );
        let mut command = srt(Which::Kennel, &place, Some(&settings)).expect("kennel");
        let ran = run(command.args(["-c", &format!("test -c {device}")]));
        assert_eq!(ran.code == 0, is_there, "{named}: {}", ran.stderr);
    }
}
