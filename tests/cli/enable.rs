//! `kennel enable`: a name leads to the program in its profile, in shells that start from then on; `disable` leaves nothing of it.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use kennel_tests::pty::{Pty, exit_code};
use kennel_tests::{Ran, Scratch, kennel_bin, program, ran, skipped};

/// What stands in for an agent: it says how it was called, whether it sees the home, and copies its input.
const AGENT: &str = "#!/bin/sh\n\
    echo \"arguments: $#: $*\"\necho \"mark: ${KENNEL-none}\"\n\
    [ -e ~/kept ] && echo open || echo closed\n\
    if [ \"$1\" = signal ]; then kill -TERM $$; fi\n\
    cat\nexit 7\n";

/// A person with a home, an agent in it, and a project.
struct Person {
    scratch: Scratch,
    shell: &'static str,
}

impl Person {
    fn new(shell: &'static str) -> Person {
        let scratch = Scratch::new();
        let person = Person { scratch, shell };
        person.install("claude", AGENT);
        person.scratch.dir("home/project");
        person.scratch.write("home/kept", "what a private home does not show");
        person
    }

    fn at(&self, name: &str) -> PathBuf {
        self.scratch.join("home").join(name)
    }

    fn install(&self, name: &str, text: &str) -> PathBuf {
        let path = self.scratch.write(&format!("home/bin/{name}"), text);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn shim(&self, name: &str) -> PathBuf {
        self.at(".config/kennel/shims").join(name)
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.stdin(Stdio::null()).current_dir(self.at("project")).env("HOME", self.at(""));
        command
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("ZDOTDIR")
            .env_remove("KENNEL")
            .env_remove("BASH_ENV");
        command.env("SHELL", format!("/bin/{}", self.shell)).env("LC_ALL", "C.UTF-8");
        command.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", self.at("bin").display()));
        command
    }

    fn kennel(&self, words: &[&str]) -> Ran {
        ran(self.command(kennel_bin()).args(words))
    }

    /// A shell that reads its start-up file, as one in a new window does.
    fn types(&self, shell: &str, line: &str) -> Ran {
        ran(self.command(shell).args(["-i", "-c", line]))
    }
}

/// bash, or a line that says that it is not there.
fn has(shell: &str) -> bool {
    let there = program(shell).is_some();
    if !there {
        skipped(&format!("{shell} is not installed"));
    }
    there
}

#[test]
fn an_enabled_name_is_the_program_in_its_profile_with_its_words_its_input_and_its_end() {
    if !has("bash") {
        return;
    }
    let person = Person::new("bash");
    let before = person.types("bash", "claude").expect_code(7).stdout;
    assert!(before.contains("mark: none\nopen\n"), "{before}");
    let said = person.kennel(&["enable", "claude", "--yes"]).ok().stdout;
    assert!(said.contains(".bashrc does not exist, and will hold this line:"), "{said}");
    let inside = "arguments: 3: a b  c --help\nmark: 1\nclosed\nfrom outside\n";
    let typed = person.types("bash", "echo from outside | claude a 'b  c' --help").expect_code(7);
    assert_eq!(typed.stdout, inside);
    person.types("bash", "claude signal; exit $?").expect_code(143);
    // Whoever names it by its path, or says so, has it without.
    for line in [
        format!("{} x", person.at("bin/claude").display()),
        format!("{} bypass claude x", kennel_bin().display()),
    ] {
        let past = person.types("bash", &line).expect_code(7).stdout;
        assert_eq!(past, "arguments: 1: x\nmark: none\nopen\n", "{line}");
    }
    // An update of the program needs nothing.
    person.install("claude", "#!/bin/sh\necho new ${KENNEL}\n");
    assert_eq!(person.types("bash", "claude").ok().stdout, "new 1\n");
    person.kennel(&["disable"]).ok();
    assert_eq!(person.types("bash", "claude").ok().stdout, "new\n");
    assert!(!person.at(".bashrc").exists() && !person.at(".config/kennel").exists());
}

#[test]
fn every_shell_finds_the_shim_first_and_its_file_is_left_byte_for_byte() {
    for (shell, file) in [("bash", ".bashrc"), ("zsh", ".zshrc"), ("fish", ".config/fish/config.fish")] {
        if !has(shell) {
            continue;
        }
        let person = Person::new(shell);
        let path = person.at(file);
        for text in ["# mine\n", "# mine, without an end", ""] {
            person.scratch.write(&format!("home/{file}"), text);
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
            let owner =
                |path: &PathBuf| path.metadata().map(|data| (data.uid(), data.gid(), data.mode())).unwrap();
            let before = owner(&path);
            // Once more changes nothing.
            for _ in 0..2 {
                person.kennel(&["enable", "-y", "claude"]).ok();
            }
            let found = person.types(shell, "command -v claude").ok().stdout;
            assert_eq!(found.trim(), person.shim("claude").display().to_string(), "{shell}");
            assert_eq!(owner(&path), before);
            person.kennel(&["disable", "claude"]).ok();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "{shell}");
            assert_eq!(owner(&path), before);
        }
    }
}

#[test]
fn a_start_up_file_that_is_a_link_stays_one() {
    let person = Person::new("bash");
    let kept = person.scratch.write("home/dotfiles/bashrc", "# kept elsewhere\n");
    symlink("dotfiles/bashrc", person.at(".bashrc")).unwrap();
    person.kennel(&["enable", "-y", "claude"]).ok();
    assert!(std::fs::read_to_string(&kept).unwrap().contains("# kennel enable\n"));
    assert!(person.at(".bashrc").is_symlink());
    person.kennel(&["disable"]).ok();
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "# kept elsewhere\n");
    assert!(person.at(".bashrc").is_symlink());
    // What cannot be replaced and stay what it is, is left alone, and the line is there to be copied.
    std::fs::hard_link(&kept, person.at("second")).unwrap();
    let told = person.kennel(&["enable", "-y", "claude"]).expect_code(1).stderr;
    assert!(told.contains("hard links") && told.contains("add this line to its end yourself: ["), "{told}");
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "# kept elsewhere\n");
}

#[test]
fn nothing_is_written_unless_somebody_agrees() {
    let person = Person::new("bash");
    let before = person.scratch.listing();
    let refused = person.kennel(&["enable", "claude"]).expect_code(125);
    assert!(refused.stdout.contains("this line:\n    [ "), "{refused:?}");
    assert_eq!(
        refused.stderr,
        "kennel enable: there is no terminal to ask on\nhelp: --yes agrees to what is shown above\n"
    );
    assert_eq!(person.scratch.listing(), before);
    for (answer, code) in [("n\r", 125), ("\r", 125), ("y\r", 0)] {
        let terminal = Pty::new(&[]);
        let mut command = person.command(kennel_bin());
        let mut child = terminal.spawn(command.args(["enable", "claude"]), [true; 3]);
        terminal.wait_for("Write that? [y/N] ");
        terminal.type_bytes(answer.as_bytes());
        assert_eq!(exit_code(&mut child), code, "{answer:?}: {}", terminal.shown());
        assert_eq!(person.shim("claude").exists(), code == 0);
    }
}

#[test]
fn inside_a_sandbox_a_shim_is_the_program_itself() {
    let person = Person::new("bash");
    person.kennel(&["enable", "-y", "claude"]).ok();
    let shim = person.shim("claude").display().to_string();
    let open = ["run", "--allow-write", ".", "--"];
    // By its path, by its name, and where a start-up file has put the folder back.
    let again = format!("PATH={}:$PATH; claude x", person.at(".config/kennel/shims").display());
    for words in [&[shim.as_str(), "x"][..], &["claude", "x"], &["sh", "-c", &again]] {
        let ran = person.kennel(&[&open, words].concat()).expect_code(7);
        assert_eq!(ran.stdout, "arguments: 1: x\nmark: 1\nopen\n", "{words:?}: {}", ran.stderr);
    }
    // The variable is no sandbox, and neither is anything else that a host can have.
    for no_new_privileges in [false, true] {
        let mut command = person.command(&shim);
        command.env("KENNEL", "1");
        // SAFETY: a plain call between fork and exec.
        unsafe {
            command.pre_exec(move || {
                libc::prctl(libc::PR_SET_NO_NEW_PRIVS, u64::from(no_new_privileges), 0, 0, 0);
                Ok(())
            });
        }
        let ran = ran(&mut command).expect_code(7);
        assert!(ran.stdout.ends_with("mark: 1\nclosed\n"), "{no_new_privileges}: {ran:?}");
    }
}

#[test]
fn a_shim_never_finds_itself() {
    let person = Person::new("bash");
    person.kennel(&["enable", "-y", "claude"]).ok();
    let shim = person.shim("claude");
    std::fs::remove_file(person.at("bin/claude")).unwrap();
    person.scratch.dir("home/links");
    symlink(&shim, person.at("bin/claude")).unwrap();
    symlink(person.at(".config/kennel/shims"), person.at("links/shims")).unwrap();
    let path = format!("{}:{}:/usr/bin:/bin", person.at("links/shims").display(), person.at("bin").display());
    let none = ran(person.command(&shim).env("PATH", &path)).expect_code(127);
    assert_eq!(
        none.stderr,
        "kennel: claude: command not found, besides kennel's own shim\nhelp: install claude, or `kennel disable claude`\n"
    );
    let none =
        ran(person.command(kennel_bin()).args(["bypass", "claude"]).env("PATH", &path)).expect_code(127);
    assert_eq!(none.stderr, "kennel bypass: claude: command not found, besides kennel's own shims\n");
}

#[test]
fn without_kennel_a_shim_says_so_and_nothing_runs_open() {
    let person = Person::new("bash");
    let moved = person.at("bin/kennel");
    // By a program of its own: a child of another test would hold what this process writes, which cannot be run then.
    ran(Command::new("cp").args([kennel_bin(), moved.clone()])).ok();
    ran(person.command(&moved).args(["enable", "-y", "claude"])).ok();
    ran(&mut person.command(person.shim("claude"))).expect_code(7);
    std::fs::remove_file(&moved).unwrap();
    let gone = ran(person
        .command(person.shim("claude"))
        .env("PATH", format!("{}:/usr/bin:/bin", person.at("bin").display())));
    if program("kennel").is_some_and(|path| path.starts_with("/usr/bin") || path.starts_with("/bin")) {
        return skipped("kennel is installed in /usr/bin, where the shim finds it");
    }
    let gone = gone.expect_code(127);
    assert!(
        gone.stderr.contains("kennel is not installed any more, and claude would run without a sandbox"),
        "{gone:?}"
    );
    assert_eq!(gone.stdout, "");
}

#[test]
fn the_programs_that_kennel_stands_in_for_can_be_enabled_too() {
    let person = Person::new("bash");
    person.scratch.write("home/.srt-settings.json", "{\"network\": {\"allowedDomains\": [], \"deniedDomains\": []}, \"filesystem\": {\"denyRead\": [], \"allowWrite\": [], \"denyWrite\": []}}");
    person.kennel(&["enable", "-y", "srt", "codex-linux-sandbox"]).ok();
    let version = ran(person.command(person.shim("srt")).arg("--version")).ok().stdout;
    assert!(version.contains("(kennel "), "{version}");
    let inside =
        ran(person.command(person.shim("srt")).args(["-c", "echo inside ${KENNEL-unmarked}; exit 4"]))
            .expect_code(4);
    assert_eq!(inside.stdout, "inside unmarked\n");
    let help = ran(person.command(person.shim("codex-linux-sandbox")).arg("--help"));
    assert!((help.stdout.clone() + &help.stderr).contains("sandbox-policy-cwd"), "{help:?}");
}

#[test]
fn names_without_a_profile_are_answered_with_those_that_have_one() {
    let person = Person::new("bash");
    let unknown = person.kennel(&["enable", "-y", "gcc"]).expect_code(125);
    assert_eq!(
        unknown.stderr,
        "kennel enable: there is no profile for a program called gcc\nhelp: these can be enabled: claude, codex, gemini, \
         opencode, aider, goose, amp, srt, codex-linux-sandbox; a profile of your own in a file kennel/profiles/NAME.toml makes \
         NAME another\n"
    );
    let near = person.kennel(&["enable", "-y", "claud"]).expect_code(125).stderr;
    assert!(near.ends_with("help: did you mean claude?\n"), "{near}");
    let general = person.kennel(&["enable", "-y", "agent"]).expect_code(125).stderr;
    assert!(general.starts_with("kennel enable: profile agent is for programs of any name\n"), "{general}");
    for words in [&["bypass"][..], &["bypass", "/bin/ls"], &["shim", "--x"], &["shim", ""]] {
        person.kennel(words).expect_code(2);
    }
    assert!(!person.at(".config").exists());
    // One of the user's own.
    person.install("my-tool", AGENT);
    person.scratch.write("home/.config/kennel/profiles/my-tool.toml", "# Mine.\nprofile = \"agent\"\n");
    person.kennel(&["enable", "-y", "my-tool"]).ok();
    let ran = ran(&mut person.command(person.shim("my-tool"))).expect_code(7);
    assert!(ran.stdout.contains("mark: 1\nclosed\n"), "{ran:?}");
    person.kennel(&["disable"]).ok();
    assert!(person.at(".config/kennel/profiles/my-tool.toml").exists());
}

#[test]
fn what_is_enabled_is_listed_and_doctor_says_when_it_is_not_first_in_path() {
    let person = Person::new("bash");
    assert!(
        person.kennel(&["enable"]).ok().stdout.starts_with("Nothing is enabled.\n\nCan be enabled: claude, ")
    );
    assert!(!person.kennel(&["doctor"]).stdout.contains("shims"));
    let aliased = person.scratch.write("home/.bashrc", "alias claude='x'\n");
    let said = person.kennel(&["enable", "-y", "claude", "codex"]).ok().stderr;
    assert!(
        said.contains(&format!("{}:1 makes claude an alias, which goes past kennel", aliased.display())),
        "{said}"
    );
    assert!(said.contains("note: codex is not in PATH yet"), "{said}");
    let listed = person.kennel(&["enable"]).ok().stdout;
    let program = person.at("bin/claude").display().to_string();
    assert!(listed.contains(&format!("{program}, in profile claude\n")), "{listed}");
    assert!(listed.contains("not first in this shell's PATH"), "{listed}");
    let weaker = person.kennel(&["doctor"]).stdout;
    assert!(weaker.contains("claude, codex would run without kennel"), "{weaker}");
    let mut command = person.command(kennel_bin());
    let path = format!(
        "{}:{}:/usr/bin:/bin",
        person.at(".config/kennel/shims").display(),
        person.at("bin").display()
    );
    let good = ran(command.arg("doctor").env("PATH", path)).stdout;
    assert!(good.contains("claude, codex run in their profiles"), "{good}");
    let not = person.kennel(&["disable", "gemini"]).expect_code(125).stderr;
    assert_eq!(not, "kennel disable: gemini is not enabled; enabled are claude, codex\n");
    person.kennel(&["disable", "codex"]).ok();
    assert!(std::fs::read_to_string(&aliased).unwrap().contains("# kennel enable"));
    person.kennel(&["disable"]).ok();
    assert_eq!(std::fs::read_to_string(&aliased).unwrap(), "alias claude='x'\n");
}

#[test]
fn a_sandbox_cannot_write_the_folder_of_the_shims() {
    let person = Person::new("bash");
    let script = "mkdir -p .config/kennel/shims && echo evil > .config/kennel/shims/ls";
    let open = ["run", "--allow-write", "..", "--workdir", "..", "--", "sh", "-c", script];
    let refused = person.kennel(&open);
    assert_ne!(refused.code, 0, "{refused:?}");
    assert!(!person.shim("ls").exists());
    person.kennel(&["enable", "-y", "claude"]).ok();
    let before = std::fs::read(person.shim("claude")).unwrap();
    person.kennel(&[
        "run",
        "--allow-write",
        "..",
        "--workdir",
        "..",
        "--",
        "sh",
        "-c",
        "echo evil > .config/kennel/shims/claude",
    ]);
    assert_eq!(std::fs::read(person.shim("claude")).unwrap(), before);
}

#[test]
fn disable_finds_what_was_written_when_the_variables_have_changed_since() {
    let person = Person::new("zsh");
    for (folders, text) in [(["zsh", "config"], Some("# mine\n")), (["z", "c"], None)] {
        let [zsh, config] = folders.map(|folder| person.at(folder));
        std::fs::create_dir_all(&zsh).unwrap();
        if let Some(text) = text {
            std::fs::write(zsh.join(".zshrc"), text).unwrap();
        }
        let mut enable = person.command(kennel_bin());
        enable.args(["enable", "-y", "claude"]).env("ZDOTDIR", &zsh).env("XDG_CONFIG_HOME", &config);
        ran(&mut enable).ok();
        assert!(zsh.join(".zshrc").exists() && config.join("kennel/shims/claude").exists());
        // A shell that has neither variable, but the folder in its PATH.
        let mut disable = person.command(kennel_bin());
        let path =
            format!("{}:{}:/usr/bin:/bin", config.join("kennel/shims").display(), person.at("bin").display());
        let said = ran(disable.args(["disable"]).env("PATH", path)).ok().stdout;
        assert!(said.contains("Disabled: claude.") && said.contains("Taken out of "), "{said}");
        assert_eq!(std::fs::read_to_string(zsh.join(".zshrc")).ok().as_deref(), text);
        assert!(!config.join("kennel").exists());
    }
    // With the folder in its place, only the start-up file's has changed.
    let zsh = person.at("zdotdir");
    std::fs::create_dir_all(&zsh).unwrap();
    ran(person.command(kennel_bin()).args(["enable", "-y", "claude"]).env("ZDOTDIR", &zsh)).ok();
    person.kennel(&["disable", "claude"]).ok();
    assert!(!zsh.join(".zshrc").exists() && !person.at(".config/kennel").exists());
}

/// A sandbox may write the project later.
#[test]
fn no_shim_calls_a_kennel_of_the_project() {
    let person = Person::new("bash");
    let folder = person.at("project/node_modules/.bin");
    std::fs::create_dir_all(&folder).unwrap();
    symlink(kennel_bin(), folder.join("kennel")).unwrap();
    for first in [folder.display().to_string(), "node_modules/.bin".to_owned(), String::new()] {
        let mut command = person.command(kennel_bin());
        command
            .args(["enable", "-y", "claude"])
            .env("PATH", format!("{first}:{}:/usr/bin:/bin", person.at("bin").display()));
        if first.is_empty() {
            symlink(kennel_bin(), person.at("project/kennel")).unwrap();
        }
        ran(&mut command).ok();
        let script = std::fs::read_to_string(person.shim("claude")).unwrap();
        let called = script.lines().find_map(|line| line.strip_prefix("kennel=")).unwrap();
        assert!(called.starts_with('/') && !called.contains("project"), "{first}: {called}");
    }
}
