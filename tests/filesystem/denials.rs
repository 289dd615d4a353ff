//! What kennel says about files that real programs could not use: the line for each, and nothing where the failure is their own.

use std::time::Duration;

use kennel_tests::{Scratch, am_root, kennel, program, ran_within, skipped, text};

/// A project that can be written, a folder that cannot, and one that is hidden.
struct Place {
    scratch: Scratch,
}

impl Place {
    fn new() -> Place {
        let place = Place { scratch: Scratch::new() };
        place.scratch.dir("home");
        place.scratch.dir("closed/sub");
        place.scratch.write("closed/file", "old\n");
        place.scratch.write("hidden/file", "secret\n");
        place.scratch.write("hidden/part.h", "int part;\n");
        place.scratch.write("hidden/part.mk", "x = 1\n");
        place.scratch.write("w/b.c", "int main(void) { return 0; }\n");
        let part = text(&place.scratch.join("hidden/part"));
        place.scratch.write("w/a.c", &format!("#include \"{part}.h\"\nint main(void) {{ return 0; }}\n"));
        place.scratch.write("w/hidden.mk", &format!("include {part}.mk\nall:\n"));
        let closed = text(&place.scratch.join("closed"));
        place.scratch.write("w/closed.mk", &format!("all:\n\t@cp b.c {closed}/made\n"));
        place
    }

    /// What kennel says of a script: its lines, in which `$C` stands for the closed folder and `$H` for the hidden one.
    fn told(&self, command: &str, script: &str) -> Vec<String> {
        let (home, hidden) = (text(&self.scratch.join("home")), text(&self.scratch.join("hidden")));
        let mut run = kennel([command, "--allow-write", ".", "--allow-write", &home, "--deny-read", &hidden]);
        run.args(["--", "sh", "-c", script]);
        run.env("HOME", &home).env("LC_ALL", "C").current_dir(self.scratch.join("w"));
        run.env("C", self.scratch.join("closed")).env("H", &hidden);
        let ran = ran_within(Duration::from_secs(60), &mut run);
        let lines = ran.stderr.lines().filter_map(|line| line.strip_prefix("kennel: "));
        let closed = text(&self.scratch.join("closed"));
        lines.map(|line| line.replace(&closed, "$C").replace(&hidden, "$H")).collect()
    }
}

const NO_RULE: &str = "no rule allows writing there; to allow it: --allow-write $C";
const HIDDEN: &str = "closed by --deny-read $H; to allow it: drop that rule";

/// Programs that fail at a closed path: the program, a script, and what could not be done, where and why.
const FAILING: &[(&str, &str, &str, &str)] = &[
    ("sh", "echo x > $C/new", "sh could not create $C/new", NO_RULE),
    ("bash", "bash -c 'echo x > $C/new'", "bash could not create $C/new", NO_RULE),
    ("dash", "dash -c 'echo x >> $C/file'", "dash could not write $C/file", NO_RULE),
    ("perl", "perl -e 'open(F, \">\", \"$ENV{C}/new\") or die'", "perl could not create $C/new", NO_RULE),
    (
        "node",
        "node -e 'fs.writeFileSync(process.env.C + \"/new\", \"x\")'",
        "node could not create $C/new",
        NO_RULE,
    ),
    ("node", "node -e 'fs.readFileSync(process.env.H + \"/file\")'", "node could not read $H/file", HIDDEN),
    ("sqlite3", "sqlite3 $C/new 'create table x(y)'", "sqlite3 could not create $C/new", NO_RULE),
    ("make", "make -f closed.mk", "cp could not create $C/made", NO_RULE),
    ("tar", "tar cf $C/new.tar b.c", "tar could not create $C/new.tar", NO_RULE),
    ("cp", "cp b.c $C/", "cp could not create $C/b.c", NO_RULE),
    ("mkdir", "mkdir $C/new", "mkdir could not create $C/new", NO_RULE),
    ("ln", "ln -s x $C/new", "ln could not create $C/new", NO_RULE),
    ("touch", "touch $C/new", "touch could not create $C/new", NO_RULE),
    ("rm", "rm -f $C/file", "rm could not remove $C/file", NO_RULE),
    ("rmdir", "rmdir $C/sub", "rmdir could not remove $C/sub", NO_RULE),
    ("chmod", "chmod 600 $C/file", "chmod could not change the attributes of $C/file", NO_RULE),
    ("truncate", "truncate -s 0 $C/file", "truncate could not write $C/file", NO_RULE),
    ("dd", "dd if=b.c of=$C/new status=none", "dd could not create $C/new", NO_RULE),
    ("tee", "tee $C/new < b.c", "tee could not create $C/new", NO_RULE),
    ("awk", "awk 'BEGIN { print 1 > ENVIRON[\"C\"] \"/new\" }'", "awk could not create $C/new", NO_RULE),
    ("curl", "curl -s -o $C/new file://$PWD/b.c", "curl could not create $C/new", NO_RULE),
    ("git", "git init -q $C/new", "git could not create $C/new", NO_RULE),
    ("ssh-keygen", "ssh-keygen -q -t ed25519 -N '' -f $C/new", "ssh-keygen could not create $C/new", NO_RULE),
    ("cat", "cat $H/file", "cat could not read $H/file", HIDDEN),
    ("ls", "ls $H", "ls could not read $H", HIDDEN),
    ("jq", "jq -n --slurpfile x $H/file '$x'", "jq could not read $H/file", HIDDEN),
    ("gcc", "gcc a.c -o a", "cc1 could not read $H/part.h", HIDDEN),
    ("make", "make -f hidden.mk", "make could not read $H", HIDDEN),
    ("tar", "tar cf x.tar $H/file", "tar could not find $H/file", HIDDEN),
];

#[test]
fn each_real_program_that_fails_at_a_closed_path_has_its_line() {
    let (mut tried, mut wrong) = (0, Vec::new());
    for (name, script, tries, why) in FAILING {
        if program(name).is_none() {
            skipped(&format!("no {name}"));
            continue;
        }
        let place = Place::new();
        let told = place.told("why", script);
        tried += 1;
        let is_it = |line: &String| {
            let mut parts = line.splitn(2, ": ");
            // Some try more than once, or go by another name.
            let what = parts.next().unwrap_or_default();
            let what = what.split(" (").next().unwrap_or_default();
            let same = what == *tries
                || what.split_once(' ').map(|two| two.1) == tries.split_once(' ').map(|two| two.1);
            let said = parts.next().map(|said| said.replace(" (1 more like it)", ""));
            same && said.as_deref() == Some(*why)
        };
        let true_ones = told.iter().all(|line| line.contains("$C") || line.contains("$H"));
        if !told.first().is_some_and(is_it) || !true_ones {
            wrong.push(format!("{script}\n    expected {tries}: {why}\n    told {told:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {tried}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(tried >= 15, "{tried}");
}

#[test]
fn failures_of_a_programs_own_are_not_blamed_on_the_sandbox() {
    let place = Place::new();
    let closed_to_all = place.scratch.write("w/shut", "x");
    std::fs::set_permissions(&closed_to_all, std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
    let mut scripts = vec![
        "cat /nonexistent",
        "exit 3",
        "cat shut",
        "grep nothing b.c",
        "mkdir .",
        "mkdir /proc/x",
        "echo x > /dev/full",
        "echo x > /dev/null; echo ok > f; mkdir -p d/e; mv f d; rm -r d; false",
        "tar xf none.tar",
        "gcc none.c",
        "cd none",
        "./none",
        "kill -9 999999",
        "cat $C/none",
        "rm $C/none",
        "ls -la $C; cat $C/file; false",
        "git status",
        "cat < $C",
        "test -d $H && false",
    ];
    if !am_root() {
        scripts.extend(["echo x > /etc/new", "cat /etc/shadow", "rm /etc/hostname", "touch /usr/x"]);
    }
    for script in scripts {
        let told = place.told("why", script);
        assert_eq!(told.len(), 1, "{script}: {told:#?}");
        assert!(told[0].starts_with("every file that the command asked for was looked at, and the sandbox refused none; exit code "), "{script}: {told:?}");
    }
}

#[test]
fn without_why_a_run_tells_of_writes_alone_and_the_report_has_all() {
    let place = Place::new();
    // The rule about reading has the guard hear of names.
    assert_eq!(place.told("run", "touch $C/new"), [format!("touch could not create $C/new: {NO_RULE}")]);
    assert_eq!(place.told("run", "cat $H/file"), Vec::<String>::new());
    let report = text(&place.scratch.join("home/report.json"));
    let home = place.scratch.join("home");
    let closed = text(&place.scratch.join("closed"));
    let mut run = kennel(["run", "--explain", "--report", &report, "--", "sh", "-c"]);
    run.arg(format!("for n in $(seq 40); do true > {closed}/$n; done 2>/dev/null; exit 4"));
    let ran = ran_within(Duration::from_secs(60), run.env("HOME", home)).expect_code(4);
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert_eq!(lines.len(), 1, "{}", ran.stderr);
    assert!(lines[0].contains("(39 more like it); to allow it: --allow-write "), "{}", ran.stderr);
    let report: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
    assert_eq!(report["files_refused"].as_array().map(Vec::len), Some(40));
    let first = &report["files_refused"][0];
    // The latest is the likeliest cause.
    assert_eq!(first["path"], format!("{closed}/40"));
    assert_eq!((&first["tried"], &first["remedy"]), (&"create".into(), &"allow-write".into()));
    assert_eq!(first["flag"], format!("--allow-write {closed}"));
    assert_eq!(report["files_traced"], true);
}

/// A sandbox can try as many paths as it likes, with names that steer terminals, from threads that change their memory.
#[test]
fn a_flood_of_refusals_is_bounded_and_steers_no_terminal() {
    let place = Place::new();
    let script = "esc=$(printf '\\033'); true > \"$C/$esc[2J\"; for n in $(seq 2000); do true > $C/sub/$n; done 2>/dev/null; exit 1";
    let told = place.told("why", script);
    assert!((1..=10).contains(&told.len()), "{told:#?}");
    assert!(told.iter().all(|line| !line.contains('\u{1b}')), "{told:#?}");
    assert!(
        told.last().unwrap().ends_with("more like these were refused; --report FILE lists them"),
        "{told:#?}"
    );
}

#[test]
fn credentials_and_what_the_host_obeys_are_never_suggested() {
    let place = Place::new();
    place.scratch.write("home/.ssh/id_ed25519", "key");
    place.scratch.write("home/.bashrc", "");
    let home = text(&place.scratch.join("home"));
    for (script, help) in [
        ("cat ~/.ssh/id_ed25519", "--secret lets a command use one without seeing it"),
        ("echo x >> ~/.ssh/id_ed25519", "--secret lets a command use one without seeing it"),
        ("echo x >> ~/.bashrc", "the host itself depends on it: do this outside of the sandbox"),
        ("touch ~/new", "to allow it: create it outside first, then --allow-write $HOME/new"),
        ("mkdir ~/.config", "to allow it: create it outside first, then --allow-write $HOME/.config"),
    ] {
        let mut run = kennel(["why", "--deny-read", "~/.ssh", "--", "sh", "-c", script]);
        run.env("HOME", &home).env("LC_ALL", "C").current_dir(place.scratch.join("w"));
        let ran = ran_within(Duration::from_secs(60), &mut run);
        let told: Vec<&str> = ran.stderr.lines().filter(|line| line.starts_with("kennel: ")).collect();
        assert_eq!(told.len(), 1, "{script}: {}", ran.stderr);
        assert!(told[0].replace(&home, "$HOME").ends_with(help), "{script}: {}", ran.stderr);
    }
}

/// Rules of kennel's own that keep what the host obeys: there is none that somebody could drop.
#[test]
fn nobody_is_told_to_drop_a_rule_that_kennel_itself_makes() {
    let place = Place::new();
    place.scratch.dir("home/.config/kennel");
    place.scratch.write("w/kennel.toml", "[files]\ndeny_read = [\"hidden\"]\n");
    let config = text(&place.scratch.join("home/.config"));
    for script in ["mkdir ~/.config/kennel/answers", "mv kennel.toml other", "echo x >> kennel.toml"] {
        let mut run =
            kennel(["why", "--allow-write", ".", "--allow-write", &config, "--", "sh", "-c", script]);
        run.env("HOME", place.scratch.join("home")).env("LC_ALL", "C").current_dir(place.scratch.join("w"));
        let ran = ran_within(Duration::from_secs(60), &mut run);
        let told: Vec<&str> = ran.stderr.lines().filter(|line| line.starts_with("kennel: ")).collect();
        assert_eq!(told.len(), 1, "{script}: {}", ran.stderr);
        assert!(told[0].ends_with("do this outside of the sandbox"), "{script}: {}", ran.stderr);
    }
}

#[test]
fn a_deny_rule_for_everything_says_that_it_hides_the_command() {
    let place = Place::new();
    let mut run = kennel(["run", "--deny-read", "/**", "--", "ls"]);
    let ran = ran_within(Duration::from_secs(60), run.current_dir(place.scratch.join("w")));
    assert!(!ran.stderr.contains("pipe:"), "{}", ran.stderr);
    assert!(ran.stderr.contains("is hidden by deny_read /**"), "{}", ran.stderr);
}

#[test]
fn a_program_in_the_working_directory_is_explained_under_listed_reads() {
    let place = Place::new();
    let prog = place.scratch.write("w/prog", "#!/bin/sh\n");
    std::fs::set_permissions(&prog, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut run = kennel(["run", "--reads", "listed", "--", "./prog"]);
    let ran = ran_within(Duration::from_secs(60), run.current_dir(place.scratch.join("w"))).expect_code(127);
    assert!(
        ran.stderr.contains("only listed paths can be read in this sandbox\nhelp: --allow-read "),
        "{}",
        ran.stderr
    );
}
