use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Stdio;

use kennel_tests::{Scratch, am_root, eventually, kennel, run_sh};

use super::possible;

/// Makes things of many owners, some in folders that are shut to the caller.
const LITTER: &str = "mkdir -p deep/er; touch deep/er/f; chown -R 33:44 deep; chmod 700 deep/er deep; ln -s /etc/passwd link; \
                      mkfifo fifo; su builder -c 'touch own'; touch nobodys; chown nobody nobodys; chgrp 7 own; ln nobodys second";

/// Paths below a folder that are not the caller's.
fn not_the_callers(folder: &Path) -> Vec<String> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mut all = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in
            std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        {
            let path = entry.unwrap().path();
            let about = path.symlink_metadata().unwrap();
            if (about.uid(), about.gid()) != (uid, gid) {
                all.push(format!("{} {}:{}", path.display(), about.uid(), about.gid()));
            }
            if about.is_dir() {
                folders.push(path);
            }
        }
    }
    all
}

#[test]
#[kennel_claim::claim("users/write-roots-are-handed-back")]
fn what_other_users_leave_in_write_roots_is_the_callers() {
    if !possible() {
        return;
    }
    let place = Scratch::new();
    let write = place.path().display().to_string();
    let script = format!("{LITTER}; find . | wc -l; stat -c %u deep/er/f link nobodys");
    let ran = run_sh(["--users", "root,builder", "--allow-write", &write, "-C", &write], &script).ok();
    assert_eq!(ran.stdout, "9\n33\n0\n65534\n");
    assert_eq!(ran.stderr, "");
    assert_eq!(not_the_callers(place.path()), [""; 0]);
    assert_eq!(place.join("link").read_link().unwrap(), Path::new("/etc/passwd"));
    assert_eq!(std::fs::metadata("/etc/passwd").unwrap().uid(), 0);
    // Without the pass they would belong to subordinate ids: they do while the sandbox runs.
}

#[test]
#[kennel_claim::claim("users/write-roots-are-handed-back")]
fn it_is_also_when_the_controller_is_killed() {
    if !possible() {
        return;
    }
    let place = Scratch::new();
    let write = place.path().display().to_string();
    let script = format!("{LITTER}; echo done; exec sleep 1000");
    let mut child = kennel([
        "run",
        "--users",
        "root,builder",
        "--allow-write",
        &write,
        "-C",
        &write,
        "--",
        "sh",
        "-c",
        &script,
    ])
    .stdout(Stdio::piped())
    .spawn()
    .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line)
        .unwrap();
    assert_eq!(line, "done\n");
    // The attack on the caller works as long as nobody has cleared up.
    assert_ne!(place.join("nobodys").symlink_metadata().unwrap().uid(), rustix::process::geteuid().as_raw());
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("everything is the caller's", || {
        let callers =
            std::fs::read_dir(place.join("deep")).is_ok() && not_the_callers(place.path()).is_empty();
        callers.then_some(())
    });
}

#[test]
#[kennel_claim::claim("users/write-roots-are-handed-back")]
fn what_was_there_before_and_was_not_touched_keeps_its_owner() {
    if !am_root() {
        // Only root can make a file of somebody else's.
        return;
    }
    let place = Scratch::new();
    let other = place.write("other", "x");
    std::os::unix::fs::chown(&other, Some(12345), Some(12345)).unwrap();
    let write = place.path().display().to_string();
    run_sh(
        ["--users", "root,builder", "--allow-write", &write, "-C", &write],
        "touch new; chown 5 new; ! chown 5 other",
    )
    .ok();
    assert_eq!(std::fs::metadata(&other).unwrap().uid(), 12345);
    assert_eq!(std::fs::metadata(place.join("new")).unwrap().uid(), 0);
}

#[test]
#[kennel_claim::claim("users/no-set-uid-bits")]
fn set_user_id_bits_do_not_reach_the_host_whoever_owns_the_file() {
    if !possible() {
        return;
    }
    let place = Scratch::new();
    let write = place.path().display().to_string();
    let script = "cp /bin/true root; cp /bin/true other; chown 33 other; su builder -c 'cp /bin/true own'; \
                  for f in root other own; do chmod 6755 $f; su builder -c \"chmod 4755 $f\" 2>/dev/null; done; \
                  python3 -c 'import os; os.open(\"made\", os.O_CREAT|os.O_WRONLY, 0o4755)' 2>/dev/null; \
                  install -m 4755 -o 33 /bin/true installed; stat -c '%a %n' root other own installed";
    let ran = run_sh(["--users", "root,builder", "--allow-write", &write, "-C", &write], script);
    assert_eq!(ran.stdout, "755 root\n755 other\n755 own\n755 installed\n", "{}", ran.stderr);
    for entry in std::fs::read_dir(place.path()).unwrap() {
        let about = entry.unwrap().metadata().unwrap();
        assert_eq!(about.mode() & 0o6000, 0);
    }
}

#[test]
#[kennel_claim::claim("users/no-set-uid-bits")]
fn only_the_owner_and_root_set_modes_by_way_of_the_guard() {
    if !possible() {
        return;
    }
    let place = Scratch::new();
    let write = place.path().display().to_string();
    // The guard is the caller, who is `builder` inside: it must not be a way for others to that user's files.
    let script = "su builder -c 'touch own; chmod 600 own'; chmod 777 .; su -s /bin/sh www-data -c 'chmod 4777 own' && echo changed; \
                  stat -c %a own; touch roots; su builder -c 'chmod 4777 roots' && echo changed; stat -c %a roots";
    let ran = run_sh(["--users", "root,builder", "--allow-write", &write, "-C", &write], script).ok();
    assert_eq!(ran.stdout, "600\n644\n");
}

#[test]
fn a_folder_of_thousands_of_folders_with_long_names_is_gone_through() {
    if !possible() {
        return;
    }
    let place = Scratch::new();
    let write = place.path().display().to_string();
    let script = "import os\nfor i in range(3000):\n  n=('%d-' % i) + 'x' * (i % 240)\n  os.mkdir(n)\n  open(n+'/f','w').close()\n  os.chown(n+'/f',33,33)\n  os.chown(n,33,33)";
    let script = format!("python3 -c \"{script}\"");
    run_sh(["--users", "root,builder", "--allow-write", &write, "-C", &write], &script).ok();
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 3000);
    assert!(not_the_callers(place.path()).is_empty());
}
