//! kennel as `srt`, Anthropic's sandbox runtime: its command line, its settings files, its exit codes.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use kennel::home::Homes;
use kennel::settings_file;
use kennel::{ControlFault, ControlLines};
use kennel_policy::domain::HostRule;
use kennel_policy::settings::Base;
use kennel_policy::srt::{SrtContext, SrtSettings, parse};
use lexopt::{Arg, Parser};

use crate::commands::{RunAs, print, say};
use crate::platform::{is_same_file, take_descriptor, variable};

/// The version whose behaviour is meant.
const LIKE: &str = "0.0.83";

/// Where its temporary files are unless the caller says otherwise.
const SHARED_TMP: &str = "/tmp/claude";

/// srt's other program: its proxy by itself, which asks a program of its caller's about each request.
const NO_PROXY: &str = "'srt proxy' (srt's proxy without a sandbox) is not supported; to run a program called proxy: \
                        -c proxy, or by its path";

const HELP: &str = "\
Usage: srt [options] [command...]

Run commands in a sandbox with network and filesystem restrictions

Options:
  -d, --debug            say what is done
  -s, --settings <path>  settings file (default: ~/.srt-settings.json)
  -c <command>           run this text with bash -c
  --control-fd <fd>      take new settings, one JSON object to a line, from this descriptor
  -V, --version          print the version
  -h, --help             show this help

The first word that is no option ends them; what follows is the command's. This is kennel, which reads srt's
settings: see docs/compat.md.
";

/// What was typed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Typed {
    debug: bool,
    settings: Option<PathBuf>,
    text: Option<OsString>,
    control_fd: Option<OsString>,
    command: Vec<OsString>,
    page: Option<Page>,
}

#[derive(Debug, PartialEq, Eq)]
enum Page {
    Help,
    Version,
}

/// Runs what the words ask for and returns the exit code.
pub fn main(words: Vec<OsString>) -> i32 {
    let typed = match typed(words) {
        Ok(typed) => typed,
        Err(message) => return fail(&message),
    };
    match typed.page {
        Some(Page::Help) => return print(HELP),
        Some(Page::Version) => {
            return print(&format!("{LIKE} (kennel {})\n", env!("CARGO_PKG_VERSION")));
        }
        None => {}
    }
    run(&typed).unwrap_or_else(|message| fail(&message))
}

fn fail(message: &str) -> i32 {
    say(&format!("Error: {message}"));
    1
}

/// Reads the words up to the command, as commander does, which srt reads them with.
fn typed(words: impl IntoIterator<Item = OsString>) -> Result<Typed, String> {
    let mut words = Parser::from_args(words);
    words.set_short_equals(false);
    let mut typed = Typed::default();
    loop {
        match words.next().map_err(unexpected_value)? {
            None => return Ok(typed),
            Some(Arg::Short('d') | Arg::Long("debug")) => typed.debug = true,
            Some(Arg::Short('s') | Arg::Long("settings")) => {
                typed.settings = Some(value(&mut words, "-s, --settings <path>")?.into());
            }
            Some(Arg::Short('c')) => typed.text = Some(value(&mut words, "-c <command>")?),
            Some(Arg::Long("control-fd")) => typed.control_fd = Some(value(&mut words, "--control-fd <fd>")?),
            Some(Arg::Short('h') | Arg::Long("help")) => typed.page = Some(Page::Help),
            Some(Arg::Short('V') | Arg::Long("version")) => typed.page = Some(Page::Version),
            Some(Arg::Value(word)) if word == "proxy" && typed.text.is_none() => return Err(NO_PROXY.into()),
            Some(Arg::Value(word)) => {
                typed.command.push(word);
                typed.command.extend(words.raw_args().into_iter().flatten());
                return Ok(typed);
            }
            Some(Arg::Short(letter)) => {
                let rest = words.optional_value().unwrap_or_default();
                return Err(unknown(&format!("-{letter}{}", rest.display())));
            }
            Some(Arg::Long(name)) => {
                let name = format!("--{name}");
                let value = words.optional_value().map(|value| format!("={}", value.display()));
                return Err(unknown(&(name + &value.unwrap_or_default())));
            }
        }
    }
}

/// The value of an option, attached to it or the next word, whatever that is.
fn value(words: &mut Parser, option: &str) -> Result<OsString, String> {
    words.value().map_err(|_| format!("option '{option}' argument missing"))
}

/// An option with a value that takes none is another one than that to commander.
fn unexpected_value(error: lexopt::Error) -> String {
    match error {
        lexopt::Error::UnexpectedValue { option, value } => unknown(&format!("{option}={}", value.display())),
        error => error.to_string(),
    }
}

fn unknown(option: &str) -> String {
    format!("unknown option '{option}'")
}

fn run(typed: &Typed) -> Result<i32, String> {
    let command = command(typed)?;
    let folder =
        std::env::current_dir().map_err(|error| format!("reading the working directory: {error}"))?;
    let base = Homes::of_caller(variable).base(folder.clone());
    let debugs = typed.debug || said("SRT_DEBUG").is_some();
    let debug = |message: &str| tell_debug(debugs, message);
    let own = base.home.as_ref().map(|home| home.join(".srt-settings.json"));
    let file = typed.settings.clone().or_else(|| own.clone());
    let trusted = file.as_ref().map(|file| trusted(file, typed.settings.is_some(), &base)).transpose()?;
    let mut settings = trusted.flatten().unwrap_or_else(|| {
        let file = file.as_deref().unwrap_or(Path::new("~/.srt-settings.json"));
        debug(&format!("No config found at {}, using default config", file.display()));
        SrtSettings::default()
    });
    debug("Initializing sandbox...");
    let found = folder.join(".srt-settings.json");
    let is_trusted = |file: &Path| is_same_file(file, &found);
    if !file.as_deref().is_some_and(is_trusted) {
        match settings_file::bytes(&found)
            .map(|text| text.map(|text| parse(&text, ".srt-settings.json", &base)))
        {
            Ok(None) => {}
            Ok(Some(Ok(project))) => {
                debug(".srt-settings.json was found in the working directory: only its denies are applied");
                settings.tighten(project);
            }
            Ok(Some(Err(error))) => say(&format!("srt: note: passed over: {error}")),
            Err(error) => say(&format!("srt: note: passed over: .srt-settings.json: {error}")),
        }
    }
    settings.notes.iter().for_each(|note| debug(note));
    settings.warnings.iter().for_each(|warning| say(&format!("srt: warning: {warning}")));

    let control = typed.control_fd.as_deref().map(|fd| control_lines(fd, debugs)).transpose()?;
    if let Some(fd) = &typed.control_fd {
        debug(&format!("Listening for config updates on fd {}", fd.display()));
    }
    debug(&match &typed.text {
        Some(text) if !text.is_empty() => format!("Command string mode (-c): {}", text.display()),
        _ => format!("Original command: {}", quoted(&typed.command)),
    });
    debug(&network_lists(&settings));
    let files = own.into_iter().chain(typed.settings.as_ref().map(|file| folder.join(file)));
    let mut policy = settings.policy(&surroundings(folder.clone(), base.home, files.collect()));
    // A file that is only on some hosts can be listed.
    policy.network.tls.extra_ca.retain(|file| {
        let holds = has_certificate(file);
        if !holds {
            debug(&format!("network.tlsTerminate.extraCaCertPaths: {} has no certificate", file.display()));
        }
        holds
    });
    if typed.debug {
        policy.environment.set.push(("SRT_DEBUG".into(), "true".into()));
    }
    // Whoever reads standard error for srt's words finds them.
    let advice = "blocked by network allowlist; to allow it, in network.allowedDomains: ";
    Ok(RunAs { policy, command, folder, control, advice, failed: 1 }.go())
}

/// Whether a file has a certificate in PEM.
fn has_certificate(file: &Path) -> bool {
    const START: &[u8] = b"-----BEGIN CERTIFICATE-----";
    let text = settings_file::bytes(file).ok().flatten();
    text.is_some_and(|text| text.windows(START.len()).any(|part| part == START))
}

/// What is run. There, everything goes through bash, so that its built-in commands work as words too.
fn command(typed: &Typed) -> Result<Vec<OsString>, String> {
    let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
    match &typed.text {
        Some(text) if !text.is_empty() => Ok([words(&["bash", "-c"]), vec![text.clone()]].concat()),
        _ if typed.command.is_empty() => {
            Err("No command specified. Use -c <command> or provide command arguments.".to_owned())
        }
        _ => Ok([words(&["bash", "-c", "\"$@\"", "bash"]), typed.command.clone()].concat()),
    }
}

/// The settings that the user has, or named.
fn trusted(file: &Path, named: bool, base: &Base) -> Result<Option<SrtSettings>, String> {
    let name = file.display();
    let refuse = |what: String, lost: &str| {
        Err(format!("{what}\nRefusing to run with the built-in defaults, which would drop {lost}."))
    };
    const RULES: &str = "this file's rules (its denyRead, allowRead and credential entries included)";
    match settings_file::bytes(file) {
        Ok(None) if named => refuse(format!("{name} does not exist."), "the rules --settings asked for"),
        Ok(None) => Ok(None),
        Ok(Some(text)) if text.trim_ascii().is_empty() => {
            refuse(format!("{name} is empty. Delete it, or put a config in it."), RULES)
        }
        Ok(Some(text)) => match parse(&text, &name.to_string(), base) {
            Ok(settings) => Ok(Some(settings)),
            Err(error) => refuse(format!("{name} does not hold a valid config: {error}"), RULES),
        },
        Err(error) => refuse(format!("{name} could not be read ({error})."), RULES),
    }
}

fn surroundings(folder: PathBuf, home: Option<PathBuf>, settings_files: Vec<PathBuf>) -> SrtContext {
    let wanted = ["CLAUDE_CODE_TMPDIR", "CLAUDE_TMPDIR"].into_iter().find_map(said);
    let wanted_tmp = wanted.map(PathBuf::from);
    let shared_tmp = PathBuf::from(SHARED_TMP);
    // A link there may be anybody's.
    let shared_tmp_exists = shared_tmp.symlink_metadata().is_ok_and(|data| data.is_dir());
    let count = variable("GIT_CONFIG_COUNT").and_then(|count| count.to_str()?.parse().ok());
    let git_config_count = count.unwrap_or(0);
    SrtContext { folder, home, wanted_tmp, shared_tmp, shared_tmp_exists, settings_files, git_config_count }
}

/// The lines of a descriptor that whoever started us left open for them.
fn control_lines(typed: &OsStr, debugs: bool) -> Result<ControlLines, String> {
    let shown = typed.display();
    let number: i32 = typed
        .to_str()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|text| text.parse().ok())
        .filter(|fd| *fd > 2)
        .ok_or_else(|| {
            format!(
                "option '--control-fd <fd>' argument '{shown}' is invalid. must be an integer file descriptor >= 3 \
                 (0-2 are stdin, stdout and stderr)."
            )
        })?;
    let file = take_descriptor(number).map_err(|error| {
        format!(
            "--control-fd {number} is not usable: {error}. Refusing to run the command without the control channel it \
             asks for."
        )
    })?;
    // Whoever sends an update has to learn that it was dropped; the words are those that are looked for.
    let complain = move |fault: &ControlFault| match fault {
        ControlFault::Line { error, .. } => say(&format!(
            "Invalid config on control fd {number}: ignored, previous config still in force\nsrt: {error}"
        )),
        ControlFault::Read(error) => say(&format!(
            "Error reading control fd {number}: {error}. The control channel is closed; no further updates will be \
             applied."
        )),
        fault => say(&format!("srt: {fault}")),
    };
    let read = move |line: &[u8]| {
        let lists = lists(line);
        let text = String::from_utf8_lossy(line.trim_ascii_end());
        tell_debug(
            debugs,
            &match lists {
                Ok(_) => format!("Config updated from control fd: {text}"),
                Err(_) => format!("Invalid config on control fd (ignored): {text}"),
            },
        );
        lists
    };
    Ok(ControlLines::new(file.into(), complain).reading(Box::new(read)))
}

/// The network lists of a line.
fn lists(line: &[u8]) -> Result<(Vec<HostRule>, Vec<HostRule>), String> {
    // What it says of files has no effect any more, but has to make sense.
    let home = PathBuf::from("/");
    let base = Base::new("/", Some(home));
    let settings = parse(line, "control line", &base).map_err(|error| error.to_string())?;
    Ok((settings.allowed, settings.denied))
}

/// Says something to whoever wants to know everything.
fn tell_debug(debugs: bool, message: &str) {
    if debugs {
        say(&format!("[SandboxDebug] {message}"));
    }
}

/// A variable that says something.
fn said(name: &str) -> Option<&'static OsStr> {
    variable(name).filter(|value| !value.is_empty())
}

/// The lists of hosts, as srt shows them.
fn network_lists(settings: &SrtSettings) -> String {
    let list = |rules: &[HostRule]| {
        let texts: Vec<String> = rules.iter().map(|rule| format!("    {:?}", rule.to_string())).collect();
        if texts.is_empty() { "[]".to_owned() } else { format!("[\n{}\n  ]", texts.join(",\n")) }
    };
    let denied = match settings.denied.as_slice() {
        [] => String::new(),
        denied => format!(",\n  \"deniedHosts\": {}", list(denied)),
    };
    format!("{{\n  \"allowedHosts\": {}{denied}\n}}", list(&settings.allowed))
}

/// Words as a shell would read them back.
fn quoted(words: &[OsString]) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_./:=@+,-".contains(&byte);
    let quote = |word: &OsString| {
        let text = word.to_string_lossy();
        match !text.is_empty() && !text.starts_with('=') && text.bytes().all(plain) {
            true => text.into_owned(),
            false => format!("'{}'", text.replace('\'', "'\"'\"'")),
        }
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Typed {
        typed(words.iter().map(OsString::from)).unwrap()
    }

    #[test]
    fn the_first_word_that_is_no_option_ends_them() {
        let python = of(&["python3", "-c", "print(1)"]);
        assert_eq!(python.command, ["python3", "-c", "print(1)"]);
        assert_eq!(python.text, None);
        assert!(!of(&["ls", "-d"]).debug);
        let dashed = of(&["-d", "--", "-s", "x"]);
        assert!(dashed.debug && dashed.settings.is_none());
        assert_eq!(dashed.command, ["-s", "x"]);
    }

    #[test]
    fn the_proxy_alone_is_no_command() {
        for words in [&["proxy"][..], &["-d", "proxy", "--listen", "127.0.0.1:0"]] {
            assert!(typed(words.iter().map(OsString::from)).unwrap_err().contains("not supported"));
        }
        assert_eq!(of(&["./proxy"]).command, ["./proxy"]);
        assert_eq!(of(&["env", "proxy"]).command, ["env", "proxy"]);
        assert_eq!(of(&["-c", "proxy"]).text.unwrap(), "proxy");
    }

    #[test]
    fn options_have_values_behind_them_or_attached() {
        let one = of(&["-s", "a.json", "--control-fd", "5", "-c", "echo '!'"]);
        assert_eq!(one, of(&["--settings=a.json", "--control-fd=5", "-c", "echo '!'"]));
        assert_eq!(one.text.unwrap(), "echo '!'");
        assert!(typed(["-s"].iter().map(OsString::from)).is_err());
    }

    #[test]
    fn short_options_can_share_a_word() {
        let one = of(&["-dsa.json", "-cecho", "x"]);
        assert!(one.debug);
        assert_eq!((one.settings, one.text), (Some("a.json".into()), Some("echo".into())));
        assert_eq!(of(&["-c=x"]).text.unwrap(), "=x");
        // A value is taken as it is.
        assert_eq!(of(&["-s", "--", "x"]).settings, Some("--".into()));
        assert_eq!(of(&["-c", "-d"]).text.unwrap(), "-d");
    }

    #[test]
    fn an_option_that_is_unknown_is_shown_whole() {
        for (word, shown) in [
            ("--nonsense", "--nonsense"),
            ("--nonsense=x=y", "--nonsense=x=y"),
            ("--debug=x", "--debug=x"),
            ("-xyz", "-xyz"),
            ("-dx", "-x"),
        ] {
            let error = typed([word, "ls"].map(OsString::from)).unwrap_err();
            assert_eq!(error, format!("unknown option '{shown}'"));
        }
        assert_eq!(of(&["-", "x"]).command, ["-", "x"]);
    }

    #[test]
    fn words_reach_bash_as_they_are() {
        let words = command(&of(&["echo", "a b", "$x"])).unwrap();
        assert_eq!(words, ["bash", "-c", "\"$@\"", "bash", "echo", "a b", "$x"]);
        assert_eq!(command(&of(&["-c", "a | b"])).unwrap(), ["bash", "-c", "a | b"]);
        assert!(command(&of(&["-d"])).is_err());
    }
}
