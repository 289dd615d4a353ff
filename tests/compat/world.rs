//! A tree, settings, and tries: made twice and compared.

use std::collections::BTreeMap;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use kennel_tests::{Ran, Scratch, ran_within};

use crate::compat::peers::{self, Codex};
use crate::compat::seatbelt;

/// A try: what it is called, and a line of bash.
pub type Try = (&'static str, &'static str);

/// A difference that is meant: the try, what comes of it in the real program, what in kennel.
pub type Difference = (&'static str, &'static str, &'static str);

/// What came of each try.
type Words = BTreeMap<String, String>;

/// What is on a disk: names and contents.
type Picture = BTreeMap<String, Vec<u8>>;

/// The shell function that makes a word of a try.
const PRELUDE: &str = r#"
try() {
  err=$( ( eval "$2" ) 2>&1 >/dev/null </dev/null ); code=$?
  case "$code:$err" in
    0:*) word=ok ;;
    *"Read-only file system"*) word=EROFS ;;
    *"Permission denied"*) word=EACCES ;;
    *"Operation not permitted"*) word=EPERM ;;
    *"No such file"*) word=ENOENT ;;
    *"resource busy"*) word=EBUSY ;;
    *"cross-device"*) word=EXDEV ;;
    *"Not a directory"*) word=ENOTDIR ;;
    *) word=fails ;;
  esac
  echo "$1: $word"
}
"#;

/// Whether two words say the same: it worked in both, or in neither. These tries have to meet the same error too.
fn alike(name: &str, one: &str, other: &str) -> bool {
    const EXACT: &[&str] = &["1 ", "11 ", "28 "];
    let exact = EXACT.iter().any(|start| name.starts_with(start));
    if exact { one == other } else { (one == "ok") == (other == "ok") }
}

/// Where a world is.
pub struct Place {
    scratch: Scratch,
}

impl Place {
    pub fn new() -> Place {
        let place = Place { scratch: Scratch::new() };
        place.scratch.dir("home");
        place.scratch.dir("work");
        place
    }

    pub fn top(&self) -> &Path {
        self.scratch.path()
    }

    pub fn work(&self) -> PathBuf {
        self.scratch.join("work")
    }

    /// A text with where this place is, and where the real programs are, which need their own files inside.
    pub fn fill_in(&self, text: &str) -> String {
        let peers = std::env::var("KENNEL_PEERS").unwrap_or_else(|_| "/nonexistent".into());
        text.replace("TOP", &self.top().display().to_string()).replace("PEERS", &peers)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        self.scratch.write(name, text)
    }

    pub fn dir(&self, name: &str) -> PathBuf {
        self.scratch.dir(name)
    }

    pub fn link(&self, name: &str, to: &str) {
        let path = self.scratch.join(name);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).expect("a scratch folder is writable");
        }
        std::os::unix::fs::symlink(to, path).expect("a scratch folder takes a link");
    }

    /// Runs a script outside, in the working directory.
    #[track_caller]
    pub fn host(&self, script: &str) -> String {
        let mut command = Command::new("bash");
        command.args(["-ec", script]);
        kennel_tests::ran(self.dressed(&mut command)).ok().stdout
    }

    /// The command with this world's home and working directory.
    pub fn dressed<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command
            .current_dir(self.work())
            .env("HOME", self.scratch.join("home"))
            .env_remove("TMPDIR")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_AUTHOR_NAME", "a")
            .env("GIT_AUTHOR_EMAIL", "a@example.org")
            .env("GIT_COMMITTER_NAME", "a")
            .env("GIT_COMMITTER_EMAIL", "a@example.org")
            .stdin(Stdio::null())
    }

    /// What is on the disk, but for what git itself writes with every commit.
    pub fn picture(&self) -> Picture {
        let mut picture = BTreeMap::new();
        let mut folders = vec![self.work()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path = entry.path();
                let name = path.strip_prefix(self.top()).unwrap_or(&path).display().to_string();
                if [
                    ".git/objects",
                    ".git/logs",
                    ".git/index",
                    ".git/refs",
                    ".git/COMMIT_EDITMSG",
                    ".git/FETCH_HEAD",
                    ".git/ORIG_HEAD",
                    ".git/info/refs",
                    ".git/worktrees",
                ]
                .iter()
                .any(|own| name.contains(own))
                {
                    continue;
                }
                let Ok(kind) = entry.file_type() else { continue };
                let contents = match () {
                    () if kind.is_dir() => {
                        folders.push(path);
                        b"folder".to_vec()
                    }
                    () if kind.is_symlink() => std::fs::read_link(&path)
                        .map(|to| to.into_os_string().into_encoded_bytes())
                        .unwrap_or_default(),
                    () if kind.is_file() => std::fs::read(&path).unwrap_or_default(),
                    () => b"other".to_vec(),
                };
                // The two worlds differ in where they are.
                let text =
                    String::from_utf8_lossy(&contents).replace(&self.top().display().to_string(), "TOP");
                picture.insert(name, text.into_bytes());
            }
        }
        picture
    }
}

/// Which program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    Real,
    Kennel,
}

/// srt with its settings, as `which`; the arguments are still to be added.
pub fn srt(which: Which, place: &Place, settings: Option<&str>) -> Option<Command> {
    let mut command = match which {
        Which::Real => peers::srt()?,
        Which::Kennel => Command::new(peers::kennel_as("srt", place.top())),
    };
    if let Some(settings) = settings {
        command.arg("-s").arg(place.write("settings.json", &place.fill_in(settings)));
    }
    place.dressed(&mut command);
    Some(command)
}

/// Codex's helper with its working directory, as `which`; the policy is still to be added.
pub fn codex_helper(which: Which, release: Codex, place: &Place) -> Option<Command> {
    let mut command = Command::new(match which {
        // The helper is Codex itself under the other name, by which it also calls itself inside.
        Which::Real => {
            let helper = place.dir("real").join("codex-linux-sandbox");
            if !helper.exists() {
                std::os::unix::fs::symlink(release.path()?, &helper).expect("a scratch folder takes a link");
            }
            helper
        }
        Which::Kennel => peers::kennel_as("codex-linux-sandbox", place.top()),
    });
    command.arg("--sandbox-policy-cwd").arg(place.work());
    place.dressed(&mut command);
    Some(command)
}

/// Whether these programs are there; says that the test is skipped where one is not.
pub fn installed(programs: &[&str]) -> bool {
    let missing = programs.iter().find(|name| match name.strip_prefix('/') {
        Some(_) => !Path::new(name).exists(),
        None => kennel_tests::program(name).is_none(),
    });
    if let Some(name) = missing {
        kennel_tests::skipped(&format!("{name} is not installed"));
    }
    missing.is_none()
}

/// Runs srt; a hang is a failure.
#[track_caller]
pub fn run(command: &mut Command) -> Ran {
    ran_within(Duration::from_secs(120), command)
}

/// A script that makes a word of each try.
fn script(tries: &[Try]) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    let lines = tries.iter().map(|(name, line)| format!("try {} {}\n", quoted(name), quoted(line)));
    PRELUDE.to_owned() + &lines.collect::<String>()
}

/// A server on the host's loopback, and its port.
pub fn serve<T: 'static>(answer: fn(TcpStream) -> T) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback");
    let port = listener.local_addr().expect("it has one").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || drop(answer(stream)));
        }
    });
    port
}

/// The words that came of it.
#[track_caller]
fn words(tries: &[Try], ran: &Ran, which: Which) -> Words {
    let lines = ran.stdout.lines().filter_map(|line| line.rsplit_once(": "));
    let words: Words = lines.map(|(name, word)| (name.to_owned(), word.to_owned())).collect();
    assert_eq!(words.len(), tries.len(), "{which:?}: {} {}\n{}", ran.code, ran.stdout, ran.stderr);
    words
}

/// Which program a world is for, with what it is told.
pub enum Told<'a> {
    /// srt, with its settings.
    Srt(&'a str),
    /// The helper of this release of Codex, with its policy.
    Codex(Codex, &'a [&'a str]),
}

/// A world for one of the two programs.
pub struct World<'a> {
    pub told: Told<'a>,
    pub make: fn(&Place),
    pub tries: &'a [Try],
    pub differences: &'a [Difference],
    /// Names below the working directory that differ on the disk afterwards because of the differences.
    pub disk_differs: &'a [&'a str],
}

impl World<'_> {
    /// Makes it twice and compares; with kennel alone where there is no srt.
    #[track_caller]
    pub fn compare(&self) {
        let (words, picture) = self.see(Which::Kennel).expect("kennel is there");
        self.compare_with_macos(&words);
        for (name, _, kennel) in self.differences {
            assert_eq!(words.get(*name).map(String::as_str), Some(*kennel), "kennel: {name}");
        }
        let Some((real, real_picture)) = self.see(Which::Real) else { return };
        for (name, its, _) in self.differences {
            assert_eq!(real.get(*name).map(String::as_str), Some(*its), "the real one: {name}");
        }
        let listed = |name: &str| self.differences.iter().any(|(own, ..)| *own == name);
        let differ: Vec<String> = real
            .iter()
            .filter(|(name, word)| {
                !listed(name) && !words.get(*name).is_some_and(|own| alike(name, word, own))
            })
            .map(|(name, word)| format!("{name}: the real one {word}, kennel {:?}", words.get(name)))
            .collect();
        assert!(differ.is_empty(), "these are not listed:\n{}", differ.join("\n"));
        let expected =
            |name: &&String| self.disk_differs.iter().any(|own| name.starts_with(&format!("work/{own}")));
        let odd: Vec<&String> = real_picture
            .keys()
            .chain(picture.keys())
            .filter(|name| real_picture.get(*name) != picture.get(*name) && !expected(name))
            .collect();
        assert!(odd.is_empty(), "the disks differ: {odd:?}");
    }

    /// Makes it for kennel alone, which has to refuse every try and to leave the disk as it was.
    #[track_caller]
    pub fn nothing_works(&self) {
        let before = Place::new();
        (self.make)(&before);
        let (words, picture) = self.see(Which::Kennel).expect("kennel is there");
        self.compare_with_macos(&words);
        let worked: Vec<&String> =
            words.iter().filter(|(_, word)| *word == "ok").map(|(name, _)| name).collect();
        assert!(worked.is_empty(), "these worked: {worked:?}");
        assert_eq!(picture, before.picture());
    }

    /// Tries the same under the profile that a Mac would get, as far as the lines are about files.
    #[track_caller]
    fn compare_with_macos(&self, words: &Words) {
        let place = Place::new();
        (self.make)(&place);
        let (work, home) = (place.work(), place.top().join("home"));
        let policy = match self.told {
            Told::Srt(settings) => seatbelt::policy_of_srt(&place.fill_in(settings), &work, &home),
            Told::Codex(_, policy) => {
                let policy: Vec<String> = policy.iter().map(|word| place.fill_in(word)).collect();
                seatbelt::policy_of_codex(&policy, &work, &home, None)
            }
        };
        let mac = policy.and_then(|policy| seatbelt::Mac::new(&policy, place.top(), &work, &home));
        let Some(mac) = mac else { return println!("no profile for these settings") };
        let tried = self.tries.iter().filter(|(name, line)| mac.compare(line, words[*name] == "ok"));
        println!("{} of {} tries under a Seatbelt profile", tried.count(), self.tries.len());
        let _ = std::fs::set_permissions(place.work(), std::fs::Permissions::from_mode(0o755));
    }

    /// The program, to which `-c` and a script are still to be added.
    fn command(&self, which: Which, place: &Place) -> Option<Command> {
        match self.told {
            Told::Srt(settings) => srt(which, place, Some(settings)),
            Told::Codex(release, policy) => {
                let mut command = codex_helper(which, release, place)?;
                command.args(policy.iter().map(|word| place.fill_in(word))).args(["--", "bash"]);
                Some(command)
            }
        }
    }

    #[track_caller]
    fn see(&self, which: Which) -> Option<(Words, Picture)> {
        let place = Place::new();
        (self.make)(&place);
        let mut command = self.command(which, &place)?;
        let words = words(self.tries, &run(command.args(["-c", &script(self.tries)])), which);
        let picture = place.picture();
        // What a test locked would keep the folder from being removed.
        let _ = std::fs::set_permissions(place.work(), std::fs::Permissions::from_mode(0o755));
        Some((words, picture))
    }
}
