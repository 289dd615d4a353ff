use kennel_tests::{Scratch, am_root, run_sh};

use super::{as_root, possible};

#[test]
fn the_command_starts_as_the_first_user_and_the_others_have_names_and_homes() {
    if !possible() {
        return;
    }
    let script = "id -un; id -u; echo $HOME $USER; stat -c %U:%G:%a / /tmp /run $HOME /run/home/builder | tail -n +2; \
                  getent passwd builder; getent group builder; getent passwd nobody | cut -d: -f3; touch $HOME/x";
    let ran = as_root(&[], script).ok();
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(
        lines,
        [
            "root",
            "0",
            "/run/home/root root",
            "root:root:1777",
            "root:root:755",
            "root:root:700",
            "builder:builder:700",
            "builder:*:1000:1000:builder:/run/home/builder:/bin/sh",
            "builder:*:1000:",
            "65534"
        ]
    );
}

#[test]
#[kennel_claim::claim("users/few-capabilities")]
fn run_as_chooses_one_who_has_no_capabilities() {
    if !possible() {
        return;
    }
    let script = "id -u; id -g; echo $HOME; grep -E 'Cap(Prm|Eff|Bnd|Amb)' /proc/self/status; touch $HOME/x; chown 0 $HOME/x";
    let ran = run_sh(["--users", "root,builder:1234:1235", "--run-as", "builder"], script).expect_code(1);
    let none =
        ["CapPrm", "CapEff", "CapBnd", "CapAmb"].map(|set| format!("{set}:\t0000000000000000\n")).concat();
    assert_eq!(ran.stdout, format!("1234\n1235\n/run/home/builder\n{none}"));
}

#[test]
fn owners_are_changed_and_users_are_switched() {
    if !possible() {
        return;
    }
    let script = "set -e; cd /tmp; mkdir a; touch a/f; chown builder:33 a/f; chown 33 a; stat -c %u:%g a a/f
        su builder -c 'id -u; id -g; cd; pwd; echo $HOME; touch mine; stat -c %U mine'
        su - builder -c pwd
        runuser -u builder -- id -un
        setpriv --reuid=builder --regid=builder --init-groups id -un
        su -s /bin/sh nobody -c 'id -u'
        tar cf t.tar a; mkdir out; tar xpf t.tar -C out; stat -c %u:%g out/a out/a/f
        mkfifo fifo; test -p fifo
        su builder -c 'kill 1; kill $$' || echo killed
        D=$(mktemp -d); touch $D/x; chmod 4755 $D/x; stat -c %a $D/x";
    let ran = as_root(&[], script).ok();
    let expected = "33:0\n1000:33\n1000\n1000\n/run/home/builder\n/run/home/builder\nbuilder\n/run/home/builder\n\
                    builder\nbuilder\n65534\n33:0\n1000:33\nkilled\n";
    // A file of the sandbox's own may have the bit only where no file of the host's can be written.
    assert_eq!(ran.stdout, format!("{expected}4755\n"));
}

#[test]
fn the_workspaces_files_are_the_ordinary_users_and_git_finds_nothing_changed() {
    if !possible() || kennel_tests::program("git").is_none() {
        return;
    }
    let place = Scratch::new();
    place.write("a", "1");
    let git = |words: &str| format!("git -c user.name=x -c user.email=x@y {words}");
    let script = format!(
        "cd {} && {} && {} && {}",
        place.path().display(),
        git("init -q ."),
        git("add a"),
        git("commit -qm x")
    );
    assert!(std::process::Command::new("sh").args(["-c", &script]).status().unwrap().success());
    let write = place.path().display().to_string();
    // Git remembers the numbers of owners, so the user inside has the caller's. Root's is taken, and git looks again.
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let (users, look) = match am_root() {
        true => ("root,builder".to_owned(), "git status --porcelain >/dev/null; "),
        false => (format!("root,builder:{uid}:{gid}"), ""),
    };
    let check = format!("{look}git diff-files --quiet && echo clean && echo 2 >> a");
    let script = format!("stat -c %U a .; su builder -c '{check}'; cat a");
    let ran = run_sh(["--users", &users, "--allow-write", &write, "-C", &write], &script).ok();
    assert_eq!(ran.stdout, "builder\nbuilder\nclean\n12\n");
}

#[test]
fn a_root_alone_is_the_caller_and_has_other_ids_besides() {
    if !possible() {
        return;
    }
    let place = Scratch::new();
    let write = place.path().display().to_string();
    let script = "id -u; stat -c %u .; touch r; touch o; chown 5 o; stat -c %u o";
    let ran = run_sh(["--users", "root", "--allow-write", &write, "-C", &write], script).ok();
    assert_eq!(ran.stdout, "0\n0\n5\n");
}

#[test]
fn listed_reads_have_the_files_that_name_the_users_too() {
    if !possible() {
        return;
    }
    for more in [
        &[][..],
        &[
            "--no-system",
            "--allow-read",
            "/usr",
            "--allow-read",
            "/bin",
            "--allow-read",
            "/lib",
            "--allow-read",
            "/lib64",
        ],
    ] {
        let flags = [&["--reads", "listed", "-C", "/"], more].concat();
        let ran = as_root(
            &flags,
            "head -2 /etc/passwd; stat -c %U / /etc; su builder -s /bin/sh -c 'id -u' || true",
        )
        .ok();
        let start = "root:*:0:0:root:/run/home/root:/bin/sh\nbuilder:*:1000:1000:builder:/run/home/builder:/bin/sh\nroot\nroot\n";
        assert!(ran.stdout.starts_with(start), "{}", ran.stdout);
    }
}

#[test]
fn the_library_maps_several_users_too() {
    if !possible() {
        return;
    }
    let place = Scratch::new();
    let sandbox = kennel::Sandbox::builder()
        .users(["root", "builder:2000"])
        .allow_write(place.path())
        .working_dir(place.path())
        .build()
        .unwrap();
    let result =
        sandbox.run("sh", &["-c", "id -u; touch r; su builder -c 'id -u; touch b'; stat -c %u r b"]).unwrap();
    assert_eq!((result.stdout.as_str(), result.stderr.as_str()), ("0\n2000\n0\n2000\n", ""));
    for name in ["r", "b"] {
        use std::os::unix::fs::MetadataExt;
        let owner = std::fs::metadata(place.join(name)).unwrap().uid();
        assert_eq!(owner, rustix::process::geteuid().as_raw(), "{name}");
    }
}

#[test]
fn a_terminal_a_network_and_limits_work_for_several_users() {
    if !possible() {
        return;
    }
    // The gate's sockets, the loopback and pairs of sockets belong to the namespace above.
    let python = "import socket,os\na,b=socket.socketpair(socket.AF_UNIX,socket.SOCK_DGRAM)\na.send(b'x')\nprint(b.recv(9))\n\
                  s=socket.socket(); s.bind(('127.0.0.1',8080)); s.listen(); c=socket.create_connection(('127.0.0.1',8080)); print('up')";
    let script = format!("python3 -c \"{python}\"; sleep 100 & echo");
    let ran = as_root(&["--allow-domain", "example.com", "--timeout", "20s"], &script).ok();
    assert_eq!(ran.stdout, "b'x'\nup\n\n");
}

#[test]
fn a_session_and_a_prepared_sandbox_have_several_users_too() {
    if !possible() {
        return;
    }
    let place = Scratch::new();
    let builder = kennel::Sandbox::builder().users(["root", "builder"]).allow_write(place.path());
    let sandbox = builder.working_dir(place.path()).build().unwrap();
    let script = "id -u; touch r$$; su builder -c 'id -u; touch b$$'; grep CapEff /proc/self/status; kill -9 1; echo up";
    let expected = "0\n1000\nCapEff:\t00000000000000fb\nup\n";
    let session = sandbox.session().unwrap();
    for _ in 0..3 {
        let output = session.command("sh").args(["-c", script]).output().unwrap();
        assert_eq!((output.stdout.as_str(), output.stderr.as_str()), (expected, ""));
    }
    drop(session);
    let zygote = kennel::Zygote::start().unwrap();
    let pool = zygote.pool(&sandbox, 1).unwrap();
    for _ in 0..2 {
        let output = pool.command("sh").args(["-c", script]).output().unwrap();
        assert_eq!((output.stdout.as_str(), output.stderr.as_str()), (expected, ""));
    }
    drop((pool, zygote));
    kennel_tests::eventually("everything is the caller's", || {
        use std::os::unix::fs::MetadataExt;
        let own = rustix::process::geteuid().as_raw();
        let mut entries = std::fs::read_dir(place.path()).unwrap().flatten();
        entries.all(|entry| entry.metadata().is_ok_and(|about| about.uid() == own)).then_some(())
    });
}
