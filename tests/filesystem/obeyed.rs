//! Names that programs on the host obey, in a project that an agent writes: kept at every depth, judged where they are new, and
//! told where agents edit them.

use std::path::{Path, PathBuf};
use std::process::Command;

use kennel_policy::dotfiles::{Hold, Obeyed, TABLE};
use kennel_tests::{Ran, Scratch, kennel, program, ran, skipped};

/// A home with a project in it, in which a folder has been for a while.
struct Project {
    scratch: Scratch,
}

/// A folder of the project that was there before the run.
const OLD: &str = "packages/app/src";

impl Project {
    fn new() -> Project {
        let project = Project { scratch: Scratch::new() };
        project.scratch.dir(&format!("home/project/{OLD}"));
        // What is born in the same instant as the run counts as the run's.
        std::thread::sleep(std::time::Duration::from_millis(60));
        project
    }

    fn at(&self, name: &str) -> PathBuf {
        self.scratch.join("home/project").join(name)
    }

    fn run(&self, flags: &[&str], script: &str) -> Ran {
        let mut command = kennel(["run", "--no-settings"]);
        command.args(flags).args(["--report", "../report.json", "--", "sh", "-c", script]);
        ran(command.env("HOME", self.scratch.join("home")).current_dir(self.at("")).env("LC_ALL", "C"))
    }

    fn agent(&self, script: &str) -> Ran {
        self.run(&["--profile", "agent"], script)
    }

    fn outside(&self, script: &str) -> Ran {
        ran(Command::new("sh").args(["-ec", script]).current_dir(self.at("")).env("LC_ALL", "C")).ok()
    }

    fn write(&self, name: &str, contents: &str) {
        self.scratch.write(&format!("home/project/{name}"), contents);
    }

    fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.at(name)).ok()
    }

    fn report(&self) -> serde_json::Value {
        let text = std::fs::read(self.scratch.join("home/report.json")).expect("a report was written");
        serde_json::from_slice(&text).expect("it is JSON")
    }

    /// What lies below a folder and is not aside, by its paths there.
    fn left(&self, folder: &str) -> Vec<String> {
        fn walk(top: &Path, at: &Path, found: &mut Vec<String>) {
            for entry in std::fs::read_dir(at).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.to_string_lossy().contains(".set-aside-by-kennel-") {
                    continue;
                }
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    walk(top, &path, found);
                }
                found.extend(path.strip_prefix(top).ok().map(|path| path.display().to_string()));
            }
        }
        let (top, mut found) = (self.at(folder), Vec::new());
        walk(&top, &top, &mut found);
        found.sort();
        found
    }
}

/// A file at each name of the table, or below it.
fn kept() -> impl Iterator<Item = String> {
    TABLE.iter().filter(|row| row.hold == Hold::Keep).map(|row: &Obeyed| row.name.replace('*', "x"))
}

fn makes(folder: &str, names: impl Iterator<Item = String>) -> String {
    names
        .map(|name| {
            format!("(mkdir -p $(dirname {folder}/{name}) && echo x > {folder}/{name}) 2>/dev/null\n")
        })
        .collect()
}

#[test]
#[kennel_claim::claim("handed-back/obeyed-names-stay")]
fn every_name_that_is_there_stays_at_every_depth() {
    let project = Project::new();
    let deep = "a/b/c/d/e/f";
    project.outside(&makes(deep, kept()));
    let script: String = kept()
        .map(|name| {
            let path = format!("{deep}/{name}");
            format!(
                "(echo y > {path}) 2>/dev/null; rm -f {path} 2>/dev/null; mv {path} {deep}/z 2>/dev/null\n"
            )
        })
        .collect();
    project.agent(&format!("{script}mv a/b a/x 2>/dev/null; exit 0")).ok();
    for name in kept() {
        assert_eq!(project.read(&format!("{deep}/{name}")).as_deref(), Some("x\n"), "{name}");
    }
    // Without the profile the same script does it.
    project.run(&["--allow-write", "."], &format!("{script}exit 0")).ok();
    assert!(kept().all(|name| project.read(&format!("{deep}/{name}")).is_none()));
}

#[test]
#[kennel_claim::claim("handed-back/obeyed-names-stay")]
fn no_name_is_made_in_a_folder_that_was_there() {
    let project = Project::new();
    let upper = || kept().map(|name| name.to_uppercase());
    for (folder, names) in
        [(".", kept().collect::<Vec<_>>()), (OLD, kept().collect()), (OLD, upper().collect())]
    {
        project.agent(&format!("{}exit 0", makes(folder, names.into_iter()))).ok();
        let left = project.left(OLD);
        let files: Vec<&String> = left.iter().filter(|name| project.at(OLD).join(name).is_file()).collect();
        assert_eq!(files, [""; 0], "in {folder}");
    }
    let open = project.run(&["--allow-write", "."], &makes(OLD, kept())).ok();
    assert!(project.left(OLD).len() >= kept().count(), "without the profile they are made: {}", open.stderr);
}

#[test]
#[kennel_claim::claim("handed-back/obeyed-names-stay")]
fn no_name_comes_into_a_folder_that_was_there_by_another_way() {
    let project = Project::new();
    project.write("packages/app/data/settings.json", "data\n");
    let ways = [
        "echo x > n; mv n OLD/.envrc",
        "mkdir n; echo x > n/tasks.json; mv -T n OLD/.vscode",
        "echo x > n; ln n OLD/.npmrc",
        "ln -s ../../../n OLD/tui.json",
        "mkdir n; echo x > n/settings.json; mv -T n OLD/.claude",
        "ln -s ../data OLD/.claude",
        "mv packages/app/data OLD/.claude",
        "mkdir OLD/.cargo; echo x > OLD/.cargo/config.toml",
        "mkdir OLD/n; echo x > OLD/n/config; mv OLD/n OLD/.CARGO",
        "cd OLD && echo x > .Nvim.lua",
        "mkdir -p n && cd n && echo x > ../OLD/x.code-workspace",
        "ln -s OLD n; echo x > n/.exrc",
        "ln -s OLD/.exrc n; echo x > n",
        "perl -e 'use IO::Socket::UNIX; IO::Socket::UNIX->new(Local => \"OLD/.mcp.json\", Listen => 1)'; [ -e OLD/.mcp.json ]",
        "perl -e 'mknod' 2>/dev/null; mkfifo OLD/.bashrc",
    ];
    for way in ways {
        let line = way.replace("OLD", OLD);
        let tried = project.agent(&format!("set -e; {line}"));
        assert!(tried.code != 0 && tried.code != 125, "this worked: {line}\n{}", tried.stderr);
        let found: Vec<String> =
            project.left(OLD).into_iter().filter(|name| !name.ends_with("/n") && name != "n").collect();
        let harmless = [".cargo", "n/config"];
        assert!(found.iter().all(|name| harmless.contains(&name.as_str())), "{line}: {found:?}");
        project.outside(&format!("rm -rf n {OLD}/* {OLD}/.[a-zA-Z]*"));
    }
}

/// An honest clone brings such names along, and has to work; so has a tool that makes its own.
#[test]
#[kennel_claim::claim("handed-back/obeyed-names-in-new-folders")]
fn new_ones_in_new_folders_are_made_and_then_set_aside_and_told() {
    let project = Project::new();
    project.outside(
        "mkdir -p ../up/.vscode ../up/sub/.claude && cd ../up && echo '{}' > .vscode/tasks.json && echo x > sub/.envrc && \
         echo '{}' > sub/.claude/settings.json && echo code > sub/main.rs && git init --quiet && git add . && \
         git -c user.name=A -c user.email=a@example.com commit --quiet --message x && git clone --quiet --bare . ../project/up.git",
    );
    let ran = project.agent(
        "git clone --quiet up.git clone && cat clone/sub/.envrc && cd clone && git status --short && \
         mkdir -p ../new/one && echo x > ../new/one/.npmrc && cat ../new/one/.npmrc",
    );
    let ran = ran.ok();
    assert_eq!(ran.stdout, "x\nx\n", "inside the clone is whole: {}", ran.stderr);
    let left = project.left("clone");
    let aside = ["/.vscode", "sub/.envrc", "sub/.claude/settings.json"];
    assert!(
        left.iter()
            .all(|name| !name.ends_with(".vscode") && !name.ends_with(".envrc") && !name.ends_with(".json")),
        "{left:?}"
    );
    assert!(left.iter().any(|name| name == "sub/main.rs"));
    assert_eq!(project.left("new"), ["one"]);
    for name in aside {
        assert!(ran.stderr.contains(name), "{name} is told: {}", ran.stderr);
    }
    let report = project.report();
    let told = report["set_aside"].as_array().expect("a list");
    assert_eq!(told.len(), 4, "{told:?}");
    for found in told {
        assert_eq!(found["what"], "obeyed-name");
        let put_back = found["put_back"].as_str().expect("there is a way back");
        project.outside(put_back);
    }
    assert_eq!(project.outside("cd clone && git status --short").stdout, "", "all of it can be put back");
    // What was put back, or was there, is kept from then on, and not told again.
    let again = project.agent("echo evil > clone/sub/.envrc; rm -rf clone/.vscode; exit 0").ok();
    assert_eq!(project.read("clone/sub/.envrc").as_deref(), Some("x\n"));
    assert_eq!(project.read("clone/.vscode/tasks.json").as_deref(), Some("{}\n"));
    assert!(!again.stderr.contains("set aside"), "{}", again.stderr);
}

#[test]
#[kennel_claim::claim("handed-back/obeyed-names-in-new-folders")]
fn a_tree_that_takes_an_old_ones_place_brings_nothing() {
    let project = Project::new();
    project.write("packages/app/src/main.rs", "code\n");
    project
        .agent("mkdir -p n/src/.zed && cp packages/app/src/main.rs n/src && echo x > n/src/.zed/tasks.json && echo x > n/src/.EXRC && \
                mv packages/app packages/old && mv n packages/app")
        .ok();
    assert_eq!(project.left("packages/app"), ["src", "src/main.rs"]);
    project
        .agent("mkdir -p deep/er && ln -s /etc deep/er/.claude && mkdir deep/.hg && echo x > deep/.hg/HGRC")
        .ok();
    assert_eq!(project.left("deep"), [".hg", "er"]);
}

#[test]
fn what_is_installed_below_node_modules_is_left_as_it_is() {
    let project = Project::new();
    project.write("node_modules/old/.npmrc", "own\n");
    let script = "mkdir -p node_modules/x/.vscode && echo x > node_modules/x/.vscode/settings.json && \
                  echo x > node_modules/old/.npmrc && mkdir -p sub/node_modules/y && echo x > sub/node_modules/y/.npmrc";
    let ran = project.agent(script).ok();
    assert!(!ran.stderr.contains("kennel:"), "{}", ran.stderr);
    for name in
        ["node_modules/x/.vscode/settings.json", "node_modules/old/.npmrc", "sub/node_modules/y/.npmrc"]
    {
        assert_eq!(project.read(name).as_deref(), Some("x\n"), "{name}");
    }
}

#[test]
#[kennel_claim::claim("handed-back/obeyed-names-in-new-folders")]
fn it_is_done_without_any_rule_about_git_and_when_time_is_up() {
    for flags in [&["--protect-dotfiles"][..], &["--protect-dotfiles", "--git", "off", "--timeout", "2s"]] {
        let project = Project::new();
        let flags = [flags, &["--allow-write", "."]].concat();
        let script =
            format!("mkdir -p new/deep; echo x > new/deep/.envrc; echo x > {OLD}/.envrc; [ $1 ] || sleep 60");
        let script = if flags.len() < 5 { script.replace("[ $1 ] || sleep 60", "true") } else { script };
        project.run(&flags, &script);
        assert_eq!(project.left("new"), ["deep"], "{flags:?}");
        assert_eq!(project.left(OLD), [""; 0], "{flags:?}");
    }
}

#[test]
#[kennel_claim::claim("handed-back/obeyed-names-stay")]
fn a_link_in_the_place_of_a_folder_of_settings_is_held_and_what_it_leads_to_stays() {
    let project = Project::new();
    project.outside(&format!(
        "mkdir -p shared && echo own > shared/settings.json && ln -s ../../../shared {OLD}/.claude"
    ));
    project
        .agent(&format!(
            "(echo evil > shared/settings.json) 2>/dev/null; (echo evil > shared/hooks) 2>/dev/null; rm -f {OLD}/.claude 2>/dev/null; \
             mv shared s 2>/dev/null; exit 0"
        ))
        .ok();
    assert_eq!(project.read("shared/settings.json").as_deref(), Some("own\n"));
    assert_eq!(project.read("shared/hooks"), None);
    assert!(project.at(OLD).join(".claude").is_symlink());
}

#[test]
#[kennel_claim::claim("handed-back/obeyed-names-in-new-folders")]
fn instructions_that_an_agent_edits_are_told_with_what_is_different() {
    let project = Project::new();
    project.write("CLAUDE.md", "one\ntwo\nthree\n");
    project.write("sub/AGENTS.md", "all\n");
    project.write("sub/GEMINI.md", "same\n");
    project.outside("ln -s sub/AGENTS.md AGENTS.md");
    let ran = project.agent(
        "sed -i s/two/2/ CLAUDE.md; rm sub/AGENTS.md; ln -sfn CLAUDE.md AGENTS.md; mkdir deep; printf 'obey\\033[2J\\n' > deep/Agents.md; \
         cat sub/GEMINI.md > x; cat x > sub/GEMINI.md; echo K=1 > .env",
    );
    let ran = ran.ok();
    assert_eq!(project.read("CLAUDE.md").as_deref(), Some("one\n2\nthree\n"), "it is written");
    for told in ["-two\n  +2", "removed", "a link to CLAUDE.md", "deep/Agents.md", "+obey", "/.env"] {
        assert!(ran.stderr.contains(told), "{told}: {}", ran.stderr);
    }
    assert!(!ran.stderr.contains('\u{1b}') && !ran.stderr.contains("GEMINI.md"), "{}", ran.stderr);
    let report = project.report();
    let changed: Vec<(&str, &str)> = report["changed"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| {
            (one["path"].as_str().unwrap().rsplit("project/").next().unwrap(), one["how"].as_str().unwrap())
        })
        .collect();
    let expected = [
        (".env", "made"),
        ("AGENTS.md", "changed"),
        ("CLAUDE.md", "changed"),
        ("deep/Agents.md", "made"),
        ("sub/AGENTS.md", "removed"),
    ];
    assert_eq!(changed, expected);
    // Nothing is told of a run that leaves them alone.
    let quiet = project.agent("cat CLAUDE.md; echo x > other").ok();
    assert!(!quiet.stderr.contains("kennel:"), "{}", quiet.stderr);
}

#[test]
#[kennel_claim::claim("handed-back/agents-on-the-host-obey-nothing")]
fn links_where_agents_write_in_a_project_are_set_aside() {
    let project = Project::new();
    project.outside("echo own > ../rc; echo x > .gitignore; ln -s ../rc GEMINI.md; echo all > AGENTS.md");
    let ran = project
        .agent(
            "ln -s ../rc .aider.chat.history.md; ln -sf /etc/hosts .gitignore; mkdir n; ln -s ../../rc n/.aider.input.history; \
             ln -s AGENTS.md CLAUDE.md; ln -s nothing n/CLAUDE.md; ln -s ../AGENTS.md n/QWEN.md; ln -s .git/config n/AGENTS.md",
        )
        .ok();
    // A link to a file of the project is an honest one, and so is one that was there.
    assert_eq!(project.left("n"), ["QWEN.md"], "{}", ran.stderr);
    let left = project.left(".");
    for (name, stays) in
        [(".aider.chat.history.md", false), (".gitignore", false), ("GEMINI.md", true), ("CLAUDE.md", true)]
    {
        assert_eq!(left.iter().any(|left| left == name), stays, "{name}: {}", ran.stderr);
    }
    assert!(ran.stderr.contains("would write through this link"), "{}", ran.stderr);
}

#[test]
#[kennel_claim::claim("handed-back/obeyed-names-in-new-folders")]
fn large_and_many_instructions_are_told_within_bounds() {
    let project = Project::new();
    project.outside("head -c 3000000 /dev/zero | tr '\\0' x > CLAUDE.md; mkfifo fifo; ln -s fifo GEMINI.md");
    let ran = project
        .agent(
            "echo more >> CLAUDE.md; mkdir new; mkfifo new/AGENTS.md; i=0; while [ $i -lt 300 ]; do mkdir new/$i; echo x > new/$i/CLAUDE.md; \
             i=$((i+1)); done; head -c 3000000 /dev/zero > new/GEMINI.md",
        )
        .ok();
    assert!(ran.stderr.len() < 100_000, "{} bytes", ran.stderr.len());
    let report = project.report();
    assert_eq!(report["changed"].as_array().expect("a list").len(), 64);
    assert_eq!(report["changed_not_listed"], 239);
}

/// The programs that read such files and are to be had here: each runs what the file says.
#[test]
fn programs_obey_such_names_in_the_folder_that_they_start_in() {
    let tries: &[(&str, &str, &str, &str)] = &[
        (
            "vim",
            ".exrc",
            "call writefile(['x'], 'ran')\n",
            "echo 'set exrc' > $HOME/.vimrc; timeout 20 vim -T dumb -c q",
        ),
        (
            "vim",
            ".vimrc",
            "call writefile(['x'], 'ran')\n",
            "echo 'set exrc' > $HOME/.vimrc; timeout 20 vim -T dumb -c q",
        ),
        ("gdb", ".gdbinit", "shell touch ran\n", "gdb -iex 'set auto-load safe-path /' -batch"),
        (
            "python3",
            ".pdbrc",
            "import os; os.system('touch ran')\n",
            "echo 'x = 1' > m.py; echo q | /usr/bin/python3 -m pdb m.py",
        ),
        ("irb", ".irbrc", "File.write('ran', 'x')\n", "echo exit | irb"),
        ("perl", ".perldb", "system('touch ran');\n", "echo q | perl -d -e 1"),
        (
            "npm",
            ".npmrc",
            "script-shell=./run\n",
            "printf '#!/bin/sh\\ntouch ran\\n' > run; chmod +x run; echo '{\"scripts\":{\"x\":\"true\"}}' > package.json; npm run x",
        ),
        ("hg", "hgrc", "[hooks]\npre-status = touch ran\n", "hg init; cp hgrc .hg/hgrc; hg status"),
        ("direnv", ".envrc", "touch ran\n", "direnv allow; direnv exec . true"),
        ("tcsh", ".tcshrc", "touch ran\n", "HOME=$PWD tcsh -c true"),
        ("tcsh", ".cshrc", "touch ran\n", "HOME=$PWD tcsh -c true"),
        ("zsh", ".zshenv", "touch ran\n", "HOME=$PWD zsh -c true"),
        ("bash", ".bashrc", "touch ran\n", "HOME=$PWD bash -i -c true"),
        ("bash", ".bash_profile", "touch ran\n", "HOME=$PWD bash -l -c true"),
    ];
    let mut tried = 0;
    for (name, file, contents, call) in tries {
        if program(name).is_none() {
            skipped(&format!("{name} is not installed: {file} was not tried with it"));
            continue;
        }
        let scratch = Scratch::new();
        scratch.write(&format!("folder/{file}"), contents);
        let (folder, home) = (scratch.join("folder"), scratch.dir("home"));
        let mut command = Command::new("sh");
        command
            .args(["-c", call])
            .env("TERM", "dumb")
            .current_dir(&folder)
            .env("HOME", &home)
            .stdin(std::process::Stdio::null());
        let ran = ran(&mut command);
        let obeyed = folder.join("ran").exists();
        println!("{name}: {file}: {}", if obeyed { "obeyed" } else { "not obeyed" });
        assert!(obeyed, "{name} with {file}: {}{}", ran.stdout, ran.stderr);
        tried += 1;
    }
    println!("{tried} programs were tried");
}
