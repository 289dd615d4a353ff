//! Files of the tree that a protected configuration has git run stay as they are, in whatever way it spells them.

use super::handed_back::{OFF, Way, World};
use super::{HOOKS, skipped};
use kennel_tests::program;

/// A filter's command, the file that it runs, and what that says: `CANARY` leaves a trace.
const SPELLINGS: &[(&str, &str)] = &[
    (r#""$(git rev-parse --show-toplevel)/tools/x""#, "tools/x"),
    ("`git rev-parse --show-toplevel`/tools/y", "tools/y"),
    ("$PWD/tools/pwd", "tools/pwd"),
    (r#""${PWD}"/tools/braces"#, "tools/braces"),
    ("cd tools && ./cd", "tools/cd"),
    ("(cd tools; exec ./subshell)", "tools/subshell"),
    ("cd tools/deep/.. && sh ./dots.sh", "tools/dots.sh"),
    ("sh -c './tools/inner \"$1\"' -", "tools/inner"),
    ("bash -ec \"tools/quoted\"", "tools/quoted"),
    ("env X=1 ./env", "env"),
    ("X=1 tools/variable", "tools/variable"),
    ("f() { ./tools/function; }; f", "tools/function"),
    ("cat | tools/pipe", "tools/pipe"),
    (". ./tools/sourced", "tools/sourced"),
    ("sh globbed/*.sh", "globbed/a.sh"),
    ("./gradlew -q", "gradlew"),
    ("sh script.sh", "script.sh"),
    ("'tools/with space'", "tools/with space"),
    ("test -x tools/tested && tools/tested", "tools/tested"),
    ("make -s -C built", "built/Makefile"),
    ("python3 -m package.module", "package/module.py"),
];

fn text(file: &str, command: &str) -> String {
    match file {
        _ if file.ends_with("Makefile") => format!("all:\n\t@{command}cat\n"),
        _ if file.ends_with(".py") => {
            let command = command.trim_end_matches("; ");
            let run = if command.is_empty() {
                String::new()
            } else {
                format!("import os; os.system({command:?})\n")
            };
            format!("{run}import sys; sys.stdout.write(sys.stdin.read())\n")
        }
        _ => format!("#!/bin/sh\n{command}cat\n"),
    }
}

/// Whether a spelling can be tried here.
fn works_here(spelling: &str) -> bool {
    let needed = [("make", "make "), ("python3", "python3 "), ("bash", "bash ")];
    needed.iter().all(|(name, start)| !spelling.starts_with(start) || program(name).is_some())
}

/// The numbers of the spellings of which the host's git ran something else after a run with this level.
fn ran(way: Way) -> Option<Vec<usize>> {
    let world = World::new()?;
    let top = world.scratch.path().display().to_string();
    let (mut before, mut inside) = (String::new(), String::new());
    for (number, (spelling, file)) in SPELLINGS.iter().enumerate().filter(|(_, (one, _))| works_here(one)) {
        world.scratch.write(&format!("work/{file}"), &text(file, ""));
        let spelling = spelling.replace('\'', r"'\''");
        before += &format!(
            "chmod +x '{file}' '{top}/new/{file}'; git config filter.f{number}.clean '{spelling}'\n"
        );
        before += &format!("echo 'in{number} filter=f{number}' >> .gitattributes; echo 1 > in{number}\n");
        world.scratch.write(&format!("new/{file}"), &text(file, &format!("touch {top}/ran-{number}; ")));
        let new = format!("{top}/new/{file}");
        inside +=
            &format!("cp '{new}' '{file}'; (rm -f '{file}' && cp '{new}' '{file}'); chmod +x '{file}'\n");
        inside += &format!("(cp '{new}' '{file}.new' && mv -f '{file}.new' '{file}')\n");
    }
    before += "mkdir -p tools/deep; git config alias.go '!cd tools && ./cd'; git config diff.external '$PWD/tools/pwd'\n";
    world.host(&format!("{before} git add -A; git commit -qm f"));
    world.inside(way, &format!("{{ {inside} }} 2>/dev/null; echo 2 > two; true")).ok();
    let check = "for file in in*; do echo 2 > $file; git add $file </dev/null >/dev/null 2>&1 || true; done
        git diff >/dev/null 2>&1 || true; git go </dev/null >/dev/null 2>&1 || true";
    world.host(check);
    let found = |number: &usize| world.scratch.join(&format!("ran-{number}")).exists();
    Some((0..SPELLINGS.len()).filter(found).collect())
}

#[test]
#[kennel_claim::claim("handed-back/git-named-files-stay")]
fn what_a_configuration_runs_stays_in_all_spellings() {
    let Some(open) = ran(OFF) else { return };
    for (number, (spelling, _)) in SPELLINGS.iter().enumerate() {
        match works_here(spelling) {
            true => assert!(open.contains(&number), "{spelling}: it does not run without a level either"),
            false => skipped(spelling),
        }
    }
    let kept: Vec<&str> =
        ran(Way::Level(HOOKS)).into_iter().flatten().map(|number| SPELLINGS[number].0).collect();
    assert!(kept.is_empty(), "these ran what was written inside: {kept:?}");
}

#[test]
#[kennel_claim::claim("handed-back/git-named-files-stay")]
fn a_setting_that_is_not_understood_is_told() {
    let Some(world) = World::new() else { return };
    world.host("git config filter.x.clean 'cd tools && ./x'; git config core.pager 'less -FRX'; git config alias.st status");
    let ran = world.inside(Way::Level(HOOKS), "true").ok();
    assert!(ran.stderr.contains("filter.x.clean") && ran.stderr.contains("may run files"), "{}", ran.stderr);
    for plain in ["core.pager", "alias.st"] {
        assert!(!ran.stderr.contains(plain), "{}", ran.stderr);
    }
}
