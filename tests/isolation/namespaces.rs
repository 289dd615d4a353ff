//! Each namespace is the sandbox's own, and so are its name, its users and its network.

use std::collections::BTreeMap;

use kennel_tests::{Scratch, am_root, kennel, ran, run_sh};

const KINDS: [&str; 7] = ["user", "mnt", "pid", "ipc", "uts", "cgroup", "net"];

fn host() -> BTreeMap<String, String> {
    let link =
        |kind: &str| std::fs::read_link(format!("/proc/self/ns/{kind}")).unwrap().display().to_string();
    KINDS.iter().map(|kind| ((*kind).to_owned(), link(kind))).collect()
}

fn inside(flags: &[&str]) -> BTreeMap<String, String> {
    let told = run_sh(
        flags,
        "cd /proc/self/ns; for n in user mnt pid ipc uts cgroup net; do echo $n $(readlink $n); done",
    );
    told.ok()
        .stdout
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(a, b)| (a.into(), b.into()))
        .collect()
}

#[test]
#[kennel_claim::claim("privileges/own-namespaces")]
fn every_namespace_differs_from_the_hosts() {
    let (host, one) = (host(), inside(&[]));
    for kind in KINDS {
        assert_ne!(one[kind], host[kind], "{kind}");
    }
}

#[test]
#[kennel_claim::claim("privileges/own-namespaces")]
fn two_sandboxes_share_no_namespace() {
    // Both at once: a number is free again for the next namespace as soon as one has ended.
    let scratch = Scratch::new();
    let list = "readlink /proc/self/ns/* | sort -u; touch ready; sleep 5";
    let start = |name: &str| {
        let folder = scratch.dir(name);
        let mut command = kennel(["run", "--allow-write", ".", "--", "sh", "-c", list]);
        (
            command.current_dir(&folder).stdout(std::process::Stdio::piped()).spawn().unwrap(),
            folder.join("ready"),
        )
    };
    let both = [start("one"), start("two")];
    for (_, ready) in &both {
        kennel_tests::eventually("both sandboxes run", || ready.exists().then_some(()));
    }
    let texts: Vec<String> = both
        .into_iter()
        .map(|(child, _)| String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap())
        .collect();
    let shared: Vec<&str> =
        texts[0].lines().filter(|line| texts[1].lines().any(|other| other == *line)).collect();
    assert!(texts[0].lines().count() >= 7, "{texts:?}");
    assert!(shared.iter().all(|line| line.starts_with("time:")), "{shared:?}");
}

#[test]
fn the_hosts_network_is_shared_only_when_asked_for() {
    let (host, one) = (host(), inside(&["--net", "host"]));
    assert_eq!(one["net"], host["net"]);
    for kind in KINDS.iter().filter(|kind| **kind != "net") {
        assert_ne!(one[*kind], host[*kind], "{kind}");
    }
}

#[test]
#[kennel_claim::claim("network/none-is-a-loopback")]
fn a_network_of_its_own_has_a_loopback_and_nothing_else() {
    let told =
        run_sh::<&str>([], "cat /proc/net/dev | tail -n +3 | cut -d: -f1; tail -n +2 /proc/net/route").ok();
    assert_eq!(told.stdout.split_whitespace().collect::<Vec<_>>(), ["lo"]);
    // It is up: a listener there can be reached.
    if let Some(python) = kennel_tests::program("python3").filter(|path| path.starts_with("/usr")) {
        let code = "import socket; s=socket.create_server(('127.0.0.1',0)); c=socket.create_connection(s.getsockname());
s.accept()[0].send(b'hi'); print(c.recv(2).decode())";
        let told = ran(kennel(["run", "--"]).arg(python).args(["-c", code])).ok();
        assert_eq!(told.stdout, "hi\n");
    }
}

#[test]
fn the_host_name_inside_is_the_one_asked_for_and_the_hosts_stays() {
    let before = rustix::system::uname().nodename().to_owned();
    assert_eq!(
        run_sh(["--hostname", "doghouse"], "uname -n; cat /proc/sys/kernel/hostname").ok().stdout,
        "doghouse\ndoghouse\n"
    );
    assert_eq!(rustix::system::uname().nodename(), before.as_c_str());
    assert_ne!(before.to_bytes(), b"doghouse");
}

#[test]
fn the_command_keeps_its_users_number() {
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let told = run_sh::<&str>([], "id -u; id -g; cat /proc/self/uid_map").ok();
    let words: Vec<&str> = told.stdout.split_whitespace().collect();
    let (uid, gid) = (uid.to_string(), gid.to_string());
    assert_eq!(words, [uid.as_str(), gid.as_str(), uid.as_str(), uid.as_str(), "1"]);
}

#[test]
fn the_command_is_root_inside_on_request_and_its_files_are_the_callers() {
    use std::os::unix::fs::MetadataExt;
    let scratch = Scratch::new();
    let mut command =
        kennel(["run", "--user", "root", "--allow-write", ".", "--", "sh", "-c", "id -u; id -g; touch made"]);
    let told = ran(command.current_dir(scratch.path())).ok();
    assert_eq!(told.stdout, "0\n0\n");
    assert_eq!(std::fs::metadata(scratch.join("made")).unwrap().uid(), rustix::process::getuid().as_raw());
}

#[test]
#[kennel_claim::claim("privileges/root-is-confined")]
fn root_outside_is_confined_to_a_user_namespace_too() {
    if !am_root() {
        return kennel_tests::skipped("this is about callers that are root");
    }
    let told =
        run_sh::<&str>([], "cat /proc/self/uid_map /proc/self/gid_map /proc/self/setgroups; chown 1:1 /tmp")
            .clone();
    assert_eq!(told.stdout.split_whitespace().collect::<Vec<_>>(), ["0", "0", "1", "0", "0", "1", "deny"]);
    assert_ne!(told.code, 0, "no other user exists inside to give a file to");
    assert_ne!(inside(&[])["user"], host()["user"]);
}

#[test]
fn proc_shows_the_processes_of_the_sandbox_only() {
    let told =
        run_sh::<&str>([], "cd /proc; ls -d [0-9]* | sort -n | tr '\\n' ' '; echo; echo $$ $PPID").ok();
    let (list, own) = told.stdout.trim_end().split_once('\n').unwrap();
    let pids: Vec<u32> = list.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    assert!(pids.contains(&1) && pids.len() <= 6, "{pids:?}");
    assert_eq!(own, "2 1", "the command is the first child of PID 1");
}

#[test]
fn the_cgroup_of_the_command_is_the_root_of_its_namespace() {
    let told = run_sh::<&str>([], "cat /proc/self/cgroup").ok();
    if !std::path::Path::new("/proc/self/cgroup").exists() {
        return kennel_tests::skipped("this kernel has no cgroups");
    }
    assert!(told.stdout.lines().all(|line| line.ends_with(":/")), "{told:?}");
}
