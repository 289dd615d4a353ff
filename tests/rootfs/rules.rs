//! The policy's rules in a root.

use std::os::unix::fs::symlink;

use kennel_tests::{Scratch, skipped};

use super::tree::{bare, small};
use super::{run, run_in, ways};

#[test]
fn folders_of_the_host_show_at_their_own_paths() {
    let scratch = Scratch::new();
    let Some(root) = bare(&scratch) else { return };
    let (read, write) = (scratch.write("read/file", "to read\n"), scratch.dir("write"));
    for how in ways() {
        let flags = [
            "--rootfs-write",
            how,
            "--allow-read",
            read.to_str().unwrap(),
            "--allow-write",
            write.to_str().unwrap(),
        ];
        let script = format!(
            "cat {0}; echo x > {0}; echo {how} > {1}/new; ls {2}",
            read.display(),
            write.display(),
            scratch.path().display()
        );
        let inside = run(&root, &flags, &script);
        assert_eq!(inside.stdout, "to read\nread\nwrite\n", "{inside:?}");
        assert!(inside.stderr.contains("Read-only file system"), "{inside:?}");
        assert_eq!(std::fs::read_to_string(write.join("new")).unwrap(), format!("{how}\n"));
        assert_eq!(std::fs::read_to_string(&read).unwrap(), "to read\n");
    }
}

#[test]
#[kennel_claim::claim("files/denies-hold-in-a-root-file-system")]
fn denied_files_of_the_root_can_be_neither_read_nor_written() {
    let scratch = Scratch::new();
    let Some(root) = bare(&scratch) else { return };
    for how in ways() {
        let flags = [
            "--rootfs-write",
            how,
            "--deny-read",
            "/etc/shadow",
            "--deny-read",
            "/srv/data",
            "--deny-write",
            "/etc/plain",
        ];
        let script = "cat /etc/shadow; ls /srv/data; cat /srv/data/a.key; echo x >> /etc/plain; echo x > /etc/shadow; \
             rm -f /etc/plain; mv /etc/plain /etc/other; mv /etc /moved; ln /etc/shadow /etc/second; cp /etc/shadow /tmp/s; cat /tmp/s; cat /etc/plain";
        let inside = run(&root, &flags, script);
        assert!(!inside.stdout.contains("secret") && !inside.stdout.contains("key"), "{how}: {inside:?}");
        assert!(inside.stdout.ends_with("plain\n"), "{how}: {inside:?}");
        // Without the rules it works.
        let open = run(&root, &["--rootfs-write", how], "cat /etc/shadow /srv/data/a.key").ok();
        assert_eq!(open.stdout, "the root's secret\na key\n");
    }
}

#[test]
#[kennel_claim::claim("files/denies-hold-in-a-root-file-system")]
fn globs_match_in_the_root_and_in_what_shows_of_the_host() {
    let scratch = Scratch::new();
    let Some(root) = bare(&scratch) else { return };
    let work = scratch.dir("work");
    scratch.write("work/deep/b.key", "the host's key\n");
    scratch.write("work/deep/other", "other\n");
    // A key of the host's that is not inside is no business of the rule's.
    scratch.write("elsewhere/c.key", "c\n");
    for how in ways() {
        let flags =
            ["--rootfs-write", how, "--deny-read", "/**/*.key", "--allow-write", work.to_str().unwrap()];
        let script = format!(
            "cat /srv/data/a.key; cat {0}/deep/b.key; cat {0}/deep/other; mv {0}/deep {0}/moved",
            work.display()
        );
        let inside = run(&root, &flags, &script);
        assert_eq!(inside.stdout, "other\n", "{how}: {inside:?}");
        assert!(work.join("deep").exists());
    }
}

#[test]
fn a_rule_means_the_path_inside_and_not_the_same_path_of_the_host() {
    let scratch = Scratch::new();
    let Some(root) = bare(&scratch) else { return };
    let work = scratch.dir("work");
    scratch.write("work/secret", "the host's\n");
    // The root has its own file at the host's path; a bound folder lies over it.
    let own = root.join(work.strip_prefix("/").unwrap());
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(own.join("secret"), "the root's\n").unwrap();
    let secret = work.join("secret");
    for how in ways() {
        let deny = ["--rootfs-write", how, "--deny-read", secret.to_str().unwrap()];
        let bound = [deny.as_slice(), &["--allow-write", work.to_str().unwrap()]].concat();
        let script = format!("cat {}", secret.display());
        for flags in [&deny[..], &bound[..]] {
            let inside = run(&root, flags, &script);
            assert!(
                inside.stdout.is_empty() && inside.stderr.contains("Permission denied"),
                "{how}: {inside:?}"
            );
        }
        assert_eq!(run(&root, &deny[..2], &script).ok().stdout, "the root's\n");
        assert_eq!(run(&root, &bound[..2], &script).ok().stdout, "the root's\n");
        let shown = ["--rootfs-write", how, "--allow-read", work.to_str().unwrap()];
        assert_eq!(run(&root, &shown, &script).ok().stdout, "the host's\n");
    }
}

#[test]
#[kennel_claim::claim("files/denies-hold-in-a-root-file-system")]
fn denied_names_that_are_absent_cannot_be_made_in_the_layer() {
    let scratch = Scratch::new();
    let Some(root) = small(&scratch) else { return };
    let flags = ["--deny-write", "/etc/new", "--deny-read", "/folder/deep/name"];
    let script = "echo x > /etc/new; mkdir /etc/new; ln -s /etc/plain /etc/new; mv /etc/plain /etc/new; ls -a /etc/new; \
         mkdir -p /folder/deep && echo fine > /folder/deep/other && cat /folder/deep/other; echo x > /folder/deep/name; \
         mkdir /other && echo x > /other/name && mv /other /folder/deep/x; mkdir -p /o2/deep; echo x > /o2/deep/name; mv /folder /gone; mv /o2 /folder; \
         ls /folder; ln -s /o2 /folder; cat /folder/deep/name; true";
    let inside = run(&root, &flags, script).ok();
    assert_eq!(inside.stdout, "fine\n", "{inside:?}");
    assert!(inside.stderr.contains("refused to create /etc/new"), "{inside:?}");
    assert!(inside.stderr.contains("refused to create /folder/deep/name"), "{inside:?}");
    assert!(!inside.stderr.contains("despite the guard"), "{inside:?}");
}

#[test]
#[kennel_claim::claim("files/denies-hold-in-a-root-file-system")]
fn a_race_for_an_absent_name_in_the_layer_ends_the_sandbox() {
    let scratch = Scratch::new();
    let Some(root) = small(&scratch) else { return };
    // Whoever gets past the guard is ended by the watch: a rename of a folder that another process fills meanwhile.
    let script = "mkdir /a /b; (while :; do mkdir -p /a/x; : > /a/x/name; rm -r /a/x; done) & \
         i=0; while [ $i -lt 3000 ]; do mv /a/x /t 2>/dev/null; rm -rf /t; i=$((i+1)); done; ls /t";
    let inside = run(&root, &["--deny-read", "/t/name", "--timeout", "60s"], script);
    assert!(!inside.stdout.contains("name"), "{inside:?}");
}

#[test]
#[kennel_claim::claim("files/denies-hold-in-a-root-file-system")]
fn the_folder_of_the_root_is_not_shown_a_second_time() {
    let scratch = Scratch::new();
    let Some(root) = bare(&scratch) else { return };
    let all = scratch.path().to_str().unwrap();
    for how in ways() {
        let flags = ["--rootfs-write", how, "--deny-read", "/etc/shadow", "--allow-write", all];
        let script = format!(
            "cat {0}/etc/shadow; echo x > {0}/etc/plain; echo x > {0}/etc/new; mv {0} {0}2; ls -a {0}; ls {all}",
            root.display()
        );
        let inside = run_in(&root, scratch.path(), &flags, &script);
        assert!(!inside.stdout.contains("secret") && !inside.stdout.contains("shadow"), "{how}: {inside:?}");
        assert!(inside.stdout.ends_with("root\n"), "{how}: {inside:?}");
        assert_eq!(std::fs::read_to_string(root.join("etc/plain")).unwrap(), "plain\n");
    }
    // Nor can a part of it be named.
    let etc = root.join("etc");
    for flags in [
        ["--allow-write".to_owned(), etc.display().to_string()],
        ["--mount".to_owned(), format!("{}:/x", etc.display())],
    ] {
        let refused = run_in(&root, scratch.path(), &flags, "true").expect_code(125);
        assert!(refused.stderr.contains("is in the folder of the root file system"), "{refused:?}");
    }
}

#[test]
fn git_and_dotfiles_of_write_roots_are_protected_as_everywhere() {
    let scratch = Scratch::new();
    let Some(root) = bare(&scratch) else { return };
    if kennel_tests::program("git").is_none() {
        return skipped("there is no git");
    }
    let work = scratch.dir("work");
    scratch.write("work/.bashrc", "# mine\n");
    let made = std::process::Command::new("git").args(["init", "-q"]).current_dir(&work).status();
    assert!(made.unwrap().success());
    for how in ways() {
        let flags = [
            "--rootfs-write",
            how,
            "--allow-write",
            work.to_str().unwrap(),
            "--git",
            "hooks-and-config-read-only",
            "--protect-dotfiles",
        ];
        let script = "echo x > .git/config; echo x > .git/hooks/pre-commit; echo x > .bashrc; echo x > .zshrc; mv .git other; echo fine > file; cat .bashrc";
        let inside = run_in(&root, &work, &flags, script);
        assert_eq!(inside.stdout, "# mine\n", "{how}: {inside:?}");
        assert!(!work.join(".zshrc").exists() && !work.join(".git/hooks/pre-commit").exists());
        assert!(!std::fs::read_to_string(work.join(".git/config")).unwrap().starts_with('x'));
        assert_eq!(std::fs::read_to_string(work.join("file")).unwrap(), "fine\n");
    }
}

#[test]
fn a_denied_file_of_the_root_with_a_second_name_is_refused() {
    let scratch = Scratch::new();
    let Some(root) = small(&scratch) else { return };
    std::fs::hard_link(root.join("etc/shadow"), root.join("srv/second")).unwrap();
    let refused = run(&root, &["--deny-read", "/etc/shadow"], "cat /srv/second").expect_code(125);
    assert!(refused.stderr.contains("hard link"), "{refused:?}");
    run(&root, &["--deny-read", "/etc/shadow", "--deny-read", "/srv/second"], "cat /srv/second")
        .expect_code(1);
}

#[test]
#[kennel_claim::claim("files/denies-hold-in-a-root-file-system")]
fn what_the_host_replaces_in_the_root_stays_hidden() {
    let scratch = Scratch::new();
    let Some(root) = bare(&scratch) else { return };
    for how in ways() {
        let mut command = kennel_tests::kennel([
            "run",
            "--rootfs-write",
            how,
            "--deny-read",
            "/etc/shadow",
            "--deny-read",
            "/etc/later",
            "--rootfs",
        ]);
        // Told by standard input when to look again.
        let script = "sleep 1; echo ready; read line; sleep 1; cat /etc/shadow /etc/later; echo done";
        command.arg(&root).args(["--", "sh", "-c", script]);
        command
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        std::io::BufRead::read_line(&mut output, &mut line).unwrap();
        assert_eq!(line, "ready\n");
        for name in ["shadow", "later"] {
            scratch.write("next", "replaced secret\n");
            std::fs::rename(scratch.join("next"), root.join("etc").join(name)).unwrap();
        }
        std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"\n").unwrap();
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut output, &mut rest).unwrap();
        assert_eq!(rest, "done\n", "{how}");
        assert_eq!(child.wait().unwrap().code(), Some(0));
        std::fs::remove_file(root.join("etc/later")).unwrap();
    }
}

#[test]
#[kennel_claim::claim("files/denies-hold-in-a-root-file-system")]
fn a_link_in_the_root_to_what_is_denied_does_not_lead_around_the_rule() {
    let scratch = Scratch::new();
    let Some(root) = bare(&scratch) else { return };
    let work = scratch.dir("work");
    scratch.write("work/secret", "the host's\n");
    symlink("/etc/shadow", root.join("etc/link")).unwrap();
    symlink("../../../../etc/shadow", root.join("etc/dots")).unwrap();
    symlink("/srv", root.join("etc/folder")).unwrap();
    symlink(&work, root.join("etc/work")).unwrap();
    for how in ways() {
        let host = work.to_str().unwrap();
        let flags = [
            "--rootfs-write",
            how,
            "--allow-write",
            host,
            "--deny-read",
            "/etc/link",
            "--deny-read",
            "/etc/folder/*/a.key",
            "--deny-read",
            "/etc/work/secret",
            "--deny-write",
            "/etc/dots",
        ];
        let script = format!(
            "cat /etc/link /etc/shadow /etc/dots /srv/data/a.key /etc/folder/data/a.key /etc/work/secret {host}/secret; \
             rm /etc/link; rm /etc/dots; rm /etc/folder; rm /etc/work; echo x > /etc/dots; readlink /etc/link"
        );
        let inside = run(&root, &flags, &script);
        assert_eq!(inside.stdout, "/etc/shadow\n", "{how}: {inside:?}");
    }
}
