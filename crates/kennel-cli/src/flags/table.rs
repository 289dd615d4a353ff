//! Every command and every flag, once.

use kennel_policy::profiles;
use kennel_policy::settings::keys::{self, Kind};

/// One command of kennel.
#[derive(Debug)]
pub struct Command {
    /// Its name.
    pub name: &'static str,
    /// What follows the name.
    pub usage: &'static str,
    /// What it does, in one line.
    pub help: &'static str,
    /// What it does, in a paragraph.
    pub doc: &'static str,
    /// The flags it takes beside `--help`.
    pub takes: &'static [Scope],
}

/// Which flags belong together because the same commands take them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// What says how to run a command.
    Run,
    /// `--json`
    Json,
    /// `--help`
    Help,
    /// `--version`
    Top,
}

/// One flag.
#[derive(Debug)]
pub struct Flag {
    /// Its name, without the dashes.
    pub name: &'static str,
    /// Its short name.
    pub short: Option<char>,
    /// What its value is called; `None` if it takes none.
    pub value: Option<&'static str>,
    /// A word that may be attached to a flag without a value: `--flag=word`.
    pub attached: Option<&'static str>,
    /// What it does.
    pub effect: Effect,
    /// Which commands take it.
    pub scope: Scope,
    /// Under which heading it is shown.
    pub section: &'static str,
    /// Whether each use adds to the ones before, instead of replacing them.
    pub repeatable: bool,
    /// What it does, in one line.
    pub help: &'static str,
    /// What else there is to know.
    pub doc: &'static str,
}

/// What a flag does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Says a setting, with the flag's value.
    Says(&'static str),
    /// Says a setting, with this value.
    SaysWord(&'static str, &'static str),
    /// Keeps a descriptor open.
    KeepFd,
    /// Adds a settings file.
    SettingsFile,
    /// Leaves settings files alone.
    NoSettings,
    /// Names the report's file.
    Report,
    /// Names the descriptor that new rules come by.
    ControlFd,
    /// Tells what was used.
    Stats,
    /// Says less.
    Quiet,
    /// Says more.
    Verbose,
    /// Prints JSON.
    Json,
    /// Prints help.
    Help,
    /// Prints the version.
    Version,
}

/// What a shell can offer for a flag's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Nothing.
    Nothing,
    /// Files.
    Files,
    /// Folders.
    Folders,
    /// Names of variables.
    Variables,
    /// These words.
    Words(Vec<&'static str>),
}

impl Flag {
    /// What a shell can offer for its value.
    pub fn offer(&self) -> Offer {
        match self.effect {
            Effect::Says(key) => match keys::find(key).map(|key| &key.kind) {
                Some(Kind::Choice(choices)) => Offer::Words(choices.words()),
                Some(Kind::Profile(_)) => Offer::Words(profiles::NAMES.to_vec()),
                Some(Kind::Paths(..) | Kind::Mounts(_)) => Offer::Files,
                Some(Kind::Folder(_)) => Offer::Folders,
                Some(Kind::Names(_)) => Offer::Variables,
                _ => Offer::Nothing,
            },
            Effect::SettingsFile | Effect::Report => Offer::Files,
            _ => Offer::Nothing,
        }
    }
}

impl Command {
    /// The flags that the command takes.
    pub fn flags(&self) -> impl Iterator<Item = &'static Flag> {
        FLAGS.iter().filter(|flag| flag.scope == Scope::Help || self.takes.contains(&flag.scope))
    }
}

/// The headings, in the order of the help.
pub const SECTIONS: [&str; 7] =
    ["Files", "Network", "Limits", "Environment", "Process", "Settings", "Output"];

pub static COMMANDS: &[Command] = &[
    Command {
        name: "run",
        usage: "[FLAGS] [--] COMMAND [ARGS…]",
        help: "Run a command in a sandbox",
        doc: "Runs COMMAND so that it can do only what the settings and flags allow. Unless something else is said it \
              can read the file system, write nowhere but a fresh /tmp, and reach no network. The first word that is \
              not a flag, or everything after --, is the command.",
        takes: &[Scope::Run],
    },
    Command {
        name: "plan",
        usage: "[FLAGS] [--] COMMAND [ARGS…]",
        help: "Show what `run` would do, without doing it",
        doc: "Prints, in order, the steps that `kennel run` with the same flags would take, and the rule behind each.",
        takes: &[Scope::Run, Scope::Json],
    },
    Command {
        name: "srt",
        usage: "[-d] [-s FILE] [-c TEXT] [--control-fd N] [--] COMMAND [ARGUMENT]…",
        help: "Do as srt does: its command line, its settings",
        doc: "Takes the words and the settings of Anthropic's sandbox runtime, as does kennel itself when it is called by \
              the name srt (a link is enough). docs/compat-srt.md lists what is better.",
        takes: &[],
    },
    Command {
        name: "codex-linux-sandbox",
        usage: "--sandbox-policy-cwd DIR POLICY [--] COMMAND [ARGUMENT]…",
        help: "Do as Codex's helper does: its command line, its policies",
        doc: "Takes the words of codex-linux-sandbox of every line of releases, as does kennel itself when it is called by \
              that name (a link is enough). docs/compat-codex.md lists what is better.",
        takes: &[],
    },
    Command {
        name: "doctor",
        usage: "[--json]",
        help: "Say what this host can enforce, and what to do about the rest",
        doc: "Looks for everything that a sandbox needs from the kernel and the system. Fails if something is missing \
              without which `kennel run` would refuse to start.",
        takes: &[Scope::Json],
    },
    Command {
        name: "schema",
        usage: "",
        help: "Print the JSON Schema of the settings",
        doc: "Prints the JSON Schema (draft 2020-12) of kennel's settings, for editors and checks.",
        takes: &[],
    },
    Command {
        name: "completions",
        usage: "bash|zsh|fish",
        help: "Print completions for a shell",
        doc: "Prints a script that makes the shell complete kennel's commands, flags and their values.",
        takes: &[],
    },
    Command {
        name: "man",
        usage: "",
        help: "Print the manual page",
        doc: "Prints the manual page as roff: kennel man | man -l -",
        takes: &[],
    },
    Command {
        name: "help",
        usage: "[COMMAND]",
        help: "Show help, of one command or of all",
        doc: "Shows the same as --help.",
        takes: &[],
    },
    Command { name: "version", usage: "", help: "Print the version", doc: "Prints the version.", takes: &[] },
];

const RUN: Flag = Flag {
    name: "",
    short: None,
    value: None,
    attached: None,
    effect: Effect::Help,
    scope: Scope::Run,
    section: "",
    repeatable: false,
    help: "",
    doc: "",
};

pub static FLAGS: &[Flag] = &[
    Flag {
        name: "allow-write",
        value: Some("PATH"),
        effect: Effect::Says("files.allow_write"),
        section: "Files",
        repeatable: true,
        help: "Let the command write PATH and everything below",
        doc: "PATH is a path or a glob (* ? [a-z] within a name, ** for any number of folders); a leading ~ is the \
              home folder. A path that does not exist is an error.",
        ..RUN
    },
    Flag {
        name: "deny-write",
        value: Some("PATH"),
        effect: Effect::Says("files.deny_write"),
        section: "Files",
        repeatable: true,
        help: "Keep PATH read-only inside what can be written",
        doc: "The most specific rule about a path wins, and at a tie the one that denies.",
        ..RUN
    },
    Flag {
        name: "git",
        value: Some("LEVEL"),
        effect: Effect::Says("files.git"),
        section: "Files",
        help: "Keep what git on the host would run: metadata-read-only, hooks-and-config-read-only, hooks-read-only or off",
        doc: "With hooks-and-config-read-only, hooks, configuration, attributes and what they name stay as they are, and \
              commits work; hooks-read-only leaves out the configuration; with metadata-read-only nothing of .git can be \
              written or made. It holds for every repository in what can be written, submodules and worktrees included. \
              A path that --allow-write names itself is writable all the same.",
        ..RUN
    },
    Flag {
        name: "on-replace",
        value: Some("ACTION"),
        effect: Effect::Says("files.on_replace"),
        section: "Files",
        help: "When the host replaces a denied path during the run: mend (protect the new file) or end",
        doc: "A mount protects a file, and a rule is about a name. When a program outside replaces the file by rename, as \
              editors and git do, the kernel takes the mount off. With mend, the new file is protected within a \
              millisecond or so, and the report says that it was exposed; with end, the sandbox is killed too, and \
              kennel exits with 123.",
        ..RUN
    },
    Flag {
        name: "protect-dotfiles",
        effect: Effect::SaysWord("files.protect_dotfiles", "true"),
        section: "Files",
        help: "Keep shell start-up files and the settings of editors and agents read-only in what can be written",
        doc: "Programs outside run what such files say, as soon as a folder is opened or a shell starts. The profile agent \
              says this.",
        ..RUN
    },
    Flag {
        name: "allow-dotfiles",
        effect: Effect::SaysWord("files.protect_dotfiles", "false"),
        section: "Files",
        help: "Let the command write such files, although a profile protects them",
        ..RUN
    },
    Flag {
        name: "refuse-home",
        effect: Effect::SaysWord("files.refuse_home", "true"),
        section: "Files",
        help: "Refuse to start if a home folder, or a folder above one, can be written",
        doc: "The profile agent says this.",
        ..RUN
    },
    Flag {
        name: "allow-home",
        effect: Effect::SaysWord("files.refuse_home", "false"),
        section: "Files",
        help: "Start even so",
        ..RUN
    },
    Flag {
        name: "precedence",
        value: Some("RULE"),
        effect: Effect::Says("files.precedence"),
        section: "Files",
        help: "Which rule about a path wins: specific or deny-write",
        doc: "With specific, the most specific one. With deny-write, a --deny-write holds for everything below it, \
              whatever is allowed there, and what --deny-read and --allow-read both name can be read.",
        ..RUN
    },
    Flag {
        name: "deny-read",
        value: Some("PATH"),
        effect: Effect::Says("files.deny_read"),
        section: "Files",
        repeatable: true,
        help: "Hide PATH and everything below",
        doc: "No rule about writing undoes this; only a more specific --allow-read does.",
        ..RUN
    },
    Flag {
        name: "allow-read",
        value: Some("PATH"),
        effect: Effect::Says("files.allow_read"),
        section: "Files",
        repeatable: true,
        help: "Let the command read PATH inside what is hidden",
        doc: "Under --reads listed, this is how to list what can be read. There a path that does not exist is an \
              error; otherwise it is skipped.",
        ..RUN
    },
    Flag {
        name: "reads",
        value: Some("open|listed"),
        effect: Effect::Says("files.reads"),
        section: "Files",
        help: "What can be read when no rule speaks of it: all, or only what is listed",
        doc: "With listed, only what --allow-read, --allow-write and --mount name exists inside, and a minimal system \
              set (/usr, /bin, /lib*, parts of /etc).",
        ..RUN
    },
    Flag {
        name: "no-system",
        effect: Effect::SaysWord("files.system", "false"),
        section: "Files",
        help: "Leave the minimal system set out of listed reads",
        ..RUN
    },
    Flag {
        name: "mount",
        value: Some("SRC:DST[:rw]"),
        effect: Effect::Says("files.mounts"),
        section: "Files",
        repeatable: true,
        help: "Show the host's SRC at DST inside, read-only unless :rw is said",
        doc: "A path that holds a colon can be given in a settings file.",
        ..RUN
    },
    Flag {
        name: "tmpfs",
        value: Some("DST[:SIZE]"),
        effect: Effect::Says("files.tmpfs"),
        section: "Files",
        repeatable: true,
        help: "Put a fresh writable folder, in memory, at DST",
        ..RUN
    },
    Flag {
        name: "host-tmp",
        effect: Effect::SaysWord("files.tmp", "host"),
        section: "Files",
        help: "Use the host's /tmp, under the same rules as any folder, instead of a fresh one",
        ..RUN
    },
    Flag {
        name: "host-run",
        effect: Effect::SaysWord("files.host_run", "true"),
        section: "Files",
        help: "Show the host's /run, where most of its daemons listen",
        ..RUN
    },
    Flag {
        name: "device",
        value: Some("PATH"),
        effect: Effect::Says("files.devices"),
        section: "Files",
        repeatable: true,
        help: "Add a device of the host's /dev, such as /dev/kvm",
        ..RUN
    },
    Flag {
        name: "net",
        value: Some("none|host|allow-list"),
        effect: Effect::Says("network.mode"),
        section: "Network",
        help: "No network, the host's, or only allowed hosts",
        doc: "Unless said, there is none, or an allow list as soon as --allow-domain is given.",
        ..RUN
    },
    Flag {
        name: "allow-domain",
        value: Some("HOST"),
        effect: Effect::Says("network.allow"),
        section: "Network",
        repeatable: true,
        help: "Let the command reach HOST",
        doc: "HOST is a name, *.suffix (which leaves out the suffix itself), an address or a network such as \
              10.0.0.0/8; each with :port for that port only. On a connection to a name the gate carries TLS and HTTP for \
              that name, and a few other protocols on their own ports. tcp://HOST:PORT carries any bytes; \
              postgres://HOST:PORT and its like carry that protocol on another port.",
        ..RUN
    },
    Flag {
        name: "deny-domain",
        value: Some("HOST"),
        effect: Effect::Says("network.deny"),
        section: "Network",
        repeatable: true,
        help: "Refuse HOST even if it is allowed; * is every host",
        ..RUN
    },
    Flag {
        name: "ask",
        effect: Effect::SaysWord("network.ask", "true"),
        section: "Network",
        help: "Ask on the terminal about hosts that no rule speaks of",
        doc: "Without an answer within a minute the host is refused, and without a terminal there is nobody to ask. \
              Implies --net allow-list.",
        ..RUN
    },
    Flag {
        name: "ask-timeout",
        value: Some("TIME"),
        effect: Effect::Says("network.ask_timeout"),
        section: "Network",
        help: "How long an answer to --ask may take before it is a no",
        ..RUN
    },
    Flag {
        name: "allow-sni-mismatch",
        effect: Effect::SaysWord("network.allow_sni_mismatch", "true"),
        section: "Network",
        help: "Let TLS and HTTP name another host than the one connected to",
        doc: "Many hosts share one address, and a server goes by the name that it is told: an allowed host may then lead \
              to others (domain fronting).",
        ..RUN
    },
    Flag {
        name: "allow-ech",
        effect: Effect::SaysWord("network.allow_ech", "true"),
        section: "Network",
        help: "Let TLS clients encrypt the server's name, as browsers do",
        doc: "With an encrypted ClientHello (ECH) the name cannot be compared with the host connected to. Chromium and \
              Firefox always send one, also where the server has no use for it.",
        ..RUN
    },
    Flag {
        name: "publish",
        value: Some("[HOST:]INSIDE"),
        effect: Effect::Says("network.publish"),
        section: "Network",
        repeatable: true,
        help: "Make port INSIDE of the sandbox port HOST of the host's loopback",
        doc: "Reached at 127.0.0.1 and ::1 by every user of the host, and from nowhere else. HOST is INSIDE unless \
              said; 0 is any free port, which is then told.",
        ..RUN
    },
    Flag {
        name: "parent-proxy",
        value: Some("URL"),
        effect: Effect::Says("network.parent_proxy"),
        section: "Network",
        help: "Go out by this HTTP proxy, instead of the one in HTTP_PROXY and HTTPS_PROXY",
        doc: "The word none leaves those variables alone. NO_PROXY, or network.no_proxy, names the hosts that are \
              reached without it. A password belongs into a settings file or the variables: others see arguments.",
        ..RUN
    },
    Flag {
        name: "no-proxy",
        value: Some("HOSTS"),
        effect: Effect::Says("network.no_proxy"),
        section: "Network",
        help: "Reach HOSTS without that proxy, instead of those in NO_PROXY",
        doc: "Names with all below them, addresses and networks, each with :port or without; commas between.",
        ..RUN
    },
    Flag {
        name: "http-proxy-port",
        value: Some("PORT"),
        effect: Effect::Says("network.http_proxy_port"),
        section: "Network",
        help: "Let the HTTP proxy at this port of the host's loopback decide in kennel's place",
        doc: "For programs that use the proxy variables; plain connections still go by kennel's rules.",
        ..RUN
    },
    Flag {
        name: "socks-proxy-port",
        value: Some("PORT"),
        effect: Effect::Says("network.socks_proxy_port"),
        section: "Network",
        help: "The same for a SOCKS proxy",
        ..RUN
    },
    Flag {
        name: "control-fd",
        value: Some("N"),
        effect: Effect::ControlFd,
        section: "Network",
        help: "Take new lists of hosts from descriptor N while the command runs",
        doc: "Each line is a whole JSON settings object; its network.allow and network.deny hold for the next connection \
              in place of the old ones. A line that makes no sense is reported and changes nothing. The command itself \
              does not get the descriptor. Needs an allow list: --net allow-list, if there is nothing to allow yet.",
        ..RUN
    },
    Flag {
        name: "unix-sockets",
        value: Some("none|listed|all"),
        effect: Effect::Says("network.unix_sockets"),
        section: "Network",
        help: "Whether the command can make unix sockets",
        doc: "The host's daemons (Docker, D-Bus, ssh-agent) listen on unix sockets, and a read-only mount does not \
              keep a program from connecting to them. Unless said, there are none, or the listed ones as soon as \
              --allow-unix-socket is given.",
        ..RUN
    },
    Flag {
        name: "allow-unix-socket",
        value: Some("PATH"),
        effect: Effect::Says("network.allow_unix_sockets"),
        section: "Network",
        repeatable: true,
        help: "Let the command connect to the unix socket PATH of the host",
        ..RUN
    },
    Flag {
        name: "memory",
        value: Some("SIZE"),
        effect: Effect::Says("limits.memory"),
        section: "Limits",
        help: "Memory for everything inside together, such as 512M",
        doc: "A SIZE is in bytes or with K, M, G or T, which are powers of 1024. The word unlimited takes a limit of \
              a profile or a settings file away.",
        ..RUN
    },
    Flag {
        name: "swap",
        value: Some("SIZE"),
        effect: Effect::Says("limits.swap"),
        section: "Limits",
        help: "Swap on top of --memory; none unless said",
        ..RUN
    },
    Flag {
        name: "cpus",
        value: Some("N"),
        effect: Effect::Says("limits.cpus"),
        section: "Limits",
        help: "CPUs' worth of time: 1.5 is one and a half",
        ..RUN
    },
    Flag {
        name: "timeout",
        value: Some("TIME"),
        effect: Effect::Says("limits.timeout"),
        section: "Limits",
        help: "Kill everything inside after TIME, such as 30s or 1m30s",
        doc: "A TIME is in seconds or with ms, s, m, h or d. The exit status is then 124.",
        ..RUN
    },
    Flag {
        name: "cpu-time",
        value: Some("TIME"),
        effect: Effect::Says("limits.cpu_time"),
        section: "Limits",
        help: "CPU time of one process",
        ..RUN
    },
    Flag {
        name: "pids",
        value: Some("N"),
        effect: Effect::Says("limits.pids"),
        section: "Limits",
        help: "Processes and threads at once",
        ..RUN
    },
    Flag {
        name: "open-files",
        value: Some("N"),
        effect: Effect::Says("limits.open_files"),
        section: "Limits",
        help: "Open descriptors of one process",
        ..RUN
    },
    Flag {
        name: "file-size",
        value: Some("SIZE"),
        effect: Effect::Says("limits.file_size"),
        section: "Limits",
        help: "The largest file that can be written",
        ..RUN
    },
    Flag {
        name: "max-output",
        value: Some("SIZE"),
        effect: Effect::Says("limits.output"),
        section: "Limits",
        help: "Captured output, of each stream",
        ..RUN
    },
    Flag {
        name: "tmp-size",
        value: Some("SIZE"),
        effect: Effect::Says("limits.tmp_size"),
        section: "Limits",
        help: "The fresh /tmp and /dev/shm together",
        ..RUN
    },
    Flag {
        name: "env",
        value: Some("NAME=VALUE"),
        effect: Effect::Says("environment.set"),
        section: "Environment",
        repeatable: true,
        help: "Set a variable",
        doc: "Everyone on the host can see arguments; --pass-env does not show the value.",
        ..RUN
    },
    Flag {
        name: "pass-env",
        value: Some("NAME"),
        effect: Effect::Says("environment.pass"),
        section: "Environment",
        repeatable: true,
        help: "Pass a variable on even with --clear-env",
        ..RUN
    },
    Flag {
        name: "unset-env",
        value: Some("NAME"),
        effect: Effect::Says("environment.unset"),
        section: "Environment",
        repeatable: true,
        help: "Never pass a variable on",
        ..RUN
    },
    Flag {
        name: "clear-env",
        effect: Effect::SaysWord("environment.clear", "true"),
        section: "Environment",
        help: "Pass on only PATH, HOME, USER, LANG, TERM and the like",
        ..RUN
    },
    Flag {
        name: "workdir",
        short: Some('C'),
        value: Some("DIR"),
        effect: Effect::Says("process.workdir"),
        section: "Process",
        help: "Start the command in DIR",
        doc: "Relative paths of other flags stay relative to where kennel was called.",
        ..RUN
    },
    Flag {
        name: "user",
        value: Some("self|root"),
        effect: Effect::Says("process.user"),
        section: "Process",
        help: "Who the command is inside",
        doc: "root is user 0 of the sandbox's own user namespace: it is the caller outside, and has no capabilities.",
        ..RUN
    },
    Flag {
        name: "hostname",
        value: Some("NAME"),
        effect: Effect::Says("process.hostname"),
        section: "Process",
        help: "The host name inside",
        ..RUN
    },
    Flag {
        name: "seccomp",
        value: Some("PROFILE"),
        effect: Effect::Says("process.seccomp"),
        section: "Process",
        help: "Which system calls it can make: strict, default, permissive or none",
        ..RUN
    },
    Flag {
        name: "keep-fd",
        value: Some("N"),
        effect: Effect::KeepFd,
        section: "Process",
        repeatable: true,
        help: "Keep descriptor N open; all others above 2 are closed",
        ..RUN
    },
    Flag {
        name: "profile",
        value: Some("NAME"),
        effect: Effect::Says("profile"),
        section: "Settings",
        help: "Start from a built-in profile: default, judge, agent, build or data",
        ..RUN
    },
    Flag {
        name: "settings",
        short: Some('s'),
        value: Some("FILE"),
        effect: Effect::SettingsFile,
        section: "Settings",
        repeatable: true,
        help: "Read settings from FILE, in TOML or JSON",
        doc: "Later files override earlier ones, and flags override files. A kennel.toml or kennel.json in the \
              directory the command starts in is read without being asked, but can only tighten; name it here to \
              trust it.",
        ..RUN
    },
    Flag {
        name: "no-settings",
        effect: Effect::NoSettings,
        section: "Settings",
        help: "Read neither your own settings file nor the working directory's",
        ..RUN
    },
    Flag {
        name: "best-effort",
        effect: Effect::SaysWord("best_effort", "true"),
        section: "Settings",
        help: "Go on without what this host cannot enforce, and say what that was",
        ..RUN
    },
    Flag {
        name: "report",
        value: Some("FILE"),
        effect: Effect::Report,
        section: "Output",
        help: "Write the outcome to FILE, as JSON",
        ..RUN
    },
    Flag {
        name: "stats",
        attached: Some("live"),
        effect: Effect::Stats,
        section: "Output",
        help: "Tell at the end, on standard error, what was used; with =live also meanwhile",
        doc: "Time, CPU time, the most memory and processes at once, and how many processes were killed because memory \
              ran out. Without a limit, memory and processes are counted where that takes no more than a cgroup of \
              one's own. With =live, and if standard error is a terminal, its last row shows the figures while the \
              command runs.",
        ..RUN
    },
    Flag {
        name: "quiet",
        short: Some('q'),
        effect: Effect::Quiet,
        section: "Output",
        help: "Say nothing but errors",
        ..RUN
    },
    Flag {
        name: "verbose",
        short: Some('v'),
        effect: Effect::Verbose,
        section: "Output",
        help: "Say each step of the set-up and the rule behind it",
        ..RUN
    },
    Flag {
        name: "json",
        effect: Effect::Json,
        scope: Scope::Json,
        section: "Output",
        help: "Print JSON",
        ..RUN
    },
    Flag {
        name: "help",
        short: Some('h'),
        effect: Effect::Help,
        scope: Scope::Help,
        section: "Output",
        help: "Show this help",
        ..RUN
    },
    Flag {
        name: "version",
        short: Some('V'),
        effect: Effect::Version,
        scope: Scope::Top,
        section: "Output",
        help: "Print the version",
        ..RUN
    },
];
