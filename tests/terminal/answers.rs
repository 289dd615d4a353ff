//! Answers that stay: what `here` and `always` keep, for whom, and what takes them away.

use std::process::{Command, Stdio};

use kennel_tests::pty::{Pty, exit_code};
use kennel_tests::{Ran, Scratch, kennel_bin, program, ran, skipped};

/// A home with two projects.
struct Home(Scratch);

/// What kennel asks about a host when answers can be kept.
fn prompt(host: &str) -> String {
    format!("kennel: connect to {host}? [yes/once/here/always/No] ")
}

/// Connections to hosts, one after the other. A host that cannot be found was let through: nothing here can be.
fn connect(hosts: &str) -> String {
    format!(
        "for host in {hosts}; do curl -s -o /dev/null -w \"$host-%{{http_code}}.\\n\" http://$host/; done; echo all-$((1+1))"
    )
}

impl Home {
    fn new() -> Option<Home> {
        if program("curl").is_none() {
            skipped("curl is not installed");
            return None;
        }
        let scratch = Scratch::new();
        scratch.dir("home/one/.git");
        scratch.dir("home/one/src");
        scratch.dir("home/two");
        Some(Home(scratch))
    }

    fn command(&self, folder: &str, words: &[&str]) -> Command {
        let mut command = Command::new(kennel_bin());
        command.args(words).stdin(Stdio::null()).current_dir(self.0.join(folder));
        command.env("HOME", self.0.join("home")).env_remove("XDG_CONFIG_HOME").env("LC_ALL", "C");
        command
    }

    fn kennel(&self, words: &[&str]) -> Ran {
        ran(&mut self.command("home", words))
    }

    /// Runs connections on a terminal, with answers to the questions as they come. Returns what was shown.
    fn asked(&self, folder: &str, flags: &[&str], hosts: &str, answers: &[(&str, &str)]) -> String {
        let terminal = Pty::new(&[]);
        let script = connect(hosts);
        let words = [&["run", "--ask"][..], flags, &["--", "sh", "-c", &script]].concat();
        let mut child = terminal.spawn(&mut self.command(folder, &words), [true; 3]);
        for (question, answer) in answers {
            terminal.wait_for(question);
            terminal.type_bytes(format!("{answer}\r").as_bytes());
        }
        terminal.wait_for("all-2");
        assert_eq!(exit_code(&mut child), 0, "{}", terminal.shown());
        terminal.shown()
    }

    fn list(&self) -> String {
        self.kennel(&["answers"]).ok().stdout
    }
}

#[test]
#[kennel_claim::claim("network/answers-stay-where-they-were-given")]
fn an_answer_is_kept_for_this_workspace_or_for_all_and_is_not_asked_for_again() {
    let Some(home) = Home::new() else { return };
    let (here, always) = ("here.example", "always.example");
    let both = format!("{here} {always}");
    let (ask_here, ask_always) = (prompt("here.example:80"), prompt("always.example:80"));
    let shown = home.asked("home/one/src", &[], &both, &[(&ask_here, "here"), (&ask_always, "always")]);
    let one = home.0.join("home/one").display().to_string();
    assert!(
        shown.contains(&format!("kennel: kept: connect to here.example:80, in {one}; `kennel answers`")),
        "{shown}"
    );
    // The repository is the workspace, and nobody is asked in it again; nor where there is nobody to ask.
    let shown = home.asked("home/one", &[], &both, &[]);
    assert!(!shown.contains('?') && !shown.contains("-403."), "{shown}");
    let script = connect(&both);
    let mut alone =
        home.command("home/one", &["run", "-q", "--ask", "--", "setsid", "-w", "sh", "-c", &script]);
    assert!(!ran(&mut alone).ok().stdout.contains("-403."));
    // Elsewhere the one holds and the other does not.
    let shown = home.asked("home/two", &[], &both, &[(&ask_here, "no")]);
    assert!(!shown.contains(&ask_always) && shown.contains("here.example-403."), "{shown}");
    assert_eq!(
        home.list(),
        format!("connect always.example:80  always\nconnect here.example:80  in {one}\n")
    );
    let json = home.kennel(&["answers", "--json"]).ok().stdout;
    assert!(
        json.contains("\"workspace\": null") && json.contains(&format!("\"workspace\": \"{one}\"")),
        "{json}"
    );
    // The plan has them with their reason, where they hold.
    let plan = |folder: &str, flags: &[&str]| {
        ran(&mut home.command(folder, &[&["plan"][..], flags, &["--", "true"]].concat())).ok().stdout
    };
    let shown = plan("home/one", &["--ask"]);
    assert!(
        shown.contains("always.example:80 (kennel answers, always), here.example:80 (kennel answers, here)"),
        "{shown}"
    );
    assert!(!plan("home/two", &["--ask"]).contains("here.example"));
    assert!(
        !plan("home/one", &["--ask", "--deny-domain", "here.example"])
            .contains("here.example:80 (kennel answers")
    );
    for without in [&["--net", "allow-list"][..], &["--ask", "--no-settings"]] {
        assert!(!plan("home/one", without).contains("answers"), "{without:?}");
    }
    // Removed, one is asked again.
    assert_eq!(
        home.kennel(&["answers", "remove", "here.example"]).ok().stdout,
        format!("removed: connect here.example:80  in {one}\n")
    );
    home.asked("home/one", &[], here, &[(&ask_here, "")]);
    home.kennel(&["answers", "remove", "here.example"]).expect_code(125);
    home.kennel(&["answers", "remove", "--all"]).ok();
    assert_eq!(home.list(), "No answers are kept.\n");
}

#[test]
#[kennel_claim::claim("network/answers-stay-where-they-were-given")]
fn a_kept_answer_opens_nothing_that_a_rule_closes_and_nothing_without_a_question() {
    let Some(home) = Home::new() else { return };
    let host = "kept.example";
    home.asked("home/one", &[], host, &[(&prompt("kept.example:80"), "always")]);
    home.0.write("denies.toml", "[network]\ndeny = [\"kept.example\"]\n");
    let denies = home.0.join("denies.toml").display().to_string();
    for flags in [
        &["--ask", "--settings", &denies][..],
        &["--ask", "--deny-domain", "kept.example"],
        &["--net", "allow-list"],
    ] {
        let script = connect(host);
        let words = [&["run", "-q"][..], flags, &["--", "sh", "-c", &script]].concat();
        let said = ran(&mut home.command("home/one", &words)).ok().stdout;
        assert!(said.contains("kept.example-403."), "{flags:?}: {said}");
    }
    // A file that was merely found can deny it too.
    home.0.write("home/one/kennel.toml", "[network]\ndeny = [\"kept.example\"]\n");
    let shown = home.asked("home/one", &[], host, &[]);
    assert!(shown.contains("kept.example-403."), "{shown}");
    // Another port is another question.
    home.asked("home/two", &[], "kept.example:81", &[(&prompt("kept.example:81"), "no")]);
    // Without settings answers neither hold nor can be kept.
    let question = "kennel: connect to kept.example:80? [yes/once/No] ";
    home.asked("home/two", &["--no-settings"], host, &[(question, "always")]);
    assert_eq!(home.list(), "connect kept.example:80  always\n");
}

#[test]
#[kennel_claim::claim("network/answers-stay-where-they-were-given")]
fn no_sandbox_writes_an_answer_whatever_is_opened() {
    let Some(home) = Home::new() else { return };
    let folder = home.0.join("home/.config/kennel/answers");
    let script = "mkdir -p ~/.config/kennel/answers; printf 'connect\\0evil.example:80\\0' > ~/.config/kennel/answers/0123456789abcdef; \
                  mv ~/.config ~/.moved; mkdir -p ~/.config/kennel/answers; touch ~/.config/kennel/answers/x && echo made; true";
    for kept in [false, true] {
        if kept {
            home.asked("home/one", &[], "kept.example", &[(&prompt("kept.example:80"), "always")]);
        }
        let before = folder.read_dir().into_iter().flatten().count();
        let config = home.0.dir("home/.config").display().to_string();
        for open in [home.0.join("home").display().to_string(), config] {
            let said = ran(
                &mut home.command("home/one", &["run", "--allow-write", &open, "--", "sh", "-c", script])
            );
            assert!(!said.stdout.contains("made"), "{said:?}");
            assert_eq!(folder.read_dir().into_iter().flatten().count(), before, "{said:?}");
        }
    }
    // What is no answer is none.
    std::fs::write(folder.join("0123456789abcdef"), b"connect\0other.example:80").unwrap();
    std::fs::write(folder.join("kennel-note.kennel-12"), b"connect\0other.example:80\0").unwrap();
    assert_eq!(home.list(), "connect kept.example:80  always\n");
}

#[test]
fn a_program_that_asks_for_everything_is_cut_off() {
    let Some(home) = Home::new() else { return };
    let hosts: Vec<String> = (0..12).map(|number| format!("h{number}.example")).collect();
    let mut answers = Vec::new();
    for host in &hosts[..8] {
        answers.push((format!("connect to {host}:80? [yes/once/here/always/No"), "no"));
    }
    answers[3].1 = "";
    let answers: Vec<(&str, &str)> =
        answers.iter().map(|(question, answer)| (question.as_str(), *answer)).collect();
    let shown = home.asked("home/one", &[], &hosts.join(" "), &answers);
    assert!(
        shown.contains("h7.example:80? [yes/once/here/always/No; No to this and to all that follow] "),
        "{shown}"
    );
    assert!(!shown.contains("connect to h8.example"), "{shown}");
    assert!(
        shown
            .contains("4 more connections were refused without a question: the 8 before in a row had no yes"),
        "{shown}"
    );
    assert!(shown.contains("h9.example:80 (by curl): not on the allow list"), "{shown}");
    // A yes in between, and it goes on.
    let answers: Vec<(&str, &str)> = answers
        .iter()
        .enumerate()
        .map(|(turn, (question, answer))| (*question, if turn == 5 { "yes" } else { answer }))
        .collect();
    let shown = home.asked(
        "home/two",
        &[],
        &hosts[..9].join(" "),
        &[&answers[..], &[("connect to h8.example:80? ", "no")]].concat(),
    );
    assert!(!shown.contains("without a question"), "{shown}");
}

#[test]
fn a_name_that_only_looks_like_another_says_so() {
    let Some(home) = Home::new() else { return };
    let question = "kennel: connect to xn--gthub-n4a.example:80 (a name with letters beyond a to z)? [yes";
    let shown = home.asked("home/one", &[], "xn--gthub-n4a.example", &[(question, "no")]);
    assert!(shown.contains("xn--gthub-n4a.example-403."), "{shown}");
}

/// Several kennels keep answers at the same time, and none is lost.
#[test]
fn answers_that_are_kept_at_the_same_time_are_all_kept() {
    let Some(home) = Home::new() else { return };
    let home = &home;
    std::thread::scope(|scope| {
        for number in 0..4 {
            scope.spawn(move || {
                let host = format!("n{number}.example");
                home.asked("home/one", &[], &host, &[(&prompt(&format!("{host}:80")), "always")]);
            });
        }
    });
    assert_eq!(home.list().lines().count(), 4, "{}", home.list());
}
