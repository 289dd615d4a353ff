//! srt's file rules.

use std::process::Stdio;

use kennel_tests::eventually;

use crate::compat::world::{Place, Told, Which, World, run, srt};

#[test]
#[kennel_claim::claim("macos/permits-what-linux-permits")]
fn what_can_be_written() {
    World {
        told: Told::Srt(r#"{"network": {"allowedDomains": [], "deniedDomains": []}, "filesystem": {"denyRead": [],
            "allowWrite": ["out", "link-out", "slash/", "deep/**", "absent", "my dir", "out/kept/open", "TOP/work/abs", "one-file"],
            "denyWrite": ["out/kept", "out/kept-file", "out/not/there/yet", "out/soft"]}}"#),
        make: |place| {
            for name in ["out/kept/open", "slash", "deep/er", "my dir", "abs", "real", "elsewhere"] {
                place.dir(&format!("work/{name}"));
            }
            place.write("work/readable", "text");
            place.write("work/one-file", "text");
            place.write("work/other-file", "text");
            place.write("work/out/kept-file", "text");
            place.write("work/out/kept/x", "text");
            place.write("work/real/x", "text");
            place.link("work/link-out", "../elsewhere-outside");
            place.dir("elsewhere-outside");
            place.write("elsewhere-outside/file", "text");
            place.link("work/out/leak", "../../elsewhere-outside/file");
            place.link("work/out/leak-dir", "../../elsewhere-outside");
            place.link("work/out/soft", "../real");
        },
        tries: &[
            ("1 outside", "echo x > other"),
            ("1 a new folder outside", "mkdir newdir"),
            ("2 reads", "cat readable /etc/passwd"),
            ("3 through a link", "echo x > out/leak"),
            ("3 through a linked folder", "echo x > out/leak-dir/new"),
            ("4 a link that is allowed", "echo x > link-out/new"),
            ("5 a slash at the end", "echo x > slash/new"),
            ("6 a folder and two stars", "echo x > deep/er/new"),
            ("a folder that is not there", "mkdir absent"),
            ("a space in a name", "echo x > 'my dir/a b'"),
            ("an absolute path", "echo x > abs/new"),
            ("one file", "echo x > one-file"),
            ("its neighbour", "echo x > other-file"),
            ("inside", "echo x > out/new"),
            ("a folder inside", "mkdir -p out/a/b/c"),
            ("denied folder", "echo x > out/kept/new"),
            ("denied folder, old file", "echo x > out/kept/x"),
            ("denied file", "echo x > out/kept-file"),
            ("allowed below denied", "echo x > out/kept/open/new"),
            ("14 a denied path that is not there", "mkdir -p out/not/there && echo x > out/not/there/yet"),
            ("a denied link", "echo x > out/soft/x"),
            ("a denied link by its target", "echo x > real/x"),
            ("move over a denied file", "echo x > out/t && mv out/t out/kept-file"),
            ("move a denied folder", "mv out/kept out/gone"),
            ("remove a denied file", "rm -f out/kept-file"),
            ("25 a hard link into the tree", "ln readable out/hard"),
            ("25 a device", "mknod out/null c 1 3"),
            ("25 a FIFO", "mkfifo out/fifo"),
            ("change a mode", "touch out/m && chmod 600 out/m"),
            ("change a mode outside", "chmod 600 readable"),
            ("remove outside", "rm readable"),
            ("touch outside", "touch readable"),
            ("a temporary file", "mktemp"),
            ("/tmp", "echo x > /tmp/kennel-compat-x"),
            ("/dev/null", "echo x > /dev/null"),
            ("/dev/shm", "echo x > /dev/shm/x"),
            ("/usr", "echo x > /usr/x"),
            ("/etc", "echo x >> /etc/passwd"),
        ],
        differences: &[
            // TMPDIR names a folder that is there.
            ("a temporary file", "ENOENT", "ok"),
        ],
        disk_differs: &["out/not"],
    }
    .compare();
}

#[test]
#[kennel_claim::claim("macos/permits-what-linux-permits")]
fn what_can_be_read() {
    World {
        told: Told::Srt(r#"{"network": {"allowedDomains": [], "deniedDomains": []}, "filesystem": {
            "denyRead": ["hidden", "**/*.pem", "file", "outer", "TOP/work/by-link", "twice", "nothing-there", "app/[slug]"],
            "allowRead": ["hidden/shown", "outer/inner", "parent", "twice"],
            "allowWrite": [".", "hidden/wr"], "denyWrite": ["hidden"]}}"#),
        make: |place| {
            for name in [
                "hidden/secret", "hidden/shown/text", "hidden/wr/text", "a.pem", "sub/deep/b.pem", "file", "outer/no",
                "outer/inner/yes", "outer/inner/c.pem", "target/x", "twice/x", "open", "app/[slug]/page", "app/s/page",
            ] {
                place.write(&format!("work/{name}"), "text");
            }
            place.link("work/by-link", "target");
            place.link("work/to-hidden", "hidden");
        },
        tries: &[
            ("2 by default", "cat open"),
            ("19 a denied folder", "cat hidden/secret"),
            ("19 shows nothing of it", "ls -A hidden | grep secret"),
            ("19 by a link", "cat to-hidden/secret"),
            ("20 allowed inside", "cat hidden/shown/text"),
            ("20 allowed inside, not writable", "echo x > hidden/shown/text"),
            ("20 a folder inside a folder", "cat outer/inner/yes"),
            ("20 its neighbour", "cat outer/no"),
            ("21 a denied file", "test -s file"),
            ("21 a glob below an allowed folder", "test -s outer/inner/c.pem"),
            ("22 a write deny shows nothing", "cat hidden/secret"),
            ("24 a glob", "test -s a.pem"),
            ("24 a glob deep down", "test -s sub/deep/b.pem"),
            ("24 cannot be moved", "mv a.pem b.txt"),
            ("the target of a denied link", "test -s target/x"),
            ("named by both lists", "cat twice/x"),
            ("brackets as they are", "test -s 'app/[slug]/page'"),
            ("brackets as a set", "test -s app/s/page"),
            ("a denied path that was not there", "echo x > nothing-there"),
        ],
        differences: &[],
        disk_differs: &[],
    }
    .compare();
}

#[test]
fn a_denied_root_with_holes() {
    World {
        told: Told::Srt(r#"{"network": {"allowedDomains": [], "deniedDomains": []}, "filesystem": {"denyRead": ["/"],
            "allowRead": ["/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "PEERS", "."], "allowWrite": ["out"], "denyWrite": []}}"#),
        make: |place| {
            place.dir("work/out");
            place.write("work/text", "text");
            place.write("outside", "text");
        },
        tries: &[
            ("23 the working directory", "cat text"),
            ("23 programs", "ls /usr"),
            ("23 outside", "cat ../outside"),
            ("23 the rest of /etc", "cat /etc/passwd"),
            ("23 writes", "echo x > out/new"),
            ("23 no other writes", "echo x > new"),
            ("23 the home", "ls \"$HOME\""),
        ],
        differences: &[
            // There, what is shown in a denied folder is bound read-only over what was opened for writing in it.
            ("23 writes", "EROFS", "ok"),
        ],
        disk_differs: &["out"],
    }
    .compare();
}

/// Each mandatory name, absent and there.
#[test]
#[kennel_claim::claim("handed-back/srt-protected-names")]
fn mandatory_names() {
    World {
        told: Told::Srt(
            r#"{"network": {"allowedDomains": [], "deniedDomains": []},
            "filesystem": {"denyRead": [], "allowWrite": ["."], "denyWrite": []}}"#,
        ),
        make: |place| {
            for name in [
                "sub/.bashrc",
                "sub/deep/.mcp.json",
                "sub/deep/er/.bashrc",
                "sub/.vscode/x",
                "node_modules/pkg/.bashrc",
                "sub/.claude/agents/x",
                ".claude/agents/x",
                ".idea/x",
                "nested/.mcp.json",
            ] {
                place.write(&format!("work/{name}"), "text");
            }
            place.dir("elsewhere");
            place.write("elsewhere/profile", "text");
            place.link("work/.profile", "../elsewhere/profile");
        },
        tries: &[
            ("7 .gitconfig", "echo x > .gitconfig"),
            ("7 .gitmodules", "echo x > .gitmodules"),
            ("7 .bashrc", "echo x > .bashrc"),
            ("7 .bash_profile", "echo x > .bash_profile"),
            ("7 .zshrc", "echo x > .zshrc"),
            ("7 .zprofile", "echo x > .zprofile"),
            ("7 .ripgreprc", "echo x > .ripgreprc"),
            ("7 .mcp.json", "echo x > .mcp.json"),
            ("7 .vscode", "mkdir -p .vscode && echo x > .vscode/settings.json"),
            ("7 .idea", "echo x > .idea/new"),
            ("7 .claude/agents", "echo x > .claude/agents/new"),
            ("7 .claude/commands", "mkdir -p .claude/commands && echo x > .claude/commands/new"),
            ("7 by a move", "echo x > t1 && mv t1 .bashrc"),
            ("7 by a link", "echo x > t2 && ln t2 .zshrc"),
            ("7 by a symlink", "ln -s t2 .bash_profile"),
            ("7 nested file", "echo x > sub/.bashrc"),
            ("7 nested, two deep", "echo x > sub/deep/.mcp.json"),
            ("7 nested, too deep", "echo x > sub/deep/er/.bashrc"),
            ("7 nested folder", "echo x > sub/.vscode/new"),
            ("7 nested agents", "echo x > sub/.claude/agents/new"),
            ("7 in node_modules", "echo x > node_modules/pkg/.bashrc"),
            ("7 a nested one that is not there", "echo x > sub/.zshrc"),
            ("7 moving what holds one", "mv nested gone"),
            ("18 .claude by a link", "mv .claude old && ln -s old .claude"),
            ("a link in its place", "rm .profile"),
            ("what a link leads to", "echo x > .profile"),
            ("everything else", "echo x > .other && mkdir .claude/other && echo x > .claude/other/x"),
            ("the settings themselves", "echo {} > \"$HOME/.srt-settings.json\""),
        ],
        differences: &[
            // There, a file that is a link can be taken away and made anew.
            ("a link in its place", "ok", "EBUSY"),
            ("what a link leads to", "ok", "EROFS"),
        ],
        disk_differs: &[".vscode", ".claude/commands", ".profile"],
    }
    .compare();
}

/// 15, 16 and 17: what is on the disk while one runs, while a second one runs beside it and ends, and after both.
#[test]
fn no_ghosts() {
    const GO_ON: &str = "../go-on";
    for which in [Which::Kennel, Which::Real] {
        let place = Place::new();
        place.write("work/kept/x", "text");
        let settings = r#"{"network": {"allowedDomains": [], "deniedDomains": []},
            "filesystem": {"denyRead": [], "allowWrite": [".", "TOP"], "denyWrite": ["a/b/c", "nothing", "kept/none"]}}"#;
        let before = place.picture();
        let Some(mut first) = srt(which, &place, Some(settings)) else { return };
        let script = format!(
            "touch ../started; while ! test -e {GO_ON}; do sleep 0.05; done; (echo x > nothing) 2>/dev/null; echo x > .bashrc"
        );
        let mut first = first.args(["-c", &script]).stderr(Stdio::null()).spawn().unwrap();
        eventually("the first one runs", || place.top().join("started").exists().then_some(()));
        let ghosts = place.picture() != before;
        assert_eq!(ghosts, which == Which::Real, "{which:?}: while it runs");
        let mut second = srt(which, &place, Some(settings)).expect("the first one was there");
        run(second.args(["-c", "echo new > kept/new"])).ok();
        // 16: the end of the second takes nothing from the first.
        place.write("go-on", "");
        let first = first.wait().unwrap();
        assert!(!first.success(), "{which:?}: what is denied could be made after another one ended");
        // 15 and 17: what was empty has gone, what was not is still there.
        let mut expected = before.clone();
        expected.insert("work/kept/new".into(), b"new\n".to_vec());
        assert_eq!(place.picture(), expected, "{which:?}");
    }
}

#[test]
fn odd_names() {
    World {
        told: Told::Srt(
            r#"{"network": {"allowedDomains": [], "deniedDomains": []}, "filesystem": {
            "denyRead": ["new\nline", "-dash", "quo'te\"s", "$(touch pwned)", "ünïcode"],
            "allowWrite": ["w $x", "w;y", "w\tz", {"path": "lit*eral", "literal": true}, "*.glob"],
            "denyWrite": ["w $x/a b", {"path": "w;y/[k]", "literal": true}]}}"#,
        ),
        make: |place| {
            for name in [
                "new\nline",
                "-dash",
                "quo'te\"s",
                "$(touch pwned)",
                "ünïcode",
                "w $x/a b",
                "w;y/[k]",
                "w;y/k",
                "w\tz/x",
                "lit*eral/x",
                "literal/x",
                "litXeral/x",
                "d.glob/x",
            ] {
                place.write(&format!("work/{name}"), "text");
            }
        },
        tries: &[
            ("a line break", "test -s $'new\\nline'"),
            ("a dash", "test -s ./-dash"),
            ("quotes", "test -s \"quo'te\\\"s\""),
            ("a command", "test -s '$(touch pwned)'"),
            ("beyond ASCII", "test -s ünïcode"),
            ("a dollar", "echo x > 'w $x/new'"),
            ("a dollar, denied", "echo x > 'w $x/a b'"),
            ("a semicolon", "echo x > 'w;y/new'"),
            ("brackets, denied", "echo x > 'w;y/[k]'"),
            ("brackets are no set", "echo x > w\\;y/k"),
            ("a tab", "echo x > $'w\\tz/new'"),
            ("a literal star", "echo x > 'lit*eral/new'"),
            ("that matches nothing else", "echo x > litXeral/new"),
            ("a glob to write", "echo x > d.glob/new"),
        ],
        differences: &[
            // There, globs in the write lists are left out on Linux.
            ("a glob to write", "EROFS", "ok"),
        ],
        disk_differs: &["d.glob"],
    }
    .compare();
}

#[test]
fn five_hundred_rules() {
    let list = |name: &str| (0..500).map(|n| format!("\"{name}-{n}\"")).collect::<Vec<_>>().join(",");
    let settings = format!(
        r#"{{"network": {{"allowedDomains": [], "deniedDomains": []}}, "filesystem": {{"denyRead": [{}], "allowWrite": ["."], "denyWrite": [{}]}}}}"#,
        list("secret"),
        list("kept"),
    );
    World {
        told: Told::Srt(&settings),
        make: |place| {
            for n in 0..500 {
                place.write(&format!("work/secret-{n}"), "text");
                place.write(&format!("work/kept-{n}"), "text");
            }
        },
        tries: &[
            ("the first", "test -s secret-0"),
            ("the last", "test -s secret-499"),
            ("the first kept", "echo x > kept-0"),
            ("the last kept", "echo x > kept-499"),
            ("another", "echo x > kept-500"),
        ],
        differences: &[],
        disk_differs: &[],
    }
    .compare();
}

#[test]
fn files_left_alone() {
    World {
        told: Told::Srt(
            r#"{"network": {"allowedDomains": [], "deniedDomains": []},
            "filesystem": {"disabled": true, "denyRead": ["x"], "allowWrite": [], "denyWrite": ["."]}}"#,
        ),
        make: |place| {
            place.write("work/x", "text");
        },
        tries: &[("reads", "test -s x"), ("writes", "echo y > y"), ("dotfiles", "echo y > .bashrc")],
        differences: &[],
        disk_differs: &[],
    }
    .compare();
}
