//! Further cases of srt's file rules, beyond the list of what it is known to do: how rules rank, globs, links, and
//! folders that somebody else owns.

use crate::compat::world::{Place, Told, Which, World, installed, run, srt};

#[test]
fn how_rules_rank() {
    World {
        told: Told::Srt(r#"{"network": {"allowedDomains": [], "deniedDomains": []}, "filesystem": {
            "denyRead": ["p/secret", "p/hid", "h", "p/both.txt"],
            "allowRead": ["p/hid/open", "h/a/b", "p/hid/open/deep/file"],
            "allowWrite": ["p", "p/d/e/f", "q/x", "./r/../r2", "s//t/", "TOP/work/u/./v", "p", "solo.txt", "h/a/b"],
            "denyWrite": ["p/d", "q", "p/d/e/f/g", "p/file.txt", "p/dir with space", "p/hid/open/kept", "r2/deny/"]}}"#),
        make: |place| {
            for name in [
                "p/secret", "p/hid/x", "p/hid/open/x", "p/hid/open/deep/file", "p/hid/open/kept/x", "p/d/x", "p/d/e/f/g/x",
                "p/file.txt", "p/dir with space/x", "p/both.txt", "p/plain", "q/x/y", "q/z", "r/x", "r2/x", "r2/deny/x",
                "s/t/x", "s/x", "u/v/x", "u/x", "solo.txt", "solo.txt.bak", "h/x", "h/a/x", "h/a/b/x",
            ] {
                place.write(&format!("work/{name}"), "text");
            }
        },
        tries: &[
            ("a file in an allowed folder", "echo x > p/plain"),
            ("denied in allowed", "echo x > p/d/x"),
            ("allowed in denied in allowed", "echo x > p/d/e/f/new"),
            ("denied in that", "echo x > p/d/e/f/g/x"),
            ("allowed in denied", "echo x > q/x/y"),
            ("denied beside it", "echo x > q/z"),
            ("a denied file", "echo x > p/file.txt"),
            ("appending to a denied file", "echo x >> p/file.txt"),
            ("removing a denied file", "rm p/file.txt"),
            ("a denied folder with a space", "echo x > 'p/dir with space/x'"),
            ("dots in an allowed path", "echo x > r2/x"),
            ("what the dots passed", "echo x > r/x"),
            ("a deny with a slash at its end", "echo x > r2/deny/x"),
            ("two slashes", "echo x > s/t/x"),
            ("beside two slashes", "echo x > s/x"),
            ("a dot in an absolute path", "echo x > u/v/x"),
            ("beside it", "echo x > u/x"),
            ("one file", "echo x > solo.txt"),
            ("a longer name", "echo x > solo.txt.bak"),
            ("a hidden file", "test -s p/secret"),
            ("a hidden file cannot be written", "echo x > p/secret"),
            ("a hidden folder", "cat p/hid/x"),
            ("a name in a hidden folder", "test -e p/hid/x"),
            ("shown in hidden", "cat p/hid/open/x"),
            ("shown in hidden in allowed, written", "echo x > p/hid/open/x"),
            ("shown twice", "cat p/hid/open/deep/file"),
            ("kept in shown", "echo x > p/hid/open/kept/x"),
            ("hidden and two levels to what is shown", "cat h/a/b/x"),
            ("between these", "cat h/a/x"),
            ("allowed for writing in hidden", "echo x > h/a/b/x"),
            ("hidden and allowed", "test -s p/both.txt"),
            ("a new name in a hidden folder", "echo x > p/hid/new"),
            ("a new folder in what is allowed", "mkdir p/fresh && echo x > p/fresh/x"),
            ("moving from what is kept", "mv p/d/x p/taken"),
            ("moving into what is kept", "echo x > p/t && mv p/t p/d/t"),
            ("a hard link to what is kept", "ln p/file.txt p/hard"),
        ],
        differences: &[
            // There, what is shown in a hidden folder is read-only, though a rule opens it for writing and none denies that.
            ("shown in hidden in allowed, written", "EROFS", "ok"),
            // There, a hidden folder can be written, and what is written is gone at the end without a word.
            ("a new name in a hidden folder", "ok", "EROFS"),
        ],
        disk_differs: &["p/hid/open/x"],
    }
    .compare();
}

#[test]
fn globs() {
    World {
        told: Told::Srt(r#"{"network": {"allowedDomains": [], "deniedDomains": []}, "filesystem": {
            "denyRead": ["**/.env", "conf/*.key", "conf/?.bin", "logs/[ab]*.log", "**/private/**", "a*b", "build/**/out.txt", "no-match-*"],
            "allowRead": ["conf/public.key"],
            "allowWrite": ["."], "denyWrite": ["**/*.lock", "data/*.db"]}}"#),
        make: |place| {
            for name in [
                ".env", "sub/.env", "sub/deep/er/.env", "sub/.envrc", "conf/a.key", "conf/public.key", "conf/sub/b.key", "conf/x.bin",
                "conf/xy.bin", "logs/apple.log", "logs/cherry.log", "x/private/y/z", "private/top", "axxb", "ab", "axxc", "build/out.txt",
                "build/x/y/out.txt", "build/x/in.txt", "x.lock", "sub/y.lock", "data/one.db", "data/sub/two.db",
            ] {
                place.write(&format!("work/{name}"), "text");
            }
        },
        tries: &[
            ("two stars, at the top", "test -s .env"),
            ("two stars, below", "test -s sub/.env"),
            ("two stars, far below", "test -s sub/deep/er/.env"),
            ("a longer name", "test -s sub/.envrc"),
            ("one star", "test -s conf/a.key"),
            ("one star, and shown again", "test -s conf/public.key"),
            ("one star does not go down", "test -s conf/sub/b.key"),
            ("a question mark", "test -s conf/x.bin"),
            ("two letters", "test -s conf/xy.bin"),
            ("a set", "test -s logs/apple.log"),
            ("not in the set", "test -s logs/cherry.log"),
            ("stars around", "test -s x/private/y/z"),
            ("stars around, at the top", "test -s private/top"),
            ("a star inside", "test -s axxb"),
            ("a star for nothing", "test -s ab"),
            ("another end", "test -s axxc"),
            ("stars for nothing", "test -s build/out.txt"),
            ("stars in the middle", "test -s build/x/y/out.txt"),
            ("beside them", "test -s build/x/in.txt"),
            ("a match made later", "echo x > no-match-yet && cat no-match-yet"),
            ("a match cannot be removed", "rm conf/a.key"),
            ("nor moved", "mv logs/apple.log logs/cherry2.log"),
            ("a write deny by two stars", "echo x > x.lock"),
            ("a write deny by two stars, below", "echo x > sub/y.lock"),
            ("a write deny by a star", "echo x > data/one.db"),
            ("a write deny by a star does not go down", "echo x > data/sub/two.db"),
        ],
        differences: &[
            // There, globs in the write lists are left out on Linux.
            ("a write deny by two stars", "ok", "EROFS"),
            ("a write deny by two stars, below", "ok", "EROFS"),
            ("a write deny by a star", "ok", "EROFS"),
        ],
        disk_differs: &["x.lock", "sub/y.lock", "data/one.db"],
    }
    .compare();
}

#[test]
fn links() {
    World {
        told: Told::Srt(r#"{"network": {"allowedDomains": [], "deniedDomains": []}, "filesystem": {
            "denyRead": ["chain-1", "by-abs", "lf"],
            "allowRead": [],
            "allowWrite": ["w", "loop-a", "through/sub", "real2"], "denyWrite": ["w/dangling", "w/kept-link", "w/kept-dir-link"]}}"#),
        make: |place| {
            for name in [
                "w/x", "w/real/x", "w/realdir/x", "target/x", "end", "abs-target/x", "outside/sub/x", "real2/x", "secret-file",
            ] {
                place.write(&format!("work/{name}"), "text");
            }
            place.link("work/chain-1", "chain-2");
            place.link("work/chain-2", "end");
            place.link("work/by-abs", &place.work().join("abs-target").display().to_string());
            place.link("work/loop-a", "loop-b");
            place.link("work/loop-b", "loop-a");
            place.link("work/through", "outside");
            place.link("work/w/dangling", "not-there");
            place.link("work/w/kept-link", "x");
            place.link("work/w/kept-dir-link", "realdir");
            place.link("work/w/to-real2", "../real2");
            place.link("work/w/to-target", "../target");
            place.link("work/w/up", "..");
            place.link("work/lf", "secret-file");
            place.link("work/second-name", "secret-file");
        },
        tries: &[
            ("a chain of links is denied at its end", "test -s end"),
            ("by its first name", "test -s chain-1"),
            ("by its second name", "test -s chain-2"),
            ("a denied absolute link", "cat by-abs/x"),
            ("its target", "cat abs-target/x"),
            ("a denied file by a link", "test -s lf"),
            ("its own name", "test -s secret-file"),
            ("another link to it", "test -s second-name"),
            ("an allowed loop", "echo x > loop-a"),
            ("allowed below a link", "echo x > outside/sub/x"),
            ("below what it leads to", "echo x > outside/new"),
            ("what a denied dangling link names", "echo x > w/not-there"),
            ("through a denied link", "echo x > w/kept-link"),
            ("through a denied folder link", "echo x > w/kept-dir-link/x"),
            ("by its target", "echo x > w/realdir/x"),
            ("a link to another writable folder", "echo x > w/to-real2/x"),
            ("a link to a folder that is not", "echo x > w/to-target/x"),
            ("dots by a link", "echo x > w/up/new"),
            ("a new link out, written through", "ln -s ../target/x w/out && echo x > w/out"),
            ("a new link, read through", "ln -s ../target/x w/out2 && cat w/out2"),
            ("moving a link", "mv w/to-real2 w/moved"),
            ("replacing a folder by a link", "rm -r w/real && ln -s ../target w/real && echo x > w/real/x"),
        ],
        differences: &[],
        disk_differs: &[],
    }
    .compare();
}

/// What is read through links that are the user's own, where no run could have made them.
#[test]
fn links_outside_of_what_is_written_lead_into_what_is_hidden() {
    for allowed in
        ["TOP/links/dir/open", "TOP/links/dir", "TOP/links/dir/*", "TOP/links/*/open", "TOP/links/dir/open/x"]
    {
        World {
            told: Told::Srt(&format!(
                r#"{{"network": {{"allowedDomains": [], "deniedDomains": []}}, "filesystem": {{
                "denyRead": ["TOP/v"], "allowRead": ["{allowed}"], "allowWrite": [], "denyWrite": []}}}}"#
            )),
            make: |place| {
                place.write("v/dir/open/x", "text");
                place.write("v/dir/file", "text");
                place.write("v/beside", "text");
                place.link("links/dir", "../v/dir");
            },
            tries: &[
                ("by the link", "cat ../links/dir/open/x"),
                ("by its own name", "cat ../v/dir/open/x"),
                ("beside it, by the link", "cat ../links/dir/file"),
                ("beside it", "cat ../v/dir/file"),
                ("above it", "cat ../v/beside"),
            ],
            differences: &[],
            disk_differs: &[],
        }
        .compare();
    }
}

/// A link to a folder that is denied by its own name too is no way in, and no reason not to start.
#[test]
fn a_link_to_what_is_denied_again_opens_nothing() {
    for deny in
        [r#""TOP/v", "TOP/v/dir""#, r#""TOP/v", "TOP/v/*""#, r#""TOP/v/dir", "TOP/v", "TOP/v/dir/open""#]
    {
        World {
            told: Told::Srt(&format!(
                r#"{{"network": {{"allowedDomains": [], "deniedDomains": []}}, "filesystem": {{
                "denyRead": [{deny}], "allowRead": ["TOP/v/link"], "allowWrite": [], "denyWrite": []}}}}"#
            )),
            make: |place| {
                place.write("v/dir/open/x", "text");
                place.write("v/other/x", "text");
                place.link("v/link", "dir");
            },
            tries: &[
                ("by the link", "cat ../v/link/open/x"),
                ("by its own name", "cat ../v/dir/open/x"),
                ("beside it", "cat ../v/other/x"),
            ],
            differences: &[],
            disk_differs: &[],
        }
        .compare();
    }
}

/// The root is denied, and may be written as a whole: only what `allowRead` names shows.
#[test]
fn a_root_that_is_denied_and_writable_stays_hidden() {
    let shown = r#""/usr", "/bin", "/lib", "/lib64", "PEERS""#;
    for (allowed, written) in [("", r#""/""#), (r#", "TOP/open""#, r#""/""#), ("", r#""/", "TOP/open""#)] {
        World {
            told: Told::Srt(&format!(
                r#"{{"network": {{"allowedDomains": [], "deniedDomains": []}}, "filesystem": {{
                "denyRead": ["/"], "allowRead": [{shown}{allowed}], "allowWrite": [{written}], "denyWrite": []}}}}"#
            )),
            make: |place| {
                place.write("work/x", "text");
                place.write("open/x", "text");
                place.write("home/.ssh/id", "text");
            },
            tries: &[
                ("a file of the work folder", "cat ${HOME%/home}/work/x"),
                ("a key", "cat $HOME/.ssh/id"),
                ("the system's users", "test -s /etc/passwd"),
                ("what is allowed again", "cat ${HOME%/home}/open/x"),
                ("programs", "test -x /usr/bin/env"),
            ],
            differences: &[],
            disk_differs: &[],
        }
        .compare();
    }
}

/// Folders that the caller cannot write or not even look into, as those of root are for everybody else.
#[test]
fn folders_of_somebody_else() {
    if !installed(&["bash"]) {
        return;
    }
    World {
        told: Told::Srt(r#"{"network": {"allowedDomains": [], "deniedDomains": []}, "filesystem": {"denyRead": ["shut/secret", "/etc/shadow"],
            "allowWrite": ["open", "closed", "shut"], "denyWrite": ["open/none", "/root/x", "/etc/nothing-there"]}}"#),
        make: |place| {
            place.write("work/open/x", "text");
            place.write("work/closed/x", "text");
            place.write("work/shut/x", "text");
            place.host("chmod 555 closed; chmod 000 shut");
        },
        tries: &[
            ("beside it all works", "echo x > open/new"),
            ("a denied path that is not there", "echo x > open/none"),
            ("/etc", "echo x > /etc/nothing-there"),
            ("a denied file of root's", "test -s /etc/shadow"),
        ],
        differences: &[],
        disk_differs: &[],
    }
    .compare();
}

#[test]
fn a_glob_hides_what_it_matches_below_a_folder_that_both_lists_name() {
    let place = Place::new();
    place.write("work/a/secret", "text");
    place.write("work/open", "shown");
    let settings = r#"{"network": {"allowedDomains": [], "deniedDomains": []},
        "filesystem": {"denyRead": [".", "a/**"], "allowWrite": ["."], "denyWrite": []}}"#;
    let mut command = srt(Which::Kennel, &place, Some(settings)).expect("kennel is there");
    let ran = run(command.args(["-c", "cat open a/secret"]));
    assert_eq!(ran.stdout, "shown", "{}", ran.stderr);
}
